"""``status``: what is there of a data set that is being written, in parts or not."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from dsprep import keywords as of
from dsprep.declared import called_with
from dsprep.errors import DestinationError
from dsprep.formats import format_of_file
from dsprep.plan.destination import parse_destination
from dsprep.plan.saved import plan_facts
from dsprep.run.part import Part
from dsprep.run.state import finished_manifest
from dsprep.run.target import PLAN, target_of


@dataclass(frozen=True)
class StatusReport:
    """What is there of a data set."""

    destination: str  # as it was given
    state: str  # `complete` or `unfinished`
    shards: int | None  # how many there will be; None if a run without parts does not say
    done: int  # how many are there
    samples: int  # in those
    missing: Sequence[str]  # the parts that have shards left, as `3/8`
    commands: Sequence[str]  # those that finish the data set


@called_with(of.StatusOptions)
def status(options: of.StatusOptions) -> StatusReport:
    """Say what is there of a data set, and which commands finish it.

    ``dest`` is what the command that writes it was given: a directory, a file, or a place on S3.

    Returns:
        The report. While parts of a run are missing, it names these.

    Raises:
        DestinationError: If nothing is there, or it cannot be read.
    """
    path = str(options.dest)
    destination, _ = parse_destination(path, None if format_of_file(path) else "webdataset")
    target = target_of(destination)
    if (manifest := finished_manifest(target, "remove it")) is not None:
        count = len(manifest.shards)
        return StatusReport(path, "complete", count, count, manifest.samples, (), ())
    done = dict(target.receipts())
    samples = sum(each.samples for each in done.values())
    if (data := target.find(target.notes + PLAN)) is None:
        if (run := target.noted_run()) is None:
            raise DestinationError(f"{path}: holds no data set of dsprep, and no unfinished run")
        commands = _command_lines(run.get("command"))
        return StatusReport(path, "unfinished", None, len(done), samples, (), commands)
    names, parts, words = plan_facts(data, destination.url(target.notes + PLAN))
    missing = [
        f"{number}/{parts}"
        for number in range(parts)
        if not done.keys() >= {*Part(number, parts).share(names)}
    ]
    # Without missing parts, any of them finds that all shards are there, and writes the manifest.
    commands = _command_lines(words, missing or [f"0/{parts}"])
    return StatusReport(path, "unfinished", len(names), len(done), samples, missing, commands)


def _command_lines(words: object, parts: Sequence[str] = ()) -> Sequence[str]:
    """Return the command that a run has noted, for each part; nothing if it has noted none."""
    if not words or not isinstance(words, list):
        return ()
    line = shlex.join(["dsprep", *map(str, words)])
    return [f"{line} --part {part}" for part in parts] or [line]
