"""The catalog of arrays of images."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.formats.stream import is_bomb
from dsprep.numbering import number_classes, numbers_of, require_lines
from dsprep.places.files import with_sides_of_files
from dsprep.schema import LABEL, Field, Schema
from dsprep.sources.tables.array_files import MATLAB, STL10
from dsprep.sources.tables.array_labels import Labels, label_column, labels_in, read_labels
from dsprep.sources.tables.arrays import ZippedArray, opened_arrays, require_whole
from dsprep.sources.tables.hdf5 import require_sound
from dsprep.sources.tables.stack_names import (
    CLASS_NAMES,
    OBJECTS,
    SVHN,
    LabeledStack,
    NamedArray,
    arrays_in,
    files_at,
    labels_beside,
    pairs_of,
)
from dsprep.sources.tables.stack_reader import Stack, StackReader
from dsprep.storage.files import exists, read_bytes
from dsprep.text import decode_text
from dsprep.units import format_count, format_some, lines_of

if TYPE_CHECKING:
    from dsprep.catalog import SourceScan
    from dsprep.places.scan import RunAll
    from dsprep.sources.kind import SourcePlace
    from dsprep.sources.source import Source

_TOLD = "the arrays"
_BEFORE_CLASS = "full_numpy_bitmap_"  # what names of QuickDraw begin with if a browser loaded them
_SVHN_CLASSES = _STL10_CLASSES = 10
_BARE = "unlabeled"  # a side of STL-10
_ODD = re.compile(r"[^\w .+-]")


def read_stacks(source: Source, place: SourcePlace, run_all: RunAll) -> SourceScan | None:
    """Make the catalog of arrays of images; None if there are none."""
    found, members, others = list[NamedArray](), dict[str, list[ZippedArray]](), list[str]()
    files = files_at(place)
    for path in files:
        own, members[path], more = arrays_in(path)
        found += own
        others += more
    found, notes = _labeled_of_stl10(found)
    beside = [] if place.is_dir or source.labels else labels_beside(files)
    pairs = pairs_of(found, beside, source.choice)
    if not pairs:
        if source.kind is None:
            return None
        raise _no_images(place, found)
    for path, zipped in members.items():
        require_whole(path, zipped, run_all)
    stacks = tuple(map(_stack, pairs))
    sides = _sides_of(pairs)
    prefixes = _prefixes(pairs, sides)
    table = _rows(pairs, prefixes)
    labels, classes = _labels(source, pairs, found, prefixes if not any(sides) else ())
    schema = None
    if labels is not None:
        table = table.with_columns(labels)
        schema = Schema((Field(LABEL, "class", told=_TOLD),), label=LABEL)
    catalog = Catalog(table, place.path, classes, StackReader(stacks, _label_files(pairs)), schema)
    if len({*sides}) > 1:
        catalog = with_sides_of_files(catalog, sides)
    return catalog, [
        *notes,
        *_notes(pairs, found),
        *(Finding("not-an-image", each) for each in others),
    ]


def _labeled_of_stl10(found: Sequence[NamedArray]) -> tuple[list[NamedArray], list[Finding]]:
    """Return the arrays without the images of STL-10 that have no labels, if others have some."""
    bare = [each for each in found if STL10.fullmatch(f"{each.file}.bin") and each.side == _BARE]
    if not bare or len(bare) == len(found):
        return [*found], []
    count = format_count(bare[0].array.shape[0], "image")
    said = f"{bare[0].path} is not read: its {count} have no labels: pack it by itself"
    return [each for each in found if each not in bare], [Finding("note", "", said)]


def _stack(pair: LabeledStack) -> Stack:
    """Return what workers read the images of an array by."""
    array = pair.images.array
    if array.by_column and array.width > 1:
        raise SourceError(
            f"{pair.images.where}: lies in the order of Fortran, in which the pixels of an image "
            "are apart: save numpy.ascontiguousarray(ARRAY)"
        )
    path, state, h5 = pair.images.path, pair.images.state, pair.images.h5
    found = Stack(path, state, array.shape[0], pair.shape, array.start, array.packed)
    found = found._replace(is_turned=pair.images.is_turned)
    if array.packed is not None and is_bomb(array.bytes, array.packed.size):
        raise SourceError(
            f"{pair.images.where}: {array.bytes:,} bytes, compressed to {array.packed.size:,}: "
            "a bomb"
        )
    if h5 is None or h5.is_plain:
        return found
    with opened_arrays(path) as file:
        require_sound(path, file, h5.name)
    return found._replace(data_set=h5.name, is_by_row=h5.is_by_row)


def _label_files(pairs: Sequence[LabeledStack]) -> tuple[str, ...]:
    """Return the files that have labels and no images."""
    labels = (pair.labels.path for pair in pairs if pair.labels is not None)
    return tuple(sorted({*labels}.difference(pair.images.path for pair in pairs)))


def _no_images(place: SourcePlace, found: Sequence[NamedArray]) -> SourceError:
    shown = format_some([f"{each.array.name} {_shown(each)}" for each in found])
    return SourceError(
        f"{place.path}: holds no array of images, which has bytes (uint8) in the shape N x H x W "
        f"or N x H x W x 3: its arrays are {shown or 'none'}; if rows are the pixels of images, "
        "give their shape, such as --raw-image 28x28x1"
    )


def _shown(found: NamedArray) -> str:
    array = found.array
    known = {"B": "bytes", OBJECTS: "objects"}
    kind = known.get(array.code, array._replace(shape=(1,)).type)
    return f"({' x '.join(map(str, array.shape)) or 1} {kind})"


def _sides_of(pairs: Sequence[LabeledStack]) -> list[str]:
    """Return the side of each array of images; refuse some that have none beside others."""
    sides = [pair.images.side for pair in pairs]
    if any(sides) and not all(sides):
        bare = pairs[sides.index("")].images
        other = next(pair.images for pair in pairs if pair.images.side)
        raise SourceError(
            f"{bare.where}: its name tells no side, and that of {other.where} does: rename it, or "
            "pack them one by one"
        )
    return sides


def _prefixes(pairs: Sequence[LabeledStack], sides: Sequence[str]) -> list[str]:
    """Return what the paths of the images of each array begin with: no two are equal."""
    names = [""] * len(pairs)
    if len(pairs) > len({*sides}):
        names = [_plain_name(pair.images) for pair in pairs]
    found = ["/".join(filter(None, parts)) for parts in zip(sides, names, strict=True)]
    for at, prefix in enumerate(found):
        if prefix in found[:at]:
            one, other = pairs[found.index(prefix)].images, pairs[at].images
            raise SourceError(f"{other.where}: is called like {one.where}; pack them one by one")
    return found


def _plain_name(images: NamedArray) -> str:
    """Return the name of a file of images, or of an array in it, without what QuickDraw adds."""
    name = images.file.rpartition("/")[2] if images.is_alone else images.array.name
    return _ODD.sub("_", name.removeprefix(_BEFORE_CLASS)).strip(". ") or "array"


def _rows(pairs: Sequence[LabeledStack], prefixes: Sequence[str]) -> pl.DataFrame:
    """Return the rows of all images."""
    tables = []
    for at, ((images, shape, _), prefix) in enumerate(zip(pairs, prefixes, strict=True)):
        count = images.array.shape[0]
        numbers = pl.int_range(count, dtype=pl.Int64, eager=True)
        digits = numbers.cast(pl.String).str.zfill(max(5, len(str(count - 1))))
        paths = pl.Series([f"{prefix}/".removeprefix("/")]) + digits + ".png"
        size, mtime, file = (
            pl.lit(each, pl.Int64) for each in (shape.bytes, images.state.mtime_ns, at)
        )
        tables.append(
            pl.DataFrame({"path": paths}).with_columns(
                size=size, mtime=mtime, file=file, offset=numbers * shape.bytes, stored=size
            )
        )
    return pl.concat(tables).select(pl.int_range(pl.len()).alias("index"), pl.all())


# Labels


def _labels(
    source: Source, pairs: Sequence[LabeledStack], found: Sequence[NamedArray], names: Sequence[str]
) -> tuple[pl.Series | None, tuple[str, ...] | None]:
    """Return the labels of all images as a column, and the class names.

    Several arrays without labels are a class each, which ``names`` has.
    """
    classes = source.class_names()
    if source.labels is not None:
        count = sum(pair.length for pair in pairs)
        return label_column(source, [labels_in(source, source.labels, count)])
    labeled = [pair for pair in pairs if pair.labels is not None]
    if labeled and len(labeled) < len(pairs):
        bare = next(pair.images for pair in pairs if pair.labels is None)
        raise SourceError(
            f"{bare.where}: has no labels, and {labeled[0].images.where} has some: name the images "
            f"to pack, such as --image-field {labeled[0].images.array.name}"
        )
    if labeled:
        column, classes = label_column(source, [_read(source, pair) for pair in pairs])
        named = None
        if classes is None and column.name == "cls":
            named = _names_in(found, column) or _names_of_stl10(labeled[0].images)
        return column, named or classes
    if len(names) > 1:
        classes = number_classes({*names}, source.known_classes(), source.root)
        numbers = [pl.repeat(numbers_of(classes)[name], pair.length, dtype=pl.Int64, eager=True)
                   for name, pair in zip(names, pairs, strict=True)]  # fmt: skip
        return pl.concat(numbers).alias("cls"), classes
    if classes is not None:
        raise SourceError(f"{source.root}: has no labels that --classes could name")
    return None, None


def _read(source: Source, pair: LabeledStack) -> Labels:
    """Read the labels of an array of images."""
    own = pair.labels
    assert own is not None
    if len(own.array.shape) > 2 and own.array.width > 1:
        raise SourceError(
            f"{own.where}: has {_shown(own)}, which dsprep does not read as labels; name another "
            "array, --label-field NAME"
        )
    with own.opened() as (array, file):
        if array.shape[:1] == (1,) and len(array.shape) == 2:
            array = array._replace(shape=array.shape[1:])
        found = read_labels(source, own.where, array, file, pair.length)
    if STL10.fullmatch(f"{own.file}.bin"):
        if not found.values.is_between(1, _STL10_CLASSES).all():
            raise SourceError(f"{own.path}: has a label that is none of 1 to {_STL10_CLASSES}")
        return found._replace(values=found.values.cast(pl.Int64) - 1)
    if not own.path.lower().endswith(MATLAB):
        return found
    if found.values.dtype.is_float() and (found.values % 1 == 0).all():
        found = found._replace(kind=found.kind.replace("float64", "int"))  # MATLAB's usual type
        found = found._replace(values=found.values.cast(pl.Int64))
    if _is_svhn(pair):
        found = found._replace(values=found.values % _SVHN_CLASSES)
    return found


def _is_svhn(pair: LabeledStack) -> bool:
    return SVHN.fullmatch(pair.images.file) is not None and pair.labels is not None


def _names_in(found: Sequence[NamedArray], labels: pl.Series) -> tuple[str, ...] | None:
    """Return the class names that an array of texts has; None if no single one has them."""
    known = []
    for each in found:
        if each.array.type == "text" and each.is_called(CLASS_NAMES) and not each.array.width > 1:
            with each.opened() as (array, file):
                known.append(tuple(array.rows(file, 0, array.shape[0])))
    if len(known) != 1 or not all(known[0]) or len({*known[0]}) < len(known[0]):
        return None
    require_lines(known[0], found[0].path)
    fits = labels.is_between(0, len(known[0]) - 1)  # a number for each name
    return known[0] if bool(fits.all()) else None


def _names_of_stl10(images: NamedArray) -> tuple[str, ...] | None:
    """Return the class names beside images of STL-10; None if there are none."""
    path = os.path.join(os.path.dirname(images.path), "class_names.txt")
    if not STL10.fullmatch(f"{images.file}.bin") or not exists(path):
        return None
    names = tuple(filter(None, map(str.strip, lines_of(decode_text(read_bytes(path), path)))))
    require_lines(names, path)
    return names if len({*names}) == _STL10_CLASSES else None


def _notes(pairs: Sequence[LabeledStack], found: Sequence[NamedArray]) -> Iterator[Finding]:
    used = list(chain.from_iterable((pair.images, pair.labels) for pair in pairs))
    images, count = pairs[0].images.where, len(pairs)
    what = f"{format_count(count, 'array')} of images, such as {images}," if count > 1 else images
    labels = pairs[0].labels
    whose = f"; the labels are those of {labels.where}" if labels is not None else ""
    yield Finding(
        "note", "", f"{what} became images of {pairs[0].shape} (height, width, channels){whose}"
    )
    if any(map(_is_svhn, pairs)):
        yield Finding("note", "", "SVHN's label 10 is the digit 0, so its class number is 0")
    idle = [f"{each.array.name} {_shown(each)}" for each in found if each not in used]
    if idle:
        yield Finding("note", "", f"arrays that are not read: {format_some(idle)}")
