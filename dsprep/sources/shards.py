"""The catalog of shards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.formats import shard_stem
from dsprep.formats.stream import why_no_shard
from dsprep.readers.shards import ShardReader
from dsprep.sources.scan import RunAll
from dsprep.sources.shardset import ShardSet
from dsprep.sources.spans import IndexedShard, IndexTask, index_shard
from dsprep.storage.paths import is_file, short_names
from dsprep.text import read_text
from dsprep.units import format_count, format_extensions

_LARGEST_ID = 2**63 - 1

_MOST_MISSING = 1_000_000
"""Samples that any shard may lack; what its manifest says may come from anywhere."""


def read_shards(
    shards: ShardSet,
    *,
    classes: tuple[str, ...] | None = None,
    run_all: RunAll = map,
) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of shards.

    The samples are in the order of the shards. Their paths are their keys, or those that a ``.lst``
    beside a RecordIO shard tells; where headers tell neither, ``STEM-0000012``: the stem of the
    shard and the number in it.
    """
    tasks = [IndexTask(path, shards.layout) for path in shards.files]
    indexed = list(run_all(index_shard, tasks))
    findings = [
        finding
        for path, shard in zip(shards.files, indexed, strict=True)
        for finding in _lost(os.path.basename(path), shard, shards.samples.get(path, 0))
    ]
    if classes is None and shards.unused_classes:
        detail = (
            f"the class names of {shards.unused_classes} are not used, as nothing tells whose they "
            f"are; if they are those of SOURCE, give --classes {shards.unused_classes}"
        )
        findings.append(Finding("note", "", detail))
    for path, shard in zip(shards.files, indexed, strict=True):
        why = why_no_shard(shard.passed_over, shard.members)
        if why and not shards.known:
            raise SourceError(f"{path}: {why}")
        if shard.passed_over:
            count = format_count(sum(shard.passed_over.values()), "member")
            detail = f"{count} ({format_extensions(shard.passed_over)})"
            findings.append(Finding("keyless", os.path.basename(path), detail))
        if shard.without_image:
            count = format_count(shard.without_image, "record")
            detail = f"{count} without an image: they index others, as InsightFace writes them"
            findings.append(Finding("keyless", os.path.basename(path), detail))
    findings += [Finding("note", "", note) for note in shards.notes]
    stems = [_stem_of(name) for name in short_names(shards.files)]
    table = pl.concat([_rows(number, stems[number], shard) for number, shard in enumerate(indexed)])
    if table.is_empty():
        why = f": {findings[0].path} {findings[0].detail}" if findings else ""
        raise SourceError(f"{shards.name}: holds no samples{why}")
    table, named = _name(table, shards)
    table = _number(table)
    classes = shards.classes if classes is None else classes
    if shards.schema is None or not shards.layout.placeholders(shards.schema):
        labels = [label for shard in indexed for label in shard.labels]
        table = _with_labels(table, labels, classes)
    unpacked = tuple(
        (number, shard.offsets[-1] + shard.sizes[-1])
        for number, shard in enumerate(indexed)
        if shard.compressed and shard.offsets
    )
    states = tuple((shard.size, shard.mtime) for shard in indexed)
    reader = ShardReader(shards.files, shards.layout, named, unpacked, states)
    keys_known = all(shard.keys.strip("\x00") or not shard.offsets for shard in indexed)
    catalog = Catalog(table, shards.name, classes, reader, keys_known=named or keys_known)
    return replace(catalog, schema=shards.schema, is_told=shards.enforced), findings


def _stem_of(path: str) -> str:
    """Return what keys begin with: the stem of a shard, with no dot, as keys end at dots."""
    directory, slash, name = path.rpartition("/")
    return directory + slash + shard_stem(name).replace(".", "_")


