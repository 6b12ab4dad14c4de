"""The report of a command that writes a data set: what it did or, for a dry run, would do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dsprep.annotations.objects import ObjectCounts
from dsprep.dataset.manifest import Manifest
from dsprep.findings import Finding, Reject, count_skipped, notes_of
from dsprep.formats.base import ShardFacts
from dsprep.frozen import Frozen
from dsprep.plan.cut import in_megabytes
from dsprep.plan.plan import Plan
from dsprep.printable import json_values
from dsprep.schema import Schema
from dsprep.units import format_count, format_some

if TYPE_CHECKING:
    from dsprep.catalog import Catalog
    from dsprep.plan.select import Chosen


class WriteReport(Frozen, kw_only=True):
    """What writing a data set did or, for a dry run, would do."""

    destination: str  # as it was given
    format: str  # the format's name
    # `packed` (or `converted` and the like), `continued` (some shards existed), `already packed`
    # or `planned`
    state: str
    shards: Sequence[ShardFacts]  # name, samples and bytes of each
    samples: int  # in all shards
    bytes: int  # of all shards
    estimated: bool = False  # whether bytes are estimates
    classes: Sequence[str] | None  # class names, if there are any
    per_class: Mapping[int, int]  # samples of the source by class number
    rejects: Sequence[Reject]  # samples of the source that are not in the shards, and why
    rejects_file: str | None  # where they are listed; None if there are none or nothing was written
    skipped: Sequence[Finding] = ()  # what lies in the source and is no sample
    skipped_counts: Mapping[str, Mapping[str, int]]  # how many files that is, by kind and extension
    duplicates: Sequence[Finding] = ()  # paths that a list names more than once
    # keys of several samples, with the paths; for WebDataset, whose keys must differ, only a dry
    # run has any
    collisions: Sequence[tuple[str, Sequence[str]]] = ()
    sides: Mapping[str, int]  # samples of each side; empty if there are no sides
    chosen: Chosen | None = None  # what a filter left out; None if there is no filter
    existing: int = 0  # samples left out by `shard append`, as the data set has them
    source: str = ""  # what the source was taken for, and why; empty for a join
    notes: Sequence[str] = ()  # what else there is to say
    schema: Mapping[str, Any] | None  # the schema that is written; None if unknown
    # what a dry run shows of it, a row for each field: its name, type and role, what told it, where
    # it goes, how many samples of the look have it
    fields: Sequence[Sequence[str]] = ()
    # the objects in all shards or, for a dry run, in the source; None if they were not counted
    objects: ObjectCounts | None
    # how long it took; for a dry run, how long it will take, or 0 if that is not known
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "destination": self.destination,
                "format": self.format,
                "state": self.state,
                "shards": self.shards,
                "samples": self.samples,
                "bytes": self.bytes,
                "estimated": self.estimated,
                "classes": self.classes,
                "per_class": self.per_class,
                "rejects": self.rejects,
                "rejects_file": self.rejects_file,
                "skipped": self.skipped,
                "skipped_counts": self.skipped_counts,
                "duplicates": self.duplicates,
                "collisions": self.collisions,
                "sides": self.sides,
                "chosen": self.chosen,
                "existing": self.existing,
                "source": self.source,
                "notes": self.notes,
                "schema": self.schema,
                "fields": self.fields,
                "objects": self.objects,
                "seconds": self.seconds,
            }
        )


def report_of(
    plan: Plan,
    manifest: Manifest | None = None,
    rejects: Sequence[Reject] | None = None,
    state: str = "planned",
) -> WriteReport:
    """Return the report of a data set that is complete or, without a manifest, planned."""
    from dsprep.sources.infer import table_of  # imported late: loads polars

    job, catalog = plan.job, plan.catalog
    if manifest is None:
        shards = [ShardFacts(each.name, each.stop - each.start, each.bytes) for each in plan.shards]
    else:
        shards = [ShardFacts(each.name, each.samples, each.bytes) for each in manifest.shards]
    per_class = catalog.samples_per_class(without=[each.path for each in rejects or ()])
    rejects = [*plan.lost, *plan.existing.rejects] if rejects is None else rejects
    schema, settled = job.schema, catalog.settled
    table = settled and table_of(settled, schema or settled.schema, len(catalog))
    rejects_file = job.destination.url(job.destination.companion("rejects.jsonl").name)
    return WriteReport(
        destination=str(job.destination),
        format=job.layout.name,
        state=state,
        # pieces of a folder are not files that users can find
        shards=[] if job.writes_tree else shards,
        samples=manifest.samples if manifest else len(catalog),
        bytes=manifest.bytes if manifest else sum(shard.bytes for shard in shards),
        estimated=manifest is None and (plan.estimated or job.layout.compressed),
        classes=catalog.class_names,
        per_class=per_class if catalog.class_names == catalog.classes else {},
        rejects=rejects,
        rejects_file=rejects_file if manifest and rejects else None,
        skipped=plan.skipped,
        skipped_counts=count_skipped(plan.skipped),
        duplicates=[each for each in plan.findings if each.kind == "duplicate"],
        collisions=plan.collisions,
        sides={name: len(part) for name, part in catalog.by_side() if name},
        chosen=plan.chosen,
        existing=plan.existing.samples,
        source=next((each.detail for each in plan.findings if each.kind == "source"), ""),
        notes=list(_notes(plan, shards, per_class)),
        schema=None if schema is None else schema.to_json(),
        fields=list(table or ()),
        objects=_objects(catalog, manifest),
        seconds=0.0,
    )


def objects_in(manifest: Manifest) -> ObjectCounts | None:
    """Return how many objects a data set has; None if they were not counted."""
    field = manifest.schema.objects if manifest.schema else None
    if field is None or manifest.objects is None:
        return None
    objects, samples = manifest.objects
    return ObjectCounts(objects, len(field.names), samples, manifest.samples - samples)


def _objects(catalog: Catalog, manifest: Manifest | None) -> ObjectCounts | None:
    """Return how many objects were written or, without a manifest, are in the annotations."""
    field = catalog.settled.schema.objects
    if manifest is not None:
        return objects_in(manifest)
    if catalog.sizes is None or field is None:
        return None
    counts = catalog.sizes["objects"]
    samples = int((counts > 0).sum())
    return ObjectCounts(int(counts.sum()), len(field.names), samples, len(counts) - samples)


def _notes(plan: Plan, shards: Sequence[ShardFacts], per_class: Mapping[int, int]) -> Iterator[str]:
    """Yield what a user would want to know before training on the result."""
    job, catalog = plan.job, plan.catalog
    layout, classes, target = job.layout, catalog.class_names or (), job.size.target
    yield from notes_of(plan.findings)
    annotated = any(each.type in ("objects", "mask") for each in catalog.settled.schema.fields)
    if not (catalog.is_labeled or annotated):
        yield _unlabeled(plan)
    empty = [name for number, name in enumerate(classes) if name and per_class.get(number) == 0]
    if empty and not job.first_shard:
        yield f"{format_count(len(empty), 'class')} without samples: {format_some(empty)}"
    incomplete = [each.path for each in plan.findings if each.kind == "incomplete"]
    if incomplete:
        count = format_count(len(incomplete), "sample")
        yield f"{count} without a part that most have: {format_some(incomplete)}"
    yield from job.notes
    import polars as pl  # imported late, as it is slow to load

    from dsprep.catalog import whole_path

    rows = catalog.table.lazy().with_columns(whole_path(catalog.table))
    if job.key == "index":
        rows = rows.with_columns(path=pl.col("index").cast(str))
    if catalog.sides:
        rows = rows.with_columns(side=pl.col("side").replace_strict(dict(enumerate(catalog.sides))))
    yield from layout.caveats(rows)
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
    catalog = plan.catalog
    is_files = catalog.annotated is None and catalog.reader.facts["image_files"]
    if catalog.tells_all or is_files:
        note += (
            "; to have labels, give --labels FILE, --list FILE or --label-regex REGEX, or put the "
            "images of each class into a directory of its own"
        )
    elif plan.catalog.annotated is None and (others := list(plan.catalog.settled.schema.others)):
        likely = [f"NAME, such as {each.name}" for each in others if each.type == "class"]
        likely += [f"{each.name}.KEY" for each in others if each.type == "json"]
        note += f"; to have labels, give --label-field {[*likely, 'NAME'][0]}"
    return note
