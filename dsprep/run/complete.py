"""What completes a run: the files beside the shards, and last of all the manifest."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from dsprep.dataset.copies import augment_table
from dsprep.dataset.manifest import FileEntry, Manifest, ShardEntry
from dsprep.errors import SourceError
from dsprep.findings import Reject
from dsprep.formats import AUGMENT_FILE
from dsprep.formats.base import ShardFacts
from dsprep.formats.card import CARD, Split
from dsprep.plan.plan import Plan
from dsprep.printable import json_line
from dsprep.run.finished import rejects_of
from dsprep.run.folder import finish_folder
from dsprep.run.leftovers import remove_replaced, tidy_up
from dsprep.run.notes import Target
from dsprep.run.receipt import Receipt
from dsprep.run.state import RunState
from dsprep.storage.files import canonical
from dsprep.storage.local import destination_errors
from dsprep.storage.stored import crc32c
from dsprep.units import format_count

_MOST_CLASSES = 10_000_000  # more than any data set has; samples may say anything


def commit(plan: Plan, state: RunState, outcome: Receipt, base: Manifest | None) -> Manifest:
    """Write what stands beside the shards, and last of all the manifest."""
    job, target = plan.job, state.target
    rejects = [*plan.lost, *outcome.rejects]
    adds_none = base is not None and any(plan.existing) and not outcome.samples
    if adds_none:
        state.take_back()  # all new samples were rejected: no empty shard is added
    elif not outcome.samples:
        state.forget()
        remove_replaced(target, None)
        target.remove_place()
        first = rejects[0]
        raise SourceError(
            f"{job.source.root}: nothing is left to write, {format_count(len(rejects), 'sample')} "
            f"rejected; the first one is {first.path}: {first.reason}"
        )
    if base is not None:
        advice = "dsprep shard index writes another manifest"
        rejects = [*rejects_of(target, base, advice), *rejects]
    classes = plan.catalog.class_names or _listed_classes(outcome.class_names)
    files: list[FileEntry] = []
    beside: dict[str, bytes] = {}  # the files that are made of the listing of a folder
    if job.writes_tree:
        finished = finish_folder(
            job.layout,
            [unit.name for unit in plan.shards],
            state.units,
            target,
            classes,
            outcome.effects,
        )
        shards, size, beside = [], finished.size, finished.companions
        files.append(finished.listing)
    else:
        shards = [*(base.shards if base else ())]
        for done in (state.done[each.name] for each in plan.shards if not adds_none):
            *sidecars, own = done.files
            facts = own.name, own.bytes, own.crc32c
            shards.append(ShardEntry(*facts, done.samples, tuple(sidecars), done.raw))
        size = sum(shard.bytes for shard in shards)
    beside |= _companions(plan, target, classes, shards, rejects, base)
    files += publish_beside(target, beside)
    if job.layout.writes_card:
        _publish_card(plan, target, shards)
    schema, options = job.schema, plan.options()
    from dsprep.sources.understood import recorded  # not before polars is there

    has_objects = job.layout.schema is not None and job.layout.schema.objects is not None
    if schema is not None and schema.label_field is not None and classes:
        schema = schema.with_names(classes)
    manifest = Manifest(
        format=job.layout.name,
        name=job.name,
        classes=classes,
        samples=outcome.samples,
        rejected=len(rejects),
        bytes=size,
        source=state.identity["source"],
        options=options,
        shards=shards,
        files=files,
        schema=schema,
        enforced=not job.raw,
        objects=(outcome.objects, outcome.with_objects) if has_objects else None,
        layout=recorded(job.source, job.given, plan.catalog.inferred),
    )
    if base is not None:
        changed = {name: each for name, each in options.items() if base.options.get(name) != each}
        added = {"source": manifest.source, "first_shard": job.first_shard, **changed}
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
            objects=_sums(base.objects, manifest.objects),
            layout={},  # that of one source is not that of another
        )
    publish_manifest(state, manifest)
    return manifest


def publish_beside(target: Target, companions: Mapping[str, bytes]) -> list[FileEntry]:
    """Write the files beside the shards; an empty one is a report that goes."""
    files: list[FileEntry] = []
    for name, data in companions.items():
        if not data:
            target.delete(target.stamps([name]))  # a report of an earlier run
            continue
        with destination_errors(partial := target.partial(name)):
            partial.write_bytes(data)
        files.append(FileEntry(name, len(data), crc32c(data)))
        target.publish(files[-1:])
    return files


def _publish_card(plan: Plan, target: Target, shards: Sequence[ShardEntry]) -> None:
    """Write the dataset card that is asked for; one that is there stays, as people edit it.

    So the manifest does not have it.
    """
    name = plan.job.destination.shard(CARD)
    if target.stamps([name]):
        return
    own, splits = iter(shards), list[Split]()
    for side, count in plan.sets:
        of_side = [*islice(own, count)]
        names = [os.path.basename(shard.name) for shard in of_side]
        totals = sum(shard.samples for shard in of_side), sum(shard.bytes for shard in of_side)
        splits.append(Split(side, names, *totals))
    data = plan.job.layout.card_of(splits)
    with destination_errors(partial := target.partial(name)):
        partial.write_bytes(data)
    target.publish([FileEntry(name, len(data), crc32c(data))])


def publish_manifest(state: RunState, manifest: Manifest) -> None:
    """Complete a data set: publish its manifest, then let other runs in."""
    state.hold.check()
    state.target.publish_manifest(manifest.to_json().encode())
    tidy_up(state.target, manifest)
    state.hold.remove()


def _sums(one: tuple[int, int] | None, two: tuple[int, int] | None) -> tuple[int, int] | None:
    return None if one is None or two is None else (one[0] + two[0], one[1] + two[1])


def _companions(
    plan: Plan,
    target: Target,
    classes: tuple[str, ...] | None,
    shards: Sequence[ShardEntry],
    rejects: Sequence[Reject],
    base: Manifest | None,
) -> dict[str, bytes]:
    """Return the files beside the shards, by name; an empty one is a report without entries."""
    job, destination = plan.job, plan.job.destination
    found: dict[str, bytes] = {}
    name = destination.companion("classes.txt").name
    if classes and not (is_of_lists(plan, name) and target.find(name) == classes_bytes(classes)):
        found[name] = classes_bytes(classes)
    found |= {name: classes_bytes(names) for name, names in plan.class_files()}
    if job.images.augment is not None:
        table = augment_table(plan.catalog, job.images.augment, [each.path for each in rejects])
        found[destination.companion(AUGMENT_FILE).name] = table
    found |= {destination.known_as(name): data for name, data in job.layout.class_maps().items()}
    facts = map(facts_of, shards)
    before = len(base.shards) if base else 0
    for side, count in plan.sets:
        of_side = [*islice(facts, before + count)]
        index = job.layout.dataset_index(job.set_name(side), of_side)
        found |= {job.placed(side, name): data for name, data in index.items()}
    reports = {"rejects.jsonl": [each.to_json() for each in rejects]}
    if base is None:
        reports["skipped.jsonl"] = [each.to_json() for each in plan.skipped]
    for name, entries in reports.items():
        lines = (json_line(each) + "\n" for each in entries)
        if entries or base is None:
            found[destination.companion(name).name] = "".join(lines).encode()
    return found


def facts_of(shard: ShardEntry) -> ShardFacts:
    """Return what an index says of a shard."""
    return ShardFacts(os.path.basename(shard.name), shard.samples, shard.bytes, shard.raw)


def is_of_lists(plan: Plan, name: str) -> bool:
    """Return whether a file is the classes beside the lists of the source."""
    from dsprep.lists.store import classes_path  # not before polars is there

    beside = (canonical(classes_path(path)) for path in plan.job.source.lists)
    return canonical(plan.job.destination.url(name)) in beside


def classes_bytes(classes: Sequence[str] | None) -> bytes:
    """Return the content of ``classes.txt``."""
    from dsprep.lists.store import format_classes  # not before polars is there

    return format_classes(classes or ()).encode()


def _listed_classes(told: dict[str, str]) -> tuple[str, ...] | None:
    """Return names of classes in the order of their numbers; a number without a name has none."""
    names = {int(number): name for number, name in told.items()}
    if not names or min(names) < 0 or max(names) > _MOST_CLASSES:
        return None
    return tuple(names.get(number, "") for number in range(max(names) + 1))
