"""Which arrays of some files are images, and which are their labels.

The names of files and arrays are all that tells it. CIFAR-10.1
(https://github.com/modestyachts/CIFAR-10.1) has ``cifar10.1_v6_data.npy`` and
``cifar10.1_v6_labels.npy``, MedMNIST (https://github.com/MedMNIST/MedMNIST) one ``.npz`` with
``train_images``, ``train_labels``, ``val_images`` and so on, Keras ``x_train`` and ``y_train``,
KMNIST ``kmnist-train-imgs.npz`` and ``kmnist-train-labels.npz``, each with ``arr_0``. QuickDraw
(https://github.com/googlecreativelab/quickdraw-dataset) has a file for each class, with rows of
784 pixels. STL-10 (https://cs.stanford.edu/~acoates/stl10) has ``train_X.bin`` and ``train_y.bin``:
bytes and nothing else, the pixels as MATLAB has them, and labels from 1.

An array of images has bytes, and the shape N x H x W, N x H x W x C or N x C x H x W.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from struct import calcsize

from dsprep.errors import OptionError, SourceError
from dsprep.images.pixels import Shape, parse_shape, shape_of
from dsprep.places.names import SPLITS
from dsprep.places.zip import Packed
from dsprep.sample import image_kind_of
from dsprep.schema import Choice
from dsprep.sources.kind import SourcePlace
from dsprep.sources.mat_file import variables
from dsprep.sources.tables.array_files import HDF5, MATLAB, PACKED_HDF5, STL10, may_hold_arrays
from dsprep.sources.tables.arrays import (
    Array,
    Bytes,
    Plain,
    ZippedArray,
    bytes_of,
    opened_arrays,
    read_header,
    zipped_arrays,
)
from dsprep.sources.tables.hdf5 import H5Array, h5_arrays, h5_values
from dsprep.storage.files import OpenFile
from dsprep.storage.stored import Facts
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some

_NESTED = (".npz", *HDF5, *PACKED_HDF5)

SVHN = re.compile(r"(train|test|extra)_32x32")
"""The names of SVHN's files of digits (http://ufldl.stanford.edu/housenumbers)."""


OBJECTS = "O"
"""The code of items of MATLAB that are no numbers."""

_MATLAB_HDF5 = b"MATLAB 7.3"  # what files of this version begin with
_LEAST_EDGE = 8  # pixels; smaller arrays are rather numbers
_CHANNELS = (1, 3, 4)
_STL10_SIZES = (96, 96, 3)
_QUICKDRAW = re.compile(r"numpy_bitmap|quick_?draw", re.IGNORECASE)
_QUICKDRAW_SHAPE = Shape(28, 28, 1)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_IMAGES = frozenset(
    ("x", "xs", "image", "images", "img", "imgs", "data", "pixels", "input", "inputs", "bitmap")
)
_LABELS = frozenset(("y", "ys", "label", "labels", "target", "targets", "class", "classes", "ans"))
CLASS_NAMES = frozenset(("class", "classes", "names", "categories"))
_MASKS = frozenset(("mask", "masks", "seg", "segmentation", "segmentations"))


def words_in(name: str) -> list[str]:
    """Return the words of a name, in lower case."""
    return [word.lower() for word in _WORD.findall(name)]


class NamedArray(NamedTuple):
    """An array with what its names say of it."""

    path: str  # the file, or the archive
    state: Facts
    file: str  # the path of its file below SOURCE, without its extension
    array: Array
    is_alone: bool  # whether its file holds one array, so that its name says nothing
    h5: H5Array | None = None  # for HDF5
    is_turned: bool = False  # whether columns of pixels lie where rows do, as MATLAB has them

    @property
    def where(self) -> str:
        """The file and the array, for messages."""
        is_file = os.path.splitext(os.path.basename(self.path))[0] == self.file
        return self.path if self.is_alone and is_file else f"{self.path}: {self.array.name}"

    @property
    def words(self) -> list[str]:
        return words_in(self.file if self.is_alone else f"{self.file} {self.array.name}")

    @property
    def side(self) -> str:
        """The side that its names tell; empty if they tell none, or several."""
        if of_svhn := SVHN.fullmatch(self.file):
            return of_svhn[1]
        if of_stl10 := STL10.fullmatch(os.path.basename(self.path)):
            return of_stl10[1]
        found = {SPLITS[word] for word in self.words if word in SPLITS}
        return found.pop() if len(found) == 1 else ""

    @property
    def rest(self) -> list[str]:
        """What its names say besides the side and what it holds."""
        told = _IMAGES | _LABELS | SPLITS.keys()
        return sorted(word for word in self.words if word not in told)

    def is_called(self, words: frozenset[str]) -> bool:
        return not words.isdisjoint(self.words)

    def is_named(self, name: str) -> bool:
        """Return whether the user means it by a name, which may leave out the side."""
        return {*words_in(name)} <= {*self.words}

    @contextmanager
    def opened(self) -> Iterator[tuple[Array, Bytes]]:
        """Open a small array: where its items lie, and in which bytes."""
        with opened_arrays(self.path) as file:
            if self.h5 is None:
                yield self.array, bytes_of(file, self.array)
                return
            with h5_values(self.path, file, self.h5) as found:
                yield found


