"""Reports: a summary for people, or JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from dsprep.cli.records import print_json
from dsprep.cli.streams import until_nobody_reads, visible
from dsprep.errors import REJECTS_EXIT_CODE, SourceError
from dsprep.findings import count_skipped
from dsprep.units import (
    NO_EXTENSION,
    format_count,
    format_duration,
    format_extensions,
    format_size,
    format_some,
)

if TYPE_CHECKING:
    from dsprep.commands.write_report import WriteReport
    from dsprep.findings import Finding
    from dsprep.plan.select import Chosen
    from dsprep.verifying.report import FieldFound, Problem, VerifyReport

_SHOWN = 5  # items of a long list that a summary names

_SKIPPED = {
    "hidden": "hidden",
    "not-an-image": "not images",
    "no-part": "no part of a sample",
    "unlisted": "not listed",
    "repeated": "listed again",
    "keyless": "with members that belong to no sample",
}
_SKIPPED_DIRECTORIES = {
    "hidden": "hidden",
    "unlisted": "not looked into, as nothing there is listed",
    "loop": "not looked into: a link to a directory above it",
}

_PROBLEMS_SHOWN = 20

_PROOF = {
    "checksum": "by the checksum that S3 keeps",
    "metadata": "by the checksum that dsprep stored there",
    "download": "by reading all bytes",
}
"""Ways to prove that files on S3 are intact."""


def end(report: WriteReport, source: str, as_json: bool, quiet: bool) -> int:
    """Print what a writing command did; return its exit code."""
    from dsprep.formats import FORMATS

    with until_nobody_reads(sys.stdout):
        if as_json:
            print_json(report)
        elif not quiet:
            print_write_report(report)
    if report.collisions and FORMATS[report.format].equal_keys == "merged":
        raise SourceError(
            f"{source}: would be refused, as several samples have one key; rename files, or give "
            "--key index to make keys from the samples' numbers"
        )
    return REJECTS_EXIT_CODE if report.rejects else 0


def print_rows(title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Print a report: a title, and a line for each name and its value."""
    click.echo(visible(title))
    for name, value in rows:
        click.echo(f"  {name:<9} {visible(value)}")


def print_write_report(report: WriteReport) -> None:
    """Print what a writing command did, or would do."""
    print_rows(f"{report.destination}: {report.state} as {report.format}", _write_rows(report))
    if report.state == "planned":
        _print_plan(report)
    if not report.rejects:
        return
    count = format_count(len(report.rejects), "sample")
    where = f"written; see {report.rejects_file}"
    planned = report.state == "planned"
    click.echo(f"\n{count} cannot be written" if planned else f"\n{count} not {where}")
    for reject in report.rejects[:_SHOWN]:
        click.echo(f"  {visible(reject.path)}: {visible(reject.reason)}")
    if len(report.rejects) > _SHOWN:
        click.echo(f"  and {len(report.rejects) - _SHOWN:,} more")


def _write_rows(report: WriteReport) -> Iterator[tuple[str, str]]:
    about = "about " if report.estimated else ""
    yield "samples", f"{report.samples:,}"
    if report.shards:
        yield "shards", _shards_line(report, about)
    yield "size", f"{about}{format_size(report.bytes)}"
    if report.per_class:
        yield "classes", _classes_line(report)
    elif report.classes:
        yield "classes", f"{len(report.classes):,}"
    if report.chosen is not None:
        yield "chosen", _chosen_line(report.chosen)
    if report.rejects:
        yield "rejected", f"{len(report.rejects):,}"
    if report.skipped:
        yield "skipped", skipped_text(report.skipped)
    yield "time", _time_line(report)
    if report.duplicates:
        names = format_some([finding.path for finding in report.duplicates])
        count = format_count(len(report.duplicates), "path")
        yield "note", f"{count} listed more than once: {names}"
    for key, paths in report.collisions[:_SHOWN]:
        yield "note", f"the key {key} is that of {', '.join(paths)}"
    if len(report.collisions) > _SHOWN:
        more = len(report.collisions) - _SHOWN
        yield "note", f"{more:,} more keys are those of several samples"
    for note in report.notes:
        yield "note", note


def _shards_line(report: WriteReport, about: str) -> str:
    if not report.shards:
        return "0"
    first, last = report.shards[0].name, report.shards[-1].name
    if len(report.shards) == 1:
        return f"1, {first}"
    sizes = [shard.bytes for shard in report.shards]
    span = f"{format_size(min(sizes))} to {format_size(max(sizes))}"
    return f"{len(report.shards):,}, {first} to {last}, {about}{span} each"


def _classes_line(report: WriteReport) -> str:
    counts = list(report.per_class.values())
    fewest, most = min(counts), max(counts)
    if fewest == most:
        return f"{len(counts):,}, of {format_count(most, 'sample')} each"
    return f"{len(counts):,}, of {fewest:,} to {most:,} samples"


