"""Reports: lines for people, or JSON for programs."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from dsprep.cli.streams import echo, echo_as_is, until_nobody_reads
from dsprep.findings import count_skipped
from dsprep.printable import json_value, visible
from dsprep.units import (
    NO_EXTENSION,
    format_count,
    format_duration,
    format_extensions,
    format_size,
    format_some,
)

if TYPE_CHECKING:
    from dsprep.annotations.objects import ObjectCounts
    from dsprep.findings import Finding
    from dsprep.inspecting.inspect_report import Alike
    from dsprep.run.write_report import WriteReport
    from dsprep.verifying.report import IndexReport, Problem, VerifyReport
    from dsprep.verifying.status import StatusReport

_SHOWN = 5  # items of a long list that a summary names
_PROBLEMS_SHOWN = 20

_SKIPPED = {
    "hidden": "hidden",
    "not-an-image": "not images",
    "harmless": "harmless",
    "not-read": "known and not read",
    "left-out": "left out",
    "left-over": "left over",
    "no-part": "no part of a sample",
    "unlisted": "not listed",
    "repeated": "listed again",
    "keyless": "with members that belong to no sample",
}
_ONE_SKIPPED = {**_SKIPPED, "not-an-image": "not an image"}
_SKIPPED_DIRECTORIES = {
    "hidden": "hidden",
    "unlisted": "not looked into, as nothing there is listed",
    "loop": "not looked into: a link to a directory above it",
}

_PROOF = {
    "checksum": "by the checksum that {} keeps",
    "metadata": "by the checksum that dsprep stored there",
    "download": "by reading all bytes",
}
"""Ways to prove that files in a store are intact."""

NOTHING_WRITTEN = ("", "nothing was written")


def show(
    report: Any,
    lines: Callable[[Any], Iterable[str]],
    as_json: bool,
    quiet: bool = False,
    stream: TextIO | None = None,
) -> None:
    """Print a report as JSON, or as lines unless it is quiet."""
    stream = stream or sys.stdout
    with until_nobody_reads(stream):
        if as_json:
            import json  # imported here because help pages do not need json

            # In ASCII, which any stdout can write.
            echo_as_is(json.dumps(json_value(report), indent=1), stream)
        elif not quiet:
            for line in lines(report):
                echo(line, stream)


def rows_of(*rows: tuple[str, object], width: int = 9) -> Iterator[str]:
    """Yield a line for each name and its value; a value that is empty has no line."""
    return (f"  {name:<{width}} {value}" for name, value in rows if value)


def some_of(texts: Sequence[str], shown: int = 20, noun: str = "") -> list[str]:
    """Return the first texts, and how many more there are."""
    return [*texts[:shown], *more_than(shown, texts, noun)]


def sets_text(sets: Sequence[Alike]) -> list[str]:
    """Return a line for each of the first sets of samples that show the same."""
    texts = []
    for each in sets[:_SHOWN]:
        shown = []
        for one in each.varied():
            what = [one.side if each.is_leak else "", one.label if each.differ else ""]
            told = ", ".join(filter(None, what))
            shown.append(f"{one.path} ({told})" if told else one.path)
        texts.append(f"{'equal' if each.kind == 'same' else 'alike'}: {format_some(shown)}")
    return [*texts, *more_than(_SHOWN, sets)]


def more_than(shown: int, things: Sequence[object], noun: str = "") -> list[str]:
    """Return a line that says how many more there are than shown, if there are more."""
    more = f"{len(things) - shown:,} more {noun}".rstrip()
    return [f"and {more}; --json lists them all"] if len(things) > shown else []


def range_text(counts: Collection[int], noun: str) -> str:
    """Return the smallest and the largest count: ``3 to 5 samples``, or ``3 samples``."""
    least, most = min(counts), max(counts)
    return format_count(most, noun) if least == most else f"{least:,} to {most:,} {noun}s"


def classes_text(samples: Collection[int]) -> str:
    """Return how many classes there are, and how many samples they have."""
    if not samples:
        return ""
    same = " each" if len(set(samples)) == 1 else ""
    return f"{len(samples):,}, of {range_text(samples, 'sample')}{same}"


def objects_text(counts: ObjectCounts | None) -> str:
    """Return how many objects there are, and how many images have any."""
    if counts is None:
        return ""
    without = f", {format_count(counts.without, 'image')} without" if counts.without else ""
    # A manifest of class numbers without names does not tell how many there are.
    classes = f" of {format_count(counts.classes, 'class')}" if counts.classes else ""
    return f"{counts.objects:,}{classes} in {format_count(counts.samples, 'image')}{without}"


def table_of(rows: Iterable[Sequence[str]], title: str = "") -> Iterator[str]:
    """Yield a title and the lines of a table, in columns of equal width."""
    cells = [tuple(map(visible, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    yield from ("", title)
    for row in cells:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(padded)}".rstrip()


def write_lines(report: WriteReport) -> Iterator[str]:
    """Yield what a writing command did, or would do."""
    yield f"{report.destination}: {report.state} as {report.format}"
    about = "about " if report.estimated else ""
    counts = report.per_class.values()
    classes = classes_text(counts) or (f"{len(report.classes):,}" if report.classes else "")
    sides = ", ".join(f"{name} {count:,}" for name, count in report.sides.items())
    chosen = ""
    if report.chosen is not None:
        left_out = (
            (report.chosen.filtered, "sample", "filtered out"),
            (report.chosen.unknown, "sample", "of these because a value is missing"),
            (report.chosen.unmatched, "row", "of --filter-table without a sample"),
        )
        said = (f"{format_count(count, noun)} {what}" for count, noun, what in left_out if count)
        chosen = ", ".join(said) or "all samples"
    names = format_some([finding.path for finding in report.duplicates])
    repeated = f"{format_count(len(report.duplicates), 'path')} listed more than once: {names}"
    collisions = [f"the key {key} is that of {', '.join(of)}" for key, of in report.collisions]
    yield from rows_of(
        ("source", report.state == "planned" and report.source),
        ("samples", f"{report.samples:,}"),
        ("shards", report.shards and shards_line(report)),
        ("size", f"{about}{format_size(report.bytes)}"),
        ("sides", sides),
        ("classes", classes),
        ("objects", objects_text(report.objects)),
        ("masks", _masks_text(report)),
        ("chosen", chosen),
        ("existing", report.existing and f"{report.existing:,}, left out"),
        ("rejected", report.rejects and f"{len(report.rejects):,}"),
        ("skipped", skipped_text(report.skipped)),
        ("time", _time_line(report)),
        ("note", report.duplicates and repeated),
        *(("note", text) for text in some_of(collisions, _SHOWN, "such keys")),
        *(("note", note) for note in report.notes),
    )
    planned = report.state == "planned"
    if planned:
        yield from _plan_lines(report)
    if report.rejects:
        count = format_count(len(report.rejects), "sample")
        where = f"{count} not written; see {report.rejects_file}"
        yield from ("", f"{count} cannot be written" if planned else where)
        rejects = [f"{reject.path}: {reject.reason}" for reject in report.rejects]
        yield from (f"  {text}" for text in some_of(rejects, _SHOWN))


def _masks_text(report: WriteReport) -> str:
    """Return whether samples may lack a mask, and how many classes; empty without masks."""
    fields = (report.schema or {}).get("fields", ())
    mask = next((each for each in fields if each["type"] == "mask"), None)
    if mask is None:
        return ""
    count = len(mask.get("names", ()))
    which = "samples may lack one" if mask.get("missing") else "in all samples"
    return f"{which}, {format_count(count, 'class')}" if count else which


def shards_line(report: WriteReport) -> str:
    """Return how many shards there are, the names of the first and the last, and their sizes."""
    about = "about " if report.estimated else ""
    first, last = report.shards[0].name, report.shards[-1].name
    if len(report.shards) == 1:
        return f"1, {first}"
    sizes = [shard.bytes for shard in report.shards]
    span = " to ".join(dict.fromkeys((format_size(min(sizes)), format_size(max(sizes)))))
    return f"{len(report.shards):,}, {first} to {last}, {about}{span} each"


def skipped_text(findings: Iterable[Finding]) -> str:
    """Return what was skipped: numbers of files by kind and extension, with the first names."""
    parts: dict[tuple[str, bool], list[Finding]] = {}
    for finding in findings:
        parts.setdefault((finding.kind, finding.path.endswith("/")), []).append(finding)
    said = []
    for (kind, are_directories), found in sorted(parts.items()):
        names = format_some([finding.path for finding in found])
        if are_directories:
            noun = "directory" if len(found) == 1 else "directories"
            said.append(f"{len(found):,} {noun} {_SKIPPED_DIRECTORIES.get(kind, kind)} ({names})")
        else:
            counts = count_skipped(found)[kind]
            # findings about shards have no extension to show
            tells = kind != "keyless" and list(counts) != [NO_EXTENSION]
            extensions = f": {format_extensions(counts)}" if tells else ""
            if kind == "keyless":  # each finding counts the members of one shard
                names = format_some([f"{each.path}: {each.detail}" for each in found])
            what = _SKIPPED.get(kind, kind) if len(found) > 1 else _ONE_SKIPPED.get(kind, kind)
            said.append(f"{len(found):,} {what}{extensions} ({names})")
    return "; ".join(said)


def _time_line(report: WriteReport) -> str:
    duration = format_duration(report.seconds)
    if report.state == "planned" and report.seconds < 1:
        return "under a second" if report.seconds else ""
    if report.state == "planned":
        return f"about {duration}"
    if report.state.startswith("already") or report.samples < report.seconds or not report.seconds:
        return duration
    rate, speed = report.samples / report.seconds, format_size(report.bytes / report.seconds)
    return f"{duration}, {rate:,.0f} samples/s, {speed}/s"


def _plan_lines(report: WriteReport) -> Iterator[str]:
    if report.fields:
        columns = ("field", "type", "role", "told by", "goes to", "samples", "why")
        yield from table_of([columns, *report.fields], "schema")
    shards = [
        (shard.name, format_count(shard.samples, "sample"), format_size(shard.bytes))
        for shard in _ends(report.shards)
    ]
    if shards:
        yield from table_of(shards, "shards")
    if report.per_class:
        names = report.classes
        classes = [
            (str(number), names[number] if names else "", format_count(count, "sample"))
            for number, count in _ends(list(report.per_class.items()))
        ]
        yield from table_of(classes, "classes")
    yield from NOTHING_WRITTEN


def _ends(rows: Sequence[Any]) -> list[Any]:
    """The rows, without the middle of a long list."""
    if len(rows) <= 4 * _SHOWN:
        return list(rows)
    return [*rows[: 2 * _SHOWN], *rows[-2 * _SHOWN :]]


def verify_lines(report: VerifyReport) -> Iterator[str]:
    """Yield what verifying found."""
    unproven = report.proof.get("size")
    verdict = "no problem found, but not all is proven" if unproven else "whole"
    if report.problems:
        verdict = format_count(len(report.problems), "problem")
    yield f"{report.destination}: {verdict}"
    unread = "of the right size, without a known checksum; --download reads everything"
    total = format_count(report.samples, "sample")
    proof = []
    if report.proof:
        from dsprep.storage.store import store_of  # imported late: only `verify` on S3 has proofs

        name = store_of(report.destination)[0].name
        ways = {by: words.format(name) for by, words in _PROOF.items() if by in report.proof}
        proof = [f"{format_count(report.proof[by], 'file')} {way}" for by, way in ways.items()]
    yield from rows_of(
        ("format", report.format),
        ("samples", f"{report.samples:,}"),
        ("shards", report.shards and f"{report.shards:,}"),
        ("size", format_size(report.bytes)),
        ("checked", ", ".join(report.checked)),
        *(("proven", text) for text in proof),
        ("unproven", unproven and f"{format_count(unproven, 'file')} {unread}"),
        *(
            (one.role, f"{one.samples:,} of {total} ({one.name})")
            for one in report.fields
            if one.role
        ),
        ("objects", objects_text(report.objects)),
        ("note", "" if report.manifest else "there is no manifest to compare with"),
        *(("note", note) for note in some_of(report.notes, _PROBLEMS_SHOWN)),
        ("time", format_duration(report.seconds)),
    )
    if report.fields and not report.manifest:
        rows = [("field", "type", "role", "samples", "told by")]
        for field in report.fields:
            classes = f" of {format_count(field.classes, 'class')}" if field.classes else ""
            kind, count = field.type + classes, format_count(field.samples, "sample")
            rows.append((field.name, kind, field.role, count, field.told))
        yield from table_of(rows, "fields")
    if report.objects is not None and report.objects.per_class:
        per_class = list(report.objects.per_class.items())
        counted = [(name, format_count(count, "object")) for name, count in _ends(per_class)]
        yield from table_of(counted, "objects by class")
    yield from _problem_lines(report.problems)


def index_lines(report: IndexReport) -> Iterator[str]:
    """Yield what indexing did, or would do."""
    names = defaultdict(list)
    for file in report.files:
        names[file.state].append(file.name)
    yield f"{report.destination}: {report.state} as {report.format}"
    yield from rows_of(
        ("samples", f"{report.samples:,}"),
        ("shards", f"{report.shards:,}"),
        ("size", format_size(report.bytes)),
        *((state, f"{len(some):,} ({format_some(some)})") for state, some in names.items()),
        *(("note", note) for note in report.notes),
        ("time", format_duration(report.seconds)),
    )
    wrong = [f"{file.name}: {file.detail}" for file in report.files if file.state == "replaced"]
    if wrong:
        yield from ("", "wrong before" if report.state == "indexed" else "wrong")
        yield from (f"  {text}" for text in some_of(wrong, _SHOWN))
    if report.state == "planned":
        yield from NOTHING_WRITTEN
    yield from _problem_lines(report.problems)


def _problem_lines(problems: Sequence[Problem]) -> Iterator[str]:
    """Yield what is wrong, one thing a line, below a report."""
    texts = []
    for problem in problems:
        at = "" if problem.offset is None else f" at byte {problem.offset:,}"
        parts = (problem.file + at, problem.sample, problem.message)
        texts.append(": ".join(part for part in parts if part))
    if texts:
        yield ""
        yield from (f"  {text}" for text in some_of(texts, _PROBLEMS_SHOWN))


def status_lines(report: StatusReport) -> Iterator[str]:
    """Yield the lines that say what is there of a data set."""
    yield f"{report.destination}: {report.state}"
    of = "" if report.shards is None else f" of {report.shards:,}"
    parts = f"{len(report.missing):,} ({format_some(report.missing)})" if report.missing else ""
    shards = f"{report.done:,}{of}" if report.shards != 0 else ""  # a folder has no shards
    yield from rows_of(
        ("shards", shards),
        ("samples", f"{report.samples:,}"),
        ("size", format_size(report.bytes)),
        ("missing", parts),
    )
    yield from _problem_lines(report.problems)
    if report.state == "unfinished":
        said = "a run is writing there; if it stops, finish it with:"
        yield from ("", said if report.running else "to finish it:")
        yield from (f"  {each}" for each in report.commands or ["the command that began it, again"])
