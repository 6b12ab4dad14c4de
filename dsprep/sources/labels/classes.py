"""Class names, the list that fixes their numbers, and labels as a column of a catalog."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, chain, takewhile
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from dsprep.annotations import mxnet
from dsprep.catalog import AT_ONCE, Catalog
from dsprep.errors import OptionError, SourceError
from dsprep.findings import Finding
from dsprep.lists.rows import parse_rows
from dsprep.lists.store import CLASSES, classes_path, read_classes
from dsprep.numbering import Known, natural_order, number_classes, numbered, numbers_of
from dsprep.patterns import pattern
from dsprep.places.files import depth_of_sides_in, directories_of, repeated_sides
from dsprep.places.names import FILE_WORDS, is_word_for_files, side_name
from dsprep.schema import BY_SOURCE, LABEL, Field, SettledSchema
from dsprep.sources.advice import (
    CLASSES_IN_NAMES,
    KINDS_AS_CLASSES,
    SPLITS_AS_CLASSES,
    TABLE_BESIDE,
    ClassDirectories,
    advise,
    has_several_splits,
)
from dsprep.storage.files import entries, exists, is_file
from dsprep.storage.local import LARGEST
from dsprep.text import read_text, refuse
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some, lines_of, quoted

if TYPE_CHECKING:
    from dsprep.sources.source import Source

_LAST_NUMBER = pattern(r"\d+(?=\D*$)")
_SHOWN = 5  # names that show what an order is
_SOME = 64  # labels whose boxes are looked at
LARGEST_EXACT = 2**53  # largest whole number that a float holds exactly


def label_lists(labels: Iterable[Any]) -> pl.Series | None:
    """Return labels as a column of lists; None unless each is of numbers that a float can hold."""
    lists = [each if isinstance(each, tuple | list) else (each,) for each in labels]
    for number in chain.from_iterable(label or (None,) for label in lists):
        is_too_large = isinstance(number, int) and abs(number) > LARGEST_EXACT
        if is_too_large or not isinstance(number, int | float):
            return None
    return pl.Series("label", lists, dtype=pl.List(pl.Float64), strict=False)


def class_numbers(lists: pl.Series) -> pl.Series | None:
    """Return class numbers if every sample has one label and all are whole; else None.

    If each has one, these may be numbers instead of lists.
    """
    found = pl.Series("cls", dtype=pl.Int64)
    # in blocks: all rows at once would take six times the memory
    for start in range(0, len(lists), AT_ONCE):
        first = part = lists.slice(start, AT_ONCE)
        if isinstance(part.dtype, pl.List):
            first = part.list.first()
            if not (part.list.len() == 1).all():
                return None
        if not ((first % 1 == 0) & (first.abs() < LARGEST_EXACT)).all():
            return None
        found.append(first.cast(pl.Int64))
    return found


def labels_from_numbers(rows: pl.DataFrame, known: Known, source: str) -> pl.Series:
    """Turn labels into class numbers, if every sample has one label and all are whole."""
    numbers = class_numbers(rows["labels"])
    if numbers is None:
        return rows["labels"].alias("label")
    if known.classes is not None:
        outside = ~pl.col("cls").is_between(0, len(known.classes) - 1)
        which = among(known.classes, known.owner)
        listed = pl.DataFrame([rows["line"], numbers])
        refuse(source, listed, outside, lambda row: f"{row['cls']} is none of {which}")
    return numbers


def names_beside(
    lists: Sequence[str], labels: pl.Series
) -> tuple[tuple[str, ...] | None, list[Finding]]:
    """Return the class names in `classes.txt` beside lists, if their labels can be of these."""
    places = dict.fromkeys(_beside(path) for path in lists if exists(path))
    there = list(filter(is_file, places))
    if not there:
        return None, []
    try:
        names, *others = {read_classes(path) for path in there}
    except SourceError as error:
        return None, [Finding("note", "", f"not used: {error}")]
    why = ""
    if others or len(there) < len(places):
        why = "not all lists have these classes"
    elif not _are_of(labels, len(names)):
        why = f"the labels are no numbers of {format_count(len(names), 'class')}"
    elif labels.name == "cls" and not _reach(labels, lists, len(names)):
        count = format_count(len(names), "class")
        takes = f"if it is of these labels, --classes {shlex.quote(there[0])}"
        why = f"it names {count} and the highest label is {labels.max()!r}: {takes}"
    if why:
        return None, [Finding("note", "", f"not used: {format_some(there)}, as {why}")]
    return names, [Finding("note", "", f"class names from {format_some(there)}")]


def _reach(labels: pl.Series, lists: Sequence[str], classes: int) -> bool:
    """Return whether a label is the last of some classes, also in lists of other sides.

    One side may have no sample of the last class. Other class names beside a list may be those of
    another list.
    """
    return any((each == classes - 1).any() for each in chain([labels], _labels_of_sides(lists)))


def _labels_of_sides(lists: Sequence[str]) -> Iterator[pl.Series]:
    """Yield the labels of each list of a side that lies beside lists, if these are such."""
    if not all(map(_is_of_side, lists)):
        return
    for directory in dict.fromkeys(os.path.dirname(path) for path in lists):
        beside = (entry.path for entry in entries(directory or ".") if _is_of_side(entry.name))
        for path in sorted(beside):
            with suppress(SourceError, OSError):
                labels = parse_rows(read_text(path), path)["label"]
                yield labels.cast(pl.Float64, strict=False)


def _is_of_side(path: str) -> bool:
    """Return whether a list is called like one of a side: `train.lst`, `fold-0-val.lst`."""
    stem, extension = os.path.splitext(os.path.basename(path))
    return extension.lower() == ".lst" and side_name(stem) is not None


def _are_of(labels: pl.Series, classes: int) -> bool:
    """Return whether labels fit a number of classes: class numbers, boxes, or a flag for each."""
    if labels.name == "cls":
        return bool(labels.is_between(0, classes - 1).all())
    if tells_objects(labels):
        blocks = (labels.slice(start, AT_ONCE) for start in range(0, len(labels), AT_ONCE))
        return all((_classes_of_boxes(block) < classes).all() for block in blocks)
    return are_flags(labels, classes)


def tells_objects(labels: pl.Series) -> bool:
    """Return whether labels of rows are MXNet's for detection, some of them with objects."""
    if labels.name != "label":
        return False
    has_objects = False
    # in blocks: all rows at once would take twice the memory
    for start in range(0, len(labels), AT_ONCE):
        label = labels.slice(start, AT_ONCE).list
        count = label.len().cast(float)
        head, width = label.get(0), label.get(1, null_on_oob=True)
        fits = (head >= 2) & (width >= 5) & (head % 1 == 0) & (width % 1 == 0)
        fits &= (count >= head) & ((count - head) % width == 0)
        if not fits.fill_null(False).all():
            return False
        has_objects = has_objects or bool((count > head).any())
    first = map(tuple, labels.head(_SOME).to_list())
    return has_objects and all(map(mxnet.in_shares, first))


