"""The report of a split: its lists, the classes on each side, leaks, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import polars as pl

from dsprep.findings import Finding, Reject, count_skipped
from dsprep.keywords import SplitOptions
from dsprep.lists.rows import note_unlabeled
from dsprep.splits.leaks import Leak
from dsprep.splits.ratios import Ratios
from dsprep.splits.samples import Samples
from dsprep.splits.sides import Sides, stratum_numbers
from dsprep.units import format_count, format_some


class ListFacts(NamedTuple):
    """A list of a split."""

    name: str  # of the side, or of the fold and its part
    path: str  # where the list is
    samples: int  # how many it has
    wanted: float | None  # how many its share is exactly; None where no shares were asked for


class ClassFacts(NamedTuple):
    """A class on the sides of a split."""

    name: str  # its name, or its number
    counts: tuple[int, ...]  # its samples on each side
    # by how many samples the count that is farthest from its exact share is off; 0 where no shares
    # were asked for
    off: float


@dataclass(frozen=True)
class SplitReport:
    """What splitting did or, for a dry run, would do.

    Attributes:
        destination: As it was given.
        state: ``split``, ``already split`` (the lists were there) or ``planned``.
        method: How sides were chosen, in words.
        samples: Number of samples on all sides.
        lists: The lists.
        parts: Names of the sides; for folds, their numbers.
        classes: The samples of each class on these; empty if labels are not classes.
        off: By how many samples the side that is farthest from its exact share is off.
        groups: Number of groups; None if none were asked for.
        seed: The random seed.
        leaks: Samples that show the same and are on different sides.
        rejects: Samples of the source that are on no side, and why.
        skipped: Files of the source that are not samples.
        skipped_counts: Number of these files, by kind and extension.
        materialized: How files were placed in directories of the sides; None if they were not.
        notes: Further remarks.
        seconds: How long it took.
    """

    destination: str
    state: str
    method: str
    samples: int
    lists: Sequence[ListFacts]
    parts: Sequence[str]
    classes: Sequence[ClassFacts]
    off: float
    groups: int | None
    seed: int
    leaks: Sequence[Leak]
    rejects: Sequence[Reject]
    skipped: Sequence[Finding]
    skipped_counts: Mapping[str, Mapping[str, int]]
    materialized: str | None
    notes: Sequence[str]
    seconds: float


def lists_of(sides: Sides, in_folds: bool) -> dict[str, Sequence[int]]:
    """Return the numbers of the sides in each list: one for each side, or two for each fold."""
    every = range(len(sides.names))
    if not in_folds:
        return {name: [side] for side, name in enumerate(sides.names)}
    lists: dict[str, Sequence[int]] = {}
    for fold, name in enumerate(sides.names):
        lists[f"fold-{name}-train"] = [side for side in every if side != fold]
        lists[f"fold-{name}-val"] = [fold]
    return lists


def planned_report(
    options: SplitOptions,
    out: Path,
    samples: Samples,
    sides: Sides,
    leaks: Sequence[Leak],
    notes: Sequence[str],
) -> SplitReport:
    """Return the report of a split that has been planned."""
    counts, in_folds = sides.counts(), options.folds is not None
    classes = _class_facts(samples, sides)
    unlabeled = [] if samples.labeled else [note_unlabeled(samples.rows.height)]
    small = [facts.name for facts in classes if 0 in facts.counts]
    if small:
        where = "in all folds" if in_folds else "on all sides"
        what = format_count(len(small), "class")
        notes = [*notes, f"{what} too small to be {where}: {format_some(small)}"]
    lists = []
    for name, numbers in lists_of(sides, in_folds).items():
        wanted = None
        if sides.ratios is not None:
            share = sum(sides.ratios.parts[side] for side in numbers)
            wanted = sum(counts) * share / sides.ratios.whole
        size = sum(counts[side] for side in numbers)
        lists.append(ListFacts(name, str(out / f"{name}.lst"), size, wanted))
    return SplitReport(
        destination=str(out),
        state="planned",
        method=sides.method,
        samples=sum(counts),
        lists=lists,
        parts=sides.names,
        classes=classes,
        off=_how_far_off(counts, sides.ratios),
        groups=sides.groups,
        seed=options.seed or 0,
        leaks=leaks,
        rejects=samples.rejects,
        skipped=samples.skipped,
        skipped_counts=count_skipped(samples.skipped),
        materialized=options.materialize,
        notes=[*samples.notes, *unlabeled, *sides.notes, *notes],
        seconds=0.0,
    )


def _class_facts(samples: Samples, sides: Sides) -> list[ClassFacts]:
    """Count the samples of each class on each side."""
    numbers, names = stratum_numbers(samples), samples.classes or ()
    if numbers is None:
        return []
    table = pl.DataFrame({"number": numbers, "side": sides.numbers})
    counted = table.group_by("number").agg(
        (pl.col("side") == side).sum().alias(str(side)) for side in range(len(sides.names))
    )
    return [
        ClassFacts(
            names[number] if 0 <= number < len(names) else str(number),
            tuple(counts),
            _how_far_off(counts, sides.ratios),
        )
        for number, *counts in counted.sort("number").iter_rows()
    ]


def _how_far_off(counts: Sequence[int], ratios: Ratios | None) -> float:
    """Return by how much the count that is farthest from its exact share is off."""
    if ratios is None:
        return 0.0
    total, whole = sum(counts), ratios.whole
    pairs = zip(counts, ratios.parts, strict=True)
    return max(abs(count * whole - total * part) for count, part in pairs) / whole
