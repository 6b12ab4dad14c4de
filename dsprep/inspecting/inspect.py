"""``inspect`` shows what data looks like before it is trained on."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import polars as pl

from dsprep.arguments import AnyPath
from dsprep.catalog import Catalog, SourceScan
from dsprep.declared import called_with
from dsprep.errors import DestinationError, DsprepError, OptionError, SourceError
from dsprep.extras import pip_install
from dsprep.findings import SKIP_KINDS, Finding, lost, notes_of
from dsprep.images.phash import can_hash
from dsprep.inspecting.copies import find_copies, order_to_keep
from dsprep.inspecting.figures import SideFigures, edges_of, figures_of, suspects, with_ratios
from dsprep.inspecting.inspect_page import write_page
from dsprep.inspecting.inspect_report import InspectReport, notes_on, rejects_in, sets_of
from dsprep.inspecting.measure import (
    Look,
    is_measured,
    measure_catalog,
    read_measured,
    reading_pipeline,
)
from dsprep.inspecting.options import InspectOptions
from dsprep.inspecting.samples import SampleShown, row_of_key, show_samples
from dsprep.lists.stats import hash_unit
from dsprep.opening import GivenPath
from dsprep.options import given_options
from dsprep.pages.page import is_page
from dsprep.pipeline import Pipeline
from dsprep.progress import Progress
from dsprep.run.part import parse_part
from dsprep.sources.layout import with_layout
from dsprep.sources.options import ClassOptions, SourceOptions
from dsprep.sources.passed_over import what_stops
from dsprep.sources.reading import read_source
from dsprep.sources.source import Source, choice_of
from dsprep.sources.understood import layout_of
from dsprep.splits.samples import distance_of
from dsprep.storage.files import require_disk
from dsprep.storage.local import LARGEST_TABLE, destination_errors, read_whole, write_whole
from dsprep.tuples import NamedTuple
from dsprep.workers.engine import open_executor
from dsprep.workers.executor import Executor


class LookedAt(NamedTuple):
    """A data set that was looked at."""

    place: str  # the place that the user gave
    source: Source
    catalog: Catalog  # its samples
    chosen: Catalog  # the samples that were looked at
    findings: Sequence[Finding]
    pipeline: Pipeline  # how samples are read
    table: pl.DataFrame  # the measured samples, a row for each that was looked at


@called_with(InspectOptions)
def inspect(options: InspectOptions) -> InspectReport:
    """Tell what data sets look like: figures of their samples, and what is odd in them.

    ``sources`` is a data set that :func:`dsprep.pack` takes, or several, which are compared.
    """
    options = with_layout(options)
    began = time.monotonic()
    hashes = options.decode and can_hash()
    distance = distance_of(hashes, None)
    progress = options.progress or Progress()
    places = [options.sources] if isinstance(options.sources, str) else [*options.sources]
    if len({*places}) < len(places):
        raise OptionError(f"{places[0]}: each data set is named once")
    writes_table = str(options.output).endswith(".parquet")
    is_layout = str(options.output).endswith(".toml")
    if is_layout and len(places) > 1:
        raise OptionError(f"--output {options.output}: a layout is of one data set: name one DATA")
    if options.output is not None:
        _check_output(options.output, writes_table, is_layout)
    if options.part is not None and not writes_table:
        raise OptionError(f"--part {options.part}: needs -o FILE.parquet for what was measured")
    if (options.part is not None or options.measured) and len(places) > 1:
        raise OptionError("--part and --measured go with one data set at a time")
    with open_executor(options.workers, options.engine, options.ray_address) as pool:
        sets = [_look_at(place, options, hashes, pool, progress) for place in places]
        report = _report_of(sets, options, distance)
        if writes_table:
            _write_table(report.table, GivenPath(str(options.output)))
        elif options.output is not None and is_layout:
            _write_layout(sets[0], options)
        elif options.output is not None:
            write_page(report, [(each.chosen, each.pipeline) for each in sets], options, pool)
    return replace(report, seconds=time.monotonic() - began)


def _check_output(output: AnyPath, is_table: bool, is_layout: bool) -> None:
    """Refuse to begin if the output could not be written, or would replace others."""
    require_disk(str(output))
    final = GivenPath(output)
    if final.is_dir():
        raise DestinationError(f"{final}: is a directory; give a file in it, {final}/report.html")
    if not final.parent.is_dir():
        raise DestinationError(f"{final.parent}: no such directory; make it, or give another file")
    if os.path.lexists(final) and not is_layout:  # which is compared when it is made
        with destination_errors(final):
            data = read_whole(final, LARGEST_TABLE)
        if not (is_measured(data) if is_table else is_page(data)):
            raise DestinationError(
                f"{final}: is not of dsprep inspect, and is not replaced; give another file"
            )
    if not (is_table or is_layout) and final.suffix not in (".html", ".htm"):
        raise OptionError(
            f"--output {final}: give FILE.html for a page, FILE.parquet for a table, FILE.toml for "
            "a layout"
        )


def _look_at(
    place: str, options: InspectOptions, hashes: bool, pool: Executor, progress: Progress
) -> LookedAt:
    """Measure samples of a data set."""
    values = options.values_of(SourceOptions, ClassOptions)
    source = Source(place, choice=choice_of(options), takes_texts=True, takes_masks=True, **values)
    catalog, findings = _read(source, options, pool)
    pipeline = reading_pipeline(catalog, options.max_pixels)
    rows = pl.int_range(len(catalog), eager=True)
    if options.key is not None:
        rows = rows.slice(row_of_key(catalog, pipeline, options.key), 1)
    elif len(catalog) > options.sample:
        keys = catalog.keys() if catalog.keys_known else catalog.table["index"].cast(pl.String)
        rows = hash_unit(keys, options.seed, "inspect").arg_sort().head(options.sample).sort()
    if options.part is not None:
        part = parse_part(options.part)
        rows = rows.gather_every(part.of, part.number)
    chosen, names = replace(catalog, table=catalog.table[rows]), catalog.names()[rows]
    if options.measured:
        table = read_measured([*map(str, options.measured)], chosen, names)
        return LookedAt(place, source, catalog, chosen, findings, pipeline, with_ratios(table))
    size = int(chosen.table["size"].sum())
    with progress.running(f"looking at {place}", len(chosen), size):
        look = Look(pipeline, decode=options.decode, hash=hashes)
        table = measure_catalog(chosen, names, look, pool, progress.advance)
    return LookedAt(place, source, catalog, chosen, findings, pipeline, with_ratios(table))


def _read(source: Source, options: InspectOptions, pool: Executor) -> SourceScan:
    """Make the catalog, and say what would stop `pack`.

    Of a source that nothing can read as a whole, the images are looked at.
    """
    try:
        catalog, findings = read_source(source, pool.map)
    except SourceError as error:
        needs_all = options.key is not None or str(options.output).endswith(".toml")
        if needs_all or given_options(source.values_of(SourceOptions, ClassOptions)):
            raise
        try:
            catalog, findings = read_source(source.replace(kind="images"), pool.map)
        except DsprepError:
            raise error from None
        return catalog, [*findings, _stops(str(error).splitlines())]
    stopping = () if options.key is not None else what_stops(source, (catalog, findings))
    return catalog, [*findings, *map(_stops, stopping)]


def _stops(lines: Sequence[str]) -> Finding:
    return Finding("note", "", f"pack stops: {'; '.join(map(str.strip, lines))}")


def _report_of(
    sets: Sequence[LookedAt], options: InspectOptions, distance: int | None
) -> InspectReport:
    several = len(sets) > 1
    tables = []
    for number, each in enumerate(sets):
        side = pl.col("side")
        if several:
            side = pl.when(side == "").then(pl.lit(each.place))
            side = side.otherwise(pl.concat_str(pl.lit(f"{each.place}: "), "side"))
        tables.append(each.table.with_columns(side.alias("side"), data=pl.lit(number)))
    table = pl.concat(tables, rechunk=True)
    edges = edges_of(table)
    order = order_to_keep(table, largest=True)
    copies = find_copies(table, order, distance)
    findings = [finding for each in sets for finding in each.findings]
    notes = [*dict.fromkeys(notes_of(findings)), *notes_on(table)]
    if options.decode and distance is None:
        advice = pip_install("numpy")
        notes.append(f"dsprep did not look for images that look alike: {advice}")
    return InspectReport(
        data=[each.place for each in sets],
        output=None if options.output is None else str(options.output),
        samples=sum(len(each.catalog) for each in sets),
        looked_at=table.height,
        decoded=options.decode,
        hashed=distance is not None,
        fields=[*_fields(sets[0].catalog)],
        sides=[*_sides(sets, tables, edges)],
        alike=sets_of(copies.with_columns(table["data", "row"][copies["row"]])),
        suspects=[*suspects(table)],
        rejects=[*(lost(findings) if options.key is None else ()), *rejects_in(table)],
        skipped=[finding for finding in findings if finding.kind in SKIP_KINDS],
        shown=[sample for each in sets for sample in _samples(each, options)],
        notes=notes,
        seconds=0.0,
        table=table,
    )


def _write_layout(found: LookedAt, options: InspectOptions) -> None:
    """Write the layout of a data set; one that somebody may have edited is not replaced."""
    data = layout_of(found.source, options, (found.catalog, [*found.findings])).encode()
    final = GivenPath(str(options.output))
    with destination_errors(final):
        if os.path.lexists(final) and read_whole(final, LARGEST_TABLE) != data:
            raise DestinationError(
                f"{final}: is there already and differs, and is not replaced; give another file"
            )
    write_whole(final, data, final.parent)


def _write_table(table: pl.DataFrame, final: Path) -> None:
    out = BytesIO()
    table.drop("data", "objects_of").write_parquet(out)  # these columns are for this process only
    write_whole(final, out.getvalue(), final.parent)


def _samples(found: LookedAt, options: InspectOptions) -> Iterator[SampleShown]:
    """Return the samples that are asked for: that of a key, or the first ones."""
    catalog, names = found.chosen, found.table["path"]
    if options.key is None:
        catalog = found.catalog.slice(0, options.head)
        names = found.catalog.names().head(options.head)
    yield from show_samples(catalog, names, found.pipeline)


def _fields(catalog: Catalog) -> Iterator[tuple[str, str, str, str]]:
    schema = catalog.settled.schema
    for field in schema.fields:
        role = {schema.image: "image", schema.label: "label"}.get(field.name, "")
        yield field.name, field.type, role, field.told_by


def _sides(
    sets: Sequence[LookedAt], tables: Sequence[pl.DataFrame], edges: Mapping[str, Sequence[float]]
) -> Iterator[SideFigures]:
    for (place, _, catalog, *_), table in zip(sets, tables, strict=True):
        for side, part in catalog.by_side():
            name = side
            if len(sets) > 1:
                name = f"{place}: {side}" if side else place
            numbers, names = part.samples_per_class(), catalog.classes or ()
            classes = {
                names[number] if number < len(names) else str(number): samples
                for number, samples in numbers.items()
            }
            own = table.filter(pl.col("side") == name)
            known = classes if catalog.label_column == "cls" else None
            yield figures_of(name, own, len(part), known, edges)
