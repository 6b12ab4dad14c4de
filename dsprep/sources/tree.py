"""A tree of images, or samples that a list or a table selects, with their labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from dsprep.lists.store import read_classes
from dsprep.readers.parts import PartReader
from dsprep.sources.classes import notes_on_directories
from dsprep.sources.folder import read_folder
from dsprep.sources.lst import read_lst
from dsprep.sources.scan import RunAll, Scanned
from dsprep.sources.table import read_table

if TYPE_CHECKING:
    from dsprep.catalog import Catalog
    from dsprep.findings import Finding
    from dsprep.sources.files import Files
    from dsprep.sources.reading import Source

_TABLE_TYPES = {"class": "class", "float": "float", "text": "class"}
"""What a type of labels means for the cells of a table: text is numbered first, as classes are."""


def read_tree(
    source: Source,
    *,
    run_all: RunAll = map,
    scans: Iterable[Scanned] | None = None,
    files: Files | None = None,
    text_of: Callable[[str], str | None] = lambda _: None,
) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of a tree by its list, its table or the names of its directories."""
    classes = read_classes(source.classes) if source.classes else None
    owner = None
    if classes is None and files is not None and files.samples is not None:
        # Where a table tells the labels, directories do not, as for a folder of images.
        in_directories = source.table is not None and isinstance(files.reader, PartReader)
        classes = None if in_directories else files.samples.classes
        owner = source.root
    if source.list:
        return read_lst(
            source.list,
            source.root,
            classes=classes,
            owner=owner,
            extensions=source.extensions,
            duplicates=source.duplicates,
            run_all=run_all,
            text=text_of(source.list),
            files=files,
        )
    if source.table:
        return read_table(
            source.table,
            source.root,
            path_column=source.path_column,
            label_columns=source.label_columns,
            label_separator=source.label_separator,
            label_type=_TABLE_TYPES.get(source.label_type or ""),
            class_order=source.class_order,
            classes=classes,
            owner=owner,
            extensions=source.extensions,
            duplicates=source.duplicates,
            run_all=run_all,
            text=text_of(source.table),
            files=files,
        )
    place = source.root
    if files is not None:
        place = os.path.join(place, files.top)
        files = files.below_top()
    catalog, findings = read_folder(
        source.root, classes=classes, extensions=source.extensions, scans=scans, files=files
    )
    return catalog, [*findings, *notes_on_directories(catalog.classes or (), place)]
