"""The two ends of a run at its destination: may it begin there, and what makes it complete."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dsprep.dataset.manifest import FileReceipt, Manifest, read_rejects
from dsprep.errors import DestinationError, SourceError
from dsprep.formats.base import ShardFacts
from dsprep.formats.folder import LISTING
from dsprep.plan.destination import Destination
from dsprep.plan.packing import Packing
from dsprep.plan.plan import Plan
from dsprep.run.folder import (
    join_units,
    require_free,
    require_own_files,
    write_companions,
)
from dsprep.run.place import Place, data_set_to_replace
from dsprep.run.run import Outcome
from dsprep.run.state import RunState, differences
from dsprep.schema import Schema
from dsprep.storage.crc import crc32c
from dsprep.storage.local import write_whole
from dsprep.storage.paths import read_bytes

_MOST_CLASSES = 10_000_000
"""More than any data set has; samples may say anything."""


def identity_of(plan: Plan) -> dict[str, Any]:
    """What tells this command from others.

    The times of files, and the library that encodes images, end up in ``run.json`` only.
    """
    packing = plan.packing
    identity = {
        **json.loads(json.dumps(packing.options())),
        "name": packing.name,
        "source": plan.catalog.digest(),
        "schema": packing.schema and json.loads(json.dumps(packing.schema.to_json())),
        "file times": plan.catalog.mtimes_digest(),
    }
    if packing.transform is not None:
        identity["Pillow"] = version("pillow")
    return identity


def require_same(plan: Plan, place: Place, finished: Manifest, identity: dict[str, Any]) -> None:
    """Accept a destination that holds what this command would write."""
    packing = plan.packing
    _require_own(packing.destination, finished)
    known = {**finished.options, "name": finished.name, "source": finished.source}
    other = differences({**identity, **known}, identity)
    if other:
        raise DestinationError(
            f"{packing.destination}: holds a data set that another command wrote ({other}); "
            "give --overwrite to replace it, or another destination"
        )
    names = [file.name for file in finished.every_file()]
    missing = set(names).difference(place.there(names))
    if missing:
        raise DestinationError(
            f"{packing.destination.url(min(missing))}: is in the manifest but not there, as "
            f"{len(missing):,} files are; give --overwrite to pack again"
        )


def begin(plan: Plan, place: Place, state: RunState, overwrite: bool) -> None:
    """Begin a run, or go on with it: refuse before the first byte what would end badly."""
    destination = plan.packing.destination
    if state.other and not overwrite:
        raise DestinationError(
            f"{destination}: an unfinished run of another command is there ({state.other}); "
            "give that command again to finish it, or --overwrite to start over"
        )
    is_finished = bool(place.there([destination.manifest.name]))
    if is_finished and not overwrite:
        raise DestinationError(
            f"{destination}: another run has just finished a data set there; give the same command "
            "again to compare it with that"
        )
    replaced = data_set_to_replace(place) if overwrite else None
    _spare_inputs(plan, replaced)
    _require_room(plan, place, state, replaced)
    if overwrite and is_folder(plan):
        require_own_files(destination)
    place.withdraw(overwrite)
    if overwrite and (state.other or is_finished):
        state.forget()
    _refuse_files_of_others(plan, place, state.resumed or overwrite)
    if is_folder(plan) and not state.resumed:
        require_free(destination)
    state.begin()


def begin_append(plan: Plan, place: Place, state: RunState) -> None:
    """Begin to add shards to a data set, or go on with it."""
    destination = plan.packing.destination
    if state.other:
        raise DestinationError(
            f"{destination}: an unfinished run of another command is there ({state.other}); "
            "give that command again to finish it"
        )
    _require_room(plan, place, state, None)
    for shard in plan.shards:
        path = destination.directory / shard.name
        if path.exists() and not state.resumed:
            raise DestinationError(
                f"{path}: is there already, and not in the manifest; move it away first"
            )
    state.begin()


def _spare_inputs(plan: Plan, replaced: Manifest | None) -> None:
    """Refuse to replace what is being read, or what belongs to another single file."""
    destination, source = plan.packing.destination, plan.packing.source
    names = set(plan.files())
    if replaced is not None:
        _require_own(destination, replaced)
        names.update(file.name for file in replaced.every_file())
    elif source.classes and read_bytes(source.classes) == _classes(plan.catalog.classes):
        names.discard(destination.companion("classes.txt").name)
    for path in filter(Path.exists, (destination.directory / name for name in sorted(names))):
        if any(path.samefile(read) for read in source.files()):
            raise DestinationError(
                f"{path}: is read by this command, which would replace it; copy it to another "
                "place and name it there, or choose another destination"
            )


def _require_own(destination: Destination, finished: Manifest) -> None:
    """Refuse a manifest that belongs to another file, and was copied or renamed."""
    names = [shard.name for shard in finished.shards] or [finished.name]
    if destination.single and not {destination.single, destination.stem}.intersection(names):
        raise DestinationError(
            f"{destination.url(destination.manifest.name)}: belongs to {', '.join(names)}; move it "
            f"away, or choose another name than {destination.single}"
        )


def _require_room(plan: Plan, place: Place, state: RunState, replaced: Manifest | None) -> None:
    """Refuse to begin what there is no room for, where its size is known."""
    if not plan.estimated:
        sizes = [shard.bytes for shard in plan.shards if shard.name not in state.done]
        freed = sum(file.bytes for file in replaced.every_file()) if replaced else 0
        place.require_room(sizes, freed)


def _refuse_files_of_others(plan: Plan, place: Place, may_replace: bool) -> None:
    """Refuse to write over a file that is not known to be this command's."""
    for name in () if may_replace else place.there(plan.files()):
        if name.endswith("classes.txt") and place.read(name) == _classes(plan.catalog.classes):
            continue
        raise DestinationError(
            f"{plan.packing.destination.url(name)}: is there already, and not by this command; "
            "give --overwrite to replace it, or another destination"
        )


