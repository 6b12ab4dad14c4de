"""``dsprep inspect``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dsprep
from dsprep.cli.options import command
from dsprep.cli.report import rows_of, show, skipped_text, some_of, table_of
from dsprep.errors import REJECTS_EXIT_CODE
from dsprep.keywords import InspectOptions
from dsprep.progress import progress_for
from dsprep.units import format_count, format_duration, format_size

if TYPE_CHECKING:
    from dsprep.commands.inspect_report import InspectReport
    from dsprep.inspecting.figures import Distribution, SideFigures

_SHOWN = 5  # examples of a kind
_CLASSES = 10  # of those with the most samples


@command("DATA...", InspectOptions)
def inspect(data: tuple[str, ...], as_json: bool, quiet: bool, **options: Any) -> int:
    """Show what data looks like before you train on it.

    DATA is anything that pack and convert read, on a disk or on s3://: a folder, a list, an
    archive, shards. Give several to compare them; sides, such as train and val, are compared, too.

    \b
    Examples:
      dsprep inspect photos/
      dsprep inspect photos/ -o report.html
      dsprep inspect s3://bucket/train/ --sample 5000
      dsprep inspect train/ val/ -o report.html
      dsprep inspect shards/ --no-decode --json
      dsprep inspect shards/ --key n01440764_10026
    """
    report = dsprep.inspect(data, progress=progress_for(sys.stderr, quiet), **options)
    show(report, _lines, as_json, quiet)
    return REJECTS_EXIT_CODE if report.rejects else 0


def _lines(report: InspectReport) -> Iterator[str]:
    looked = "" if report.looked_at == report.samples else f", {report.looked_at:,} looked at"
    yield f"{', '.join(report.data)}: {format_count(report.samples, 'sample')}{looked}"
    for side in report.sides:
        yield ""
        if side.name:
            yield f"{side.name}: {format_count(side.samples, 'sample')}"
        yield from _side(side)
    yield from _found(report)


def _side(side: SideFigures) -> Iterator[str]:
    yield from rows_of(
        ("bytes", format_size(side.bytes) if side.bytes else ""),
        ("classes", _most_of(side.classes, "sample", side.classes_of_all)),
        ("objects", _most_of(side.objects, "object", False)),
        ("formats", _parts(side.kinds)),
        ("modes", _parts(side.modes)),
        ("sizes", _parts(dict(list(side.sizes.items())[:_SHOWN]))),
        ("EXIF", "" if set(side.orientations) <= {"1"} else _parts(side.orientations)),
        ("mean", "" if side.channels is None else _numbers(side.channels.mean)),
        ("std", "" if side.channels is None else _numbers(side.channels.std)),
    )
    if side.distributions:
        yield ""
        head = ("", "min", "5 %", "median", "mean", "95 %", "max")
        yield from table_of([head, *map(_row, side.distributions)])


def _row(found: Distribution) -> list[str]:
    values = (found.least, found.p5, found.median, found.mean, found.p95, found.most)
    return [found.name, *(_number(each, found.name) for each in values)]


def _number(value: float, name: str) -> str:
    if name == "bytes":
        return format_size(value)
    return f"{value:,.0f}" if name in ("width", "height") else f"{value:.3g}"


def _numbers(values: Sequence[float]) -> str:
    return f"[{', '.join(f'{each:.4f}' for each in values)}]"


def _parts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _most_of(counts: Mapping[str, int], noun: str, of_all: bool) -> str:
    if not counts:
        return ""
    often = sorted(counts, key=lambda name: -counts[name])
    rest = len(often) - _CLASSES
    shown = _parts({name: counts[name] for name in often[:_CLASSES]})
    more = f", and {rest:,} more, the last {often[-1]} {counts[often[-1]]:,}" if rest > 0 else ""
    return f"{len(counts):,}: {shown}{more}"


def _found(report: InspectReport) -> Iterator[str]:
    leaks = sum(each.is_leak for each in report.alike)
    differ = sum(each.differ for each in report.alike)
    copies = sum(len(each.samples) - 1 for each in report.alike)
    text = f"{format_count(copies, 'copy')} in {format_count(len(report.alike), 'set')}"
    yield ""
    yield from rows_of(
        ("copies", text if copies else ""),
        ("", f"{format_count(leaks, 'set')} on several sides" if leaks else ""),
        ("", f"{format_count(differ, 'set')} with several labels" if differ else ""),
        ("suspects", f"{len(report.suspects):,}" if report.suspects else ""),
        ("skipped", skipped_text(report.skipped)),
        ("rejects", f"{len(report.rejects):,}" if report.rejects else ""),
        *(("note", note) for note in report.notes),
        ("time", format_duration(report.seconds)),
    )
    suspects = [f"  {each.path}: {each.why}" for each in report.suspects]
    yield from some_of(suspects, _SHOWN)
    yield from some_of([f"  {each.path}: {each.reason}" for each in report.rejects], _SHOWN)
    if report.head:
        yield ""
        yield from table_of([each.path, each.label, each.side] for each in report.head)
