"""Masks that lie beside images: which belongs to which image, and what their pixels mean."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dsprep.annotations.masks import IGNORED, Color, mask_of, numbers_of, png_of, used_in
from dsprep.annotations.objects import Rle
from dsprep.errors import BadSample, OptionError, SourceError
from dsprep.images.header import read_header
from dsprep.images.transform import decoded, upright_size
from dsprep.places.scan import RunAll, scan_below
from dsprep.storage.files import full_path, read_sized
from dsprep.units import extension_in, format_count, format_some, quoted

if TYPE_CHECKING:
    import polars as pl

    from dsprep.places.match import Spelling
    from dsprep.sources.source import Source

_ENDINGS = ("", "_mask", "_masks", "_seg", "_segmentation", "_label", "_gt", "_labelIds")
_KINDS = frozenset({"png", "gif", "bmp", "tif", "tiff"})  # lossless: others change numbers
_LOOKED_AT = 64
_COLOR = re.compile(r"#?([0-9a-fA-F]{6})|(\d{1,3})[\s,]+(\d{1,3})[\s,]+(\d{1,3})")
_LARGEST = 1 << 28  # maximum size of a mask, in pixels
WRONG = -1  # stands for the class of a row that is wrong


@dataclass(frozen=True)
class Masks:
    """The masks of images, by the number of an image's annotations. Plain data for workers."""

    root: str
    paths: tuple[str, ...]  # below the root; empty for an image without one
    sizes: Sequence[int]  # bytes of each file
    colors: Mapping[Color, int] | None = None
    values: Mapping[int, int] | None = None
    names: tuple[str, ...] = ()  # of the classes, by number, if a manifest tells them

    def of(self, numbers: Sequence[int]) -> Masks:
        """Return the masks of images, given the number of each here; -1 has none."""
        paths = tuple(self.paths[at] if at >= 0 else "" for at in numbers)
        return replace(
            self, paths=paths, sizes=[self.sizes[at] if at >= 0 else 0 for at in numbers]
        )

    def digest(self) -> bytes:
        """Identify the files, by names and sizes, and what their pixels mean."""
        facts = (self.paths, list(self.sizes), self.colors, self.values)
        return repr(facts).encode()

    def mask(self, number: int, image: bytes = b"") -> bytes | None:
        """Return the mask of an image; None if it has none."""
        path = self.paths[number]
        if not path:
            return None
        try:
            data = read_sized(os.path.join(self.root, path), self.sizes[number])
        except OSError as error:
            raise BadSample(f"its mask cannot be read ({error.strerror})") from None
        if data is None:
            raise BadSample("its mask has changed since it was listed")
        if self.colors is None and self.values is None:
            return data
        return png_of(numbers_of(decoded(data, "its mask", _LARGEST), self.colors, self.values))


@dataclass(frozen=True)
class TableMasks:
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


def find_masks(
    source: Source, paths: Sequence[str], run_all: RunAll
) -> tuple[Masks, Sequence[str]]:
    """Find the mask of each image in a directory: by its path without extension, or its stem.

    Returns also the files there that are the mask of no image.
    """
    root = str(source.masks)
    if posixpath.basename(root.rstrip("/")) == "SegmentationObject":
        raise OptionError(
            f"--masks {root}: its pixels are numbers of objects, not of classes: give "
            "SegmentationClass"
        )
    known, found = _known_and_found(source, paths, run_all)
    if not any(found):
        raise SourceError(
            f"{root}: not one of its {format_count(len(known), 'file')} is called like an image, "
            f"{next(iter(known))!r} and {paths[0]!r} for example"
        )
    colors = None if source.mask_colors is None else read_colors(source.mask_colors)
    masks = Masks(root, tuple(found), [known.get(path, 0) for path in found], colors)
    masks = replace(masks, values=_values(source))
    require_numbers(masks)
    return masks, sorted(known.keys() - {*found, *_as_below(source, paths)})


def lossy_among_masks(source: Source, images: pl.DataFrame, samples: pl.DataFrame) -> list[str]:
    """Note which images are neither samples nor masks, as they lie in the directory of masks."""
    if len(images) == len(samples):
        return []
    left = images.join(samples, on="path", how="anti", maintain_order="left")["path"].to_list()
    lossy = [path for path in left if extension_in(path).removeprefix(".") not in _KINDS]
    if not lossy:
        return []
    return [
        f"{format_count(len(lossy), 'image')} in {source.masks} taken neither for samples nor for "
        f"masks, which are PNG, GIF, BMP or TIFF: {format_some(lossy)}"
    ]


def without_mask_files(source: Source, images: pl.DataFrame, run_all: RunAll) -> pl.DataFrame:
    """Return the images that are samples, if ``--masks`` names files among them.

    A directory below SOURCE has nothing but masks. If it is SOURCE itself, or above, the masks of
    others are none.
    """
    if source.masks is None:
        return images
    inside = _within(source.masks, source.root)
    if inside:
        samples = images.filter(~images["path"].str.starts_with(f"{inside}/"))
        if samples.is_empty():
            raise OptionError(
                f"--masks {source.masks}: has all images of {source.root}: if masks lie among the "
                "images, give the same directory as SOURCE"
            )
        return samples
    paths = images["path"].to_list()
    names = _as_below(source, paths)
    if not names:
        return images
    _, found = _known_and_found(source, paths, run_all)
    masks = {*found}
    return images.filter([name not in masks for name in names])


