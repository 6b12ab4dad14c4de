"""What ``inspect`` found: the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dsprep.findings import Finding, Reject
from dsprep.inspecting.figures import SideFigures, Suspect
from dsprep.inspecting.samples import SampleShown

if TYPE_CHECKING:
    import polars as pl


class Shown(NamedTuple):
    """A sample, as it is shown."""

    data: int  # the number of its data set
    row: int  # where it is in that
    side: str  # as in `SideFigures`
    path: str
    label: str  # its labels, or the classes of its objects, in words; empty without any


class Alike(NamedTuple):
    """Samples that show the same."""

    kind: str  # `same` (equal bytes) or `near` (alike, or equal bytes and others alike)
    is_leak: bool  # whether they are on different sides
    differ: bool  # whether their labels differ
    samples: Sequence[Shown]


@dataclass(frozen=True)
class InspectReport:
    """What data looks like."""

    data: Sequence[str]  # the data sets, as they were given
    samples: int  # how many they have
    looked_at: int  # how many of them were looked at
    decoded: bool  # whether their images were decoded
    hashed: bool  # whether their images were compared by what they show
    fields: Sequence[Sequence[str]]  # of the samples: the name, type, role and what told it of each
    sides: Sequence[SideFigures]
    alike: Sequence[Alike]  # leaks first
    suspects: Sequence[Suspect]
    rejects: Sequence[Reject]  # samples, or images, that cannot be read
    skipped: Sequence[Finding]  # what lies in the data and is no sample
    shown: Sequence[SampleShown]  # the samples that were asked for
    notes: Sequence[str]
    output: str | None  # the page or the table that was written, if it was
    seconds: float  # how long it took
    # all samples that were looked at, as measured, with the number of their data set in `data`
    table: pl.DataFrame = field(compare=False, repr=False, kw_only=True)
