"""Tables some of whose columns are the pixels of an image, as MNIST is often passed on."""

from __future__ import annotations

import glob
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from math import isqrt
from typing import TYPE_CHECKING, ClassVar

from dsprep.errors import BadSample, OptionError
from dsprep.findings import Finding
from dsprep.frozen import Frozen
from dsprep.images.pixels import Shape, encode_raw, parse_shape, shape_of
from dsprep.sample import Sample, Value
from dsprep.schema import IMAGE, Field, Schema
from dsprep.sources.tables.arrays import ArrayReader
from dsprep.sources.tables.csv_options import PixelColumnOptions
from dsprep.units import format_count, format_some

if TYPE_CHECKING:
    from dsprep.catalog import Catalog
    from dsprep.sources.source import Source
_LEVELS = frozenset(range(256))
_BETWEEN = re.compile(r"[\[\],;]")  # what may separate the pixels in a cell besides blanks
_LOOKED_AT = 64  # rows of a table that show how many pixels an image has


class PixelColumns(Frozen):
    """Columns of a table that are the pixels of an image. Plain data: it is pickled for workers."""

    beside: ClassVar[Mapping[str, str]] = {}
    # names of the columns of pixels: one that holds many numbers, or many of one number each
    names: tuple[str, ...]
    shape: Shape
    image: str  # the name of the image

    def __call__(self, sample: Sample, quickly: bool = False) -> Sample:
        """Make an image of the columns of a sample."""
        fields = dict(sample.fields)
        values = [fields.pop(name, None) for name in self.names]
        if len(values) == 1:
            values = numbers_in(values[0])
        if len(values) != self.shape.bytes:
            raise BadSample(f"has {len(values):,} pixels, and not {self.shape}")
        try:
            pixels = bytes(values)
        except (TypeError, ValueError):
            pixels = bytes(map(self._pixel, range(len(values)), values))
        fields[self.image] = encode_raw(pixels, self.shape, quickly)
        sample.fields = fields
        return sample

    def _pixel(self, number: int, value: Value) -> int:
        """Return a pixel that is no whole number as it stands."""
        try:
            pixel = float(value)
            if pixel in _LEVELS:
                return int(pixel)
        except (TypeError, ValueError):
            pass
        what = self.names[number] if len(self.names) > 1 else f"{self.names[0]}, number {number}"
        is_missing = value is None or value == ""
        said = "is missing" if is_missing else f"is {value!r:.40}, no whole number from 0 to 255"
        raise BadSample(f"the pixel {what} {said}")


def numbers_in(cell: Value) -> list[Value]:
    """Return the numbers of a cell, as text that is not a whole number, or else as a number."""
    texts = _BETWEEN.sub(" ", cell).split() if isinstance(cell, str) else [cell]
    try:
        return list(map(int, texts))
    except (TypeError, ValueError):
        return texts if cell is not None else []


_LAST_NUMBER = re.compile(r"[0-9]+$")


def with_pixel_columns(
    source: Source, catalog: Catalog, columns: Sequence[str]
) -> tuple[Catalog, Finding]:
    """Return the catalog of a table some of whose columns are the pixels of images, and a note."""
    schema, given = catalog.schema or Schema(()), source.options_of(PixelColumnOptions)
    names = _in_order(_matching(given.pixel_columns, columns, catalog.root))
    shape = _shape(source, given.pixel_columns, catalog, names)
    others = tuple(each for each in schema.fields if each.name not in names)
    taken = {each.name for each in others}
    image = IMAGE if IMAGE not in taken else names[0]
    fields = (Field(image, "image", places=((image,),), told="--pixel-columns"), *others)
    pixels = PixelColumns(tuple(names), shape, image)
    made = replace(schema, fields=fields, image=image)
    what = f"{format_count(len(names), 'column')} of {catalog.root}"
    note = Finding("note", "", f"{what} became images of {shape} (height, width, channels)")
    return replace(catalog, reader=replace(catalog.reader, pixels=pixels), schema=made), note


def _matching(patterns: Sequence[str], columns: Sequence[str], root: str) -> list[str]:
    """Return the columns that are meant, in the order of the patterns."""
    names: dict[str, None] = {}
    for pattern in patterns:
        found = [name for name in columns if name == pattern or fnmatchcase(name, pattern)]
        if not found:
            raise OptionError(
                f"--pixel-columns {pattern}: no column of {root} is called so; its columns are "
                f"{format_some(columns)}"
            )
        names |= dict.fromkeys(found)
    return list(names)


def _in_order(names: list[str]) -> list[str]:
    """Put columns in the order of the numbers that all their names end in."""
    # A table whose columns were sorted as text has pixel10 before pixel2.
    ends = [end[0] for name in names if (end := _LAST_NUMBER.search(name))]
    if len(set(ends)) < len(names):
        return names
    return sorted(names, key=lambda name: int(_LAST_NUMBER.findall(name)[0]))


