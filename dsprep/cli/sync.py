"""``dsprep sync``."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import click

from dsprep.cli.help import GroupedCommand, given_on_the_command_line, option_group
from dsprep.cli.options import Count, Size, dry_run_option, output_options
from dsprep.cli.s3_options import object_options, s3_options, take_config
from dsprep.cli.streams import until_nobody_reads
from dsprep.errors import REJECTS_EXIT_CODE, DsprepError, OptionError
from dsprep.options import require_effect
from dsprep.storage.urls import is_s3
from dsprep.units import parse_duration

_files = option_group("Files")
_transfers = option_group("Transfers")
_uploads = option_group("Unfinished uploads")

_RULES = {"--include": True, "--exclude": False}


class _SyncCommand(GroupedCommand):
    """Knows in which order ``--include`` and ``--exclude`` came, as the last that matches wins.

    With ``--json``, what ends it is told as everything else is.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Note the order, then parse."""
        from dsprep.syncing.plan import Rule

        rules = []
        for word, following in pairwise([*args, ""]):
            name, equals, value = word.partition("=")
            if name in _RULES:
                rules.append(Rule(_RULES[name], value if equals else following))
        ctx.meta["rules"] = rules
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Sync; returns the exit code."""
        from dsprep.cli.sync_events import JsonEvents

        try:
            return super().invoke(ctx)
        except (DsprepError, OSError) as error:
            if not ctx.params["as_json"]:
                raise
            code = error.exit_code if isinstance(error, DsprepError) else DsprepError.exit_code
            JsonEvents(sys.stderr).error(str(error), code)
            return code


class Rate(Size):
    """Bytes a second such as ``50MB/s``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it, or fail as click does."""
        return super().convert(str(value).removesuffix("/s"), param, ctx)


class Duration(click.ParamType[float]):
    """A time such as ``7d``."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it, or fail as click does."""
        try:
            return parse_duration(str(value))
        except OptionError as error:
            self.fail(str(error), param, ctx)


@click.command(cls=_SyncCommand)
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DST", required=False)
@_files("--include", metavar="PATTERN", multiple=True, help="Take these, even if excluded before.")
@_files(
    "--exclude",
    metavar="PATTERN",
    multiple=True,
    help="Leave these out; * is anything, slashes included. The last that matches wins.",
)
@_files("--size-only", is_flag=True, help="Take files of the same size for the same.")
@_files("--delete", is_flag=True, help="Delete at DST what SRC has not, if all else went well.")
@_files("--max-delete", type=Count(0), help="Do nothing at all if more than so many would go.")
@_files(
    "--verify",
    is_flag=True,
    help="Prove all files by their checksums on S3, also those not sent now.",
)
@_files(
    "--follow-symlinks/--no-follow-symlinks",
    "follow_links",
    default=True,
    help="Follow links in SRC (default), or leave them out.",
)
@_transfers("--concurrency", type=Count(), help="Requests at once.  [default: 8]")
@_transfers("--part-size", type=Size(), help="Size of parts.  [default: 32MiB, or what it takes]")
@_transfers("--bandwidth", type=Rate(), help="Maximum bytes a second in all, such as 50MB/s.")
@_transfers(
    "--abort-on-exit", is_flag=True, help="Keep nothing of what is unfinished when it is stopped."
)
@_uploads(
    "--clean-uploads",
    is_flag=True,
    help="Abort one's own unfinished uploads below SRC, which are billed until then; no DST. "
    "Without --older-than also those that another run has under way.",
)
@_uploads("--older-than", type=Duration(), help="Only those begun so long ago, such as 7d.")
@s3_options
@object_options
@dry_run_option
@output_options
@click.pass_context
def sync(
    context: click.Context,
    /,
    source: str,
    destination: str | None,
    clean_uploads: bool,
    older_than: float | None,
    concurrency: int | None,
    part_size: int | None,
    bandwidth: int | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Make DST hold the files of SRC. One of them, or both, are on S3: s3://bucket/prefix.

    Files are compared by their content. What is sent is proven to have arrived; what is killed goes
    on where it was, in any process on any machine; shards get there before the manifest that names
    them. With --json, what happens is told on stderr as it happens, a JSON object a line; the last
    is an error, if one ends it.

    \b
    Examples:
      dsprep sync shards/ s3://bucket/train/
      dsprep sync s3://bucket/train/ shards/
      dsprep sync shards/ s3://bucket/train/ --delete --dry-run
      dsprep sync shards/ s3://bucket/train/ --exclude '*' --include '*.tar'
      dsprep sync shards/ s3://bucket/train/ --verify
      dsprep sync --clean-uploads s3://bucket/train/ --older-than 7d
    """
    from dsprep.cli.sync_report import events_for, print_orphans, print_sync_report
    from dsprep.storage.pace import DEFAULT_CONCURRENCY
    from dsprep.syncing import sync as syncing

    for name in ("include", "exclude"):
        options.pop(name)
    config = take_config(options)
    if clean_uploads:
        if destination is not None:
            raise OptionError(f"--clean-uploads {source} {destination}: one place at a time")
        orphans = syncing.clean_uploads(source, older_than or 0.0, options["dry_run"], config)
        with until_nobody_reads(sys.stdout):
            print_orphans(source, orphans, as_json, quiet)
        return 0
    if destination is None:
        raise click.UsageError("Name both, SRC and DST.", context)
    facts = {"local_source": not is_s3(source), "remote": is_s3(destination)}
    require_effect("sync", given_on_the_command_line(context), **facts)
    with events_for(sys.stderr, as_json, quiet) as events:
        report = syncing.sync(
            source,
            destination,
            rules=context.meta["rules"],
            concurrency=concurrency or DEFAULT_CONCURRENCY,
            part_size=part_size or 0,
            bandwidth=float(bandwidth or 0),
            config=config,
            events=events,
            **options,
        )
    with until_nobody_reads(sys.stdout):
        print_sync_report(report, as_json, quiet)
    return REJECTS_EXIT_CODE if report.failures else 0
