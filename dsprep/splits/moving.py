"""The journal of files that are being moved: after a kill it tells what was to go where."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsprep.errors import DestinationError
from dsprep.splits.materialize import Place
from dsprep.storage.local import (
    LARGEST_TABLE,
    destination_errors,
    publish,
    read_whole,
    sync_directory,
)

_JOURNAL = ".split.moves"


@dataclass(frozen=True)
class Journal:
    """A move that has begun."""

    command: Mapping[str, Any]  # what was asked, as JSON has it
    report: Mapping[str, Any]  # what the first run has to say, as JSON has it
    places: Sequence[Place]  # what goes where; no path has a tab or a line break


def write_journal(out: Path, journal: Journal) -> None:
    """Note what is about to be moved, before the first file is."""
    begun = out / (_JOURNAL + ".partial")
    with destination_errors(begun):
        begun.unlink(missing_ok=True)
        with open(begun, "x", encoding="utf-8") as file:
            file.write(json.dumps([journal.command, journal.report]) + "\n")
            file.writelines(f"{path}\t{target}\n" for path, target in journal.places)
        publish(begun, out / _JOURNAL)
        sync_directory(out)


def read_journal(out: Path, command: Mapping[str, Any]) -> Journal | None:
    """The move that was interrupted; None if none was."""
    path = out / _JOURNAL
    if not path.exists():
        return None
    try:
        first, *lines = read_whole(path, LARGEST_TABLE).decode().removesuffix("\n").split("\n")
        begun, report = json.loads(first)
        journal = Journal(begun, dict(report), [_place(line) for line in lines])
    except (OSError, ValueError, TypeError):
        raise DestinationError(
            f"{path}: is not what dsprep left there; look at it, delete it"
        ) from None
    if begun != json.loads(json.dumps(command)):
        raise DestinationError(
            f"{out}: an interrupted move has to be finished first; give the same command again"
        )
    return journal


def remove_journal(out: Path) -> None:
    """All files are in their places."""
    with destination_errors(out):
        os.unlink(out / _JOURNAL)


def _place(line: str) -> Place:
    path, target = line.split("\t")
    for each in (path, target):
        if each.startswith("/") or "\0" in each or ".." in each.split("/"):
            raise ValueError(each)
    return path, target
