"""The schema of a source: what it declares, completed by a look at some of its samples.

The look is the same for any number of workers: the first 64 samples of the set, then the first and
the second of every shard, in source order, within 64 MB. Class names and labels that only samples
have are gathered from all of them, if they have to be known before the first byte is written.

Workers call the functions at the end, so that polars is imported only where it is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from dsprep.annotations import mxnet
from dsprep.annotations.geometry import measured_on
from dsprep.annotations.objects import SHARES, Objects
from dsprep.errors import BadSample, OptionError, SourceError
from dsprep.findings import Finding
from dsprep.images.transform import upright_size
from dsprep.places.scan import RunAll
from dsprep.rows import Pixels, Reader, Rows
from dsprep.sample import Sample, key_of
from dsprep.schema import (
    BY_FILES,
    BY_VALUES,
    IMAGE_NAMES,
    LABEL,
    OBJECTS,
    Choice,
    Field,
    Observed,
    Schema,
    Settled,
    Table,
    observe,
    select,
    settle,
)
from dsprep.sources.pictures.pixel_reader import BY_FORMAT, RawPixels, raw_pixels
from dsprep.units import format_count

if TYPE_CHECKING:
    import polars as pl

    from dsprep.catalog import Catalog

T = TypeVar("T")

_FIRST = 64  # samples of the set that are looked at
_OF_SHARD = 2  # samples of each shard
_MOST_BYTES = 64_000_000  # bytes of all of these
_TASKS = 16  # that look, if samples are many
_LEAST = 32  # samples that one of them looks at: each opens a file, which takes requests on S3
_AT_ONCE = 1000  # samples that a worker reads before it takes more
_NUMBER = re.compile(r"\s*-?[0-9]{1,18}\s*")
_MOST_CLASSES = 10_000_000  # more than any data set has: samples may hold any number

_Gathered: TypeAlias = tuple[str, Any, str | None, str]
"""The key of a sample, or the path of its image; its label, the name of its class, if it has these;
and why it cannot be read, mostly nothing."""


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
    first = map(tuple, labels.head(_FIRST).to_list())
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
        observed = _look(catalog, choice, run_all)
    pixels = None
    is_open = catalog.reader.pixels is None  # a table may have columns of pixels
    if is_open and (own is not None or choice.raw_image or may_have_pixels(observed, choice)):
        task = (catalog.reader, catalog.slice(0, _FIRST).rows(), choice, own)
        pixels = next(iter(run_all(find_pixels, [task])))
    if pixels is not None:
        catalog = replace(catalog, reader=replace(catalog.reader, pixels=pixels))
        observed = _look(catalog, choice, run_all) if observed.samples else observed
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
        seen = _look(catalog.slice(0, 1), choice, run_all).places
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


def _look(catalog: Catalog, choice: Choice, run_all: RunAll) -> Observed:
    """Look at samples: at some of each shard, or at all."""
    import polars as pl

    from dsprep.catalog import AT_ONCE

    table = catalog.table
    if not choice.look_all:
        row, of_shard = pl.col("row"), pl.int_range(pl.len())
        if "file" in table.columns:
            of_shard = of_shard.over("file")
        # Those of all shards are among those of each part of the table.
        candidates = (
            table.slice(at, AT_ONCE)
            .with_columns(row=at + pl.int_range(pl.len()))
            .filter((row < _FIRST) | (of_shard < _OF_SHARD))
            for at in range(0, table.height, AT_ONCE)
        )
        first = pl.concat([table.clear().with_columns(row=pl.lit(0, pl.Int64)), *candidates])
        rank = pl.when(row < _FIRST).then(0).otherwise(1 + of_shard)
        first = first.with_columns(rank=rank).sort("rank", "row")
        fits = (pl.col("size").cast(pl.Int64).cum_sum() <= _MOST_BYTES) | (row == 0)
        first = first.filter(fits & (pl.col("rank") <= _OF_SHARD)).sort("row")
        table = first.drop("row", "rank")
    share = max(_LEAST, -(-table.height // _TASKS))
    parts = (replace(catalog, table=part) for part in table.iter_slices(share))
    found = Observed()
    for part in run_all(look_at, [(catalog.reader, part.rows(), choice) for part in parts]):
        found.add(part)
    return found


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
        return _with_labels(catalog, label, _gather(catalog, name, run_all))
    if is_named and catalog.label_column is None:
        from dsprep.sources.labels.classes import number_classes

        gathered = _gather(catalog, name, run_all)
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
    gathered = _gather(catalog, name, run_all)
    known = _names_in(gathered, catalog.root)
    are_classes = all(0 <= number < _MOST_CLASSES for number in known)
    if known and are_classes and not catalog.classes:
        named = tuple(known.get(number, "") for number in range(max(known) + 1))
        settled = settled._replace(schema=settled.schema.with_names(named))
        catalog = replace(catalog, classes=named).with_settled(settled)
    return _with_labels(catalog, label, gathered)


def _tasks(catalog: Catalog, wanted: T) -> list[tuple[Reader, Rows, T]]:
    starts = range(0, len(catalog), _AT_ONCE)
    return [(catalog.reader, catalog.slice(at, _AT_ONCE).rows(), wanted) for at in starts]


def _gather(catalog: Catalog, name: str, run_all: RunAll) -> list[_Gathered]:
    return list(chain.from_iterable(run_all(gather, _tasks(catalog, name))))


def _names_in(gathered: list[_Gathered], source: str) -> dict[int, str]:
    """Return the class names that samples have beside their numbers."""
    names: dict[int, str] = {}
    for _, label, name, _ in gathered:
        if name is not None and isinstance(label, int) and names.setdefault(label, name) != name:
            raise SourceError(
                f"{source}: the class {label} is called {names[label]!r} and {name!r}: correct "
                "the samples, or give --drop for the names and --classes FILE"
            )
    return names


def _with_labels(
    catalog: Catalog, label: Field | None, gathered: list[_Gathered]
) -> tuple[Catalog, list[Finding]]:
    """Return the catalog with the labels and the keys of its samples, without unreadable ones."""
    # It gets no labels unless all samples have numbers.
    import polars as pl

    from dsprep.sources.labels.classes import label_lists

    findings = [Finding("unreadable", path, why) for path, _, _, why in gathered if why]
    table = catalog.table.filter(pl.Series([not why for *_, why in gathered], dtype=pl.Boolean))
    keys = [key for key, *_, why in gathered if not why]
    labels = [own for _, own, _, why in gathered if not why]
    if not catalog.keys_known and len(set(map(key_of, keys))) == table.height:
        table = table.with_columns(path=pl.Series(keys, dtype=pl.String))
        catalog = replace(catalog, keys_known=True)
    if label is not None and catalog.label_column is None:
        known = range(len(catalog.classes)) if catalog.classes else None
        if label.type != "class":
            lists = label_lists(labels)
            table = table if lists is None else table.with_columns(lists)
        elif all(isinstance(own, int) and (known is None or own in known) for own in labels):
            table = table.with_columns(pl.Series("cls", labels, dtype=pl.Int64))
    return replace(catalog, table=table), findings


def classes_of_objects(catalog: Catalog, name: str, run_all: RunAll) -> pl.Series:
    """Return the numbers of the classes that the objects of each sample have."""
    import polars as pl

    found: list[list[int]] = []
    for _, objects, _, _ in _gather(catalog, name, run_all):
        found.append(sorted({each.number for each in objects.items} if objects else ()))
    return pl.Series("tags", found, pl.List(pl.Int64))


def with_detection_labels(catalog: Catalog, run_all: RunAll) -> tuple[Catalog, list[Finding]]:
    """Return the catalog with MXNet's labels for detection, if its samples have objects."""
    import polars as pl

    objects = catalog.settled.schema.objects
    if objects is None or catalog.label_column is not None:
        return catalog, []
    found = list(chain.from_iterable(run_all(detection_labels, _tasks(catalog, objects))))
    findings = [Finding("unreadable", path, why) for path, _, why in found if why]
    table = catalog.table.filter(pl.Series([not why for *_, why in found], dtype=pl.Boolean))
    labels = [label for _, label, why in found if not why]
    if objects.flags and not any(any(label[9::6]) for label in labels):
        labels = [
            (4, 5, *label[2:4], *(value for at, value in enumerate(label[4:], 1) if at % 6))
            for label in labels
        ]
    # MXNet's are 32-bit floats, which 9 digits tell apart: a list of more would be hard to read.
    labels = [tuple(float(f"{each:.9g}") for each in label) for label in labels]
    table = table.with_columns(pl.Series("label", labels, dtype=pl.List(pl.Float64)))
    return replace(catalog, table=table, classes=objects.names or None), findings


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


