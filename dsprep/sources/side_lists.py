"""Lists of the images of each side, such as ``train.txt`` and ``test.txt``."""

from __future__ import annotations

import glob
import json
import posixpath
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.patterns import pattern
from dsprep.places.names import (
    SPLITS,
    in_order,
    is_word_for_files,
    side_name,
    sides_above,
    usual_side,
)
from dsprep.sources.annotation_kind import AnnotatedPlace
from dsprep.sources.labels.numbered_lists import (
    ListedClasses,
    Numbered,
    classes_of_lists,
    numbers_behind,
    tables_among,
)
from dsprep.sources.unread import text_of
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, lines_of, quoted

if TYPE_CHECKING:
    import polars as pl

    from dsprep.numbering import Known
    from dsprep.places.files import Files
    from dsprep.sources.source import Source

_MOST_LISTS = 32  # more files with the word of a side in their names are those of images
_LOOKED_AT = 50  # names at the beginning of a list
_NAME_IN_JSON = pattern(r'"([^"]{1,300})"')
_NAMES_BY_CLASS = pattern(r'\s*\{\s*"[^"]*"\s*:\s*\[\s*"')  # how `train.json` of Food-101 begins


def lists_among(paths: Sequence[str]) -> list[str]:
    """Return the texts that are called like a side: `train.txt`, `ImageSets/val.txt`."""
    return [path for path in paths if path.lower().endswith(".txt") and _is_called_so(path)]


def _is_called_so(path: str) -> bool:
    """Return whether a file is called like a side or its images, as `TestImages.txt` is."""
    return side_name(_stem(path)) is not None and is_word_for_files(_stem(path))


def side_of_list(path: str) -> str:
    """Return the side whose list a file may be, by its name; empty if it is none."""
    found = side_name(_stem(path)) if path.lower().endswith((".txt", ".json")) else None
    return "" if found is None else found.side


class BegunList(NamedTuple):
    """How a list of a side begins: the first names, and whether each has a class number."""

    names: Sequence[str]
    has_numbers: bool


def begun_list(path: str, head: bytes) -> BegunList | None:
    """Return how a list begins; None if a file is none.

    With numbers, it may be called anything with the word of a side: `places365_train_standard.txt`.
    """
    text = text_of(head)
    lines = [line for line in map(str.strip, lines_of(text)[:_LOOKED_AT]) if line]
    if numbered := numbers_behind(lines):
        return BegunList(numbered.names.to_list(), True)
    if not _is_called_so(path):
        return None
    if path.lower().endswith(".txt"):
        return BegunList(lines, False)
    if _NAMES_BY_CLASS.match(text):
        return BegunList(_NAME_IN_JSON.findall(text)[:_LOOKED_AT], False)
    return None


def _lists_in(place: AnnotatedPlace) -> tuple[list[str], list[str]]:
    """Return the lists of sides, and those of them that have a class number for each image."""
    called = [path for path in place.others if side_of_list(path)]
    heads = place.heads_of(called) if len(called) <= _MOST_LISTS else {}
    begun = {path: begun_list(path, head) for path, head in heads.items()}
    found = {path: each for path, each in begun.items() if each is not None}
    numbered = [path for path, each in found.items() if each.has_numbers]
    return sorted({*lists_among(place.others), *found}), numbered


def below_top_unless_lists(source: Source, files: Files) -> Files:
    """Return the files in the one directory of an archive, unless lists of sides lie beside it."""
    if not files.top:
        return files
    place = AnnotatedPlace(source.root, files, leave_out=source.leave_out)
    lists, numbered = _lists_in(place)
    sides = {usual_side(_stem(path)) for path in lists}
    beside = [path for path in lists if not path.startswith(f"{files.top}/")]
    return files if beside and (numbered or len(sides) > 1) else files.below_top()


class ListedSides(NamedTuple):
    """The sides that lists tell of images.

    Attributes:
        names: The names of the sides; empty if no lists are taken.
        numbers: The number of the side of each image; None for one that no list names.
        read: The files that were read.
        findings: What was noticed.
        classes: The class of each image, if lists have a number for each.
    """

    names: tuple[str, ...]
    numbers: Sequence[int | None]
    read: Collection[str]
    findings: Sequence[Finding]
    classes: ListedClasses | None = None


NO_LISTS = ListedSides((), (), (), ())
"""What is known if there are no lists."""


