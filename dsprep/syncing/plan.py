"""What a sync will do: which files to send, in which order, and which to delete. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dsprep.storage.base import Stored
from dsprep.syncing.compare import Verdict, at_first_sight
from dsprep.syncing.filters import Filters
from dsprep.syncing.ranks import RANKS, rank_of
from dsprep.syncing.sides import lies_in
from dsprep.units import format_some


class Pair(NamedTuple):
    """A file on both sides."""

    path: str  # its path, relative to both
    source: Stored  # as it is at the source
    found: Stored | None  # as it is at the destination; None if it is not there


@dataclass
class SyncPlan:
    """What is to be done."""

    sends: list[tuple[Pair, str]] = field(default_factory=list)  # files to send, by what decided it
    # paths of those that are there already, and what decided it
    same: list[tuple[str, str]] = field(default_factory=list)
    unsettled: list[Pair] = field(default_factory=list)  # files whose contents have to be looked at
    # paths of files that are to go, as the source has no such file
    deletions: list[str] = field(default_factory=list)
    # paths of those that stay all the same, as it is not sure that they may go
    spared: list[str] = field(default_factory=list)

    def settle(self, pair: Pair, verdict: Verdict) -> None:
        """Note what was found out about a file."""
        if verdict.send:
            self.sends.append((pair, verdict.by))
        else:
            self.same.append((pair.path, verdict.by))

    def spare(self, stays: Callable[[str], bool]) -> None:
        """Let files stay that would be deleted."""
        self.spared += filter(stays, self.deletions)
        self.deletions = [path for path in self.deletions if not stays(path)]

    @property
    def replaced(self) -> list[str]:
        """Paths of the files at the destination that get another content."""
        return [pair.path for pair, _ in self.sends if pair.found is not None]

    @property
    def bytes(self) -> int:
        """All that is to be sent."""
        return sum(pair.source.size for pair, _ in self.sends)

    def by_rank(self) -> list[list[Pair]]:
        """The files to send, rank by rank; in each the largest first, so that all end together."""
        ranks: list[list[Pair]] = [[] for _ in RANKS]
        for pair, _ in self.sends:
            ranks[rank_of(pair.path)].append(pair)
        for pairs in ranks:
            pairs.sort(key=lambda pair: (-pair.source.size, pair.path))
        return ranks


def plan_sync(
    source: Mapping[str, Stored],
    found: Mapping[str, Stored],
    filters: Filters,
    *,
    size_only: bool = False,
    delete: bool = False,
    named: Collection[str] = (),
    spared: Collection[str] = (),
) -> SyncPlan:
    """Compare two sides by what their listings tell."""
    plan = SyncPlan()
    for path, file in source.items():
        if filters.admit(path):
            pair = Pair(path, file, found.get(path))
            verdict = at_first_sight(file, pair.found, size_only)
            if verdict is None:
                plan.unsettled.append(pair)
            else:
                plan.settle(pair, verdict)
    if delete:
        plan.deletions = sorted(
            path
            for path in found
            if path not in source and path not in named and filters.admit(path)
        )
        plan.spare(lambda path: lies_in(path, spared))
    return plan


def why_not(path: str, named: Iterable[str], there: Collection[str], failed: Iterable[str]) -> str:
    """Why a manifest is not to be published now; empty if it is."""
    if any(each.startswith(_directory_of(path)) for each in failed):
        return "is not published, as not all that belongs to it is there"
    missing = sorted(each for each in named if each not in there)
    if missing:
        return (
            f"is not published, as it names {format_some(missing)}: neither sent now, nor at the "
            "destination"
        )
    return ""


def _directory_of(path: str) -> str:
    head, slash, _ = path.rpartition("/")
    return head + slash
