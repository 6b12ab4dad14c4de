"""Which images are called like masks, and which images these masks may be of."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from dsprep.patterns import pattern
from dsprep.places.names import FILE_WORDS, is_companion, side_above

if TYPE_CHECKING:
    import polars as pl

MASK_WORDS = frozenset(
    (
        *("mask", "masks", "label", "labels", "labelids", "labelid", "trainids", "trainannot"),
        *(
            "instance",
            "instances",
            "instanceids",
            "semantic",
            "semantics",
            "semseg",
            "panoptic",
            "parts",
        ),
        *(
            "ann",
            "anns",
            "annot",
            "annots",
            "annotation",
            "annotations",
            "trimap",
            "trimaps",
            "scribble",
        ),
        *("scribbles", "seg", "segs", "segmentation", "segmentations", "segmentationclass"),
        *("segmentationobject", "segment", "segments", "gt", "gts", "truth", "truths"),
        *(
            "groundtruth",
            "groundtruths",
            "gtfine",
            "gtcoarse",
            "manual",
            "lesion",
            "lesions",
            "roi",
        ),
    )
)
_LAST_WORDS = frozenset(("l", "p", "color"))  # `1_L.png`, as CamVid and CelebAMask have masks
_WORD = pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NUMBERED_CLASS = pattern(r"(?i)labels?[\W_]*\d+")  # `label_0` is a class
DIVIDED = pattern(r"[\s_.-]+")
_BEFORE_NUMBER = pattern(
    rf"(?i)^(?:{'|'.join(sorted(MASK_WORDS | FILE_WORDS, key=len, reverse=True))})(?=\d)"
)
_AFTER_NUMBER = pattern(
    rf"(?i)(?<=\d)(?:{'|'.join(sorted(MASK_WORDS | FILE_WORDS, key=len, reverse=True))})$"
)  # `1img.jpg`, `1gt.png`
_IMAGE_WORDS = FILE_WORDS | {"rgb"}
# `1_sat.jpg`, `1_mask.png`; DRIVE has `21_training.tif`, `21_manual1.gif`
_IMAGE_ENDINGS = frozenset(("leftimg8bit", "sat", "original", "orig", "training", "test"))
IMAGE_ENDING = pattern(rf"(?i)[_-](?:{'|'.join(sorted(_IMAGE_WORDS | _IMAGE_ENDINGS))})$")
"""What names of images end in that those of masks do not have."""
_LOSSLESS = r"(?i)\.(?:a?png|bmp|gif|tiff?)$"
_LOOKED_UP = 1000  # paths that show whether others are beside them
_LONGEST_ENDING = 64  # characters
_FIRST_WORDS = frozenset(("mask", "masks"))  # `mask_1.png`
_MOST_FOR_ONE = 10  # images; among fewer, one mask shows what its name means
_CONVENTIONS = 4  # ways of naming masks that are looked at

Pair: TypeAlias = tuple[str, str]
"""What may be a mask, and the image that it may be of."""


def named_alike(paths: pl.Series) -> Iterator[tuple[list[str], list[Pair]]]:
    """Yield files that one word calls masks, and those of them that have an image, with that."""
    candidates = [path for path in paths.filter(_may_be(paths)) if is_called_mask(path)]
    if not 0 < len(candidates) < len(paths):
        return
    images = _nearest_images(candidates, paths)
    by_name: dict[str, list[str]] = {}
    for path in sorted(candidates):
        by_name.setdefault(convention(path), []).append(path)
    for own in sorted(by_name.values(), key=len, reverse=True)[:_CONVENTIONS]:
        pairs = [(path, images[path]) for path in own if path in images]
        if len(pairs) > 1 or len(pairs) >= len(paths) // _MOST_FOR_ONE:
            yield own, pairs  # otherwise one picture among many, which tells nothing


def named_longer(paths: pl.Series) -> Iterator[list[Pair]]:
    """Yield PNGs and the like, each with the JPEG beside it that its name begins with.

    They are yielded by what their names go on with, as ``1_1stHO.png`` beside ``1.jpg``, if half of
    the JPEGs or more have one.
    """
    lossless = paths.filter(paths.str.contains(_LOSSLESS)).to_list()
    if not 0 < len(lossless) < len(paths):
        return
    images = {posixpath.splitext(path)[0]: path for path in without(paths, lossless)}
    some = lossless[:: max(1, len(lossless) // _LOOKED_UP)]
    if 2 * sum(bool(_shorter(path, images)) for path in some) < len(some):
        return
    by_ending: dict[str, list[Pair]] = {}
    for path in lossless:
        if stem := _shorter(path, images):
            ending = posixpath.splitext(path)[0].removeprefix(stem)
            by_ending.setdefault(ending, []).append((path, images[stem]))
    yield from (pairs for pairs in by_ending.values() if 2 * len(pairs) >= len(images))


def _shorter(path: str, stems: Container[str]) -> str:
    """Return what a path begins with that is the stem of another; empty if none is."""
    stem = posixpath.splitext(path)[0]
    begins = (stem[: each.start()] for each in DIVIDED.finditer(stem))
    return next((each for each in begins if each in stems), "")


def _may_be(paths: pl.Series) -> pl.Series:
    """Return which paths may have a word for masks: fast, as few sets have any."""
    return paths.str.contains(
        "(?i)mask|label|manual|trainids|instance|semantic|panoptic|parts|annot|trimap|scribble|seg|gt|truth|lesion|roi"
        r"|anns?[_./]|_l\.|_p\.|_color\."
    )


@lru_cache(4096)
def words_of(name: str) -> frozenset[str]:
    """Return the words in a name: `gtFine_labelIds` has `gt`, `fine`, `label` and `ids`."""
    return frozenset(each.lower() for each in (*_WORD.findall(name), *DIVIDED.split(name)))


def is_called_mask(path: str) -> bool:
    """Return whether a file is called like a mask, or the nearest word among its directories is."""
    *directories, name = path.split("/")
    return bool(_mask_words(name) or _mask_directory(directories))


def _mask_words(name: str) -> str:
    """Return the words of a file's name that say it is a mask; of the first, `mask` alone."""
    words = DIVIDED.split(posixpath.splitext(name)[0])
    if len(words) > 1 and words[0].lower() in _FIRST_WORDS:
        return words[0].lower()
    own = sorted(MASK_WORDS & words_of("_".join(words[1:] or words)))
    if not own and len(words) > 1 and words[-1].lower() in _LAST_WORDS:
        return words[-1].lower()
    return " ".join(own)


