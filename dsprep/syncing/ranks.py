"""The order in which files are published, so that nothing is named before it is there.

Shards come first, what indexes them next, the manifest last: who finds a manifest finds all that it
names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

SHARDS, INDEXES, MANIFEST = range(3)
RANKS = (SHARDS, INDEXES, MANIFEST)

_MANIFEST_NAME = "manifest.json"

_INDEX_SUFFIXES = (".idx", ".index", ".lst", ".manifest")
_INDEX_NAMES = ("classes.txt", "rejects.jsonl", "skipped.jsonl", "files.jsonl", "wids.json")


def rank_of(path: str) -> int:
    """When a file is published, by its name."""
    name = path.rpartition("/")[2]
    if is_manifest(name):
        return MANIFEST
    is_index = name.endswith((*_INDEX_SUFFIXES, *(f".{each}" for each in _INDEX_NAMES)))
    return INDEXES if is_index or name in _INDEX_NAMES else SHARDS


def is_manifest(path: str) -> bool:
    """Whether this is the name of a data set's manifest."""
    name = path.rpartition("/")[2]
    return name == _MANIFEST_NAME or name.endswith("." + _MANIFEST_NAME)


def outdated_manifests(
    found: Iterable[str], sent: Iterable[str], names: Mapping[str, frozenset[str]]
) -> list[str]:
    """The manifests that would tell of other shards while these are being replaced."""
    changed = set(sent)
    return [path for path in found if not changed.isdisjoint(names.get(path, frozenset()))]
