"""``shard append``: new samples become new shards of a data set that is there."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dsprep.arguments import AnyPath, public
from dsprep.commands.write import (
    WriteReport,
    final_report,
    held,
    planned_report,
    require_one_of,
    shard_size,
)
from dsprep.dataset.manifest import Manifest
from dsprep.dataset.recorded import Recorded, recorded_options
from dsprep.errors import DestinationError, OptionError, SourceError
from dsprep.formats import Format
from dsprep.options import given_options, require_effect
from dsprep.plan.cuts import ShardSize
from dsprep.plan.destination import Destination, take_sources
from dsprep.plan.geometry import kept_fields
from dsprep.plan.packing import Packing
from dsprep.plan.plan import Plan, make_plan, require_distinct_keys
from dsprep.progress import Progress
from dsprep.run.commit import begin, commit, finished_manifest, identity_of
from dsprep.run.run import Run
from dsprep.run.state import RunState, remove_leftovers
from dsprep.run.target import target_of
from dsprep.schema import Schema
from dsprep.sources.reading import make_choice, make_source
from dsprep.storage.urls import require_disk
from dsprep.units import format_count, format_some, parse_size
from dsprep.workers.pool import Pool, available_cores

if TYPE_CHECKING:
    from dsprep.catalog import Catalog


@public
def append(
    sources: AnyPath | Sequence[AnyPath],
    dest: AnyPath,
    *,
    kind: str | None = None,
    parts: bool = False,
    pairs: Mapping[str, str] | None = None,
    list_file: AnyPath | None = None,
    labels: AnyPath | None = None,
    path_column: str | None = None,
    label_columns: Sequence[str] = (),
    label_separator: str | None = None,
    label_type: str | None = None,
    duplicates: str | None = None,
    extensions: Sequence[str] = (),
    target_size: int | str | None = None,
    shards: int | None = None,
    samples_per_shard: int | None = None,
    image_field: str | None = None,
    label_field: str | None = None,
    only: Sequence[str] = (),
    drop: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    schema: Schema | AnyPath | None = None,
    look: str | None = None,
    no_image: bool = False,
    keep_fields: Sequence[str] = (),
    shuffle: bool = True,
    seed: int | None = None,
    max_errors: int | None = None,
    on_error: str = "skip",
    dry_run: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> WriteReport:
    """Add samples to a data set that has a manifest: as new shards, the others being untouched.

    They are made as those that are there were: in the same format, with the same classes, keys and
    transform. Their ids go on where those of the data set end.

    Args:
        sources: What :func:`dsprep.pack` takes, or shards.
        dest: The directory of the data set.
        kind: What the sources are, where that does not show; see :mod:`dsprep.sources.kinds`.
        parts: Whether files that share a stem are one sample.
        pairs: Patterns of files, by the field that they are: those that match alike are one sample.
        list_file: As for :func:`dsprep.pack`.
        labels: As for :func:`dsprep.pack`.
        path_column: As for :func:`dsprep.pack`.
        label_columns: As for :func:`dsprep.pack`.
        label_separator: As for :func:`dsprep.pack`.
        label_type: As for :func:`dsprep.pack`.
        duplicates: As for :func:`dsprep.pack`.
        extensions: As for :func:`dsprep.pack`.
        target_size: The most bytes that a new shard takes on disk; by default as for the others.
        shards: Or, how many new shards.
        samples_per_shard: Or, how many samples in each.
        image_field: As for :func:`dsprep.pack`.
        label_field: As for :func:`dsprep.pack`.
        only: As for :func:`dsprep.pack`.
        drop: As for :func:`dsprep.pack`.
        rename: As for :func:`dsprep.pack`.
        schema: As for :func:`dsprep.pack`.
        look: As for :func:`dsprep.pack`.
        no_image: As for :func:`dsprep.pack`.
        keep_fields: The fields that do not depend on the geometry of the image, besides those that
            were given when the data set was made.
        shuffle: Whether to shuffle the new samples among themselves.
        seed: Of the shuffle; 0 by default.
        max_errors: Stop when more samples than this are rejected.
        on_error: ``skip`` rejects a bad sample and goes on, ``fail`` stops.
        dry_run: Plan, and write nothing.
        workers: How many processes; by default the cores that this process may use.
        progress: Is told how far the run is.

    Returns:
        What was done; its shards are all of the data set, the new ones last. Samples are counted by
        class only by a dry run, and only the new ones.

    Raises:
        OptionError: If the arguments make no sense.
        SourceError: If the sources cannot be read, or hold a sample that is there already.
        DestinationError: If there is no data set that can be added to.
        RunStopped: If it ended early; calling again goes on.
    """
    given = given_options(locals())
    began = time.monotonic()
    progress = progress or Progress()
    require_disk(dest)
    first, others = take_sources(sources, dest)
    require_one_of("--on-error", on_error, ("skip", "fail"))
    destination = Destination(Path(dest))
    base, made = _base(destination)
    require_effect("shard append", given, made=made.transform is not None)
    if not dry_run:
        remove_leftovers(destination, base)
    target = None if target_size is None else parse_size(target_size)
    asked = shard_size(None, target, shards, samples_per_shard)
    source = make_source(
        first,
        others=others,
        kind=kind,
        parts=parts,
        pairs=pairs,
        list_file=list_file,
        labels=labels,
        path_column=path_column,
        label_columns=label_columns,
        label_separator=label_separator,
        label_type=label_type,
        duplicates=duplicates,
        classes=str(destination.companion("classes.txt")) if base.classes else None,
        extensions=extensions,
        whole=made.layout.class_names_in == "header",
        choice=make_choice(
            image_field=image_field,
            label_field=label_field,
            label_type=label_type,
            only=only or made.fields.only,
            drop=(*made.fields.drop, *drop),
            rename={**made.fields.rename, **(rename or {})},
            schema=schema,
            look=look,
            no_image=no_image,
        ),
    )
    with Pool(available_cores() if workers is None else workers) as pool:
        there = _there(destination, base, made.layout, pool)
        packing = Packing(
            source=source,
            destination=destination,
            layout=made.layout,
            transform=made.transform,
            size=_size(base) if asked == ShardSize() else asked,
            name=base.name,
            seed=(seed or 0) if shuffle else None,
            check=base.options.get("check"),
            readable=made.layout.readable_images if base.options.get("readable") else None,
            max_pixels=made.max_pixels,
            key=made.key,
            keep_fields=made.keep_fields | kept_fields(keep_fields),
            given=given,
            command="shard append",
            first_shard=len(base.shards),
            first_id=_next_id(there),
        )
        plan = make_plan(packing, pool, progress)
        source_digest = plan.catalog.with_ids_from(-packing.first_id).digest()
        if _was_appended(base, source_digest):
            report = final_report(plan, base, [], "already appended", time.monotonic() - began)
            return replace(report, per_class={})
        _require_new(plan, there)
        if dry_run:
            return planned_report(plan, plan.seconds(pool, progress))
        require_distinct_keys(plan)
        identity = {
            **identity_of(plan),
            "source": source_digest,
            "appended to": [shard.name for shard in base.shards],
        }
        state = RunState(target_of(destination), identity, list(plan.files()), progress)
        with held(plan, state, pool):
            begin(plan, state, base=base)
            run = Run(plan, state, 0 if on_error == "fail" else max_errors)
            outcome = run.carry_out(pool, progress)
            manifest = commit(plan, state, outcome, identity, base)
        rejects = [*plan.lost, *outcome.rejects]
        how = "continued" if state.resumed else "appended"
        seconds = time.monotonic() - began
        report = final_report(plan, manifest, rejects, how, seconds, outcome.lost_frames)
        notes = [*report.notes, _added(base, manifest)]
        if made.layout.equal_keys != "merged":
            notes.append(f"{made.layout.name}: samples that were there already are not looked for")
        return replace(report, per_class={}, notes=notes)


def _added(base: Manifest, manifest: Manifest) -> str:
    """What is new."""
    samples = manifest.samples - base.samples
    shards = format_count(len(manifest.shards) - len(base.shards), "new shard")
    return f"{samples:,} of the samples {'is' if samples == 1 else 'are'} new, in {shards}"


def _base(destination: Destination) -> tuple[Manifest, Recorded]:
    """The data set to add to, and how it was made."""
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
            f"{destination}: holds no manifest.json, so nothing tells what is there; "
            "dsprep shard index writes one"
        )
    if manifest.options.get("single_file"):
        raise OptionError(f"{destination}: is a single file; shards are added to a directory")
    try:
        return manifest, recorded_options(manifest)
    except SourceError as error:
        raise DestinationError(f"{destination.manifest}: {error}") from None


def _size(base: Manifest) -> ShardSize:
    """The size that the shards that are there were cut to, where that can be gone on with."""
    known = base.options.get("size") or {}
    target, samples = known.get("target"), known.get("samples")
    return ShardSize(target=target, samples=samples if target is None else None)


def _there(destination: Destination, base: Manifest, layout: Format, pool: Pool) -> Catalog:
    """The catalog of what is there."""
    from dsprep.sources.shards import read_shards
    from dsprep.sources.shardset import ShardSet

    files = tuple(str(destination.directory / shard.name) for shard in base.shards)
    catalog, damaged = read_shards(ShardSet(str(destination), files, layout), run_all=pool.map)
    if damaged:
        raise DestinationError(
            f"{damaged[0].path}: {damaged[0].detail}; see dsprep verify {destination}"
        )
    return catalog


def _next_id(there: Catalog) -> int:
    return int(there.table["index"].max() or 0) + 1  # type: ignore[arg-type]


def _was_appended(base: Manifest, source_digest: str) -> bool:
    """Whether the very same samples were added before."""
    added = base.options.get("appended", [])
    return any(isinstance(each, dict) and each.get("source") == source_digest for each in added)


def _require_new(plan: Plan, there: Catalog) -> None:
    """Refuse samples whose keys are those of others that are there."""
    if plan.packing.layout.equal_keys == "merged" and plan.packing.key == "path":
        keys = plan.catalog.keys()
        twice = keys.filter(keys.is_in(there.keys().implode()))
        if len(twice):
            raise SourceError(
                f"{plan.packing.source.root}: {len(twice):,} samples have keys of samples that are "
                f"there already, {format_some(twice.to_list())}; rename the files"
            )
