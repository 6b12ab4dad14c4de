"""``dsprep sync``."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import click

from dsprep.cli.help import GroupedCommand, given_on_the_command_line, option_group
from dsprep.cli.options import Parsed, options_of, output_options
from dsprep.cli.s3_options import object_options, s3_options, take_config
from dsprep.cli.streams import until_nobody_reads
from dsprep.errors import REJECTS_EXIT_CODE, DsprepError, OptionError
from dsprep.keywords import Rule, SyncOptions
from dsprep.options import require_effect
from dsprep.storage.location import is_s3
from dsprep.units import parse_duration

_files = option_group("Files")
_uploads = option_group("Unfinished uploads")

_RULES = {"--include": True, "--exclude": False}


class _SyncCommand(GroupedCommand):
    """Keeps the order of ``--include`` and ``--exclude``; writes errors as JSON with ``--json``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Note the order, then parse."""
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
            JsonEvents(sys.stderr).write("error", text=str(error), code=code)
            return code


@click.command(cls=_SyncCommand)
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DST", required=False)
@_files(
    "--include",
    metavar="PATTERN",
    multiple=True,
    help="Include these files, even if excluded before.",
)
@_files(
    "--exclude",
    metavar="PATTERN",
    multiple=True,
    help="Exclude these files; * matches slashes too. The last match wins.",
)
@options_of(SyncOptions)
@_uploads(
    "--clean-uploads",
    is_flag=True,
    help="Abort your own unfinished uploads below SRC, which are billed until then; takes no DST. "
    "Without --older-than, uploads of other runs that are still going are aborted too.",
)
@_uploads(
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
    from dsprep.cli.sync_report import print_orphans, print_sync_report

    for name in ("include", "exclude"):
        options.pop(name)
    config = take_config(options)
    if clean_uploads:
        from dsprep.syncing import orphans

        if destination is not None:
            raise OptionError(f"--clean-uploads {source} {destination}: one place at a time")
        found = orphans.clean_uploads(source, older_than or 0.0, options["dry_run"], config)
        with until_nobody_reads(sys.stdout):
            print_orphans(source, found, as_json, quiet)
        return 0
    if destination is None:
        raise click.UsageError("Name both, SRC and DST.", context)
    facts = {"local_source": not is_s3(source), "remote": is_s3(destination)}
    require_effect("sync", given_on_the_command_line(context), **facts)
    from dsprep.syncing import sync as syncing

    with events_for(sys.stderr, as_json, quiet) as events:
        options |= {"rules": context.meta["rules"], "config": config, "events": events}
        report = syncing.sync(source, destination, **options)
    with until_nobody_reads(sys.stdout):
        print_sync_report(report, as_json, quiet)
    return REJECTS_EXIT_CODE if report.failures else 0
