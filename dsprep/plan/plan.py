"""Plan a job: index the source, order the samples, weigh them, cut them. Nothing is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from posixpath import normpath
from typing import TYPE_CHECKING, Any

from dsprep.errors import OptionError, SourceError
from dsprep.findings import SKIP_KINDS, Finding, Reject, lost
from dsprep.formats import AUGMENT_FILE
from dsprep.formats.base import Format, TreeFormat
from dsprep.formats.card import CARD
from dsprep.formats.values import extension_of
from dsprep.frozen import Frozen
from dsprep.pipeline import count_dependents, geometry_error, label_depends
from dsprep.plan.copies import with_copies
from dsprep.plan.cut import PlannedShard, plan_shards, plan_units
from dsprep.plan.destination import require_name
from dsprep.plan.existing import Existing, without_existing
from dsprep.plan.job import UNIT_BYTES, Job, resolve_defaults
from dsprep.plan.weigh import SAMPLE, may_turn_some, object_sizes, some_of, weigh
from dsprep.progress import Progress
from dsprep.rows import Rows
from dsprep.schema import impose
from dsprep.sources.passed_over import require_nothing_left
from dsprep.sources.reading import read_source
from dsprep.storage.files import canonical, is_file
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some
from dsprep.workers.executor import Executor

if TYPE_CHECKING:
    import polars as pl

    from dsprep.catalog import Catalog
    from dsprep.plan.select import Chosen

_LABELS = ("cls", "label")  # the columns of a catalog that hold labels
_LOOKED_AT = 64  # samples in which fields are looked for that depend on geometry
_NAMED = 10  # colliding keys that a message names


class Plan(Frozen):
    """The samples in their final order, and the shards that they will make."""

    job: Job  # what was asked for, with nothing left open
    catalog: Catalog  # the samples
    findings: Sequence[Finding]  # what indexing noticed
    # keys that belong to more than one sample, with the samples' paths
    collisions: Sequence[tuple[str, list[str]]]
    shards: Sequence[PlannedShard]  # the cuts
    estimated: bool  # whether the shards' bytes are estimates
    # each side with the number of its shards, in their order; an empty name if there are no sides
    sets: Sequence[tuple[str, int]]
    chosen: Chosen | None = None  # what the filter left out; None if there is none
    existing: Existing = Existing()  # what is left out, as the data set to add to has it
    # the names of files beside shards that stay as they are, as they are lists of the source
    spared: Sequence[str] = ()

    @property
    def in_order(self) -> bool:
        """Whether each shard begins where a file of the source does, all in their order."""
        files = self.catalog.table["file"] if self.catalog.has_places else None
        return self.job.seed is None and all(
            shard.start == 0 or files[shard.start] != files[shard.start - 1]
            for shard in self.shards
            if files is not None
        )

    def unpacked(self) -> Sequence[int]:
        """Return the bytes of the files to unpack first, because they are not read in order."""
        return () if self.in_order and not self.job.copies else self.catalog.reader.spools()

    @property
    def lost(self) -> list[Reject]:
        """The samples that the source names but dsprep cannot read."""
        return lost(self.findings)

    @property
    def skipped(self) -> list[Finding]:
        """What lies in the source and is no sample, without what this run puts there."""
        own = self.job.destination.prefixes_below(self.job.source.root)
        return [
            finding
            for finding in self.findings
            if finding.kind in SKIP_KINDS and not finding.path.startswith(own)
        ]

    def options(self) -> dict[str, Any]:
        """Return the options as a manifest records them, with the number of shards of each side."""
        # The units of a folder are no shards, and are gone when it is complete.
        counts = {side: 1 if self.job.writes_tree else count for side, count in self.sets}
        return self.job.options() | ({"sides": counts} if self.catalog.sides else {})

    def cuts(self) -> dict[str, Any]:
        """Return where the samples are cut, as `KeptCuts` reads it."""
        ends = [(shard.stop, shard.bytes) for shard in self.shards]
        return {"sets": list(self.sets), "ends": ends, "estimated": self.estimated}

    def rows(self, start: int, stop: int) -> Rows:
        return self.catalog.slice(start, stop - start).rows()

    def files(self) -> Iterator[str]:
        """Yield the names of all files that the run may write, the manifest excepted."""
        destination, layout = self.job.destination, self.job.layout
        if self.job.writes_tree:
            for name in ("files.jsonl", "lst", "manifest"):
                yield destination.companion(name).name
        for shard in () if self.job.writes_tree else self.shards:
            yield shard.name
            yield from (name for name in sidecars(layout, shard.name) if name not in self.spared)
        for side, _ in self.sets:
            names = layout.dataset_index(self.job.set_name(side), [])
            yield from (self.job.placed(side, name) for name in names)
        yield from (destination.known_as(name) for name in layout.class_maps())
        yield from (name for name, _ in self.class_files())
        if self.job.augmented is not None:
            yield destination.companion(AUGMENT_FILE).name
        for name in ("classes.txt", "rejects.jsonl", "skipped.jsonl"):
            yield destination.companion(name).name

    def class_files(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the files of the class names of fields that are not the label, and these names."""
        for column in self.job.schema.others if self.job.schema else ():
            if column.names:
                name = f"{extension_of(column.name)}.classes.txt"
                yield self.job.destination.companion(name).name, column.names


