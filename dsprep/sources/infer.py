"""The schema of a source: what it declares, completed by a look at some of its samples.

Class names and labels that only samples have are gathered from all of them, if they have to be
known before the first byte is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from dsprep.errors import OptionError
from dsprep.findings import Finding
from dsprep.numbering import Known, number_classes
from dsprep.patterns import pattern
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
    SettledSchema,
    select,
)
from dsprep.sources.gather import Gathered, gather_all, names_in, with_labels
from dsprep.sources.look import FIRST, find_pixels, look, settle_samples
from dsprep.sources.raw_pixels import RawPixels
from dsprep.units import format_count

if TYPE_CHECKING:
    import polars as pl

    from dsprep.catalog import Catalog

_NUMBER = pattern(r"\s*-?[0-9]{1,18}\s*")
_MOST_CLASSES = 10_000_000  # a limit, because samples may hold any number as their class


def with_schema(
    catalog: Catalog, choice: Choice, every: bool, run_all: RunAll
) -> tuple[Catalog, list[Finding]]:
    """Settle the schema of a catalog; ``every`` asks for the labels of all samples.

    In this order: samples, or else the files, tell fields by the rules of `dsprep.schema.rules`;
    rows of the catalog tell the label; the user leaves fields out and renames others; all samples
    tell the classes that are not known yet.
    """
    is_whole = not catalog.tells_all
    label = _label_of_rows(catalog, choice.schema) or _label_of_rows(catalog, catalog.schema)
    if is_whole:
        catalog, settled = _of_samples(catalog, choice, label, run_all)
    else:
        catalog, settled = _of_files(catalog, choice, label)
    settled, idle = select(settled, choice)
    catalog = catalog.with_settled(settled)
    findings: list[Finding] = []
    if is_whole:
        catalog, findings = _with_classes(catalog, choice, every, run_all)
    return catalog, [*findings, *(Finding("note", "", note) for note in (*settled.notes, *idle))]


def _of_samples(
    catalog: Catalog, choice: Choice, own: Field | None, run_all: RunAll
) -> tuple[Catalog, SettledSchema]:
    """Settle the schema of whole samples; ``own`` is the label that rows of the catalog tell."""
    if own is not None and choice.label not in (None, LABEL, own.name):
        raise OptionError(
            f"--label-field {choice.label}: the label is {own.name!r}, from "
            f"{own.told or 'the rows'}; leave it out"
        )
    catalog, settled = _looked_at(catalog, choice, own, run_all)
    if choice.unlabeled and catalog.label_column is not None:
        rows = catalog.table.drop(catalog.label_column)
        catalog = replace(catalog, table=rows, classes=None)
    label, is_open = settled.schema.label_field, settled.schema.objects is None
    if label is not None:
        classes = None if choice.label_type == "float" else catalog.classes or label.names or None
        catalog = replace(catalog, classes=classes)
    elif catalog.label_column and (is_open or "label" in catalog.overridden):
        catalog = replace(catalog, overridden=catalog.overridden | {"label"})
        catalog, settled = _with_label_of_rows(catalog, settled, choice, own, "a list")
    has_ids = catalog.reader.table.has_class_ids
    return catalog, _with_classes_of_objects(settled, catalog.classes, has_ids)


def _of_files(catalog: Catalog, choice: Choice, own: Field | None) -> tuple[Catalog, SettledSchema]:
    """Settle the schema of files that each are an image; ``own`` is the label that rows tell."""
    image = Field("image", "image", told="the files", why=BY_FILES)
    settled = SettledSchema(Schema((image,), image.name))
    if catalog.label_column:
        told = "a list" if catalog.label_column == "label" else "the names of classes"
        catalog, settled = _with_label_of_rows(catalog, settled, choice, own, told)
    return catalog, _with_classes_of_objects(settled, catalog.classes)


def _with_label_of_rows(
    catalog: Catalog, settled: SettledSchema, choice: Choice, own: Field | None, told: str
) -> tuple[Catalog, SettledSchema]:
    """Return a schema whose label is that of the rows, of the type that the user wants."""
    from dsprep.sources.labels.classes import tells_objects, with_label

    column, classes = catalog.table[catalog.label_column or ""], catalog.classes
    told = own.told if own and own.told else told
    settled = with_label(settled, column, classes, told, own)
    label = settled.schema.label_field
    if label and classes and choice.label_type == "text":
        text = replace(label, type="text", names=())
        settled = settled._replace(schema=settled.schema.with_field(text))
    elif choice.label_type == "float":
        catalog = replace(catalog, classes=None)
    if choice.label_type is None and tells_objects(column):
        settled = settled._replace(schema=_with_objects(settled.schema, told, column))
    return catalog, settled


def _with_classes_of_objects(
    settled: SettledSchema, classes: tuple[str, ...] | None, has_ids: bool = False
) -> SettledSchema:
    """Return a schema whose objects have the names of the classes, unless they have names."""
    objects = settled.schema.objects
    if objects is None or objects.names or not classes:
        return settled
    named = replace(objects, names=classes)
    if has_ids:  # a gap is an id without a class
        ids = tuple(id for id, name in enumerate(classes) if name)
        named = replace(objects, names=tuple(filter(None, classes)), ids=ids)
    return settled._replace(schema=settled.schema.with_field(named))


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
) -> tuple[Catalog, SettledSchema]:
    """Settle the schema of whole samples, without a label that rows of the catalog tell."""
    declared, table = catalog.schema, catalog.reader.table
    if by_rows is not None:
        given, declared = (_without(schema, by_rows) for schema in (choice.schema, declared))
        choice = replace(choice, schema=given, label=None, unlabeled=True)
    unread = frozenset[str]()
    if declared is not None and declared.format:
        unread = table.placeholders(declared)
    is_open = not catalog.schema_known or choice.schema or choice.look_all or choice.paths

    def look_with(pixels: RawPixels | None) -> Observed:
        observed = look(_with_pixels(catalog, pixels), choice, run_all) if is_open else Observed()
        for name in unread:
            observed.places.pop((name,), None)
        return observed

    def find(own: Field | None) -> RawPixels | None:
        if catalog.reader.pixels is not None:  # a table may have columns of pixels
            return None
        task = (catalog.reader, catalog.slice(0, FIRST).rows(), choice, own)
        found: RawPixels | None = next(iter(run_all(find_pixels, [task])))
        return found

    settled, pixels = settle_samples(look_with, find, table, choice, catalog.root, declared)
    catalog = _with_pixels(catalog, pixels)
    settled = settled._replace(ignored=settled.ignored | unread)
    label = settled.schema.label_field
    if label is not None and label.kind.is_list and not label.width and len(catalog):
        # No manifest records the length of labels; the first sample shows it.
        seen = look(catalog.slice(0, 1), choice, run_all).places
        width = max((seen[place].width for place in label.places if place in seen), default=0)
        changed = settled.schema.with_field(replace(label, width=width))
        settled = settled._replace(schema=changed)
    return catalog, settled


def _with_pixels(catalog: Catalog, pixels: RawPixels | None) -> Catalog:
    """Return the catalog with a reader that makes images of bare pixels, if there are any."""
    if pixels is None:
        return catalog
    return replace(catalog, reader=replace(catalog.reader, pixels=pixels))


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
    catalog: Catalog, choice: Choice, every: bool, run_all: RunAll
) -> tuple[Catalog, list[Finding]]:
    """Return the catalog with the classes of its label, and with all labels if they are wanted."""
    schema = catalog.settled.schema
    label, name = schema.label_field, schema.label or ""
    is_class = label is not None and (
        label.type in ("class", "list<int>") or _is_name_of_class(label, choice)
    )
    if label is not None and is_class:
        catalog = _with_named_classes(catalog, label, run_all)
        label, is_known = catalog.settled.schema.label_field, catalog.label_column is not None
    else:
        is_known = label is None and catalog.keys_known
    if not every or is_known:
        return catalog, []
    gathered = gather_all(catalog, name, run_all)
    if is_class:
        catalog = _with_names_beside(catalog, gathered)
    return with_labels(catalog, label, gathered)


def _is_name_of_class(label: Field, choice: Choice) -> bool:
    """Return whether the text of a label is the name of a class, which the user may deny."""
    # A schema that is given means what it says: names of classes would be a class.
    is_text = choice.label_type == "text" or (choice.schema and choice.label_type is None)
    return label.type == "text" and not is_text


def _with_named_classes(catalog: Catalog, label: Field, run_all: RunAll) -> Catalog:
    """Return the catalog whose label is a class, numbered by name if samples have names."""
    is_named = label.type == "text"
    if is_named and catalog.label_column is None:
        gathered = gather_all(catalog, label.name, run_all)
        names = {str(own) for _, own, _, _ in gathered if own is not None}
        # Numbers in texts are class numbers: sorted as names, they would be others.
        if not (names and all(map(_NUMBER.fullmatch, names))):
            given, root = Known(catalog.classes), catalog.root
            classes = number_classes(names, given, root, unknown=None)
            catalog = replace(catalog, classes=classes or None)
    numbered = replace(label, type="class") if is_named else label
    if catalog.classes:
        numbered = replace(numbered, names=catalog.classes)
    return _with_schema(catalog, catalog.settled.schema.with_field(numbered))


def _with_names_beside(catalog: Catalog, gathered: list[Gathered]) -> Catalog:
    """Return the catalog with the names of classes that samples have beside their numbers."""
    known = names_in(gathered, catalog.root)
    are_classes = all(0 <= number < _MOST_CLASSES for number in known)
    if not known or not are_classes or catalog.classes:
        return catalog
    named = tuple(known.get(number, "") for number in range(max(known) + 1))
    return _with_schema(replace(catalog, classes=named), catalog.settled.schema.with_names(named))


def _with_schema(catalog: Catalog, schema: Schema) -> Catalog:
    return catalog.with_settled(catalog.settled._replace(schema=schema))


def table_of(settled: SettledSchema, schema: Schema, samples: int) -> Iterator[tuple[str, ...]]:
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
