"""Lists of the images of each side, such as ``train.txt`` and ``test.txt``."""

from __future__ import annotations

import glob
import posixpath
import re
import shlex
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.places.names import SPLITS, in_order, is_side_alone, side_name, usual_side
from dsprep.sources.annotation_kind import AnnotatedPlace
from dsprep.units import format_count, lines_of

if TYPE_CHECKING:
    import polars as pl

    from dsprep.places.files import Files
    from dsprep.sources.source import Source


def lists_among(paths: Sequence[str]) -> list[str]:
    """Return the texts that are called like a side: `train.txt`, `ImageSets/val.txt`."""
    own = (path for path in paths if path.lower().endswith(".txt"))
    return [path for path in own if is_side_alone(_stem(path))]


class ListedSides(NamedTuple):
    """The sides that lists tell of images.

    Attributes:
        names: The names of the sides; empty if no lists are taken.
        numbers: The number of the side of each image; None for one that no list names.
        read: The lists.
        findings: What was noticed.
    """

    names: tuple[str, ...]
    numbers: Sequence[int | None]
    read: Collection[str]
    findings: Sequence[Finding]


_NOTHING = ListedSides((), (), (), ())


def listed_sides(source: Source, files: Files, paths: pl.Series) -> ListedSides:
    """Return the sides of images by lists such as ``lists/train.txt``, as Food-101 and DTD have.

    They are taken if one is for training, and they name half of the images or more.
    """
    place = AnnotatedPlace(source.root, files, leave_out=source.leave_out)
    lists = lists_among(place.others)
    if len({usual_side(_stem(path)) for path in lists}) == 1 or not lists:
        return _NOTHING
    if files.archive is not None:
        files = files._replace(texts=files.contents(lists))
        place = AnnotatedPlace(source.root, files, leave_out=source.leave_out)
    findings, images = list[Finding](), paths.to_list()
    try:
        told, read = sides_of_lists(source.root, place, images, (), findings)
    except SourceError as error:
        raise SourceError(*error.args, f"lists of sides: {_way_out(lists)}") from None
    names, count = in_order({*filter(None, told)}), sum(map(bool, told))
    if len(names) == 1 or not names:
        return _NOTHING
    some = f"{count:,} of {len(images):,} images are named in lists of sides, such as {read[0]}"
    if "train" not in names or 2 * count < len(images):
        return _NOTHING._replace(findings=[Finding("note", "", f"{some}: these are not read")])
    numbers = {side: at for at, side in enumerate(names)}
    note = Finding("note", "", f"{some}: {_way_out(read)}")
    return ListedSides(names, [numbers.get(side) for side in told], read, [note, *findings])


def _way_out(lists: Sequence[str]) -> str:
    """Say how to go on without lists, and without other texts beside them."""
    directories = {posixpath.dirname(path) for path in lists}
    where = glob.escape(directories.pop()) if len(directories) == 1 else ""
    pattern = posixpath.join(where, "*.txt")
    return f"to go on without sides, --leave-out {shlex.quote(pattern)}"


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
    from dsprep.places.match import find_elsewhere

    named: dict[str, list[str]] = {}  # images, by list
    for path in sorted(set(lists_among(place.others)).difference(texts)):
        side = usual_side(_stem(path))
        text = place.files.text(root, posixpath.join(root, path)) or ""
        lines = [line for line in map(str.strip, lines_of(text)) if line]
        some = [image for image in images if _may_be_of(image, side)]
        meant = find_elsewhere(lines, some)
        lost = meant.missing.to_list()
        if 2 * len(lost) >= len(lines):
            continue  # it is another text, or one for images without annotations
        meant.refuse_several(posixpath.join(root, path))
        named[path] = meant.paths.drop_nulls().to_list()
        notes += [Finding("missing", name, f"named in {path}") for name in lost]
    every = [*named]
    named = _of_one_division(named, notes)
    last = [*dict.fromkeys(SPLITS.values())]  # training is the first
    sides: dict[str, str] = {}
    by_side = {path: usual_side(_stem(path)) for path in named}
    for path in sorted(named, key=lambda path: (-last.index(by_side[path]), path)):
        twice = [
            each for each in named[path] if sides.setdefault(each, by_side[path]) != by_side[path]
        ]
        if twice:
            said = f"{path}: {format_count(len(twice), 'image')} of other sides, which stay there"
            notes.append(Finding("note", "", f"{said}, such as {twice[0]}"))
    return ([sides.get(image, "") for image in images] if sides else []), every


def _of_one_division(named: dict[str, list[str]], notes: list[Finding]) -> dict[str, list[str]]:
    """Return the lists of one division of the images into sides, if several are numbered.

    DTD has `train1.txt`, `val1.txt` and `test1.txt`, and ten such divisions of all images. Its
    authors, torchvision and TFDS take the first. Lists of years, which have other images, stay.
    """
    by_number: dict[str, dict[str, set[str]]] = {}  # images by directory and number
    for path, images in named.items():
        directory, number = posixpath.dirname(path), _number(path)
        if number:
            by_number.setdefault(directory, {}).setdefault(number, set()).update(images)
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
        kept = {path: images for path, images in kept.items() if path not in lost}
        said = (
            f"the images are divided into sides in {len(divisions):,} ways, and the first is taken"
        )
        notes.append(Finding("note", "", f"{said}: {lost[0]} is not read"))
        notes += [Finding("not-read", path) for path in lost]
    return kept


def _number(path: str) -> str:
    """Return the number in the name of a list, such as `train1.txt`; empty if it has none."""
    return re.sub(r"\D", "", _stem(path))


def _may_be_of(image: str, side: str) -> bool:
    """Return whether a list of a side may name an image: one below `training` is none for tests."""
    above = sides_above(image)
    return not above or side in above or (above == {"train"} and side == "val")


def sides_above(path: str) -> set[str]:
    """Return the sides that directories of a path are called like."""
    found = map(side_name, path.split("/")[:-1])
    return {each.side for each in found if each is not None}


def _stem(path: str) -> str:
    return posixpath.splitext(posixpath.basename(path))[0]
