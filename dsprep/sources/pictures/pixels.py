"""Data sets of bare pixels, as downloaded: which files of CIFAR or MNIST a path names.

CIFAR (https://www.cs.toronto.edu/~kriz/cifar.html): in the binary version a record is the label
(CIFAR-100: the coarse one, then the fine one), then 1024 red, 1024 green and 1024 blue bytes; in
the Python version a batch is a pickle.

MNIST (http://yann.lecun.com/exdb/mnist/), like Fashion-MNIST, KMNIST and EMNIST, has idx files, of
images and of labels, mostly in gzip: two zeros, the type of the numbers (8 is an unsigned byte, 12
an int), the number of dimensions, each dimension as a big-endian u32, then the numbers. The labels
of QMNIST (https://github.com/facebookresearch/qmnist) are rows of 8 ints, the class first.

torchvision puts such files into ``NAME/raw`` (torchvision/datasets/mnist.py, ``raw_folder``).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from operator import attrgetter
from typing import TypeAlias

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import SourceError
from dsprep.formats.stream import compression_of
from dsprep.numbering import unknown_classes
from dsprep.places.archive import archive_kind, open_archive, split_path
from dsprep.places.files import with_sides_of_files
from dsprep.places.names import raw_directories
from dsprep.sample import image_kind_of
from dsprep.schema import IMAGE, LABEL, Field, Schema
from dsprep.sources.labels.classes import renumbered
from dsprep.sources.pictures.pixel_reader import (
    Batch,
    BatchFile,
    LabeledPixelReader,
    PixelReader,
    read_batch,
    read_members,
    read_pickle,
    text_of,
)
from dsprep.sources.raw_pixels import CIFAR
from dsprep.storage.files import entries, facts, is_dir, is_file, takes_requests
from dsprep.tuples import NamedTuple

Names: TypeAlias = tuple[str, ...] | None  # the class names, if the data set or the user gives them

_Batch: TypeAlias = tuple[Batch, pl.DataFrame]  # with the rows of its images
_ClassNames: TypeAlias = dict[str, tuple[str, ...]]  # by the column that has the class numbers

PARTS = ("train", "test")
_MOST_FILES = 1000  # files in a directory that may still be a known data set
_LOOKED_AT = 64  # rows of a table that show how many pixels an image has
_FILE_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")


class _Labels(NamedTuple):
    """Where a version of CIFAR has labels of its images."""

    field: str  # what the field is called
    names: str  # the file of class names
    names_key: str = ""  # the key of the class names if that file is a pickle
    key: str = ""  # the key of the labels in a pickle; if empty, each is a byte


class _Version(NamedTuple):
    """A version of CIFAR."""

    batches: re.Pattern[str]  # names of its batches
    labels: tuple[_Labels, ...]  # its labels, in the order of their bytes

    @property
    def is_pickled(self) -> bool:
        return bool(self.labels[0].key)

    @property
    def files(self) -> tuple[str, ...]:
        """The files of class names."""
        return tuple(dict.fromkeys(labels.names for labels in self.labels))


_TOLD = "the files"  # what tells the fields
_FINE, _COARSE = "fine_label", "coarse_label"
_CIFAR = (
    _Version(re.compile(r"(data|test)_batch(_\d+)?\.bin"), (_Labels(LABEL, "batches.meta.txt"),)),
    _Version(
        re.compile(r"(data|test)_batch(_\d+)?"),
        (_Labels(LABEL, "batches.meta", "label_names", "labels"),),
    ),
    _Version(
        re.compile(r"(train|test)\.bin"),
        (_Labels(_COARSE, "coarse_label_names.txt"), _Labels(_FINE, "fine_label_names.txt")),
    ),
    _Version(
        re.compile(r"(train|test)"),
        (
            _Labels(_COARSE, "meta", "coarse_label_names", "coarse_labels"),
            _Labels(_FINE, "meta", "fine_label_names", "fine_labels"),
        ),
    ),
)
_LARGEST = 1 << 30  # bytes of a file of CIFAR; CIFAR-100's training images have 155 million

_IDX = re.compile(
    r"(?:(?P<set>.*)-)?(?P<part>train|test|t10k)-images[-.]idx3-ubyte(?:\.gz)?"
    r"|(?:(?P<single>.*)-)?images[-.]idx3-ubyte(?:\.gz)?"
)
_UBYTE, _INT = (8, 1), (12, 4)  # types of numbers: the code and the bytes of each
_OF_QMNIST = 8  # numbers of a label of QMNIST
_MOST_IMAGES = 10_000_000
_MOST_PIXELS = 100_000_000


class _Images(NamedTuple):
    """A file of images, as far as its name and those of the files beside it tell."""

    file: BatchFile
    part: str  # `train`, `test`, or empty if its name does not say
    beside: tuple[BatchFile, ...]  # the labels of idx files, the class names of CIFAR
    set: str = ""  # what the name of an idx file begins with, such as `emnist-letters`
    version: _Version | None = None  # None for idx files


def read_pixels(paths: Sequence[str], classes: Names, label: str | None = None) -> Catalog | None:
    """Make the catalog of data sets whose images are bare pixels; None if a path is of none.

    Where images have several labels, ``label`` is the name of the one to train on.
    """
    # Each path is that of a directory or an archive of CIFAR or of idx files, or of something in
    # it: a directory of the archive, one batch, one file of images, or one part (`PATH/train` or
    # `PATH/test`). Where there are several sets of idx files, such as EMNIST's, a path takes the
    # name of one: `PATH/emnist-letters/train`.
    # A path of both parts has them as sides; `{PATH/train,PATH/test}` mixes them.
    found: list[_Batch] = []
    named: list[_ClassNames] = []
    sides: list[str] = []
    has_sides = False
    for path in paths:
        images = _find(path)
        if images is None:
            return None
        read, names = _read_cifar(images, label) if images[0].version else (_read_idx(images), {})
        parts = [each.part for each in images]
        has_sides |= {*parts}.issuperset(PARTS)
        sides += parts
        found += read
        named.append(names)
    for path, names in zip(paths, named, strict=True):
        if names != named[0]:
            raise SourceError(
                f"{path}: has other class names than {paths[0]}; pack them one by one"
            )
    labels = [{_FINE, _COARSE}.intersection(rows.columns) for _, rows in found]
    for at, own in enumerate(labels):
        if own != labels[0]:
            one, other = found[0][0].file, found[at][0].file
            raise SourceError(f"{other}: has other labels than {one}; pack them one by one")
    files = [batch.file for batch, _ in found]
    for at, file in enumerate(files):
        if file in files[:at]:
            raise SourceError(f"{file}: is named twice")
        if has_sides and not sides[at]:
            raise SourceError(f"{file}: has neither training nor test images, where others have")
    catalog = _catalog(found, paths[0], named[0], classes, label)
    return with_sides_of_files(catalog, sides) if has_sides else catalog


# Files


def _find(path: str) -> list[_Images] | None:
    """Find the files of images that a path names; None if it is something else."""
    (place, inner), is_batch = split_path(path), False
    if is_dir(place):
        files = _files_in(place)
    elif not is_file(place):
        return None
    elif archive_kind(place) is not None:
        files = _members_in(place)
    elif inner:
        return None
    else:
        is_batch = True
        place, inner = os.path.split(place)
        files = _files_in(place or ".")
    directory, name = os.path.split(inner)
    images = _images_in([file for file in files if file.directory == directory], name)
    if images or is_batch:
        return images or None
    return _find_part(path, place, inner.split("/") if inner else [], files)


def _find_part(
    path: str, place: str, names: Sequence[str], files: Sequence[BatchFile]
) -> list[_Images] | None:
    """Find the data set, or the part of one, that the last names of a path may mean."""
    for cut in range(len(names), max(len(names) - 3, -1), -1):
        if together := _together(files, "/".join(names[:cut])):
            return _part_of(path, place, names[cut:], together)
    return None


def _part_of(
    path: str, place: str, names: Sequence[str], together: Mapping[str, list[_Images]]
) -> list[_Images]:
    """Return the images of the one data set, or of the part, that the end of a path names."""
    *sets, part = names or [""]
    if part not in PARTS:
        sets, part = list(names), ""
    images = next(iter(together.values()))
    known = sorted({each.set for each in images})
    several = list(together) if len(together) > 1 or sets else known
    if len(several) > 1:
        raise SourceError(
            f"{place}: has several data sets; name one of them, such as {place}/{several[-1]}"
        )
    images = [each for each in images if [each.set] == (sets or known)]
    images = [each for each in images if part in ("", each.part)]
    if not images:
        raise SourceError(f"{path}: there is no such part of {place}")
    return images


def _is_part(name: str) -> bool:
    """Return whether a file may be one of a known data set, by its name."""
    images = "images".join(name.rsplit("labels", 1)).replace("idx1", "idx3")
    images = images.replace("idx2-int", "idx3-ubyte")
    return _IDX.fullmatch(images) is not None or any(
        name in version.files or version.batches.fullmatch(name) for version in _CIFAR
    )


def _files_in(directory: str) -> list[BatchFile]:
    """Return the files of data sets in a directory; none if it has too many files for one.

    If there are none, they are those in the directories below in which torchvision puts them.
    """
    try:
        if found := _files_at(directory, ""):
            return found
        return [
            file
            for below in raw_directories(directory, entries(directory))
            for file in _files_at(directory, below)
        ]
    except OSError:
        return []  # another kind of source reads the file next, and raises the error again


def _files_at(root: str, below: str) -> list[BatchFile]:
    found: list[BatchFile] = []
    directory = os.path.join(root, below) if below else root
    for number, entry in enumerate(entries(directory)):
        if number >= _MOST_FILES:
            return []
        if _is_part(entry.name) and entry.is_file():
            path = os.path.join(directory, entry.name)
            found.append(BatchFile(entry.name, below, path, *facts(path)))
    return sorted(found)


def _members_in(path: str) -> list[BatchFile]:
    """Return the files of data sets in an archive; none if it holds images."""
    archive = open_archive(path)
    for damage in archive.damage:
        raise SourceError(f"{path}: {damage.detail}; download it again")
    for kind, name, reason in archive.odd:
        is_wanted = _is_part(os.path.basename(name)) or image_kind_of(name)
        if kind == "unreadable" and is_wanted:
            raise SourceError(f"{path}: {name} cannot be read ({reason})")
    if any(map(image_kind_of, archive.names)):
        return []
    found: dict[tuple[str, str], BatchFile] = {}
    for at, full_name in enumerate(archive.names):
        directory, name = os.path.split(os.path.normpath(full_name))
        if (directory, name) in found:
            raise SourceError(f"{path}: has two files called {name}")
        if _is_part(name):
            facts = archive.sizes[at], archive.reader.mtime or 0
            file = BatchFile(name, directory, path, *facts, archive.reader, archive.place(at))
            found[directory, name] = file
    return sorted(found.values(), key=attrgetter("directory", "name"))


def _together(files: Sequence[BatchFile], directory: str) -> dict[str, list[_Images]]:
    """Find the images in a directory of an archive, or in the highest ones below."""
    found: dict[str, list[BatchFile]] = {}
    for file in files:
        if not directory or f"{file.directory}/".startswith(f"{directory}/"):
            found.setdefault(file.directory, []).append(file)
    sets = {path: images for path, beside in found.items() if (images := _images_in(beside))}
    # `MNIST/raw` is as high as `cifar-10-batches-py`.
    depths = {path: path.removesuffix("/raw").count("/") + bool(path) for path in sorted(sets)}
    return {path: sets[path] for path in depths if depths[path] == min(depths.values())}


def _images_in(files: Sequence[BatchFile], name: str | None = None) -> list[_Images]:
    """Find the files of images, or the one of a name, among those of one directory."""
    known = {file.name: file for file in files}
    found = [*_idx_images(known, name)]
    for version in _CIFAR:
        batches = [file for file in files if version.batches.fullmatch(file.name)]
        batches = [file for file in batches if name in (None, file.name)]
        if not found and any(_is_batch(file, version, known, name) for file in batches):
            names = tuple(known[each] for each in version.files if each in known)
            for file in batches:
                part = "test" if file.name.startswith("test") else "train"
                found.append(_Images(file, part, names, version=version))
    return sorted(found, key=_order)


def _idx_images(known: Mapping[str, BatchFile], name: str | None) -> Iterator[_Images]:
    """Yield the idx files of images, or the one of a name, each with its labels."""
    for file in known.values():
        match, bare = _IDX.fullmatch(file.name), file.name.removesuffix(".gz")
        is_again = bare != file.name and bare in known
        if match is None or (is_again if name is None else file.name != name):
            continue
        beside = "labels".join(bare.rsplit("images", 1)).replace("idx3", "idx1")
        names = (beside, beside.replace("idx1-ubyte", "idx2-int"))
        either = (file for each in names for file in (each, f"{each}.gz"))
        labels = [known[each] for each in either if each in known][:1]
        part = (match["part"] or "").replace("t10k", "test")
        yield _Images(file, part, tuple(labels), match["set"] or match["single"] or "")


def _is_batch(file: BatchFile, version: _Version, known: Collection[str], name: str | None) -> bool:
    """Return whether a file is a batch of CIFAR: by its name, those beside it, or its content."""
    is_clear = version.labels[-1].names in known or "batch" in file.name
    return is_clear or (bool(name) and _looks_like(file, version))


def _order(images: _Images) -> tuple[bool, int, str]:
    """Return what files of images are sorted by: test images last, batches by their numbers."""
    number = re.search(r"_(\d+)(\.bin)?$", images.file.name)
    return images.part == "test", int(number[1]) if number else 0, images.file.name


def _looks_like(file: BatchFile, version: _Version) -> bool:
    """Return whether a file is such a batch, where its name may be that of anything."""
    if version.is_pickled:
        return next(file.blocks(raw=True), b"")[:1] == b"\x80"
    return file.size > 0 and file.size % (len(version.labels) + CIFAR.bytes) == 0


# CIFAR


def _read_cifar(images: Sequence[_Images], label: str | None) -> tuple[list[_Batch], _ClassNames]:
    """Read the batches of one directory, and the class names beside them."""
    version, named = images[0].version, images[0].beside
    assert version is not None
    columns = {each.field: each.field for each in version.labels}
    columns[label if label in columns else version.labels[-1].field] = "cls"
    names: _ClassNames = {}
    found: dict[str, _Batch] = {}
    parts = {each.file.name: each.part for each in images}
    for file, data in _contents([each.file for each in images] + [*named]):
        if file in named:
            told = (each for each in version.labels if each.names == file.name)
            names |= {columns[each.field]: _class_names(file, data, each) for each in told}
            continue
        stem = file.name.removesuffix(".bin")
        directory = stem if stem in PARTS else f"{parts[file.name]}/{stem}"
        before, step, originals = len(version.labels), len(version.labels) + CIFAR.bytes, None
        if version.is_pickled:
            before, keys = 0, [each.key for each in version.labels]
            _, labels, originals = read_batch(data, str(file), keys)
        elif not data or len(data) % step:
            raise SourceError(
                f"{file}: has {len(data)} bytes, not a multiple of {step}; download it again"
            )
        else:
            labels = [list(data[at::step]) for at in range(before)]
        shape = CIFAR.width, CIFAR.height, 3
        batch = Batch(file, len(labels[0]), *shape, before, before, version.is_pickled)
        own = dict(zip(columns.values(), labels, strict=True))
        rows = _table(batch, directory, own, originals)
        found[file.name] = batch, rows
    return [found[each.file.name] for each in images], names


def _contents(files: Sequence[BatchFile]) -> Iterator[tuple[BatchFile, bytes]]:
    """Read files whole; those of an archive in one pass, in the order of the archive."""
    for file in files:
        if file.size > _LARGEST:
            raise SourceError(f"{file}: has {file.size} bytes, far more than a file of CIFAR")
    if files[0].archive is None:
        yield from ((file, b"".join(file.blocks())) for file in files)
    else:
        files = sorted(files, key=attrgetter("place"))
        yield from zip(files, read_members(files), strict=True)


def _class_names(file: BatchFile, data: bytes, labels: _Labels) -> tuple[str, ...]:
    if labels.names_key:
        listed = read_pickle(data, str(file)).get(labels.names_key)
    else:
        listed = [line for line in data.splitlines() if line.strip()]
    names = tuple(text_of(name) for name in listed) if isinstance(listed, list) else ()
    if not all(names) or len(set(names)) < len(names) or any("\n" in name for name in names):
        raise SourceError(f"{file}: does not name each class once")
    if not names:
        raise SourceError(f"{file}: names no classes")
    return names


# Idx files


def _read_idx(images: Sequence[_Images]) -> list[_Batch]:
    """Read the heads of files of images, and all of their labels."""
    found = []
    for each in images:
        file = each.file
        (count, height, width), compressed = _read_head(file, 3)
        if not height or not width or height * width > _MOST_PIXELS:
            raise SourceError(
                f"{file}: its images have {width} by {height} pixels, which dsprep does not read"
            )
        labels = {}
        for beside in each.beside:
            labels["cls"] = _read_labels(beside)
            if (listed := len(labels["cls"])) != count:
                raise SourceError(f"{beside}: has {listed} labels, but there are {count} images")
        in_place = not (compressed or file.archive or takes_requests(file.path))
        # pixels begin after a header of 16 bytes
        batch = Batch(file, count, width, height, start=16, in_place=in_place)
        found.append((batch, _table(batch, each.part, labels)))
    return found


def _read_labels(file: BatchFile) -> list[int]:
    """Read the class numbers of an idx file; of QMNIST, those in the first column."""
    if "idx2-int" not in file.name:
        _read_head(file, 1)
        return list(b"".join(file.blocks())[8:])
    (count, columns), _ = _read_head(file, 2, _INT)
    if columns != _OF_QMNIST:
        raise SourceError(f"{file}: has {columns} numbers a label; QMNIST has {_OF_QMNIST}")
    numbers = struct.unpack(f">{count * columns}i", b"".join(file.blocks())[12:])
    return list(numbers[::columns])


def _read_head(
    file: BatchFile, dimensions: int, kind: tuple[int, int] = _UBYTE
) -> tuple[tuple[int, ...], bool]:
    """Return the dimensions in the head, which the size has to match, and if it is compressed."""
    code, width = kind
    blocks = file.blocks()
    first = next(blocks, b"")
    length = 4 + 4 * dimensions
    while len(first) < length and (block := next(blocks, b"")):
        first += block
    head = first[:length]
    if head[:4] != bytes((0, 0, code, dimensions)):
        raise SourceError(
            f"{file}: is not an idx file of {'bytes' if width == 1 else 'ints'} in {dimensions} "
            f"dimensions: it begins with "
            f"{head[:4].hex(' ')}"
        )
    if len(head) < length:
        raise SourceError(f"{file}: ends within its head; download it again")
    shape: tuple[int, ...] = struct.unpack(f">{dimensions}I", head[4:])
    if shape[0] > _MOST_IMAGES:
        raise SourceError(f"{file}: says it has {shape[0]} images; the maximum is {_MOST_IMAGES}")
    compressed = compression_of(next(file.blocks(raw=True))) is not None
    wanted, size = len(head) + width * prod(shape), len(first) if compressed else file.size
    while compressed and size <= wanted and (block := next(blocks, b"")):
        size += len(block)
    if size != wanted:
        raise SourceError(
            f"{file}: says it has {' x '.join(map(str, shape))} bytes, so {wanted} with its head, "
            f"but {'there are more' if size > wanted else f'ends after {size}'}; download it again"
        )
    return shape, compressed


# The catalog


def _catalog(
    read: Sequence[_Batch], root: str, named: _ClassNames, classes: Names, label: str | None
) -> Catalog:
    batches = tuple(batch for batch, _ in read)
    _require_labels(read, root, classes)
    tables = [rows.with_columns(file=pl.lit(at, pl.Int64)) for at, (_, rows) in enumerate(read)]
    table = pl.concat(tables)
    if table.is_empty():
        raise SourceError(f"{root}: holds no images")
    table = table.select(pl.int_range(pl.len()).alias("index"), pl.all())
    own_names = named.get("cls")
    names = [name for name in (_FINE, _COARSE) if name in table.columns]
    checked = named | ({} if own_names or classes is None else {"cls": classes})
    _require_known(table, batches, checked)
    further, table = table.select(names).get_columns(), table.drop(names)
    reader = PixelReader(batches)
    catalog = Catalog(table, root, checked.get("cls"), reader)
    if own_names and classes is not None:
        if unknown := [name for name in own_names if name not in classes]:
            raise unknown_classes(str(batches[0].file), unknown, classes)
        catalog = renumbered(catalog, classes)
    own = Field(label if label in (_FINE, _COARSE) else LABEL, "class", told=_TOLD)
    for numbers in further:
        field = Field(numbers.name, "class", False, named.get(numbers.name, ()), told=_TOLD)
        catalog = _with_further(catalog, reader, own, field, numbers)
    return catalog


def _require_labels(read: Sequence[_Batch], root: str, classes: Names) -> None:
    """Refuse batches if some have labels and others have none, and classes if none has labels."""
    labeled = ["cls" in table.columns for _, table in read]
    if any(labeled) and not all(labeled):
        bare, _ = read[labeled.index(False)]
        raise SourceError(f"{bare.file}: has no labels beside it, where others have")
    if classes is not None and not any(labeled):
        raise SourceError(f"{root}: has no labels, but a list of {len(classes)} classes was given")


def _require_known(table: pl.DataFrame, batches: Sequence[Batch], named: _ClassNames) -> None:
    """Refuse labels that are the number of no class; the names of classes are by column."""
    for column, known in named.items():
        outside = table.filter(~pl.col(column).is_between(0, len(known) - 1))
        for number, offset, found in outside.select("file", "offset", column).head(1).iter_rows():
            batch = batches[number]
            raise SourceError(
                f"{batch.file}: image {offset // batch.size} has the label {found}, which is none "
                f"of the {len(known)} classes"
            )


def _with_further(
    catalog: Catalog, images: PixelReader, label: Field, field: Field, numbers: pl.Series
) -> Catalog:
    """Return the catalog of images that have a further label besides that of the rows."""
    of_batches = (catalog.table["file"] == at for at in range(len(images.batches)))
    labels = tuple(array("i", numbers.filter(own).to_list()) for own in of_batches)
    image = Field(IMAGE, "image", places=((IMAGE,),), told=_TOLD)
    field = replace(field, places=((field.name,),))
    told = json.dumps([field.to_json(), numbers.to_list()])
    return replace(
        catalog,
        reader=LabeledPixelReader(images, field.name, labels),
        schema=Schema((image, label, field), IMAGE, label.name, "folder"),
        schema_known=True,
        described=hashlib.sha256(told.encode()).hexdigest(),
    )


def _table(
    batch: Batch,
    directory: str,
    labels: Mapping[str, list[int]],
    file_names: list[str] | None = None,
) -> pl.DataFrame:
    """Return the rows of a batch in a directory, without the numbers of images and of the batch.

    Labels are columns.
    """
    count = batch.images
    numbers = pl.int_range(count, dtype=pl.Int64, eager=True)
    digits = numbers.cast(pl.String).str.zfill(max(5, len(str(count - 1))))
    stems = pl.Series([f"{directory}/".removeprefix("/")]) + digits
    if file_names is not None:
        originals = (name.rpartition(".")[0] or name for name in file_names)
        suffixes = [f"_{name}" if _FILE_NAME.fullmatch(name) else "" for name in originals]
        stems += pl.Series(suffixes, dtype=pl.String)
    table = pl.DataFrame({"path": stems + ".png"}).with_columns(
        size=pl.lit(batch.size, pl.Int64),
        mtime=pl.lit(batch.file.mtime, pl.Int64),
        file=pl.lit(0, pl.Int64),
        offset=numbers * batch.size,
        stored=pl.lit(batch.size, pl.Int64),
    )
    return table.with_columns(pl.Series(*each, dtype=pl.Int64) for each in labels.items())
