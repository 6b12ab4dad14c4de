"""The order of rows: what of it is old, and how the new one is told."""

from __future__ import annotations

from bisect import bisect_left

import polars as pl


def still_in_order(positions: pl.Series) -> pl.Series:
    """Find as many rows as can be that stand in their old order; the others have been moved."""
    if positions.is_sorted():
        return positions.is_not_null()
    # A row that has all smaller positions above it, and no others, is in every longest one.
    rows = positions.to_frame("position").select(
        "position", rank=pl.col("position").rank("ordinal").cast(pl.Int64)
    )
    place = pl.int_range(1, pl.len() + 1)
    above = pl.col("rank").cum_max().shift(fill_value=0)
    rows = rows.with_columns(settled=(pl.col("rank") == place) & (above == place - 1))
    unsettled = rows.filter(~pl.col("settled"))["position"].to_list()
    kept, where = rows["settled"], (~rows["settled"]).arg_true()
    return kept.scatter(where, pl.Series(_longest_increasing(unsettled), dtype=pl.Boolean))


def arrange(rows: pl.DataFrame, placed: pl.DataFrame) -> pl.DataFrame:
    """Put rows into their places, and the others, in their order, into those that are left."""
    if placed.is_empty():
        return rows
    places = pl.int_range(1, rows.height + placed.height + 1, dtype=pl.Int64, eager=True)
    free = places.to_frame("place").join(placed, on="place", how="anti", maintain_order="left")
    columns = [*rows.columns, "place"]
    both = pl.concat([rows.hstack(free).select(columns), placed.select(columns)])
    return both.sort("place").drop("place")


def _longest_increasing(values: list[int]) -> list[bool]:
    """Find a longest increasing subsequence of different numbers (patience sorting)."""
    ends: list[int] = []  # the least last value of the subsequences of each length
    places: list[int] = []  # where these values are
    before = [-1] * len(values)
    for place, value in enumerate(values):
        length = len(ends) if not ends or value > ends[-1] else bisect_left(ends, value)
        if length == len(ends):
            ends.append(value)
            places.append(place)
        else:
            ends[length] = value
            places[length] = place
        if length:
            before[place] = places[length - 1]
    chosen = [False] * len(values)
    place = places[-1] if places else -1
    while place >= 0:
        chosen[place] = True
        place = before[place]
    return chosen
