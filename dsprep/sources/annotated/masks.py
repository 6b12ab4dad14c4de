"""Masks of images: how workers read them, and what their pixels mean."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

from dsprep.annotations.masks import (
    IGNORED,
    Color,
    mask_of,
    numbers_of,
    numbers_of_segments,
    png_of,
    used_in,
)
from dsprep.annotations.objects import Objects, Rle
from dsprep.errors import BadSample, SourceError
from dsprep.frozen import Frozen
from dsprep.images.header import read_header
from dsprep.images.transform import decoded, upright_size
from dsprep.places.archive import ArchiveReader
from dsprep.rows import Reader
from dsprep.storage.files import read_sized, results
from dsprep.units import format_some, lines_of, quoted

if TYPE_CHECKING:
    from PIL.Image import Image

_LOOKED_AT = 64
_BLACK_AND_WHITE = frozenset({0, IGNORED})
_COLOR = re.compile(r"#?([0-9a-fA-F]{6})|(\d{1,3})[\s,]+(\d{1,3})[\s,]+(\d{1,3})")
_LEVELS = r"\s*(?P<red>\d{1,3})[\s,]+(?P<green>\d{1,3})[\s,]+(?P<blue>\d{1,3})"
# Each of these takes a time that grows with the length of a line, not with its square.
_FORMS = (
    re.compile(rf"{_LEVELS}[\s,:]+(?P<name>[^\s,:].*)"),
    re.compile(rf"(?P<name>[^:]+):{_LEVELS}(?:[\s,:].*)?"),
    re.compile(rf"(?P<name>[^,:]+),{_LEVELS}(?:[\s,:].*)?"),
)
_LARGEST = 1 << 28  # maximum size of a mask, in pixels
_WITHOUT_PIXELS = "segment without pixels, kept in objects all the same"
WRONG = -1  # stands for the class of a row that is wrong
NOT_THERE = -1  # stands for the size of a file that annotations name, and that is not there

MaskData: TypeAlias = bytes | Sequence[bytes] | BadSample | None
"""The file of a mask, or several that are joined, or why they were not read; None without any."""


class Masks(Frozen):
    """The masks of images, by the number of an image's annotations. Plain data for workers."""

    root: str
    paths: tuple[str, ...]  # below the root; empty for an image without one
    sizes: Sequence[int]  # bytes of each file
    colors: Mapping[Color, int] | None = None
    values: Mapping[int, int] | None = None
    names: tuple[str, ...] = ()  # of the classes, by number, if a manifest tells them
    # where each begins in the archive of the images, and its bytes there; empty for files
    offsets: Sequence[int] = ()
    stored: Sequence[int] = ()
    # further masks of the same images, which are joined with these: `1_mask_1.png`
    further: tuple[Masks, ...] = ()

    def of(self, numbers: Sequence[int]) -> Masks:
        """Return the masks of images, given the number of each here; -1 has none."""
        paths = tuple(self.paths[at] if at >= 0 else "" for at in numbers)
        sizes, offsets, stored = (
            [column[at] if at >= 0 else 0 for at in numbers] if column else ()
            for column in (self.sizes, self.offsets, self.stored)
        )
        further = tuple(each.of(numbers) for each in self.further)
        masks = replace(self, paths=paths, sizes=sizes, offsets=offsets, stored=stored)
        return replace(masks, further=further)

    def digest(self) -> bytes:
        """Identify the files, by names and sizes, and what their pixels mean."""
        facts = (self.paths, list(self.sizes), self.colors, self.values)
        return repr(facts).encode() + b"".join(each.digest() for each in self.further)

    def files(self, numbers: Sequence[int], images: Reader) -> Iterator[MaskData]:
        """Read the masks of images as they are; None for an image without one.

        Args:
            numbers: The numbers of the images.
            images: What reads the images: the reader of their archive, if masks lie in that.
        """
        layers = (self, *self.further)
        wanted = [(layer, at) for at in numbers for layer in layers if layer.paths[at]]
        own = [(layer, at) for layer, at in wanted if layer.sizes[at] != NOT_THERE]
        if self.offsets:
            assert isinstance(images, ArchiveReader)
            found = images.members(
                (layer.offsets[at], layer.stored[at], layer.sizes[at]) for layer, at in own
            )
        else:
            sizes = [layer.sizes[at] for layer, at in own]
            paths = [layer.paths[at] for layer, at in own]
            found = results(self.root, self._file, paths, sizes, sizes=sizes)
        for at in numbers:
            read = [layer._lost(at) or next(found) for layer in layers if layer.paths[at]]
            wrong = [each for each in read if isinstance(each, BadSample)]
            masks = [each for each in read if isinstance(each, bytes)]
            if wrong:
                yield BadSample(f"its mask {wrong[0]}")
            else:
                yield masks if len(masks) > 1 else next(iter(masks), None)

    def _lost(self, number: int) -> BadSample | None:
        """Return that a mask is not there, if that is known before it is read."""
        is_lost = self.sizes[number] == NOT_THERE
        return BadSample(f"is not there: {quoted(self.paths[number])}") if is_lost else None

    def _file(self, path: str, size: int) -> bytes | BadSample:
        try:
            data = read_sized(os.path.join(self.root, path), size)
        except OSError as error:
            return BadSample(f"cannot be read ({error.strerror})")
        return BadSample("has changed since it was listed") if data is None else data

    def mask(
        self, data: MaskData, objects: Objects | None = None, effects: Counter[str] | None = None
    ) -> bytes | None:
        """Return a mask.

        Args:
            data: Its file, or several that are joined, or why they were not read.
            objects: The objects of its image.
            effects: Counts what is odd about it, for the report.

        Raises:
            BadSample: Why the file was not read, or its pixels have no meaning.
        """
        if isinstance(data, BadSample):
            raise data
        if data is None:
            return None
        if not isinstance(data, bytes):
            return self._joined(data)
        return self._read(data, objects or Objects(), Counter() if effects is None else effects)

    def _joined(self, files: Sequence[bytes]) -> bytes:
        """Return the union of masks that show one class, each another part of it."""
        from PIL import ImageChops  # slow to load

        masks = [self._numbers(decoded(each, "its mask", _LARGEST)) for each in files]
        if len({each.size for each in masks}) > 1:
            raise BadSample("its masks differ in size")
        classes = sorted({number for each in masks for number in used_in(each)} - {0})
        if len(classes) > 1:
            raise BadSample(
                f"its {len(masks)} masks have pixels of the classes "
                f"{format_some([*map(str, classes)])}, and only masks of one class are joined: "
                "give a pattern of those to take with --masks"
            )
        return png_of(reduce(ImageChops.lighter, masks))

    def _read(self, data: bytes, objects: Objects, effects: Counter[str]) -> bytes:
        if self.colors is None and self.values is None:
            return data
        return png_of(self._numbers(decoded(data, "its mask", _LARGEST)))

    def _numbers(self, mask: Image) -> Image:
        """Return a decoded mask as a gray image of class numbers."""
        return numbers_of(mask, self.colors, self.values)


