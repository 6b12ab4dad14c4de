"""Comparing what shards hold with what their source holds, sample by sample."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from dsprep.inspection import Inspected, Problem, SourceTask, digest_source, label_text
from dsprep.planning import rows_of
from dsprep.pool import Pool
from dsprep.recipe import Recipe
from dsprep.shard import Report

if TYPE_CHECKING:
    from dsprep.catalog import Catalog

_TASKS_PER_WORKER = 16


def compare(
    shards: Sequence[tuple[str, Inspected]],
    catalog: Catalog,
    recipe: Recipe,
    first_class: int,
    rejected: frozenset[str],
    pool: Pool,
    report: Report,
) -> list[Problem]:
    """Find the samples that are missing, too many, or not what the source holds.

    Args:
        shards: Names and contents, with digests.
        catalog: The source.
        recipe: How samples were made of it.
        first_class: What the first class is numbered in the shards.
        rejected: The paths of samples that are known not to be in them.
        pool: Reads the source.
        report: Is told how far that is.

    Returns:
        What is wrong, shard by shard.
    """
    found = _found(shards)
    source = _expected(catalog, recipe, first_class, pool, report)
    if recipe.layout.name == "recordio":
        found, source = found.drop("key"), source.drop("key")
        on = "id"
    elif found["key"].is_in(source["key"].implode()).any() or found.is_empty():
        on = "key"
    else:
        # Features that tell no name: the contents must be the same, in whatever order.
        on = "digest"
        found, source = (_numbered(table) for table in (found, source))
    expected = source.filter(~pl.col("path").is_in(list(rejected)))
    return [
        *_differences(found.join(source, on=on, how="inner", suffix="_source"), on),
        *_extra(found.join(source, on=on, how="anti")),
        *_missing(expected.join(found, on=on, how="anti")),
    ]


def _found(shards: Sequence[tuple[str, Inspected]]) -> pl.DataFrame:
    tables = [
        pl.DataFrame(
            {
                "key": shard.keys,
                "id": pl.Series(shard.ids, dtype=pl.UInt64),
                "digest": shard.digests,
                "label": shard.labels,
                "offset": pl.Series(shard.offsets, dtype=pl.Int64),
            },
            schema_overrides={"key": pl.String, "digest": pl.String, "label": pl.String},
        ).with_columns(file=pl.lit(name))
        for name, shard in shards
    ]
    return pl.concat(tables)


def _expected(
    catalog: Catalog, recipe: Recipe, first_class: int, pool: Pool, report: Report
) -> pl.DataFrame:
    share = max(1, math.ceil(len(catalog) / (_TASKS_PER_WORKER * pool.size)))
    starts = range(0, len(catalog), share)
    tasks = (SourceTask(recipe, rows_of(catalog.slice(start, share))) for start in starts)
    parts = dict(pool.run(digest_source, tasks, report))
    digests = [digest for number in range(len(starts)) for digest in parts[number]]
    index = catalog.table["index"]
    keys = catalog.keys() if recipe.key == "path" else index.cast(str).str.zfill(9)
    labels = [""] * len(catalog)
    if catalog.label_column == "cls":
        labels = [label_text((cls + first_class,)) for cls in catalog.table["cls"]]
    elif catalog.label_column == "label":
        labels = [label_text(label) for label in catalog.table["label"].to_list()]
    return pl.DataFrame(
        {
            "key": keys,
            "id": index.cast(pl.UInt64),
            "path": catalog.table["path"],
            "digest": digests,
            "label": labels,
        }
    )


def _numbered(table: pl.DataFrame) -> pl.DataFrame:
    """Tell apart the samples of equal content, so that a join pairs them one by one."""
    number = pl.int_range(pl.len()).over("digest").cast(str)
    return table.with_columns(digest=pl.col("digest") + "/" + number)


def _differences(pairs: pl.DataFrame, on: str) -> Iterator[Problem]:
    other_image = pl.lit(False) if on == "digest" else pl.col("digest") != pl.col("digest_source")
    both = (pl.col("label") != "") & (pl.col("label_source") != "")
    other_label = both & (pl.col("label") != pl.col("label_source"))
    for row in pairs.filter(other_image).iter_rows(named=True):
        yield _problem(row, f"its image is not that of {row['path']}")
    for row in pairs.filter(other_label).iter_rows(named=True):
        yield _problem(row, f"its label is not that of {row['path']}")


def _extra(table: pl.DataFrame) -> Iterator[Problem]:
    for row in table.iter_rows(named=True):
        yield _problem(row, "the source holds no such sample")


def _missing(table: pl.DataFrame) -> Iterator[Problem]:
    for path in table["path"]:
        yield Problem("", None, path, "is in the source, but neither in a shard nor rejected")


def _problem(row: dict[str, Any], message: str) -> Problem:
    return Problem(row["file"], row["offset"], str(row.get("key", row.get("id"))), message)
