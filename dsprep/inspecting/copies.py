"""Copies in a measured table: samples that show the same, and which of them to keep.

What is alike is one set, and so is what is alike to that: the frames of a video are one set, though
the first and the last of them differ. So a set may keep several samples. One is left out only for a
sample that stays and that it is a copy of itself: by its bytes, or by a hash that differs in few
bits.
"""

from __future__ import annotations

import polars as pl

from dsprep.inspecting.figures import label_texts
from dsprep.places.names import usual_side
from dsprep.splits.leaks import clusters


def order_to_keep(table: pl.DataFrame, largest: bool, named: pl.Series | None = None) -> pl.Series:
    """Return the rows of a measured table, the best to keep first.

    Args:
        table: The measured samples.
        largest: Whether large images come first: by their pixels, then by their bytes.
        named: The paths of samples that come before all others.
    """
    # Samples of the other sides stay, so that what is measured with them can be compared.
    training = [side for side in table["side"].unique() if usual_side(side) == "train"]
    ranks = [] if named is None else [~pl.col("path").is_in(named.implode())]
    ranks.append(pl.col("side").is_in(training))
    if largest:
        ranks += [-pl.col(name).fill_null(0) for name in ("pixels", "bytes")]
    sized = table.with_columns(pixels=pl.col("width") * pl.col("height"))
    return sized.select(pl.arg_sort_by(*ranks, pl.int_range(pl.len()))).to_series()


def find_copies(table: pl.DataFrame, order: pl.Series, distance: int | None) -> pl.DataFrame:
    """Find the samples of a measured table that show the same, and choose those to keep.

    Args:
        table: The measured samples.
        order: Its rows, as :func:`order_to_keep` returns them.
        distance: The bits in which the hashes of copies may differ; None if only samples with the
            same bytes are copies.

    Returns:
        The columns ``row``, ``path``, ``side`` and ``label`` of the samples in sets; ``set``, its
        number from 1, in the order of the data; ``keep``, false if the sample may be left out;
        ``copy_of``, the path of the one that it is a copy of, null for that one itself;
        ``distance``, the bits in which its hash differs, null if the bytes are the same; and
        ``conflict``, whether samples that are copies of one have different labels, so that all of
        them are kept. The best of a set comes first, then its copies.
    """
    rank = pl.DataFrame({"row": order.cast(pl.UInt32)}).with_row_index("rank")
    hashes = pl.col("hash") if distance is not None else pl.lit(None, pl.UInt64).alias("hash")
    rows = table.select("digest", hashes).with_row_index("row").drop_nulls("digest")
    rows = _with_sets(rows, distance or 0).filter(pl.len().over("set") > 1)
    left = rows.join(rank, on="row").sort("rank").select("row", "set", "digest", "hash")
    found: list[pl.DataFrame] = []
    # in each set, keep the best remaining sample and drop its copies
    while left.height or not found:
        best = left.unique("set", keep="first")
        pairs = left.join(best, on="set", suffix="_of", maintain_order="left")
        bits = (pl.col("hash") ^ pl.col("hash_of")).bitwise_count_ones()
        differs = pl.col("digest") != pl.col("digest_of")
        pairs = pairs.with_columns(distance=pl.when(differs).then(bits))
        is_copy = ~differs | (bits <= (distance or 0)).fill_null(False)
        found.append(pairs.filter(is_copy).select("row", "set", "row_of", "distance"))
        left = pairs.filter(~is_copy).select(left.columns)
    return _described(table, pl.concat(found).sort("set", maintain_order=True))


def _with_sets(rows: pl.DataFrame, distance: int) -> pl.DataFrame:
    """Add the first row of the set that each row is in."""
    hashes = rows["hash"].drop_nulls().unique().sort()
    known = pl.DataFrame([hashes, clusters(hashes, distance).alias("cluster")])
    # A flat image has no hash, so that only its bytes are compared.
    own = pl.when(pl.col("cluster").is_null()).then("digest")
    joined = rows.join(known, on="hash", how="left", maintain_order="left")
    return joined.with_columns(set=pl.col("row").min().over("cluster", own))


def _described(table: pl.DataFrame, copies: pl.DataFrame) -> pl.DataFrame:
    """Describe the samples in sets: how they are called, their labels, and what to do with them."""
    rows = table[copies["row"]]
    samples = rows.select("path", "side", label_texts(rows))
    is_best = pl.col("row") == pl.col("row_of")
    conflict = pl.col("label").n_unique().over("row_of") > 1
    return samples.hstack(copies).select(
        "row",
        "path",
        "side",
        "label",
        set=pl.col("set").rank("dense"),
        keep=is_best | conflict,
        copy_of=pl.when(~is_best).then(table["path"].gather(copies["row_of"])),
        distance="distance",
        conflict=conflict,
    )
