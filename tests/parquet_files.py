"""Parquet files for tests, as Hugging Face `datasets`, pandas and others write them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dsprep.catalog import Catalog
from dsprep.errors import BadSample
from dsprep.formats.parquet import Parquet
from dsprep.formats.stream import ShardStream
from dsprep.sample import Sample
from dsprep.schema import Choice, Field, Observed, Reading, Schema, select, settle
from dsprep.sources.tables.parquet import read_parquet

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def write_table(
    path: Path, columns: dict[str, Any], *, features: Any = None, **options: Any
) -> str:
    """Write columns as they are, with the features of Hugging Face if any are given."""
    table = pa.table(columns)
    if features is not None:
        noted = json.dumps({"info": {"features": features}})
        table = table.replace_schema_metadata({"huggingface": noted})
    pq.write_table(table, path, **options)
    return str(path)


def images(data: Sequence[bytes | None], paths: Sequence[str | None] | None = None) -> Any:
    """A column of images as Hugging Face has them."""
    paths = paths or [None] * len(data)
    return pa.array(
        [
            None if image is None and path is None else {"bytes": image, "path": path}
            for image, path in zip(data, paths, strict=True)
        ],
        IMAGE,
    )


def read_all(catalog: Catalog) -> list[Sample | BadSample]:
    """Read all samples of a catalog, in its order."""
    return list(catalog.reader.read(catalog.rows()))  # type: ignore[arg-type]


def spooled(catalog: Catalog, directory: Path) -> Catalog:
    """The same catalog, its files laid out anew."""
    for number, size in enumerate(catalog.reader.spools()):
        catalog.reader.write_spool(number, str(directory / str(number)))
        assert (directory / str(number)).stat().st_size <= size
    return replace(catalog, reader=catalog.reader.spooled(str(directory)))


def typed(catalog: Catalog, choice: Choice | None = None, *, raw: bool = False) -> Catalog:
    """Return a catalog whose reader makes samples of the schema, or raw ones of its fields."""
    choice = choice or Choice()
    table = catalog.reader.table
    found = settle(Observed(), table, choice, catalog.root, catalog.schema)
    settled = select(found, choice)[0]
    reading = Reading(settled.schema, table, settled.ignored, raw)
    return replace(catalog, settled=settled, reader=replace(catalog.reader, reading=reading))


def catalog_of(*paths: str, choice: Choice | None = None, **options: Any) -> Catalog:
    """Return the catalog of files, as the pipeline has it."""
    choice = choice or Choice()
    return typed(read_parquet(paths, None, choice=choice, **options)[0], choice)


def samples_of(*paths: str, choice: Choice | None = None, **options: Any) -> list[Sample]:
    """Return the samples of files, all of which can be had."""
    found = read_all(catalog_of(*paths, choice=choice, **options))
    assert all(isinstance(each, Sample) for each in found), found
    return found  # type: ignore[return-value]


def layout_of(image: str | None = None, label: str | None = None, /, **kinds: str) -> Parquet:
    """Return the format for fields of some types."""
    fields = tuple(Field(name, kind, missing=True) for name, kind in kinds.items())
    return Parquet().arranged(Schema(fields, image, label))[0]


def write_samples(layout: Parquet, samples: Sequence[Sample], path: Path) -> str:
    """Write samples as a worker does."""
    writer = layout.open_writer(str(path), "", 9)
    try:
        for sample in samples:
            writer.add(sample)
        writer.finish()
        assert writer.bytes == path.stat().st_size
        with ShardStream(str(path)) as stream:
            assert stream.checksum() == (writer.bytes, writer.crc32c)
    finally:
        writer.close()
    return str(path)
