"""The side of each sample: drawn, chosen by a hash alone, or given by a file.

What is drawn divides the classes by the ratios, and keeps groups on one side. A group is a set of
samples that must stay together: a patient, a video, the copies of one image. A split depends on the
samples and the seed, not on their order, because numbers are drawn by hash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from typing import TypeVar

import polars as pl

from dsprep.annotations.mxnet import is_detection, is_sized_header
from dsprep.catalog import Catalog
from dsprep.errors import OptionError, SourceError
from dsprep.lists.rows import class_numbers, plain_paths
from dsprep.lists.stats import hash_unit
from dsprep.options import require_effect
from dsprep.places.files import read_beside
from dsprep.places.names import in_order, usual_side
from dsprep.sample import key_expr
from dsprep.sources.labels.cells import parse_cells
from dsprep.sources.labels.classes import matches_in
from dsprep.sources.source import Source
from dsprep.splits.options import SplitOptions
from dsprep.splits.ratios import Ratios, Table, apportion, require_side_names
from dsprep.splits.samples import Samples, samples_of, wanted_ratios
from dsprep.units import format_count, format_some
from dsprep.workers.executor import Executor

T = TypeVar("T", int, str)

Cells = Sequence[tuple[int, int]]  # what a group is made of: classes, and how many samples of each

_COPIED = r"(_aug[0-9]{2,})+(\.[^./]*)?$"  # how keys and paths of augmented copies end

_FINE = 1 << 20
_CLASS_BITS = 20


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
        return pl.Series("side", self.names, pl.String).gather(self.numbers)

    def counts(self) -> list[int]:
        return [int((self.numbers == side).sum()) for side in range(len(self.names))]


def divided(
    options: SplitOptions, source: Source, catalog: Catalog, pool: Executor
) -> tuple[Catalog, Sequence[str]]:
    """Give each sample of a catalog its side, and say how these are chosen."""
    sides = choose_sides(options, samples_of(catalog, source, pool), [])
    catalog = catalog.with_sides(sides.names, sides.numbers)
    return catalog, [f"sides are chosen {sides.method}", *sides.notes]


def choose_sides(options: SplitOptions, samples: Samples, copies: Sequence[Sequence[int]]) -> Sides:
    """Choose the sides, keeping groups and copies, given as rows, together.

    The sides that a source has stay as they are. Those that the ratios name are divided again.
    """
    official, name = samples.official, samples.name
    if official is None:
        return _draw_sides(options, samples, copies)
    there = in_order(official.unique())
    require_side_names(there)
    if options.folds is not None:
        raise OptionError(
            f"--folds {options.folds}: {name} has the sides {format_some(there)}: name the one to "
            f"divide, {name}/{there[0]}"
        )
    if options.ratios is None:
        require_effect("split", options.given, kept=True)
        if options.leaks == "together":
            raise OptionError(
                f"--leaks together: {name} has the sides {format_some(there)}, which stay as they "
                "are; give --leaks report, or --ratio to divide them"
            )
        numbers = official.replace_strict(there, range(len(there)), return_dtype=pl.Int64)
        notes = [f"the sides are those of {name}; --ratio divides those again that it names"]
        return Sides(numbers, there, None, f"as {name} has them", notes=notes)
    wanted = {usual_side(side) for side in options.ratios}
    again = [side for side in there if usual_side(side) in wanted]
    kept = tuple(side for side in there if side not in again)
    if not again:
        raise OptionError(
            f"the shares name {format_some(list(options.ratios))}, but {name} has the sides "
            f"{format_some(there)}: name those to divide; the others stay as they are"
        )
    rows = official.is_in(again).arg_true()
    places = {row: place for place, row in enumerate(rows)}
    copies = [[places[row] for row in same if row in places] for same in copies]
    drawn = _draw_sides(options, samples.gather(rows), copies)
    note = f"divided again: {format_some(again)} of {name}"
    if not kept:
        return replace(drawn, notes=[note, *drawn.notes])
    names = (*drawn.names, *kept)
    require_side_names(names)
    later = range(len(drawn.names), len(names))
    numbers = official.replace_strict(kept, later, default=0, return_dtype=pl.Int64)
    notes = [f"{note}; kept as before: {format_some(kept)}", *drawn.notes]
    return Sides(
        numbers.scatter(rows, drawn.numbers), names, None, drawn.method, drawn.groups, notes
    )


def _draw_sides(options: SplitOptions, samples: Samples, copies: Sequence[Sequence[int]]) -> Sides:
    ratios, path = wanted_ratios(options), plain_paths(samples.rows["path"])
    groups = None if options.group is None else groups_of(samples, options.group)
    count = None if groups is None else groups.n_unique()
    notes = []
    copied = path.str.contains(_COPIED)
    if copied.any():
        origins = path.to_frame().select(key=key_expr().str.replace(_COPIED, ""))["key"]
        numbered = origins.to_frame().with_row_index("row").filter(origins.is_duplicated())
        together = numbered.group_by("key", maintain_order=True).agg("row")["row"].to_list()
        if together:
            notes.append("augmented copies are kept on the side of their original")
            copies = [*copies, *together]
    if options.stable:
        keys = path.to_frame().select(key=key_expr().str.replace(_COPIED, ""))["key"]
        keys = keys if groups is None else groups
        numbers = stable_sides(keys, ratios, options.seed or 0)
        method = "by the hash of each " + ("key" if groups is None else "group")
        notes.append("counts are only about right, as a side depends on that hash alone")
    else:
        classes = stratum_numbers(samples) if options.stratify else None
        tags = tags_of(samples) if options.stratify and classes is None else None
        strata, method = pl.zeros(len(path), eager=True), "at random"
        if classes is not None:  # numbered from 0 without gaps
            strata, method = classes.unique().sort().search_sorted(classes), "stratified by class"
        elif tags is not None:
            method = "stratified by the classes of each"
        elif options.stratify:
            why = "labels are not single class numbers"
            notes.append(f"not stratified, as {why if samples.labeled else 'there are no labels'}")
        strata = strata.cast(pl.Int64).alias("stratum")
        drawn = draw(path, options.seed or 0)
        repeated: list[list[int]] = []
        if drawn.n_unique() < len(drawn):  # numbers are faster to count than the paths they hash
            rows = path.to_frame().with_row_index("row").filter(path.is_duplicated())
            repeated = rows.group_by("path").agg("row").sort("path")["row"].to_list()
        if repeated:
            what = format_count(len(repeated), "path")
            names = format_some(path.gather([rows[0] for rows in repeated[:4]]).to_list())
            notes.append(f"{what} listed more than once, kept on one side: {names}")
        together = [*copies, *repeated]
        table = pl.DataFrame([path, samples.rows["index"], drawn, strata])
        if groups is not None or together:
            groups = merge_groups(path if groups is None else groups, together)
            table = table.with_columns(group=groups)
        if tags is None:
            numbers = assign_sides(table, ratios, options.seed or 0)
        else:
            numbers = stratify_tags(tags, table, ratios)
            notes.append(_how_well(tags, numbers, ratios, samples.classes or ()))
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


def groups_of(samples: Samples, group: str) -> pl.Series:
    """Return the group of each sample: a value in their table, or a match in their paths."""
    paths, cells = samples.rows["path"], pl.DataFrame()
    if samples.table is not None:
        data = read_beside(samples.root or "", samples.table)
        cells = parse_cells(data, samples.table, samples.columns, guesses=True).texts
    if group in cells.columns:
        # The ids of a table's samples are the numbers of its rows.
        groups = cells[group].gather(samples.rows["index"])
        problem = f"{samples.table}: nothing in the column {group!r} for"
    else:
        groups = matches_in(paths, group, "--group")
        problem = f"--group {group!r} matches nothing in"
    named = paths.filter(groups.is_null() | (groups == ""))
    if len(named):
        raise SourceError(
            f"{problem} {named[0]!r} ({len(named):,} such): every sample needs a group"
        )
    return groups.alias("group")


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


def tags_of(samples: Samples) -> pl.Series | None:
    """Return the classes of each sample, which may have several or none; None if none are told.

    They are the ones of a label of zeros and ones, or the objects of a detection label.
    """
    if samples.tags is not None:
        return samples.tags
    numbers = samples.rows["label"].str.split("\t").cast(pl.List(pl.Float64), strict=False)
    are_none = numbers.list.eval(pl.element().is_null()).list.any().any()
    if not samples.labeled or not len(numbers) or are_none:
        return None
    lists = numbers.to_list()
    count = len(samples.classes or ())
    if all(len(label) == count and {0.0, 1.0}.issuperset(label) for label in lists) and count > 1:
        found = [[at for at, flag in enumerate(label) if flag] for label in lists]
    elif all(is_detection(tuple(label)) or is_sized_header(tuple(label)) for label in lists):
        found = [
            sorted({int(each) for each in label[int(label[0]) :: int(label[1])]} - {-1})
            for label in lists
        ]
    else:
        return None
    return pl.Series("tags", found, pl.List(pl.Int64))


def stratify_tags(tags: pl.Series, table: pl.DataFrame, ratios: Ratios) -> pl.Series:
    """Choose the side of each sample so that each of its classes is divided by the ratios.

    Iterative stratification (Sechidis, Tsoumakas and Vlahavas, "On the Stratification of
    Multi-Label Data", 2011): the samples of the rarest class are dealt out first, each to the side
    that lacks most of it. A group goes to one side as a whole.
    """
    of_sample = tags.to_list()
    order = table.with_row_index("row").sort("drawn", "path", "index")["row"].to_list()
    members = {row: [row] for row in order}
    if "group" in table.columns:
        groups = table["group"].to_list()
        members, firsts = {}, dict[str, int]()
        for row in order:
            members.setdefault(firsts.setdefault(groups[row], row), []).append(row)
    counts = {
        row: Counter(tag for each in own for tag in of_sample[each]) for row, own in members.items()
    }
    holders: dict[int, list[int]] = {}
    for row, own in counts.items():
        for tag in own:
            holders.setdefault(tag, []).append(row)
    left = Counter[int]()
    for own in counts.values():
        left.update(own)
    whole = ratios.whole
    wanted = {tag: [count * part / whole for part in ratios.parts] for tag, count in left.items()}
    room = [len(of_sample) * part / whole for part in ratios.parts]
    sides = [0] * len(of_sample)
    waiting = set(members)

    def place(row: int, lacks: Sequence[float]) -> None:
        side = max(range(len(room)), key=lambda side: (lacks[side], room[side], -side))
        waiting.discard(row)
        room[side] -= len(members[row])
        for tag, count in counts[row].items():
            wanted[tag][side] -= count
            left[tag] -= count
        for each in members[row]:
            sides[each] = side

    # A class becomes rarer as its samples are dealt out with those of others.
    rarest = [(count, tag) for tag, count in left.items()]
    heapify(rarest)
    while rarest:
        count, tag = heappop(rarest)
        if left[tag] < count:
            if left[tag]:
                heappush(rarest, (left[tag], tag))
            continue
        for row in holders[tag]:
            if row in waiting:
                place(row, wanted[tag])
    for row in order:
        if row in waiting:
            place(row, room)
    return pl.Series("side", sides, pl.Int64)


def _how_well(tags: pl.Series, numbers: pl.Series, ratios: Ratios, names: Sequence[str]) -> str:
    """Say how far the classes are from their shares."""
    table = pl.DataFrame([tags, numbers]).explode("tags").drop_nulls("tags")
    counts = Counter(table.rows())
    worst, most = "", 0.0
    for tag, total in sorted(Counter(table["tags"].to_list()).items()):
        for side, part in enumerate(ratios.parts):
            off = abs(counts[tag, side] - total * part / ratios.whole)
            if off > most:
                name = names[tag] if tag < len(names) else str(tag)
                worst, most = f"{name} on {ratios.names[side]}", off
    if not worst:
        return "each class is on each side by its exact share"
    return f"no class is further from its share on a side than {most:.1f} samples ({worst})"


def draw(texts: pl.Series, seed: int) -> pl.Series:
    """Draw a number in [0, 1) for each text."""
    return hash_unit(texts, seed, "split").alias("drawn")


def stable_sides(texts: pl.Series, ratios: Ratios, seed: int) -> pl.Series:
    """Choose the side of each sample by its own text alone."""
    bounds = pl.Series("side", ratios.bounds(), pl.Float64)
    return bounds.search_sorted(draw(texts, seed), side="right").cast(pl.Int64)


def assign_sides(samples: pl.DataFrame, ratios: Ratios, seed: int) -> pl.Series:
    """Choose the side of each sample so that each class is divided by the ratios."""
    # Groups of several samples are placed first; the single samples of a class then make its counts
    # right. Without groups all counts are those of `~dsprep.splits.ratios.apportion`.
    table = samples.with_row_index("row")
    sizes = table.group_by("stratum").len().sort("stratum")["len"].to_list()
    if "group" not in table.columns:
        counts = apportion([[size * part for part in ratios.parts] for size in sizes], ratios.whole)
        return _divide(table, counts).sort("row")["side"]
    is_single = ~pl.col("group").is_duplicated()
    singles, grouped = table.filter(is_single), table.filter(~is_single)
    cells = grouped.group_by("group", "stratum").len("count").sort("group", "stratum")
    groups = cells.group_by("group", maintain_order=True).agg(
        strata="stratum", counts="count", size=pl.col("count").sum()
    )
    groups = groups.with_columns(draw(groups["group"], seed))
    groups = groups.sort("size", "drawn", "group", descending=[True, False, False])
    made_of = [
        list(zip(*row, strict=True)) for row in groups.select("strata", "counts").iter_rows()
    ]
    placed = place_groups(made_of, ratios, sizes)
    counts = _single_counts(sizes, made_of, placed, ratios)
    filled = [any(column) for column in zip(*counts, strict=True)]
    if not all(side in placed or has for side, has in enumerate(filled)):
        placed = fill_empty_sides(placed, groups["size"].to_list(), filled)
        counts = _single_counts(sizes, made_of, placed, ratios)
    sides = groups.select("group", side=pl.Series(placed, dtype=pl.Int64))
    of_groups = grouped.join(sides, on="group").select("row", "side")
    return pl.concat([of_groups, _divide(singles, counts)]).sort("row")["side"]


def _single_counts(
    sizes: Sequence[int], groups: Sequence[Cells], placed: Sequence[int], ratios: Ratios
) -> Table:
    """Count the single samples of each class that go to each side, given the groups' sides."""
    # They are divided in proportion to what is missing; a side with more than its share gets none.
    unit = ratios.whole * _FINE
    wanted = [[size * part * _FINE for part in ratios.parts] for size in sizes]
    left = list(sizes)
    for group, side in zip(groups, placed, strict=True):
        for stratum, count in group:
            wanted[stratum][side] -= count * unit
            left[stratum] -= count
    shares = []
    for row, singles in zip(wanted, left, strict=True):
        parts, total = [max(part, 0) for part in row], singles * unit
        scaled = [part * total // sum(parts) if total else 0 for part in parts]
        scaled[parts.index(max(parts))] += total - sum(scaled)
        shares.append(scaled)
    return apportion(shares, unit)


def _divide(samples: pl.DataFrame, counts: Table) -> pl.DataFrame:
    """Deal out the samples of each class in the order drawn, then by path and id."""
    runs = pl.DataFrame(
        [run for row in counts for run in enumerate(row) if run[1]],
        schema={"side": pl.Int64, "count": pl.Int64},
        orient="row",
    )
    sides = runs.select(pl.col("side").repeat_by("count").explode()).to_series()
    rows = None
    if len(samples) and samples["stratum"].max() < 1 << _CLASS_BITS:  # type: ignore[operator]
        # One number to sort by is several times as fast as two, and two are seldom equal.
        scale = 1 << (64 - _CLASS_BITS)
        packed = samples["stratum"].cast(pl.UInt64) * scale
        packed += (samples["drawn"] * scale).cast(pl.UInt64)
        order = packed.arg_sort()
        ordered = packed.gather(order)
        if not (ordered == ordered.shift(1)).any():
            rows = samples["row"].gather(order)
    if rows is None:
        rows = samples.sort("stratum", "drawn", "path", "index")["row"]
    return pl.DataFrame([rows, sides])


def join_sets(sets: Iterable[Iterable[T]]) -> dict[T, T]:
    """Join sets that overlap: return for each member the least member that it is joined with."""
    least: dict[T, T] = {}

    def root(member: T) -> T:
        while (above := least.setdefault(member, member)) != member:
            least[member] = least[above]
            member = above
        return member

    for members in sets:
        roots = [root(member) for member in members]
        least.update(dict.fromkeys(roots, min(roots)))
    return {member: root(member) for member in list(least)}


def merge_groups(groups: pl.Series, sets: Iterable[Sequence[int]]) -> pl.Series:
    """Make one group of the groups that the rows of a set are in."""
    merged = join_sets(groups.gather(list(rows)).to_list() for rows in sets)
    return groups.replace(merged) if merged else groups


def place_groups(groups: Sequence[Cells], ratios: Ratios, class_sizes: Sequence[int]) -> list[int]:
    """Choose a side for each group so that the classes' counts come near to their shares."""
    # Greedily, each group in turn goes where it makes the sum of the squared deviations smallest,
    # of each class and of all samples, as shares of what is wanted there (the statistic of a
    # chi-squared test). Pass the larger groups first: the small ones fill the gaps.
    every = sum(class_sizes)
    wanted = [
        [size * part / ratios.whole or 1.0 for size in (*class_sizes, every)]
        for part in ratios.parts
    ]
    missing = [list(row) for row in wanted]
    total = len(class_sizes)
    placed = []
    for group in groups:
        cells = (*group, (total, sum(count for _, count in group)))
        costs = [
            sum(count * (count - 2 * lacks[number]) / wants[number] for number, count in cells)
            for lacks, wants in zip(missing, wanted, strict=True)
        ]
        side = costs.index(min(costs))
        for number, count in cells:
            missing[side][number] -= count
        placed.append(side)
    return placed


def fill_empty_sides(placed: list[int], sizes: Sequence[int], filled: Sequence[bool]) -> list[int]:
    """Give each empty side the smallest group of a side that has several."""
    placed = list(placed)
    counts = [placed.count(side) for side in range(len(filled))]
    smallest_first = sorted(range(len(placed)), key=lambda group: (sizes[group], -group))
    for side, has_others in enumerate(filled):
        if counts[side] or has_others:
            continue
        for group in smallest_first:
            giver = placed[group]
            if counts[giver] > 1 or (counts[giver] and filled[giver]):
                placed[group] = side
                counts[giver] -= 1
                counts[side] += 1
                break
    return placed
