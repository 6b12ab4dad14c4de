"""What splitting did: the lists, the classes' samples on their sides, what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dsprep.findings import Finding, Reject, count_skipped
from dsprep.lists.rows import note_unlabeled
from dsprep.splits.asked import Asked
from dsprep.splits.choosing import Sides, stratum_numbers
from dsprep.splits.facts import ClassFacts, class_facts, how_far_off
from dsprep.splits.leaks import Leak
from dsprep.splits.ratios import Ratios
from dsprep.splits.reading import Samples
from dsprep.units import format_count, format_some


class PlannedList(NamedTuple):
    """A list to write: its name, and the numbers of the sides that are in it."""

    name: str
    sides: Sequence[int]

    @property
    def file(self) -> str:
        """What the list is called."""
        return f"{self.name}.lst"


class ListFacts(NamedTuple):
    """A list of a split."""

    name: str  # of the side, or of the fold and its part
    path: str  # where the list is
    samples: int  # how many it has
    wanted: float | None  # how many its share is exactly; None where no shares were asked for


@dataclass(frozen=True)
class SplitReport:
    """What splitting did or, for a dry run, would do.

    Attributes:
        destination: As it was given.
        state: ``split``, ``already split`` (the lists were there), ``continued`` (a move that had
            been interrupted) or ``planned``.
        method: How sides were chosen, in words.
        samples: In all sides.
        lists: The lists.
        parts: What the sides are called; for folds, their numbers.
        classes: Each class's samples on these; empty where labels are not classes.
        off: By how many samples the side that is farthest from its exact share is off.
        groups: How many groups there are; None if none were asked for.
        seed: What chance depended on.
        leaks: Samples that show the same and are on different sides.
        rejects: Samples of the source that are on no side, and why.
        skipped: What lies in the source and is no sample.
        skipped_counts: How many files that is, by kind and extension.
        materialized: How files were placed in directories of the sides; None if they were not.
        notes: What else there is to say.
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


def lists_of(sides: Sides, in_folds: bool) -> list[PlannedList]:
    """The lists of a split: one for each side, or the two of each fold."""
    every = range(len(sides.names))
    if not in_folds:
        return [PlannedList(sides.names[side], [side]) for side in every]
    lists = []
    for fold in every:
        others = [side for side in every if side != fold]
        lists.append(PlannedList(f"fold-{sides.names[fold]}-train", others))
        lists.append(PlannedList(f"fold-{sides.names[fold]}-val", [fold]))
    return lists


def planned_report(
    asked: Asked,
    out: Path,
    samples: Samples,
    sides: Sides,
    leaks: Sequence[Leak],
    notes: Sequence[str],
) -> SplitReport:
    """What is to be said of a split that has been planned."""
    counts = sides.counts()
    numbers = stratum_numbers(samples)
    classes: list[ClassFacts] = []
    if numbers is not None:
        classes = class_facts(
            numbers, sides.numbers, len(counts), sides.ratios, samples.classes or ()
        )
    unlabeled = [] if samples.labeled else [note_unlabeled(samples.rows.height)]
    small = [each.name for each in classes if 0 in each.counts]
    if small:
        where = "on all sides" if asked.folds is None else "in all folds"
        what = format_count(len(small), "class")
        notes = [*notes, f"{what} too small to be {where}: {format_some(small)}"]
    return SplitReport(
        destination=str(out),
        state="planned",
        method=sides.method,
        samples=sum(counts),
        lists=[
            _list_facts(each, out, sides.ratios, counts)
            for each in lists_of(sides, asked.folds is not None)
        ],
        parts=sides.names,
        classes=classes,
        off=how_far_off(counts, sides.ratios),
        groups=sides.groups,
        seed=asked.seed,
        leaks=leaks,
        rejects=samples.rejects,
        skipped=samples.skipped,
        skipped_counts=count_skipped(samples.skipped),
        materialized=asked.materialize,
        notes=[*samples.notes, *unlabeled, *sides.notes, *notes],
        seconds=0.0,
    )


def _list_facts(
    each: PlannedList, out: Path, ratios: Ratios | None, counts: Sequence[int]
) -> ListFacts:
    wanted = None
    if ratios is not None:
        share = sum(ratios.parts[side] for side in each.sides)
        wanted = sum(counts) * share / ratios.whole
    samples = sum(counts[side] for side in each.sides)
    return ListFacts(each.name, str(out / each.file), samples, wanted)
