"""What a sync will do: which files to send, in which order, and which to delete. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dsprep.stores.base import Stored
from dsprep.syncing.compare import Verdict, at_first_sight
from dsprep.syncing.filters import Filters
from dsprep.syncing.ranks import RANKS, rank_of


class Pair(NamedTuple):
    """A file on both sides.

    Attributes:
        path: Its path, relative to both.
        source: As it is at the source.
        found: As it is at the destination; None if it is not there.
    """

    path: str
    source: Stored
    found: Stored | None


@dataclass
class SyncPlan:
    """What is to be done.

    Attributes:
        sends: Files to send, by what decided it.
        same: Paths of those that are there already, and what decided it.
        unsettled: Files whose contents have to be looked at.
        deletions: Paths of files that are to go, as the source has no such file.
    """

    sends: list[tuple[Pair, str]] = field(default_factory=list)
    same: list[tuple[str, str]] = field(default_factory=list)
    unsettled: list[Pair] = field(default_factory=list)
    deletions: list[str] = field(default_factory=list)

    def settle(self, pair: Pair, verdict: Verdict) -> None:
        """Note what was found out about a file."""
        if verdict.send:
            self.sends.append((pair, verdict.by))
        else:
            self.same.append((pair.path, verdict.by))

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
) -> SyncPlan:
    """Compare two sides by what their listings tell.

    Args:
        source: The files that are to be there, by path.
        found: The files that are there, by path.
        filters: Which take part; what does not is neither sent nor deleted.
        size_only: Whether equal sizes are enough.
        delete: Whether what the source has not is to go.
    """
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
            path for path in found if path not in source and filters.admit(path)
        )
    return plan


def publishable(manifests: Sequence[Pair], failed: Sequence[str]) -> list[Pair]:
    """The manifests that may be published: those of directories in which nothing failed."""
    return [
        pair
        for pair in manifests
        if not any(path.startswith(_directory_of(pair.path)) for path in failed)
    ]


def _directory_of(path: str) -> str:
    head, slash, _ = path.rpartition("/")
    return head + slash