class BlackAndWhiteMasks(Masks):
    """Masks of 0 and 255 alone, as those are that were looked at: 255 is class 1."""

    def _numbers(self, mask: Image) -> Image:
        found = numbers_of(mask, None, {IGNORED: IGNORED})
        others = sorted({*used_in(found)} - _BLACK_AND_WHITE)
        if others:
            raise BadSample(
                f"its mask has the values {format_some([*map(str, others)])}, and 255 was taken "
                "for class 1, because the masks looked at have 0 and 255 alone: give "
                "--mask-values 255=255 if these are pixels of no class, else 255=1"
            )
        return numbers_of(found, None, self.values)


class SegmentMasks(Masks):
    """Masks whose pixels are the ids of objects, which tell the class: each image has its own."""

    def _read(self, data: bytes, objects: Objects, effects: Counter[str]) -> bytes:
        numbers: dict[int, int] = {}
        for each in objects.items:
            if each.id is None:
                raise BadSample("a segment of its annotations has no id")
            if numbers.setdefault(each.id, each.number) != each.number:
                raise BadSample(f"two segments of its annotations have the id {each.id}")
        mask, ids = numbers_of_segments(decoded(data, "its mask", _LARGEST), numbers)
        effects[_WITHOUT_PIXELS] += len(numbers.keys() - ids)
        return png_of(mask)


