"""A tree of images, labeled by their directories, by a list, or by a table."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.lists.rows import parse_rows, plain_paths
from dsprep.sample import IMAGE_EXTENSIONS
from dsprep.sources.classes import Known, classes_of_directories, labels_from_numbers
from dsprep.sources.files import Files, list_files, read_text_beside
from dsprep.sources.match import choose
from dsprep.sources.scan import FileReader, PartReader, RunAll, scan_below
from dsprep.sources.table import read_table, refuse_annotations
from dsprep.units import extension_in, format_extensions

if TYPE_CHECKING:
    from dsprep.sources.reading import Source


def read_tree(
    source: Source, files: Files | None, run_all: RunAll = map
) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of a directory, of an archive, or of samples."""
    # A list or a table finds out itself which files there are, if none are given.
    classes = source.class_names()
    owner = None
    if classes is None and files is not None and files.samples is not None:
        # If a table has the labels, directories do not, as for a folder of images.
        in_directories = source.labels is not None and isinstance(files.reader, PartReader)
        classes = None if in_directories else files.samples.classes
        owner = source.root
    known = Known(classes, owner, source.class_order)
    path = source.list_file or source.labels
    if path:
        text = read_text_beside(source.root, path, files.archive if files else None)
        read = read_lst if source.list_file else read_table
        return read(source, text, files, known, run_all)
    root, extensions = source.root, source.suffixes
    assert files is not None
    top, files = files.top, files.below_top()
    # The class of an image is the path of its directory; without directories, there are no classes.
    if extensions == frozenset(IMAGE_EXTENSIONS):
        lost = {found.path: found for found in files.unreadable()}
        files = files._replace(findings=[lost.get(found.path, found) for found in files.findings])
    if files.table.is_empty():
        raise SourceError(f"{root}: holds no images{_what_else(files, extensions)}")
    table = files.table.sort("path").select(pl.int_range(pl.len()).alias("index"), pl.all())
    numbers, classes, notes = classes_of_directories(table["path"], root, known, top)
    table = table.with_columns([] if numbers is None else [numbers])
    catalog = Catalog(table, root, classes, files.reader or FileReader(root))
    return catalog, [*files.findings, *notes]


def _what_else(files: Files, extensions: frozenset[str]) -> str:
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
    is_chosen = extensions != frozenset(IMAGE_EXTENSIONS)
    return f"{found} (images are .{', .'.join(sorted(extensions))})" if is_chosen else found


def read_lst(
    source: Source, text: str, files: Files | None, known: Known, run_all: RunAll = map
) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of an MXNet ``.lst``."""
    # One whole number a line makes class numbers; several numbers, a fraction or a detection label
    # make label lists. A listed file may have any extension and may be hidden. Only the directories
    # that the list names are looked into for files that it does not name.
    path = source.list_file
    assert path is not None
    refuse_annotations(text, path)
    rows = parse_rows(text, path, source.duplicates or "error")
    names = plain_paths(rows["path"]).alias("file")
    numbers = pl.col("label").str.split("\t").cast(pl.List(pl.Float64)).alias("labels")
    labels = labels_from_numbers(rows.select("line", numbers), known, path)
    rows = rows.select("line", "index", "path", labels, names)
    if files is None:
        listed = {""}
        for directory in names.str.replace(r"/?[^/]*$", "").unique().to_list():
            while directory not in listed:
                listed.add(directory)
                directory = directory.rpartition("/")[0]
        files = list_files(scan_below(source.root, source.suffixes, run_all, listed), listed)
    files = files.fitting(names)
    return choose(rows, files, source, known.classes)
