"""Which source a user named, and its catalog."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dsprep.arguments import AnyPath
from dsprep.errors import OptionError, SourceError, UnknownClass
from dsprep.formats.augmented import MANIFESTS
from dsprep.keywords import (
    ClassOptions,
    FieldOptions,
    SelectionOptions,
    SourceOptions,
    called_with,
    values_of,
)
from dsprep.options import given_options, require_effect
from dsprep.sample import IMAGE_EXTENSIONS
from dsprep.schema import LABEL, Choice, Schema
from dsprep.sources.archive import open_archive
from dsprep.sources.scan import RunAll, importing_polars, scan_below
from dsprep.storage.files import is_dir
from dsprep.storage.s3.read import asked_once

if TYPE_CHECKING:
    from dsprep.catalog import Catalog
    from dsprep.findings import Finding


@dataclass(frozen=True, kw_only=True)
class Source(SourceOptions, ClassOptions):
    """What samples are read from, and what gives them labels."""

    root: str = field(kw_only=False)  # the directory of images, shards, or a file of samples
    others: Sequence[str] = ()  # more of them
    # whether all labels and class names are read, also those that only samples have
    whole: bool = False
    choice: Choice = Choice()  # the choice of fields
    features: str | None = None  # the preset of feature names of TFRecord shards
    own_state: str = ""  # the state of the run that reads this, which may be in the root, too

    @property
    def label_type(self) -> str | None:
        """What the labels are, if the user says it."""
        return self.choice.label_type

    @property
    def suffixes(self) -> frozenset[str]:
        """The file name extensions of images, in lower case."""
        given = frozenset(each.lower().removeprefix(".") for each in self.extensions)
        return given or frozenset(IMAGE_EXTENSIONS)

    @property
    def chooses(self) -> bool:
        """Whether a list or a table chooses the samples, and labels them."""
        return self.list_file is not None or self.labels is not None

    def files(self) -> tuple[str, ...]:
        """Return the local files among the options: lists, tables, an archive."""
        named = (self.list_file, self.labels, self.classes, self.root)
        return tuple(each for each in named if each and os.path.isfile(each))

    def __post_init__(self) -> None:
        """Refuse options that contradict each other."""
        if self.list_file and self.labels:
            raise OptionError("labels come from --list or from --labels, not from both")
        rows = self.chooses or self.kind == "augmented-manifest" or self.root.endswith(MANIFESTS)
        given = values_of(self, SourceOptions) | values_of(self, ClassOptions)
        require_effect("", given_options(given), rows=rows)
        separated, label_type = self.label_separator is not None, self.label_type
        if self.label_separator == "":
            raise OptionError("--label-separator '': give the text that stands between two labels")
        if separated and len(self.label_columns) > 1:
            raise OptionError("--label-separator goes with one --label-column")
        if label_type in ("class", "text") and (separated or len(self.label_columns) > 1):
            raise OptionError(
                f"--label-type {label_type}: an image has one class, so leave out "
                "--label-separator and name one --label-column"
            )
        if label_type == "float" and self.classes:
            raise OptionError("--label-type float: numbers have no classes; leave out --classes")
        if self.parts and self.pairs:
            raise OptionError("give --parts or --pair, not both")


def choice_of(options: FieldOptions) -> Choice:
    """Return what a user says of the fields."""
    selection = options if isinstance(options, SelectionOptions) else SelectionOptions()
    schema, unlabeled = options.schema, False
    if isinstance(schema, str):
        schema, unlabeled = read_schema(schema)
    return Choice(
        image=options.image_field,
        label=options.label_field,
        label_type=options.label_type,
        only=tuple(selection.only),
        drop=tuple(selection.drop),
        rename=dict(selection.rename or {}),
        schema=schema,
        look_all=options.look == "all",
        no_image=options.no_image,
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


@dataclass(frozen=True, kw_only=True)
class _SourceArguments(SourceOptions, ClassOptions, FieldOptions):
    root: AnyPath = field(kw_only=False)
    others: Sequence[AnyPath] = ()
    whole: bool = False
    choice: Choice | None = None  # instead of the options of fields
    features: str | None = None


@called_with(_SourceArguments)
def make_source(options: _SourceArguments) -> Source:
    """Make a source from what a user gave; empty values mean the defaults."""
    values = {name: getattr(options, name) for name in ("root", "others", "whole", "features")}
    values |= values_of(options, SourceOptions) | values_of(options, ClassOptions)
    return Source(**values, choice=options.choice or choice_of(options))


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
    if source.suffixes != frozenset(IMAGE_EXTENSIONS):
        given = {"--extensions": sorted(source.suffixes)}
        reader = catalog.reader
        require_effect("", given, image_files=not (reader.whole or reader.encodes))
    return catalog, findings


def _read(source: Source, run_all: RunAll) -> tuple[Catalog, list[Finding]]:
    from dsprep.sources.kinds import detect

    found = detect(source, run_all)
    catalog, findings = _read_images(source, run_all) if found is None else found
    if source.labels is not None:
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
    archive, scans = None, None
    with importing_polars():
        if not is_dir(source.root):
            archive = open_archive(source.root)
        elif not source.chooses:
            scans = list(scan_below(source.root, source.suffixes, run_all))
    from dsprep.sources.files import images_of
    from dsprep.sources.tree import read_tree

    files = images_of(archive, source) if archive else None
    return read_tree(source, run_all=run_all, scans=scans, files=files)
