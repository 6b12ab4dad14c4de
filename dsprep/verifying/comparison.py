"""Comparing what shards hold with what their source holds, sample by sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from dsprep.planning.recipe import Recipe
from dsprep.running.shard import Report
from dsprep.verifying.inspection import Inspected, Problem, SourceTask, digest_source, label_text
from dsprep.workers.pool import Pool

if TYPE_CHECKING:
    from dsprep.catalog import Catalog

_TASKS_PER_WORKER = 16

_FOUND = pl.Schema(
    {
        "file": pl.String(),
        "offset": pl.Int64(),
        "key": pl.String(),
        "name": pl.String(),
        "digest": pl.String(),
        "label": pl.String(),
    }
)
"""A sample of a shard: where it lies, its key, what it is known by, and what it holds."""


def compare(
    shards: Sequence[tuple[str, Inspected]],
    catalog: Catalog,
    recipe: Recipe,
    labeled: bool,
    rejected: frozenset[str],
    pool: Pool,
    report: Report,
) -> list[Problem]:
    """Find the samples that are missing, too many, or not what the source holds.

    Samples are paired by name. Where no name of the shards is one of the source's, as with features
    that tell no name, the contents must be the same, in whatever order.

    Args:
        shards: Names and contents, with digests.
        catalog: The source.
        recipe: How samples were made of it.
        labeled: Whether each sample must have its label; if not, none of them may have one.
        rejected: The paths of samples that are known not to be in them.
        pool: Reads the source.
        report: Is told how far that is.

    Returns:
        What is wrong, shard by shard.
    """
    found, source = _found(shards), _expected(catalog, recipe, pool, report)
    named = found.is_empty() or found["name"].is_in(source["name"].implode()).any()
    on = ["name" if named else "digest", "number"]
    found, source = (_numbered(table, on[0]) for table in (found, source))
    pairs = found.join(source, on=on, how="inner", suffix="_source")
    expected = source.filter(~pl.col("path").is_in(list(rejected)))
    has_none = labeled and catalog.label_column is None and not catalog.reader.whole
    return [
        *_other_images(pairs),
        *_other_labels(pairs, labeled=labeled or (found["label"] != "").any()),
        *(_invented_labels(pairs) if has_none else ()),
        *_extra(found.join(source, on=on, how="anti")),
        *_missing(expected.join(found, on=on, how="anti")),
    ]


def _found(shards: Sequence[tuple[str, Inspected]]) -> pl.DataFrame:
    tables = [
        pl.DataFrame(
            {
                "file": [file] * len(shard.keys),
                "offset": list(shard.offsets),
                "key": shard.keys,
                "name": shard.names,
                "digest": shard.digests,
                "label": shard.labels,
            },
            schema=_FOUND,
        )
        for file, shard in shards
    ]
    return pl.concat([_FOUND.to_frame(), *tables])


def _expected(catalog: Catalog, recipe: Recipe, pool: Pool, report: Report) -> pl.DataFrame:
    share = max(1, math.ceil(len(catalog) / (_TASKS_PER_WORKER * pool.size)))
    starts = range(0, len(catalog), share)
    tasks = (SourceTask(recipe, catalog.slice(start, share).rows()) for start in starts)
    parts = dict(pool.run(digest_source, tasks, report))
    digests = [digest for number in range(len(starts)) for digest in parts[number]]
    labels = [""] * len(catalog)
    if catalog.label_column == "cls":
        labels = [label_text((cls,)) for cls in catalog.table["cls"]]
    elif catalog.label_column == "label":
        labels = [label_text(label) for label in catalog.table["label"].to_list()]
    columns = {
        "name": _names(catalog, recipe),
        "path": catalog.table["path"],
        "digest": digests,
        "label": labels,
    }
    return pl.DataFrame(columns)


def _names(catalog: Catalog, recipe: Recipe) -> pl.Series:
    """What samples of the source are known by in the shards."""
    index = catalog.table["index"].cast(str)
    if recipe.layout.known_by == "path":
        return catalog.table["path"]
    if recipe.layout.known_by == "id":
        return index
    return catalog.keys() if recipe.key == "path" else index.str.zfill(9)


def _numbered(table: pl.DataFrame, by: str) -> pl.DataFrame:
    """Tell apart samples of one name, or of one content, so that a join pairs them one by one."""
    ordered = table.sort(by, "digest", "label", maintain_order=True)
    return ordered.with_columns(number=pl.int_range(pl.len()).over(by))


def _other_images(pairs: pl.DataFrame) -> Iterator[Problem]:
    if "digest_source" in pairs.columns:
        other = pairs.filter(pl.col("digest") != pl.col("digest_source"))
        yield from _problems(other, lambda row: f"its image is not that of {row['path']}")


def _other_labels(pairs: pl.DataFrame, labeled: bool) -> Iterator[Problem]:
    known = (pl.col("label_source") != "") & labeled
    other = pairs.filter(known & (pl.col("label") != pl.col("label_source")))
    yield from _problems(other, lambda row: f"its label is not that of {row['path']}")


def _invented_labels(pairs: pl.DataFrame) -> Iterator[Problem]:
    other = pairs.filter(pl.col("label") != "")
    yield from _problems(other, lambda row: f"has a label, and {row['path']} has none")


def _extra(table: pl.DataFrame) -> Iterator[Problem]:
    yield from _problems(table, lambda row: "the source holds no such sample")


def _missing(table: pl.DataFrame) -> Iterator[Problem]:
    for path in table["path"].sort():
        yield Problem("", None, path, "is in the source, but neither in a shard nor rejected")


def _problems(table: pl.DataFrame, message: Callable[[dict[str, Any]], str]) -> Iterator[Problem]:
    for row in table.sort("file", "offset").iter_rows(named=True):
        yield Problem(row["file"], row["offset"], row["key"], message(row))
