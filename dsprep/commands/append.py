"""``shard append``: new samples become new shards of an existing data set."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dsprep.commands.write import carry_out, planned_report, size_of, source_with
from dsprep.commands.write_report import WriteReport, report_of
from dsprep.dataset.manifest import Manifest
from dsprep.dataset.recorded import Recorded, recorded_options
from dsprep.errors import DestinationError, OptionError, SourceError
from dsprep.formats.base import Format
from dsprep.keywords import AppendOptions, called_with
from dsprep.options import require_effect
from dsprep.pipeline import Images
from dsprep.plan.cut import ShardSize
from dsprep.plan.destination import Destination
from dsprep.plan.job import Job
from dsprep.plan.plan import make_plan, require_distinct_keys
from dsprep.progress import Progress
from dsprep.run.state import finished_manifest, identity_of, remove_leftovers
from dsprep.run.target import target_of
from dsprep.sources.reading import Source
from dsprep.storage.location import require_disk
from dsprep.units import format_count, format_some
from dsprep.workers.pool import Pool, available_cores

if TYPE_CHECKING:
    from dsprep.catalog import Catalog


@called_with(AppendOptions)
def append(options: AppendOptions) -> WriteReport:
    """Add samples to a data set that has a manifest: as new shards, the others being untouched.

    ``sources`` is what :func:`dsprep.pack` takes, or shards; ``dest`` is the directory of the data
    set. The new shards are made as the existing ones were: in the same format, with the same
    classes, keys and transform. Their ids continue those of the data set.

    Returns:
        What was done; its shards are all of the data set, the new ones last. Samples are counted by
        class only by a dry run, and only the new ones.

    Raises:
        OptionError: If the arguments make no sense.
        SourceError: If the sources cannot be read, or hold a sample that is there already.
        DestinationError: If there is no data set that can be added to.
        RunStopped: If it ended early; calling again continues.
    """
    began, progress = time.monotonic(), options.progress or Progress()
    require_disk(options.dest)
    destination = Destination(Path(options.dest))
    source = source_with(options)
    base, made = _base(destination)
    require_effect("shard append", options.given, made=made.transform is not None)
    if not options.dry_run:
        remove_leftovers(destination, base)
    job = _job(options, source, destination, base, made)
    is_merged = job.layout.equal_keys == "merged"
    with Pool(available_cores() if options.workers is None else options.workers) as pool:
        there = _there(destination, base, job.layout, pool)
        first_id = int(there.table["index"].max() or 0) + 1  # type: ignore[arg-type]
        plan = make_plan(replace(job, first_id=first_id), pool, progress)
        digest = plan.catalog.with_ids_from(-first_id).digest()
        added = base.options.get("appended", [])
        if any(isinstance(each, dict) and each.get("source") == digest for each in added):
            report = report_of(plan, base, [], "already appended")
            return replace(report, per_class={}, seconds=time.monotonic() - began)
        keys = plan.catalog.keys()
        twice = keys.filter(keys.is_in(there.keys().implode())).to_list()
        if twice and is_merged and job.key == "path":
            raise SourceError(
                f"{source.root}: {len(twice):,} samples have keys of samples that are there "
                f"already, {format_some(twice)}; rename the files"
            )
        if options.dry_run:
            return planned_report(plan, pool, progress)
        require_distinct_keys(plan)
        before = [shard.name for shard in base.shards]
        identity = {**identity_of(plan), "source": digest, "appended to": before}
        report = carry_out(plan, identity, options, pool, base=base)
    samples = report.samples - base.samples
    shards = format_count(len(report.shards) - len(before), "new shard")
    verb = "is" if samples == 1 else "are"
    notes = [*report.notes, f"{samples:,} of the samples {verb} new, in {shards}"]
    if not is_merged:
        notes.append(f"{job.layout.name}: samples that exist already are not looked for")
    return replace(report, notes=notes, per_class={}, seconds=time.monotonic() - began)


def _job(
    options: AppendOptions, source: Source, destination: Destination, base: Manifest, made: Recorded
) -> Job:
    """Return the job that makes new shards as the existing ones were made."""
    size, choice, fields = size_of(options), source.choice, made.fields
    if size == ShardSize():  # the one that the existing shards were cut to
        known = base.options.get("size") or {}
        target, samples = known.get("target"), known.get("samples")
        size = ShardSize(target=target, samples=samples if target is None else None)
    choice = replace(
        choice,
        only=choice.only or fields.only,
        drop=(*fields.drop, *choice.drop),
        rename={**fields.rename, **choice.rename},
    )
    source = replace(
        source,
        choice=choice,
        classes=str(destination.companion("classes.txt")) if base.classes else None,
        needs_names=made.layout.class_names_in == "header",
    )
    keep_fields = made.keep_fields.union(options.keep_fields)
    return Job(
        "shard append",
        options.given,
        source,
        destination,
        made.layout,
        Images(made.transform, base.options.get("check"), made.max_pixels, keep_fields),
        size,
        base.name,
        made.key,
        seed=(options.seed or 0) if options.shuffle else None,
        first_shard=len(base.shards),
    )


def _base(destination: Destination) -> tuple[Manifest, Recorded]:
    """Return the manifest of the data set to add to, and how that was made."""
    directory = destination.directory
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
    if manifest.options.get("single_file"):
        raise OptionError(f"{destination}: is a single file; shards are added to a directory")
    try:
        return manifest, recorded_options(manifest, str(destination.manifest))
    except SourceError as error:
        raise DestinationError(str(error)) from None


def _there(destination: Destination, base: Manifest, layout: Format, pool: Pool) -> Catalog:
    from dsprep.sources.shards import read_shards
    from dsprep.sources.shardset import ShardSet

    files = tuple(str(destination.directory / shard.name) for shard in base.shards)
    catalog, damaged = read_shards(ShardSet(str(destination), files, layout), run_all=pool.map)
    if damaged:
        raise DestinationError(
            f"{damaged[0].path}: {damaged[0].detail}; see dsprep verify {destination}"
        )
    return catalog