def _chosen_line(chosen: Chosen) -> str:
    counts = (
        (chosen.filtered, "filtered out"),
        (chosen.unknown, "of these because a value is missing"),
    )
    parts = [f"{format_count(count, 'sample')} {what}" for count, what in counts if count]
    return ", ".join(parts) or "all samples"


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
            tells = kind != "keyless" and list(counts) != [NO_EXTENSION]  # keys have none
            extensions = f": {format_extensions(counts)}" if tells else ""
            if kind == "keyless":  # each tells of members of a shard
                names = format_some([f"{each.path}: {each.detail}" for each in found])
            said.append(f"{len(found):,} {_SKIPPED.get(kind, kind)}{extensions} ({names})")
    return "; ".join(said)


def _time_line(report: WriteReport) -> str:
    if report.state == "planned":
        return f"about {format_duration(report.seconds)}"
    if report.state.startswith("already") or not report.seconds:
        return format_duration(report.seconds)
    duration, rate = format_duration(report.seconds), report.samples / report.seconds
    if rate < 1:
        return duration
    return f"{duration}, {rate:,.0f} samples/s, {format_size(report.bytes / report.seconds)}/s"


_COLUMNS = ("field", "type", "role", "told by", "goes to", "samples")
"""The columns of a table of a schema."""


def print_schema(rows: Iterable[Sequence[str]]) -> None:
    """Print a schema as a table, from the rows of :func:`dsprep.sources.infer.table_of`."""
    click.echo("\nschema")
    _print_table([_COLUMNS, *(tuple(map(visible, row)) for row in rows)])


def _print_plan(report: WriteReport) -> None:
    if report.fields:
        print_schema(report.fields)
    click.echo("\nshards")
    _print_table(
        (shard.name, format_count(shard.samples, "sample"), format_size(shard.bytes))
        for shard in _ends(report.shards)
    )
    if report.per_class:
        click.echo("\nclasses")
        names = report.classes
        _print_table(
            (str(number), names[number] if names else "", format_count(count, "sample"))
            for number, count in _ends(list(report.per_class.items()))
        )
    click.echo("\nnothing was written")


def _ends(rows: Sequence[Any]) -> list[Any]:
    """The rows, without the middle of a long list."""
    if len(rows) <= 4 * _SHOWN:
        return list(rows)
    return [*rows[: 2 * _SHOWN], *rows[-2 * _SHOWN :]]


def _print_table(rows: Iterable[tuple[str, ...]]) -> None:
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        click.echo("  " + "  ".join(cells).rstrip())


def print_verify_report(report: VerifyReport) -> None:
    """Print what verifying found."""
    verdict = "whole"
    if report.problems:
        verdict = format_count(len(report.problems), "problem")
    elif report.proof.get("size"):
        verdict = "no problem found, but not all is proven"
    print_rows(f"{report.destination}: {verdict}", _verify_rows(report))
    if report.fields and not report.manifest:
        click.echo("\nfields")
        _print_table(_field_row(each) for each in report.fields)
    print_problems(report.problems)


def _verify_rows(report: VerifyReport) -> Iterator[tuple[str, str]]:
    if report.format:
        yield "format", report.format
    yield "samples", f"{report.samples:,}"
    if report.shards:
        yield "shards", f"{report.shards:,}"
    yield "size", format_size(report.bytes)
    yield "checked", ", ".join(report.checked)
    for by, words in _PROOF.items():
        if by in report.proof:
            yield "proven", f"{format_count(report.proof[by], 'file')} {words}"
    if unproven := report.proof.get("size"):
        yield (
            "unproven",
            f"{format_count(unproven, 'file')} of the right size, without a known checksum; "
            "--download reads everything",
        )
    for each in report.fields:
        if each.role:
            count = f"{each.samples:,} of {format_count(report.samples, 'sample')}"
            yield each.role, f"{count} ({each.name})"
    if not report.manifest:
        yield "note", "there is no manifest to compare with"
    for note in report.notes:
        yield "note", note
    yield "time", format_duration(report.seconds)


def _field_row(field: FieldFound) -> tuple[str, ...]:
    kind = field.type
    if field.classes:
        kind += f" of {format_count(field.classes, 'class')}"
    count = format_count(field.samples, "sample")
    return visible(field.name), kind, field.role, count, f"told by {field.told}"


def print_problems(problems: Sequence[Problem]) -> None:
    """Print what is wrong, one thing a line, below a report."""
    if problems:
        click.echo()
    for problem in problems[:_PROBLEMS_SHOWN]:
        click.echo(f"  {_problem_line(problem)}")
    if len(problems) > _PROBLEMS_SHOWN:
        click.echo(f"  and {len(problems) - _PROBLEMS_SHOWN:,} more; --json lists them all")


def _problem_line(problem: Problem) -> str:
    where = problem.file
    if problem.offset is not None:
        where += f" at byte {problem.offset:,}"
    parts = [part for part in (where, problem.sample) if part]
    return visible(": ".join([*parts, problem.message]))