def _mask_directory(directories: Sequence[str]) -> str:
    """Return the nearest directory that is called like masks, unless a nearer one is of images."""
    for name in reversed(directories):
        if is_for_masks(name):
            return name
        if is_for_images(name):
            return ""
    return ""


@lru_cache(4096)
def is_for_masks(directory: str) -> bool:
    """Return whether a directory is called like masks."""
    if _NUMBERED_CLASS.fullmatch(directory):
        return False
    return not MASK_WORDS.isdisjoint(words_of(directory)) or is_companion(directory)


@lru_cache(4096)
def is_for_images(directory: str) -> bool:
    """Return whether a directory is called like images."""
    return not _IMAGE_WORDS.isdisjoint(words_of(directory))


def convention(path: str) -> str:
    """Return what says that a file may be a mask: the words of its name, or a directory's name."""
    *directories, name = path.split("/")
    return _mask_words(name) or _mask_directory(directories).lower()


def endings_of_masks(masks: Iterable[str], images: Iterable[str]) -> Sequence[str]:
    """Return what names go on with after those of images, the most frequent first.

    ``1_1stHO.png`` goes on with ``_1stHO`` after ``1.jpg``. Words for images do not count, so that
    ``21_manual1.gif`` does with ``_manual1`` after ``21_training.tif``. Those that are half as
    frequent as the first, or less, are none.
    """
    stems = {without_image_ending(_stem(path)) for path in images}
    found = Counter(_ending_after(_stem(path), stems) for path in masks)
    del found[""]
    most = max(found.values(), default=0)
    return [ending for ending, count in found.most_common() if 2 * count > most]


