"""``pack``: images in; sized, checked, reproducible shards out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dsprep.errors import Interrupted, OptionError
from dsprep.findings import Finding, Reject
from dsprep.formats import FORMATS, Format
from dsprep.formats.base import ShardFacts
from dsprep.formats.features import choose_features
from dsprep.formats.recordio import RecordIO
from dsprep.formats.tar import MAX_NAME
from dsprep.formats.tfrecord import TFRecord
from dsprep.formats.webdataset import WebDataset
from dsprep.images.check import DEFAULT_MAX_PIXELS, LEVELS
from dsprep.images.transform import Transform
from dsprep.planning.cuts import ShardSize
from dsprep.planning.destination import parse_destination, require_apart, require_name
from dsprep.manifests.manifest import Manifest
from dsprep.planning.plan import Packing, Plan, make_plan, require_distinct_keys
from dsprep.progress import Progress
from dsprep.running.commit import (
    begin,
    commit,
    identity_of,
    rejects_of,
    require_same,
)
from dsprep.running.run import Run
from dsprep.running.state import RunState, finished_manifest, remove_leftovers
from dsprep.sources.reading import make_source
from dsprep.units import format_count, format_some, parse_size
from dsprep.workers.pool import Pool, available_cores


@dataclass(frozen=True)
class PackReport:
    """What packing did or, for a dry run, would do.

    Attributes:
        destination: As it was given.
        format: The format's name.
        state: ``packed``, ``continued`` (some shards were there already), ``already packed`` or
            ``planned``.
        shards: Name, samples and bytes of each.
        samples: In all shards.
        bytes: Of all shards.
        estimated: Whether bytes are estimates.
        classes: Class names, if there are any.
        per_class: Samples of the source by class number.
        rejects: Samples of the source that are not in the shards, and why.
        rejects_file: Where they are listed; None if there are none or nothing was written.
        skipped: What lies in the source and is no sample.
        duplicates: Paths that a list names more than once.
        collisions: Keys of more than one sample, with the samples' paths. For WebDataset, whose
            keys must differ, only a dry run has any.
        notes: What else there is to say.
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
    duplicates: Sequence[Finding]
    collisions: Sequence[tuple[str, Sequence[str]]]
    notes: Sequence[str]
    seconds: float


