"""Masks that lie beside images: which belongs to which image."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dsprep.errors import OptionError, SourceError
from dsprep.places.scan import RunAll, scan_below
from dsprep.sources.annotated.masks import Masks, read_colors, require_numbers
from dsprep.storage.files import full_path
from dsprep.units import extension_in, format_count, format_some

if TYPE_CHECKING:
    import polars as pl

    from dsprep.places.match import Spelling
    from dsprep.sources.source import Source

_ENDINGS = ("", "_mask", "_masks", "_seg", "_segmentation", "_label", "_gt", "_labelIds")
_KINDS = frozenset({"png", "gif", "bmp", "tif", "tiff"})  # lossless: others change numbers


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


def mask_names(source: Source) -> tuple[str, ...]:
    """Return the names of the classes of masks; none if nobody gave them."""
    from dsprep.lists.store import read_classes  # imported late: workers do not need it

    return () if source.mask_classes is None else read_classes(source.mask_classes)
