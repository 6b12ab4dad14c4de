"""What ``inspect`` found: the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from dsprep.findings import Finding, Reject
from dsprep.frozen import Frozen
from dsprep.inspecting.figures import SideFigures, Suspect
from dsprep.inspecting.samples import SampleShown
from dsprep.printable import json_values
from dsprep.tuples import NamedTuple
from dsprep.units import format_count

if TYPE_CHECKING:
    import polars as pl


class Shown(NamedTuple):
    """A sample, as it is shown."""

    data: int  # the number of its data set
    row: int  # where it is in that
    side: str  # name of the side, or of the data set
    path: str
    label: str  # its labels, or the classes of its objects, in words; empty without any

    def to_json(self) -> dict[str, Any]:
        return json_values({"side": self.side, "path": self.path, "label": self.label})


class Alike(NamedTuple):
    """Samples that show the same."""

    kind: str  # `same` (equal bytes) or `near` (alike, or equal bytes and others alike)
    is_leak: bool  # whether the copies are on different sides
    differ: bool  # whether their labels differ
    samples: Sequence[Shown]  # the best one to keep first

    def varied(self) -> list[Shown]:
        """Return the samples: first one of each side, and one of each label."""
        firsts: dict[tuple[str, str], Shown] = {}
        for name in ("side", "label"):
            for each in self.samples:
                firsts.setdefault((name, getattr(each, name)), each)
        return [*dict.fromkeys([*firsts.values(), *self.samples])]

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "kind": self.kind,
                "is_leak": self.is_leak,
                "differ": self.differ,
                "samples": self.samples,
            }
        )


def notes_on(table: pl.DataFrame) -> list[str]:
    """Return a note on measured samples that have no image, if there are such."""
    without = table["bytes"].null_count() - table["reason"].count()
    return [f"{format_count(without, 'sample')} without an image"] if without else []


def rejects_in(table: pl.DataFrame) -> list[Reject]:
    """Return the measured samples that cannot be read."""
    bad = table.filter(table["reason"].is_not_null()).select("path", "reason")
    return [Reject(path, why) for path, why in bad.iter_rows()]


def count_copies(sets: Sequence[Alike]) -> str:
    """Return how many copies there are, and what is wrong with them, for people."""
    copies = sum(len(each.samples) - 1 for each in sets)
    parts = [f"{copies:,} in {format_count(len(sets), 'set')}"]
    for what, found in (("on several sides", "is_leak"), ("with different labels", "differ")):
        if number := sum(getattr(each, found) for each in sets):
            parts.append(f"{number:,} {what}")
    return ", ".join(parts)


def sets_of(found: pl.DataFrame) -> list[Alike]:
    """Return the sets of a table of :func:`find_copies` with a column ``data``, leaks first."""
    sets = []
    for own in found.partition_by("set", maintain_order=True):
        kind = "near" if own["distance"].count() else "same"
        shown = [Shown(*each) for each in own.select(Shown._fields).iter_rows()]
        sides, labels = (own[name].n_unique() for name in ("side", "label"))
        sets.append(Alike(kind, sides > 1, labels > 1, shown))
    return sorted(sets, key=lambda each: (not each.is_leak, not each.differ))


class InspectReport(Frozen):
    """What data looks like."""

    data: Sequence[str]  # the data sets, as they were given
    output: str | None  # the page or table that was written, if any
    samples: int  # number of samples in the data sets
    looked_at: int  # number of samples that were measured
    decoded: bool  # whether their images were decoded
    hashed: bool  # whether their images were compared by what they show
    fields: Sequence[Sequence[str]]  # name, type, role and origin of each field of the samples
    sides: Sequence[SideFigures]
    alike: Sequence[Alike]  # leaks first
    suspects: Sequence[Suspect]
    rejects: Sequence[Reject]  # samples, or images, that cannot be read
    skipped: Sequence[Finding]  # files in the data sets that are no samples
    shown: Sequence[SampleShown]  # the samples that were asked for
    notes: Sequence[str]
    seconds: float  # how long it took
    # all samples that were looked at, as measured, with the number of their data set in `data`
    table: pl.DataFrame = field(compare=False, repr=False, kw_only=True)

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "data": self.data,
                "output": self.output,
                "samples": self.samples,
                "looked_at": self.looked_at,
                "decoded": self.decoded,
                "hashed": self.hashed,
                "fields": self.fields,
                "sides": self.sides,
                "alike": self.alike,
                "suspects": self.suspects,
                "rejects": self.rejects,
                "skipped": self.skipped,
                "shown": self.shown,
                "notes": self.notes,
                "seconds": self.seconds,
            }
        )