def commit(
    plan: Plan,
    state: RunState,
    outcome: Outcome,
    identity: dict[str, Any],
    base: Manifest | None = None,
) -> Manifest:
    """Write what stands beside the shards, and last of all the manifest."""
    packing, destination = plan.packing, plan.packing.destination
    classes = plan.catalog.classes or _listed_classes(outcome.class_names)
    rejects = [*plan.lost, *outcome.rejects]
    samples = sum(shard.samples for shard in outcome.shards)
    if not samples:
        state.give_up()
        first = rejects[0]
        raise SourceError(
            f"{packing.source.root}: all {len(rejects):,} samples were rejected, the first "
            f"one being {first.path}: {first.reason}"
        )
    shards = [*(base.shards if base else ()), *outcome.shards]
    size = sum(shard.bytes for shard in shards)
    if base is not None and base.rejected:
        rejects = [*read_rejects(destination.companion("rejects.jsonl")), *rejects]
    files: list[FileReceipt] = []

    def write(name: str, data: bytes) -> None:
        state.announce(name)
        write_whole(destination.directory / name, data, state.partial)
        files.append(FileReceipt(name, len(data), crc32c(data)))

    if is_folder(plan):
        joined = join_units(plan, state)
        shards, size = [], joined.bytes
        files.append(FileReceipt.of(destination.companion(LISTING)))
        write_companions(plan, classes, write)
    if classes:
        write(destination.companion("classes.txt").name, _classes(classes))
    for name, names in plan.class_files():
        write(name, _classes(names))
    facts = [ShardFacts(shard.name, shard.samples, shard.bytes) for shard in shards]
    for name, data in packing.layout.dataset_index(packing.name, facts).items():
        write(name, data)
    for name, entries in (
        ("rejects.jsonl", [reject._asdict() for reject in rejects]),
        ("skipped.jsonl", [finding._asdict() for finding in plan.skipped]),
    ):
        path = destination.companion(name)
        if base is not None and name == "skipped.jsonl":
            continue
        if entries:
            write(path.name, _lines(json.dumps(entry, ensure_ascii=False) for entry in entries))
        else:
            path.unlink(missing_ok=True)
    manifest = Manifest(
        format=packing.layout.name,
        name=packing.name,
        classes=classes or (base.classes if base else None),
        samples=samples + (base.samples if base else 0),
        rejected=len(rejects),
        bytes=size,
        source=base.source if base else identity["source"],
        options=_with_appended(base, packing, identity) if base else packing.options(),
        shards=shards,
        files=[*_kept(base, files), *files],
        schema=_schema(plan, classes) if base is None else base.schema,
        enforced=not packing.raw and (base is None or base.enforced),
    )
    state.publish(manifest)
    return manifest


def _with_appended(base: Manifest, packing: Packing, identity: dict[str, Any]) -> dict[str, Any]:
    """The options of a data set to which something is added: its own, and those of what is."""
    added = {"source": identity["source"], "first_shard": packing.first_shard}
    options = packing.options()
    other = {name: value for name, value in options.items() if base.options.get(name) != value}
    return {**base.options, "appended": [*base.options.get("appended", []), {**added, **other}]}


def _kept(base: Manifest | None, files: Sequence[FileReceipt]) -> list[FileReceipt]:
    """The other files of a data set that have not been written anew."""
    written = {file.name for file in files}
    return [file for file in base.files if file.name not in written] if base else []


def is_folder(plan: Plan) -> bool:
    """Whether what is written is a folder of files, and no shards."""
    return plan.packing.layout.is_tree


def _classes(classes: Sequence[str] | None) -> bytes:
    from dsprep.sources.classes import format_classes  # not before polars is there

    return format_classes(classes or ()).encode()


def _listed_classes(names: Mapping[int, str]) -> tuple[str, ...] | None:
    """Return names of classes in the order of their numbers; a number without a name has none."""
    if not names or min(names) < 0 or max(names) > _MOST_CLASSES:
        return None
    return tuple(names.get(number, "") for number in range(max(names) + 1))


def _schema(plan: Plan, classes: tuple[str, ...] | None) -> Schema | None:
    """Return the schema that a manifest records."""
    schema = plan.packing.schema
    is_named = schema is not None and schema.label_field is not None and classes
    return schema.with_names(classes) if schema is not None and is_named and classes else schema


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
