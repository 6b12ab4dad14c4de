"""What pack, convert, shard and append share: build a job, write a data set, report."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dsprep.dataset.manifest import Manifest
from dsprep.errors import Interrupted, OptionError
from dsprep.findings import Finding, Reject, count_skipped, frames_note, notes_of
from dsprep.formats.base import ShardFacts
from dsprep.formats.tar import MAX_NAME
from dsprep.keywords import (
    AppendOptions,
    ClassOptions,
    SizeOptions,
    SourceOptions,
    WriteOptions,
    values_of,
)
from dsprep.options import require_effect
from dsprep.pipeline import Images
from dsprep.plan.cut import ShardSize, in_megabytes
from dsprep.plan.destination import (
    DEFAULT_NAME,
    parse_destination,
    require_name,
    take_sources,
)
from dsprep.plan.job import Job, make_layout
from dsprep.plan.plan import Plan, make_plan, require_distinct_keys
from dsprep.plan.weigh import seconds
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
from dsprep.schema import Schema
from dsprep.sources.reading import Source, choice_of
from dsprep.units import format_count, format_some, parse_size
from dsprep.workers.pool import Pool, available_cores

if TYPE_CHECKING:
    from dsprep.plan.select import Chosen

_DONE = {"pack": "packed", "convert": "converted", "shard": "sharded"}


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
        chosen: What a filter left out; None if there is no filter.
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


def source_with(options: WriteOptions | AppendOptions, **more: Any) -> Source:
    """Return the source that the options of a command name."""
    first, others = take_sources(options.sources, options.dest)
    values = values_of(options, SourceOptions) | more
    return Source(first, others=others, choice=choice_of(options), **values)


def new_job(command: str, options: WriteOptions, own_format: str | None = None) -> Job:
    """Return the job that the options of a command ask for, images aside."""
    if options.to and options.format and options.to != options.format:
        raise OptionError(f"--to {options.to} and --format {options.format}: give one of them")
    given = options.given
    source = source_with(options, **values_of(options, ClassOptions))
    asked = options.to or options.format or own_format
    destination, format_name = parse_destination(options.dest, asked)
    require_effect(command, given, format=format_name, **destination.facts())
    is_gzip = options.compression == "gzip" or destination.is_gzip
    layout = make_layout(format_name, options, is_gzip)
    features = None if format_name == "tfrecord" else options.features
    size = size_of(options)
    return Job(
        command,
        given,
        replace(source, whole=layout.class_names_in == "header", features=features),
        destination,
        layout,
        Images(),
        ShardSize(shards=1) if destination.single else size,
        destination.stem or require_name(DEFAULT_NAME if options.name is None else options.name),
        options.key,
    )


def size_of(options: SizeOptions) -> ShardSize:
    """Return the size of shards that the options say."""
    target = None if options.target_size is None else parse_size(options.target_size)
    sizes = (target, options.shards, options.samples_per_shard)
    given = [size for size in sizes if size is not None]
    if len(given) > 1:
        raise OptionError("give one of --target-size, --shards and --samples-per-shard")
    if any(size < 1 for size in given):
        raise OptionError(f"a shard size of {given[0]} makes no shards")
    return ShardSize(*sizes)


def write(job: Job, options: WriteOptions) -> WriteReport:
    """Write a data set, or continue an interrupted run."""
    began = time.monotonic()
    progress, target = options.progress or Progress(), target_of(job.destination)
    with Pool(available_cores() if options.workers is None else options.workers) as pool:
        plan = make_plan(job, pool, progress)
        if options.schema_out is not None and plan.catalog.settled is not None:
            from dsprep.lists.store import write_text  # few runs need it

            text = json.dumps(plan.catalog.settled.schema.to_json(), indent=1, ensure_ascii=False)
            write_text(options.schema_out, text + "\n")
        if options.dry_run:
            return planned_report(plan, seconds(plan.job, plan.catalog, pool, progress))
        require_distinct_keys(plan)
        identity, done = identity_of(plan), _DONE[job.command]
        finished = None if options.overwrite else finished_manifest(target)
        if finished is not None:
            remove_leftovers(job.destination, finished)
            require_same(plan, target, finished, identity)
            rejects = rejects_of(target, finished)
            report = final_report(plan, finished, rejects, f"already {done}")
            compared = "paths, sizes and labels are the same; verify --against compares contents"
            report = replace(report, notes=[*report.notes, compared])
        else:
            state = RunState(target, identity, list(plan.files()), progress)
            with held(plan, state, pool):
                begin(plan, state, overwrite=options.overwrite)
                report = carry_out(plan, state, options, pool, identity)
            report = report if state.resumed else replace(report, state=done)
        return replace(report, seconds=time.monotonic() - began)


def carry_out(
    plan: Plan,
    state: RunState,
    options: WriteOptions | AppendOptions,
    pool: Pool,
    identity: dict[str, Any],
    base: Manifest | None = None,
) -> WriteReport:
    """Write what is missing of a data set, or of what is added to one, and commit it."""
    run = Run(plan, state, 0 if options.on_error == "fail" else options.max_errors)
    outcome = run.carry_out(pool, options.progress or Progress())
    manifest = commit(plan, state, outcome, identity, base)
    report = final_report(plan, manifest, [*plan.lost, *outcome.rejects], "continued")
    notes = list(report.notes)
    if outcome.lost_frames:
        notes.append(frames_note(outcome.lost_frames))
    if outcome.unlabeled and base is None:
        count = format_count(outcome.unlabeled, "sample")
        notes.append(f"{count} without the label that others have")
    return replace(report, notes=notes)


@contextmanager
def held(plan: Plan, state: RunState, pool: Pool) -> Iterator[None]:
    """Hold the state of a run while it is carried out; if it is stopped, report how far it came."""
    try:
        yield
    except KeyboardInterrupt:
        kept = state.kept([shard.name for shard in plan.shards])
        raise Interrupted(f"interrupted; {kept}; give the same command again to continue") from None
    finally:
        pool.close()  # before anything is removed that a worker may be writing
        state.release()


def planned_report(plan: Plan, seconds: float) -> WriteReport:
    """Return the report of a dry run, which knows how long the run will take."""
    shards = [ShardFacts(each.name, each.stop - each.start, each.bytes) for each in plan.shards]
    estimated = plan.estimated or plan.job.layout.compressed
    return replace(
        _report(plan, shards, plan.lost, ()),
        samples=len(plan.catalog),
        estimated=estimated,
        seconds=seconds,
    )


def final_report(
    plan: Plan, manifest: Manifest, rejects: Sequence[Reject], state: str
) -> WriteReport:
    """Return the report of a data set that is complete."""
    shards = [ShardFacts(each.name, each.samples, each.bytes) for each in manifest.shards]
    destination = plan.job.destination
    return replace(
        _report(plan, shards, rejects, [each.path for each in rejects]),
        format=manifest.format,
        state=state,
        samples=manifest.samples,
        bytes=manifest.bytes,
        rejects_file=destination.url(destination.companion("rejects.jsonl").name)
        if rejects
        else None,
    )


def _report(
    plan: Plan, shards: Sequence[ShardFacts], rejects: Sequence[Reject], without: Sequence[str]
) -> WriteReport:
    """Return the report of a plan."""
    from dsprep.sources.infer import table_of  # not before polars is there

    per_class = plan.catalog.samples_per_class(without=without)
    schema, settled = plan.job.schema, plan.catalog.settled
    table = settled and table_of(settled, schema or settled.schema, len(plan.catalog))
    return WriteReport(
        destination=str(plan.job.destination),
        format=plan.job.layout.name,
        state="planned",
        shards=shards,
        samples=sum(shard.samples for shard in shards),
        bytes=sum(shard.bytes for shard in shards),
        estimated=False,
        classes=plan.catalog.classes,
        per_class=per_class,
        rejects=rejects,
        rejects_file=None,
        skipped=plan.skipped,
        skipped_counts=count_skipped(plan.skipped),
        duplicates=[each for each in plan.findings if each.kind == "duplicate"],
        collisions=plan.collisions,
        chosen=plan.chosen,
        notes=list(_notes(plan, shards, per_class)),
        schema=None if schema is None else schema.to_json(),
        fields=list(table or ()),
        seconds=0.0,
    )


def _notes(plan: Plan, shards: Sequence[ShardFacts], per_class: Mapping[int, int]) -> Iterator[str]:
    """Yield what a user would want to know before training on the result."""
    job, catalog = plan.job, plan.catalog
    layout, classes, target = job.layout, catalog.classes or (), job.size.target
    yield from notes_of(plan.findings)
    if not catalog.is_labeled:
        yield _unlabeled(plan)
    empty = [name for number, name in enumerate(classes) if name and per_class.get(number) == 0]
    if empty and not job.first_shard:
        yield f"{format_count(len(empty), 'class')} without samples: {format_some(empty)}"
    incomplete = [each.path for each in plan.findings if each.kind == "incomplete"]
    if incomplete:
        count = format_count(len(incomplete), "sample")
        yield f"{count} without a part that most have: {format_some(incomplete)}"
    yield from job.notes
    stop = layout.stop_without_objects
    if stop and (without := catalog.without_objects()):
        count = format_count(without, "image")
        yield f"{count} without objects, at which {' and '.join(stop)} stop"
    if (
        target is not None
        and shards
        and all(each.samples == 1 and each.bytes > target for each in shards)
    ):
        yield (
            f"every sample is larger than --target-size {target} and has a shard for itself"
            f"{in_megabytes(target)}"
        )
    void = [shard.name for shard in shards if not shard.samples]
    if void:
        yield f"{format_count(len(void), 'empty shard')}: {format_some(void)}"
    if layout.equal_keys == "merged" and job.key == "path":
        names = catalog.keys()
        long = names.filter(names.str.len_bytes() > MAX_NAME - len(".jpeg"))
        if len(long):
            yield (
                f"{format_count(len(long), 'name')} of about {MAX_NAME} bytes or more, which wids "
                f"and DALI do not read: {format_some(long.to_list())}"
            )


def _unlabeled(plan: Plan) -> str:
    """Return the note on a source without labels."""
    layout = plan.job.layout
    note = f"{format_count(len(plan.catalog), 'sample')} without labels"
    if layout.placeholders(Schema(())):
        note += (
            f": {layout.name} cannot hold that, so each record says 0 instead, which a training "
            f"job takes for a class; only {plan.job.destination.manifest.name} says that it "
            "is none"
        )
    if not plan.catalog.reader.whole:
        note += (
            "; to have labels, give --labels FILE or --list FILE, or put the images of each class "
            "into a directory of its own"
        )
    return note