def _within(path: str, top: str) -> str | None:
    """Return a path below another, empty for this itself; None if it lies elsewhere."""
    path, top = full_path(path), full_path(top)
    if path == top:
        return ""
    top = f"{top.rstrip('/')}/"
    return path.removeprefix(top) if path.startswith(top) else None


def _as_below(source: Source, paths: Sequence[str]) -> list[str]:
    """Return the paths of images below the directory of masks; none if SOURCE is not in it."""
    inside = _within(source.root, str(source.masks))
    return [] if inside is None else [posixpath.join(inside, path) for path in paths]


def _known_and_found(
    source: Source, paths: Sequence[str], run_all: RunAll
) -> tuple[dict[str, int], list[str]]:
    """Return the files that may be masks, and the mask of each image: empty for none."""
    from dsprep.places.match import match, texts  # imported late: workers do not need it

    root = str(source.masks)
    known = files_below(root, run_all)
    if not known:
        raise OptionError(f"--masks {root}: holds no PNG, GIF, BMP or TIFF")
    pairs = zip(paths, _as_below(source, paths), strict=False)
    own = [path for path, name in pairs if name in known]
    others = sorted({*paths} - {*own})
    # An image that is one of these files is not its own mask: its mask has an ending more.
    plain = texts(f"{posixpath.splitext(path)[0]}." for path in own)
    files, found = texts(known), dict[str, str | None]()
    for meant in (
        match(texts(others), files, _spellings(_ENDINGS)),
        match(plain, files, _spellings(_ENDINGS[1:]))._replace(names=texts(own)),
    ):
        meant.refuse_several(
            root,
            lambda one, two: ": give the directory whose paths are those of the images",
            says="the mask of {} may be",
        )
        found |= zip(meant.names, meant.paths, strict=True)
    return known, [found[path] or "" for path in paths]


def files_below(root: str, run_all: RunAll) -> dict[str, int]:
    """Return the files in a directory that may be masks, with their sizes."""
    known: dict[str, int] = {}
    for scanned in scan_below(root, _KINDS, run_all):
        names = scanned.paths.split("\0") if scanned.sizes else []
        known |= zip(names, scanned.sizes, strict=True)
    return known


def _spellings(endings: Sequence[str]) -> Iterator[Spelling]:
    """Compare paths without extension, then stems; those of masks may have an ending more."""
    import polars as pl

    from dsprep.places.match import NAME, PATH, Spelling, bare, stem

    for form in (bare, stem):
        mask = form(PATH).str
        forms = [pl.when(mask.ends_with(end)).then(mask.strip_suffix(end)) for end in endings]
        yield Spelling(form(NAME), pl.concat_list(forms).list.drop_nulls())


def _values(source: Source) -> dict[int, int] | None:
    """Return the class numbers of pixels that are others: `255=1`."""
    values: dict[int, int] = {}
    for pixel, number in (source.mask_values or {}).items():
        try:
            values[int(pixel)] = int(number)
        except ValueError:
            values[-1] = -1
        if not all(0 <= each <= 255 for pair in values.items() for each in pair):
            raise OptionError(f"--mask-values {pixel}={number}: both are numbers from 0 to 255")
    return values or None


def require_numbers(masks: Masks) -> None:
    """Refuse masks if nothing says what their pixels mean, before anything is written."""
    seen: set[int] = set()
    for number in [at for at, path in enumerate(masks.paths) if path][:_LOOKED_AT]:
        data = masks.mask(number)
        try:
            image = numbers_of(decoded(data or b"", "its mask", _LARGEST), None, None)
        except BadSample as error:
            raise SourceError(f"{masks.root}/{masks.paths[number]}: {error}") from None
        seen |= {*used_in(image)}
    if IGNORED in seen and seen <= {0, IGNORED}:
        raise SourceError(
            f"{masks.root}: the pixels of its masks are 0 and 255, and 255 means that a pixel "
            "belongs to no class: give --mask-values 255=1"
        )


def parse_color(text: str) -> Color:
    """Return the color that a text begins with: `#ff0000` or `255 0 0`; a ValueError if none."""
    match = _COLOR.match(text)
    if match is None:
        raise ValueError(text)
    red, green, blue = bytes.fromhex(match[1]) if match[1] else map(int, match.groups()[1:])
    if max(red, green, blue) > 255:
        raise ValueError(text)
    return red, green, blue


def read_colors(path: str) -> dict[Color, int]:
    """Read the colors of classes in their order: a line each, in which the name may follow."""
    from dsprep.text import read_text  # imported late: workers do not need it

    colors: dict[Color, int] = {}
    for number, line in enumerate(filter(str.strip, read_text(path).split("\n"))):
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


def mask_names(source: Source) -> tuple[str, ...]:
    """Return the names of the classes of masks; none if nobody gave them."""
    from dsprep.lists.store import read_classes  # imported late: workers do not need it

    return () if source.mask_classes is None else read_classes(source.mask_classes)
