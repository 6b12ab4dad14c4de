"""Images that are likely masks of other images: they are no samples, whatever their directory."""

from __future__ import annotations

import io
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from dsprep.errors import BadSample
from dsprep.findings import Finding
from dsprep.images.header import read_header
from dsprep.storage.files import open_file, read_bytes

if TYPE_CHECKING:
    import polars as pl

    from dsprep.places.files import Files

MASKS = "has the look of a mask of"
"""How the detail of a likely mask begins, before the image that it is of."""

_WORDS = (
    "masks?|labels?|labelids|instances?|instanceids|gtfine|annot|annotations|trimaps?|segs?|segmentations?"
    "|segmentationclass|gts?|ground_?truths?"
)
_IN_DIRECTORY = re.compile(rf"(?i)(?:^|/)(?:{_WORDS})/(?:.*/)?[^/]+$")
_BY_SUFFIX = re.compile(rf"(?i)[_-](?:{_WORDS}|l|p|color)$")
_PAIRS, _PAIRS_OF_CONVENTION = 8, 2  # pairs that are decoded: in all, of names of one kind
_MOST_PIXELS, _MOST_VALUES = 4_000_000, 64
_HEAD = 1 << 16  # bytes with the header of an image
_GRAY, _PALETTE = 0, 3  # colors of a PNG that a mask has


def without_masks(root: str, files: Files) -> Files:
    """Take likely masks out of the images of a directory, as files that are left over."""
    import polars as pl

    paths = files.table["path"]
    # Fast, as few sets have any.
    named = paths.filter(paths.str.ends_with(".png") | paths.str.ends_with(".PNG"))
    candidates = [path for path in named.filter(_may_be(named)) if _is_named(path)]
    if files.archive is not None or not candidates:
        return files
    others = paths.filter(~paths.is_in(candidates))
    images = _nearest_images(candidates, others)
    pairs: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(images):
        pairs.setdefault(_convention(path), []).append((path, images[path]))
    masks: dict[str, str] = {}
    for own in sorted(pairs.values(), key=len, reverse=True)[: _PAIRS // _PAIRS_OF_CONVENTION]:
        looked_at = own[:: max(1, len(own) - 1)][:_PAIRS_OF_CONVENTION]
        if all(_is_mask(root, *pair) for pair in looked_at):
            masks |= dict(own)
    if not masks:
        return files
    first = {posixpath.dirname(path): path for path in sorted(masks, reverse=True)}
    details = {path: f"{MASKS} {masks[path]}" for path in first.values()}
    found = [Finding("left-over", path, details.get(path, "")) for path in masks]
    findings = sorted([*files.findings, *found], key=lambda each: each.path)
    table = files.table.filter(~pl.col("path").is_in(list(masks)))
    return files._replace(table=table, findings=findings)


def _nearest_images(masks: Iterable[str], others: Iterable[str]) -> dict[str, str]:
    """Return the image that each mask may be of: one of its name, as near in the tree as any."""
    stems = {path: _stem(path) for path in masks}
    wanted = {*stems.values(), *(_BY_SUFFIX.sub("", stem) for stem in stems.values())}
    below: dict[tuple[str, str], str] = {}
    for path in others:
        if (stem := _stem(path)) in wanted:
            for directory in _directories(path):
                below.setdefault((directory, stem), path)
    found = {}
    for path, stem in stems.items():
        names = (stem, _BY_SUFFIX.sub("", stem))
        near = (below.get((where, name)) for where in _directories(path) for name in names)
        if image := next(filter(None, near), None):
            found[path] = image
    return found


def _stem(path: str) -> str:
    return posixpath.splitext(posixpath.basename(path))[0]


def _directories(path: str) -> Iterator[str]:
    """Yield the directories that a path lies in, the nearest first, and the root as ``""``."""
    while path:
        path = posixpath.dirname(path)
        yield path


def _convention(path: str) -> str:
    """Return what says that a file may be a mask: the end of its name, or a directory's name."""
    by_suffix = _BY_SUFFIX.search(_stem(path))
    if by_suffix:
        return by_suffix[0].lower()
    words = (part for part in reversed(path.split("/")[:-1]) if _IN_DIRECTORY.search(f"{part}/x"))
    return next(words, "").lower()


def _may_be(paths: pl.Series) -> pl.Series:
    return paths.str.contains(rf"(?i)(?:^|/)(?:{_WORDS})/|[_-](?:{_WORDS}|l|p|color)\.png$")


def _is_named(path: str) -> bool:
    return bool(_IN_DIRECTORY.search(path) or _BY_SUFFIX.search(_stem(path)))


def _is_mask(root: str, mask: str, image: str) -> bool:
    """Return whether a PNG has few values, and the size of an image in full color."""
    places = [f"{root.rstrip('/')}/{path}" for path in (mask, image)]
    try:
        heads = [_head(path) for path in places]
        sizes = [read_header(head) for head in heads]
    except (OSError, BadSample):
        return False
    one, two = ((each.width, each.height) for each in sizes)
    if one != two or one[0] * one[1] > _MOST_PIXELS:
        return False
    if _color(heads[0]) not in (_GRAY, _PALETTE) or _color(heads[1]) in (_GRAY, _PALETTE):
        return False
    return _has_few_values(read_bytes(places[0]))


def _color(head: bytes) -> int | None:
    """Return the kind of colors that the header of a PNG tells; None for other images."""
    return head[25] if head.startswith(b"\x89PNG") and len(head) > 25 else None


def _has_few_values(data: bytes) -> bool:
    from PIL import Image  # slow to load

    try:
        with Image.open(io.BytesIO(data)) as image:
            return image.getcolors(_MOST_VALUES) is not None
    except (OSError, ValueError, SyntaxError):
        return False


def _head(path: str) -> bytes:
    with open_file(path) as file:
        return file.pread(_HEAD, 0)


def directories_of(path: str, detail: str) -> Sequence[str]:
    """Return the directories of a mask and of the image that a detail names."""
    return posixpath.dirname(path), posixpath.dirname(detail.removeprefix(f"{MASKS} "))
