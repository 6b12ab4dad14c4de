"""``status``: what is there of a data set that is being written, in parts or not."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from dsprep.dataset.find import is_of
from dsprep.dataset.manifest import Manifest, single_of
from dsprep.dataset.names import manifest_beside
from dsprep.declared import called_with
from dsprep.errors import DestinationError
from dsprep.formats import format_of_file
from dsprep.frozen import Frozen
from dsprep.opening import GivenPath
from dsprep.plan.destination import Destination, parse_destination
from dsprep.plan.saved import plan_facts
from dsprep.printable import json_values
from dsprep.run.finished import damages, finished_manifest
from dsprep.run.folder import receipts_of, size_of_shard
from dsprep.run.notes import PLAN, Target
from dsprep.run.part import Part
from dsprep.run.target import target_of
from dsprep.storage.files import exists, is_dir
from dsprep.storage.local import is_locked
from dsprep.verifying.options import StatusOptions
from dsprep.verifying.report import Problem


class StatusReport(Frozen):
    """The report of ``status``: the state of a data set, and how many shards are complete."""

    destination: str  # the destination that the user gave
    state: str  # `complete`, `damaged` or `unfinished`
    shards: int | None  # how many there will be; None if a run without parts does not say
    done: int  # number of shards that exist with the size that they were written with
    samples: int  # number of samples in the complete shards
    bytes: int  # size of the complete shards in bytes
    missing: Sequence[str]  # the parts that have shards left, as `3/8`
    problems: Sequence[Problem]  # files that are missing, or have another size
    commands: Sequence[str]  # the commands that finish the data set
    running: bool = False  # whether a run on this machine is writing there

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "destination": self.destination,
                "state": self.state,
                "shards": self.shards,
                "done": self.done,
                "samples": self.samples,
                "bytes": self.bytes,
                "missing": self.missing,
                "problems": self.problems,
                "commands": self.commands,
                "running": self.running,
            }
        )


@called_with(StatusOptions)
def status(options: StatusOptions) -> StatusReport:
    """Say what is there of a data set, and which commands finish it.

    ``dest`` is what the command that writes it was given: a directory, a file, or a place on S3.

    Returns:
        The report. While parts of a run are missing, it names these.

    Raises:
        DestinationError: If nothing is there, or it cannot be read.
    """
    path = str(options.dest)
    targets = []
    for target in _targets(path):
        manifest = finished_manifest(target, "remove it")
        if manifest is not None and is_of(manifest, single_of(target.manifest)):
            return _status_of_finished(path, target, manifest)
        targets.append(target)
    target = next((each for each in targets[1:] if each.noted_run() is not None), targets[0])
    destination = target.destination
    done = receipts_of(target)
    running = is_locked(destination.scratch / "lock")
    samples = sum(each.samples for each in done.values())
    size = sum(size_of_shard(target, name, each) for name, each in done.items())
    if (data := target.find(target.notes + PLAN)) is None:
        if (run := target.noted_run()) is None:
            is_there = exists(path) or is_dir(path)
            what = "holds no data set of dsprep, and no unfinished run"
            raise DestinationError(f"{path}: {what if is_there else 'does not exist'}")
        commands = _command_lines(run.get("command"))
        return StatusReport(
            path, "unfinished", None, len(done), samples, size, (), (), commands, running
        )
    told = plan_facts(data, destination.url(target.notes + PLAN))
    missing = [
        f"{number}/{told.parts}"
        for number in range(told.parts)
        if not done.keys() >= {*Part(number, told.parts).share(told.shards)}
    ]
    # Without missing parts, any of them finds that all shards are there, and writes the manifest.
    commands = _command_lines(told.words, missing or [f"0/{told.parts}"])
    return StatusReport(
        *(path, "unfinished", len(told.shards), len(done), samples, size, missing, (), commands),
        running,
    )


def _targets(path: str) -> Iterator[Target]:
    """Yield the targets that a path may name: a shard, a directory of shards, or a folder."""
    destination, _ = parse_destination(path, None if format_of_file(path) else "webdataset")
    yield target_of(destination)
    beside = manifest_beside(path)
    if destination.single or not beside:
        return
    # The notes of a folder, and its manifest, are where those of shards alone are.
    if destination.remote is None:
        above, name = os.path.split(beside)
        yield target_of(Destination(GivenPath(above), single_of(name)))
    else:
        yield target_of(parse_destination(path, "webdataset", apart=True)[0])


def _status_of_finished(path: str, target: Target, manifest: Manifest) -> StatusReport:
    """Compare the files of a finished data set with its manifest, by name and size."""
    wrong = dict(damages(target, manifest))
    whole = [shard for shard in manifest.shards if shard.name not in wrong]
    state = "damaged" if wrong else "complete"
    problems = [Problem(name, why) for name, why in wrong.items()]
    if not manifest.shards:  # a folder: nothing tells the samples of some of its files
        samples, size = (0, 0) if wrong else (manifest.samples, manifest.bytes)
    else:
        samples = sum(shard.samples for shard in whole)
        size = sum(shard.bytes for shard in whole)
    return StatusReport(
        path, state, len(manifest.shards), len(whole), samples, size, (), problems, ()
    )


def _command_lines(words: object, parts: Sequence[str] = ()) -> Sequence[str]:
    """Return the command that a run has noted, for each part; nothing if it has noted none."""
    if not words or not isinstance(words, list):
        return ()
    line = shlex.join(["dsprep", *map(str, words)])
    return [f"{line} --part {part}" for part in parts] or [line]
