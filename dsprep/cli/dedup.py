"""``dsprep dedup``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dsprep
from dsprep.cli.options import command
from dsprep.cli.report import rows_of, sets_text, show, skipped_text, some_of
from dsprep.declared import unchecked
from dsprep.errors import REJECTS_EXIT_CODE
from dsprep.inspecting.options import DedupOptions
from dsprep.progress import progress_for
from dsprep.units import format_count, format_duration, format_size, format_some

if TYPE_CHECKING:
    from dsprep.inspecting.dedup import DedupReport
    from dsprep.inspecting.inspect_report import Alike

_SHOWN = 5  # examples of a kind


@command("DATA...", DedupOptions)
def dedup(data: tuple[str, ...], as_json: bool, quiet: bool, **options: Any) -> int:
    """List the copies in a data set, so that other commands leave them out.

    DATA is anything that pack and convert read, on a disk or on s3://. Nothing is deleted or
    changed: dsprep writes a table with a row for each sample that has a copy, and pack, convert,
    shard, augment and verify take it with --filter-table.

    Copies are images with the same bytes; with --near, also images that look alike. A sample is
    left out only for one that stays and that it is a copy of itself: of a chain of images in which
    each looks like the next, such as a video, several stay. If the labels of a sample and its
    copies differ, all of them stay, and the report says so.

    \b
    Examples:
      dsprep dedup photos/ -o copies.tsv
      dsprep pack photos/ shards/ --to webdataset --filter-table copies.tsv
      dsprep dedup photos/ --near
      dsprep dedup shards/ --near --near-distance 2 --keep first -o copies.tsv
    """
    report = unchecked(dsprep.dedup)(data, progress=progress_for(sys.stderr, quiet), **options)
    stream = sys.stderr if report.output == "-" else sys.stdout
    show(report, _lines, as_json, quiet and not report.rejects, stream)
    return REJECTS_EXIT_CODE if report.rejects else 0


def _lines(report: DedupReport) -> Iterator[str]:
    yield f"{format_some(report.data)}: {format_count(report.samples, 'sample')}"
    near = sum(each.kind == "near" for each in report.sets)
    sets = f"{format_count(len(report.sets), 'set')} of copies" if report.sets else "no copies"
    copies = f"{report.copies:,} to leave out, {format_size(report.bytes)}"
    conflicts = f"{format_count(report.conflicts, 'copy')} kept, as labels differ"
    yield from rows_of(
        ("found", f"{sets}, {near:,} of them by their looks" if near else sets),
        ("copies", copies if report.copies else ""),
        ("", conflicts if report.conflicts else ""),
        *_examples("leak", [each for each in report.sets if each.is_leak]),
        *_examples("conflict", [each for each in report.sets if each.differ and not each.is_leak]),
        *_examples("set", [each for each in report.sets if not (each.is_leak or each.differ)]),
        ("skipped", skipped_text(report.skipped)),
        *(
            ("rejected", line)
            for line in some_of([f"{p}: {why}" for p, why in report.rejects], _SHOWN)
        ),
        *(("note", note) for note in report.notes),
        ("written", report.output != "-" and report.output),
        ("time", format_duration(report.seconds)),
    )


def _examples(name: str, sets: list[Alike]) -> Iterator[tuple[str, object]]:
    """Return the first sets of a kind, each in a line."""
    return ((name, text) for text in sets_text(sets))