def _classes_of_boxes(labels: pl.Series) -> pl.Series:
    """Return the class numbers in labels for detection, which `tells_objects` has checked."""
    number = pl.col("number")
    values = (
        pl.DataFrame({"number": labels})
        .with_columns(
            within=pl.int_ranges(number.list.len()) - number.list.get(0).cast(pl.Int64),
            width=number.list.get(1).cast(pl.Int64),
        )
        .explode("number", "within")
    )
    is_class = (pl.col("within") >= 0) & (pl.col("within") % pl.col("width") == 0)
    return values.filter(is_class)["number"]


def _beside(path: str) -> str:
    """Return the path of `classes.txt` beside a list, as a user would write it."""
    real, beside = classes_path(path), os.path.join(os.path.dirname(path), CLASSES)
    return beside if os.path.realpath(beside) == real else real


def among(classes: Sequence[object], owner: str | None) -> str:
    """Name a list of classes, and what to do where the labels need others."""
    of = f" of {owner}: give --classes FILE with the names of all classes" if owner else ""
    return f"the {len(classes)} classes{of}"


def depth_unless_classes(paths: pl.Series, known: Known, root: str, given: bool = False) -> int:
    """Return the depth of the directories that are sides; 0 if none are, or if all are classes."""
    depth = depth_of_sides_in(paths, root, given)
    is_known = depth and known.classes and {*directories_of(paths).unique()} <= {*known.classes}
    return 0 if is_known else depth


