"""Which files are sent, in which order, and which are deleted. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from functools import cached_property
from typing import NamedTuple

from dsprep.dataset.manifest import MANIFEST as MANIFEST_NAME
from dsprep.errors import DestinationError
from dsprep.keywords import Rule
from dsprep.storage.store import Stored
from dsprep.syncing.compare import Verdict, by_listing
from dsprep.syncing.sides import lies_in
from dsprep.units import format_count, format_some

# Who finds a manifest must find all that it names: shards are published first, then their indexes,
# manifests last.
SHARDS, INDEXES, MANIFEST = range(3)

_INDEX_SUFFIXES = (".idx", ".index", ".lst", ".manifest")
_INDEX_NAMES = ("classes.txt", "rejects.jsonl", "skipped.jsonl", "files.jsonl", "wids.json")


def rank_of(path: str) -> int:
    """Return when a file is published, by its name."""
    name = path.rpartition("/")[2]
    if is_manifest(name):
        return MANIFEST
    is_index = name.endswith((*_INDEX_SUFFIXES, *(f".{end}" for end in _INDEX_NAMES)))
    return INDEXES if is_index or name in _INDEX_NAMES else SHARDS


def is_manifest(path: str) -> bool:
    """Whether this is the name of a data set's manifest."""
    name = path.rpartition("/")[2]
    return name == MANIFEST_NAME or name.endswith("." + MANIFEST_NAME)


@dataclass(frozen=True)
class Filters:
    """Which files take part: as with AWS's command line, the last rule that matches wins."""

    rules: Sequence[Rule] = ()  # in the order in which they were given

    @cached_property
    def _last_first(self) -> list[tuple[Rule, re.Pattern[str]]]:
        return [(rule, re.compile(translate(rule.pattern))) for rule in reversed(self.rules)]

    def admit(self, path: str) -> bool:
        """Whether a path, relative to its side, takes part; all do that no rule matches."""
        for rule, pattern in self._last_first:
            if pattern.match(path):
                return rule.include
        return True

    def may_admit(self, unseen: str) -> bool:
        """Whether something below a directory that could not be listed may take part.

        Only a pattern that ends with ``*``, such as ``tmp/*``, excludes all of it.
        """
        for rule, pattern in self._last_first:
            if rule.include:
                return True
            if rule.pattern.endswith("*") and pattern.match(unseen):
                return False
        return True


class Pair(NamedTuple):
    """A file on both sides."""

    path: str  # its path, relative to both
    source: Stored  # as it is at the source
    found: Stored | None  # as it is at the destination; None if it is not there


@dataclass
class SyncPlan:
    """What is to be done."""

    sends: list[tuple[Pair, str]] = field(default_factory=list)  # files to send, and what decided
    same: dict[str, str] = field(default_factory=dict)  # what decided, by path of files there
    undecided: list[Pair] = field(default_factory=list)  # files whose contents must be compared
    deletions: list[str] = field(default_factory=list)  # paths that the source does not have
    spared: list[str] = field(default_factory=list)  # of those, paths that are kept to be safe
    withdrawn: list[str] = field(default_factory=list)  # manifests to remove before files go

    def decide(self, pair: Pair, verdict: Verdict) -> None:
        """Note what was found out about a file."""
        if verdict.send:
            self.sends.append((pair, verdict.by))
        else:
            self.same[pair.path] = verdict.by

    def spare(self, stays: Callable[[str], bool]) -> None:
        """Keep files that would be deleted."""
        self.spared += filter(stays, self.deletions)
        self.deletions = [path for path in self.deletions if not stays(path)]

    @property
    def replaced(self) -> list[Pair]:
        """The files at the destination that get other contents."""
        return [pair for pair, _ in self.sends if pair.found is not None]

    @property
    def bytes(self) -> int:
        """The size of all that is to be sent."""
        return sum(pair.source.size for pair, _ in self.sends)

    def by_rank(self) -> list[list[Pair]]:
        """The files to send, rank by rank; in each the largest first, so that all end together."""
        ranks: list[list[Pair]] = [[], [], []]
        for pair, _ in sorted(self.sends, key=lambda send: (-send[0].source.size, send[0].path)):
            ranks[rank_of(pair.path)].append(pair)
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
    """Compare two sides by their listings.

    ``named`` are paths that manifests of the source name, ``spared`` places that the source does
    not show; nothing is deleted there.
    """
    plan = SyncPlan()
    for path, file in source.items():
        if filters.admit(path):
            pair = Pair(path, file, found.get(path))
            verdict = by_listing(file, pair.found, size_only)
            if verdict is None:
                plan.undecided.append(pair)
            else:
                plan.decide(pair, verdict)
    if delete:
        gone = found.keys() - source.keys() - set(named)
        plan.deletions = sorted(filter(filters.admit, gone))
        plan.spare(lambda path: lies_in(path, spared))
    return plan


def why_not(path: str, named: Iterable[str], there: Collection[str], failed: Iterable[str]) -> str:
    """Return why a manifest must not be published now; empty if it may."""
    directory = "".join(path.rpartition("/")[:2])
    if any(name.startswith(directory) for name in failed):
        return "is not published, because files beside it failed"
    missing = sorted(name for name in named if name not in there)
    if missing:
        return (
            f"is not published, because it names {format_some(missing)}: neither sent now, nor at "
            "the destination"
        )
    return ""


def limit_deletions(plan: SyncPlan, place: str, blind: bool, most: int | None) -> list[str]:
    """Take what may not be deleted out of a plan; return notes about that.

    ``blind`` says that something could not be listed, ``most`` is --max-delete.
    """
    notes = []
    if plan.spared:
        notes.append(
            f"not deleted at the destination: {format_count(len(plan.spared), 'file')} "
            f"({format_some(plan.spared)}) that the source does not have: they are behind links, "
            "where part of the source was left out, or named by a manifest that stays"
        )
    if blind and plan.deletions:
        notes.append(nothing_deleted(plan.deletions))
        plan.deletions = []
    if most is not None and len(plan.deletions) > most:
        raise DestinationError(
            f"{place}: {format_count(len(plan.deletions), 'file')} would be deleted "
            f"({format_some(plan.deletions)}), and --max-delete allows {most}; nothing has been "
            "done"
        )
    return notes


def nothing_deleted(paths: Sequence[str]) -> str:
    """Say that files stay because something else went wrong."""
    return (
        f"nothing is deleted at the destination ({format_count(len(paths), 'file')}), because "
        "something failed or could not be listed"
    )