def shape_in(found: NamedArray, choice: Choice, of_quickdraw: bool = False) -> Shape | None:
    """Return the shape of the images of an array; None if it holds other things.

    In files ``of_quickdraw``, rows of 784 bytes are images.
    """
    array = found.array
    sizes = array.shape[1:]
    if array.code != "B" or not sizes or not array.shape[0] or found.is_called(_MASKS):
        return None
    if choice.image is not None and not found.is_named(choice.image):
        return None
    if choice.raw_image:
        given = parse_shape(choice.raw_image)
        return given if prod(sizes) == given.bytes else None
    if sizes == (784,) and of_quickdraw:
        return _QUICKDRAW_SHAPE
    if found.is_called(_LABELS) or len(sizes) not in (2, 3):
        return None
    shape = shape_of(*sizes, planes=None if len(sizes) == 3 else False)
    if shape is None or shape.channels not in _CHANNELS:
        return None
    # an array of one image looks like a few gray images
    is_one = len(sizes) == 2 and array.shape[0] in _CHANNELS and not found.is_called(_IMAGES)
    return None if is_one or min(shape.height, shape.width) < _LEAST_EDGE else shape


# Files


def are_of_quickdraw(found: Iterable[NamedArray]) -> bool:
    """Return whether arrays are those of QuickDraw, by the names of some or of their directory."""
    return any(_QUICKDRAW.search(f"{each.path}/{each.file}") for each in found)


def files_at(place: SourcePlace) -> list[str]:
    """Return the files at a place that may hold arrays of images, by their names."""
    if not place.is_dir:
        own = [file for file in place.files if may_hold_arrays(file) or file.endswith(".zip")]
        return own if len(own) == len(place.files) else []
    names = (entry.name for entry in place.entries if may_hold_arrays(entry.name))
    return [place.join(name) for name in sorted(names) if not name.startswith(".")]


def arrays_in(path: str) -> tuple[list[NamedArray], list[ZippedArray], list[str]]:
    """Return the arrays of a file, those of them that are members of a zip, and other members."""
    file, extension = os.path.splitext(os.path.basename(path))
    if path.lower().endswith(PACKED_HDF5):
        raise SourceError(f"{path}: is compressed: unpack it first, with gunzip")
    with opened_arrays(path) as opened:
        state = opened.facts()
        if of_stl10 := STL10.fullmatch(os.path.basename(path)):
            return [_of_stl10(path, state, is_images=of_stl10[2] == "X")], [], []
        if extension.lower() in HDF5:
            arrays = h5_arrays(path, opened)
            is_one = len(arrays) == 1
            return [NamedArray(path, state, file, h5.array, is_one, h5) for h5 in arrays], [], []
        if extension.lower() == MATLAB:
            return [*_of_matlab(path, file, opened)], [], []
        if extension.lower() == ".npy":
            array = read_header(path, Plain(opened), 0, state.size, None)
            return [NamedArray(path, state, file, array._replace(name=file), True)], [], []
        members, others = zipped_arrays(path, opened, passes_objects=True)
    lost = [name for name in others if name.endswith(".npy")]
    if lost := [name for name in lost if not _LABELS.isdisjoint(words_in(name))]:
        raise SourceError(
            f"{path}: {lost[0]} has objects, which are pickles that dsprep does not open: save "
            "numbers or texts"
        )
    nested = [name for name in others if name.lower().endswith(_NESTED)]
    if nested and not any(map(image_kind_of, others)):
        raise SourceError(f"{path}: holds {nested[0]}, which is read from a file: unpack the zip")
    found = []
    for array, _, _ in members:
        if extension.lower() == ".npz":
            found.append(NamedArray(path, state, file, array, len(members) == 1))
        else:
            found.append(NamedArray(path, state, array.name, array, True))
    return found, members, others


def _of_stl10(path: str, state: Facts, is_images: bool) -> NamedArray:
    """Return the array that a file of STL-10 is."""
    file = os.path.splitext(os.path.basename(path))[0]
    sizes = _STL10_SIZES if is_images else ()
    count, rest = divmod(state.size, prod(sizes))
    if rest or not count:
        raise SourceError(
            f"{path}: has {state.size:,} bytes, no multiple of {prod(sizes):,}; download it again"
        )
    array = Array(file, "<", "B", 1, (count, *sizes), False, 0, None)
    return NamedArray(path, state, file, array, True, is_turned=is_images)