class DirectoryClasses(NamedTuple):
    """What directories say of the classes of the images in them."""

    classes: dict[str, str]  # the class by directory; empty if the directories say nothing
    dropped: str = ""  # the leading directories that the first class name lacks
    of_files: Sequence[str] = ()  # directories that are called like files, and so no classes


def named_by_directories(
    directories: Iterable[str], depth: int = 0, given: AbstractSet[str] = frozenset()
) -> DirectoryClasses:
    """Return the class of each directory below the root.

    Leading directories that are common to all images are dropped, and never the last one: so no two
    classes become one. Those of one side alone are dropped if they are called like files
    (``train/train_images/cat`` and ``val/val_images/cat``). The sides lie at a depth, from 1; 0 if
    there are none. Names that are ``given`` win.
    """
    below = without_sides(sorted(directories), depth)
    if given and given >= set(below.values()):
        return DirectoryClasses(below)
    by_side: dict[str, list[str]] = {}
    for path in below:
        by_side.setdefault(path.split("/")[depth - 1] if depth else "", []).append(path)
    short: dict[str, str] = {}
    for own in by_side.values():
        leading = common_parent([below[path] for path in own]).split("/")
        count = len([*takewhile(is_word_for_files, leading)])
        short |= {path: "/".join(below[path].split("/")[count:]) for path in own}
    if any(is_word_for_files(name.split("/")[0]) for name in short.values() if "/" in name):
        short = below  # some directories of files lie beside others: keep the whole paths
    common = common_parent(short.values())
    short = {path: name.removeprefix(f"{common}/") for path, name in short.items()}
    path, name = next(iter(short.items()))
    dropped = below[path].removesuffix(name).rstrip("/")
    names = {*short.values()}
    if given:
        whole = {name.removeprefix(f"{common_parent(given)}/"): name for name in given}
        if not given >= names and names <= whole.keys():
            short = {path: whole[name] for path, name in short.items()}
        return DirectoryClasses(short, dropped)
    if len(short) == len(by_side) and all(map(is_word_for_files, names)):
        return DirectoryClasses({}, dropped, (below[path],))
    if _are_parts(names):
        return DirectoryClasses({}, dropped, tuple(sorted(names)))
    return DirectoryClasses(short, dropped)


def _said_of_files(directories: Sequence[str]) -> str:
    """Say that directories are called like the files in them, and so no classes."""
    named = format_some([f"{each}/" for each in directories])
    if len(directories) > 1:
        said, them = f"{named} are no classes but directories of images", "them for classes"
    else:
        said, them = f"{named} is no class but a directory of all images", "it for a class"
    return f"{said}, which have no labels; --from images takes {them}"


def _are_parts(names: AbstractSet[str]) -> bool:
    """Return whether directories have a number each and are called like the files in them.

    `HAM10000_images_part_1` and `HAM10000_images_part_2` are, and `images_001/images` and so on.
    """
    kept = {_LAST_NUMBER.sub("#", name.partition("/")[0]) for name in names}
    below = {name.partition("/")[2] for name in names}
    if len(names) < 2 or len(kept) > 1 or not all(map(is_word_for_files, below - {""})):
        return False
    (pattern,) = kept
    return "#" in pattern and not FILE_WORDS.isdisjoint(re.split(r"[\W\d_]+", pattern.lower()))


def unclassed(directories: Sequence[str], depth: int) -> list[str]:
    """Return the directories whose images have no class: the root, and a side of classes elsewhere.

    In ``data/train/cat/1.jpg`` and ``data/val/2.jpg``, the directory ``data`` is no class, and
    neither is any other that all sides lie in.
    """
    below = without_sides(directories, depth)
    names = {*below.values()} if depth else set()
    tops = {"/".join(path.split("/")[: depth - 1]) for path in directories} if depth else set()
    holders = {
        parent for name in names for parent in accumulate(name.split("/")[:-1], posixpath.join)
    }
    return [
        path
        for path, name in below.items()
        if not name
        or (name in holders and (tops == {name} or all(map(is_word_for_files, name.split("/")))))
    ]


