"""Which source a user named, and its catalog."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from dsprep.arguments import AnyPath, public
from dsprep.errors import OptionError, SourceError, UnknownClass
from dsprep.formats.augmented import MANIFESTS
from dsprep.options import given_options, require_effect
from dsprep.sample import IMAGE_EXTENSIONS
from dsprep.schema import LABEL, LABEL_TYPES, Choice, Schema
from dsprep.sources.archive import open_archive
from dsprep.sources.scan import RunAll, importing_polars, scan_below
from dsprep.storage.objects import asked_once
from dsprep.storage.paths import is_dir

if TYPE_CHECKING:
    from dsprep.catalog import Catalog
    from dsprep.findings import Finding

CLASS_ORDERS = ("name", "natural")  # of class names, which are numbered in this order
DUPLICATES = ("error", "first", "keep")


@dataclass(frozen=True)
class Source:
    """What a user says of the samples to read: where they lie, and where their labels are."""

    root: str  # the directory of images, shards, or a file of samples
    others: tuple[str, ...] = ()  # more of them
    kind: str | None = None  # one of `dsprep.sources.kinds.KINDS`; None to detect it
    parts: bool = False  # whether files that share a stem are one sample
    # patterns of files, by the field that they are: files that match alike are one sample
    pairs: Mapping[str, str] = field(default_factory=dict)
    # whether all labels and class names are read, also those that only samples have
    whole: bool = False
    choice: Choice = Choice()  # the choice of fields
    features: str | None = None  # the preset of feature names of TFRecord shards
    list: str | None = None  # an MXNet `.lst` with paths below the root, if labels come from one
    table: str | None = None  # a CSV or TSV file, if labels come from one
    path_column: str | None = None  # the table's column of paths or ids; None to find it by name
    label_columns: tuple[str, ...] = ()  # its columns of labels; empty to find one by name
    label_separator: str | None = None  # separates several labels in a cell of that column
    label_type: str | None = None  # one of `LABEL_TYPES`; None to infer it
    duplicates: str | None = None  # what to do with rows that name an image again: `DUPLICATES`
    classes: str | None = None  # a file of class names, one a line, which are then all classes
    class_order: str | None = None  # otherwise their order: `name` (also if None) or `natural`
    extensions: frozenset[str] = frozenset(IMAGE_EXTENSIONS)  # of images, in lower case
    own_state: str = ""  # the state of the run that reads this, which may be in the root, too

    @property
    def chooses(self) -> bool:
        """Whether a list or a table chooses the samples, and labels them."""
        return self.list is not None or self.table is not None

    def files(self) -> tuple[str, ...]:
        """Return the local files among the options: lists, tables, an archive."""
        named = (self.list, self.table, self.classes, self.root)
        return tuple(each for each in named if each and os.path.isfile(each))

    def __post_init__(self) -> None:
        """Refuse options that contradict each other."""
        if self.list and self.table:
            raise OptionError("labels come from --list or from --labels, not from both")
        columns = {
            "path_column": self.path_column,
            "label_columns": self.label_columns,
            "label_separator": self.label_separator,
            "duplicates": self.duplicates,
            "classes": self.classes,
            "class_order": self.class_order,
        }
        rows = self.chooses or self.kind == "manifest" or self.root.endswith(MANIFESTS)
        require_effect("", given_options({"labels": self.table, **columns}), rows=rows)
        if self.parts and self.pairs:
            raise OptionError("give --parts or --pair, not both")
        for option, value, choices in (
            ("--label-type", self.label_type, LABEL_TYPES),
            ("--duplicates", self.duplicates, DUPLICATES),
            ("--class-order", self.class_order, CLASS_ORDERS),
        ):
            if value not in (None, *choices):
                raise OptionError(f"{option} {value}: choose one of {', '.join(choices)}")
        separated = self.label_separator is not None
        if self.label_separator == "":
            raise OptionError("--label-separator '': give the text that stands between two labels")
        if separated and len(self.label_columns) > 1:
            raise OptionError("--label-separator goes with one --label-column")
        if self.label_type in ("class", "text") and (separated or len(self.label_columns) > 1):
            raise OptionError(
                f"--label-type {self.label_type}: an image has one class, so leave out "
                "--label-separator and name one --label-column"
            )
        if self.label_type == "float" and self.classes:
            raise OptionError("--label-type float: numbers have no classes; leave out --classes")


@public
def make_choice(
    *,
    image_field: str | None = None,
    label_field: str | None = None,
    label_type: str | None = None,
    only: Sequence[str] = (),
    drop: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    schema: Schema | AnyPath | None = None,
    look: str | None = None,
    no_image: bool = False,
) -> Choice:
    """Return what a user says of the fields; empty values mean the defaults."""
    if look not in (None, "all"):
        raise OptionError(f"--look {look}: choose all, or leave it out")
    unlabeled = False
    if isinstance(schema, str):
        schema, unlabeled = read_schema(schema)
    return Choice(
        image=image_field,
        label=label_field,
        label_type=label_type,
        only=tuple(only),
        drop=tuple(drop),
        rename=dict(rename or {}),
        schema=schema,
        look_all=look == "all",
        no_image=no_image,
        unlabeled=unlabeled,
    )


def read_schema(path: str) -> tuple[Schema, bool]:
    """Read a schema as ``--schema-out`` writes it, and whether it says that there is no label."""
    from dsprep.text import read_text

    try:
        values = json.loads(read_text(path))
        schema = Schema.from_json(values)
        return schema, LABEL in values and schema.label is None
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path}: is not a schema: {error!s:.200}") from None


@public
def make_source(
    root: AnyPath,
    *,
    list_file: AnyPath | None = None,
    labels: AnyPath | None = None,
    path_column: str | None = None,
    label_columns: Sequence[str] = (),
    label_separator: str | None = None,
    label_type: str | None = None,
    duplicates: str | None = None,
    classes: AnyPath | None = None,
    class_order: str | None = None,
    extensions: Sequence[str] = (),
    others: Sequence[AnyPath] = (),
    kind: str | None = None,
    parts: bool = False,
    pairs: Mapping[str, str] | None = None,
    whole: bool = False,
    choice: Choice | None = None,
    features: str | None = None,
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
        choice or Choice(label_type=label_type),
        features,
        list=list_file,
        table=labels,
        path_column=path_column,
        label_columns=tuple(label_columns),
        label_separator=label_separator,
        label_type=label_type,
        duplicates=duplicates,
        classes=classes,
        class_order=class_order,
        extensions=chosen or frozenset(IMAGE_EXTENSIONS),
    )


def source_of(given: Source | str) -> Source:
    """Return a source, or that of the samples at a path, with all labels."""
    return make_source(given, whole=True) if isinstance(given, str) else given


def read_source(source: Source, run_all: RunAll = map) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of a source."""
    try:
        with asked_once():
            catalog, findings = _read(source, run_all)
            from dsprep.sources.infer import with_schema  # not before polars is there

            if catalog.settled is None:
                order = source.class_order
                catalog, notes = with_schema(catalog, source.choice, source.whole, order, run_all)
                findings = [*findings, *notes]
    except UnknownClass as unknown:
        raise SourceError(
            f"{unknown} in {source.classes}: add a line for each to that file, or move its images "
            "away"
        ) from None
    if source.extensions != frozenset(IMAGE_EXTENSIONS):
        given = {"--extensions": sorted(source.extensions)}
        reader = catalog.reader
        require_effect("", given, image_files=not (reader.whole or reader.encodes))
    return catalog, findings


