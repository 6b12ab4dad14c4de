"""From what the user asked for to a plan: index, order, weigh, cut. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from posixpath import normpath
from typing import TYPE_CHECKING

from dsprep.errors import OptionError, SourceError
from dsprep.findings import SKIP_KINDS, Finding, Reject, lost
from dsprep.formats import shard_stem
from dsprep.formats.names import extension_of
from dsprep.plan.cuts import PlannedShard, plan_shards
from dsprep.plan.looking import require_unspoiled
from dsprep.plan.packing import Packing
from dsprep.plan.recipe import Recipe
from dsprep.plan.selection import Chosen
from dsprep.plan.settle import idle_keep_fields, settle
from dsprep.plan.weigh import pick, try_samples, weigh
from dsprep.progress import Progress
from dsprep.rows import Rows
from dsprep.schema import impose
from dsprep.sources.reading import read_source
from dsprep.units import format_count
from dsprep.workers.pool import Pool

if TYPE_CHECKING:
    from dsprep.catalog import Catalog

LABELS = ("cls", "label")
"""The columns of a catalog that hold labels."""

_TIMED = 128
"""How many images a dry run tries, to say how long the run will take."""

_NAMED = 10
"""How many colliding keys a message names."""


@dataclass(frozen=True)
class Plan:
    """The samples in their final order, and the shards that they will make."""

    packing: Packing  # what was asked for
    catalog: Catalog  # the samples
    findings: Sequence[Finding]  # what indexing noticed
    # keys that belong to more than one sample, with the samples' paths
    collisions: Sequence[tuple[str, list[str]]]
    shards: Sequence[PlannedShard]  # the cuts
    estimated: bool  # whether the shards' bytes are estimates
    chosen: Chosen | None = None  # what the selection left out or repeated; None if there was none
    # what is left out or changed, and which options name fields that no sample has
    notes: Sequence[str] = ()

    @property
    def in_order(self) -> bool:
        """Whether each shard begins where a file of the source does, all in their order."""
        files = self.catalog.table["file"].to_list() if self.catalog.has_places else []
        return self.packing.seed is None and all(
            shard.start == 0 or files[shard.start] != files[shard.start - 1]
            for shard in self.shards
            if files
        )

    @property
    def lost(self) -> list[Reject]:
        """The samples that the source names and nobody can read."""
        return lost(self.findings)

    @property
    def skipped(self) -> list[Finding]:
        """What lies in the source and is no sample, without what this run puts there."""
        own = self.packing.destination.prefixes_below(self.packing.source.root)
        return [
            finding
            for finding in self.findings
            if finding.kind in SKIP_KINDS and not finding.path.startswith(own)
        ]

    @property
    def recipe(self) -> Recipe:
        """How workers make the samples."""
        return self.packing.recipe(self.catalog)

    def rows(self, start: int, stop: int) -> Rows:
        """The rows from ``start`` up to, and without, ``stop``."""
        return self.catalog.slice(start, stop - start).rows()

    def files(self) -> Iterator[str]:
        """The names of all files that the run may write, the manifest excepted."""
        destination, layout = self.packing.destination, self.packing.layout
        if layout.is_tree:
            for name in ("files.jsonl", "lst", "manifest"):
                yield destination.companion(name).name
        for shard in () if layout.is_tree else self.shards:
            yield shard.name
            for suffix in layout.sidecar_suffixes:
                yield Path(shard.name).with_suffix(suffix).name
        yield from layout.dataset_index(self.packing.name, [])
        yield from (name for name, _ in self.class_files())
        for name in ("classes.txt", "rejects.jsonl", "skipped.jsonl"):
            yield destination.companion(name).name

    def class_files(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The files of the class names of fields that are not the label, and these names."""
        for each in self.packing.schema.others if self.packing.schema else ():
            if each.names:
                name = f"{extension_of(each.name)}.classes.txt"
                yield self.packing.destination.companion(name).name, each.names

    def seconds(self, pool: Pool, progress: Progress) -> float:
        """How long the run will take, by trying some samples now."""
        tried = try_samples(self.packing, pick(self.catalog, _TIMED), pool, progress)
        spent = sum(each.seconds for each in tried)
        count = sum(len(each.sizes) for each in tried)
        return spent / count * len(self.catalog) / pool.size


def make_plan(packing: Packing, pool: Pool, progress: Progress) -> Plan:
    """Index the source and cut it into shards."""
    own_state = packing.destination.url(packing.destination.scratch.name)
    catalog, findings = read_source(replace(packing.source, own_state=own_state), pool.map)
    if not len(catalog):
        raise SourceError(f"{packing.source.root}: holds no image that could be packed")
    settled = catalog.settled
    assert settled is not None
    if packing.layout.schema is not None:
        settled = impose(settled, packing.layout.schema, str(packing.destination))
        catalog = catalog.with_settled(settled)
    if settled.schema.label is None:
        catalog = replace(catalog, table=catalog.table.drop(LABELS, strict=False), classes=None)
    packing, notes = settle(packing, catalog)
    if packing.first_id:
        catalog = catalog.with_ids_from(packing.first_id)
    require_unspoiled(packing, catalog, pool)
    notes += idle_keep_fields(packing, settled.schema)
    chosen = None
    if packing.selection is not None:
        from dsprep.plan.select import select  # not before polars is there

        catalog, chosen = select(catalog, packing.selection)
    collisions = catalog.collisions() if packing.key == "path" else []
    indexed = catalog
    if packing.seed is not None:
        catalog = catalog.shuffle(packing.seed)
    weights, capacity, estimated = weigh(packing, catalog, indexed, pool, progress)
    files = catalog.table["file"].to_list() if packing.size.by_file else ()
    name = _shard_namer(packing, catalog)
    shards = plan_shards(weights, packing.size, packing.layout, name, capacity, files)
    return Plan(packing, catalog, findings, collisions, shards, estimated, chosen, notes)


def _shard_namer(packing: Packing, catalog: Catalog) -> Callable[[int, int], str]:
    """What names shard i of n."""
    if packing.layout.is_tree:
        return lambda number, count: f"units/{number:06d}"  # pieces of what becomes one tree
    if packing.destination.single:
        return lambda number, count: str(packing.destination.single)
    if not packing.size.by_file:
        first = packing.first_shard
        return lambda number, count: packing.layout.shard_name(
            packing.name, first + number, first + count
        )
    files = catalog.reader.sources()
    used = catalog.table["file"].unique(maintain_order=True)
    names = [shard_stem(files[number]) + packing.layout.file_suffix for number in used]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise OptionError(
            f"{packing.destination}: two shards would be called {twice}; "
            "give --target-size, --shards or --samples-per-shard for new names"
        )
    return lambda number, count: names[number]


def require_distinct_keys(plan: Plan) -> None:
    """Refuse samples that readers could not tell apart."""
    if not plan.collisions or plan.packing.layout.equal_keys != "merged":
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
    raise SourceError("\n".join(lines))