def without_sides(directories: Sequence[str], depth: int) -> dict[str, str]:
    """Return the paths of directories without the sides at a depth, from 1; 0 if there are none.

    Sides that hold a directory of their own name are left out with that, as `sides_of` does.
    """
    if not depth:
        return {path: path for path in directories}
    repeated, found = repeated_sides(directories, depth), dict[str, str]()
    for path in directories:
        parts = path.split("/")
        end = depth + (parts[depth - 1] in repeated)
        found[path] = "/".join(parts[: depth - 1] + parts[end:])
    return found


def common_parent(paths: Iterable[str]) -> str:
    """Return the directory that all paths lie in, without the last part of any."""
    parents = [path.split("/")[:-1] for path in paths]
    same = takewhile(lambda parts: len(set(parts)) == 1, zip(*parents, strict=False))
    return "/".join(parts[0] for parts in same)


Labels: TypeAlias = tuple[pl.Series | None, tuple[str, ...] | None, list[Finding]]
"""The column of labels, if there are any, the class names, and notes on them."""


def labels_in_paths(
    paths: pl.Series,
    source: Source,
    known: Known,
    *,
    depth: int = 0,
    top: str = "",
    unread: str = "",
) -> Labels:
    """Return the labels that names of files tell (``--label-regex``) or, without it, directories.

    The options are those of :func:`classes_of_directories`.
    """
    regex, whole = source.label_regex, source.kind is not None
    if regex is not None:
        return classes_in_names(paths, source.root, known, regex, source.choice.label_type)
    return classes_of_directories(
        paths, source.root, known, top=top, unread=unread, depth=depth, whole=whole
    )


def classes_of_directories(
    paths: pl.Series,
    root: str,
    known: Known,
    *,
    top: str = "",
    unread: str = "",
    depth: int = 0,
    whole: bool = False,
) -> Labels:
    """Number the classes of the directories that images lie in, with notes on them.

    Args:
        paths: The paths of the images.
        root: The source, for messages.
        known: What is known of the classes.
        top: The directory in the root that the paths start from.
        unread: A table that is not read, for the notes.
        depth: The depth of the sides in the paths, from 1; 0 if there are none.
        whole: Whether class names keep all directories, as they are.
    """
    classes = known.classes
    directories = directories_of(paths)
    every = directories.unique().to_list()
    bare = unclassed(every, depth)
    if len(bare) == len(every):
        if classes is not None:
            raise SourceError(
                f"{root}: its images lie in no directory and so have no class, "
                f"but a list of {len(classes)} classes was given"
            )
        return None, None, []
    if bare:
        in_root = paths.filter(directories.is_in(bare))
        raise SourceError(
            f"{root}: {len(in_root)} of {len(paths)} images lie in no directory and so have no "
            f"class, {in_root[0]!r} among them: move them into the directory of their "
            "class or out of the folder, or give the labels in a list"
        )
    if whole:
        named = DirectoryClasses(without_sides(every, depth))
    else:
        named = named_by_directories(every, depth, frozenset(classes or ()))
    if named.of_files:
        return None, None, [Finding("note", "", _said_of_files(named.of_files))]
    names = sorted(set(named.classes.values()))
    if classes is None and not whole:
        _refuse_sides(ClassDirectories(names, os.path.join(root, top, named.dropped)), root)
    classes = number_classes(names, known, root)
    notes = [*notes_on_directories(names, os.path.join(root, top, named.dropped), unread)]
    notes += notes_on_order(known, classes)
    numbers = numbers_of(classes)
    of_each = [numbers[named.classes[path]] for path in every]
    column = directories.replace_strict(every, of_each, return_dtype=pl.Int64)
    return column.alias("cls"), classes, notes


