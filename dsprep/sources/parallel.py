"""Directories that are parallel to one another: each has the same names of files as another."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from dsprep.places.names import FILE_WORDS, side_name
from dsprep.sources.mask_names import (
    DIVIDED,
    MASK_WORDS,
    Pair,
    is_for_images,
    is_for_masks,
    words_of,
)

if TYPE_CHECKING:
    import polars as pl

# Directories for a part of each sample, whatever their images show.
_PART_WORDS = frozenset(
    ("depth", "depths", "disparity", "disp", "normals", "flow", "occ", "noc", "rgb", "nir")
    + ("hr", "lr", "hq", "lq", "upsampled", "upscaled", "left", "right")
    + ("clean", "final", "noisy", "albedo", "viz", "invalid", "occlusion", "occlusions")
)
_LOSSLESS = (".png", ".apng", ".bmp", ".gif", ".tif", ".tiff")
_DEPTHS = 4  # directories of a path that may be parallel to others
MOST_PARALLEL = 8  # directories that are parallel to one another
_RANK_OF_MASKS, _NO_PART = 2, 3
SAMPLED = 1000  # paths that show whether directories are parallel
_LOOKED_UP = 50  # names in one directory that are looked for in another

Groups: TypeAlias = Mapping[str, Sequence[str]]
"""Paths by the directory at one depth."""


def pairs_for(image: str, other: str) -> dict[str, str]:
    """Return what ``--pair`` takes for two files of one sample.

    They lie in parallel directories, or their names go on in different ways. Files of each
    directory may differ by their extensions, or be called the same everywhere: `im0.png`.
    """
    parts = [each.split("/") for each in (image, other)]
    (one, first), (two, second) = (posixpath.splitext(each[-1]) for each in parts)
    is_beside = parts[0][:-1] == parts[1][:-1]
    if is_beside and (one == two or not posixpath.commonprefix((one, two))):
        ends = (first, second) if one == two else (f"/{one}{first}", f"/{two}{second}")
        field = re.sub(r"[^a-z0-9_]", "_", (second[1:] if one == two else two).lower())
        return {"image": f"**{ends[0]}", field: f"**{ends[1]}"}
    depth = next(at for at, (one, two) in enumerate(zip(*parts, strict=False)) if one != two)
    stems, extensions = zip(*(posixpath.splitext(each[-1]) for each in parts), strict=True)
    common = len(posixpath.commonprefix(stems))
    patterns = [
        "/".join([*each[: depth + 1][: len(each) - 1], "**" if len(each) > depth + 2 else "*"])
        + stem[common:]
        + extension
        for each, stem, extension in zip(parts, stems, extensions, strict=True)
    ]
    name = stems[1][common:] if is_beside else parts[1][depth]
    field = re.sub(r"[^a-z0-9_]", "_", name.lower()).strip("_")
    field = field if field not in ("", "image") else "other"
    return dict(zip(("image", field), patterns, strict=True))


def parallel_pairs(
    paths: pl.Series, choose: Callable[[Groups], tuple[str, Sequence[str]]]
) -> Iterator[list[Pair]]:
    """Yield the files of directories that have the names of those in another, with these.

    ``choose`` returns the directory of images, and those that may be parallel to it; a file that
    has no other is paired with the empty path.
    """
    sampled = paths.gather_every(max(1, len(paths) // SAMPLED)).to_list()
    for depth in range(_DEPTHS):
        groups = _groups(sampled, depth)
        if not 1 < len(groups) <= MOST_PARALLEL or not choose(groups)[1]:
            continue
        every = _groups(paths, depth)
        image, others = choose(every)
        by_rest = {_rest(path, depth): path for path in every.get(image, ())}
        for name in others:
            own = {path: by_rest.get(_rest(path, depth), "") for path in every[name]}
            some = [*own.values()][:: max(1, len(own) // _LOOKED_UP)]
            if 10 * sum(map(bool, some)) >= 9 * len(some):
                yield [*own.items()]


def _groups(paths: Iterable[str], depth: int) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in paths:
        parts = path.split("/", depth + 1)
        if len(parts) < depth + 2:
            return {}  # not all lie so deep
        found.setdefault(parts[depth], []).append(path)
    return found


def _rest(path: str, depth: int) -> str:
    """Return a path without the directory at a depth and without its extension."""
    parts = posixpath.splitext(path)[0].split("/")
    return "/".join(parts[:depth] + parts[depth + 1 :])


def are_parts(groups: Groups) -> tuple[str, Sequence[str]]:
    """Choose directories that are all called like parts of samples."""
    ranks = {name: _rank_of_part(name) for name in groups}
    image, *others = sorted(groups, key=lambda name: (ranks[name], _says_only_part(name), name))
    if _NO_PART in ranks.values() or ranks[image] == _RANK_OF_MASKS:
        return "", ()  # `mask` and `no_mask` are classes
    if not all(map(_says_only_part, others)):
        return "", ()  # so are `real_images` and `fake_images`
    return image, others


def _says_only_part(directory: str) -> bool:
    """Return whether the whole name of a directory is that of a part: `depth`, `rgb_images`."""
    for words in ({*DIVIDED.split(directory.lower())}, {*_capitalized(directory)}):
        if words - {"left", "right"} <= MASK_WORDS or set() < words - FILE_WORDS <= _PART_WORDS:
            return True
    return False


def _capitalized(directory: str) -> list[str]:
    """Return the words of a name that begin with a capital: `DepthLeft` has two."""
    return [each.lower() for each in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", directory)]


def _rank_of_part(directory: str) -> int:
    """Return how likely a directory has the images of samples: the lower, the likelier."""
    if side_name(directory) is not None:
        return _NO_PART
    if is_for_images(directory):
        return 0
    if not _PART_WORDS.isdisjoint(words_of(directory)):
        return 1
    return _RANK_OF_MASKS if is_for_masks(directory) else _NO_PART


def lossless_beside_lossy(groups: Groups) -> tuple[str, Sequence[str]]:
    """Choose directories of PNGs, beside one of JPEGs."""
    if any(side_name(name) for name in groups):
        return "", ()
    lossless = [name for name, own in groups.items() if all(map(_is_lossless, own[:_LOOKED_UP]))]
    lossy = [name for name, own in groups.items() if not any(map(_is_lossless, own[:_LOOKED_UP]))]
    return (lossy[0], lossless) if len(lossy) == 1 else ("", ())


def _is_lossless(path: str) -> bool:
    return path.lower().endswith(_LOSSLESS)


def are_of_one_size(groups: Groups) -> tuple[str, Sequence[str]]:
    """Choose two directories of nearly as many images."""
    if len(groups) != 2 or any(side_name(name) for name in groups):
        return "", ()
    image, other = sorted(groups)
    sizes = sorted(map(len, groups.values()))
    return (image, [other]) if 10 * sizes[0] >= 9 * sizes[1] else ("", ())
