"""Comparing what shards hold with what their source holds, sample by sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from dsprep.planning.recipe import Recipe
from dsprep.running.shard import Report
from dsprep.units import format_count
from dsprep.verifying.inspection import (
    Inspected,
    Problem,
    SourceTask,
    digest,
    digest_source,
    label_text,
)
from dsprep.workers.pool import Pool

if TYPE_CHECKING:
    from dsprep.catalog import Catalog

_TASKS_PER_WORKER = 16

_FOUND = pl.Schema(
    {
        "part": pl.Int64(),
        "file": pl.String(),
        "offset": pl.Int64(),
        "key": pl.String(),
        "name": pl.String(),
        "digest": pl.String(),
        "label": pl.String(),
    }
)
"""A sample of a shard: where it lies, its key, what it is known by, and what it holds.

A part is what one command wrote: the data set as it was packed, or what was appended to it.
"""

_MOST = 0.5
"""Share of the samples of a part that a source holds, if the part was made of it."""


def compare(
    shards: Sequence[tuple[str, Inspected]],
    catalog: Catalog,
    recipe: Recipe,
    labeled: bool,
    rejected: frozenset[str],
    pool: Pool,
    report: Report,
    part_of: Mapping[str, int],
) -> tuple[list[Problem], list[str]]:
    """Find the samples that are missing, too many, or not what the source holds.

    Samples are paired by name. Where no name of the shards is one of the source's, as with features
    that tell no name, or where names are numbers of several parts, the contents must be the same,
    in whatever order. Of a data set that was
    appended to, a part is left out if the source holds few of its samples, and most of another's.

    Args:
        shards: Names and contents, with digests.
        catalog: The source.
        recipe: How samples were made of it.
        labeled: Whether each sample must have its label; if not, none of them may have one.
        rejected: The paths of samples that are known not to be in them.
        pool: Reads the source.
        report: Is told how far that is.
        part_of: The part that each shard is of.

    Returns:
        What is wrong, shard by shard; and what was not compared.
    """
    found, source = _found(shards, part_of), _expected(catalog, recipe, pool, report)
    found, source, notes = _of_source(found, source, recipe)
    named = found.is_empty() or found["name"].is_in(source["name"].implode()).any()
    if _by_number(recipe) and found["part"].n_unique() > 1:
        named = False  # each part was numbered as its own source was, not as one of all
    on = ["name" if named else "digest", "number"]
    found, source = (_numbered(table, on[0]) for table in (found, source))
    pairs = found.join(source, on=on, how="inner", suffix="_source")
    expected = source.filter(~pl.col("path").is_in(list(rejected)))
    has_none = labeled and catalog.label_column is None and not catalog.reader.whole
    problems = [
        *_other_images(pairs),
        *_other_labels(pairs, labeled=labeled or (found["label"] != "").any()),
        *(_invented_labels(pairs) if has_none else ()),
        *_extra(found.join(source, on=on, how="anti")),
        *_missing(expected.join(found, on=on, how="anti")),
    ]
    return problems, notes


def _of_source(
    found: pl.DataFrame, source: pl.DataFrame, recipe: Recipe
) -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """The samples of the parts that were made of a source, and the source with its names there.

    Returns:
        Both, and what is left out, in words.
    """
    by_number = _by_number(recipe)
    images = source["digest"].filter(source["digest"] != digest(b""))  # samples may hold none
    is_there = found["digest"].is_in(images.implode())
    if not by_number:
        is_there |= found["name"].is_in(source["name"].implode())
    shares = found.select("part", is_there=is_there).group_by("part").agg(pl.mean("is_there"))
    parts = shares.filter(pl.col("is_there") >= _MOST)["part"].sort()
    if len(parts) in (0, len(shares)):
        return found, source, []
    is_of = found["part"].is_in(parts.implode())
    if by_number and parts[0] > 0:  # appended samples are numbered from the last one before them
        before = found.filter(pl.col("part") < parts[0])["name"].cast(pl.Int64, strict=False)
        before = before.fill_null(-1)
        numbers = source["name"].cast(pl.Int64) + before.max() + 1
        width = 9 if recipe.layout.known_by == "key" else 0
        source = source.with_columns(name=numbers.cast(pl.String).str.zfill(width))
    left = found.filter(~is_of)
    shards = format_count(left["file"].n_unique(), "shard")
    note = f"{format_count(left.height, 'sample')} in {shards} not compared: of another source"
    return found.filter(is_of), source, [note]


def _by_number(recipe: Recipe) -> bool:
    """Whether samples are known by where they were in the source."""
    known_by = recipe.layout.known_by
    return known_by == "id" or (known_by == "key" and recipe.key == "index")


def _found(shards: Sequence[tuple[str, Inspected]], part_of: Mapping[str, int]) -> pl.DataFrame:
    tables = [
        pl.DataFrame(
            {
                "part": [part_of.get(file, 0)] * len(shard.keys),
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
