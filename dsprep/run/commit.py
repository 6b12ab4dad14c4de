"""The two ends of a run at its destination: may it begin there, and what makes it complete."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from dsprep.dataset.manifest import (
    FileReceipt,
    Manifest,
    ShardReceipt,
    parse_manifest,
    parse_rejects,
)
from dsprep.errors import DestinationError, SourceError
from dsprep.findings import Reject
from dsprep.formats.base import ShardFacts
from dsprep.formats.folder import LISTING
from dsprep.plan.destination import Destination
from dsprep.plan.plan import Plan
from dsprep.run.folder import companions_of, finish_folder, require_free, require_own_files
from dsprep.run.state import RunState, remove_replaced, tidy_up, unlike
from dsprep.run.target import REPLACED, Target, Written
from dsprep.storage.checksums import crc32c
from dsprep.storage.files import read_bytes
from dsprep.storage.local import destination_errors

T = TypeVar("T")

_MOST_CLASSES = 10_000_000
"""More than any data set has; samples may say anything."""


def identity_of(plan: Plan) -> dict[str, Any]:
    """Return what identifies a command; file times and Pillow's version stay in ``run.json``."""
    job = plan.job
    identity = {
        **json.loads(json.dumps(job.options())),
        "name": job.name,
        "source": plan.catalog.digest(),
        "schema": job.schema and json.loads(json.dumps(job.schema.to_json())),
        "file times": plan.catalog.mtimes_digest(),
    }
    if job.images.transform is not None:
        identity["Pillow"] = version("pillow")
    return identity


def finished_manifest(
    target: Target, advice: str = "give --overwrite to replace it"
) -> Manifest | None:
    """Return the manifest of the data set that is at a target; None if there is none."""
    if not target.stamps([target.manifest]):
        return None
    return _read(target, target.manifest, parse_manifest, advice)


def rejects_of(
    target: Target, finished: Manifest, advice: str = "give --overwrite to pack again"
) -> list[Reject]:
    """Return the rejects of a finished run, from its report."""
    name = target.destination.companion("rejects.jsonl").name
    return _read(target, name, parse_rejects, advice) if finished.rejected else []


def _read(target: Target, name: str, parse: Callable[[bytes, str], T], advice: str) -> T:
    try:
        return parse(target.read(name), target.destination.url(name))
    except SourceError as error:
        raise DestinationError(f"{error}; {advice}") from None


def require_same(plan: Plan, target: Target, finished: Manifest, identity: dict[str, Any]) -> None:
    """Accept a destination that holds what this command would write."""
    destination = plan.job.destination
    _require_own(destination, finished)
    if other := unlike(finished, identity):
        raise DestinationError(
            f"{destination}: holds a data set that another command wrote ({other}); "
            "give --overwrite to replace it, or another destination"
        )
    names = [file.name for file in finished.every_file()]
    missing = set(names).difference(target.stamps(names))
    if missing:
        raise DestinationError(
            f"{destination.url(min(missing))}: is in the manifest but not there, as "
            f"{len(missing):,} files are; give --overwrite to pack again"
        )


def begin(
    plan: Plan, state: RunState, *, overwrite: bool = False, base: Manifest | None = None
) -> None:
    """Begin a run, or go on with it: refuse what would end badly before the first byte.

    ``base`` is the data set to which shards are added.
    """
    destination, target, is_tree = plan.job.destination, state.target, plan.job.layout.is_tree
    if state.other and not overwrite:
        advice = "" if base else ", or --overwrite to start over"
        raise DestinationError(
            f"{destination}: an unfinished run of another command is there ({state.other}); "
            f"give that command again to finish it{advice}"
        )
    is_finished = base is None and bool(target.stamps([target.manifest]))
    if is_finished and not overwrite:
        raise DestinationError(
            f"{destination}: another run has just finished a data set there; give the same command "
            "again to compare it with that"
        )
    replaced = None
    if overwrite:
        with suppress(DestinationError):  # a manifest that dsprep did not write names no files
            replaced = finished_manifest(target)
    if base is None:
        _spare_inputs(plan, replaced)
    if not plan.estimated:
        sizes = [shard.bytes for shard in plan.shards if shard.name not in state.done]
        freed = sum(file.bytes for file in replaced.every_file()) if replaced else 0
        target.require_room(sizes, freed)
    if base is None:
        if overwrite and is_tree:
            require_own_files(destination)
        _withdraw(target, overwrite)
        if overwrite and (state.other or is_finished):
            state.forget()
    names = list(plan.files())
    there = [] if state.resumed else sorted(target.stamps(names))
    if not overwrite:
        _refuse_files_of_others(plan, target, there, base)
        names = [name for name in names if name not in there]
    if is_tree and not state.resumed:
        require_free(destination)
    state.begin(names)


def _withdraw(target: Target, overwrite: bool) -> None:
    """Let a finished data set make way, its manifest first; or end what a killed run began."""
    if overwrite and target.stamps([target.manifest]):
        with suppress(SourceError):  # dsprep did not write what cannot be read
            target.note(REPLACED, target.read(target.manifest))
        target.delete([target.manifest])
        if target.stamps([target.manifest]):
            url = target.destination.url(target.manifest)
            raise DestinationError(
                f"{url}: is a directory; remove it, or choose another destination"
            )
    if target.destination.remote is None:  # on S3, it stays until the new one is there
        remove_replaced(target, None)