class TableMasks(Frozen):
    """Masks that a table has as runs of pixels: from 1, down the columns."""

    # of each image: class and runs of its rows; or, if a row is wrong, `WRONG` and the reason
    runs: tuple[tuple[tuple[int, str], ...], ...]
    names: tuple[str, ...]  # of the classes, by number; the first is what no run has
    stored: bool = False  # whether runs are of images before their EXIF orientation turns them

    @property
    def sizes(self) -> Sequence[int]:
        """The size of the masks of each image, in bytes of their text."""
        return [sum(len(text) for _, text in own) for own in self.runs]

    def of(self, numbers: Sequence[int]) -> TableMasks:
        """Return the masks of images, given the number of each here; -1 has an empty one."""
        return replace(self, runs=tuple(self.runs[at] if at >= 0 else () for at in numbers))

    def digest(self) -> bytes:
        """Identify the names; what was read is known already."""
        return repr(self.names).encode()

    def mask(self, number: int, image: bytes) -> bytes:
        """Return the mask of an image."""
        from PIL import Image

        header = read_header(image)
        if header.width * header.height > _LARGEST:
            raise BadSample(f"its mask would have {header.width:,} x {header.height:,} pixels")
        size = (header.width, header.height) if self.stored else upright_size(image)
        mask = Image.new("L", size)
        for value, text in self.runs[number]:
            if value == WRONG:
                raise BadSample(text)
            inside = mask_of(_runs(text, *size))
            mask.paste(value, mask=inside.point([0, *[255] * 255]))
        return png_of(mask)


def _runs(text: str, width: int, height: int) -> Rle:
    """Return the runs of a cell: start and length of each, in turn."""
    words = text.split()
    if len(words) % 2 or not all(word.isascii() and word.isdecimal() for word in words):
        raise BadSample(f"the runs of its mask are {quoted(text, 40)}: not start and length, …")
    counts, at = [], 0
    for start, length in zip(map(int, words[::2]), map(int, words[1::2]), strict=True):
        if start - 1 < at or start - 1 + length > width * height:
            raise BadSample(
                f"the runs of its mask have {start} {length}, which is not behind the one before, "
                f"or beyond the {width}x{height} pixels of the image"
            )
        counts += [start - 1 - at, length]
        at = start - 1 + length
    return Rle(height, width, (*counts, width * height - at))


def require_numbers(masks: Masks, images: Reader) -> None:
    """Refuse masks if nothing says what their pixels mean, before anything is written."""
    seen = _numbers_in(masks, images)
    is_told = IGNORED in (masks.values or {}).values()
    if IGNORED in seen <= _BLACK_AND_WHITE and not is_told:
        raise SourceError(
            f"{masks.root}: the pixels of its masks are 0 and 255, and 255 means that a pixel "
            "belongs to no class: give --mask-values 255=1"
        )


def black_and_white(masks: Masks, images: Reader) -> BlackAndWhiteMasks | None:
    """Return masks that are refused as those of black and white; None if they have other values.

    Masks of 1 bit are such, too, and may be black alone.
    """
    try:
        seen = _numbers_in(replace(masks, values={IGNORED: IGNORED}), images)
    except SourceError:
        return None
    if not seen <= _BLACK_AND_WHITE:
        return None
    parts = {each.name: getattr(masks, each.name) for each in fields(masks)}
    return BlackAndWhiteMasks(**parts | {"values": {IGNORED: 1}})


