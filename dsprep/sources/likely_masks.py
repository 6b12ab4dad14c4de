"""Images that are likely masks of other images, or other parts of their samples: no samples.

Names say which images may be: `masks/1.png`, `1_mask.png`, or `LR/1.jpg` beside `HR/1.jpg`. The
pixels of some decide whether they are masks.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Collection, Iterable
from itertools import chain
from typing import TYPE_CHECKING

from dsprep.findings import Finding
from dsprep.places.names import side_above
from dsprep.sources.mask_names import Pair, endings_of_masks, named_alike, named_longer, without
from dsprep.sources.mask_pixels import Pictures, are_masks, have_proportions
from dsprep.sources.parallel import (
    MOST_PARALLEL,
    SAMPLED,
    are_of_one_size,
    are_parts,
    lossless_beside_lossy,
    pairs_for,
    parallel_pairs,
)
from dsprep.units import extension_in, format_count

if TYPE_CHECKING:
    import polars as pl

    from dsprep.places.files import Files

MASKS = "has the look of a mask of"
"""How the detail of a likely mask begins, before the image that it is of."""

PARTS = "belongs to"
"""How the detail of another part of a sample begins, before the image of the sample."""

MAPS = "may have a value for each pixel of"
"""How the detail of a map of flow, depth or disparity begins, before the image that it is of."""

AT_ANOTHER_SCALE = ", at another scale"
"""How the detail of an image ends that shows another one larger or smaller."""

_SCALED = r"([^/]*)x[2348]\.[^./]+$"
_SAME_NAME = ", which has the same name"


def without_masks(root: str, files: Files, *, are_given: bool = False) -> Files:
    """Take likely masks and other parts of samples out of the images: these are left over.

    If the user has given others, ``are_given``, masks are known and not read, with a note.
    """
    import polars as pl

    paths, top = files.table["path"], _top_of(files)
    masks = likely_masks(root, files)
    parts = _parts(without(paths, masks), top)
    if not masks and not parts:
        note = _note_on_names(paths, Pictures(root, files))
        return files._replace(findings=[*files.findings, note]) if note else files
    kind = "not-read" if are_given else "left-over"
    found = [Finding(kind, path, detail) for path, detail in masks.items()]
    found += [Finding("left-over", path, detail) for path, detail in parts.items()]
    if masks and are_given:
        said = f"{format_count(len(masks), 'likely mask')} not read, such as {min(masks)}"
        found.append(Finding("note", "", f"{said}: they are not among the files of --masks"))
    findings = sorted([*files.findings, *found], key=lambda each: each.path)
    table = files.table.filter(~pl.col("path").is_in([*masks, *parts]))
    return files._replace(table=table, findings=findings)


def likely_masks(root: str, files: Files) -> dict[str, str]:
    """Return the images that are likely masks; the first of each directory with a detail."""
    return _masks(files.table["path"], Pictures(root, files), _top_of(files))


def _top_of(files: Files) -> str:
    """Return what paths of findings will be without."""
    return f"{files.top}/" if files.top else ""


def image_of(detail: str) -> str:
    """Return the image that the detail of a mask, or of another part of its sample, names."""
    return (
        detail.removeprefix(f"{MASKS} ")
        .removeprefix(f"{PARTS} ")
        .removeprefix(f"{MAPS} ")
        .removesuffix(_SAME_NAME)
        .removesuffix(AT_ANOTHER_SCALE)
    )


def option_for_masks(root: str, mask: str, image: str, masks: Collection[str]) -> str:
    """Return what ``--masks`` takes: a pattern of the names of masks, or their directory.

    It is a pattern if their names go on after those of images. That joins further masks of an image
    if there are any.
    """
    from dsprep.sources.annotated.mask_files import further_masks, joining  # few sources have masks

    where, _ = without_common_end(posixpath.dirname(mask), posixpath.dirname(image))
    directory = f"{root}/{where}".rstrip("/")
    ending = "".join(endings_of_masks([mask], [image]))
    if further := further_masks(masks):
        firsts = sorted({*masks}.difference(further))
        return joining(root if ending else directory, firsts, further)
    return f"{root}/*{ending}{extension_in(mask)}" if ending else directory


def without_common_end(one: str, other: str) -> tuple[str, str]:
    """Return two directories without what the ends of their paths have in common."""
    left, right = one.split("/"), other.split("/")
    while len(left) > 1 and len(right) > 1 and left[-1] == right[-1]:
        left.pop()
        right.pop()
    return ("/".join(left), "/".join(right)) if left != right else (one, other)


def _masks(paths: pl.Series, pictures: Pictures, top: str) -> dict[str, str]:
    """Return likely masks; the first of each directory with a detail."""
    masks: dict[str, str] = {}
    for own, pairs in named_alike(paths):
        if are_masks(pairs, pictures):
            where = {posixpath.dirname(path) for path, _ in pairs}
            masks |= {path: "" for path in own if posixpath.dirname(path) in where}
            masks |= _with_details(pairs, MASKS, "", top)
    rest = without(paths, masks)
    for pairs in chain(parallel_pairs(rest, lossless_beside_lossy), named_longer(rest)):
        if are_masks([pair for pair in pairs if pair[1]], pictures):
            masks |= _with_details(pairs, MASKS, "", top)
    return masks


def _parts(paths: pl.Series, top: str) -> dict[str, str]:
    """Return images of the names of others, if directories are called like parts of samples."""
    parts: dict[str, str] = {}
    for pairs in parallel_pairs(paths, are_parts):
        parts |= _with_details(pairs, PARTS, _SAME_NAME, top)
    pairs = _of_other_scales(without(paths, parts))
    return parts | _with_details(pairs, PARTS, AT_ANOTHER_SCALE, top)


def _of_other_scales(paths: pl.Series) -> list[Pair]:
    """Return images such as ``LR/X2/0001x2.png``, if most have one as ``HR/0001.png``, with it."""
    scaled = {
        path: match[1]
        for path in paths.filter(paths.str.contains(_SCALED))
        if (match := re.search(_SCALED, path))
    }
    if not 1 < len(scaled) < len(paths):
        return []
    wanted = set(scaled.values())
    stems = ((posixpath.splitext(posixpath.basename(path))[0], path) for path in paths)
    others = {(stem, side_above(path)): path for stem, path in stems if stem in wanted}
    pairs = [(path, others.get((stem, side_above(path)), "")) for path, stem in scaled.items()]
    are_most = 10 * sum(bool(image) for _, image in pairs) >= 9 * len(pairs)
    return pairs if are_most else []


def _note_on_names(paths: pl.Series, pictures: Pictures) -> Finding | None:
    """Return a note if directories have images of the same names, and these are no numbers.

    Images of other proportions show something else: their directories are classes.
    """
    if _are_numbered(paths.gather_every(max(1, len(paths) // SAMPLED)).to_list(), len(paths)):
        return None
    pairs = next(parallel_pairs(paths, are_of_one_size), None)
    if pairs is None:
        return None
    pairs = [pair for pair in pairs if pair[1]]
    if not have_proportions(pairs, pictures):
        return None
    other, image = min(pairs)
    patterns = (f"{name}={pattern}" for name, pattern in pairs_for(image, other).items())
    options = " ".join(f"--pair {shlex.quote(each)}" for each in patterns)
    return Finding(
        "note",
        "",
        f"images of the same names lie in two directories, such as {image} and {other}: if each "
        f"directory has a part of every sample, give {options}",
    )


def _are_numbered(sampled: Iterable[str], count: int) -> bool:
    """Return whether names of images are counted: few texts, and numbers near each other."""
    stems = [posixpath.splitext(posixpath.basename(path))[0] for path in sampled]
    words = {re.sub(r"\d+", "", stem) for stem in stems}
    numbers = [int("".join(re.findall(r"\d", stem)) or 0) for stem in stems]
    return (
        len(words) <= MOST_PARALLEL
        and max(numbers, default=0) - min(numbers, default=0) < 4 * count
    )


def _with_details(pairs: Iterable[Pair], begin: str, end: str, top: str) -> dict[str, str]:
    """Return the details of the first of each pairs; empty but for one of each directory."""
    pairs = sorted(pairs)
    details = dict.fromkeys((path for path, _ in pairs), "")
    first = {posixpath.dirname(path): (path, image) for path, image in reversed(pairs)}
    return details | {
        path: f"{begin} {image.removeprefix(top)}{end}" for path, image in first.values() if image
    }