def look_at(task: tuple[Reader, Rows, Choice]) -> Observed:
    """Look at some samples, in a worker."""
    reader, rows, choice = task
    samples = (sample for sample in reader.read(rows) if isinstance(sample, Sample))
    return observe(samples, reader.table, choice)


def may_have_pixels(observed: Observed, choice: Choice) -> bool:
    """Return whether samples may have an image as bare pixels."""
    kinds = {place[0]: seen.kinds for place, seen in observed.places.items()}
    if any(said in BY_FORMAT for each in kinds.values() for _, said in each.values()):
        return True
    may_be = any("bytes" in kinds.get(name, ()) for name in (*IMAGE_NAMES, choice.image or ""))
    return may_be and not any("image" in each for each in kinds.values())


def raw_field(told: Schema | None) -> Field | None:
    """Return the image of a schema if that is bare pixels."""
    image = told.image_field if told is not None else None
    return image if image is not None and image.kind.is_raw else None


def without_sizes(told: Schema | None, pixels: RawPixels) -> Schema | None:
    """Return a schema without the sizes of bare pixels, which are made images that tell them."""
    if told is None:
        return None
    sizes = {(name,) for name in pixels.beside}
    kept = (each for each in told.fields if sizes.isdisjoint(each.places))
    return replace(told, fields=tuple(kept))


