"""Directories whose shards are not all there, as the run that writes them has not ended."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dsprep.errors import SourceError
from dsprep.storage.local import SCRATCH
from dsprep.storage.paths import entries, is_dir, is_file
from dsprep.storage.urls import is_s3

if TYPE_CHECKING:
    from dsprep.sources.reading import Source


def require_finished(source: Source, files: Sequence[str]) -> None:
    """Refuse directories of shards that hold the state of an unfinished run.

    A manifest comes last: where one is, all is there that it names.
    """
    for place in (source.root, *source.others):
        if not is_dir(place) or is_file(os.path.join(place, "manifest.json")):
            continue
        for name in _states(place):
            if not _same(os.path.join(place, name), source.own_state):
                some = os.path.join(place, "*" + os.path.splitext(files[0])[1])
                raise SourceError(
                    f"{place}: not all of it is there, as an unfinished run has left {name} there; "
                    "give that run's command again to finish it, or name the shards by a pattern "
                    f"to take those that are there: '{some}'"
                )


def _same(path: str, other: str) -> bool:
    return path == other or not is_s3(path) and os.path.realpath(path) == os.path.realpath(other)


def _states(place: str) -> Iterator[str]:
    """The hidden directories of runs, and of transfers, that have begun to write."""
    for entry in entries(place):
        if entry.name.startswith(".") and entry.name.endswith(SCRATCH) and entry.is_dir():
            notes = [each.name for each in entries(entry.path)]
            if any(note == "run.json" or note.endswith(".partial") for note in notes):
                yield entry.name