class KeptCuts(NamedTuple):
    """Where an interrupted run has cut its samples, which then need not be weighed again."""

    identity: Mapping[str, Any]  # that of the run
    sets: Sequence[tuple[str, int]]  # as `Plan` has them
    ends: Sequence[tuple[int, int]]  # of each shard, the row after its last, and its bytes
    estimated: bool  # whether these bytes are estimates

    @classmethod
    def of_run(cls, run: Mapping[str, Any]) -> KeptCuts | None:
        """Read what a run has noted; None if that is not there, or damaged."""
        try:
            cuts = run["cuts"]
            sets = [(str(side), int(count)) for side, count in cuts["sets"]]
            ends = [(int(stop), int(size)) for stop, size in cuts["ends"]]
            return cls(dict(run["identity"]), sets, ends, bool(cuts["estimated"]))
        except (LookupError, TypeError, ValueError, OverflowError):
            return None

    def shards(self, job: Job, catalog: Catalog) -> list[PlannedShard] | None:
        """Return the shards; None if another job made these cuts, or of other samples."""
        options = json.loads(json.dumps(job.options()))
        is_same = all(self.identity.get(name) == value for name, value in options.items())
        if not is_same or self.identity.get("source") != catalog.digest():
            return None
        sides = list(catalog.by_side())
        if [side for side, _ in self.sets] != [side for side, _ in sides]:
            return None
        shards: list[PlannedShard] = []
        start, ends = 0, iter(self.ends)
        for (side, part), (_, count) in zip(sides, self.sets, strict=True):
            last, name = start + len(part), _shard_namer(job, part, side, len(shards))
            own = islice(ends, min(max(count, 0), len(self.ends)))
            for number, (stop, size) in enumerate(own):
                if not start < stop <= last:
                    return None
                shards.append(PlannedShard(name(number, count), start, stop, size))
                start = stop
            if start != last:
                return None
        return shards if next(ends, None) is None else None


def make_plan(job: Job, pool: Executor, progress: Progress, kept: KeptCuts | None = None) -> Plan:
    """Index the source and cut it into shards, as an interrupted run did if that kept its cuts."""
    catalog, findings = _read(job, pool)
    job = resolve_defaults(job, catalog)
    if job.first_id:
        catalog = catalog.with_ids_from(job.first_id)
    _require_unspoiled(job, catalog, pool)
    if job.key == "index":
        _require_own_ids(catalog)
    _require_objects(job, catalog)
    chosen, existing = None, Existing()
    if job.selects:
        from dsprep.plan.select import select  # imported late: loads polars

        catalog, chosen = select(catalog, job.filter, job.filter_table)
    if job.divide is not None:
        catalog, notes = job.divide(catalog, pool)
        job = replace(job, notes=(*job.notes, *notes))
    job = job.named_after(catalog)
    if job.augmented is not None:
        fields = job.images.kept(catalog.settled.schema)
        catalog, notes = with_copies(catalog, job.augmented, fields)
        job = replace(job, notes=(*job.notes, *notes))
    if job.layout.writes_card and is_file(job.destination.url(job.destination.shard(CARD))):
        job = replace(
            job, notes=(*job.notes, f"{CARD} is there, and stays as it is: no card is written")
        )
    if job.base is not None:
        found = catalog, findings
        catalog, findings, existing = without_existing(job, found, job.base, pool, progress)
        job = replace(job, base=None)
        if not len(catalog):
            return Plan(job, catalog, findings, [], [], False, [], chosen, existing)
    from dsprep.catalog import compact, with_short_paths  # imported late: loads polars

    # From here on, what the plan takes for each sample is all that limits how many there may be.
    # So no second name, here or in a caller, may keep a table that the catalog gives up.
    columns = catalog.table.get_columns()
    catalog = replace(catalog, table=catalog.table.clear())
    catalog = replace(catalog, table=compact(with_short_paths(columns)))
    collisions = catalog.collisions() if job.key == "path" else []
    sample = _sample_to_weigh(job, catalog)
    if job.seed is not None:
        order, columns = catalog.shuffled_rows(job.seed), catalog.table.get_columns()
        catalog = replace(catalog, table=catalog.table.clear())
        catalog = replace(catalog, table=compact(columns, order))
        del order
    if catalog.lists and job.size.by_file:
        catalog = replace(catalog, table=catalog.table.sort("list", maintain_order=True))
    if catalog.sides:
        catalog = replace(catalog, table=catalog.table.sort("side", maintain_order=True))
        _require_directories(job, catalog)
    shards = None if kept is None else kept.shards(job, catalog)
    if kept is not None and shards is not None:
        sets, estimated = kept.sets, kept.estimated
    else:
        weights, capacity, estimated = weigh(job, catalog, sample, pool, progress)
        shards, sets = _cut(job, catalog, weights, capacity)
    facts = findings, collisions, shards, estimated, sets, chosen, existing, _spared(job, shards)
    return Plan(job, catalog, *facts)


