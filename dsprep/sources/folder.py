"""A folder of images: each directory that holds images is a class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.readers.files import FileReader
from dsprep.sample import IMAGE_EXTENSIONS
from dsprep.sources.below import scan_below
from dsprep.sources.classes import number_classes, unknown_classes
from dsprep.sources.files import Files, list_files
from dsprep.sources.scan import Scanned
from dsprep.units import extension_in, format_extensions


def read_folder(
    root: str,
    *,
    classes: tuple[str, ...] | None = None,
    extensions: frozenset[str],
    scans: Iterable[Scanned] | None = None,
    files: Files | None = None,
) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of a folder.

    The class of an image is the path of its directory below the root, and classes are numbered in
    plain sorted order. Where all images lie in the root itself, they have no class.
    """
    if files is None:
        files = list_files(scan_below(root, extensions) if scans is None else scans)
    files = files.with_unreadable(extensions)
    if files.table.is_empty():
        raise SourceError(f"{root}: holds no images{_what_else(files, extensions)}")
    table = files.table.sort("path").with_row_index("index")
    table = table.with_columns(pl.col("index").cast(pl.Int64))
    numbers, classes = classes_of_directories(table["path"], root, classes)
    columns = [] if numbers is None else [numbers]
    reader = files.reader or FileReader(root)
    return Catalog(table.with_columns(columns), root, classes, reader), files.findings


def _what_else(files: Files, extensions: frozenset[str]) -> str:
    """Say what is in a folder without images, from a blank or a comma on."""
    if not files.findings:
        return ", nor anything else"
    counts = Counter(extension_in(each.path) for each in files.findings if each.kind != "hidden")
    hidden = len(files.findings) - counts.total()
    counted = [format_extensions(counts)] if counts else []
    counted += [f"{hidden:,} hidden"] if hidden else []
    unreadable = next((each.detail for each in files.findings if each.kind == "unreadable"), "")
    found = f" that dsprep reads, but {' and '.join(counted)}"
    if unreadable:
        return f"{found} ({unreadable})"
    is_chosen = extensions != frozenset(IMAGE_EXTENSIONS)
    return f"{found} (images are .{', .'.join(sorted(extensions))})" if is_chosen else found


def classes_of_directories(
    paths: pl.Series, root: str, classes: tuple[str, ...] | None
) -> tuple[pl.Series | None, tuple[str, ...] | None]:
    """Number the directories that images lie in."""
    directories = paths.str.replace(r"/?[^/]*$", "")
    in_root = paths.filter(directories == "")
    if len(in_root) == len(paths):
        if classes is not None:
            raise SourceError(
                f"{root}: its images lie in no directory and so have no class, "
                f"but a list of {len(classes)} classes was given"
            )
        return None, None
    if not in_root.is_empty():
        raise SourceError(
            f"{root}: {len(in_root)} of {len(paths)} images lie in no directory and so have no "
            f"class, {in_root[0]!r} among them: move them into the directory of their "
            "class or out of the folder, or give the labels in a list"
        )
    found = number_classes(directories.unique(), root)
    if classes is None:
        classes = found
    unknown = sorted(set(found).difference(classes))
    if unknown:
        raise unknown_classes(root, unknown, classes)
    numbers = directories.replace_strict(classes, range(len(classes)), return_dtype=pl.Int64)
    return numbers.alias("cls"), classes
