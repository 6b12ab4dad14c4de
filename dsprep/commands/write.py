"""What every command that writes a data set does: plan, and then write or go on writing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from dsprep.dataset.manifest import Manifest
from dsprep.errors import Interrupted, OptionError
from dsprep.findings import Finding, Reject, count_skipped, frames_note, notes_of
from dsprep.formats.base import ShardFacts
from dsprep.formats.tar import MAX_NAME
from dsprep.plan.cuts import ShardSize, in_megabytes
from dsprep.plan.packing import Packing
from dsprep.plan.plan import Plan, make_plan, require_distinct_keys
from dsprep.plan.selection import Chosen
from dsprep.progress import Progress
from dsprep.run.commit import (
    begin,
    commit,
    finished_manifest,
    identity_of,
    rejects_of,
    require_same,
)
from dsprep.run.run import Run
from dsprep.run.state import RunState, remove_leftovers
from dsprep.run.target import target_of
from dsprep.schema import LABEL
from dsprep.units import format_count, format_some
from dsprep.workers.pool import Pool, available_cores


@dataclass(frozen=True)
class WriteReport:
    """What writing a data set did or, for a dry run, would do.

    Attributes:
        destination: As it was given.
        format: The format's name.
        state: ``packed`` (or ``converted`` and the like), ``continued`` (some shards were there
            already), ``already packed``, or ``planned``.
        shards: Name, samples and bytes of each.
        samples: In all shards.
        bytes: Of all shards.
        estimated: Whether bytes are estimates.
        classes: Class names, if there are any.
        per_class: Samples of the source by class number.
        rejects: Samples of the source that are not in the shards, and why.
        rejects_file: Where they are listed; None if there are none or nothing was written.
        skipped: What lies in the source and is no sample.
        skipped_counts: How many files that is, by kind and extension.
        duplicates: Paths that a list names more than once.
        collisions: Keys of more than one sample, with the samples' paths. For WebDataset, whose
            keys must differ, only a dry run has any.
        chosen: What a filter left out, and balancing left out or repeated, if either was asked for.
        notes: What else there is to say.
        schema: The schema of the samples that are written; None if nothing tells it.
        fields: What a dry run shows of it, a row for each field: its name, type and role, what told
            it, where it goes, how many samples of the look have it.
        seconds: How long it took; for a dry run, how long it will take.
    """

    destination: str
    format: str
    state: str
    shards: Sequence[ShardFacts]
    samples: int
    bytes: int
    estimated: bool
    classes: Sequence[str] | None
    per_class: Mapping[int, int]
    rejects: Sequence[Reject]
    rejects_file: str | None
    skipped: Sequence[Finding]
    skipped_counts: Mapping[str, Mapping[str, int]]
    duplicates: Sequence[Finding]
    collisions: Sequence[tuple[str, Sequence[str]]]
    chosen: Chosen | None
    notes: Sequence[str]
    schema: Mapping[str, Any] | None
    fields: Sequence[Sequence[str]]
    seconds: float


def write_data_set(
    packing: Packing,
    *,
    done: str,
    schema_out: str | None = None,
    max_errors: int | None = None,
    on_error: str = "skip",
    overwrite: bool = False,
    dry_run: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> WriteReport:
    """Write a data set, or go on with it."""
    began = time.monotonic()
    destination, progress = packing.destination, progress or Progress()
    target = target_of(destination)
    with Pool(available_cores() if workers is None else workers) as pool:
        plan = make_plan(packing, pool, progress)
        if schema_out is not None and plan.catalog.settled is not None:
            from dsprep.lists.store import write_text  # few runs need it

            text = json.dumps(plan.catalog.settled.schema.to_json(), indent=1, ensure_ascii=False)
            write_text(schema_out, text + "\n")
        if dry_run:
            return planned_report(plan, plan.seconds(pool, progress))
        require_distinct_keys(plan)
        identity = identity_of(plan)
        finished = None if overwrite else finished_manifest(target)
        if finished is not None:
            remove_leftovers(destination, finished)
            require_same(plan, target, finished, identity)
            rejects = rejects_of(target, finished)
            report = final_report(
                plan, finished, rejects, f"already {done}", time.monotonic() - began
            )
            compared = "paths, sizes and labels are the same; verify --against compares contents"
            return replace(report, notes=[*report.notes, compared])
        state = RunState(target, identity, list(plan.files()), progress)
        with held(plan, state, pool):
            begin(plan, state, overwrite=overwrite)
            run = Run(plan, state, 0 if on_error == "fail" else max_errors)
            outcome = run.carry_out(pool, progress)
            manifest = commit(plan, state, outcome, identity)
        rejects = [*plan.lost, *outcome.rejects]
        how = "continued" if state.resumed else done
        seconds = time.monotonic() - began
        report = final_report(plan, manifest, rejects, how, seconds, outcome.lost_frames)
        if outcome.unlabeled:
            note = f"{format_count(outcome.unlabeled, 'sample')} without the label that others have"
            report = replace(report, notes=[*report.notes, note])
        return report


@contextmanager
def held(plan: Plan, state: RunState, pool: Pool) -> Iterator[None]:
    """Hold the state of a run while it is carried out, and say how far it came if it is stopped."""
    try:
        yield
    except KeyboardInterrupt:
        kept = state.kept([shard.name for shard in plan.shards])
        raise Interrupted(f"interrupted; {kept}; give the same command again to continue") from None
    finally:
        pool.close()  # before anything is removed that a worker may be writing
        state.release()


def require_one_of(option: str, value: object, choices: Sequence[object]) -> None:
    """Accept one of the values that an option can have."""
    if value not in choices:
        named = ", ".join(str(choice) for choice in choices if choice)
        raise OptionError(f"{option} {value}: choose one of {named}")


def shard_size(
    single: str | None,
    target: int | None,
    shards: int | None,
    samples: int | None,
    multiple_of: int | None = None,
) -> ShardSize:
    """The size of shards from what the user gave."""
    given = [value for value in (target, shards, samples) if value is not None]
    if len(given) > 1:
        raise OptionError("give one of --target-size, --shards and --samples-per-shard")
    if any(value < 1 for value in given):
        raise OptionError(f"a shard size of {given[0]} makes no shards")
    return ShardSize(shards=1) if single else ShardSize(target, shards, samples, multiple_of)


def planned_report(plan: Plan, seconds: float) -> WriteReport:
    """The report of a dry run, which knows how long the run will take."""
    shards = [ShardFacts(each.name, each.stop - each.start, each.bytes) for each in plan.shards]
    return WriteReport(
        destination=str(plan.packing.destination),
        format=plan.packing.layout.name,
        state="planned",
        shards=shards,
        samples=len(plan.catalog),
        bytes=sum(shard.bytes for shard in shards),
        estimated=plan.estimated or plan.packing.layout.compressed,
        rejects=plan.lost,
        rejects_file=None,
        seconds=seconds,
        **_common(plan, shards, ()),
    )


def final_report(
    plan: Plan,
    manifest: Manifest,
    rejects: Sequence[Reject],
    state: str,
    seconds: float,
    lost_frames: int = 0,
) -> WriteReport:
    """The report of a run that is done."""
    shards = [ShardFacts(each.name, each.samples, each.bytes) for each in manifest.shards]
    common = _common(plan, shards, rejects)
    if lost_frames:
        common["notes"].append(frames_note(lost_frames))
    return WriteReport(
        destination=str(plan.packing.destination),
        format=manifest.format,
        state=state,
        shards=shards,
        samples=manifest.samples,
        bytes=manifest.bytes,
        estimated=False,
        rejects=rejects,
        rejects_file=_rejects_file(plan) if rejects else None,
        seconds=seconds,
        **common,
    )


def _rejects_file(plan: Plan) -> str:
    destination = plan.packing.destination
    return destination.url(destination.companion("rejects.jsonl").name)


def _common(plan: Plan, shards: Sequence[ShardFacts], rejects: Sequence[Reject]) -> dict[str, Any]:
    from dsprep.sources.infer import table_of  # not before polars is there

    per_class = plan.catalog.samples_per_class(without=(each.path for each in rejects))
    schema, settled = plan.packing.schema, plan.catalog.settled
    return {
        "classes": plan.catalog.classes,
        "per_class": per_class,
        "skipped": plan.skipped,
        "skipped_counts": count_skipped(plan.skipped),
        "duplicates": [each for each in plan.findings if each.kind == "duplicate"],
        "collisions": plan.collisions,
        "chosen": plan.chosen,
        "notes": _notes(plan, shards, per_class),
        "schema": schema and schema.to_json(),
        "fields": list(table_of(settled, schema or settled.schema, len(plan.catalog)))
        if settled is not None
        else [],
    }


def _unlabeled(plan: Plan) -> Iterator[str]:
    """Say that samples have no labels, where labels would be expected."""
    layout, catalog = plan.packing.layout, plan.catalog
    note = f"{format_count(len(catalog), 'sample')} without labels"
    are_images = not catalog.reader.whole
    if catalog.is_labeled:
        return
    if LABEL in layout.required:
        note += (
            f": {layout.name} cannot hold that, so each record says 0 instead, which a training "
            f"job takes for a class; only {plan.packing.destination.manifest.name} says that it "
            "is none"
        )
    if are_images:
        note += (
            "; to have labels, give --labels FILE or --list FILE, or put the images of each class "
            "into a directory of its own"
        )
    yield note


def _notes(plan: Plan, shards: Sequence[ShardFacts], per_class: Mapping[int, int]) -> list[str]:
    """What a user would want to know before training on the result."""
    notes = [*notes_of(plan.findings), *_unlabeled(plan)]
    empty = [
        plan.catalog.classes[number]
        for number, count in per_class.items()
        if plan.catalog.classes and plan.catalog.classes[number] and not count
    ]
    if empty and not plan.packing.first_shard:
        notes.append(f"{format_count(len(empty), 'class')} without samples: {format_some(empty)}")
    incomplete = [each.path for each in plan.findings if each.kind == "incomplete"]
    if incomplete:
        notes.append(
            f"{format_count(len(incomplete), 'sample')} without a part that most have: "
            f"{format_some(incomplete)}"
        )
    notes += plan.notes
    stop = plan.packing.layout.stop_without_objects
    if stop and (without := plan.catalog.without_objects()):
        notes.append(
            f"{format_count(without, 'image')} without objects, at which {' and '.join(stop)} stop"
        )
    target = plan.packing.size.target
    if (
        target is not None
        and shards
        and all(each.samples == 1 and each.bytes > target for each in shards)
    ):
        notes.append(
            f"every sample is larger than --target-size {target} and has a shard for itself"
            f"{in_megabytes(target)}"
        )
    void = [shard.name for shard in shards if not shard.samples]
    if void:
        notes.append(f"{format_count(len(void), 'empty shard')}: {format_some(void)}")
    if plan.packing.layout.equal_keys == "merged" and plan.packing.key == "path":
        names = plan.catalog.keys()
        long = names.filter(names.str.len_bytes() > MAX_NAME - len(".jpeg"))
        if len(long):
            notes.append(
                f"{format_count(len(long), 'name')} of about {MAX_NAME} bytes or more, which wids "
                f"and DALI do not read: {format_some(long.to_list())}"
            )
    return notes
