"""``dsprep sync``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import click

from dsprep.cli.help import GroupedCommand, given_on_the_command_line, option_group
from dsprep.cli.options import Parsed, options_of, output_options
from dsprep.cli.records import print_json
from dsprep.cli.s3_options import object_options, s3_options, take_config
from dsprep.cli.streams import until_nobody_reads, visible
from dsprep.errors import REJECTS_EXIT_CODE, DsprepError, OptionError
from dsprep.keywords import Rule, SyncOptions
from dsprep.options import require_effect
from dsprep.storage.location import is_s3
from dsprep.units import format_count, format_duration, format_size, parse_duration

if TYPE_CHECKING:
    from collections import Counter

    from dsprep.syncing.plan import SyncReport
    from dsprep.syncing.sync import Orphan

_SHOWN = 10  # how many of a long list are named

_WORDS = {
    "missing": "not there",
    "size": "of another size",
    "etag": "of another ETag",
    "checksum": "of another checksum",
    "metadata": "of another checksum in its metadata",
    "download": "of other bytes, which were read back",
    "time": "older there",
    "withdrawn": "removed there until all that it names is replaced",
}
"""Why a file is sent, by what decided it."""

_TOLD = {
    "size": "size",
    "etag": "ETag",
    "checksum": "checksum",
    "metadata": "the checksum in their metadata",
    "time": "time",
    "download": "reading them",
}
"""What tells that a file is there, or proves it."""


class _SyncCommand(GroupedCommand):
    """Keeps the order of ``--include`` and ``--exclude``; writes errors as JSON with ``--json``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Note the order, then parse."""
        rules = []
        for word, following in pairwise([*args, ""]):
            name, equals, value = word.partition("=")
            if name in ("--include", "--exclude"):
                rules.append(Rule(name == "--include", value if equals else following))
        ctx.meta["rules"] = rules
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        from dsprep.cli.sync_events import JsonEvents

        try:
            return super().invoke(ctx)
        except (DsprepError, OSError) as error:
            if not ctx.params["as_json"]:
                raise
            code = error.exit_code if isinstance(error, DsprepError) else DsprepError.exit_code
            JsonEvents(sys.stderr).write("error", str(error), code)
            return code


@click.command(cls=_SyncCommand)
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DST", required=False)
@option_group("Files")(
    "--include",
    metavar="PATTERN",
    multiple=True,
    help="Include these files, even if excluded before.",
)
@option_group("Files")(
    "--exclude",
    metavar="PATTERN",
    multiple=True,
    help="Exclude these files; * matches slashes too. The last match wins.",
)
@options_of(SyncOptions)
@option_group("Unfinished uploads")(
    "--clean-uploads",
    is_flag=True,
    help="Abort your own unfinished uploads below SRC, which are billed until then; takes no DST. "
    "Without --older-than, uploads of other runs that are still going are aborted too.",
)
@option_group("Unfinished uploads")(
    "--older-than",
    type=Parsed("time", parse_duration),
    help="Only uploads older than this, such as 7d.",
)
@s3_options
@object_options
@output_options
@click.pass_context
def sync(
    context: click.Context,
    /,
    source: str,
    destination: str | None,
    clean_uploads: bool,
    older_than: float | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Copy the files of SRC that DST does not have. At least one is on S3: s3://bucket/prefix.

    Files are compared by contents and verified by checksum. After a kill, the same command resumes,
    on any machine. Shards are sent before the manifest that names them. With --json, stderr has one
    JSON object a line for each event; the last one is the error, if the command fails.

    \b
    Examples:
      dsprep sync shards/ s3://bucket/train/
      dsprep sync s3://bucket/train/ shards/
      dsprep sync shards/ s3://bucket/train/ --delete --dry-run
      dsprep sync shards/ s3://bucket/train/ --exclude '*' --include '*.tar'
      dsprep sync shards/ s3://bucket/train/ --verify
      dsprep sync --clean-uploads s3://bucket/train/ --older-than 7d
    """
    from dsprep.cli.sync_events import events_for
    from dsprep.syncing import sync as syncing

    del options["include"], options["exclude"]  # their order is in the rules
    config = take_config(options)
    if clean_uploads:
        if destination is not None:
            raise OptionError(f"--clean-uploads {source} {destination}: one place at a time")
        found = syncing.clean_uploads(source, older_than or 0.0, options["dry_run"], config)
        with until_nobody_reads(sys.stdout):
            print_orphans(source, found, as_json, quiet)
        return 0
    if destination is None:
        raise click.UsageError("Name both, SRC and DST.", context)
    facts = {"local_source": not is_s3(source), "remote": is_s3(destination)}
    require_effect("sync", given_on_the_command_line(context), **facts)
    with events_for(sys.stderr, as_json, quiet) as events:
        options |= {"rules": context.meta["rules"], "config": config, "events": events}
        report = syncing.sync(source, destination, **options)
    with until_nobody_reads(sys.stdout):
        if as_json:
            print_json(report)
        elif not quiet or report.failures:
            for line in _lines(report):
                click.echo(visible(line))
    return REJECTS_EXIT_CODE if report.failures else 0


