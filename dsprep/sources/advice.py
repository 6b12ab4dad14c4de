"""What users probably meant by what they gave: what is seen, its test, and what to do.

A row is for what several kinds of sources meet. What one kind of source or annotations knows of its
own files lies with that kind, and `unread.UNREAD` has the annotations that nothing reads.

To add a row, write its test, if there is none yet, and its words. `tests/sources/test_advice.py`
proves that each command and each option in the words exists.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from string import Formatter
from typing import TYPE_CHECKING, Any

from dsprep.errors import SourceError
from dsprep.formats.augmented import refers_to_files
from dsprep.patterns import pattern
from dsprep.places.names import SPLITS, pattern_of, split_of
from dsprep.sample import IMAGE_EXTENSIONS, image_kind_of
from dsprep.tuples import NamedTuple
from dsprep.units import format_some, quoted, quoted_names

if TYPE_CHECKING:
    import polars as pl

Facts = Mapping[str, object]
"""What replaces the names in braces in the words of a row."""


class Advice(NamedTuple):
    """A mistake that can be seen, and the way out.

    Attributes:
        seen: What is seen. Names in braces are facts.
        test: Return the facts, or None if it is something else. Each table says what the test gets.
        do: What to do, with an option or a command.
    """

    seen: str
    test: Callable[[Any], Facts | None]
    do: str


class Advised(NamedTuple):
    """The words of a row, for a message."""

    seen: str
    do: str


def advise(table: Iterable[Advice], given: object, **facts: object) -> Advised | None:
    """Return the words of the first row that is seen; None if none is.

    Args:
        table: The rows.
        given: What the tests get.
        facts: Facts that the caller adds to those of the test.
    """
    for each in table:
        found = each.test(given)
        if found is not None:
            known = {**facts, **found}
            return Advised(WORDS.format(each.seen, **known), WORDS.format(each.do, **known))
    return None


class _Words(Formatter):
    """Formats words in which `{path!q}` is a path as a shell takes it."""

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        if conversion == "q":
            return shlex.quote(str(value))
        return super().convert_field(value, conversion)


WORDS = _Words()


def refuse(path: str, table: Iterable[Advice], text: str) -> None:
    """Raise an error if a text that the user gave is something else."""
    if found := advise(table, text):
        raise SourceError(f"{path}: is {found.seen}: {found.do}")


# Tests


def _begins(text: str) -> Callable[[str], Facts | None]:
    """Return the test whether a text begins like this."""
    beginning = pattern(text, re.DOTALL)
    return lambda given: {} if beginning.match(given) else None


def _if(test: Callable[[Any], bool]) -> Callable[[Any], Facts | None]:
    """Return a test without facts."""
    return lambda given: {} if test(given) else None


_IMAGE_NAME = pattern(rf"[.](?:{'|'.join(IMAGE_EXTENSIONS)})$", re.IGNORECASE)


def _names_an_image(columns: Sequence[str]) -> Facts | None:
    return {"columns": quoted_names(columns)} if any(map(_IMAGE_NAME.search, columns)) else None


def _has_a_number(columns: Sequence[str]) -> bool:
    import polars as pl

    from dsprep.lists.rows import is_number

    return bool(is_number(pl.Series(columns)).any())


BOX_COLUMNS = frozenset(
    ("xmin", "x_min", "xmax", "x_max", "ymin", "y_min", "bbox", "box", "bndbox", "x1", "x2", "x_1")
)


def _box_columns(columns: Sequence[str]) -> Facts | None:
    boxes = [name for name in columns if name.lower() in BOX_COLUMNS]
    return {"boxes": quoted_names(boxes)} if boxes else None


def _images_in_cells(cells: Sequence[str]) -> Facts | None:
    are_images = sum(map(bool, map(image_kind_of, cells))) > len(cells) // 2
    return {"first": quoted(cells[0])} if are_images else None


def _lists(paths: Sequence[str]) -> Facts | None:
    if not paths:
        return None
    several = len({split for path in paths if (split := split_of(path))}) > 1
    every = pattern_of(paths) if several else os.path.join(os.path.dirname(paths[0]), "*.lst")
    return {"first": paths[0], "every": every}


def _separated(separator: str | None) -> Facts | None:
    return None if separator is None else {"separator": separator}


def _classes_in(regex: str) -> Callable[[pl.Series], Facts | None]:
    """Return the test whether a regular expression finds classes in names of files."""

    def test(names: pl.Series) -> Facts | None:
        found = names.str.extract(regex)
        count = found.n_unique()
        if found.has_nulls() or not 1 < count <= len(names) / 2:
            return None
        return {"regex": regex, "count": count, "some": format_some(sorted(found.unique()))}

    return test


_NUMBERS = r"^(\d{1,3})_\d+_\d+"  # 25_0_3_20170116174525125.jpg, as UTKFace has age, sex and so on


def _numbers_in_names(names: pl.Series) -> Facts | None:
    are_so = len(names) > 1 and names.str.contains(_NUMBERS).all()
    found = names.str.extract(_NUMBERS).n_unique() > 1 if are_so else False
    return {"name": quoted(names[0]), "regex": _NUMBERS} if found else None


class ClassDirectories(NamedTuple):
    """Directories that are taken for classes."""

    classes: Sequence[str]  # their paths below the root
    root: str


# Directories that hold one kind of file, in lower case, by that kind.
_FILE_KINDS = dict.fromkeys(("images", "image", "imgs", "img", "jpegimages", "pngimages"), "image")
_FILE_KINDS |= dict.fromkeys(("masks", "mask", "segmentationclass"), "mask")
_FILE_KINDS |= {
    name: name for name in ("labels", "annotations", "segmentationobject", "depth", "gt", "json")
}


def _called(classes: Sequence[str], meanings: Mapping[str, str]) -> list[str]:
    """Find directories by their names, in the paths of classes."""
    found: dict[str, str] = {}
    for name in classes:
        parts = name.split("/")
        for depth, part in enumerate(parts, 1):
            if meaning := meanings.get(part.lower()):
                found["/".join(parts[:depth])] = meaning
                break
    others = set(classes) - set(found)
    is_class = others and set(found) <= set(classes) and len(set(found.values())) == 1
    order = list(meanings.values())
    return [] if is_class else sorted(found, key=lambda path: order.index(found[path]))


def _lie_together(paths: Sequence[str]) -> bool:
    return len(set(map(posixpath.dirname, paths))) == 1


def has_several_splits(given: ClassDirectories) -> bool:
    """Return whether directories are called like several splits, such as `train` and `test`."""
    splits = _called(given.classes, SPLITS)
    return len({SPLITS[path.rpartition("/")[2].lower()] for path in splits}) > 1


def _splits(given: ClassDirectories) -> Facts | None:
    splits = _called(given.classes, SPLITS)
    return {"names": format_some([f"{split}/" for split in splits])} if splits else None


def _splits_together(given: ClassDirectories) -> Facts | None:
    splits = _called(given.classes, SPLITS)
    if not _lie_together(splits):
        return None
    first, *others = (f"{given.root}/{split}" for split in splits)
    return {
        "names": format_some([f"{split}/" for split in splits]),
        "depth": splits[0].count("/") + 1,
        "first": first,
        "others": "".join(f", or {shlex.quote(each)}" for each in others),
    }


def _kinds_of_files(given: ClassDirectories) -> Facts | None:
    kinds = _called(given.classes, _FILE_KINDS)
    if not _lie_together(kinds):
        return None
    return {
        "names": format_some([f"{kind}/" for kind in kinds]),
        "top": f"{given.root}/{kinds[0]}",
        "first": kinds[0],
        "second": [*kinds, "masks"][1],
    }


def _images_and_masks(given: ClassDirectories) -> Facts | None:
    kinds = _called(given.classes, _FILE_KINDS)
    are = {kind: _FILE_KINDS[kind.rpartition("/")[2].lower()] for kind in kinds}
    masks = next((kind for kind in kinds if are[kind] == "mask"), "")
    facts = _kinds_of_files(given)
    if facts is None or not masks or kinds[0] == masks:
        return None
    return {**facts, "masks": f"{given.root}/{masks}"}


# The tables


_CVAT = r"\s*<(?:\?xml[^>]*>\s*<)?annotations\b"
_NEITHER = "which is neither a table nor a list"
_NAMED = "give it with --annotations"
_DIRECTORY = "give its directory with --annotations"
AS_TABLE = (
    "give CSV or TSV with a header line, JSON Lines or Parquet, with a row for each image, such as "
    "path,label"
)

AS_LABELS = (
    Advice(
        "an augmented manifest of SageMaker",
        _if(refers_to_files),
        "give it with --list, or as SOURCE with --from augmented-manifest; for boxes or masks, "
        "with --annotations",
    ),
    Advice(
        f"COCO's JSON, {_NEITHER}",
        _begins(r'\s*\{\s*"(?=.*"annotations"\s*:)(?=.*"(?:images|categories)"\s*:)'),
        _NAMED,
    ),
    Advice(
        f"Label Studio's JSON, {_NEITHER}",
        _begins(r'\s*\[\s*\{\s*"(?=.*"(?:annotations|completions)"\s*:)'),
        _NAMED,
    ),
    Advice(f"CVAT's XML, {_NEITHER}", _begins(_CVAT), _NAMED),
    Advice(
        f"Pascal VOC's XML, {_NEITHER}",
        _begins(r"\s*<(?:\?xml[^>]*>\s*<)?annotation\b"),
        _DIRECTORY,
    ),
    Advice(f"XML, {_NEITHER}", _begins(r"\s*<\?xml\b"), AS_TABLE),
    Advice(
        f"a label file of YOLO, {_NEITHER}",
        _begins(r"(?:[0-9]+(?: [0-9.]+){4,}[ \r]*(?:\n|$)){1,20}"),
        _DIRECTORY,
    ),
)
"""A file that is given as a list or as a table of labels: tests get its text."""

AS_LABELS_JSON = (
    Advice(f"JSON, {_NEITHER}", _begins(r'\s*[\[{]\s*(?:[\[{]\s*)?["\]}]'), AS_TABLE),
)
"""The same, for a text that is not JSON Lines and none of the above."""

_NAMES_OF_COLUMNS = "--columns path,label, or put such a line above it"

FIRST_LINE_OF_LABELS = (
    Advice(
        "its first line has to name the columns, but looks like data: {columns}",
        _names_an_image,
        f"Give {_NAMES_OF_COLUMNS}",
    ),
)
FIRST_LINE_OF_NUMBERS = (
    Advice("If its first line is data already", _if(_has_a_number), f"give {_NAMES_OF_COLUMNS}"),
)
COLUMNS_OF_BOXES = (
    Advice(
        "for rows of one box each ({boxes})",
        _box_columns,
        "give the table with --annotations instead",
    ),
)
BOXES_WITHOUT_LABELS = (
    Advice("For boxes ({boxes})", _box_columns, "give the table with --annotations instead"),
)
"""A table that is given with --labels: tests get the names of its columns."""

CELLS_OF_SOURCE = (
    Advice(
        "the column {column} names images, such as {first}",
        _images_in_cells,
        "give their folder as SOURCE, with --labels {path!q}; --from csv packs the table without "
        "them",
    ),
)
"""A table whose rows are the samples: tests get cells of a column."""

_ONE_CLASS = "give --label-type class if each text is the name of one class"

TAGS_OF_SOURCE = (
    Advice(
        "labels in {label}, such as {text}, look like several tags in a cell",
        _separated,
        f"make a column of 0 and 1 of each tag, {_ONE_CLASS}, or --label-type text",
    ),
)
TAGS_OF_LABELS = (
    Advice(
        "{text} {where} looks like several {what}",
        _separated,
        "give --label-separator {separator!r} for labels of a 0 or a 1 for each, {kept}or "
        + _ONE_CLASS,
    ),
)
"""A column of labels: tests get what separates the tags in its cells, as `find_separator` says."""

TABLE_TO_SPLIT = (
    Advice(
        "a table, and no images",
        _if(lambda path: path.lower().endswith((".csv", ".tsv"))),
        "give the directory of its images as SOURCE, and --labels {path!q}; if its rows are the "
        "samples, dsprep pack {path!q} OUT --to FORMAT --split train=0.8,val=0.2 writes shards of "
        "each side, and --drop NAME leaves out a column",
    ),
)
"""What is split: tests get its path."""

CLASSES_IN_NAMES = (
    Advice(
        "names of several numbers: {name}",
        _numbers_in_names,
        "names of files have several numbers, such as {name}: --label-regex '{regex}' takes the "
        "first one for the class, with --label-type float for a number",
    ),
    *(
        Advice(
            "classes in file names: {some}",
            _classes_in(regex),
            "--label-regex '{regex}' takes {count:,} classes from file names: {some}",
        )
        # dog.0.jpg, obj1__0.png, Abyssinian_1.jpg; not 12.jpg, as images for tests are called
        for regex in (r"^(\w*?[^\W\d_]\w*?)[._-]*\d+\.", r"^([^._-]+)[._-].+\.")
    ),
)
"""Images without labels: tests get the names of their files."""

_PARTS = (
    "if the classes lie in it, name {top!q} as the source; if each holds a part of every sample, "
    "name the parts: "
)
_SPLITS_SEEN = "{names} look like splits, and are part of the names of classes here"
_KINDS_SEEN = "{names}: called like a kind of file, and part of the names of classes here"

SPLITS_AS_CLASSES = (
    Advice(
        _SPLITS_SEEN,
        _splits_together,
        "to make shards of its own of each, give --sides-from {depth}; to read one split, name it "
        "as the source: dsprep pack {first!q}{others}",
    ),
    Advice(
        _SPLITS_SEEN,
        _splits,
        "to read one split, move it to a directory of its own, or list it with --list",
    ),
)
KINDS_AS_CLASSES = (
    Advice(_KINDS_SEEN, _images_and_masks, _PARTS + "dsprep pack {top!q} --masks {masks!q}"),
    Advice(
        _KINDS_SEEN,
        _kinds_of_files,
        _PARTS + "--pair 'image={first}/*.jpg' --pair 'mask.png={second}/*.png'",
    ),
)
"""Directories of images: tests get `ClassDirectories`."""

DIRECTORY_AS_LIST = (
    Advice(
        "is a directory of lists",
        _lists,
        "give one of them, --list {first!q}, or make shards of each of them, --list {every!q}",
    ),
    Advice("is a directory without lists", _if(lambda paths: not paths), "give --list FILE.lst"),
)
"""A directory that is given with --list: tests get the paths of the lists in it."""

TABLE_BESIDE = (Advice("{path} is not read", _if(bool), "give --labels {path!q}"),)
"""The one table beside images: tests get its path, empty if there is none."""
