"""The side of each sample: drawn, chosen by a hash alone, or given by a file.

Sides that directories tell are found by `dsprep.places.files`. What is drawn divides the classes by
the ratios, and keeps groups on one side. A group is a set of samples that must stay together: a
patient, a video, the copies of one image. A split depends on the samples and the seed, not on their
order, because numbers are drawn by hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from dsprep.annotations.mxnet import is_detection, is_sized_header
from dsprep.catalog import Catalog
from dsprep.errors import OptionError, SourceError
from dsprep.frozen import Frozen
from dsprep.lists.rows import class_numbers, plain_paths
from dsprep.options import require_effect
from dsprep.places.files import read_beside
from dsprep.places.names import in_order, usual_side
from dsprep.sample import key_expr
from dsprep.sources.labels.cells import parse_cells
from dsprep.sources.labels.classes import matches_in
from dsprep.sources.source import Source
from dsprep.splits.dealing import (
    assign_sides,
    draw,
    how_well,
    merge_groups,
    stable_sides,
    stratify_tags,
)
from dsprep.splits.options import SplitOptions
from dsprep.splits.ratios import Ratios, require_side_names
from dsprep.splits.samples import Samples, samples_of, wanted_ratios
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some
from dsprep.workers.executor import Executor

_COPIED = r"(_aug[0-9]{2,})+(\.[^./]*)?$"  # how keys and paths of augmented copies end


class Sides(Frozen, eq=False):
    """The side of each sample."""

    numbers: pl.Series  # the number of the side of each
    names: tuple[str, ...]  # what the sides are called
    ratios: Ratios | None  # their shares; None if a file gives the sides
    method: str  # how the sides were chosen, in words
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
    """Draw the side of each sample, by hashes and the seed alone; no side stays empty."""
    ratios, path = wanted_ratios(options), plain_paths(samples.rows["path"])
    groups = None if options.group is None else groups_of(samples, options.group)
    count = None if groups is None else groups.n_unique()
    notes = []
    if augmented := _augmented_sets(path):
        notes.append("augmented copies are kept on the side of their original")
    if options.stable:
        drawn = _by_hash(path, groups, ratios, options.seed or 0)
    else:
        drawn = _by_class(options, samples, path, groups, [*copies, *augmented], ratios)
    method = drawn.method
    if count is not None:
        method += f", {format_count(count, 'group')} kept whole"
    sides = Sides(drawn.numbers, ratios.names, ratios, method, count, [*notes, *drawn.notes])
    _require_none_empty(sides, options, samples.name)
    return sides


class _Draw(NamedTuple):
    """The sides that were drawn."""

    numbers: pl.Series  # the number of the side of each sample
    method: str
    notes: Sequence[str]


def _augmented_sets(path: pl.Series) -> list[list[int]]:
    """Return the rows of each original with its augmented copies."""
    if not path.str.contains(_COPIED).any():
        return []
    origins = _keys_of_originals(path)
    numbered = origins.to_frame().with_row_index("row").filter(origins.is_duplicated())
    return numbered.group_by("key", maintain_order=True).agg("row")["row"].to_list()


def _keys_of_originals(path: pl.Series) -> pl.Series:
    """Return the key of each sample; of an augmented copy, that of its original."""
    return path.to_frame().select(key=key_expr().str.replace(_COPIED, ""))["key"]


def _by_hash(path: pl.Series, groups: pl.Series | None, ratios: Ratios, seed: int) -> _Draw:
    """Choose each side by the hash of the key or the group alone (``--stable``)."""
    numbers = stable_sides(_keys_of_originals(path) if groups is None else groups, ratios, seed)
    method = "by the hash of each " + ("key" if groups is None else "group")
    note = "counts are only about right, as a side depends on that hash alone"
    return _Draw(numbers, method, [note])


def _by_class(
    options: SplitOptions,
    samples: Samples,
    path: pl.Series,
    groups: pl.Series | None,
    together: Sequence[Sequence[int]],
    ratios: Ratios,
) -> _Draw:
    """Deal the samples of each class out by the ratios; rows that are together go to one side."""
    seed = options.seed or 0
    strata = _strata(options, samples)
    notes = list(strata.notes)
    drawn = draw(path, seed)
    repeated = _repeated_sets(path, drawn)
    if repeated:
        what = format_count(len(repeated), "path")
        names = format_some(path.gather([rows[0] for rows in repeated[:4]]).to_list())
        notes.append(f"{what} listed more than once, kept on one side: {names}")
    table = pl.DataFrame([path, samples.rows["index"], drawn, strata.numbers])
    if groups is not None or together or repeated:
        merged = merge_groups(path if groups is None else groups, [*together, *repeated])
        table = table.with_columns(group=merged)
    if strata.tags is None:
        return _Draw(assign_sides(table, ratios, seed), strata.method, notes)
    numbers = stratify_tags(strata.tags, table, ratios)
    notes.append(how_well(strata.tags, numbers, ratios, samples.classes or ()))
    return _Draw(numbers, strata.method, notes)


class _Strata(NamedTuple):
    """The strata of the samples: the ratios divide each stratum separately."""

    numbers: pl.Series  # the stratum of each sample, from 0 without gaps
    method: str
    tags: pl.Series | None = None  # the classes of each sample, if it may have several
    notes: Sequence[str] = ()


def _strata(options: SplitOptions, samples: Samples) -> _Strata:
    """Return the strata of the samples: their classes, if labels tell these, or all in one."""
    one = pl.zeros(len(samples.rows), eager=True).cast(pl.Int64).alias("stratum")
    if not options.stratify:
        return _Strata(one, "at random")
    if (classes := stratum_numbers(samples)) is not None:
        numbers = classes.unique().sort().search_sorted(classes).cast(pl.Int64)
        return _Strata(numbers.alias("stratum"), "stratified by class")
    if (tags := tags_of(samples)) is not None:
        return _Strata(one, "stratified by the classes of each", tags)
    why = "labels are not single class numbers" if samples.labeled else "there are no labels"
    return _Strata(one, "at random", notes=[f"not stratified, as {why}"])


def _repeated_sets(path: pl.Series, drawn: pl.Series) -> list[list[int]]:
    """Return the rows of each path that is listed several times."""
    # Numbers are faster to count than the paths that they are hashes of.
    if drawn.n_unique() == len(drawn):
        return []
    rows = path.to_frame().with_row_index("row").filter(path.is_duplicated())
    return rows.group_by("path").agg("row").sort("path")["row"].to_list()


def _require_none_empty(sides: Sides, options: SplitOptions, name: str) -> None:
    """Refuse sides that no sample went to."""
    empty = [name for name, size in zip(sides.names, sides.counts(), strict=True) if not size]
    if empty:
        count = sides.groups
        what = f"{len(sides.numbers):,} samples" if count is None else f"{count:,} groups"
        kind = "fold" if options.folds is not None else "side"
        raise SourceError(
            f"{name}: {what} leave {format_count(len(empty), kind)} empty: "
            f"{format_some(empty)}; ask for fewer, or for a larger share"
        )


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