def _refuse_sides(given: ClassDirectories, root: str) -> None:
    """Refuse classes whose names have several sides: images for tests would be among others."""
    found = advise(SPLITS_AS_CLASSES, given._replace(root=given.root.rstrip("/")))
    if found and has_several_splits(given):
        raise SourceError(
            f"{root}: {found.seen}; {found.do}; to take all directories for classes: --from images"
        )


def matches_in(texts: pl.Series, regex: str, option: str) -> pl.Series:
    """Return what a regular expression matches in texts: its first parentheses, or all of it."""
    try:
        parentheses = texts.head(1).str.extract_groups(regex).struct.fields
        return texts.str.extract(regex, 1 if parentheses else 0)
    except pl.exceptions.ComputeError as error:
        reason = str(error).partition("\n\nThis error")[0]
        raise OptionError(f"{option} {regex!r}: not a regular expression: {reason}") from None


def classes_in_names(
    paths: pl.Series, root: str, known: Known, regex: str, label_type: str | None
) -> Labels:
    """Take the labels that a regular expression finds in the names of files."""
    found = matches_in(paths.str.split("/").list.last(), regex, "--label-regex")
    lost = paths.filter(found.fill_null("") == "")
    if len(lost):
        raise SourceError(
            f"--label-regex {regex!r} finds no class in {format_count(len(lost), 'file name')} of "
            f"{len(paths):,} in {root}: {format_some(lost.to_list())}"
        )
    if label_type == "float":
        numbers = found.cast(pl.Float64, strict=False)
        odd = found.filter(~numbers.is_finite().fill_null(False))
        if len(odd):
            raise SourceError(
                f"--label-regex {regex!r} finds {format_count(len(odd), 'text')} in {root} that "
                f"are no numbers: {format_some(odd.to_list())}"
            )
        return numbers.to_frame("label").select(pl.concat_list("label")).to_series(), None, []
    classes = number_classes(found.unique(), known, root)
    return numbered(found, classes), classes, notes_on_order(known, classes)


def hint_in_names(paths: pl.Series) -> str:
    """Return how --label-regex could take classes from file names; empty if nothing shows that."""
    names = paths.str.split("/").list.last()
    found = advise(CLASSES_IN_NAMES, names)
    return found.do if found else ""


def renumbered(catalog: Catalog, classes: tuple[str, ...]) -> Catalog:
    """Number the classes of a catalog as another list does, which has the same names or more."""
    # Its labels are class numbers, or a flag for each class: see `has_flags`.
    known = catalog.classes or ()
    numbers = numbers_of(classes)
    if catalog.label_column == "cls":
        column = pl.col("cls").replace_strict(
            range(len(known)), [numbers[name] for name in known], return_dtype=pl.Int64
        )
    else:
        flags = {numbers[name]: pl.col("label").list.get(at) for at, name in enumerate(known)}
        every = [flags.get(number, pl.lit(0.0)) for number in range(len(classes))]
        column = pl.concat_list(every).alias("label")
    return replace(catalog, table=catalog.table.with_columns(column), classes=classes)


def has_flags(catalog: Catalog) -> bool:
    """Return whether each label has a 0 or a 1 for every class: the tags of an image."""
    if catalog.label_column != "label" or not catalog.classes:
        return False
    return are_flags(catalog.table["label"], len(catalog.classes))


def are_flags(labels: pl.Series, classes: int) -> bool:
    """Return whether each label has a 0 or a 1 for every class."""
    flags = labels.list.eval(pl.element().is_in([0.0, 1.0])).list.all()
    return bool(((labels.list.len() == classes) & flags).all())


def notes_on_order(known: Known, classes: Sequence[str]) -> list[Finding]:
    """Return a note if these classes are numbered in plain order, and the natural one differs."""
    natural = natural_order(classes)
    if known.classes is not None or known.order is not None or natural == tuple(classes):
        return []
    first = next(at for at, name in enumerate(classes) if name != natural[at])
    start = max(0, first - 2)
    shown = (names[start : start + _SHOWN] for names in (classes, natural))
    plain, other = (", ".join(names) + ", …" * (len(names) == _SHOWN) for names in shown)
    detail = (
        f"classes are numbered in plain order of their names ({plain}), as torchvision does; "
        f"--class-order natural gives {other}"
    )
    return [Finding("note", "", detail)]


