"""Which files are sent, in which order, and which are deleted. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate

from dsprep.dataset.names import is_manifest
from dsprep.errors import DestinationError
from dsprep.storage.stored import Stored
from dsprep.syncing.compare import Verdict, by_listing
from dsprep.syncing.options import Rule, SyncOptions
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some

# Who finds a manifest must find all that it names: shards are published first, then their indexes,
# manifests last.
SHARDS, INDEXES, MANIFEST = range(3)

_INDEX_SUFFIXES = (".idx", ".index", ".lst", ".manifest")
_INDEX_NAMES = (
    *("classes.txt", "rejects.jsonl", "skipped.jsonl", "files.jsonl", "wids.json"),
    *(".info.json", "dataset.yaml", "split.yaml"),  # of Megatron-Energon, in .nv-meta
)


def rank_of(path: str) -> int:
    """Return when a file is published, by its name."""
    name = path.rpartition("/")[2]
    if is_manifest(name):
        return MANIFEST
    is_index = name.endswith((*_INDEX_SUFFIXES, *(f".{end}" for end in _INDEX_NAMES)))
    return INDEXES if is_index or name in _INDEX_NAMES else SHARDS


class Filters:
    """Which files take part: as with AWS's command line, the last rule that matches wins."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        matches = (re.compile(translate(rule.pattern)).match for rule in reversed(rules))
        self._last_first = [*zip(reversed(rules), matches, strict=True)]

    def admit(self, path: str) -> bool:
        """Whether a path, relative to its side, takes part; all do that no rule matches."""
        for rule, matches in self._last_first:
            if matches(path):
                return rule.include
        return True

    def may_admit(self, unseen: str) -> bool:
        """Whether something below a directory that could not be listed may take part."""
        # Only a pattern that ends with `*`, such as `tmp/*`, excludes all of it.
        for rule, matches in self._last_first:
            if rule.include:
                return True
            if rule.pattern.endswith("*") and matches(unseen):
                return False
        return True


class Pair(NamedTuple):
    """A file on both sides."""

    path: str  # its path, relative to both
    source: Stored  # the file at the source
    found: Stored | None  # the file at the destination; None if it is not there


@dataclass
class SyncPlan:
    """What a sync will do."""

    sends: list[tuple[Pair, str]] = field(default_factory=list)  # files to send, and what decided
    same: dict[str, str] = field(default_factory=dict)  # what decided, by path of files there
    undecided: list[Pair] = field(default_factory=list)  # files whose contents must be compared
    deletions: list[str] = field(default_factory=list)  # paths that the source does not have
    # paths that would be deleted, but are kept to be safe
    spared: list[str] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)  # manifests to remove before files go

    def decide(self, pair: Pair, verdict: Verdict) -> None:
        if verdict.send:
            self.sends.append((pair, verdict.by))
        else:
            self.same[pair.path] = verdict.by

    def limit_deletions(self, place: str, blind: bool, most: int | None) -> list[str]:
        """Leave out what may not be deleted; return notes about that."""
        # `blind` says that something could not be listed, `most` is --max-delete.
        notes = []
        if self.spared:
            notes.append(
                f"not deleted at the destination: {format_count(len(self.spared), 'file')} "
                f"({format_some(self.spared)}) that the source does not have: they are behind "
                "links, where part of the source was left out, or named by a manifest that stays"
            )
        if blind and self.deletions:
            notes.append(self.nothing_deleted())
            self.deletions = []
        if most is not None and len(self.deletions) > most:
            raise DestinationError(
                f"{place}: {format_count(len(self.deletions), 'file')} would be deleted "
                f"({format_some(self.deletions)}), and --max-delete allows {most}; nothing has "
                "been done"
            )
        return notes

    def nothing_deleted(self) -> str:
        return (
            "nothing is deleted at the destination "
            f"({format_count(len(self.deletions), 'file')}), because something failed or could "
            "not be listed"
        )

    def spare(self, places: Collection[str]) -> None:
        self.spared += [path for path in self.deletions if lies_in(path, places)]
        self.deletions = [path for path in self.deletions if not lies_in(path, places)]

    @property
    def replaced(self) -> list[Pair]:
        """The files at the destination that get other contents."""
        return [pair for pair, _ in self.sends if pair.found is not None]

    @property
    def bytes(self) -> int:
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
    options: SyncOptions,
    *,
    named: Collection[str] = (),
    spared: Collection[str] = (),
    etags: bool = True,
) -> SyncPlan:
    """Compare two sides by their listings."""
    # `named` are paths that manifests of the source name, `spared` places that the source does not
    # show; nothing is deleted there. `etags` says whether the ETags of both tell the content.
    plan, filters = SyncPlan(), Filters(options.rules)
    for path, file in source.items():
        if filters.admit(path):
            pair = Pair(path, file, found.get(path))
            verdict = by_listing(file, pair.found, options.size_only, etags)
            if verdict is None:
                plan.undecided.append(pair)
            else:
                plan.decide(pair, verdict)
    if options.delete:
        gone = found.keys() - source.keys() - set(named)
        plan.deletions = sorted(filter(filters.admit, gone))
        plan.spare(spared)
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


def lies_in(path: str, places: Collection[str]) -> bool:
    """Return whether a path is one of some places, or below one."""
    while path and path not in places:
        path = path.rpartition("/")[0]
    return bool(path)
