"""The report of a command that writes a data set: what it did or, for a dry run, would do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dsprep.dataset.manifest import Manifest
from dsprep.findings import Finding, Reject, count_skipped, notes_of
from dsprep.formats.base import ShardFacts
from dsprep.formats.tar import MAX_NAME
from dsprep.plan.cut import in_megabytes
from dsprep.plan.plan import Plan
from dsprep.schema import Schema
from dsprep.units import format_count, format_some

if TYPE_CHECKING:
    from dsprep.plan.select import Chosen


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


def report_of(
    plan: Plan,
    manifest: Manifest | None = None,
    rejects: Sequence[Reject] | None = None,
    state: str = "planned",
) -> WriteReport:
    """Return the report of a data set that is complete or, without a manifest, planned."""
    from dsprep.sources.infer import table_of  # not before polars is there

    job, catalog = plan.job, plan.catalog
    if manifest is None:
        shards = [ShardFacts(each.name, each.stop - each.start, each.bytes) for each in plan.shards]
    else:
        shards = [ShardFacts(each.name, each.samples, each.bytes) for each in manifest.shards]
    per_class = catalog.samples_per_class(without=[each.path for each in rejects or ()])
    rejects = plan.lost if rejects is None else rejects
    schema, settled = job.schema, catalog.settled
    table = settled and table_of(settled, schema or settled.schema, len(catalog))
    rejects_file = job.destination.url(job.destination.companion("rejects.jsonl").name)
    return WriteReport(
        destination=str(job.destination),
        format=job.layout.name,
        state=state,
        shards=shards,
        samples=manifest.samples if manifest else len(catalog),
        bytes=manifest.bytes if manifest else sum(shard.bytes for shard in shards),
        estimated=manifest is None and (plan.estimated or job.layout.compressed),
        classes=catalog.classes,
        per_class=per_class,
        rejects=rejects,
        rejects_file=rejects_file if manifest and rejects else None,
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
    if not plan.catalog.reader.reads_samples:
        note += (
            "; to have labels, give --labels FILE or --list FILE, or put the images of each class "
            "into a directory of its own"
        )
    return note