def _numbers_in(masks: Masks, images: Reader) -> set[int]:
    """Return the class numbers of the pixels of some masks."""
    seen: set[int] = set()
    some = [at for at, path in enumerate(masks.paths) if path]
    several = {at for each in masks.further for at, path in enumerate(each.paths) if path}
    some = sorted(some, key=lambda at: at not in several)[:_LOOKED_AT]
    for number, data in zip(some, masks.files(some, images), strict=True):
        try:
            mask = masks.mask(data) or b""
            image = numbers_of(decoded(mask, "its mask", _LARGEST), None, None)
        except BadSample as error:
            raise SourceError(f"{masks.root}/{masks.paths[number]}: {error}") from None
        seen |= {*used_in(image)}
    return seen


def parse_color(text: str) -> Color:
    """Return the color that a text begins with: `#ff0000` or `255 0 0`; a ValueError if none."""
    match = _COLOR.match(text)
    if match is None:
        raise ValueError(text)
    red, green, blue = bytes.fromhex(match[1]) if match[1] else map(int, match.groups()[1:])
    if max(red, green, blue) > 255:
        raise ValueError(text)
    return red, green, blue


def named_colors_in(text: str) -> dict[Color, str]:
    """Return the names of classes by color, in their order; none if a text is no table of these.

    JSON is that of datumaro's `dataset_meta.json`.
    """
    if text.lstrip().startswith("{"):
        return _colors_of_json(text)
    try:
        return read_color_table(text, "")
    except SourceError:
        return {}


def read_color_table(text: str, path: str) -> dict[Color, str]:
    """Return the names of classes by color, in their order.

    A line is ``cat,128,0,0`` behind a header, as Kaggle's `class_dict.csv` has it, ``128 0 0 cat``
    of CamVid, or ``cat:128,0,0::`` of CVAT.
    """
    lines = [line for line in map(str.strip, lines_of(text)) if line and line[0] != "#"]
    if lines and not any(map(str.isdecimal, lines[0])):  # it names the columns
        lines = lines[1:]
    found: dict[Color, str] = {}
    for line in lines:
        row = _named_color(line)
        if row is None:
            raise SourceError(f"{path}: {line!r:.60} is no color of a class: 64 128 64 Animal")
        color, name = row
        if color in found:
            raise SourceError(f"{path}: {line!r:.60} has a color that is there twice")
        found[color] = name
    if len(found) > IGNORED:
        raise SourceError(f"{path}: names {len(found):,} classes; masks have {IGNORED} at most")
    return found


def _named_color(line: str) -> tuple[Color, str] | None:
    """Return the color and the name in a line of a table; None if they are unclear."""
    rows = [row for form in _FORMS if (row := form.fullmatch(line))]
    if len(rows) != 1:
        return None
    row = rows[0]
    red, green, blue = (int(row[level]) for level in ("red", "green", "blue"))
    name = row["name"].strip(' \t,:;"')
    return ((red, green, blue), name) if name and max(red, green, blue) <= 255 else None


def _colors_of_json(text: str) -> dict[Color, str]:
    try:
        told = json.loads(text)
        names = {int(number): name for number, name in told["label_map"].items()}
        colors = [
            (int(red), int(green), int(blue)) for red, green, blue in told["segmentation_colors"]
        ]
        found = {color: str(names[at]) for at, color in enumerate(colors)}
    except (ValueError, OverflowError, TypeError, KeyError, AttributeError, RecursionError):
        return {}
    are_levels = all(0 <= level <= 255 for color in colors for level in color)
    return found if are_levels and len(found) == len(colors) <= IGNORED else {}


def colors_in(text: str, path: str) -> dict[Color, int]:
    """Return the colors of classes in their order: a line each, in which the name may follow."""
    colors: dict[Color, int] = {}
    for number, line in enumerate(filter(str.strip, text.split("\n"))):
        try:
            color = parse_color(line.strip())
        except ValueError:
            said = f"{path}: {line.strip()!r:.60} does not begin with a color: #ff0000"
            raise SourceError(said) from None
        if colors.setdefault(color, number) != number:
            raise SourceError(f"{path}: {line.strip()!r:.60} is a color that is there twice")
    if not 0 < len(colors) <= 256:
        raise SourceError(f"{path}: names {len(colors)} colors; masks have 1 to 256")
    return colors
