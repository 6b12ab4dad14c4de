"""The two ends of a run at its destination: may it begin there, and what makes it complete."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dsprep.errors import DestinationError, SourceError
from dsprep.findings import Reject
from dsprep.formats.base import ShardFacts
from dsprep.manifests.manifest import FileReceipt, Manifest, read_rejects
from dsprep.planning.destination import Destination
from dsprep.planning.plan import Plan
from dsprep.running.run import Outcome
from dsprep.running.state import RunState, data_set_to_replace, differences, remove_data_set
from dsprep.stores.local import checksum, free_bytes, sync_directory, write_whole
from dsprep.units import format_size


def identity_of(plan: Plan) -> dict[str, Any]:
    """What tells this command from others.

    The times of files, and the library that encodes images, end up in ``run.json`` only.
    """
    packing = plan.packing
    identity = {
        **json.loads(json.dumps(packing.options())),
        "name": packing.name,
        "source": plan.catalog.digest(),
        "file times": plan.catalog.mtimes_digest(),
    }
    if packing.transform is not None:
        identity["Pillow"] = version("pillow")
    return identity


def require_same(plan: Plan, finished: Manifest, identity: dict[str, Any]) -> None:
    """Accept a destination that holds what this command would write.

    Raises:
        DestinationError: If it holds something else, or not all of it.
    """
    packing = plan.packing
    _require_own(packing.destination, finished)
    known = {**finished.options, "name": finished.name, "source": finished.source}
    other = differences({**identity, **known}, identity)
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
    replaced = data_set_to_replace(destination) if overwrite else None
    _spare_inputs(plan, replaced)
    _require_room(plan, state, replaced)
    if overwrite and (state.other or destination.manifest.exists()):
        state.forget()
    remove_data_set(destination, overwrite)
    _refuse_files_of_others(plan, state.resumed or overwrite)
    state.begin()


def _spare_inputs(plan: Plan, replaced: Manifest | None) -> None:
    """Refuse to replace what is being read, or what belongs to another single file."""
    destination, source = plan.packing.destination, plan.packing.source
    names = set(plan.files())
    if replaced is not None:
        _require_own(destination, replaced)
        names.update(file.name for file in replaced.every_file())
    elif source.classes and Path(source.classes).read_bytes() == _classes(plan):
        names.discard(destination.companion("classes.txt").name)
    for path in filter(Path.exists, (destination.directory / name for name in sorted(names))):
        if any(path.samefile(read) for read in source.files()):
            raise DestinationError(
                f"{path}: is read by this command, which would replace it; copy it to another "
                "place and name it there, or choose another destination"
            )


def _require_own(destination: Destination, finished: Manifest) -> None:
    """Refuse a manifest that belongs to a single file of another format."""
    names = [shard.name for shard in finished.shards]
    if destination.single and destination.single not in names:
        raise DestinationError(
            f"{destination.manifest}: belongs to {', '.join(names)}; choose another name than "
            f"{destination.stem}, or another directory"
        )


def _require_room(plan: Plan, state: RunState, replaced: Manifest | None) -> None:
    """Refuse to begin what the disk cannot hold, where its size is known."""
    directory = plan.packing.destination.directory
    needed = sum(shard.bytes for shard in plan.shards if shard.name not in state.done)
    freed = sum(file.bytes for file in replaced.every_file()) if replaced else 0
    free = free_bytes(directory) + freed
    if needed > free and not plan.estimated:
        raise DestinationError(
            f"{directory}: {format_size(needed)} are to be written, but only "
            f"{format_size(free)} are free on its disk"
        )


def _refuse_files_of_others(plan: Plan, may_replace: bool) -> None:
    """Refuse to write over a file that is not known to be this command's."""
    directory = plan.packing.destination.directory
    for path in filter(Path.exists, (directory / name for name in plan.files())):
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


def rejects_of(plan: Plan, finished: Manifest) -> list[Reject]:
    """The rejects of a finished run, from its report.

    Raises:
        DestinationError: If that is not what was written.
    """
    try:
        path = plan.packing.destination.companion("rejects.jsonl")
        return read_rejects(path) if finished.rejected else []
    except SourceError as error:
        raise DestinationError(f"{error}; give --overwrite to pack again") from None


def _classes(plan: Plan) -> bytes:
    from dsprep.sources.classes import format_classes  # not before polars is there

    return format_classes(plan.catalog.classes or ()).encode()


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
