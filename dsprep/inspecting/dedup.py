"""``dedup`` lists the samples of a data set that are copies of others."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

import polars as pl

from dsprep.catalog import Catalog
from dsprep.declared import called_with
from dsprep.errors import DestinationError
from dsprep.findings import SKIP_KINDS, Finding, Reject, lost, notes_of
from dsprep.frozen import Frozen
from dsprep.inspecting.copies import find_copies, order_to_keep
from dsprep.inspecting.inspect_report import Alike, notes_on, rejects_in, sets_of
from dsprep.inspecting.measure import Look, measure_catalog, reading_pipeline
from dsprep.inspecting.options import DedupOptions
from dsprep.lists.store import STREAM, editing, write_text
from dsprep.opening import opened
from dsprep.plan.select import read_columns
from dsprep.printable import json_values
from dsprep.progress import Progress
from dsprep.sources.layout import with_layout
from dsprep.sources.options import ClassOptions, SourceOptions
from dsprep.sources.passed_over import require_nothing_left
from dsprep.sources.reading import read_source
from dsprep.sources.source import Source, choice_of
from dsprep.splits.hashes import require_numpy
from dsprep.splits.samples import distance_of
from dsprep.storage.files import require_disk
from dsprep.storage.local import LARGEST_TABLE, destination_errors, read_whole
from dsprep.units import format_count, format_some
from dsprep.workers.engine import open_executor

_LISTED = ("path", "side", "label", "set", "keep", "copy_of", "distance", "conflict")
_HEAD = "\t".join(_LISTED).encode()


class DedupReport(Frozen):
    """Which samples are copies of others."""

    data: Sequence[str]  # the data set, as it was given
    output: str | None  # the list that was written, if it was
    samples: int  # how many the data set has
    near: bool  # whether images were compared by what they show, too
    sets: Sequence[Alike]  # leaks first; a sample that is kept is the first of each
    copies: int  # samples that can be left out
    bytes: int  # size of the images in bytes
    conflicts: int  # copies that are kept because labels differ
    rejects: Sequence[Reject]  # samples that cannot be read, and were not compared
    skipped: Sequence[Finding]  # what lies in the data and is no sample
    notes: Sequence[str]
    seconds: float
    # the samples in sets, as `find_copies` returns them
    table: pl.DataFrame = field(compare=False, repr=False, kw_only=True)

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "data": self.data,
                "output": self.output,
                "samples": self.samples,
                "near": self.near,
                "sets": self.sets,
                "copies": self.copies,
                "bytes": self.bytes,
                "conflicts": self.conflicts,
                "rejects": self.rejects,
                "skipped": self.skipped,
                "notes": self.notes,
                "seconds": self.seconds,
            }
        )


@called_with(DedupOptions)
def dedup(options: DedupOptions) -> DedupReport:
    """List the samples of a data set that are copies of others; nothing is deleted.

    ``sources`` is what :func:`dsprep.pack` takes. The list says for each sample that has a copy
    whether to keep it; :func:`dsprep.pack` and others take it as ``filter_table``.
    """
    options = with_layout(options)
    began, output = time.monotonic(), options.output
    distance = distance_of(options.near, options.near_distance)
    if options.near:
        require_numpy()
    places = [options.sources] if isinstance(options.sources, str) else [*options.sources]
    values = options.values_of(SourceOptions, ClassOptions)
    choice = choice_of(options)
    source = Source(places[0], others=places[1:], needs_names=True, choice=choice, **values)
    if output is not None and output != STREAM:
        _require_own(output, options.overwrite)
    with open_executor(options.workers, options.engine, options.ray_address) as pool:
        catalog, findings = read_source(source, pool.map)
        require_nothing_left(source, (catalog, findings))
        named = _named(options.keep, catalog)
        pipeline = reading_pipeline(catalog, options.max_pixels)
        look = Look(pipeline, decode=options.near, hash=options.near, hash_alone=True)
        compared, progress = _compared(catalog, options.near), options.progress or Progress()
        with progress.running(f"looking for copies in {places[0]}", len(compared)):
            table = measure_catalog(compared, compared.names(), look, pool, progress.advance)
    order = order_to_keep(table, options.keep != "first", named)
    found = find_copies(table, order, distance)
    if output is not None:
        _write(found.select(_LISTED), output)
    report = _report_of(table, found, findings, options.near)
    seconds = time.monotonic() - began
    return replace(report, data=places, output=output, samples=len(catalog), seconds=seconds)


def _compared(catalog: Catalog, near: bool) -> Catalog:
    """Return the samples to compare: without ``near``, only files whose size occurs twice."""
    if near or catalog.has_places or not catalog.reader.reads_files:
        return catalog
    return replace(catalog, table=catalog.table.filter(pl.col("size").is_duplicated()))


def _named(keep: str, catalog: Catalog) -> pl.Series | None:
    """Return the paths of the samples that a file says to keep, if it is one."""
    if keep in ("largest", "first"):
        return None
    listed, _ = read_columns(keep, catalog)
    if listed.schema.get("keep") == pl.Boolean:
        listed = listed.filter("keep")
    return listed["path"]


def _require_own(output: str, overwrite: bool) -> None:
    """Refuse to replace a file without being asked, and one that is no list of copies at all."""
    require_disk(output)
    if not os.path.lexists(opened(output)):
        return
    if not overwrite:
        raise DestinationError(f"{output}: exists; give --overwrite to replace it")
    with destination_errors(output):
        head = read_whole(output, LARGEST_TABLE)[: len(_HEAD)]
    if head != _HEAD:
        raise DestinationError(
            f"{output}: is another file than a list of copies; write to another with -o"
        )


def _write(listed: pl.DataFrame, output: str) -> None:
    filled = pl.col("side", "label").replace("", None)
    text = listed.with_columns(filled).write_csv(separator="\t")
    if output == STREAM:
        write_text(output, text)
        return
    with editing(output, new=True):
        write_text(output, text)


def _report_of(
    table: pl.DataFrame, found: pl.DataFrame, findings: Sequence[Finding], near: bool
) -> DedupReport:
    notes = [*dict.fromkeys(notes_of(findings)), *notes_on(table)]
    flat = table.filter(pl.col("digest").is_not_null() & pl.col("hash").is_null() & near)["path"]
    if len(flat):
        what = format_count(len(flat), "image")
        names = format_some(flat.head(4).to_list())
        notes.append(f"{what} flat, compared by bytes alone: {names}")
    left_out = found.filter(~pl.col("keep"))
    return DedupReport(
        data=(),
        output=None,
        samples=0,
        near=near,
        sets=sets_of(found.with_columns(data=0)),
        copies=left_out.height,
        bytes=int(table["bytes"].gather(left_out["row"]).sum()),
        conflicts=found.filter("conflict", pl.col("copy_of").is_not_null()).height,
        rejects=[*lost(findings), *rejects_in(table)],
        skipped=[finding for finding in findings if finding.kind in SKIP_KINDS],
        notes=notes,
        seconds=0.0,
        table=found,
    )
