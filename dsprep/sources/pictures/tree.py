"""A tree of images, labeled by their directories, a list, a table or an augmented manifest."""

from __future__ import annotations

import glob
import os
import posixpath
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

import polars as pl

from dsprep.catalog import Annotated, Catalog, Inferred, SourceScan, compact
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.numbering import Known
from dsprep.patterns import pattern
from dsprep.places.files import (
    Files,
    list_files,
    read_beside,
    said_of_sides,
    sides_of,
    with_sides_of_directories,
)
from dsprep.places.scan import RunAll, scan_below
from dsprep.sample import IMAGE_EXTENSIONS
from dsprep.schema import IMAGE, LABEL, Field, Schema
from dsprep.sources.advice import DIRECTORY_AS_LIST, TABLE_BESIDE, advise
from dsprep.sources.heads import head_of, is_harmless, pixel_columns
from dsprep.sources.labels.classes import (
    depth_unless_classes,
    hint_in_names,
    labels_from_numbers,
    labels_in_paths,
    names_beside,
)
from dsprep.sources.labels.numbered_lists import ListedClasses
from dsprep.sources.readers import FieldsReader, FileReader
from dsprep.sources.side_lists import NO_LISTS, ListedSides, below_top_unless_lists, listed_sides
from dsprep.sources.unread import unread_alone
from dsprep.storage.files import find_files, is_dir
from dsprep.text import decode_text
from dsprep.tuples import NamedTuple
from dsprep.units import extension_in, format_count, format_extensions, format_some

if TYPE_CHECKING:
    from dsprep.places.archive import Archive
    from dsprep.sources.source import Source


# Files that are sources by themselves.
_ARRAYS = pattern(r"(?i)\.(?:npy|npz|h5|hdf5|mat)$|_X\.bin$")
_READ_ALONE = pattern(r"(?i)\.(?:csv|tsv|parquet|zip|tar|tgz|tar\.gz)$")


def read_tree(source: Source, files: Files | None, run_all: RunAll = map) -> SourceScan:
    """Make the catalog of a directory, of an archive, or of samples."""
    # A list or a table finds out itself which files there are, if none are given.
    known, archive = _known_classes(source, files), files.archive if files else None
    if source.labels:
        from dsprep.sources.labels.table import read_table  # few sources have a table

        data = read_beside(source.root, source.labels, archive)
        catalog, findings = read_table(source, data, files, known, run_all)
        if source.sides_from is not None or (files is not None and files.samples is not None):
            return catalog, findings
        catalog, notes = with_sides_of_directories(catalog)
        return catalog, [*findings, *notes]
    if source.list_file:
        return read_lists(source, _texts_of(source, archive), files, known, run_all)
    assert files is not None
    own = files.below_top() if source.kind is not None else below_top_unless_lists(source, files)
    top = "" if own is files else files.top
    return _by_directories(source, _with_unreadable(own, source), top, known)


def _texts_of(source: Source, archive: Archive | None) -> Iterator[tuple[str, str]]:
    """Read the lists of a source one by one; yield their paths and texts."""
    try:
        for path in source.lists:
            yield path, decode_text(read_beside(source.root, path, archive), path)
    except SourceError:
        where = (source.list_file or "").rstrip("/")
        if not is_dir(where):
            raise
        found = advise(DIRECTORY_AS_LIST, find_files(f"{glob.escape(where)}/*.lst"))
        assert found is not None
        raise SourceError(f"--list {where}: {found.seen}: {found.do}") from None


def _known_classes(source: Source, files: Files | None) -> Known:
    """Return the classes that a file names or, without one, that the samples of a source have."""
    classes = source.class_names()
    if classes is not None or files is None or files.samples is None:
        return Known(classes, None, source.class_order)
    # If a table has the labels, directories do not, as for a folder of images.
    replaces = source.labels is not None and files.samples.reader.in_class_directories
    own = None if replaces else files.samples.classes
    return Known(own, source.root, source.class_order)


def _with_unreadable(files: Files, source: Source) -> Files:
    """Return the files, those of images that dsprep does not decode being called so."""
    if source.suffixes != frozenset(IMAGE_EXTENSIONS):
        return files
    lost = {found.path: found for found in files.unreadable()}
    return files._replace(findings=[lost.get(found.path, found) for found in files.findings])


