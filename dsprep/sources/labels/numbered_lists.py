"""Lists with the path and the class number of an image in each line, as Caffe has them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import polars as pl

from dsprep.errors import OptionError, SourceError
from dsprep.findings import Finding
from dsprep.numbering import numbers_of
from dsprep.patterns import pattern
from dsprep.places.files import directories_of
from dsprep.sample import IMAGE_EXTENSIONS
from dsprep.sources.labels.classes import named_by_directories
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, lines_of

if TYPE_CHECKING:
    from dsprep.numbering import Known
    from dsprep.sources.annotation_kind import AnnotatedPlace

_LINE = rf"(?i)^\s*/?(\S.*\.(?:{'|'.join(IMAGE_EXTENSIONS)}))\s+(\d{{1,6}})\s*$"
_NUMBERED = pattern(_LINE)

# Tables of class names: what ends a line is the number, or a line begins with the class and is at
# its number. The kits of Places365 and of Caffe's ImageNet have them.
_TABLES = {
    "categories_places365.txt": pattern(r"/?(\S+)\s+(\d{1,6})"),
    "synset_words.txt": pattern(r"(n\d{8})\b()"),
}
_MOST = 0.5  # share of a directory that has one number: it is of a class, and the rest are errors


class Numbered(NamedTuple):
    """The lines of a list: names of images and the number behind each.

    A line without a number, which is an error, is a name as a whole, and its number null.
    """

    names: pl.Series
    numbers: pl.Series


class ListedClasses(NamedTuple):
    """The classes that lists tell.

    Attributes:
        numbers: The class number of each image, null for one that no list names.
        names: The class names by number; None if nothing tells them.
        read: The table of names that was read, if there is one.
        findings: What was noticed.
    """

    numbers: pl.Series
    names: tuple[str, ...] | None
    read: Sequence[str]
    findings: Sequence[Finding]


def numbers_behind(lines: Sequence[str]) -> Numbered | None:
    """Return the names of images in lines, and the numbers; None unless the first line has both."""
    if not lines or not _NUMBERED.match(lines[0]):
        return None
    whole = pl.Series("line", lines, dtype=pl.String)
    name, number = whole.str.extract_groups(_LINE).struct.unnest().get_columns()
    return Numbered(name.fill_null(whole), number.cast(pl.Int64).alias("cls"))


def tables_among(place: AnnotatedPlace) -> Sequence[str]:
    """Return the tables of class names that such lists have beside them."""
    return place.called(_TABLES)


def classes_of_lists(
    lists: Iterable[tuple[str, Sequence[str], Sequence[int] | None]],
    paths: pl.Series,
    place: AnnotatedPlace,
    known: Known,
) -> ListedClasses | None:
    """Return the classes of images by lists; None if no list has numbers.

    The names are those of ``--classes``, of a table beside, or of the directories of the images.

    Args:
        lists: The path of each list, the images that it names, and their numbers.
        paths: The paths of all images.
        place: The images and the files beside them.
        known: What is known of the classes.
    """
    parts = [
        pl.DataFrame({"path": images, "cls": numbers}).with_columns(list=pl.lit(path))
        for path, images, numbers in lists
        if numbers is not None
    ]
    if not parts:
        return None
    if known.order is not None:
        raise OptionError(f"--class-order {known.order} has no effect: lists number the classes")
    listed = pl.concat(parts)
    twice = listed.group_by("path").agg(pl.col("cls").unique()).filter(pl.col("cls").list.len() > 1)
    if not twice.is_empty():
        path, numbers = twice.sort("path").row(0)
        said = " and ".join(map(str, sorted(numbers)))
        raise SourceError(f"{place.root}: lists give {path} the classes {said}: correct them")
    listed = listed.unique("path", keep="first", maintain_order=True)
    listed = listed.with_columns(directories_of(listed["path"]).alias("directory"))
    names, read = known.classes, ""
    if names is None:
        names, read = _names_beside(place)
    names = names or _names_of_directories(listed, place.root)
    if names is not None:
        _require_names(listed, names, place.root, read or "--classes")
        _require_agreement(listed, names, place.root)
    column = paths.to_frame("path").join(
        listed.select("path", "cls"), on="path", how="left", maintain_order="left"
    )
    if names is not None:  # of sides without a list, directories may be called like classes
        column = column.with_columns(directories_of(column["path"]).alias("directory"))
        column = column.with_columns(pl.col("cls").fill_null(_number_of(column, names)))
    said = f"lists tell the classes: {format_count(listed['cls'].n_unique(), 'number')}"
    said += f", whose names are in {read}" if read else ""
    used = [read] if read else []
    return ListedClasses(column["cls"], names, used, [Finding("note", "", said)])


def _names_beside(place: AnnotatedPlace) -> tuple[tuple[str, ...] | None, str]:
    """Return the class names in a table beside the lists, and its path; None without any."""
    for path in tables_among(place):
        form = _TABLES[posixpath.basename(path).lower()]
        text = place.files.text(place.root, posixpath.join(place.root, path)) or ""
        lines = [line for line in map(str.strip, lines_of(text)) if line]
        found = [form.match(line) for line in lines]
        by_number = {int(each[2] or at): each[1] for at, each in enumerate(found) if each}
        are_whole = sorted(by_number) == [*range(len(lines))]
        if not lines or not are_whole or len({*by_number.values()}) < len(lines):
            raise SourceError(
                f"{place.root}: {path} does not have the name of each class with a number from 0: "
                "correct it, or give the names with --classes"
            )
        return tuple(by_number[number] for number in range(len(lines))), path
    return None, ""


def _names_of_directories(listed: pl.DataFrame, root: str) -> tuple[str, ...] | None:
    """Return the names of the directories that have one number each; None if not all numbers do.

    A directory of images of many classes, such as that of a side, is none of a class.
    """
    counts = listed.group_by("directory", "cls").len()
    counts = counts.sort("len", "cls", descending=True).filter(pl.col("directory") != "")
    first, share = pl.col("cls").first(), pl.col("len").first() / pl.col("len").sum()
    found = counts.group_by("directory", maintain_order=True).agg(first, share=share)
    own = found.filter(pl.col("share") == 1)
    if own.is_empty():
        return None
    is_mixed = (pl.col("share") < 1) & (pl.col("share") > _MOST)
    mixed = found.filter(is_mixed & ~pl.col("cls").is_in(own["cls"].implode()))
    if not mixed.is_empty():
        directory, number, _ = mixed.sort("directory").row(0)
        odd = listed.filter((pl.col("directory") == directory) & (pl.col("cls") != number))
        raise _disagreement(odd, root, f"the others of {directory}/ have the class {number}")
    if own.height == 1:
        return None
    named = named_by_directories(own["directory"].to_list()).classes
    by_number: dict[int, str] = {}
    for path, number in own.select("directory", "cls").iter_rows():
        if by_number.setdefault(number, named.get(path, "")) != named.get(path):
            return None
    lowest = min(min(by_number), 1)  # numbers from 1 stay so: the class 0 has no name
    is_whole = sorted(by_number) == [*range(lowest, lowest + len(by_number))]
    is_whole = is_whole and listed["cls"].is_in(list(by_number)).all()
    names = [by_number[number] for number in sorted(by_number)]
    return ("",) * lowest + tuple(names) if is_whole else None


def _require_names(listed: pl.DataFrame, names: Sequence[str], root: str, told: str) -> None:
    """Refuse numbers that no class has."""
    outside = listed.filter(pl.col("cls") >= len(names))
    if not outside.is_empty():
        path, number, name, _ = outside.row(0)
        count = format_count(len(names), "class")
        raise SourceError(f"{root}: {name}: {path} has the number {number}, and {told} {count}")


def _require_agreement(listed: pl.DataFrame, names: Sequence[str], root: str) -> None:
    """Refuse a number that is another than that of the directory that an image lies in."""
    own = _number_of(listed, names)
    odd = listed.with_columns(own=own).filter(own != pl.col("cls"))
    if not odd.is_empty():
        directory, number = odd.select("directory", "own").row(0)
        raise _disagreement(odd, root, f"it lies in {directory}/, which is the class {number}")


def _number_of(table: pl.DataFrame, names: Sequence[str]) -> pl.Expr:
    """Return the number of the class that each directory of a table is called like, or null."""
    numbers = numbers_of(names)
    known = {
        directory: numbers[end]
        for directory in table["directory"].unique().to_list()
        if (end := next(filter(numbers.__contains__, _ends_of(directory)), ""))
    }
    return pl.col("directory").replace_strict(known, default=None, return_dtype=pl.Int64)


def _ends_of(directory: str) -> Iterator[str]:
    """Yield a path, and what is left of it without its first directories."""
    while directory:
        yield directory
        directory = directory.partition("/")[2]


def _disagreement(odd: pl.DataFrame, root: str, told: str) -> SourceError:
    """Return the error about the first image whose number is another than that of its directory."""
    path, number, name = odd.select("path", "cls", "list").row(0)
    more = f" ({odd.height - 1:,} more like this)" if odd.height > 1 else ""
    return SourceError(f"{root}: {name} gives {path} the class {number}, and {told}{more}")
