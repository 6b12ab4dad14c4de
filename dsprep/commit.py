"""The two ends of a run at its destination: may it begin there, and what makes it complete."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dsprep.errors import DestinationError, SourceError
from dsprep.findings import Reject
from dsprep.formats.base import ShardFacts
from dsprep.manifest import FileReceipt, Manifest
from dsprep.planning import Plan
from dsprep.run import Outcome
from dsprep.state import RunState, differences, remove_data_set
from dsprep.stores.local import checksum, free_bytes, sync_directory, write_whole
from dsprep.units import format_size


def identity_of(plan: Plan) -> dict[str, Any]:
    """What tells this command from others; the times of files end up in ``run.json`` only."""
    packing = plan.packing
    return {
        **json.loads(json.dumps(packing.options())),
        "name": packing.name,
        "source": plan.catalog.digest(),
        "file times": plan.catalog.mtimes_digest(),
    }


def require_same(plan: Plan, finished: Manifest, identity: dict[str, Any]) -> None:
    """Accept a destination that holds what this command would write.

    Raises:
        DestinationError: If it holds something else, or not all of it.
    """
    packing = plan.packing
    known = {**finished.options, "name": finished.name, "source": finished.source}
    other = differences({**known, "file times": identity["file times"]}, identity)
    if other:
        raise DestinationError(
            f"{packing.destination}: holds a data set that another command wrote ({other}); "
            "give --overwrite to replace it, or another destination"
        )
    directory = packing.destination.directory
    missing = [file.name for file in finished.every_file() if not (directory / file.name).exists()]
    if missing:
        raise DestinationError(
            f"{directory / missing[0]}: is in the manifest but not on the disk, as "
            f"{len(missing):,} files are; give --overwrite to pack again"
        )


def begin(plan: Plan, state: RunState, overwrite: bool) -> None:
    """Begin a run, or go on with it: refuse before the first byte what would end badly.

    Args:
        plan: What is to be written.
        state: What is at the destination.
        overwrite: Whether to replace what another command left or finished there.

    Raises:
        DestinationError: If the destination holds something else, or the disk is too small.
    """
    destination = plan.packing.destination
    if state.other and not overwrite:
        raise DestinationError(
            f"{destination}: an unfinished run of another command is there ({state.other}); "
            "give that command again to finish it, or --overwrite to start over"
        )
    if overwrite and (state.other or destination.manifest.exists()):
        state.forget()
    remove_data_set(destination, overwrite)
    _refuse_files_of_others(plan, state.resumed or overwrite)
    missing = [shard for shard in plan.shards if shard.name not in state.done]
    needed, free = sum(shard.bytes for shard in missing), free_bytes(destination.directory)
    if needed > free and not plan.estimated:
        raise DestinationError(
            f"{destination.directory}: {format_size(needed)} are to be written, but only "
            f"{format_size(free)} are free on its disk"
        )
    state.begin()


def _refuse_files_of_others(plan: Plan, may_replace: bool) -> None:
    """Refuse to write over a file that is not known to be this command's."""
    directory, source = plan.packing.destination.directory, plan.packing.source
    for path in filter(Path.exists, (directory / name for name in plan.files())):
        if any(read and path.samefile(read) for read in (source.list, source.table)):
            raise DestinationError(f"{path}: is what is to be packed; choose another destination")
        is_classes = path.name.endswith("classes.txt") and path.read_bytes() == _classes(plan)
        if not (may_replace or is_classes):
            raise DestinationError(
                f"{path}: is there already, and no manifest says what it is; "
                "give --overwrite to replace it, or another destination"
            )


def commit(plan: Plan, state: RunState, outcome: Outcome, identity: dict[str, str]) -> Manifest:
    """Write what stands beside the shards, and last of all the manifest."""
    packing, destination = plan.packing, plan.packing.destination
    rejects = [*plan.lost, *outcome.rejects]
    samples = sum(shard.samples for shard in outcome.shards)
    if not samples:
        state.forget()
        first = rejects[0]
        raise SourceError(
            f"{packing.source.root}: all {len(rejects):,} samples were rejected, the first "
            f"one being {first.path}: {first.reason}"
        )
    files: list[FileReceipt] = []

    def write(name: str, data: bytes) -> None:
        state.announce(name)
        write_whole(destination.directory / name, data, state.partial)
        files.append(FileReceipt(name, len(data), checksum(data)))

    if plan.catalog.classes:
        write(destination.companion("classes.txt").name, _classes(plan))
    facts = [ShardFacts(shard.name, shard.samples, shard.bytes) for shard in outcome.shards]
    for name, data in packing.layout.dataset_index(packing.name, facts).items():
        write(name, data)
    for name, entries in (
        ("rejects.jsonl", [reject._asdict() for reject in rejects]),
        ("skipped.jsonl", [finding._asdict() for finding in plan.skipped]),
    ):
        path = destination.companion(name)
        if entries:
            write(path.name, _lines(json.dumps(entry, ensure_ascii=False) for entry in entries))
        else:
            path.unlink(missing_ok=True)
    manifest = Manifest(
        format=packing.layout.name,
        name=packing.name,
        classes=plan.catalog.classes,
        samples=samples,
        rejected=len(rejects),
        bytes=sum(shard.bytes for shard in outcome.shards),
        source=identity["source"],
        options=packing.options(),
        shards=outcome.shards,
        files=files,
    )
    sync_directory(destination.directory)
    write_whole(destination.manifest, manifest.to_json().encode(), state.partial)
    sync_directory(destination.directory)
    state.remove()
    return manifest


def read_rejects(plan: Plan, finished: Manifest) -> list[Reject]:
    """The rejects of a finished run, from its report."""
    path = plan.packing.destination.companion("rejects.jsonl")
    if not finished.rejected or not path.exists():
        return []
    return [Reject(**json.loads(line)) for line in path.read_text().splitlines()]


def _classes(plan: Plan) -> bytes:
    return _lines(plan.catalog.classes or ())


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
