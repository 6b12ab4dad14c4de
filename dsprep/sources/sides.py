"""Sides of a split, such as training and test, among files: which there are, and how to name one.

Also where in the directory that a user names the files of samples lie: a repository of Hugging Face
has them in ``data/``, TFDS in a directory for each version.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from dsprep.errors import SourceError
from dsprep.formats import format_of_source
from dsprep.sample import image_kind_of
from dsprep.storage.paths import entries, exists, is_dir
from dsprep.units import format_some

SIDES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing", "eval", "holdout"), "test"),
}
"""What the sides of a split are called, in lower case, and which side that is."""

_WORD = re.compile(rf"(?:^|[-_.])({'|'.join(SIDES)})(?=[-_.]|$)", re.IGNORECASE)

# tfds: NAME-SPLIT.tfrecord-00000-of-00001; Hugging Face: data/SPLIT-00000-of-00001.parquet
_STATED = re.compile(
    r"(?:.*-)?(?P<tfds>[^-.]+)\.(?:tfrecord|array_record|riegeli)-\d+-of-\d+"
    r"|data/(?P<hub>\w+(?:\.\w+)*)-\d+-of-\d+\S*\.parquet"
)

_NUMBERS = re.compile(r"\d(?:.*\d)?")

_PEEKED = 64
"""Names that tell what a directory holds."""

_MOST_DIRECTORIES = 32
"""Directories that are looked into for files of samples."""


def side_of(path: str) -> str:
    """Return what a file's name, or its directory's, says of its side; empty if nothing."""
    directory, name = os.path.split(path)
    above = os.path.basename(directory)
    if stated := _STATED.fullmatch(f"data/{name}" if above == "data" else name):
        return stated["tfds"] or stated["hub"]
    if words := _WORD.findall(name):
        return str(words[-1])
    return above if above.lower() in SIDES else ""


def _canonical(side: str) -> str:
    return SIDES.get(side.lower(), side)


def pattern_of(files: Sequence[str]) -> str:
    """Return a pattern that matches files, whose numbers may differ, and none of another side."""
    patterns = _patterns(files, _prefix)
    return _braced(patterns if len(patterns) < 4 else _patterns(files, _prefix_without_numbers))


def _patterns(files: Sequence[str], prefix_of: Callable[[str], str]) -> list[str]:
    patterns = []
    for path in files:
        directory, name = os.path.split(path)
        ends = [match.end() for match in re.finditer(re.escape(side_of(path)), name)]
        at = ends[-1] if side_of(path) and ends else 0
        rest = _NUMBERS.sub("*", name[at:], count=1)
        patterns.append(os.path.join(directory, prefix_of(name[:at]) + rest))
    return list(dict.fromkeys(patterns))


def _prefix(text: str) -> str:
    return text


def _prefix_without_numbers(text: str) -> str:
    return re.sub(r"\d+", "*", text)


def _braced(patterns: Sequence[str]) -> str:
    """Return one pattern for several."""
    if len(patterns) == 1:
        return patterns[0]
    directories, names = zip(*map(os.path.split, patterns), strict=True)
    if len(set(directories)) > 1:
        return f"{{{','.join(patterns)}}}"
    return os.path.join(directories[0], f"{{{','.join(names)}}}")


def require_one_side(name: str, files: Iterable[str]) -> None:
    """Refuse files of several sides of a split, which would be mixed."""
    by_side: dict[str, list[str]] = {}
    for path in files:
        if side := side_of(path):
            by_side.setdefault(_canonical(side), []).append(path)
    if len(by_side) < 2:
        return
    order = list(dict.fromkeys(SIDES.values()))
    sides = sorted(by_side, key=lambda side: [*order, side].index(side))
    each = " or ".join(f"'{pattern_of(by_side[side])}'" for side in sides)
    every = pattern_of([path for side in sides for path in by_side[side]])
    raise SourceError(
        f"{name}: holds several sides of a split, {format_some(sides)}: name one of them, "
        f"{each}; or take all, '{every}'"
    )


def located(name: str) -> str:
    """Return where the files of samples lie that a user names."""
    name = name.rstrip("/") or name
    if is_dir(name):
        return _data_directory(name)
    parent, side = os.path.split(name)
    if not side or exists(name) or any(mark in name for mark in "*?[{") or not is_dir(parent):
        return name
    directory = _data_directory(parent)
    paths = [each.path for each in entries(directory) if is_samples(each.name)]
    found = [path for path in sorted(paths) if _canonical(side_of(path)) == _canonical(side)]
    return pattern_of(found) if found else name


def is_samples(name: str) -> bool:
    """Return whether a file's name is that of shards or of Parquet tables."""
    return not name.startswith(".") and (
        format_of_source(name) is not None or _STATED.fullmatch(name) is not None
    )


def _data_directory(root: str) -> str:
    """Return the one directory, at most two levels below, that holds files of samples.

    It is the root itself if it holds such files, if there is none, or if images lie there.
    """
    level, holding, peeked = [root], list[str](), 0
    for _ in range(3):
        below = []
        for directory in level:
            peeked += 1
            found = list(islice(entries(directory), _PEEKED + 1))
            if len(found) > _PEEKED or peeked > _MOST_DIRECTORIES:
                return root
            if any(image_kind_of(each.name) for each in found):
                return root
            if any(is_samples(each.name) and each.is_file() for each in found):
                holding.append(directory)
                continue
            names = sorted(each.name for each in found if each.is_dir())
            data = ["data"] if "data" in names else names
            below += [os.path.join(directory, each) for each in data if not each.startswith(".")]
        if root in holding:
            return root
        level = below
    if len(holding) > 1:
        raise SourceError(
            f"{root}: several directories below hold samples; name one of them: "
            f"{format_some(holding)}"
        )
    return holding[0] if holding else root