def _read(job: Job, pool: Executor) -> tuple[Catalog, list[Finding]]:
    """Index the source, and settle what labels and fields its samples have."""
    own_state = job.destination.url(job.destination.scratch.name)
    source = job.source.replace(own_state=own_state)
    # selecting and splitting expect numbers of 64 bits
    is_plain = not job.selects and job.divide is None
    catalog, findings = read_source(source, pool.map, compact=is_plain, tells_kind=True)
    if not len(catalog):
        raise SourceError(f"{job.source.root}: holds no image that could be packed")
    if not job.is_decided:
        own = job.destination.prefixes_below(job.source.root)
        require_nothing_left(source, (catalog, findings), own)
    settled = catalog.settled
    if job.layout.schema is not None:
        settled = impose(settled, job.layout.schema, str(job.destination))
        catalog = catalog.with_settled(settled)
    if settled.schema.label is None:
        # Numbers in a list or in headers may tell objects.
        has_objects = settled.schema.objects is not None and catalog.annotated is None
        tells = has_objects and catalog.label_column == "label"
        table = catalog.table.drop(() if tells else _LABELS, strict=False)
        catalog = replace(catalog, table=table, classes=None)
    return catalog, findings


def _sample_to_weigh(job: Job, catalog: Catalog) -> Catalog:
    """Return the samples that are made to estimate sizes; none if sizes need no estimate."""
    reader = catalog.reader
    encodes = reader.encodes or reader.pixels is not None
    if not (job.images.changes or encodes or may_turn_some(job, catalog)):
        return replace(catalog, table=catalog.table.clear())
    # Copies take long to make. Fewer tries only make shards some percent smaller than their target.
    return some_of(catalog, SAMPLE if job.augmented is None else SAMPLE // 4)


def _cut(
    job: Job, catalog: Catalog, weights: pl.Series, capacity: int | None
) -> tuple[list[PlannedShard], list[tuple[str, int]]]:
    """Cut the rows of each side into shards; return these, and each side with their number."""
    shards: list[PlannedShard] = []
    sets: list[tuple[str, int]] = []
    start = 0
    for side, part in catalog.by_side():
        stop = start + len(part)
        files = part.table[catalog.files[0]] if job.size.by_file else None
        if side:
            _require_side(job.set_name(side))
        if side and len(part) < (job.size.shards or 0):
            count = format_count(len(part), "sample")
            raise OptionError(f"--shards {job.size.shards}: the side {side} has {count}")
        name = _shard_namer(job, part, side, len(shards))
        if job.writes_tree:
            cut = plan_units(weights[start:stop], UNIT_BYTES, name)
        else:
            cut = plan_shards(weights[start:stop], job.size, job.layout, name, capacity, files)
        shards += (each._replace(start=start + each.start, stop=start + each.stop) for each in cut)
        sets.append((side, len(cut)))
        start = stop
    return shards, sets


def _spared(job: Job, shards: Sequence[PlannedShard]) -> list[str]:
    """Return the files beside shards that are not written, as the job reads its lists there."""
    lists = set(map(canonical, job.source.lists))
    return [
        name
        for shard in shards
        for name in sidecars(job.layout, shard.name)
        if lists and canonical(job.destination.url(name)) in lists
    ]


def sidecars(layout: Format, shard: str) -> list[str]:
    """Return the names of the files beside a shard."""
    return [str(Path(shard).with_suffix(suffix)) for suffix in layout.sidecar_suffixes]


def _require_unspoiled(job: Job, catalog: Catalog, pool: Executor) -> None:
    """Refuse a transform that changes the geometry of images, but not of other fields."""
    # A few samples are looked at, before anything is written. Workers find the others.
    option = job.images.moving_option
    if option is None:
        return
    spoiled: dict[str, str] = {}
    if not catalog.tells_all:
        count = min(_LOOKED_AT, len(catalog))
        places = [number * len(catalog) // count for number in range(count)]
        rows = replace(catalog, table=catalog.table[places]).rows()
        ((samples, dependent),) = pool.map(count_dependents, [(job.pipeline(catalog), rows)])
        of_those = f" of the {samples:,} looked at" if count < len(catalog) else ""
        for name, found in dependent.items():
            spoiled[name] = format_count(found, "sample") + of_those
    if catalog.label_column == "label" and catalog.settled.schema.label is not None:
        labels = sum(map(label_depends, map(tuple, catalog.table["label"].to_list())))
        schema = catalog.settled.schema
        if labels and schema.label not in job.images.kept(schema):
            spoiled[str(schema.label)] = format_count(labels, "sample")
    if spoiled:
        raise geometry_error(option, spoiled)


def _require_own_ids(catalog: Catalog) -> None:
    """Refuse ids that several lists give, as keys are made of them."""
    ids = catalog.table["index"]
    repeated = ids.filter(ids.is_duplicated()) if catalog.lists else ids.clear()
    for number in repeated[:1]:
        raise SourceError(
            f"{catalog.root}: several lists have the id {number}, and --key index makes keys of "
            "ids: give each row an id of its own, or leave out --key index"
        )


def _require_side(name: str) -> None:
    """Refuse a side whose shards cannot be called so."""
    try:
        require_name(name)
    except OptionError:
        raise OptionError(f"no shards can be called {name!r}: rename this side") from None


def _require_directories(job: Job, catalog: Catalog) -> None:
    """Refuse sides that a tree of files would lose, because no directory has their name."""
    layout = job.layout
    if not isinstance(layout, TreeFormat) or layout.divides or catalog.annotated is not None:
        return
    for side, part in catalog.by_side():
        paths = part.paths()
        lies_there = ("/" + paths).str.contains(f"/{side}/", literal=True)
        for path in paths.filter(~lies_there)[:1]:
            raise OptionError(
                f"{job.destination}: a folder keeps sides in directories of their names, and "
                f"{path!r} of the side {side} lies in none; write shards, or name one side as the "
                f"source, such as {job.source.root.rstrip('/')}/{side}"
            )


def _require_objects(job: Job, catalog: Catalog) -> None:
    """Refuse images without objects that readers of the format stop at, as far as known."""
    sizes = object_sizes(catalog) if job.layout.why_not_empty else None
    without = 0 if sizes is None else int((sizes["objects"] == 0).sum())
    if without:
        raise SourceError(
            f"{catalog.root}: {format_count(without, 'image')} of {len(catalog):,} without "
            f"objects, {job.layout.why_not_empty}"
        )


def _shard_namer(job: Job, catalog: Catalog, side: str, before: int) -> Callable[[int, int], str]:
    if job.writes_tree:  # pieces of what becomes one tree
        return lambda number, count: f"units-{before + number:06d}"
    if job.destination.single:
        if side and before:
            raise OptionError(
                f"{job.destination}: is one file, and {job.source.root} has the sides "
                f"{format_some(catalog.sides)}, which become shards of their own: name a directory"
            )
        return lambda number, count: str(job.destination.single)
    if not job.size.by_file:
        first, name = job.first_shard, job.set_name(side)
        return lambda number, count: job.placed(
            side, job.layout.shard_name(name, first + number, first + count)
        )
    column, names = catalog.files
    stems = [names[number] for number in catalog.table[column].unique(maintain_order=True)]
    # Files in a directory for each side may have the names of others.
    stems = [stem if side in stem else f"{side}-{stem}" for stem in stems]
    shards = [stem + job.layout.file_suffix for stem in stems]
    if len(set(shards)) < len(shards):
        twice = next(name for name in shards if shards.count(name) > 1)
        raise OptionError(
            f"{job.destination}: two shards would be called {twice}; "
            "give --target-size, --shards or --samples-per-shard for new names"
        )
    return lambda number, count: job.placed(side, shards[number])


def require_distinct_keys(plan: Plan) -> None:
    """Refuse samples that readers could not distinguish."""
    if not plan.collisions or plan.job.layout.distinct != "key":
        return
    count = len(plan.collisions)
    lines = [f"{plan.catalog.root}: {format_count(count, 'key')} would be that of several samples:"]
    lines += [f"  {key}: {', '.join(paths)}" for key, paths in plan.collisions[:_NAMED]]
    if count > _NAMED:
        lines.append(f"  and {count - _NAMED:,} more")
    is_repeated = all(len(set(map(normpath, paths))) == 1 for _, paths in plan.collisions)
    remedy = "rename files"
    if is_repeated:
        remedy = "rows name a file again: give --duplicates first to use the first of them only"
    lines.append(f"{remedy}, or give --key index to make keys from the samples' numbers")
    raise SourceError(*lines)
