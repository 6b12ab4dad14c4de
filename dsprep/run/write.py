"""``pack``, ``convert``, ``shard`` write a data set; ``shard append`` adds shards to one."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from platform import node
from typing import TYPE_CHECKING, Any

from dsprep.dataset.manifest import Manifest, Recorded, recorded_options
from dsprep.declared import called_with
from dsprep.errors import DestinationError, Interrupted, OptionError, SourceError
from dsprep.findings import effect_notes
from dsprep.formats.base import Format, ShardFacts
from dsprep.moving import Frame
from dsprep.opening import as_given
from dsprep.options import require_effect
from dsprep.pipeline import Images
from dsprep.places.archive import require_file
from dsprep.plan.cut import PlannedShard, ShardSize
from dsprep.plan.destination import (
    DEFAULT_NAME,
    Destination,
    parse_destination,
    place_of,
    require_name,
    take_sources,
)
from dsprep.plan.image_options import CopyOptions
from dsprep.plan.job import Base, Job, augmented, images_of, make_layout
from dsprep.plan.options import (
    AppendOptions,
    ConvertOptions,
    PackOptions,
    RunOptions,
    ShardOptions,
    SizeOptions,
    WriteOptions,
)
from dsprep.plan.plan import KeptCuts, Plan, make_plan, require_distinct_keys
from dsprep.plan.weigh import try_some
from dsprep.progress import Progress
from dsprep.run.begin import begin, require_same
from dsprep.run.complete import commit
from dsprep.run.finished import finished_manifest, is_bare, rejects_of, require_whole
from dsprep.run.folder import receipts_of, size_of_shard
from dsprep.run.identity import identity_of
from dsprep.run.leftovers import remove_leftovers
from dsprep.run.nodes import require_nodes
from dsprep.run.notes import PLAN, Target
from dsprep.run.part import Part, parse_part
from dsprep.run.receipt import Receipt
from dsprep.run.run import Run
from dsprep.run.state import RunState
from dsprep.run.target import target_of
from dsprep.run.trial import seconds_to_write
from dsprep.run.write_report import WriteReport, report_of
from dsprep.sources.layout import with_layout
from dsprep.sources.options import ClassOptions, SourceOptions
from dsprep.sources.shards.shards_kind import shards_of
from dsprep.sources.shards.shardset import ShardSet, require_no_index
from dsprep.sources.source import Source, choice_of
from dsprep.splits.options import SplitOptions
from dsprep.storage.files import is_dir, require_disk
from dsprep.units import format_count, format_some, parse_size
from dsprep.workers.engine import open_executor
from dsprep.workers.executor import Executor, WorkerFailed

if TYPE_CHECKING:
    from dsprep.catalog import Catalog

_DONE = {"pack": "packed", "convert": "converted", "shard": "sharded", "split": "split"}
_DONE |= {"shard append": "appended", "augment": "augmented"}

_EXAMPLES = 3
# Options that change encoded samples, which then are not copied as they are.
_CHANGES = {"--features", "--metadata", "--order", "--only", "--drop", "--rename", "--cast"}
_CHANGES |= {"--label-type", "--schema"}
_CHANGES_OF_SHARDS = _CHANGES | {"--label-field", "--image-field"}


@called_with(PackOptions)
def pack(options: PackOptions) -> WriteReport:
    """Pack images into shards.

    ``sources`` is the directory that holds the images, each directory in it being a class, or
    anything else that samples are read from, also several of these. ``dest`` is a directory for the
    shards, or one file: ``train.tar``, ``train.rec``, ``train.tfrecord``. Both may be on S3:
    ``s3://bucket/shards/``.
    """
    job = new_job("pack", options)
    seed = (options.seed or 0) if options.shuffle else None
    job = replace(job, images=images_of(options), seed=seed)
    return write(augmented(job, options, options.augment) if options.augment else job, options)


@called_with(ConvertOptions)
def convert(options: ConvertOptions) -> WriteReport:
    """Convert samples to another format.

    ``sources`` is shards (a file, a pattern, a directory, a manifest; also several of these), or
    anything that :func:`dsprep.pack` takes. ``dest`` is a directory, or one file; either may be on
    S3: ``s3://bucket/shards/``. Shards become one shard each, with their names, in their order,
    unless a size is given; anything else becomes shards of the usual size.
    """
    job = new_job("convert", options)
    copies = (
        options.transform is None
        and options.check in (None, "none")
        and options.key == "path"
        and not _CHANGES.intersection(job.given)
    )
    keeps = job.size == ShardSize() and options.split is None
    size = ShardSize(by_file=True) if keeps else job.size
    return write(replace(job, images=images_of(options), size=size, copies=copies), options)


@called_with(ShardOptions)
def shard(options: ShardOptions) -> WriteReport:
    """Cut samples into shards of another size, in another order, or a part of them.

    ``sources`` is shards (a file, a pattern, a directory, a manifest; also several of these), or
    anything that :func:`dsprep.pack` takes. ``dest`` is a directory, or one file; either may be on
    S3: ``s3://bucket/shards/``. In the format that they have, encoded samples are copied as they
    are, without being parsed.
    """
    options = with_layout(options)
    source = source_with(options, **options.values_of(ClassOptions))
    own = format_of_shards(source)
    try:
        job = new_job("shard", options, own_format=own)
    except OptionError:
        if own is None and not is_dir(source.root):
            require_file(source.root)  # the names of missing files tell no format
        raise
    size = job.size
    if options.multiple_of is not None and not job.destination.single:
        size = replace(size, multiple_of=options.multiple_of)
    copies = (
        own == job.layout.name
        and options.key == "path"
        and not _CHANGES_OF_SHARDS.intersection(job.given)
    )
    in_header = not copies and job.layout.class_names_in == "header"
    job = replace(
        job,
        source=job.source.replace(
            needs_names=in_header or job.selects or options.split is not None
        ),
        images=Images(check="none" if copies else None),
        size=size,
        seed=(options.seed or 0) if options.shuffle else None,
        copies=copies,
    )
    return write(job, options)


def format_of_shards(source: Source) -> str | None:
    """Return the format of the shards that a source is; None if it is something else."""
    try:
        found = shards_of(source)
    except OSError as error:
        raise SourceError(
            f"{as_given(error.filename)}: cannot be read ({error.strerror})"
        ) from None
    if found is not None:
        require_no_index(found)
    return found.layout.name if found else None


def source_with(options: WriteOptions | AppendOptions, **more: Any) -> Source:
    """Return the source that the options of a command name."""
    first, others = take_sources(options.sources, options.dest)
    values = options.values_of(SourceOptions) | more
    return Source(first, others=others, choice=choice_of(options), **values)


def new_job(command: str, options: WriteOptions, own_format: str | None = None) -> Job:
    """Return the job that the options of a command ask for, images aside."""
    options = with_layout(options)
    if options.to and options.format and options.to != options.format:
        raise OptionError(f"--to {options.to} and --format {options.format}: give one of them")
    given = options.given
    more = options.values_of(ClassOptions)
    key, versions = options.key, tuple[str, ...]()
    if options.latest is not None:
        key, versions = "path", (options.key, options.latest)
        if options.as_of is not None:
            versions = (*versions, options.as_of)
    source = source_with(options, **more, versions=versions or None)
    asked = options.to or options.format or own_format
    destination, format_name = parse_destination(options.dest, asked, options.apart)
    is_gzip = (destination.single or "").endswith(".gz")
    require_effect(
        command,
        given,
        format=format_name,
        single=destination.single and str(destination),
        gzip=is_gzip,
        remote=destination.remote is not None,
        stream=False,
        stdout=False,
    )
    layout = make_layout(format_name, options, is_gzip or options.compression == "gzip")
    features = None if format_name == "tfrecord" else options.features
    size = size_of(options)
    return Job(
        command,
        given,
        source.replace(
            needs_names=layout.class_names_in == "header"
            or options.split is not None
            or options.filter_table is not None,
            features=features,
            takes_texts=layout.holds_texts,
            takes_masks=layout.holds_masks,
        ),
        destination,
        layout,
        Images(),
        ShardSize(shards=1) if destination.single else size,
        destination.stem or require_name(DEFAULT_NAME if options.name is None else options.name),
        key,
        filter=options.filter if isinstance(options, ShardOptions) else None,
        filter_table=options.filter_table,
        divide=None if options.split is None else _divider(options, source),
    )


def _divider(
    options: WriteOptions, source: Source
) -> Callable[[Catalog, Executor], tuple[Catalog, Sequence[str]]]:
    """Return what gives each sample the side that ``--split`` says."""
    # slow to load, and only runs with --split need it
    from dsprep.splits.ratios import make_ratios, parse_ratios

    try:
        ratios = parse_ratios(options.split or "")
        make_ratios(ratios)
    except OptionError as error:
        raise OptionError(str(error).replace("--ratio", "--split")) from None
    seed = getattr(options, "seed", None)
    asked = SplitOptions(
        sources=options.sources, out=options.dest, ratios=ratios, group=options.group, seed=seed
    )

    def divide(catalog: Catalog, pool: Executor) -> tuple[Catalog, Sequence[str]]:
        from dsprep.splits.sides import divided  # not before polars is there

        return divided(asked, source, catalog, pool)

    return divide


def size_of(options: SizeOptions) -> ShardSize:
    """Return the size of shards that the options say."""
    target = None if options.target_size is None else parse_size(options.target_size)
    sizes = (target, options.shards, options.samples_per_shard)
    given = [size for size in sizes if size is not None]
    if len(given) > 1 and options.shards is not None:
        raise OptionError("--shards fixes their size: leave it out, or the other limit")
    if any(size < 1 for size in given):
        raise OptionError(f"a shard size of {given[0]} makes no shards")
    return ShardSize(*sizes)


def write(job: Job, options: WriteOptions) -> WriteReport:
    """Write a data set, or continue an interrupted run."""
    began, target = time.monotonic(), target_of(job.destination)
    if options.part is not None and not options.dry_run:
        return replace(write_part(job, options), seconds=time.monotonic() - began)
    with _pool(job, options) as pool:
        progress = options.progress or Progress()
        # A dry run asks nothing of a destination on a network.
        run = None if options.overwrite or options.dry_run else _run_begun(target)
        kept = None if run is None else KeptCuts.of_run(run)
        plan = make_plan(replace(job, is_decided=run is not None), pool, progress, kept)
        if options.schema_out is not None:
            from dsprep.lists.store import write_text  # slow to load, and only some runs need it

            text = json.dumps(plan.catalog.settled.schema.to_json(), indent=1, ensure_ascii=False)
            write_text(options.schema_out, text + "\n")
        if isinstance(options, CopyOptions) and options.preview is not None:
            from dsprep.run.preview import write_preview

            write_preview(plan, os.fspath(options.preview))
        if options.dry_run:
            return planned_report(plan, pool, progress, began)
        require_distinct_keys(plan)
        identity = identity_of(plan)
        finished = None if options.overwrite else finished_manifest(target)
        if finished is None or is_bare(target, finished):
            report = carry_out(plan, identity, options, pool, overwrite=options.overwrite)
        else:
            report = _already(plan, target, finished, identity)
        return replace(report, seconds=time.monotonic() - began)


def _run_begun(target: Target) -> dict[str, Any] | None:
    """Return the note of a run that was begun; a destination that cannot be read refuses later."""
    with suppress(DestinationError):
        return target.noted_run()
    return None


def _already(
    plan: Plan, target: Target, finished: Manifest, identity: dict[str, Any]
) -> WriteReport:
    """Return the report of a run whose data set is there."""
    with suppress(*([DestinationError] if target.part else [])):  # other parts may still be writing
        remove_leftovers(plan.job.destination, finished)
    require_same(target, finished, identity)
    report = report_of(
        plan, finished, rejects_of(target, finished), f"already {_DONE[plan.job.command]}"
    )
    compared = "paths, sizes and labels are the same; verify --against compares contents"
    return replace(report, notes=[*report.notes, compared])


def write_part(job: Job, options: WriteOptions) -> WriteReport:
    """Write a part of the shards of a data set; the last part to end completes it."""
    # loads polars, which else is loaded while workers list the source
    from dsprep.plan.saved import load_plan, require_source, save_plan

    part, progress = parse_part(options.part or ""), options.progress or Progress()
    if part.told_by:
        progress.note(f"this is {part}, as {part.told_by} says")
    target, state = target_of(job.destination, part), None
    most = 0 if options.on_error == "fail" else options.max_errors
    with _pool(job, options) as pool:
        try:
            with target.alone("plan", progress.note):
                finished = finished_manifest(target)
                if finished is not None and is_bare(target, finished):
                    finished = None
                data = None if finished else target.find(target.notes + PLAN)
                is_noted = bool(data)
                if data:
                    place = target.destination.url(target.notes + PLAN)
                    plan = load_plan(data, job, place, part.of)
                else:
                    plan = make_plan(job, pool, progress)
                require_distinct_keys(plan)
                identity = identity_of(plan)
                if finished is None:
                    data = data or save_plan(plan, part.of)
                    own = part.share(plan.shards)
                    state = RunState(target, identity, list(plan.files()), progress)
                    if state.resumed:
                        state.done |= receipts_of(target, [each.name for each in own])
                    begin(plan, state)
                    if not is_noted:
                        progress.note(f"{job.destination}: {node()} has made the plan of all parts")
                        target.write(target.notes + PLAN, data)
                del data  # half as large as the catalog
            if state is not None:
                if is_noted:
                    require_source(plan, [each for each in own if each.name not in state.done])
                try:
                    Run(plan, state, most, part).carry_out(pool, progress)
                except WorkerFailed as failed:
                    if not is_noted:
                        raise
                    why = str(failed).rstrip().rpartition("\n")[2]
                    raise DestinationError(
                        f"{place}: a worker failed with this plan, which another part made: {why}; "
                        f"remove {job.destination} and give all parts again"
                    ) from failed
                others = [each.name for each in plan.shards if each.name not in state.done]
                missing = target.without_receipts(others)
                if missing and (finished := finished_manifest(target)) is None:
                    return _report_of_part(plan, state, part, len(missing))
                with target.alone("commit", progress.note):
                    if (finished := finished_manifest(target)) is None:
                        state.done |= receipts_of(target, others)
                        if missing := [name for name in others if name not in state.done]:
                            return _report_of_part(plan, state, part, len(missing))
                        outcome = Run(plan, state, most).outcome()
                        manifest = commit(plan, state, outcome, None)
                        return _done(plan, manifest, outcome, _DONE[job.command])
        except DestinationError:
            # While the machine of this part was stopped, another may have done its work.
            if state is None or (finished := finished_manifest(target)) is None:
                raise
        except KeyboardInterrupt:
            raise Interrupted(
                f"{part} was interrupted; give the same command again to continue"
            ) from None
        finally:
            pool.close()  # stop workers before their files are removed
            if state is not None:
                state.release()
    assert finished is not None
    return _already(plan, target, finished, identity)


def _report_of_part(plan: Plan, state: RunState, part: Part, missing: int) -> WriteReport:
    """Return the report of a part that is done, while others are not."""
    own = part.share(plan.shards)
    done = [(each.name, state.done[each.name]) for each in own]
    shards = [
        ShardFacts(name, each.samples, size_of_shard(state.target, name, each))
        for name, each in done
    ]
    what = "unit" if plan.job.writes_tree else "shard"
    outcome = Receipt.merged([each for _, each in done], plan.catalog.root)
    rejects = outcome.rejects
    left = f"{missing:,} of {format_count(len(plan.shards), what)} are left to other parts"
    notes = [*effect_notes(outcome.effects), left]
    destination = plan.job.destination
    file = destination.companion("rejects.jsonl").name
    if rejects:
        notes.append(f"the last part to end writes {file}, with the rejects of all parts")
    report = report_of(
        replace(plan, catalog=_in_shards(plan.catalog, own)),
        rejects=rejects,
        state=f"{part}: {len(shards):,} of {format_count(len(plan.shards), what)} are there",
    )
    if report.objects is not None:
        objects = report.objects._replace(
            objects=outcome.objects,
            samples=outcome.with_objects,
            without=outcome.samples - outcome.with_objects,
        )
        report = replace(report, objects=objects)
    return replace(
        report,
        shards=[] if plan.job.writes_tree else shards,
        samples=outcome.samples,
        bytes=sum(each.bytes for each in shards),
        estimated=False,
        rejects_file=destination.url(file) if rejects else None,
        notes=notes,
    )


def _in_shards(catalog: Catalog, shards: Sequence[PlannedShard]) -> Catalog:
    """Return the samples of some shards."""
    import polars as pl

    rows = (catalog.table[each.start : each.stop] for each in shards)
    return replace(catalog, table=pl.concat([catalog.table.clear(), *rows]))


def _pool(job: Job, options: RunOptions) -> Executor:
    """Return workers that load what writes shards while this process reads the source."""
    modules = "run.shard", "run.target", "sources.readers"
    ahead = (type(job.layout).__module__, *(f"dsprep.{name}" for name in modules))
    return open_executor(options.workers, options.engine, options.ray_address, ahead)


def planned_report(plan: Plan, pool: Executor, progress: Progress, began: float) -> WriteReport:
    """Return the report of a dry run that began at some time; it tries some samples."""
    planning, report = time.monotonic() - began, report_of(plan)
    writing = seconds_to_write(plan, pool, progress)
    tried = try_some(plan.job, plan.catalog, pool, progress)
    notes = effect_notes(tried.effects)
    if tried.rejects:
        examples = (f"{each.path}: {each.reason}" for each in tried.rejects[:_EXAMPLES])
        count = format_count(len(tried.rejects), "sample")
        notes.append(f"{count} that would be rejected: {'; '.join(examples)}")
    if plan.catalog.annotated is not None:
        notes = notes or ["nothing wrong with their annotations"]
    of_all = f"{len(tried.sizes):,} of {format_count(len(plan.catalog), 'sample')} tried"
    notes = [f"{of_all}: {note}" for note in notes]
    seconds = 0.0 if writing is None else planning + writing
    return replace(report, notes=[*report.notes, *notes], seconds=seconds)


def carry_out(
    plan: Plan,
    identity: dict[str, Any],
    options: WriteOptions | AppendOptions,
    pool: Executor,
    *,
    overwrite: bool = False,
    base: Manifest | None = None,
) -> WriteReport:
    """Write what is missing of a data set, or of what is added to one, and commit it."""
    target, progress = target_of(plan.job.destination), options.progress or Progress()
    state = RunState(target, identity, list(plan.files()), progress)
    try:
        if pool.is_cluster:
            require_nodes(plan, target, pool)
        begin(plan, state, overwrite=overwrite, base=base)
        run = Run(plan, state, 0 if options.on_error == "fail" else options.max_errors)
        outcome = run.carry_out(pool, progress)
        manifest = commit(plan, state, outcome, base)
    except KeyboardInterrupt:
        done = sum(shard.name in state.done for shard in plan.shards)
        where = "written" if plan.job.destination.remote is None else "on S3"
        raise Interrupted(
            f"interrupted; {done} of {format_count(len(plan.shards), 'shard')} are {where}; "
            "give the same command again to continue"
        ) from None
    finally:
        pool.close()  # stop workers before their files are removed
        state.release()
    name = "continued" if state.resumed else _DONE[plan.job.command]
    return _done(plan, manifest, outcome, name, base)


def _done(
    plan: Plan, manifest: Manifest, outcome: Receipt, name: str, base: Manifest | None = None
) -> WriteReport:
    """Return the report of a run that has just completed a data set."""
    rejects = [*plan.lost, *outcome.rejects, *plan.existing.rejects]
    report = report_of(plan, manifest, rejects, name)
    notes = list(report.notes)
    notes += effect_notes(outcome.effects)
    if outcome.unlabeled and base is None:
        count = format_count(outcome.unlabeled, "sample")
        notes.append(f"{count} without the label that others have")
    return replace(report, notes=notes)


@called_with(AppendOptions)
def append(options: AppendOptions) -> WriteReport:
    """Add samples to a data set that has a manifest: as new shards, the others being untouched.

    ``sources`` is what :func:`dsprep.pack` takes, or shards; ``dest`` is the directory of the data
    set. The new shards are made as the existing ones were: in the same format, with the same
    classes, keys and transform. Their ids continue those of the data set.

    Returns:
        What was done; its shards are all of the data set, the new ones last. Samples are counted by
        class only by a dry run, and only the new ones.
    """
    began, progress = time.monotonic(), options.progress or Progress()
    options = with_layout(options)
    require_disk(options.dest)
    destination = place_of(str(options.dest))
    source = source_with(options)
    base, made = _base(destination)
    if made.copies is not None:
        raise DestinationError(
            f"{destination}: holds augmented copies, and samples that are appended would get none: "
            "add them to the originals, and run dsprep augment on these again"
        )
    require_effect("shard append", options.given, made=made.transform is not None)
    if not options.dry_run:
        remove_leftovers(destination, base)
    target = target_of(destination)
    goes_on = target.noted_run() is not None
    if not goes_on:  # an unfinished append may have replaced files beside the shards
        require_whole(target, base, "restore it, or pack all samples again")
    job = _job_of_append(options, source, destination, base, made)
    is_merged = job.layout.distinct == "key"
    with _pool(job, options) as pool:
        there = _there(destination, base, job.layout, pool)
        first_id = int(there.table["index"].max() or 0) + 1  # type: ignore[arg-type]
        known = Base(there, rejects_of(target, base)) if options.skip_existing else None
        job = replace(job, first_id=first_id, base=known, is_decided=goes_on)
        plan = make_plan(job, pool, progress)
        if plan.catalog.sides:
            raise SourceError(
                f"{source.root}: has the sides {format_some(plan.catalog.sides)}, and "
                f"{destination} has none: name the samples of one side"
            )
        still_bad = plan.existing.rejects
        if not len(plan.catalog):
            report = report_of(plan, base, [*plan.lost, *still_bad], "already appended")
            return replace(report, per_class={}, seconds=time.monotonic() - began)
        digest = plan.catalog.with_ids_from(-first_id).digest()
        added = base.options.get("appended", [])
        if any(isinstance(each, dict) and each.get("source") == digest for each in added):
            report = report_of(plan, base, still_bad, "already appended")
            return replace(report, per_class={}, seconds=time.monotonic() - began)
        keys = plan.catalog.keys()
        twice = keys.filter(keys.is_in(there.keys().implode())).to_list()
        if twice and is_merged and job.key == "path":
            raise SourceError(
                f"{source.root}: {len(twice):,} samples have keys of samples that are there "
                f"already, {format_some(twice)}; give --skip-existing to leave out those with the "
                "same bytes, or rename the files"
            )
        if options.dry_run:
            return planned_report(plan, pool, progress, began)
        require_distinct_keys(plan)
        before = [shard.name for shard in base.shards]
        identity = {**identity_of(plan), "source": digest, "appended to": before}
        report = carry_out(plan, identity, options, pool, base=base)
    if samples := report.samples - base.samples:
        shards = format_count(len(report.shards) - len(before), "new shard")
        new = f"{samples:,} of the samples {'is' if samples == 1 else 'are'} new, in {shards}"
    else:
        report = replace(report, state="already appended")
        new = "none of the samples is new, so no shard was added"
    notes = [*report.notes, new]
    if still_bad:
        bad = format_count(len(still_bad), "sample")
        notes.append(f"{bad} rejected again, as before: {format_some([r.path for r in still_bad])}")
    if not is_merged and not options.skip_existing:
        unchecked = f"{job.layout.name}: samples that exist already are not looked for"
        notes.append(f"{unchecked}; --skip-existing leaves them out")
    return replace(report, notes=notes, per_class={}, seconds=time.monotonic() - began)


def _job_of_append(
    options: AppendOptions, source: Source, destination: Destination, base: Manifest, made: Recorded
) -> Job:
    """Return the job that makes new shards as the existing ones were made."""
    size, choice, fields = size_of(options), source.choice, made.fields
    if size == ShardSize():  # without options of size, new shards get the size of the existing ones
        known = base.options.get("size") or {}
        target, samples = known.get("target"), known.get("samples")
        size = ShardSize(target=target, samples=samples)
    choice = replace(
        choice,
        only=choice.only or fields.only,
        drop=(*fields.drop, *choice.drop),
        rename={**fields.rename, **choice.rename},
        recorded=frozenset(fields.rename),
    )
    source = source.replace(
        choice=choice,
        classes=str(destination.companion("classes.txt")) if base.classes else None,
        needs_names=made.layout.class_names_in == "header",
        takes_texts=made.layout.written.has_texts,
        takes_masks=made.layout.written.has_masks,
    )
    keep_fields = made.keep_fields.union(options.keep_fields)
    return Job(
        "shard append",
        options.given,
        source,
        destination,
        made.layout,
        Images(
            *(made.transform, base.options.get("check"), made.max_pixels, keep_fields),
            frame=Frame(*made.frame),
        ),
        size,
        base.name,
        made.key,
        seed=(options.seed or 0) if options.shuffle else None,
        first_shard=len(base.shards),
    )


def _base(destination: Destination) -> tuple[Manifest, Recorded]:
    """Return the manifest of the data set to add to, and how that was made."""
    directory = destination.place
    if not directory.is_dir():
        what = "is a file" if directory.exists() else "does not exist"
        raise DestinationError(
            f"{destination}: {what}; name the directory of a data set, which dsprep pack writes"
        )
    if not os.access(directory, os.R_OK | os.X_OK):
        raise DestinationError(f"{destination}: cannot be read: permission denied")
    manifest = finished_manifest(
        target_of(destination), "move it away; dsprep shard index writes another one"
    )
    if manifest is None:
        raise DestinationError(
            f"{destination}: holds no manifest.json, so its shards are not known; "
            "dsprep shard index writes one"
        )
    if sides := dict.fromkeys(manifest.sides.values()):
        raise OptionError(
            f"{destination}: has the sides {format_some([*sides])}, and append does not know which "
            "one new samples belong to: write them to a directory of their own"
        )
    if manifest.options.get("single_file"):
        raise OptionError(f"{destination}: is a single file; shards are added to a directory")
    try:
        return manifest, recorded_options(manifest, str(destination.manifest))
    except SourceError as error:
        raise DestinationError(str(error)) from None


def _there(destination: Destination, base: Manifest, layout: Format, pool: Executor) -> Catalog:
    from dsprep.sources.shards.shards import read_shards  # slow to load, and only some runs need it

    files = tuple(str(destination.directory / shard.name) for shard in base.shards)
    catalog, damaged = read_shards(ShardSet(str(destination), files, layout), run_all=pool.map)
    if damaged:
        raise DestinationError(
            f"{damaged[0].path}: {damaged[0].detail}; see dsprep verify {destination}"
        )
    return catalog