def _read(source: Source, run_all: RunAll) -> tuple[Catalog, list[Finding]]:
    from dsprep.sources.kinds import detect

    found = detect(source, run_all)
    catalog, findings = _read_images(source, run_all) if found is None else found
    if source.table is not None:
        return catalog, findings  # `read_table` has numbered the classes
    is_parts = source.parts or source.kind == "parts"
    named = found is None or (is_parts and not source.chooses)
    given = {"--class-order": source.class_order}
    require_effect("", given, named=bool(named and catalog.classes))
    if not named or source.classes:
        return catalog, findings
    from dsprep.sources.classes import in_order  # not before polars is there

    catalog, notes = in_order(catalog, source.class_order)
    return catalog, [*findings, *notes]


def _read_images(source: Source, run_all: RunAll) -> tuple[Catalog, list[Finding]]:
    if not is_dir(source.root):
        with importing_polars():
            archive = open_archive(source.root)
        from dsprep.sources.archive_files import images_of, read_text_of
        from dsprep.sources.tree import read_tree

        files = images_of(archive, source)
        return read_tree(source, files=files, text_of=partial(read_text_of, archive))
    scans = None
    if not source.chooses:
        with importing_polars():
            scans = list(scan_below(source.root, source.extensions, run_all))
    from dsprep.sources.tree import read_tree

    return read_tree(source, run_all=run_all, scans=scans)