def pack(
    source: str,
    dest: str,
    *,
    list_file: str | None = None,
    labels: str | None = None,
    path_column: str | None = None,
    label_columns: Sequence[str] = (),
    classes: str | None = None,
    extensions: Sequence[str] = (),
    format: str | None = None,
    target_size: int | str | None = None,
    shards: int | None = None,
    samples_per_shard: int | None = None,
    name: str = "train",
    compression: str = "none",
    features: str | None = None,
    rename: Mapping[str, str] | None = None,
    metadata: bool = False,
    key: str = "path",
    transform: Transform | None = None,
    seed: int | None = 0,
    check: str | None = None,
    max_pixels: int = DEFAULT_MAX_PIXELS,
    max_errors: int | None = None,
    on_error: str = "skip",
    overwrite: bool = False,
    dry_run: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> PackReport:
    """Pack images into shards.

    Args:
        source: The directory that holds the images; each directory in it is a class.
        dest: A directory for the shards, or one file: ``train.tar``, ``train.rec``,
            ``train.tfrecord``.
        list_file: An MXNet ``.lst`` that tells which images to pack, and their labels.
        labels: A CSV or TSV file that tells the same.
        path_column: Its column of paths or ids.
        label_columns: Its columns of labels.
        classes: A file with the class names, one a line, in the order of their numbers.
        extensions: File name extensions of images.
        format: ``webdataset``, ``tfrecord`` or ``recordio``; may be left out for a single file.
        target_size: The most bytes that a shard takes on disk; a number, or a text like ``200MB``.
        shards: Or, how many shards.
        samples_per_shard: Or, how many samples in each.
        name: What shard names begin with.
        compression: ``none``, or ``gzip`` for TFRecord shards.
        features: The preset of feature names for TFRecord.
        rename: Feature names, or extensions of WebDataset members, by field.
        metadata: Whether to write class, filename, width and height into WebDataset shards.
        key: ``path`` or ``index``: what keys are made from.
        transform: What to do to the images; None copies them.
        seed: The samples are shuffled by it; None keeps the source's order.
        check: ``decode``, ``header`` or ``none``; by default ``header``, and ``decode`` for
            RecordIO.
        max_pixels: Images with more are rejected.
        max_errors: Stop when more samples than this are rejected.
        on_error: ``skip`` rejects a bad sample and goes on, ``fail`` stops.
        overwrite: Replace what is at the destination.
        dry_run: Plan, and write nothing.
        workers: How many processes; by default the cores that this process may use.
        progress: Is told how far the run is.

    Returns:
        What was done.

    Raises:
        OptionError: If the arguments make no sense.
        SourceError: If the source cannot be packed.
        DestinationError: If the destination refuses.
        RunStopped: If it ended early; calling again goes on.
    """
    began = time.monotonic()
    require_apart(dest, source)
    destination, format_name = parse_destination(dest, format)
    target = None if target_size is None else parse_size(target_size)
    size = _shard_size(destination.single, target, shards, samples_per_shard)
    _require_one_of("--compression", compression, ("none", "gzip"))
    _require_one_of("--on-error", on_error, ("skip", "fail"))
    _require_one_of("--check", check, (*LEVELS, None))
    _require_one_of("--key", key, ("path", "index"))
    layout = _layout(
        format_name,
        compression == "gzip" or destination.is_gzip,
        features,
        rename or {},
        metadata,
    )
    guarded = layout.readable_images is not None  # a reader that dies of an image must not get it
    packing = Packing(
        source=make_source(
            source,
            list_file=list_file,
            labels=labels,
            path_column=path_column,
            label_columns=label_columns,
            classes=classes,
            extensions=extensions,
        ),
        destination=destination,
        layout=layout,
        transform=transform,
        size=size,
        name=destination.stem or require_name(name),
        seed=seed,
        check=check or ("decode" if guarded else "header"),
        readable=layout.readable_images if check != "none" else None,
        max_pixels=max_pixels,
        key=key,
    )
    with Pool(available_cores() if workers is None else workers) as pool:
        plan = make_plan(packing, pool)
        if dry_run:
            return _planned(plan, plan.seconds(pool))
        require_distinct_keys(plan)
        identity = identity_of(plan)
        finished = None if overwrite else finished_manifest(destination)
        if finished is not None:
            require_same(plan, finished, identity)
            remove_leftovers(destination)
            rejects = rejects_of(plan, finished)
            report = _report(plan, finished, rejects, "already packed", time.monotonic() - began)
            compared = "paths, sizes and labels are the same; verify --against compares contents"
            return replace(report, notes=[*report.notes, compared])
        state = RunState(destination, identity)
        try:
            begin(plan, state, overwrite)
            run = Run(plan, state, 0 if on_error == "fail" else max_errors)
            outcome = run.carry_out(pool, progress or Progress())
            manifest = commit(plan, state, outcome, identity)
        except KeyboardInterrupt:
            whole = sum(shard.name in state.done for shard in plan.shards)
            raise Interrupted(
                f"interrupted; {whole} of {len(plan.shards)} shards are written; "
                "give the same command again to continue"
            ) from None
        finally:
            pool.close()  # before anything is removed that a worker may be writing
            state.release()
        rejects = [*plan.lost, *outcome.rejects]
        how = "continued" if state.resumed else "packed"
        return _report(plan, manifest, rejects, how, time.monotonic() - began)


def _require_one_of(option: str, value: object, choices: Sequence[object]) -> None:
    if value not in choices:
        named = ", ".join(str(choice) for choice in choices if choice)
        raise OptionError(f"{option} {value}: choose one of {named}")


def _shard_size(
    single: str | None, target: int | None, shards: int | None, samples: int | None
) -> ShardSize:
    given = [value for value in (target, shards, samples) if value is not None]
    if len(given) > 1:
        raise OptionError("give one of --target-size, --shards and --samples-per-shard")
    if any(value < 1 for value in given):
        raise OptionError(f"a shard size of {given[0]} makes no shards")
    if single and given:
        raise OptionError(f"{single}: is a single file; a size of shards goes with a directory")
    return ShardSize(shards=1) if single else ShardSize(target, shards, samples)


def _layout(
    format_name: str, gzip: bool, features: str | None, rename: Mapping[str, str], metadata: bool
) -> Format:
    _require_one_of("--format", format_name, tuple(FORMATS))
    if format_name != "tfrecord" and (gzip or features):
        raise OptionError(f"--features and --compression go with tfrecord, not with {format_name}")
    if format_name != "webdataset" and metadata:
        raise OptionError(f"--metadata goes with webdataset, not with {format_name}")
    if format_name == "tfrecord":
        return TFRecord(choose_features(features or "dsprep", rename), gzip)
    if format_name == "webdataset":
        return WebDataset(metadata, dict(rename))
    if rename:
        raise OptionError("--map: RecordIO has no names to map; it holds an image and its label")
    return RecordIO()


def _planned(plan: Plan, seconds: float) -> PackReport:
    shards = [ShardFacts(each.name, each.stop - each.start, each.bytes) for each in plan.shards]
    return PackReport(
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
        **_common(plan, shards),
    )


def _report(
    plan: Plan, manifest: Manifest, rejects: Sequence[Reject], state: str, seconds: float
) -> PackReport:
    shards = [ShardFacts(each.name, each.samples, each.bytes) for each in manifest.shards]
    return PackReport(
        destination=str(plan.packing.destination),
        format=manifest.format,
        state=state,
        shards=shards,
        samples=manifest.samples,
        bytes=manifest.bytes,
        estimated=False,
        rejects=rejects,
        rejects_file=str(plan.packing.destination.companion("rejects.jsonl")) if rejects else None,
        seconds=seconds,
        **_common(plan, shards),
    )


def _common(plan: Plan, shards: Sequence[ShardFacts]) -> dict[str, Any]:
    return {
        "classes": plan.catalog.classes,
        "per_class": plan.catalog.samples_per_class(),
        "skipped": plan.skipped,
        "duplicates": [each for each in plan.findings if each.kind == "duplicate"],
        "collisions": plan.collisions,
        "notes": _notes(plan, shards),
    }


def _notes(plan: Plan, shards: Sequence[ShardFacts]) -> list[str]:
    """What a user would want to know before training on the result."""
    notes = []
    empty = [
        plan.catalog.classes[number]
        for number, count in plan.catalog.samples_per_class().items()
        if plan.catalog.classes and not count
    ]
    if empty:
        notes.append(f"{format_count(len(empty), 'class')} without samples: {format_some(empty)}")
    void = [shard.name for shard in shards if not shard.samples]
    if void:
        notes.append(f"{format_count(len(void), 'empty shard')}: {format_some(void)}")
    if plan.packing.layout.keys_must_differ and plan.packing.key == "path":
        names = plan.catalog.keys()
        long = names.filter(names.str.len_bytes() > MAX_NAME - len(".jpeg"))
        if len(long):
            notes.append(
                f"{format_count(len(long), 'name')} of about {MAX_NAME} bytes or more, which wids "
                f"and DALI do not read: {format_some(long.to_list())}"
            )
    return notes