def _count(catalog: Catalog, names: Sequence[str]) -> int:
    """Return how many pixels a row has.

    If one column has all pixels, it is the most frequent number among the first rows.
    """
    if len(names) > 1:
        return len(names)
    rows = catalog.slice(0, _LOOKED_AT).rows()
    cells = (each.fields for each in catalog.reader.read(rows) if isinstance(each, Sample))
    counts = Counter(len(numbers_in(fields.get(*names))) for fields in cells)
    return counts.most_common(1)[0][0] if counts else 0


def _shape(
    source: Source, patterns: Sequence[str], catalog: Catalog, names: Sequence[str]
) -> Shape:
    """Return the shape of the images: a square of gray pixels, unless the user says another."""
    count = _count(catalog, names)
    shape = shape_of(isqrt(count), isqrt(count), 1)
    if source.choice.raw_image:
        shape = parse_shape(source.choice.raw_image)
    if shape is None or shape.bytes != count:
        given = source.choice.raw_image and f", and not the {shape} of --raw-image"
        raise OptionError(
            f"--pixel-columns {','.join(patterns)}: a row of {catalog.root} has "
            f"{format_count(count, 'pixel')}{given or ', which are no square of gray ones'}: give "
            f"{'other columns, or ' * bool(given)}the shape with --raw-image, such as 32x32x3"
        )
    return shape


# Columns that are likely pixels, though nobody named them

_FEW = 8  # rows that show whether columns are pixels
_LEAST = 64  # pixels of an image
_NUMBERED = re.compile(r"^(.*?)([0-9]+)(x[0-9]+)?$")
_PIXEL = re.compile(r"pix|px", re.IGNORECASE)


def likely_pixels(catalog: Catalog) -> str:
    """Say which columns of a table look like the pixels of images, with the option that names them.

    Empty if none do: numbers from 0 to 255, as many as a square image has, in columns that are
    called ``pixel0`` or ``1x1``, in all but one column of a table without a header, or in one
    column. Rows of an array of bytes, as many as a square image has, do so as well.
    """
    if isinstance(catalog.reader, ArrayReader):
        return _likely_rows(catalog.reader)
    rows = catalog.slice(0, _FEW).rows()
    samples = [each.fields for each in catalog.reader.read(rows) if isinstance(each, Sample)]
    names = list(samples[0]) if samples else []
    for pattern in _patterns(names):
        found = [name for name in names if fnmatchcase(name, pattern)]
        cells = [
            numbers_in(row[found[0]]) if len(found) == 1 else [row.get(name) for name in found]
            for row in samples
        ]
        shape = _square(len(cells[0]))
        if shape is None or not all(_are_pixels(each, shape.bytes) for each in cells):
            continue
        option = f"--pixel-columns {shlex.quote(pattern)}"
        if shape.channels > 1:
            option += f" --raw-image {shape.height}x{shape.width}x{shape.channels}"
        many = f"{len(found):,} columns, such as {found[0]}," if found[1:] else f"column {found[0]}"
        what = f"{many} {'look' if found[1:] else 'looks'} like the pixels of images"
        return f"{what} ({shape}): give {option}, or --no-image to keep numbers"
    return ""


def _likely_rows(reader: ArrayReader) -> str:
    """Say which array looks like the pixels of images, with the option that tells their shape."""
    for array in reader.arrays:
        shape = _square(array.width) if array.code == "B" else None
        if shape is not None:
            option = f"--raw-image {shape.height}x{shape.width}x{shape.channels}"
            return (
                f"rows of {array.width:,} bytes look like the pixels of images ({shape}): give "
                f"{option}, or --no-image to keep numbers"
            )
    return ""


def _patterns(names: Sequence[str]) -> Iterator[str]:
    """Yield patterns of columns that may be pixels; each matches some of the names."""
    if names[:1] == ["column_0"]:  # no line names the columns, and the label is the first
        yield "column_[1-9]*"
    numbered = [found for name in names if (found := _NUMBERED.match(name))]
    for prefix in dict.fromkeys(found[1] for found in numbered):
        own = [found for found in numbered if found[1] == prefix]
        if len(own) >= _LEAST and (_PIXEL.search(prefix) or all(found[3] for found in own)):
            is_alone = prefix and sum(name.startswith(prefix) for name in names) == len(own)
            yield f"{glob.escape(prefix)}{'*' if is_alone else '[0-9]*'}"
    yield from (glob.escape(name) for name in names if _PIXEL.search(name))


def _square(count: int) -> Shape | None:
    """Return the shape of a square image of so many pixels, gray or in colors; None if none is."""
    for channels in (1, 3):
        side = isqrt(count // channels)
        if count >= _LEAST and side * side * channels == count:
            return shape_of(side, side, channels)
    return None


def _are_pixels(values: Sequence[Value], count: int) -> bool:
    return len(values) == count and all(value in _LEVELS for value in values)
