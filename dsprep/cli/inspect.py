"""``dsprep inspect``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import dsprep
from dsprep.cli.options import command
from dsprep.cli.report import rows_of, sets_text, show, skipped_text, some_of, table_of
from dsprep.cli.streams import echo_as_is
from dsprep.declared import unchecked
from dsprep.errors import REJECTS_EXIT_CODE, BadImage
from dsprep.images.transform import Transform
from dsprep.inspecting.options import InspectOptions
from dsprep.printable import visible
from dsprep.progress import progress_for
from dsprep.units import format_count, format_duration, format_size, format_some

if TYPE_CHECKING:
    from dsprep.inspecting.figures import SideFigures, Suspect
    from dsprep.inspecting.inspect_report import InspectReport

_SHOWN = 5  # examples of a kind
_CLASSES = 10  # number of classes to show, those with the most samples
_WIDTH = 100  # maximum number of characters of a printed value
_PICTURE = 48  # width of a printed picture, in characters


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
    report = unchecked(dsprep.inspect)(data, progress=progress_for(sys.stderr, quiet), **options)
    lines = _lines if options["key"] is None else _sample
    show(report, lines, as_json, quiet)
    if options["key"] is not None and not (as_json or quiet) and _shows_colors():
        for sample in report.shown:
            echo_as_is(_picture(sample.image))
    return REJECTS_EXIT_CODE if report.rejects else 0


def _lines(report: InspectReport) -> Iterator[str]:
    looked = "" if report.looked_at == report.samples else f", {report.looked_at:,} looked at"
    yield f"{', '.join(report.data)}: {format_count(report.samples, 'sample')}{looked}"
    yield from rows_of(("fields", ", ".join(map(_field, report.fields))))
    for side in report.sides:
        if side.name:
            yield from ("", f"{side.name}: {format_count(side.samples, 'sample')}")
        yield from _side(side)
    yield from _found(report)
    yield from _samples(report)


def _field(facts: Sequence[str]) -> str:
    name, kind, role, _ = facts
    return f"{name} ({kind}{', the ' + role if role and role != name else ''})"


def _side(side: SideFigures) -> Iterator[str]:
    yield from rows_of(
        ("classes", _classes(side.classes)),
        ("objects", _classes(side.objects)),
        ("formats", _parts(side.kinds)),
        ("bytes", format_size(side.bytes) if side.bytes else ""),
        ("modes", _parts(side.modes)),
        ("EXIF", "" if {*side.orientations} <= {"1"} else _turned(side.orientations)),
        ("sizes", _parts(dict(list(side.sizes.items())[:_SHOWN]))),
        ("mean", "" if side.channels is None else _numbers(side.channels.mean)),
        ("std", "" if side.channels is None else _numbers(side.channels.std)),
    )
    if known := [each for each in side.distributions if each.images]:
        from dsprep.inspecting.figures import HEADS  # loads polars

        rows = ([each.name, *each.texts()] for each in known)
        yield from [*table_of([["", *HEADS], *rows])][1:]


def _numbers(values: Sequence[float]) -> str:
    return f"[{', '.join(f'{each:.4f}' for each in values)}]"


def _turned(counts: Mapping[str, int]) -> str:
    return _parts({f"orientation {number}": count for number, count in counts.items()})


def _parts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{_cut(name)} {count:,}" for name, count in counts.items())


def _cut(text: str) -> str:
    text = visible(text)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def _classes(counts: Mapping[str, int]) -> str:
    """Return the number of classes, the largest of them and the smallest."""
    if not counts:
        return ""
    often = sorted(counts, key=lambda name: -counts[name])
    rest = len(often) - _CLASSES
    shown = _parts({name: counts[name] for name in often[:_CLASSES]})
    more = f", … {_cut(often[-1])} {counts[often[-1]]:,}" if rest > 0 else ""
    return f"{len(counts):,}: {shown}{more}"


def _found(report: InspectReport) -> Iterator[str]:
    from dsprep.inspecting.inspect_report import count_copies  # loads polars

    yield ""
    yield from rows_of(
        ("copies", count_copies(report.alike) if report.alike else "none"),
        *(("", line) for line in sets_text(report.alike)),
        *zip_longest(["suspects"], _suspects(report.suspects), fillvalue=""),
        ("skipped", skipped_text(report.skipped)),
        ("rejects", f"{len(report.rejects):,}" if report.rejects else ""),
        *(("", line) for line in some_of([f"{p}: {why}" for p, why in report.rejects], _SHOWN)),
        *(("note", note) for note in report.notes),
        ("written", report.output),
        ("time", format_duration(report.seconds)),
    )


def _suspects(found: Sequence[Suspect]) -> list[str]:
    """Return a line for each reason to look at images."""
    paths: dict[str, list[str]] = {}
    for each in found:
        paths.setdefault(each.why, []).append(each.path)
    return [f"{len(own):,} {why} ({format_some(own)})" for why, own in paths.items()]


def _sample(report: InspectReport) -> Iterator[str]:
    """Yield the lines of the samples of a key, which may have been found to be damaged."""
    yield from _samples(report)
    yield from rows_of(*(("rejected", why) for _, why in report.rejects))


def _samples(report: InspectReport) -> Iterator[str]:
    for sample in report.shown:
        yield from ("", sample.path)
        for name, value in sample.fields.items():
            yield from rows_of(*_values(name, value))


def _values(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the lines of a field; a list of objects has a line for each."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        for at, each in enumerate(value):
            yield "" if at else name, ", ".join(f"{k} {v}" for k, v in each.items())[:_WIDTH]
    else:
        yield name, _cut(str(value))


def _shows_colors() -> bool:
    term = os.environ.get("TERM", "dumb")
    return sys.stdout.isatty() and term != "dumb" and "NO_COLOR" not in os.environ


def _picture(data: bytes) -> str:
    """Return an image as text: two pixels a character, in 24-bit colors."""
    try:
        image = Transform(color="rgb").decoded(data).pixels
    except BadImage:
        return ""  # no picture of a damaged image; the report gives the reason
    image.thumbnail((_PICTURE, _PICTURE))
    image = image.crop((0, 0, image.width, -(-image.height // 2) * 2))
    data, row, lines = image.tobytes(), 3 * image.width, []
    for top in range(0, len(data), 2 * row):
        cells = (
            "\x1b[38;2;{};{};{};48;2;{};{};{}m▀".format(
                *data[at : at + 3], *data[at + row : at + row + 3]
            )
            for at in range(top, top + row, 3)
        )
        lines.append(f"  {''.join(cells)}\x1b[0m")
    return "\n".join(lines)