def _ending_after(stem: str, stems: Collection[str]) -> str:
    """Return what a stem has more than the longest one that it begins with; empty for nothing."""
    cuts = range(len(stem) - 1, max(0, len(stem) - _LONGEST_ENDING) - 1, -1)
    return next((stem[at:] for at in cuts if stem[:at] in stems), "")


def without_image_ending(stem: str) -> str:
    """Return a stem without a word that only tells that the file is an image."""
    return IMAGE_ENDING.sub("", stem)


def _stem(path: str) -> str:
    return posixpath.splitext(posixpath.basename(path))[0]


def _nearest_images(masks: Sequence[str], paths: pl.Series) -> dict[str, str]:
    """Return the image that each mask may be of: one of its name, as near in the tree as any.

    It is of the side of the mask, if both are of one.
    """
    others = without(paths, masks)
    keys = {path: _keys(path) for path in masks}
    wanted = {key for own in keys.values() for key in own}
    below: dict[tuple[str, str, str | None], str] = {}
    for path in others:
        if (key := name_in_common(path)) in wanted:
            side = side_above(path)
            for directory in _directories(path):
                below.setdefault((directory, key, side), path)
                below.setdefault((directory, key, None), path)
                if not key:  # `mask.png` is of `image.png` beside it
                    break
    found = {}
    for path, own in keys.items():
        side = side_above(path)
        sides = (side, "") if side else (None,)
        near = (
            below.get((where, key, each))
            for where in _directories(path)
            for key in own
            for each in sides
        )
        if image := next(filter(None, near), None):
            found[path] = image
    lost = [path for path in masks if path not in found]
    return found | _only_images(lost, others) if lost else found


def _only_images(masks: Iterable[str], others: Iterable[str]) -> dict[str, str]:
    """Return the image of masks that lie in a directory beside that of one image alone."""
    parents = {path: posixpath.dirname(posixpath.dirname(path)) for path in masks}
    wanted = {parent for parent in parents.values() if parent}
    held: dict[str, list[str]] = {}
    for path in others if wanted else ():
        parent = posixpath.dirname(posixpath.dirname(path))
        if parent in wanted:
            held.setdefault(parent, []).append(path)
    return {path: held[own][0] for path, own in parents.items() if len(held.get(own, ())) == 1}


def name_in_common(path: str) -> str:
    """Return what the name of an image has in common with that of its mask."""
    words = DIVIDED.split(posixpath.splitext(posixpath.basename(path))[0])
    return _joined(words)


def _joined(words: Iterable[str]) -> str:
    bare = (_AFTER_NUMBER.sub("", word) for word in words if not _says_part(word))
    kept = (_BEFORE_NUMBER.sub("", word) for word in bare)
    key = "_".join(kept)
    return key.lstrip("0") or "0" if key.isdigit() else key


@lru_cache(4096)
def _says_part(word: str) -> bool:
    """Return whether a word tells only which part of a sample a file is."""
    if word.lower() in MASK_WORDS | _IMAGE_WORDS | _IMAGE_ENDINGS:
        return True
    return not any(map(str.isdigit, word)) and not MASK_WORDS.isdisjoint(words_of(word))


def _keys(path: str) -> list[str]:
    """Return the keys that the image of a mask may have, the likeliest first."""
    words = DIVIDED.split(posixpath.splitext(posixpath.basename(path))[0])
    found = [_joined(words)]
    at = next((at for at, word in enumerate(words) if at and _says_part(word)), len(words))
    cut = [words[:at]]
    if words[-1].lower() in _LAST_WORDS:
        cut.append(words[:-1])
    if _mask_directory(path.split("/")[:-1]):
        cut += [words[:-1], words[:-2]]  # several masks of an image: `1_m0_a1b2.png`
    return list(dict.fromkeys(found + [_joined(each) for each in cut if each]))


def _directories(path: str) -> Iterator[str]:
    """Yield the directories that a path lies in, the nearest first, and the root as ``""``."""
    while path:
        path = posixpath.dirname(path)
        yield path


def without(paths: pl.Series, others: Collection[str]) -> pl.Series:
    """Return the paths that are none of some others."""
    return paths.filter(~paths.is_in(list(others))) if others else paths
