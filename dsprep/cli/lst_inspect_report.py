"""What ``dsprep lst check``, ``stats`` and ``sample`` print."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

from dsprep.cli.bars import Page, draw_bars, page_of
from dsprep.cli.lst_report import ALREADY_DONE
from dsprep.cli.report import print_json
from dsprep.cli.streams import until_nobody_reads
from dsprep.lists.requirements import READERS
from dsprep.units import format_count, format_some

if TYPE_CHECKING:
    from dsprep.listing.inspecting import CheckReport, SampleReport
    from dsprep.lists.statistics import ClassCount, Statistics

_FAULTS_SHOWN = 50
_CLASSES_SHOWN = 40


def print_check_report(report: CheckReport, as_json: bool, quiet: bool) -> None:
    """Print what is wrong with a list; with ``quiet``, only if anything is."""
    lines = [] if quiet and not report.faults else _check_lines(report)
    _print(report, as_json, lines, sys.stdout)


def print_statistics(report: Statistics, as_json: bool) -> None:
    """Print what is in a list."""
    _print(report, as_json, _statistics_lines(report, page_of(sys.stdout)), sys.stdout)


def print_sample_report(report: SampleReport, as_json: bool, quiet: bool) -> None:
    """Print what a sample is: on stderr, if stdout has the sample."""
    to_stdout = report.output == "-" and report.written
    lines = [] if quiet else _sample_lines(report)
    _print(report, as_json, lines, sys.stderr if to_stdout else sys.stdout)


def _print(report: Any, as_json: bool, lines: Iterable[str], stream: TextIO) -> None:
    with until_nobody_reads(stream):
        if as_json:
            print_json(report, stream)
            return
        for line in lines:
            click.echo(line, file=stream)


def _check_lines(report: CheckReport) -> Iterator[str]:
    faults = report.faults
    yield f"{report.list}: {format_count(len(faults), 'fault') if faults else 'no faults'}"
    yield f"  {'rows':<9} {report.rows:,}"
    yield f"  {'checked':<9} {', '.join(_checked(report))}"
    if not faults:
        return
    for number, (kind, count) in enumerate(report.kinds.items()):
        yield f"  {'' if number else 'faults':<9} {count:,} {kind}"
    yield ""
    for fault in faults[:_FAULTS_SHOWN]:
        yield f"  {report.list}:{fault.line}: {fault.kind}: {fault.message}"
    if len(faults) > _FAULTS_SHOWN:
        yield f"  and {len(faults) - _FAULTS_SHOWN:,} more; --json lists them all"


def _checked(report: CheckReport) -> Iterator[str]:
    yield "lines, ids, paths, labels"
    if report.classes is not None:
        yield format_count(len(report.classes), "class")
    if report.root is not None:
        yield f"files below {report.root}"
    if report.reader is not None:
        yield f"what {READERS[report.reader].title} requires"


def _statistics_lines(report: Statistics, page: Page) -> Iterator[str]:
    yield f"{report.list}: {format_count(report.rows, 'row')}"
    for name, value in _statistics_rows(report, page):
        yield f"  {name:<9} {value}"
    if report.classes:
        yield ""
        yield from _histogram(report.classes, page)


def _statistics_rows(report: Statistics, page: Page) -> Iterator[tuple[str, str]]:
    widths = sorted(report.widths)
    if report.kind == "classes":
        yield "labels", "one class each"
    elif report.kind == "detection":
        yield "labels", f"objects for detection, {widths[0]:,} to {widths[-1]:,} numbers"
    else:
        sizes = f"{widths[0]:,} to {widths[-1]:,} numbers"
        size = format_count(widths[0], "number") if len(widths) == 1 else sizes
        yield "labels", f"{size} each, {report.distinct:,} different"
    if report.objects is not None and report.objects_per_row is not None:
        least, mean, most = report.objects_per_row
        yield "objects", f"{report.objects:,}; {least:,} to {most:,} a row, {mean:.1f} on average"
    if report.largest is None or report.smallest is None:
        return
    yield "classes", f"{len(report.classes):,}"
    yield "largest", _class_line(report.largest, page)
    yield "smallest", _class_line(report.smallest, page)
    yield "imbalance", f"{report.imbalance:.3g}"
    if report.unused:
        unused = [_title(each, page) for each in report.classes if not each.weight]
        yield (
            "unused",
            f"{format_count(report.unused, 'class')} without rows: {format_some(unused)}",
        )


def _class_line(each: ClassCount, page: Page) -> str:
    noun = "row" if each.objects is None else "object"
    return f"{_title(each, page)}, {format_count(each.weight, noun)}"


def _title(each: ClassCount, page: Page) -> str:
    return f"{each.number} {page.shown(each.name)}" if each.name is not None else f"{each.number}"


def _histogram(classes: Sequence[ClassCount], page: Page) -> Iterator[str]:
    """Draw all classes by number; of too many, the largest and the smallest."""
    if len(classes) <= _CLASSES_SHOWN:
        yield from draw_bars([_entry(each) for each in classes], page)
        return
    by_size = sorted(classes, key=lambda each: (-each.weight, each.number))
    half = _CLASSES_SHOWN // 2
    lines = list(draw_bars([_entry(each) for each in (*by_size[:half], *by_size[-half:])], page))
    yield from lines[:half]
    yield f"  ({len(classes) - 2 * half:,} more between the largest and the smallest)"
    yield from lines[half:]


def _entry(each: ClassCount) -> tuple[str, int]:
    return f"{each.number} {each.name or ''}".rstrip(), each.weight


def _sample_lines(report: SampleReport) -> Iterator[str]:
    name = "<stdout>" if report.output == "-" else report.output
    share = 100 * report.kept / report.rows
    yield f"{name}: {report.kept:,} of {format_count(report.rows, 'row')}, {share:.3g}%"
    if report.already_done:
        yield ALREADY_DONE
    elif not report.written:
        yield "  nothing was written"
    yield f"  {'seed':<9} {report.seed}"
    if report.classes:
        least, most = min(report.classes.values()), max(report.classes.values())
        each = format_count(most, "row") if least == most else f"{least:,} to {most:,} rows"
        yield f"  {'classes':<9} {len(report.classes):,}, {each} each"
    elif report.wanted is not None and report.kept < report.wanted:
        yield f"  {'short':<9} {report.wanted:,} were asked for"
    if report.short:
        some = format_some([f"{label} ({rows:,})" for label, rows in report.short.items()])
        count = format_count(len(report.short), "class")
        yield f"  {'short':<9} {count} of fewer than {report.wanted:,} rows: {some}"