def _of_matlab(path: str, file: str, opened: OpenFile) -> Iterator[NamedArray]:
    """Yield the variables of a file of MATLAB, in which N images are H x W x C x N."""
    state = opened.facts()
    if opened.pread(len(_MATLAB_HDF5), 0) == _MATLAB_HDF5:
        for h5 in h5_arrays(path, opened):
            array, is_turned = _upright(h5.array, h5.array.shape[::-1])
            yield NamedArray(path, state, file, array, False, h5, is_turned)
        return
    read = Plain(opened).read
    for found in variables(read, state.size, path):
        # a stream of zlib has two bytes before the deflated ones
        packed = Packed(found.start + 2, found.size - 2, True, ()) if found.is_packed else None
        code, size = (found.code, calcsize(f"={found.code}")) if found.code else (OBJECTS, 0)
        array = Array(
            *(found.name, found.order, code, size, found.shape, True, found.numbers, packed)
        )
        array, is_turned = _upright(array, found.shape) if found.is_bytes else (array, False)
        yield NamedArray(path, state, file, array, False, None, is_turned)


def _upright(array: Array, shape: tuple[int, ...]) -> tuple[Array, bool]:
    """Return an array of images as NumPy would have it, and whether it is one; or as it is."""
    if array.code != "B" or len(shape) not in (3, 4):
        return array, False
    return array._replace(shape=(shape[-1], *shape[:-1]), by_column=False), True


def labels_beside(paths: Sequence[str]) -> list[NamedArray]:
    """Return arrays of labels in the directories of files, but not in these."""
    found = []
    for directory in dict.fromkeys(map(os.path.dirname, paths)):
        for path in files_at(SourcePlace(directory or ".")):
            own = os.path.join(directory, os.path.basename(path))
            if own not in paths and not _LABELS.isdisjoint(words_in(os.path.basename(path))):
                found += arrays_in(own)[0]
    return found


# What belongs together


class LabeledStack(NamedTuple):
    """An array of images, and that of their labels if there is one."""

    images: NamedArray
    shape: Shape
    labels: NamedArray | None

    @property
    def length(self) -> int:
        """The number of images."""
        return self.images.array.shape[0]


def pairs_of(
    found: Sequence[NamedArray], beside: Sequence[NamedArray], choice: Choice
) -> list[LabeledStack]:
    """Return the arrays of images, each with its labels."""
    of_quickdraw = are_of_quickdraw(found)
    shapes = [(each, shape) for each in found if (shape := shape_in(each, choice, of_quickdraw))]
    stacks = [each for each, _ in shapes]
    _require_apart(stacks)
    others = [each for each in (*found, *beside) if each not in stacks]
    others = [each for each in others if each.array.code != OBJECTS]
    if choice.label is None:
        others = [each for each in others if each.is_called(_LABELS)]
    else:
        others = [each for each in others if each.is_named(choice.label)]
        if stacks and not others:
            names = format_some([each.array.name for each in (*found, *beside)])
            raise OptionError(f"--label-field {choice.label}: the arrays are {names}")
    return [LabeledStack(images, shape, _labels_for(images, others)) for images, shape in shapes]


def _require_apart(stacks: Sequence[NamedArray]) -> None:
    """Refuse several arrays of images of one side in one file."""
    known: dict[tuple[str, str, str], NamedArray] = {}
    for each in stacks:
        other = known.setdefault((each.path, each.file, each.side), each)
        if other is not each:
            raise SourceError(
                f"{each.path}: {other.array.name} and {each.array.name} are arrays of images: "
                f"name the one to pack, such as --image-field {other.array.name}"
            )


def _labels_for(images: NamedArray, others: Sequence[NamedArray]) -> NamedArray | None:
    """Return the labels whose names are most like those of images; None if there are none."""
    of_side = [each for each in others if each.side in ("", images.side)]
    alike = [each for each in of_side if (each.side, each.rest) == (images.side, images.rest)]
    fitting = [each for each in alike or of_side if _labeled(each.array) == images.array.shape[0]]
    if alike and not fitting:
        count, images_count = _labeled(alike[0].array), images.array.shape[0]
        raise SourceError(
            f"{alike[0].where}: has {format_count(count, 'label')}, but {images.where} has "
            f"{format_count(images_count, 'image')}"
        )
    nearest = [each for each in fitting if each.path == images.path] or fitting
    nearest = [each for each in nearest if each.side == images.side] or nearest
    if len(nearest) > 1:
        names = format_some([each.array.name for each in nearest])
        raise SourceError(
            f"{images.where}: {names} are arrays of labels: name the one to train on, such as "
            f"--label-field {nearest[0].array.name}"
        )
    return nearest[0] if nearest else None


def _labeled(array: Array) -> int:
    """Return how many rows an array has labels of; one row of all labels is taken for a column."""
    shape = array.shape
    return shape[1] if len(shape) == 2 and shape[0] == 1 else shape[0] if shape else 0