def with_sizes(schema: Schema, pixels: Pixels | None, table: Table) -> Schema:
    """Return the schema of raw samples, which have the sizes of bare pixels beside them."""
    image = schema.image_field
    missing = image is None or image.missing
    for raw, kind in pixels.beside.items() if pixels is not None else ():
        name = table.meaning(raw).field or "format"
        schema = schema.with_field(Field(name, kind, missing, places=((raw,),)))
    return schema


def find_pixels(task: tuple[Reader, Rows, Choice, Field | None]) -> RawPixels | None:
    """Find where samples have bare pixels, in a worker."""
    reader, rows, choice, known = task
    samples = (each for each in reader.read(rows) if isinstance(each, Sample))
    return raw_pixels(samples, reader.table, choice, known)


def with_pixels(settled: Settled, pixels: RawPixels | None) -> Settled:
    """Return a schema whose image is bare pixels in the source, if it is."""
    image = settled.schema.image_field
    if pixels is None or image is None or image.kind.is_raw:
        return settled
    return settled._replace(schema=settled.schema.with_field(replace(image, type=pixels.type)))


def gather(task: tuple[Reader, Rows, str]) -> list[_Gathered]:
    """Read the labels of some samples, in a worker."""
    reader, rows, name = task
    found: list[_Gathered] = []
    for path, sample in zip(rows.paths, reader.read(rows), strict=True):
        if isinstance(sample, Sample):
            key, label = sample.path or sample.key, sample.fields.get(name)
            found.append((key, label, sample.class_name, ""))
        else:
            found.append((path, None, None, str(sample)))
    return found


def detection_labels(task: tuple[Reader, Rows, Field]) -> list[tuple[str, tuple[float, ...], str]]:
    """Return the path of each sample, its label, and why it has none, mostly nothing."""
    reader, rows, field = task
    found: list[tuple[str, tuple[float, ...], str]] = []
    for path, sample in zip(rows.paths, reader.read(rows), strict=True):
        try:
            if not isinstance(sample, Sample):
                raise sample if isinstance(sample, BadSample) else BadSample("has no objects")
            value: Objects = sample.fields.get(field.name) or Objects()
            if value.extent is None or value.extent == SHARES:
                size = upright_size(sample.fields.get(sample.image or "") or b"")
                value = measured_on(value, size)
            found.append((path, mxnet.write(value, with_flags=field.flags), ""))
        except BadSample as error:
            found.append((path, (), str(error)))
    return found