def _by_directories(source: Source, files: Files, top: str, known: Known) -> SourceScan:
    """Make the catalog of all images; directories, or the names of files, tell the classes."""
    root = source.root
    if files.table.is_empty():
        raise SourceError(f"{root}: holds no images{_what_else(files, source)}")
    only = _only_table(files, root)
    table, below, sides, depth, files, notes, listed = _with_sides(source, files, known, only)
    numbers: pl.Series | None
    if listed is not None:
        numbers, classes, more = table["cls"], listed.names, [*listed.findings]
        table = table.drop("cls")
        if count := numbers.null_count():
            said = f"{format_count(count, 'image')} without a label, as no list names them"
            more.append(Finding("note", "", said))
    else:
        # The class of an image is the path of its directory; without directories, there are none.
        names_tell = source.label_regex is not None
        bare = () if names_tell else _sides_without_classes(table, below, sides, root)
        own = table.filter(~pl.col("side").is_in(bare)) if bare else table
        numbers, classes, more = labels_in_paths(
            *(own["path"], source, known), depth=depth, top=top, unread=only
        )
        if len(own) < len(table) and numbers is not None:
            labels = own.select("index", numbers)
            joined = table.select("index").join(labels, on="index", how="left")
            numbers = joined.sort("index")["cls"]
            named = format_some([f"{sides[at]}/" for at in bare])
            said = f"{named} without directories of classes: the images there have no label"
            more = [*more, Finding("note", "", said)]
    notes += [*more, *_note_on_levels(classes or ())]
    tells_none = numbers is None or (len(classes or ()) == 1 and source.label_regex is None)
    if tells_none:
        notes += _hints_in_names(table, below, sides, root)
    catalog = Catalog(table, root, classes, files.reader or FileReader(root), sides=sides)
    catalog = replace(catalog, inferred=tuple(_inferred(source, catalog, depth, listed)))
    if numbers is not None:
        catalog = _with_labels(catalog, numbers)
    catalog = replace(catalog, table=compact(catalog.table.get_columns()))
    return catalog, [*files.findings, *notes]


def _hints_in_names(
    table: pl.DataFrame, below: pl.Series, sides: Sequence[str], root: str
) -> Iterator[Finding]:
    """Say how ``--label-regex`` takes classes from the names of files, of all or of one side."""
    if hint := hint_in_names(below):
        yield Finding("note", "", hint)
        return
    for at, side in enumerate(sides):  # images for tests have numbers, as in Dogs vs. Cats
        own = table["path"].filter(table["side"] == at)
        if len(own) and (hint := hint_in_names(own)):
            top = own[0][: own[0].index(f"{side}/") + len(side)]
            alone = f"dsprep pack {shlex.quote(posixpath.join(root, top))}"
            yield Finding("note", "", f"{hint}; for {side}/ alone: {alone}")


def _note_on_levels(classes: Sequence[str]) -> Iterator[Finding]:
    """Say that directories hold classes of the same names, as those of PlantVillage do."""
    inside: dict[str, set[str]] = {}
    for name in classes:
        above, _, own = name.rpartition("/")
        inside.setdefault(above, set()).add(own)
    same = next(iter(inside.values()), set())
    if "" in inside or min(len(inside), len(same)) < 2:  # noqa: PLR2004
        return
    if all(own == same for own in inside.values()):
        within, names = format_some([f"{each}/" for each in inside]), format_some(sorted(same))
        said = f"{within} have the directories {names}: each of these is a class of its own"
        yield Finding("note", "", f"{said}; to take those of one, name it as the source")


class _Sided(NamedTuple):
    """Images with their sides.

    Attributes:
        table: The images that are taken, in order, with the column `side` if there are sides.
        below: Their paths without directories that are sides.
        sides: The names of the sides.
        depth: The depth of directories that are sides, from 1; 0 if there are none.
        files: The files, without lists that were read.
        notes: What was noticed.
        listed: The classes that lists tell, if they do; the table has them as `cls`.
    """

    table: pl.DataFrame
    below: pl.Series
    sides: tuple[str, ...]
    depth: int
    files: Files
    notes: list[Finding]
    listed: ListedClasses | None = None


def _with_sides(source: Source, files: Files, known: Known, only: str) -> _Sided:
    """Take the sides of images from directories or, if none are sides, from lists.

    Images that the list of their side does not name are left out.
    """
    table = files.table.sort("path").select(pl.int_range(pl.len()).alias("index"), pl.all())
    paths, is_named = table["path"], source.kind is not None
    depth = source.sides_from or depth_unless_classes(paths, known, source.root, is_named)
    listed = NO_LISTS
    if not is_named:
        listed = listed_sides(source, files, paths, known=known, are_divided=bool(depth))
    if listed.classes is not None:
        table = table.with_columns(listed.classes.numbers)
    left = [each for each in files.findings if each.path not in listed.read]
    files = files._replace(findings=left)
    if not depth:
        return _sides_by_lists(files, table, listed)
    below, sides, column = sides_of(paths, depth, source.root)
    notes = [*listed.findings]
    if source.sides_from is None:
        beside = advise(TABLE_BESIDE, only, path=only)
        unread = f"; {beside.seen}: {beside.do}" if beside else ""
        notes.append(Finding("note", "", f"{said_of_sides(sides)}{unread}"))
    table = table.with_columns(column)
    if listed.classes is not None:  # a list names the images of its side
        are_listed = pl.Series(listed.numbers, dtype=pl.Int64).is_not_null()
        is_taken = are_listed | ~column.is_in(column.filter(are_listed).unique().implode())
        notes += [Finding("unlisted", path) for path in paths.filter(~is_taken)]
        table = table.filter(is_taken).with_columns(index=pl.int_range(pl.len()))
        below = below.filter(is_taken)
    return _Sided(table, below, sides, depth, files, notes, listed.classes)