def _with_labels(
    table: pl.DataFrame, labels: list[tuple[float, ...]], classes: tuple[str, ...] | None
) -> pl.DataFrame:
    """Add the labels that headers tell: class numbers, if each is one whole number."""
    if len(labels) < table.height:
        return table
    column = pl.Series("label", labels, dtype=pl.List(pl.Float64))
    first = column.list.first()
    is_whole = (first % 1 == 0) & (first.abs() <= 2**53)
    if (column.list.len() == 1).all() and is_whole.all():
        numbers = first.cast(pl.Int64).alias("cls")
        if classes is None or numbers.is_between(0, len(classes) - 1).all():
            column = numbers
    return table.with_columns(column)


def _lost(name: str, shard: IndexedShard, told: int) -> Iterator[Finding]:
    """What a shard has lost, a finding for each sample as far as that can be known."""
    missing = told - len(shard.offsets)
    is_are = "is" if missing == 1 else "are"
    said = f"{format_count(missing, 'sample')} of {name} {is_are} missing, as its manifest tells"
    for offset, problem in shard.damage:
        detail = f"at byte {offset}: {problem}"
        yield Finding("damaged", name, f"{detail}; {said}" if missing > 0 else detail)
    first = len(shard.offsets) + len(shard.damage)
    for number in range(first, min(told, first + _MOST_MISSING)):
        yield Finding("cut-off", f"{name}/{number}", said)


def _rows(number: int, stem: str, shard: IndexedShard) -> pl.DataFrame:
    """The samples of a shard, with their ids and without labels."""
    count = len(shard.offsets)
    keys = pl.Series("path", [shard.keys] if count else [], dtype=pl.String)
    keys = keys.str.split("\x00").explode()
    if count and not shard.keys.strip("\x00"):
        keys = f"{stem}-" + pl.Series(shard.numbers).cast(pl.String).str.zfill(7)
    return pl.DataFrame(
        {
            "id": pl.Series(shard.ids, dtype=pl.UInt64),
            "path": keys,
            "size": pl.Series(shard.sizes, dtype=pl.Int64),
            "mtime": pl.repeat(shard.mtime, count, dtype=pl.Int64, eager=True),
            "file": pl.repeat(number, count, dtype=pl.Int64, eager=True),
            "offset": pl.Series(shard.offsets, dtype=pl.Int64),
            "stored": pl.Series(shard.sizes, dtype=pl.Int64),
        }
    )


def _name(table: pl.DataFrame, shards: ShardSet) -> tuple[pl.DataFrame, bool]:
    """Name samples by the lists that stand beside RecordIO shards, if these name all of them."""
    if shards.layout.known_by != "id":
        return table, False
    beside = [os.path.splitext(path)[0] + ".lst" for path in shards.files]
    if not all(map(is_file, beside)):
        return table, False
    lists = [_listed(path, number) for number, path in enumerate(beside)]
    joined = table.join(pl.concat(lists), on=["file", "id"], how="left", maintain_order="left")
    if joined.height != table.height or joined["name"].null_count() or _leads_out(joined["name"]):
        return table, False
    return table.with_columns(path=joined["name"]), True


def _listed(path: str, number: int) -> pl.DataFrame:
    """Return the names that a list gives to ids; its labels may be anything."""
    line = pl.Series("line", read_text(path).split("\n"), pl.String)
    return (
        pl.DataFrame([line])
        .select(
            pl.lit(number, dtype=pl.Int64).alias("file"),
            pl.col("line").str.extract(r"^\s*(\d+)\s*\t").cast(pl.UInt64, strict=False).alias("id"),
            pl.col("line").str.extract(r"\t\s*([^\t]*[^\t\s])\s*$").alias("name"),
        )
        .drop_nulls()
    )


def _leads_out(names: pl.Series) -> bool:
    return bool((names.str.starts_with("/") | names.str.contains(r"(^|/)\.\.?(/|$)")).any())


def _number(table: pl.DataFrame) -> pl.DataFrame:
    """Give the samples the ids that they have, if these tell all of them apart, or numbers."""
    ids = table["id"]
    own = ids.is_unique().all() and (ids.max() or 0) <= _LARGEST_ID  # type: ignore[operator]
    index = ids.cast(pl.Int64) if own else pl.int_range(table.height, eager=True)
    return table.select(index.alias("index"), pl.exclude("id"))
