"""Labels that only samples have, read from all samples of a catalog.

Workers call the functions at the end, so that polars is imported only where it is used.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from dsprep.annotations import mxnet
from dsprep.annotations.geometry import measured_on
from dsprep.annotations.objects import SHARES, Objects
from dsprep.errors import BadSample, SourceError
from dsprep.findings import Finding
from dsprep.images.transform import upright_size
from dsprep.places.scan import RunAll
from dsprep.rows import Reader, Rows
from dsprep.sample import Sample, key_of
from dsprep.schema import Field

if TYPE_CHECKING:
    import polars as pl

    from dsprep.catalog import Catalog

T = TypeVar("T")

_AT_ONCE = 1000  # samples that a worker reads before it takes more

Gathered: TypeAlias = tuple[str, Any, str | None, str]
"""The key of a sample, or the path of its image; its label, the name of its class, if it has these;
and why it cannot be read, mostly nothing."""


def gather_all(catalog: Catalog, name: str, run_all: RunAll) -> list[Gathered]:
    """Read the labels of all samples, in their order."""
    return list(chain.from_iterable(run_all(gather, _tasks(catalog, name))))


def names_in(gathered: list[Gathered], source: str) -> dict[int, str]:
    """Return the class names that samples have beside their numbers."""
    names: dict[int, str] = {}
    for _, label, name, _ in gathered:
        if name is not None and isinstance(label, int) and names.setdefault(label, name) != name:
            raise SourceError(
                f"{source}: the class {label} is called {names[label]!r} and {name!r}: correct "
                "the samples, or give --drop for the names and --classes FILE"
            )
    return names


def with_labels(
    catalog: Catalog, label: Field | None, gathered: list[Gathered]
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
    for _, objects, _, _ in gather_all(catalog, name, run_all):
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


def _tasks(catalog: Catalog, wanted: T) -> list[tuple[Reader, Rows, T]]:
    starts = range(0, len(catalog), _AT_ONCE)
    return [(catalog.reader, catalog.slice(at, _AT_ONCE).rows(), wanted) for at in starts]


def gather(task: tuple[Reader, Rows, str]) -> list[Gathered]:
    """Read the labels of some samples, in a worker."""
    reader, rows, name = task
    found: list[Gathered] = []
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