def _sides_by_lists(files: Files, table: pl.DataFrame, listed: ListedSides) -> _Sided:
    """Take the sides of images from lists; images that these do not name are left out."""
    if not listed.names:
        return _Sided(table, table["path"], (), 0, files, [*listed.findings])
    table = table.with_columns(pl.Series("side", listed.numbers, dtype=pl.Int64))
    lost = table.filter(pl.col("side").is_null())["path"]
    table = table.drop_nulls("side").with_columns(index=pl.int_range(pl.len()))
    notes = [*listed.findings, *(Finding("unlisted", path) for path in lost)]
    return _Sided(table, table["path"], listed.names, 0, files, notes, listed.classes)


def _inferred(
    source: Source, catalog: Catalog, depth: int, listed: ListedClasses | None
) -> Iterator[Inferred]:
    """Yield what the names of directories and files tell, for a layout."""
    if catalog.sides and depth:
        yield Inferred("sides_from", depth, said_of_sides(catalog.sides))
    elif catalog.sides:
        named = format_some(catalog.sides)
        yield Inferred("sides_from", None, f"lists tell the sides: {named}")
    if listed is not None:
        yield Inferred("classes", catalog.classes, "lists tell the number of each image")
    elif catalog.classes is None:
        why = "nothing tells the labels of the images: a table, a list or names of files could"
        yield Inferred("labels", None, why)
    elif source.label_regex is None:
        yield Inferred("classes", catalog.classes, "the directories, in the order of their numbers")
    else:
        yield Inferred("classes", catalog.classes, "what the regular expression finds in names")


def _only_table(files: Files, root: str) -> str:
    """Return the table of text that lies among images and may have their labels, if it is one."""
    tables = [each.path for each in files.findings if each.path.lower().endswith((".csv", ".tsv"))]
    tables = [path for path in tables if not is_harmless(path)]
    return os.path.join(root if files.others is None else "", *tables) if len(tables) == 1 else ""


def _sides_without_classes(
    table: pl.DataFrame, below: pl.Series, sides: Sequence[str], root: str
) -> Sequence[int]:
    """Return the sides without directories of classes, as those for tests often are.

    They are none if no side has any; one that has some for a part of its images is refused.
    """
    if not sides:
        return ()
    lacks = ~below.str.contains("/", literal=True)
    found = table.select("path", "side", lacks=lacks)
    shares = found.group_by("side").agg(pl.col("lacks").mean()).sort("side")
    bare = shares.filter(pl.col("lacks") == 1)["side"].to_list()
    if len(bare) == len(sides):
        return ()
    if wrong := shares.filter(pl.col("lacks").is_between(0, 1, closed="none"))["side"].to_list():
        lost = found.filter(pl.col("lacks") & (pl.col("side") == wrong[0]))["path"]
        lie = "lies" if len(lost) == 1 else "lie"
        raise SourceError(
            f"{root}: {format_count(len(lost), 'image')} of the side {sides[wrong[0]]} {lie} in no "
            f"directory of a class, where others are, such as {lost[0]!r}: move them into the "
            "directory of their class or out of the folder, or give the labels in a list"
        )
    return bare


def _with_labels(catalog: Catalog, numbers: pl.Series) -> Catalog:
    """Return a catalog with class numbers; if some are null, the label is a field with gaps."""
    if not numbers.null_count():
        return replace(catalog, table=catalog.table.with_columns(numbers))
    values = [(number,) for number in numbers.to_list()]
    columns = catalog.table.columns
    at = columns.index("side") if "side" in columns else len(columns)
    fields = (
        Field(IMAGE, "image", places=((IMAGE,),), told="the files"),
        Field(LABEL, "class", True, catalog.classes or (), ((LABEL,),), told="the files"),
    )
    return replace(
        catalog,
        table=catalog.table.insert_column(at, catalog.table["index"].alias("annotation")),
        reader=FieldsReader(catalog.reader, names=(LABEL,)),
        schema=Schema(fields, IMAGE, LABEL, "folder"),
        schema_known=True,
        annotated=Annotated(
            None, sha256(repr(values).encode()).hexdigest(), range(len(values)), values
        ),
    )


