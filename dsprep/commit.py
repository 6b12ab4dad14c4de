"""The two ends of a run at its destination: may it begin there, and what makes it complete."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from dsprep.errors import DestinationError, SourceError
from dsprep.findings import Reject
from dsprep.formats.base import ShardFacts
from dsprep.manifest import FileReceipt, Manifest
from dsprep.planning import Plan
from dsprep.run import Outcome
from dsprep.state import RunState
from dsprep.stores.local import checksum, free_bytes, sync_directory, write_whole
from dsprep.units import format_size


def identity_of(plan: Plan) -> dict[str, str]:
    """What tells this command from others; the values end up in ``run.json`` only."""
    options = json.dumps([plan.packing.options(), plan.packing.name])
    return {
        "options": hashlib.sha256(options.encode()).hexdigest(),
        "source": plan.catalog.digest(),
        "file times": plan.catalog.mtimes_digest(),
    }


def require_same(plan: Plan, finished: Manifest, identity: dict[str, str]) -> None:
    """Accept a destination that holds what this command would write.

    Raises:
        DestinationError: If it holds something else, or not all of it.
    """
    packing = plan.packing
    wanted = json.loads(json.dumps(packing.options()))
    other = [key for key, value in wanted.items() if finished.options.get(key) != value]
    if finished.name != packing.name:
        other.append("name")
    if finished.source != identity["source"]:
        other.append("source")
    if other:
        raise DestinationError(
            f"{packing.destination}: holds a data set that another command wrote "
            f"(other {', '.join(other)}); give --overwrite to replace it, or another destination"
        )
    directory = packing.destination.directory
    missing = [file.name for file in finished.every_file() if not (directory / file.name).exists()]
    if missing:
        raise DestinationError(
            f"{directory / missing[0]}: is in the manifest but not on the disk, as "
            f"{len(missing):,} files are; give --overwrite to pack again"
        )


def require_room(plan: Plan, state: RunState, overwrite: bool) -> None:
    """Refuse before the first byte what would end badly after hours.

    Raises:
        DestinationError: If a foreign file has the name of a shard, or the disk is too small.
    """
    directory = plan.packing.destination.directory
    missing = [shard for shard in plan.shards if shard.name not in state.done]
    if not state.resumed and not overwrite:
        for shard in missing:
            if (directory / shard.name).exists():
                raise DestinationError(
                    f"{directory / shard.name}: is there already, and no manifest says "
                    "what it is; give --overwrite to replace it, or another destination"
                )
    needed, free = sum(shard.bytes for shard in missing), free_bytes(directory)
    if needed > free and not plan.estimated:
        raise DestinationError(
            f"{directory}: {format_size(needed)} are to be written, but only {format_size(free)} "
            "are free on its disk"
        )


def commit(plan: Plan, state: RunState, outcome: Outcome, identity: dict[str, str]) -> Manifest:
    """Write what stands beside the shards, and last of all the manifest."""
    packing, destination = plan.packing, plan.packing.destination
    rejects = [*plan.lost, *outcome.rejects]
    samples = sum(shard.samples for shard in outcome.shards)
    if not samples:
        first = rejects[0]
        raise SourceError(
            f"{packing.source.root}: all {len(rejects):,} samples were rejected, the first "
            f"one being {first.path}: {first.reason}"
        )
    files: list[FileReceipt] = []

    def write(name: str, data: bytes) -> None:
        write_whole(destination.directory / name, data, state.partial)
        files.append(FileReceipt(name, len(data), checksum(data)))

    if plan.catalog.classes:
        write(destination.companion("classes.txt").name, _lines(plan.catalog.classes))
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


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
