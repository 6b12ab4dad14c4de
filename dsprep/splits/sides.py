"""The side of each sample: drawn, chosen by a hash alone, or given by a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from dsprep.errors import OptionError, SourceError
from dsprep.keywords import SplitOptions
from dsprep.lists.rows import class_numbers, plain_path
from dsprep.sample import key_expr
from dsprep.splits.groups import assign_sides, draw, merge_groups, stable_sides
from dsprep.splits.leaks import Copies
from dsprep.splits.ratios import Ratios, require_side_names
from dsprep.splits.samples import Samples, wanted_ratios
from dsprep.units import format_count, format_some


@dataclass(frozen=True, eq=False)
class Sides:
    """The side of each sample."""

    numbers: pl.Series  # the number of the side of each
    names: tuple[str, ...]  # what the sides are called
    ratios: Ratios | None  # their shares; None if a file gives the sides
    method: str  # how they were chosen, in words
    groups: int | None = None  # how many groups there are; None if none were asked for
    notes: Sequence[str] = ()  # remarks for the report

    def of_samples(self) -> pl.Series:
        """Return the name of the side of each sample."""
        names = self.numbers.replace_strict(
            range(len(self.names)), self.names, return_dtype=pl.String
        )
        return names.alias("side")

    def counts(self) -> list[int]:
        """Return how many samples each side has."""
        return [int((self.numbers == side).sum()) for side in range(len(self.names))]


def choose_sides(options: SplitOptions, samples: Samples, copies: Sequence[Copies]) -> Sides:
    """Draw the sides, keeping groups and copies together."""
    ratios, path = wanted_ratios(options), samples.rows["path"]
    if (path.str.contains("./", literal=True) | path.str.contains("//", literal=True)).any():
        path = path.to_frame().select(plain_path(pl.col("path"))).to_series()
    groups = None if options.group is None else samples.groups(options.group)
    count = None if groups is None else groups.n_unique()
    notes = []
    if options.stable:
        keys = path.to_frame().select(key=key_expr())["key"] if groups is None else groups
        numbers = stable_sides(keys, ratios, options.seed or 0)
        method = "by the hash of each " + ("key" if groups is None else "group")
        notes.append("counts are only about right, as a side depends on that hash alone")
    else:
        strata, method, why_not = _strata(options, samples)
        notes += why_not
        drawn = draw(path, options.seed or 0)
        repeated = _repeated(path, drawn)
        if repeated:
            what = format_count(len(repeated), "path")
            names = format_some(path.gather([rows[0] for rows in repeated[:4]]).to_list())
            notes.append(f"{what} listed more than once, kept on one side: {names}")
        together = [*(copy.rows for copy in copies), *repeated]
        table = pl.DataFrame([path, samples.rows["index"], drawn, strata])
        if groups is not None or together:
            groups = merge_groups(path if groups is None else groups, together)
            table = table.with_columns(group=groups)
        numbers = assign_sides(table, ratios, options.seed or 0)
    if count is not None:
        method += f", {format_count(count, 'group')} kept whole"
    sides = Sides(numbers, ratios.names, ratios, method, count, notes)
    empty = [name for name, size in zip(sides.names, sides.counts(), strict=True) if not size]
    if empty:
        what = f"{len(path):,} samples" if count is None else f"{count:,} groups"
        kind = "fold" if options.folds is not None else "side"
        raise SourceError(
            f"{samples.name}: {what} leave {format_count(len(empty), kind)} empty: "
            f"{format_some(empty)}; ask for fewer, or for a larger share"
        )
    return sides


def given_sides(options: SplitOptions, values: pl.Series) -> Sides:
    """Take the sides that a file gives."""
    if options.leaks == "together":
        raise OptionError(
            f"--leaks together: {options.assign} tells the side of each sample; give --leaks report"
        )
    found = values.unique().to_list()
    names = tuple(sorted(found, key=lambda name: (len(name) if name.isdecimal() else 0, name)))
    require_side_names(names)
    if options.folds is not None and len(names) != options.folds:
        raise SourceError(f"{options.assign}: has {len(names)} folds, not {options.folds}")
    numbers = values.replace_strict(names, range(len(names)), return_dtype=pl.Int64)
    return Sides(numbers, names, None, f"as {options.assign} says")


def stratum_numbers(samples: Samples) -> pl.Series | None:
    """Return the class number of each sample; None if labels are not classes."""
    numbers = samples.rows.select(stratum=class_numbers())["stratum"]
    return numbers if samples.labeled and not numbers.null_count() else None


def _strata(options: SplitOptions, samples: Samples) -> tuple[pl.Series, str, list[str]]:
    """Number the classes from 0 without gaps; also return the method and notes."""
    numbers = stratum_numbers(samples) if options.stratify else None
    if numbers is not None:
        places = numbers.unique().sort().search_sorted(numbers).cast(pl.Int64)
        return places.alias("stratum"), "stratified by class", []
    why_not = []
    if options.stratify:
        what = "labels are not single class numbers" if samples.labeled else "there are no labels"
        why_not.append(f"not stratified, as {what}")
    same = pl.Series("stratum", [0], pl.Int64).new_from_index(0, samples.rows.height)
    return same, "at random", why_not


def _repeated(path: pl.Series, drawn: pl.Series) -> list[list[int]]:
    """Return the rows of each path that is listed more than once."""
    if drawn.n_unique() == len(drawn):  # numbers are faster to count than the paths they hash
        return []
    rows = path.to_frame().with_row_index("row").filter(path.is_duplicated())
    return rows.group_by("path").agg("row").sort("path")["row"].to_list()
