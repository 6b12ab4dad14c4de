"""The schema of a source: what it declares, completed by a look at some of its samples.

Class names and labels that only samples have are gathered from all of them, if they have to be
known before the first byte is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from dsprep.annotations import mxnet
from dsprep.errors import OptionError
from dsprep.findings import Finding
from dsprep.places.scan import RunAll
from dsprep.schema import (
    BY_FILES,
    BY_VALUES,
    LABEL,
    OBJECTS,
    Choice,
    Field,
    Observed,
    Schema,
    Settled,
    select,
    settle,
)
from dsprep.sources.gather import gather_all, names_in, with_labels
from dsprep.sources.look import (
    FIRST,
    find_pixels,
    look,
    may_have_pixels,
    raw_field,
    with_pixels,
    without_sizes,
)
from dsprep.units import format_count

if TYPE_CHECKING:
    import polars as pl

    from dsprep.catalog import Catalog

_NUMBER = re.compile(r"\s*-?[0-9]{1,18}\s*")
_MOST_CLASSES = 10_000_000  # more than any data set has: samples may hold any number


def with_schema(
    catalog: Catalog, choice: Choice, every: bool, run_all: RunAll
) -> tuple[Catalog, list[Finding]]:
    """Settle the schema of a catalog; ``every`` asks for the labels of all samples."""
    from dsprep.sources.labels.match import with_label

    is_whole, overridden = catalog.reader.reads_samples, catalog.overridden
    own = _label_of_rows(catalog, choice.schema) or _label_of_rows(catalog, catalog.schema)
    if is_whole:
        if own is not None and choice.label not in (None, LABEL, own.name):
            raise OptionError(
                f"--label-field {choice.label}: the label is {own.name!r}, from "
                f"{own.told or 'the rows'}; leave it out"
            )
        catalog, settled = _looked_at(catalog, choice, own, run_all)
        if choice.unlabeled and catalog.label_column is not None:
            rows = catalog.table.drop(catalog.label_column)
            catalog = replace(catalog, table=rows, classes=None)
    else:
        settled = Settled(
            Schema((Field("image", "image", told="the files", why=BY_FILES),), "image")
        )
    label, classes = settled.schema.label_field, catalog.classes
    if label is not None:
        classes = None if choice.label_type == "float" else classes or label.names or None
    elif (name := catalog.label_column) and (not settled.schema.objects or "label" in overridden):
        column = catalog.table[name]
        by = "a list" if is_whole or column.name == "label" else "the names of classes"
        by = own.told if own and own.told else by
        settled = with_label(settled, column, classes, by, own)
        label = settled.schema.label_field
        if is_whole:
            overridden |= {"label"}
        if label and classes and choice.label_type == "text":
            text = replace(label, type="text", names=())
            settled = settled._replace(schema=settled.schema.with_field(text))
        elif choice.label_type == "float":
            classes = None
        if choice.label_type is None and tells_objects(column):
            settled = settled._replace(schema=_with_objects(settled.schema, by, column))
    if (objects := settled.schema.objects) is not None and classes and not objects.names:
        named = replace(objects, names=classes)
        if is_whole and catalog.reader.table.has_class_ids:  # a gap is an id without a class
            ids = tuple(id for id, name in enumerate(classes) if name)
            named = replace(objects, names=tuple(filter(None, classes)), ids=ids)
        settled = settled._replace(schema=settled.schema.with_field(named))
    settled, idle = select(settled, choice)
    findings: list[Finding] = []
    catalog = replace(catalog, classes=classes, overridden=overridden).with_settled(settled)
    if is_whole:
        catalog, findings = _with_classes(catalog, settled, choice, every, run_all)
    return catalog, [*findings, *(Finding("note", "", note) for note in (*settled.notes, *idle))]


def tells_objects(labels: pl.Series) -> bool:
    """Return whether labels of rows are MXNet's for detection, some of them with objects."""
    if labels.name != "label":
        return False
    label, count = labels.list, labels.list.len().cast(float)
    head, width = label.get(0), label.get(1, null_on_oob=True)
    fits = (head >= 2) & (width >= 5) & (head % 1 == 0) & (width % 1 == 0)
    fits &= (count >= head) & ((count - head) % width == 0)
    first = map(tuple, labels.head(FIRST).to_list())
    return bool(fits.fill_null(False).all() and (count > head).any()) and all(
        map(mxnet.in_shares, first)
    )


def _with_objects(schema: Schema, told: str, labels: pl.Series) -> Schema:
    """Return a schema whose label is objects."""
    flags = bool((labels.list.get(1) > 5).any())  # a sixth number is one
    label = schema.label_field
    others = tuple(each for each in schema.fields if each is not label)
    names = label.names if label else ()
    objects = Field(OBJECTS, OBJECTS, names=names, told=told, flags=flags, why=BY_VALUES)
    return replace(schema, fields=(*others, objects), label=None)