def print_orphans(place: str, orphans: Sequence[Orphan], as_json: bool, quiet: bool) -> None:
    """Print which unfinished uploads there were, and what became of them."""
    if as_json:
        print_json({"place": place, "uploads": orphans})
        return
    if quiet:
        return
    count = format_count(len(orphans), "unfinished upload")
    size = format_size(sum(orphan.bytes for orphan in orphans))
    if not orphans:
        click.echo(f"{place}: no unfinished uploads of your own")
    elif all(orphan.aborted for orphan in orphans):
        click.echo(f"{place}: {count} of your own, {size}, aborted")
    else:
        click.echo(f"{place}: {count}, {size}; those that you began would be aborted")
    for line in _some(map(_orphan_line, orphans)):
        click.echo(visible(line))


def _orphan_line(orphan: Orphan) -> str:
    by = f" by {orphan.initiator}" if orphan.initiator else ""
    parts, size = format_count(orphan.parts, "part"), format_size(orphan.bytes)
    return f"{orphan.url}: begun {format_duration(orphan.seconds)} ago{by}, {parts}, {size}"


def _lines(report: SyncReport) -> Iterator[str]:
    planned = report.state == "planned"
    would = "would be " if planned else ""
    yield f"{report.source} → {report.destination}: {report.state}"
    if report.sent or not report.same:
        files = format_count(len(report.sent), "file")
        parts = sum(send.parts for send in report.sent)
        several = f" in {parts:,} parts" if parts > len(report.sent) else ""
        yield _row(f"{would}sent", f"{files}, {format_size(report.bytes)}{several}")
    if planned:
        yield from _some(f"{send.path}: {_WORDS[send.by]}" for send in report.sent)
        count = report.requests.writes + report.requests.reads
        yield _row("requests", f"about {count:,}")
    if report.resumed:
        yield _row("resumed", f"{format_size(report.resumed)} were there from an earlier run")
    if report.same:
        yield _row("there already", _by(report.same))
    yield from _files(f"{would}deleted", report.deleted)
    if report.verified:
        yield _row("verified", _by(report.verified))
    yield from _files("left out", map(": ".join, report.left))
    yield from _files("failed", map(": ".join, report.failures))
    yield from (_row("note", note) for note in report.notes)
    if not planned:
        rate = f", {format_size(report.bytes / report.seconds)}/s" if report.bytes else ""
        yield _row("time", f"{format_duration(report.seconds)}{rate}")


def _files(name: str, texts: Iterable[str]) -> Iterator[str]:
    texts = list(texts)
    if texts:
        yield _row(name, format_count(len(texts), "file"))
        yield from _some(texts)


def _row(name: str, text: str) -> str:
    return f"  {name:<17}{text}"


def _by(counts: Counter[str]) -> str:
    """How many files, and what told it: ``3 files (2 by etag, 1 by checksum)``."""
    files = format_count(counts.total(), "file")
    if len(counts) == 1:
        return f"{files}, by {_TOLD[next(iter(counts))]}"
    return f"{files} ({', '.join(f'{n:,} by {_TOLD[by]}' for by, n in counts.most_common())})"


def _some(texts: Iterable[str]) -> Iterator[str]:
    texts = list(texts)
    yield from (f"    {text}" for text in texts[:_SHOWN])
    if len(texts) > _SHOWN:
        yield f"    and {len(texts) - _SHOWN:,} more (--json names all)"