def _what_else(files: Files, source: Source) -> str:
    """Describe the content of a folder without images."""
    if not files.findings:
        return ", nor anything else"
    counts = Counter(extension_in(found.path) for found in files.findings if found.kind != "hidden")
    hidden = len(files.findings) - counts.total()
    counted = [format_extensions(counts)] if counts else []
    counted += [f"{hidden:,} hidden"] if hidden else []
    unreadable = next((found.detail for found in files.findings if found.kind == "unreadable"), "")
    found = f" that dsprep reads, but {' and '.join(counted)}"
    if unreadable:
        return f"{found} ({unreadable})"
    if source.suffixes != frozenset(IMAGE_EXTENSIONS):
        return f"{found} (images are .{', .'.join(sorted(source.suffixes))})"
    paths = [each.path for each in files.findings if each.kind != "hidden"]
    if said := unread_alone(paths):
        return f"{found}: {said}"
    if arrays := sorted(filter(_ARRAYS.search, paths)):
        return f"{found}: {_said_of_arrays(source.root, arrays[0])}"
    alone = [path for path in paths if _READ_ALONE.search(path) and not is_harmless(path)]
    if alone and files.others is None:
        chosen = min(alone, key=lambda path: ("test" in posixpath.basename(path).lower(), path))
        path = os.path.join(source.root, chosen)
        pixels = pixel_columns(path, head_of(path) or b"")
        first = shlex.quote(path) + (f" --pixel-columns {shlex.quote(pixels)}" if pixels else "")
        return f"{found}: to read a table or an archive, name it as the source: dsprep pack {first}"
    return found


def _said_of_arrays(root: str, path: str) -> str:
    """Say how to read arrays of images, given the first file of arrays."""
    where = os.path.dirname(path)
    if where:
        named = shlex.quote(os.path.join(root, where))
        return f"to read arrays of images, name their directory: dsprep pack {named}"
    return (
        "none has an array of bytes that are images, N x H x W, N x H x W x C or N x C x H x W: "
        "save them so, or write the images as files"
    )


def read_lists(
    source: Source,
    texts: Iterable[tuple[str, str]],
    files: Files | None,
    known: Known,
    run_all: RunAll = map,
) -> SourceScan:
    """Make the catalog of an MXNet ``.lst``, or of several, each given by its path and its text."""
    from dsprep.sources.labels.choose import choose  # few sources have lists

    # A listed file may have any extension and may be hidden. Only the directories that the list
    # names are looked into for files that it does not name.
    rows = _listed_rows(source, texts, known)
    names, numbers = rows["file"], rows[rows.columns[-1]]
    if files is None:
        listed = {""}
        for directory in names.str.replace(r"/?[^/]*$", "").unique().to_list():
            while directory not in listed:
                listed.add(directory)
                directory = directory.rpartition("/")[0]
        files = list_files(scan_below(source.root, source.suffixes, run_all, listed), listed)
    files = files.fitting(names)
    classes, notes = known.classes, list[Finding]()
    if classes is None and source.choice.label_type != "float":
        classes, notes = names_beside(source.lists, numbers)
    catalog, findings = choose(rows, files, source, classes)
    return catalog, [*findings, *notes]


def _listed_rows(source: Source, texts: Iterable[tuple[str, str]], known: Known) -> pl.DataFrame:
    """Return the rows of lists; the last column is their labels."""
    from dsprep.lists.rows import parse_rows, plain_paths, require_one_kind
    from dsprep.sources.labels.cells import refuse_annotations

    # One whole number a line makes class numbers; several numbers, a fraction or a detection label
    # make label lists.
    parts: list[pl.DataFrame] = []
    for number, (path, text) in enumerate(texts):
        refuse_annotations(text, path)
        part = parse_rows(text, path, source.duplicates or "error")
        labels = pl.col("label").str.split("\t").cast(pl.List(pl.Float64)).alias("labels")
        if len(source.lists) > 1:
            require_one_kind(parts[0] if parts else part, part, path)
            labels_from_numbers(part.select("line", labels), known, path)  # wrong ones by line
        parts.append(part.with_columns(labels, list=pl.lit(number, pl.Int64)))
    rows = pl.concat(parts)
    names = plain_paths(rows["path"]).alias("file")
    numbers = labels_from_numbers(rows.select("line", "labels"), known, str(source.list_file))
    return rows.select("line", "index", "path", "list", names, numbers)