def listed_sides(
    source: Source, files: Files, paths: pl.Series, *, known: Known, are_divided: bool
) -> ListedSides:
    """Return the sides of images by lists such as ``lists/train.txt``, as Food-101 and DTD have.

    They are taken if one is for training, and they name half of the images or more. Lists that have
    a class number for each image, as those of Caffe, may also be those of a single side.

    Args:
        source: What the user named.
        files: All files there.
        paths: Paths of the images.
        known: What is known of the classes.
        are_divided: Whether directories are the sides, so that lists can only tell classes.
    """
    place = AnnotatedPlace(source.root, files, leave_out=source.leave_out)
    lists, numbered = _lists_in(place)
    if not numbered and (are_divided or len({usual_side(_stem(path)) for path in lists}) < 2):
        return NO_LISTS
    if files.archive is not None:
        texts = files.contents([*lists, *tables_among(place)])
        place = AnnotatedPlace(source.root, files._replace(texts=texts), leave_out=source.leave_out)
    findings, images = list[Finding](), paths.to_list()
    told = "sides"
    if numbered:
        told = "these labels" if are_divided else "these sides and labels"
    try:
        named, read = _read_lists(source.root, place, images, lists, findings)
        found = _sides_by(named, images, findings)
        classes = None
        if source.label_regex is None:
            parts = ((path, each.images, each.numbers) for path, each in named.items())
            classes = classes_of_lists(parts, paths, place, known)
    except SourceError as error:
        raise SourceError(*error.args, f"lists of sides: {_way_out(lists, told)}") from None
    names, count = in_order({*filter(None, found)}), sum(map(bool, found))
    if not names or (len(names) == 1 and classes is None):
        return NO_LISTS
    some = f"{count:,} of {len(images):,} images are named in lists of sides, such as {read[0]}"
    if 2 * count < len(images) or ("train" not in names and classes is None):
        return NO_LISTS._replace(findings=[Finding("note", "", f"{some}: these are not read")])
    numbers = {side: at for at, side in enumerate(names)}
    note = Finding("note", "", f"{some}: {_way_out(read, told)}")
    used = [*read, *(classes.read if classes else ())]
    sides = [numbers.get(side) for side in found]
    return ListedSides(names, sides, used, [note, *findings], classes)


def _way_out(lists: Sequence[str], told: str) -> str:
    """Say how to go on without what lists tell, and without other texts beside them."""
    directories = {posixpath.dirname(path) for path in lists}
    extensions = {posixpath.splitext(path)[1] for path in lists}
    where = glob.escape(directories.pop()) if len(directories) == 1 else ""
    extension = extensions.pop() if len(extensions) == 1 else ""
    pattern = posixpath.join(where, f"*{extension}")
    return f"to go on without {told}, --leave-out {shlex.quote(pattern)}"


class _List(NamedTuple):
    """What a list names.

    Attributes:
        images: The paths of the images that are there.
        numbers: The class number of each; None if the list has none.
    """

    images: list[str]
    numbers: list[int] | None


def sides_of_lists(
    root: str,
    place: AnnotatedPlace,
    images: Sequence[str],
    texts: Collection[str],
    notes: list[Finding],
) -> tuple[Sequence[str], Sequence[str]]:
    """Return the side of each image by texts such as ``train.txt``, and these; empty without any.

    A line is the path or the name of an image. An image that several lists name is one for tests or
    validation.
    """
    lists = sorted(set(lists_among(place.others)).difference(texts))
    named, every = _read_lists(root, place, images, lists, notes)
    return _sides_by(named, images, notes), every