def _looked_at(
    catalog: Catalog, choice: Choice, by_rows: Field | None, run_all: RunAll
) -> tuple[Catalog, Settled]:
    """Settle the schema of whole samples, without a label that rows of the catalog tell."""
    observed = Observed()
    declared = catalog.schema
    if by_rows is not None:
        given, declared = (_without(schema, by_rows) for schema in (choice.schema, declared))
        choice = replace(choice, schema=given, label=None, unlabeled=True)
    own = raw_field(choice.schema or declared)
    if not catalog.schema_known or choice.schema or choice.look_all or choice.paths:
        observed = look(catalog, choice, run_all)
    pixels = None
    is_open = catalog.reader.pixels is None  # a table may have columns of pixels
    if is_open and (own is not None or choice.raw_image or may_have_pixels(observed, choice)):
        task = (catalog.reader, catalog.slice(0, FIRST).rows(), choice, own)
        pixels = next(iter(run_all(find_pixels, [task])))
    if pixels is not None:
        catalog = replace(catalog, reader=replace(catalog.reader, pixels=pixels))
        observed = look(catalog, choice, run_all) if observed.samples else observed
        choice = replace(choice, schema=without_sizes(choice.schema, pixels))
        declared = without_sizes(declared, pixels)
    table = catalog.reader.table
    unread = frozenset[str]()
    if declared is not None and declared.format:
        unread = table.placeholders(declared)
    for name in unread:
        observed.places.pop((name,), None)
    settled = with_pixels(settle(observed, table, choice, catalog.root, declared), pixels)
    settled = settled._replace(ignored=settled.ignored | unread)
    label = settled.schema.label_field
    if label is not None and label.kind.is_list and not label.width and len(catalog):
        # No manifest records the length of labels; the first sample shows it.
        seen = look(catalog.slice(0, 1), choice, run_all).places
        width = max((seen[place].width for place in label.places if place in seen), default=0)
        changed = settled.schema.with_field(replace(label, width=width))
        settled = settled._replace(schema=changed)
    return catalog, settled


def _label_of_rows(catalog: Catalog, schema: Schema | None) -> Field | None:
    """Return the label of a schema if rows of the catalog tell it, not samples."""
    label = schema.label_field if schema is not None else None
    return label if label and not label.places and catalog.label_column else None


def _without(schema: Schema | None, label: Field) -> Schema | None:
    """Return a schema without a label that rows tell."""
    if schema is None or schema.label != label.name:
        return schema
    others = tuple(each for each in schema.fields if each.name != label.name)
    return replace(schema, fields=others, label=None)


def _with_classes(
    catalog: Catalog, settled: Settled, choice: Choice, every: bool, run_all: RunAll
) -> tuple[Catalog, list[Finding]]:
    """Return the catalog with the classes of its label, and with all labels if they are wanted."""
    name = settled.schema.label or ""
    label = settled.schema.label_field
    # A schema that is given means what it says: names of classes would be a class.
    is_text = choice.label_type == "text" or (choice.schema and choice.label_type is None)
    is_named = label is not None and label.type == "text" and not is_text
    if label is None or not (is_named or label.type in ("class", "list<int>")):
        if not every or (label is None and catalog.keys_known):
            return catalog, []
        return with_labels(catalog, label, gather_all(catalog, name, run_all))
    if is_named and catalog.label_column is None:
        from dsprep.sources.labels.classes import number_classes

        gathered = gather_all(catalog, name, run_all)
        names = {str(own) for _, own, _, _ in gathered if own is not None}
        # Numbers in texts are class numbers: sorted as names, they would be others.
        if not (names and all(map(_NUMBER.fullmatch, names))):
            classes = catalog.classes or number_classes(names, catalog.root)
            catalog = replace(catalog, classes=classes or None)
    if is_named:
        label = replace(label, type="class")
    if catalog.classes:
        label = replace(label, names=catalog.classes)
    settled = settled._replace(schema=settled.schema.with_field(label))
    catalog = catalog.with_settled(settled)
    if not every or catalog.label_column is not None:
        return catalog, []
    gathered = gather_all(catalog, name, run_all)
    known = names_in(gathered, catalog.root)
    are_classes = all(0 <= number < _MOST_CLASSES for number in known)
    if known and are_classes and not catalog.classes:
        named = tuple(known.get(number, "") for number in range(max(known) + 1))
        settled = settled._replace(schema=settled.schema.with_names(named))
        catalog = replace(catalog, classes=named).with_settled(settled)
    return with_labels(catalog, label, gathered)


def table_of(settled: Settled, schema: Schema, samples: int) -> Iterator[tuple[str, ...]]:
    """Return what a dry run shows of a schema, a row for each field."""
    roles = {settled.schema.image: "image", settled.schema.label: "label"}
    for field in settled.schema.fields:
        goes = schema.by_name.get(field.name)
        places = " ".join(".".join(place) for place in goes.places) if goes else "left out"
        kind = field.type
        if field.names:
            kind += f" of {format_count(len(field.names), 'class')}"
        count = settled.counts.get(field.name, 0)
        seen = f"{count:,} of {settled.samples:,}" if settled.samples else f"{samples:,}"
        role = roles.get(field.name, "")
        yield field.name, kind, role, field.told_by, places, seen, field.why
