"""The files that a user names: by patterns, by a split such as train or test, by a directory.

It also knows which names of directories are sides.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain, islice, product
from math import prod

from dsprep.errors import SourceError
from dsprep.formats import format_of_source
from dsprep.formats.listed_shards import INDEX, read_index
from dsprep.patterns import pattern
from dsprep.sample import image_kind_of
from dsprep.storage.files import (
    DirectoryEntry,
    absent,
    entries,
    exists,
    find_files,
    full_path,
    is_dir,
)
from dsprep.tuples import NamedTuple
from dsprep.units import format_some

# Names of splits, in lower case, and the split that each means.
SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing", "eval", "holdout"), "test"),
}
_WORD = pattern(rf"(?:^|[-_.])({'|'.join(SPLITS)})(?=[-_.]|$)", re.IGNORECASE)
_LETTER, _SMALL = r"[^\W\d_]", r"[^\W\d_A-Z]"
_LONGEST_FIRST = sorted(SPLITS, key=len, reverse=True)
_LOWER, _TITLE, _UPPER = (
    "|".join(map(form, _LONGEST_FIRST)) for form in (str.lower, str.title, str.upper)
)
# A word for a side in the name of a directory: `bbox_train`, `train2017`, `trainA`, `carsTest`.
_BOUNDED = pattern(
    rf"(?<!{_LETTER})(?:(?:{_LOWER}|{_TITLE})(?!{_SMALL})|(?:{_UPPER})(?!{_LETTER}))"
    rf"|(?<=[a-z])(?:{_TITLE})(?!{_SMALL})"
)
_TRAINVAL = pattern(r"(?<![a-z])trainval(?![a-z])", re.IGNORECASE)
# Directories beside sides that hold what belongs to their images: `trainannot`, `val_masks`, `gt`.
_COMPANION = pattern(
    rf"(?:(?:{_LOWER})[\W\d_]*)?"
    r"(?:annot|annots|annotations?|masks?|labels?|labelids|instanceids|trimaps?|seg|segmentations?"
    r"|segmentationclass|segmentationobject|gt|ground[\W_]?truth)"
    rf"(?:[\W\d_]*(?:{_LOWER}))?[\W\d_]*"
)
COMPANION_OF_SIDE = (
    rf"(?i)^({'|'.join(_LONGEST_FIRST)})[\W\d_]*(?:annot|annots|annotations?|masks?|labels?)$"
)
"""A directory of masks of one side, whose name begins with the side: ``trainannot``."""
# tfds: NAME-SPLIT.tfrecord-00000-of-00001; Hugging Face: data/SPLIT-00000-of-00001.parquet
_STATED = pattern(
    r"(?:.*-)?(?P<tfds>[^-.]+)\.(?:tfrecord|array_record|riegeli)-\d+-of-\d+"
    r"|data/(?P<hub>\w+(?:\.\w+)*)-\d+-of-\d+\S*\.parquet"
)
# Names of directories for files of any content, in lower case.
FILE_WORDS = frozenset(
    (
        *("image", "images", "img", "imgs", "picture", "pictures", "pic", "pics"),
        *("photo", "photos", "jpegimages", "pngimages", "frames"),
        *("jpg", "jpgs", "jpeg", "jpegs", "png", "pngs", "bmp", "tif", "tiff", "gif", "webp"),
        *("data", "dataset", "files"),
    )
)
_AFTER_SET = pattern(r"set$")  # `rps-test-set` is the set for tests of `rps`
_NUMBERS = pattern(r"\d(?:.*\d)?")
_RAW = "raw"  # the directory in which torchvision keeps idx files
_MNIST = pattern(r"mnist$", re.IGNORECASE)  # ends the names of the directories above it
# the directories in the archives of CIFAR (www.cs.toronto.edu/~kriz/cifar.html)
_CIFAR = pattern(r"cifar-10-batches-(?:py|bin)|cifar-100-(?:python|binary)")
_PEEKED = 64  # names that show what a directory holds
_MOST_DIRECTORIES = 32  # directories that are searched for files of samples
_BRACES = pattern(r"\{([^{}]*)\}")
_RANGE = pattern(r"(\d+)\.\.(\d+)")
_MOST_FILES = 1_000_000


def expand(pattern: str) -> list[str]:
    """Return the files that a name with braces or wildcards means, or the name itself."""
    # `train-{000000..000146}.tar` are all of those names, there or not; `train-*.tar` are the files
    # that are there, in plain sorted order.
    if exists(pattern):
        return [pattern]
    choices = []
    for inner in _BRACES.findall(pattern):
        bounds = _RANGE.fullmatch(inner)
        if bounds is None:
            choices.append(inner.split(","))
            continue
        first, last = int(bounds[1]), int(bounds[2])
        if not 0 <= last - first < _MOST_FILES:
            raise SourceError(f"{pattern}: {{{inner}}} is not a range of shards")
        choices.append([f"{number:0{len(bounds[1])}d}" for number in range(first, last + 1)])
    if prod(map(len, choices)) > _MOST_FILES:
        raise SourceError(f"{pattern}: is more than {_MOST_FILES:,} shards")
    texts = _BRACES.split(pattern)[::2]
    names = [
        "".join(map("".join, zip(texts, (*chosen, ""), strict=True)))
        for chosen in product(*choices)
    ]
    if not any(mark in pattern for mark in "*?["):
        return names
    # Braces name several splits on purpose; a wildcard may match them by accident.
    found = [find_files(name) for name in names]
    for name, files in zip(names, found, strict=True):
        require_one_split(name, files)
    if not any(found):
        raise SourceError(f"{pattern}: there are no such files")
    return list(dict.fromkeys(chain.from_iterable(found)))


def require_there(files: Sequence[str], name: str) -> None:
    """Refuse a name of shards if some of them are missing."""
    if missing := absent(files):
        raise SourceError(f"{missing[0]}: there is no such shard ({name})")


def by_directory(files: Sequence[str]) -> list[list[str]]:
    """Return files by the directory in which they lie."""
    directories: dict[str, list[str]] = {}
    for path in files:
        directories.setdefault(os.path.dirname(path), []).append(path)
    return list(directories.values())


def split_of(path: str) -> str:
    """Return the split that a file's name, or its directory's, names; empty if none."""
    directory, name = os.path.split(path)
    above = os.path.basename(directory)
    if stated := _STATED.fullmatch(f"data/{name}" if above == "data" else name):
        return stated["tfds"] or stated["hub"]
    if words := _WORD.findall(name):
        return str(words[-1])
    return above if above.lower() in SPLITS else ""


def _canonical(split: str) -> str:
    return SPLITS.get(split.lower(), split)


class SideName(NamedTuple):
    """The side that the name of a directory stands for."""

    side: str  # the usual name of the side: `train`, `val` or `test`
    rest: str  # what else the name says, in lower case: `2017`, `cars_`, `a`


def side_name(name: str) -> SideName | None:
    """Return the side that a name has as a word; None if it has none, or several."""
    if usual := SPLITS.get(name.lower()):
        return SideName(usual, "")
    found = [*_BOUNDED.finditer(name)]
    if len({SPLITS[each[0].lower()] for each in found}) != 1:
        return None
    word = found[-1]
    rest = name[: word.start()] + name[word.end() :]
    return SideName(SPLITS[word[0].lower()], rest.lower())


def side_above(path: str) -> str:
    """Return the side that the nearest directory called like one is; empty if none is.

    ``trainannot``, which has the masks of a side, counts as well.
    """
    names = reversed(path.split("/")[:-1])
    found = (side_name(re.sub(COMPANION_OF_SIDE, r"\1", name)) for name in names)
    return next((side.side for side in found if side is not None), "")


def sides_above(path: str) -> set[str]:
    """Return the sides that directories of a path are called like."""
    found = map(side_name, path.split("/")[:-1])
    return {each.side for each in found if each is not None}


def are_of_other_sides(one: str, other: str) -> bool:
    """Return whether the directories of two files are those of different sides."""
    own, there = sides_above(one), sides_above(other)
    return bool(own and there and own.isdisjoint(there))


def is_side_alone(name: str) -> bool:
    """Return whether a name is that of a side, maybe with a number: `val`, `train2017`."""
    found = side_name(name)
    return found is not None and re.fullmatch(r"\d*", found.rest) is not None


def is_companion(name: str) -> bool:
    """Return whether a directory is called like one of masks or annotations, maybe of a side."""
    return _COMPANION.fullmatch(name.lower()) is not None


def told_side(name: str) -> SideName | None:
    """Return the side that the name of an annotation file tells: also `trainval`."""
    if found := side_name(name):
        return found
    both = _TRAINVAL.search(name)
    return SideName("trainval", _TRAINVAL.sub("", name, count=1).lower()) if both else None


def told_sides(paths: Sequence[str], stems: Sequence[str]) -> Sequence[str]:
    """Return the side of each annotation file, by its name or its directory's; none if not all.

    No two are of one side, and `trainval` is a side beside `test` alone.
    """
    above = (os.path.basename(os.path.dirname(path)) for path in paths)
    found = [told_side(stem) or told_side(name) for stem, name in zip(stems, above, strict=True)]
    sides = [each.side for each in found if each is not None]
    if len(sides) < len(paths) or len(set(sides)) < len(sides):
        return ()
    overlaps = "trainval" in sides and {*sides} != {"trainval", "test"}
    return () if overlaps else sides


def usual_side(split: str) -> str:
    """Return the usual name of the side that a name tells, or the name itself."""
    found = side_name(split)
    return split if found is None else found.side


def side_of_source(path: str) -> str:
    """Return the side that the name of a source ends in, as written; empty if none.

    It is the name of a directory, of a file, or a pattern of the names of shards:
    ``ILSVRC2012_img_val.tar``, ``test-{000..146}.tar``.
    """
    name = os.path.basename(full_path(path).removesuffix("/manifest.json"))
    stem = re.split(r"[.*?{[]|-[0-9]|-of-[0-9]", name)[0].rstrip("-_")
    found = side_name(stem)
    # the name has no more than a word of a side, such as `val` or `testA`
    if found is None or len(found.rest) < 2:
        return stem if found else ""
    word = [*_BOUNDED.finditer(stem)][-1]
    after = stem[word.end() :]
    if after.strip("0123456789-_") and not is_word_for_files(stem):
        return ""
    year = re.match(r"\d{4}(?!\d)", after)
    return word[0] + (year[0] if year else "")


def common_side(names: Iterable[str]) -> str:
    """Return the side that the names of all these sources end in; empty if it is not one."""
    found = {side_of_source(name) for name in names}
    return found.pop() if len(found) == 1 else ""


def in_order(splits: Iterable[str]) -> tuple[str, ...]:
    """Sort names of splits: those for training, validation and test first, in this order."""
    order = list(dict.fromkeys(SPLITS.values()))
    ranks = {split: [*order, usual_side(split)].index(usual_side(split)) for split in splits}
    return tuple(sorted(ranks, key=lambda split: (ranks[split], split)))


def are_sides(names: Iterable[str]) -> bool:
    """Return whether directories that lie side by side are sides of one data set.

    All have to be called like sides, of several, or like companions of these. What else the names
    say has to be common to several sides (``cars_train`` and ``cars_test``), unless some names are
    plain: ``test_tube`` and ``training_shoe`` are no sides.
    """
    known = [side_name(name) for name in names if not is_companion(name)]
    sides = [each for each in known if each is not None]
    if len(sides) < len(known) or len(set(sides)) < len(sides):
        return False
    by_rest: dict[str, set[str]] = {}
    for side, rest in sides:
        by_rest.setdefault(re.sub(r"[\W\d_]", "", rest), set()).add(side)
    is_plain = len(by_rest.get("", ())) > 1
    return bool(by_rest) and (is_plain or all(len(own) > 1 for own in by_rest.values()))


def have_sides(names: Iterable[str]) -> bool:
    """Return whether some of the directories in one are sides of a data set, one for training.

    Those beside them are its sides as well: `query` beside `bounding_box_train` and
    `bounding_box_test`, or `unlabeled2017`.
    """
    by_rest: dict[str, list[str]] = {}
    for name in names:
        if (found := side_name(name)) is not None:
            by_rest.setdefault(re.sub(r"[\W\d_]", "", found.rest), []).append(found.side)
    return any("train" in own and 1 < len(own) == len({*own}) for own in by_rest.values())


def depth_of_sides(directories: Iterable[str], *, alone: bool = False) -> int:
    """Return at which depth, from 1, the paths of directories lead through sides; 0 if nowhere.

    Args:
        directories: The paths.
        alone: Whether all directories there have to be called like sides.
    """
    paths = [path.split("/") for path in directories]
    for depth in range(min(map(len, paths))):
        if not any(side_name(each[depth]) or is_companion(each[depth]) for each in paths):
            continue
        below: dict[str, set[str]] = {}
        above: dict[str, set[str]] = {}
        for each in paths:
            below.setdefault(each[depth], set()).add("/".join(each[depth + 1 :]))
            above.setdefault("/".join(each[:depth]), set()).add(each[depth])
        if are_sides(below) or _are_a_set_and_its_side(below):
            return depth + 1
        if not alone and "" not in below and all(map(have_sides, above.values())):
            return depth + 1
    return 0


def _are_a_set_and_its_side(below: Mapping[str, set[str]]) -> bool:
    """Return whether directories are a data set for training, and other sides that have its name.

    `rps` and `rps-test-set` are, and `horse-or-human` and `validation-horse-or-human`, if both have
    the same classes.
    """
    sides = {name: found for name in below if (found := side_name(name)) is not None}
    plain = [name for name in below if name not in sides]
    first, *others = below.values()
    if len(plain) != 1 or not sides or len(first) < 2 or any(each != first for each in others):
        return False
    rests = {_AFTER_SET.sub("", re.sub(r"[\W\d_]", "", found.rest)) for found in sides.values()}
    is_train = any(found.side == "train" for found in sides.values())
    return rests == {re.sub(r"[\W\d_]", "", plain[0].lower())} and not is_train


def is_word_for_files(name: str) -> bool:
    """Return whether a directory is called like the files in it, which says nothing of a class.

    ``images``, ``JPEGImages``, ``image_2`` and ``train_images`` are; so is the name of a side.
    """
    found = side_name(name)
    rest = re.sub(r"[\W\d_]", "", name.lower() if found is None else found.rest)
    return rest in FILE_WORDS or (found is not None and not rest)


def sides_of_files(files: Sequence[str], known: Mapping[str, str] = {}) -> tuple[str, ...]:
    """Return the side of each file, by its name if it is not known; none if not all have one."""
    own = [known.get(path) or split_of(path) for path in files]
    names = {_canonical(side): side for side in reversed(own)}
    is_divided = len(names) > 1 and "" not in names
    return tuple(names[_canonical(side)] for side in own) if is_divided else ()


def files_of_sides(directory: str) -> dict[str, str]:
    """Return the files of samples in directories that are called like splits, with these names."""
    found = list(islice(entries(directory), _PEEKED))
    below = sorted(entry.path for entry in found if side_name(entry.name) is not None)
    if not are_sides(map(os.path.basename, below)) or not all(map(is_dir, below)):
        return {}
    files: dict[str, str] = {}
    for path in below:
        inside = [entry.path for entry in entries(path) if _is_samples(entry.name)]
        if not inside or any(image_kind_of(each.name) for each in islice(entries(path), _PEEKED)):
            return {}
        files |= dict.fromkeys(sorted(inside), os.path.basename(path))
    return files


def holds_images(directory: str, depth: int = 1) -> bool:
    """Return whether images lie in a directory or right below, judged by the first names there."""
    return any(
        image_kind_of(entry.name)
        or (depth > 0 and entry.is_dir() and holds_images(entry.path, depth - 1))
        for entry in islice(entries(directory), _PEEKED)
        if not entry.name.startswith(".")
    )


def pattern_of(files: Sequence[str]) -> str:
    """Return a pattern that matches files with any number, and no file of another split."""

    def pattern(path: str, shorten: bool) -> str:
        directory, name = os.path.split(path)
        split = split_of(path)
        at = name.rfind(split) + len(split) if split and split in name else 0
        prefix = re.sub(r"\d+", "*", name[:at]) if shorten else name[:at]
        return os.path.join(directory, prefix + _NUMBERS.sub("*", name[at:], count=1))

    patterns = list(dict.fromkeys(pattern(path, False) for path in files))
    if len(patterns) >= 4:
        patterns = list(dict.fromkeys(pattern(path, True) for path in files))
    if len(patterns) == 1:
        return patterns[0]
    directories, names = zip(*map(os.path.split, patterns), strict=True)
    if len(set(directories)) > 1:
        return f"{{{','.join(patterns)}}}"
    return os.path.join(directories[0], f"{{{','.join(names)}}}")


def require_one_split(name: str, files: Iterable[str]) -> None:
    """Refuse files of several splits, which would be mixed."""
    by_split: dict[str, list[str]] = {}
    for path in files:
        if split := split_of(path):
            by_split.setdefault(_canonical(split), []).append(path)
    if len(by_split) < 2:
        return
    splits = in_order(by_split)
    single = " or ".join(f"'{pattern_of(by_split[split])}'" for split in splits)
    every = pattern_of([path for split in splits for path in by_split[split]])
    is_wild = "*" in name and not name.endswith(".lst")  # of a directory, no lists are read
    advice = "; name the directory to keep them apart" if is_wild else ""
    raise SourceError(
        f"{name}: holds several splits, {format_some(splits)}: name one of them, "
        f"{single}; or take all, '{every}'{advice}"
    )


def located(name: str) -> str:
    """Return the directory or the pattern of the samples that a user names."""
    # A repository of Hugging Face has them in `data/`, TFDS in a directory for each version; and
    # `DIRECTORY/test` means the files of a split.
    name = name.rstrip("/") or name
    if is_dir(name):
        return _data_directory(name)
    parent, split = os.path.split(name)
    if not split or exists(name) or any(mark in name for mark in "*?[{") or not is_dir(parent):
        return name
    directory = _data_directory(parent)
    paths = [entry.path for entry in entries(directory) if _is_samples(entry.name)]
    found = [path for path in sorted(paths) if _canonical(split_of(path)) == _canonical(split)]
    return pattern_of(found) if found else name


def is_partition(entry: DirectoryEntry) -> bool:
    """Return whether an entry of a directory is a partition of a table, such as ``year=2024``."""
    return "=" in entry.name.strip("=") and entry.is_dir()


def _is_samples(name: str) -> bool:
    is_stated = _STATED.fullmatch(name) is not None
    return not name.startswith(".") and (is_stated or format_of_source(name) is not None)


def _data_directory(root: str) -> str:
    """Return the one directory, at most two levels below, that holds files of samples."""
    # It is the root itself if it holds such files, if none does, or if images lie there.
    level, holding, peeked = [root], list[str](), 0
    for _ in range(3):
        below = []
        for directory in level:
            peeked += 1
            found = list(islice(entries(directory), _PEEKED + 1))
            if len(found) > _PEEKED or peeked > _MOST_DIRECTORIES:
                return root
            if any(image_kind_of(entry.name) for entry in found):
                return root
            if len(level) == 1 and any(map(is_partition, found)):
                return directory
            is_indexed = any(entry.name == INDEX for entry in found) and read_index(directory)
            if is_indexed or any(_is_samples(entry.name) and entry.is_file() for entry in found):
                holding.append(directory)
                continue
            names = sorted(entry.name for entry in found if entry.is_dir())
            data = ["data"] if "data" in names else names
            below += [os.path.join(directory, each) for each in data if not each.startswith(".")]
        if root in holding:
            return root
        level = below
    above = {os.path.dirname(directory) for directory in holding}
    if len(holding) > 1 and len(above) == 1 and files_of_sides(common := above.pop()):
        return common
    if len(holding) > 1:
        raise SourceError(
            f"{root}: several directories below hold samples; name one of them: "
            f"{format_some(holding)}"
        )
    return holding[0] if holding else root


def raw_directories(root: str, inside: Iterable[DirectoryEntry]) -> list[str]:
    """Return the directories in which torchvision keeps the files of CIFAR and of MNIST.

    They are `cifar-10-batches-py` and the like, `raw`, or `MNIST/raw`.

    Args:
        root: The directory that they lie in.
        inside: The entries of this directory.
    """
    names = {entry.name for entry in inside}
    idx = [_RAW] if _RAW in names else [f"{name}/{_RAW}" for name in names if _MNIST.search(name)]
    found = sorted([*filter(_CIFAR.fullmatch, names), *idx])
    return [each for each in found if is_dir(f"{root}/{each}")]


def is_left_out(path: str, patterns: Sequence[str]) -> bool:
    """Return whether a pattern means a file, or a directory that it lies in."""
    return path in patterns or any(
        fnmatchcase(path, pattern) or fnmatchcase(path, f"{pattern.rstrip('/')}/*")
        for pattern in patterns
    )