def _read_lists(
    root: str,
    place: AnnotatedPlace,
    images: Sequence[str],
    lists: Sequence[str],
    notes: list[Finding],
) -> tuple[Mapping[str, _List], Sequence[str]]:
    """Return the lists of one division of the images, and all lists that name images."""
    from dsprep.places.match import find_elsewhere

    named: dict[str, _List] = {}
    of_images = [*map(posixpath.dirname, images)]
    above = {directory: sides_above(f"{directory}/") for directory in {*of_images}}
    for path in lists:
        side = usual_side(_stem(path))
        text = place.files.text(root, posixpath.join(root, path)) or ""
        lines = _names_in(path, text)
        numbers = numbers_behind(lines)
        lines = lines if numbers is None else numbers.names.to_list()
        own = {directory for directory in above if _may_be_of(above[directory], side)}
        some = [image for image, at in zip(images, of_images, strict=True) if at in own]
        meant = find_elsewhere(lines, some)
        lost = meant.missing.to_list()
        if 2 * len(lost) >= len(lines):
            continue  # it is another text, or one for images without annotations
        meant.refuse_several(posixpath.join(root, path))
        if numbers is not None:
            _require_numbers(numbers, text, posixpath.join(root, path))
        is_there = meant.paths.is_not_null()
        classes = None if numbers is None else numbers.numbers.filter(is_there).to_list()
        named[path] = _List(meant.paths.drop_nulls().to_list(), classes)
        notes += [Finding("missing", name, f"named in {path}") for name in lost]
    return _of_one_division(named, notes), [*named]


def _require_numbers(numbered: Numbered, text: str, where: str) -> None:
    """Refuse a line without a number in a list whose first line has one."""
    lacking = numbered.numbers.is_null().arg_true()
    if len(lacking):
        at = [number for number, line in enumerate(lines_of(text), 1) if line.strip()][lacking[0]]
        line = quoted(numbered.names[lacking[0]])
        raise SourceError(f"{where}:{at}: {line} has no class number, as other lines have: add it")


def _names_in(path: str, text: str) -> list[str]:
    """Return the names in a list: its lines or, of JSON such as Food-101's, those by class."""
    if not path.lower().endswith(".json"):
        return [line for line in map(str.strip, lines_of(text)) if line]
    try:
        by_class = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if not isinstance(by_class, dict):
        return []
    names = [
        each for own in by_class.values() for each in (own if isinstance(own, list) else [own])
    ]
    return names if all(isinstance(name, str) for name in names) else []


def _sides_by(
    named: Mapping[str, _List], images: Sequence[str], notes: list[Finding]
) -> Sequence[str]:
    """Return the side of each image by lists, empty for one in none of them."""
    last = [*dict.fromkeys(SPLITS.values())]  # training is the first
    sides: dict[str, str] = {}
    by_side = {path: usual_side(_stem(path)) for path in named}
    for path in sorted(named, key=lambda path: (-last.index(by_side[path]), path)):
        own = named[path].images
        twice = [each for each in own if sides.setdefault(each, by_side[path]) != by_side[path]]
        if twice:
            said = f"{path}: {format_count(len(twice), 'image')} of other sides, which stay there"
            notes.append(Finding("note", "", f"{said}, such as {twice[0]}"))
    return [sides.get(image, "") for image in images] if sides else []


def _of_one_division(named: Mapping[str, _List], notes: list[Finding]) -> Mapping[str, _List]:
    """Return the lists of one division of the images into sides, if several are numbered.

    DTD has `train1.txt`, `val1.txt` and `test1.txt`, and ten such divisions of all images. Its
    authors, torchvision and TFDS take the first. Lists of years, which have other images, stay.
    """
    by_number: dict[str, dict[str, set[str]]] = {}  # images by directory and number
    for path, own_list in named.items():
        directory, number = posixpath.dirname(path), _number(path)
        if number:
            by_number.setdefault(directory, {}).setdefault(number, set()).update(own_list.images)
    kept = dict(named)
    for directory, divisions in by_number.items():
        first, *others = sorted(divisions, key=int)
        own = divisions[first]
        if not others or any(2 * len(own & divisions[each]) < len(own) for each in others):
            continue
        lost = [
            path
            for path in kept
            if posixpath.dirname(path) == directory and _number(path) in others
        ]
        kept = {path: own_list for path, own_list in kept.items() if path not in lost}
        said = (
            f"the images are divided into sides in {len(divisions):,} ways, and the first is taken"
        )
        notes.append(Finding("note", "", f"{said}: {lost[0]} is not read"))
        notes += [Finding("not-read", path) for path in lost]
    return kept


def _number(path: str) -> str:
    """Return the number in the name of a list, such as `train1.txt`; empty if it has none."""
    return re.sub(r"\D", "", _stem(path))


def _may_be_of(above: Collection[str], side: str) -> bool:
    """Return whether a list of a side may name an image: one below `training` is none for tests."""
    return not above or side in above or (above == {"train"} and side == "val")


def _stem(path: str) -> str:
    return posixpath.splitext(posixpath.basename(path))[0]
