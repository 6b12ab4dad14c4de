"""Which source a user named, and its catalog."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING

from dsprep.arguments import AnyPath, public
from dsprep.errors import OptionError
from dsprep.sample import IMAGE_EXTENSIONS
from dsprep.sources.below import scan_below
from dsprep.sources.scan import RunAll, Scanned
from dsprep.stores.objects import asked_once
from dsprep.stores.paths import is_dir

if TYPE_CHECKING:
    from dsprep.catalog import Catalog
    from dsprep.findings import Finding


@dataclass(frozen=True)
class Source:
    """Images on a disk or on S3, and what tells their labels; or samples that are whole already.

    Attributes:
        root: What the user named: the directory that holds the images, shards, a file of samples.
        others: More of that, if the user named more.
        kind: What these are, if the user says it; see :mod:`dsprep.sources.whole`.
        parts: Whether files that share a stem are one sample.
        pairs: Patterns of files, by the field that they are: those that match alike are one sample.
        whole: Whether shards are to be read whole, for what their headers do not tell.
        dropped: Columns of Parquet that are not read.
        rounded: Columns of Parquet whose 64-bit floats are rounded to 32 bits.
        list: An MXNet ``.lst`` with paths below the root, if labels come from one.
        table: A CSV or TSV file, if labels come from one.
        path_column: The table's column of paths or ids; None to find it by its name.
        label_columns: The table's columns of labels; empty to find one by its name.
        classes: A file of class names, one a line: the list is closed and its order is kept.
        extensions: Those of images, in lower case.
        own_state: Where the run that reads this keeps its state, which may be in the root, too.
    """

    root: str
    others: tuple[str, ...] = ()
    kind: str | None = None
    parts: bool = False
    pairs: Mapping[str, str] = field(default_factory=dict)
    whole: bool = False
    dropped: frozenset[str] = frozenset()
    rounded: frozenset[str] = frozenset()
    list: str | None = None
    table: str | None = None
    path_column: str | None = None
    label_columns: tuple[str, ...] = ()
    classes: str | None = None
    extensions: frozenset[str] = frozenset(IMAGE_EXTENSIONS)
    own_state: str = ""

    def files(self) -> tuple[str, ...]:
        """The local files that are read and are no images: lists, tables, an archive."""
        named = (self.list, self.table, self.classes, self.root)
        return tuple(each for each in named if each and os.path.isfile(each))

    def __post_init__(self) -> None:
        """Refuse what makes no sense.

        Raises:
            OptionError: If labels would come from two places, or columns are given without a table.
        """
        if self.list and self.table:
            raise OptionError("labels come from --list or from --labels, not from both")
        if not self.table and (self.path_column or self.label_columns):
            raise OptionError("--path-column and --label-column go with --labels")
        if self.parts and self.pairs:
            raise OptionError("give --parts or --pair, not both")
        if (self.list or self.table) and (self.parts or self.pairs):
            raise OptionError("--list and --labels go with images, not with --parts and --pair")


@public
def make_source(
    root: AnyPath,
    *,
    list_file: AnyPath | None = None,
    labels: AnyPath | None = None,
    path_column: str | None = None,
    label_columns: Sequence[str] = (),
    classes: AnyPath | None = None,
    extensions: Sequence[str] = (),
    others: Sequence[AnyPath] = (),
    kind: str | None = None,
    parts: bool = False,
    pairs: Mapping[str, str] | None = None,
    whole: bool = False,
    dropped: Collection[str] = (),
    rounded: Collection[str] = (),
) -> Source:
    """A source from what a user gave; empty values mean the defaults."""
    chosen = frozenset(each.lower().removeprefix(".") for each in extensions)
    return Source(
        root,
        tuple(others),
        kind,
        parts,
        dict(pairs or {}),
        whole,
        frozenset(dropped),
        frozenset(rounded),
        list=list_file,
        table=labels,
        path_column=path_column,
        label_columns=tuple(label_columns),
        classes=classes,
        extensions=chosen or frozenset(IMAGE_EXTENSIONS),
    )


def source_of(given: Source | str) -> Source:
    """A source as it was made, or the samples that a path names, with all that they tell."""
    return make_source(given, whole=True) if isinstance(given, str) else given


def read_source(source: Source, run_all: RunAll = map) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of a source.

    Args:
        source: What the user named.
        run_all: Runs calls, here or in workers.

    Returns:
        The catalog, and what was noticed.

    Raises:
        SourceError: If the source is missing, unreadable, empty or contradicts itself.
    """
    with asked_once():
        return _read(source, run_all)


def _read(source: Source, run_all: RunAll) -> tuple[Catalog, list[Finding]]:
    from dsprep.sources.whole import read_whole

    found = read_whole(source, run_all)
    if found is not None:
        return found
    if not is_dir(source.root):
        from dsprep.sources.archive import read_archive

        return read_archive(source)
    folder = None if source.list or source.table else _scan_ahead(source, run_all)
    from dsprep.sources.tree import read_tree  # not before polars is there

    return read_tree(source, run_all=run_all, scans=folder)


def _scan_ahead(source: Source, run_all: RunAll) -> list[Scanned]:
    """Scan a folder while polars is being imported, which takes a quarter of a second."""
    importing = Thread(target=import_module, args=("polars",))
    importing.start()
    try:
        return list(scan_below(source.root, source.extensions, run_all))
    finally:
        importing.join()
