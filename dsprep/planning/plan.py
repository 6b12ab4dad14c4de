"""From what the user asked for to a plan: index, order, weigh, cut. Nothing is written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsprep.errors import OptionError, SourceError
from dsprep.findings import SKIP_KINDS, Finding, Reject, lost
from dsprep.formats import Format, shard_stem
from dsprep.formats.folder import Folder
from dsprep.formats.parquet import Parquet, parquet_for
from dsprep.formats.webdataset import WebDataset
from dsprep.images.transform import Transform
from dsprep.planning.cuts import DEFAULT_TARGET, PlannedShard, ShardSize, plan_shards
from dsprep.planning.destination import Destination
from dsprep.planning.estimate import SAMPLE, fit
from dsprep.planning.fields import FieldChoice
from dsprep.planning.recipe import Measured, Recipe, measure
from dsprep.planning.selection import Chosen, Selection
from dsprep.readers.parquet import ParquetReader
from dsprep.rows import Rows
from dsprep.sample import TYPES
from dsprep.sources.reading import Source, read_source
from dsprep.units import format_count
from dsprep.workers.pool import Pool

if TYPE_CHECKING:
    from dsprep.catalog import Catalog

_SAMPLE_SEED = 1
"""The images that are tried do not depend on the seed of the order."""

_TIMED = 128
"""How many images a dry run tries, to say how long the run will take."""

_UNIT = 64_000_000
"""Bytes of files that a worker writes of a folder before they are noted as done."""

_NAMED = 10
"""How many colliding keys a message names."""


@dataclass(frozen=True)
class Packing:
    """What is to be packed, and how: all that the bytes of the output depend on.

    Attributes:
        source: The images and their labels.
        destination: Where the shards go.
        layout: The format.
        transform: What is done to images; None copies their bytes.
        size: How large shards are to be.
        name: What shard names begin with.
        seed: The order is shuffled by it; None keeps the source's order.
        check: ``decode``, ``header`` or ``none``; None for what suits format and source.
        readable: The kinds of image that may be written; None for any.
        max_pixels: The most pixels that an image may have.
        key: ``path`` or ``index``: where keys come from.
        fields: Which fields of whole samples are kept.
        selection: Which samples are taken; None for all.
        names: Whether file names are kept that do not follow from keys.
        copies: Whether encoded samples are copied as they are.
        first_shard: The number of the first shard, after those that are there already.
        first_id: What is added to ids, likewise.
    """

    source: Source
    destination: Destination
    layout: Format
    transform: Transform | None
    size: ShardSize
    name: str
    seed: int | None
    check: str | None
    readable: frozenset[str] | None
    max_pixels: int
    key: str
    fields: FieldChoice = FieldChoice()
    selection: Selection | None = None
    names: bool = False
    copies: bool = False
    first_shard: int = 0
    first_id: int = 0

    def options(self) -> dict[str, Any]:
        """The options as the manifest records them: no paths, nothing of this machine."""
        options = {
            "format": {"name": self.layout.name, **asdict(self.layout)},
            "transform": asdict(self.transform) if self.transform else None,
            "size": self.size.options(),
            "single_file": self.destination.single is not None,
            "seed": self.seed,
            "check": self.check,
            "readable": None if self.readable is None else sorted(self.readable),
            "max_pixels": self.max_pixels,
            "key": self.key,
        }
        if not self.fields.is_all:
            options["fields"] = self.fields.options()
        if self.selection is not None:
            selection = asdict(self.selection)
            selection["table"] = self.selection.table is not None  # not its path on this machine
            options["selection"] = selection
        for name in ("names", "copies"):
            if getattr(self, name):
                options[name] = True
        return options


@dataclass(frozen=True)
class Plan:
    """The samples in their final order, and the shards that they will make.

    Attributes:
        packing: What was asked for.
        catalog: The samples.
        findings: What indexing noticed.
        collisions: Keys that belong to more than one sample, with the samples' paths.
        shards: The cuts.
        estimated: Whether the shards' bytes are estimates.
        chosen: What the selection left out or repeated; None if there was none.
    """

    packing: Packing
    catalog: Catalog
    findings: Sequence[Finding]
    collisions: Sequence[tuple[str, list[str]]]
    shards: Sequence[PlannedShard]
    estimated: bool
    chosen: Chosen | None = None

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
        return _recipe(self.packing, self.catalog)

    def rows(self, start: int, stop: int) -> Rows:
        """The rows from ``start`` up to, and without, ``stop``."""
        return rows_of(self.catalog.slice(start, stop - start))

    def files(self) -> Iterator[str]:
        """The names of all files that the run may write, the manifest excepted."""
        destination, layout = self.packing.destination, self.packing.layout
        suffixes = layout.sidecars(Rows([], [], [], None), [])
        if isinstance(layout, Folder):
            for name in ("files.jsonl", "lst", "manifest"):
                yield destination.companion(name).name
        for shard in () if isinstance(layout, Folder) else self.shards:
            yield shard.name
            yield from (Path(shard.name).with_suffix(suffix).name for suffix in suffixes)
        yield from layout.dataset_index(self.packing.name, [])
        for name in ("classes.txt", "rejects.jsonl", "skipped.jsonl"):
            yield destination.companion(name).name

    def seconds(self, pool: Pool) -> float:
        """How long the run will take, by trying some samples now."""
        tried = _try_samples(self.packing, _sample(self.catalog, _TIMED), pool)
        spent = sum(each.seconds for each in tried)
        count = sum(len(each.sizes) for each in tried)
        return spent / count * len(self.catalog) / pool.size


def make_plan(packing: Packing, pool: Pool) -> Plan:
    """Index the source and cut it into shards.

    Raises:
        SourceError: If the source cannot be packed.
        OptionError: If the options make no sense for it.
    """
    catalog, findings = read_source(packing.source, pool.map)
    if not len(catalog):
        raise SourceError(f"{packing.source.root}: holds no image that could be packed")
    packing = _settled(packing, catalog)
    if packing.first_id:
        catalog = catalog.with_ids_from(packing.first_id)
    _require_held(packing, catalog)
    chosen = None
    if packing.selection is not None:
        from dsprep.planning.select import select  # not before polars is there

        catalog, chosen = select(catalog, packing.selection)
    collisions = catalog.collisions() if packing.key == "path" else []
    _require_exact_labels(packing, catalog)
    indexed = catalog
    if packing.seed is not None:
        catalog = catalog.shuffle(packing.seed)
    weights, capacity, estimated = _weights(packing, catalog, indexed, pool)
    files = catalog.table["file"].to_list() if packing.size.by_file else ()
    name = _shard_namer(packing, catalog)
    shards = plan_shards(weights, packing.size, packing.layout, name, capacity, files)
    return Plan(packing, catalog, findings, collisions, shards, estimated, chosen)


def _settled(packing: Packing, catalog: Catalog) -> Packing:
    """What was asked for, with all that was left open and depends on the source."""
    check, size, layout = packing.check, packing.size, packing.layout
    if isinstance(layout, Parquet):
        layout = _columns(packing, catalog)
    else:
        _require_no_doubles(packing, catalog)
    if check is None:
        # A reader that dies of an image must not get it. What is whole already is not judged anew.
        guarded = packing.layout.readable_images is not None
        check = "decode" if guarded else "none" if catalog.reader.whole else "header"
    if size.by_file and not (catalog.reader.whole and catalog.reader.sources()):
        size = ShardSize()
    if isinstance(packing.layout, Folder):
        size = ShardSize(target=_UNIT)
    return replace(packing, check=check, size=size, layout=layout)


def _columns(packing: Packing, catalog: Catalog) -> Parquet:
    """Parquet with columns for all fields that the samples have."""
    fields = packing.fields.apply_to_counts(catalog.fields)
    if not catalog.reader.whole:
        label = {"cls": ("cls", "int"), "label": ("label", "tuple")}.get(catalog.label_column or "")
        fields = {("jpg", "bytes"): len(catalog)} | ({label: len(catalog)} if label else {})
    reader = catalog.reader
    columns = reader.columns if isinstance(reader, ParquetReader) else None
    return parquet_for(fields, catalog.classes, source=columns)


def _require_no_doubles(packing: Packing, catalog: Catalog) -> None:
    """Refuse columns of 64-bit floats where they would not survive.

    Raises:
        OptionError: If there are any, and they are neither dropped nor to be rounded.
    """
    if not isinstance(catalog.reader, ParquetReader):
        return
    columns = catalog.reader.columns
    doubles = [
        name
        for name, kind in columns.kinds
        if kind in ("double", "list<double>")
        and name not in columns.rounded
        and name not in (columns.image, columns.label)
    ]
    kept = list(packing.fields.apply(dict.fromkeys(doubles, None)))
    if kept:
        names = ",".join(kept)
        raise OptionError(
            f"{packing.source.root}: holds 64-bit floats in {', '.join(kept)}, and "
            f"{packing.layout.name} holds 32-bit ones: give --round {names}, or --drop {names}"
        )


def _shard_namer(packing: Packing, catalog: Catalog) -> Callable[[int, int], str]:
    """What names shard i of n.

    Raises:
        OptionError: If two shards would carry the same name over.
    """
    if isinstance(packing.layout, Folder):
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


def _require_held(packing: Packing, catalog: Catalog) -> None:
    """Refuse a source whose fields the format cannot hold, before anything is written.

    Raises:
        OptionError: If there are such fields and they are not to be dropped.
    """
    counts: dict[str, int] = {}
    types: dict[str, type] = {}
    for (name, kind), count in catalog.fields.items():
        counts[name] = counts.get(name, 0) + count
        types[name] = TYPES.get(kind, bytes)
    unheld = packing.layout.unheld(packing.fields.apply(types))
    if unheld:
        named = ", ".join(
            f"{name} ({format_count(counts.get(name, 0), 'sample')})" for name in unheld
        )
        raise OptionError(
            f"{packing.layout.name} cannot hold {named}; "
            f"give --drop {','.join(unheld)} to leave {'it' if len(unheld) == 1 else 'them'} out"
        )


def require_distinct_keys(plan: Plan) -> None:
    """Refuse samples that readers could not tell apart.

    Raises:
        SourceError: If keys belong to more than one sample, and the format cannot have that.
    """
    if not plan.collisions or not plan.packing.layout.keys_must_differ:
        return
    count = len(plan.collisions)
    lines = [f"{plan.catalog.root}: {format_count(count, 'key')} would be that of several samples:"]
    lines += [f"  {key}: {', '.join(paths)}" for key, paths in plan.collisions[:_NAMED]]
    if count > _NAMED:
        lines.append(f"  and {count - _NAMED:,} more")
    lines.append("rename files, or give --key index to make keys from the samples' numbers")
    raise SourceError("\n".join(lines))


def _require_exact_labels(packing: Packing, catalog: Catalog) -> None:
    limit = packing.layout.max_class
    if limit is not None and catalog.label_column == "cls":
        largest = max(map(abs, catalog.samples_per_class()))
        if largest > limit:
            raise SourceError(
                f"{packing.source.root}: the label {largest} is above {limit}, which "
                f"{packing.layout.name} cannot hold exactly; choose another format"
            )


def _recipe(packing: Packing, catalog: Catalog) -> Recipe:
    return Recipe(
        reader=catalog.reader,
        layout=packing.layout,
        transform=packing.transform,
        check=packing.check or "header",
        readable=packing.readable,
        max_pixels=packing.max_pixels,
        classes=catalog.classes,
        key=packing.key,
        fields=packing.fields,
        names=packing.names,
        copies=packing.copies,
    )


def rows_of(catalog: Catalog) -> Rows:
    """A catalog as the plain lists that workers take."""
    table = catalog.table
    labels: list[Any] | None = None
    if catalog.label_column:
        labels = table[catalog.label_column].to_list()
        if catalog.label_column == "label":
            labels = [tuple(label) for label in labels]
    ids, paths, sizes = (table[name].to_list() for name in ("index", "path", "size"))
    files, offsets, stored, copies = (
        table[name].to_list() if name in table.columns else None
        for name in ("file", "offset", "stored", "copy")
    )
    return Rows(ids, paths, sizes, labels, files, offsets, stored, copies)


def _weights(
    packing: Packing, catalog: Catalog, indexed: Catalog, pool: Pool
) -> tuple[list[int], int | None, bool]:
    """The bytes of each encoded sample, how full to plan a shard, and whether they are estimates.

    Args:
        packing: What is asked for.
        catalog: The samples in their order.
        indexed: The samples in the order of the source, which decides what is tried.
        pool: Tries samples where nothing else tells.
    """
    sizes: list[int] = catalog.table["size"].to_list()
    layout, whole = packing.layout, catalog.reader.whole
    if packing.names and isinstance(layout, WebDataset):
        layout = replace(layout, metadata=True)  # some samples have names to be written, or all
    if packing.copies:
        return sizes, None, False
    if packing.size.by_file:
        return sizes, None, True
    if packing.transform is not None or catalog.reader.encodes:
        if not packing.size.by_bytes:
            return sizes if whole else _exact_weights(layout, catalog, sizes), None, True
        predicted, capacity = _estimate(packing, catalog, _sample(indexed, SAMPLE), sizes, pool)
        weights = predicted if whole else _exact_weights(layout, catalog, predicted)
        return weights, capacity, True
    if not whole:
        return _exact_weights(layout, catalog, sizes), None, not layout.concatenative
    if not (layout.concatenative and packing.size.by_bytes):
        return sizes, None, True
    measured = chain.from_iterable(each.sizes for each in _try_samples(packing, catalog, pool))
    return [size or 0 for size in measured], None, False


def _exact_weights(layout: Format, catalog: Catalog, image_sizes: Sequence[int]) -> list[int]:
    """The bytes of each encoded sample, given those of its image."""
    import polars as pl

    table = catalog.table.with_columns(pl.Series("image", image_sizes, dtype=pl.Int64))
    if catalog.classes and catalog.label_column == "cls":
        table = table.with_columns(pl.Series("class", catalog.classes).gather(table["cls"]))
    return layout.weights(table).to_list()


def _estimate(
    packing: Packing, catalog: Catalog, sample: Catalog, sizes: Sequence[int], pool: Pool
) -> tuple[list[int], int]:
    """Encoded bytes of each image, and how full to plan a shard with them."""
    target = packing.layout.capacity(packing.size.target or DEFAULT_TARGET)
    tried = _try_samples(packing, sample, pool)
    encoded = list(chain.from_iterable(each.sizes for each in tried))
    measured = zip(sample.table["index"].to_list(), encoded, strict=True)
    known = {index: size for index, size in measured if size}
    if not known:
        raise SourceError(
            f"{packing.source.root}: none of the {len(encoded)} images that were tried can "
            "be packed"
        )
    ids = catalog.table["index"].to_list()
    if len(encoded) == len(catalog):
        return [known.get(index, 0) for index in ids], target
    source = dict(zip(ids, sizes, strict=True))
    model = fit([source[index] for index in known], list(known.values()))
    predicted = [model.predict(size) for size in sizes]
    mean = math.fsum(predicted) / len(predicted)
    return predicted, model.safe_capacity(target, mean)


def _try_samples(packing: Packing, sample: Catalog, pool: Pool) -> list[Measured]:
    """Make the samples of a small catalog, all workers sharing the work, and measure them."""
    share = math.ceil(len(sample) / (4 * pool.size))
    recipe = _recipe(packing, sample)
    tasks = [(recipe, rows_of(sample.slice(at, share))) for at in range(0, len(sample), share)]
    return pool.map(measure, tasks)


def _sample(catalog: Catalog, count: int) -> Catalog:
    return catalog.shuffle(_SAMPLE_SEED).slice(0, count)
