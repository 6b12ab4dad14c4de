"""The side of each sample, by what a user asked: drawn, by a hash alone, or as a file says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from dsprep.errors import OptionError, SourceError
from dsprep.lists.rows import class_numbers, plain_path
from dsprep.sample import key_expr
from dsprep.splits.asked import Asked
from dsprep.splits.assignment import assign_sides, draw, stable_sides
from dsprep.splits.groups import merge_groups
from dsprep.splits.leaks import Copies
from dsprep.splits.ratios import Ratios, require_side_names
from dsprep.splits.reading import Samples, read_groups
from dsprep.units import format_count, format_some


@dataclass(frozen=True, eq=False)
class Sides:
    """The side of each sample."""

    numbers: pl.Series  # the number of the side of each
    names: tuple[str, ...]  # what the sides are called
    ratios: Ratios | None  # their shares; None where a file tells the sides
    method: str  # how they were chosen, in words
    groups: int | None = None  # how many groups there are; None if none were asked for
    notes: Sequence[str] = ()  # what else there is to say

    def of_samples(self) -> pl.Series:
        """The name of the side of each sample."""
        names = self.numbers.replace_strict(
            range(len(self.names)), self.names, return_dtype=pl.String
        )
        return names.alias("side")

    def counts(self) -> list[int]:
        """How many samples each side has."""
        return [int((self.numbers == side).sum()) for side in range(len(self.names))]


def choose_sides(asked: Asked, samples: Samples, ratios: Ratios, copies: Sequence[Copies]) -> Sides:
    """Draw the sides."""
    path = _plain(samples.rows["path"])
    groups = None if asked.group is None else read_groups(samples, asked.group)
    count = None if groups is None else groups.n_unique()
    notes = []
    if asked.stable:
        keys = path.to_frame().select(key=key_expr())["key"] if groups is None else groups
        numbers = stable_sides(keys, ratios, asked.seed)
        method = "by the hash of each " + ("key" if groups is None else "group")
        notes.append("counts are only about right, as a side depends on that hash alone")
    else:
        strata, method, why_not = _strata(asked, samples)
        notes += why_not
        drawn = draw(path, asked.seed)
        repeated = _repeated(path, drawn)
        if repeated:
            what = format_count(len(repeated), "path")
            names = format_some(path.gather([rows[0] for rows in repeated[:4]]).to_list())
            notes.append(f"{what} listed more than once, kept on one side: {names}")
        together = [*(each.rows for each in copies), *repeated]
        if groups is not None or together:
            groups = merge_groups(path if groups is None else groups, together)
        table = pl.DataFrame([path, samples.rows["index"], drawn, strata])
        if groups is not None:
            table = table.with_columns(group=groups)
        numbers = assign_sides(table, ratios, asked.seed)
    if count is not None:
        method += f", {format_count(count, 'group')} kept whole"
    return _require_samples(Sides(numbers, ratios.names, ratios, method, count, notes), asked)


def given_sides(asked: Asked, values: pl.Series) -> Sides:
    """Take the sides that a file gives."""
    if asked.leaks == "together":
        raise OptionError(
            f"--leaks together: {asked.assign} tells the side of each sample; give --leaks report"
        )
    found = values.unique().to_list()
    names = tuple(sorted(found, key=lambda name: (len(name) if name.isdecimal() else 0, name)))
    require_side_names(names)
    if asked.folds is not None and len(names) != asked.folds:
        raise SourceError(f"{asked.assign}: has {len(names)} folds, not {asked.folds}")
    numbers = values.replace_strict(names, range(len(names)), return_dtype=pl.Int64)
    return Sides(numbers, names, None, f"as {asked.assign} says")


def stratum_numbers(samples: Samples) -> pl.Series | None:
    """The class number of each sample; None if labels are not classes."""
    numbers = samples.rows.select(stratum=class_numbers())["stratum"]
    return numbers if samples.labeled and not numbers.null_count() else None


def _strata(asked: Asked, samples: Samples) -> tuple[pl.Series, str, list[str]]:
    """The number of each sample's class from 0 without gaps, and what to say of it."""
    numbers = stratum_numbers(samples) if asked.stratify else None
    if numbers is not None:
        places = numbers.unique().sort().search_sorted(numbers).cast(pl.Int64)
        return places.alias("stratum"), "stratified by class", []
    why_not = []
    if asked.stratify:
        what = "labels are not single class numbers" if samples.labeled else "there are no labels"
        why_not.append(f"not stratified, as {what}")
    same = pl.Series("stratum", [0], pl.Int64).new_from_index(0, samples.rows.height)
    return same, "at random", why_not


def _repeated(path: pl.Series, drawn: pl.Series) -> list[list[int]]:
    """The rows of each path that stands more than once."""
    if drawn.n_unique() == len(drawn):  # faster to count than paths, of which it tells
        return []
    rows = path.to_frame().with_row_index("row").filter(path.is_duplicated())
    return rows.group_by("path").agg("row").sort("path")["row"].to_list()


def _plain(path: pl.Series) -> pl.Series:
    """The plain form of each path, where most are plain already."""
    odd = path.str.contains("./", literal=True) | path.str.contains("//", literal=True)
    return path.to_frame().select(plain_path(pl.col(path.name))).to_series() if odd.any() else path


def _require_samples(sides: Sides, asked: Asked) -> Sides:
    """Refuse a side without samples: no list can be empty."""
    empty = [name for name, count in zip(sides.names, sides.counts(), strict=True) if not count]
    if empty:
        what = "groups" if sides.groups is not None else "samples"
        count = len(sides.numbers) if sides.groups is None else sides.groups
        kind = "fold" if asked.folds is not None else "side"
        raise SourceError(
            f"{asked.source}: {count:,} {what} leave {format_count(len(empty), kind)} empty: "
            f"{format_some(empty)}; ask for fewer, or for a larger share"
        )
    return sides