def notes_on_names(classes: Sequence[str]) -> Iterator[Finding]:
    """Say which classes look the same: they differ in capitals, or in the form of accents alone."""
    alike = dict[str, list[str]]()
    for name in classes:
        alike.setdefault(unicodedata.normalize("NFC", name).casefold(), []).append(name)
    pairs = [names for names in alike.values() if len(names) > 1 < len(names[0])]
    if not pairs:
        return
    one, other, *_ = pairs[0]
    said = (
        f"{quoted(one)} and {quoted(other)} are two classes: their names differ in capitals alone; "
        "give both one name if they are one class"
    )
    if unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other):
        said = (
            f"{ascii(one)} and {ascii(other)} are two classes, which look the same: their accents "
            "are stored in two forms; if both are one class, give --classes FILE with one of them"
        )
    more = f" ({len(pairs) - 1:,} more like this)" if len(pairs) > 1 else ""
    yield Finding("note", "", f"{said}{more}")


def notes_on_directories(classes: Sequence[str], root: str, table: str) -> Iterator[Finding]:
    """Say which directories are probably no classes: splits, or kinds of files."""
    given = ClassDirectories(classes, root.rstrip("/"))
    if splits := advise(SPLITS_AS_CLASSES, given):
        beside = advise(TABLE_BESIDE, table, path=table)
        unread = f"; {beside.seen}: {beside.do}" if beside else ""
        yield Finding("note", "", f"{splits.seen}; {splits.do}{unread}")
    if kinds := advise(KINDS_AS_CLASSES, given):
        yield Finding("note", "", f"{kinds.seen}; {kinds.do}")


_ITEM = pattern(r"item\s*\{(.*?)\n?\s*\}", re.DOTALL)
_PAIR = pattern(r"""(\w+)\s*:\s*(\d+|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
_NUMBERED = pattern(r"(\d{1,6}):(.*)")


def read_numbered(path: str) -> tuple[str, ...] | None:
    """Read class names that stand with their numbers."""
    text = read_text(path, LARGEST)
    pairs: list[tuple[int, str]] = []
    if path.endswith(".pbtxt"):
        for item in _ITEM.findall(text):
            values = dict(_PAIR.findall(item))
            name = values.get("display_name") or values.get("name", "")
            if values.get("id", "").isdecimal() and name:
                pairs.append((int(values["id"]), re.sub(r"\\(.)", r"\1", name[1:-1])))
    else:
        lines = [line.strip() for line in lines_of(text) if line.strip()]
        matches = [match for line in lines if (match := _NUMBERED.fullmatch(line))]
        if len(matches) == len(lines):
            pairs = [(int(match[1]), match[2].strip()) for match in matches]
    if not pairs:
        return None
    numbers, names = zip(*pairs, strict=True)
    if len(set(numbers)) < len(pairs) or len(set(names)) < len(pairs) or max(numbers) > 999_999:
        raise SourceError(f"{path}: two classes have one number or one name: correct it")
    by_number = dict(pairs)
    return tuple(by_number.get(number, "") for number in range(max(numbers) + 1))


def with_label(
    settled: SettledSchema,
    labels: pl.Series,
    classes: tuple[str, ...] | None,
    told_by: str = "a list",
    field: Field | None = None,
) -> SettledSchema:
    """Return a schema whose label comes from rows of a catalog, not from samples.

    It has the name of ``field``, if the samples have none.
    """
    schema = settled.schema
    field = schema.label_field or field or Field(LABEL, "class")
    if labels.name == "cls":
        kind, names = "class", classes or ()
    else:
        kind, names = "float32" if labels.list.len().max() == 1 else "list<float32>", ()
    label = Field(field.name, kind, names=names, told=told_by, given=field.given, why=BY_SOURCE)
    ignored = settled.ignored | {place[0] for place in field.places}
    schema = replace(schema.with_field(label), label=label.name)
    return settled._replace(schema=schema, ignored=ignored)