def _refuse_files_of_others(
    plan: Plan, target: Target, there: Sequence[str], base: Manifest | None
) -> None:
    """Refuse to write over a file that is not known to be this command's."""
    shards = {shard.name for shard in plan.shards}
    for name in there:
        if base is not None and name not in shards:
            continue
        if name.endswith("classes.txt") and target.read(name) == _classes(plan.catalog.classes):
            continue
        url = plan.job.destination.url(name)
        if base:
            raise DestinationError(
                f"{url}: is there already, and not in the manifest; move it away first"
            )
        raise DestinationError(
            f"{url}: is there already, and not by this command; "
            "give --overwrite to replace it, or another destination"
        )


def _spare_inputs(plan: Plan, replaced: Manifest | None) -> None:
    """Refuse to replace what is being read, or what belongs to another single file."""
    destination, source = plan.job.destination, plan.job.source
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


def commit(
    plan: Plan,
    state: RunState,
    outcome: Written,
    identity: dict[str, Any],
    base: Manifest | None = None,
) -> Manifest:
    """Write what stands beside the shards, and last of all the manifest."""
    job, target = plan.job, state.target
    rejects = [*plan.lost, *outcome.rejects]
    if not outcome.samples:
        state.forget()
        remove_replaced(target, None)
        first = rejects[0]
        raise SourceError(
            f"{job.source.root}: all {len(rejects):,} samples were rejected, the first "
            f"one being {first.path}: {first.reason}"
        )
    if base is not None:
        advice = "dsprep shard index writes another manifest"
        rejects = [*rejects_of(target, base, advice), *rejects]
    classes = plan.catalog.classes or _listed_classes(outcome.class_names)
    files: list[FileReceipt] = []
    if job.layout.is_tree:
        shards, size = [], finish_folder(plan, state)
        files.append(FileReceipt.of(job.destination.companion(LISTING)))
    else:
        shards = [*(base.shards if base else ())]
        shards += [_receipt(shard.name, state.done[shard.name]) for shard in plan.shards]
        size = sum(shard.bytes for shard in shards)
    for name, data in _companions(plan, classes, shards, rejects, base).items():
        if not data:
            target.delete(target.stamps([name]))  # a report of an earlier run
            continue
        partial, receipt = target.partial(name), FileReceipt(name, len(data), crc32c(data))
        with destination_errors(partial):
            partial.write_bytes(data)
        target.publish([(partial, name, receipt.crc32c)])
        files.append(receipt)
    schema, options = job.schema, job.options()
    if schema is not None and schema.label_field is not None and classes:
        schema = schema.with_names(classes)
    manifest = Manifest(
        format=job.layout.name,
        name=job.name,
        classes=classes,
        samples=outcome.samples,
        rejected=len(rejects),
        bytes=size,
        source=identity["source"],
        options=options,
        shards=shards,
        files=files,
        schema=schema,
        enforced=not job.raw,
    )
    if base is not None:
        changed = {name: each for name, each in options.items() if base.options.get(name) != each}
        added = {"source": identity["source"], "first_shard": job.first_shard, **changed}
        written = {file.name for file in files}
        manifest = replace(
            manifest,
            classes=classes or base.classes,
            samples=base.samples + outcome.samples,
            source=base.source,
            options={**base.options, "appended": [*base.options.get("appended", []), added]},
            files=[*(file for file in base.files if file.name not in written), *files],
            schema=base.schema,
            enforced=base.enforced and not job.raw,
        )
    state.hold.check()
    target.publish_manifest(manifest.to_json().encode())
    tidy_up(target, manifest)
    state.hold.remove()
    return manifest


def _receipt(name: str, written: Written) -> ShardReceipt:
    *sidecars, (_, size, crc32c) = written.files(Path(name).name)
    files = tuple(FileReceipt(*facts) for facts in sidecars)
    return ShardReceipt(name, size, crc32c, written.samples, files)


def _companions(
    plan: Plan,
    classes: tuple[str, ...] | None,
    shards: Sequence[ShardReceipt],
    rejects: Sequence[Reject],
    base: Manifest | None,
) -> dict[str, bytes]:
    """Return the files beside the shards, by name; an empty one is a report without entries."""
    job, destination = plan.job, plan.job.destination
    found = companions_of(plan, classes) if job.layout.is_tree else {}
    if classes:
        found[destination.companion("classes.txt").name] = _classes(classes)
    found |= {name: _classes(names) for name, names in plan.class_files()}
    facts = [ShardFacts(shard.name, shard.samples, shard.bytes) for shard in shards]
    found |= job.layout.dataset_index(job.name, facts)
    reports = {"rejects.jsonl": [each.to_json() for each in rejects]}
    if base is None:
        reports["skipped.jsonl"] = [each.to_json() for each in plan.skipped]
    for name, entries in reports.items():
        lines = (json.dumps(each, ensure_ascii=False) + "\n" for each in entries)
        if entries or base is None:
            found[destination.companion(name).name] = "".join(lines).encode()
    return found


def _classes(classes: Sequence[str] | None) -> bytes:
    from dsprep.lists.store import format_classes  # not before polars is there

    return format_classes(classes or ()).encode()


def _listed_classes(told: dict[str, str]) -> tuple[str, ...] | None:
    """Return names of classes in the order of their numbers; a number without a name has none."""
    names = {int(number): name for number, name in told.items()}
    if not names or min(names) < 0 or max(names) > _MOST_CLASSES:
        return None
    return tuple(names.get(number, "") for number in range(max(names) + 1))
