"""``dsprep serve``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

import dsprep
from dsprep.cli.help import GroupedCommand, option_group
from dsprep.cli.options import Parsed, command
from dsprep.cli.report import rows_of, show, some_of
from dsprep.declared import unchecked
from dsprep.errors import REJECTS_EXIT_CODE, OptionError
from dsprep.progress import progress_for
from dsprep.training.options import ServeOptions
from dsprep.units import format_count, format_duration, format_size, parse_duration

if TYPE_CHECKING:
    from dsprep.training.serve import ServeReport

_run = option_group("Run")


class ProgramCommand(GroupedCommand):
    """Takes what follows ``--`` as the program to run."""

    program = "[-- PROGRAM...]"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta["program"] = args[at + 1 :]
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), self.program]


@command(
    "",
    click.Argument(["data"], metavar="DATA", required=False),
    ServeOptions,
    _run("--stdout", is_flag=True, help="Write the one channel to stdout, without pipes."),
    _run(
        "--timeout",
        type=Parsed("time", parse_duration),
        help="Stop if nobody reads for this long, such as 30s.  [default: 10min; none with a "
        "program]",
    ),
    cls=ProgramCommand,
    aliases={"format": "to"},
)
@click.pass_context
def serve(
    context: click.Context, /, stdout: bool, as_json: bool, quiet: bool, **options: Any
) -> int:
    """Stream DATA to a program on this machine, as SageMaker's Pipe mode does.

    DATA is shards (a file, a pattern, a directory, a manifest), a directory of files, an augmented
    manifest, or text of lines (.csv, .tsv, .txt, .libsvm, .jsonl), on a disk or on S3. Each epoch
    is a named pipe below DIR: train_0, train_1. The next pipe is there before the last one has
    ended. A reader that closes its pipe early ends the epoch. DIR also has the configuration files
    of a training job.

    Shards are sent as they are, one after another, or are converted on the way. Text is sent as it
    is, too, and decompressed. Other files, and the attributes of an augmented manifest, are records
    of RecordIO each. A .jsonl is an augmented manifest if its lines refer to files (source-ref), or
    if --attributes is given.

    What follows -- is run with the environment of a training job (SM_CHANNEL_TRAIN and so on), and
    both stop together. The exit code is that of the program. A stream that breaks never looks like
    the end of an epoch: the program is killed first, with all that it has started. With --fifo
    alone it does look so. Pipes that kill -9 has left stay until the next start: a reader waits
    for it, and finds the pipe empty. Give a reader a limit: timeout 60 python train.py.

    \b
    Examples:
      dsprep serve shards/ -- python train.py
      dsprep serve shards/ --fifo /tmp/ml --epochs 3
      dsprep serve --channel train=shards/ --channel validation=val/ --epochs 3 -- python train.py
      dsprep serve s3://bucket/shards/ --to tfrecord --shuffle-shards --part 0/4 --fifo /tmp/ml
      dsprep serve sage.manifest --attributes source-ref,class --fifo /tmp/ml
      dsprep serve shards/ --stdout | python train.py
    """
    program = context.meta["program"]
    if stdout:
        if sys.stdout.isatty():
            raise OptionError("--stdout: stdout is a terminal; redirect it into a file or a pipe")
        options["write"] = _write
    progress = progress_for(sys.stderr, quiet)
    report = unchecked(dsprep.serve)(program=program, progress=progress, **options)
    # The program, or the data, has stdout.
    show(report, _lines, as_json, quiet, sys.stderr if program or stdout else sys.stdout)
    return report.exit_code or (REJECTS_EXIT_CODE if report.rejects else 0)


def _write(block: bytes) -> None:
    sys.stdout.buffer.write(block)
    sys.stdout.buffer.flush()


def _lines(report: ServeReport) -> Iterator[str]:
    yield f"{report.place or ('stdout' if report.exit_code is None else 'pipes')}: served"
    for each in report.channels:
        kind = "line" if each.format == "augmented-manifest" else "file"
        epochs = format_count(each.epochs, "whole epoch")
        early = f", {each.closed_early:,} closed early" if each.closed_early else ""
        size, files = format_size(each.bytes), format_count(each.files, kind)
        yield from rows_of((each.name, f"{epochs}{early}, {size}, of {files} as {each.format}"))
    rejects = [f"{reject.path}: {reject.reason}" for reject in report.rejects]
    yield from rows_of(("rejected", len(rejects)))
    yield from (f"    {text}" for text in some_of(rejects, 5))
    yield from rows_of(
        ("program", "" if report.exit_code is None else f"ended with {report.exit_code}"),
        *(("note", note) for note in report.notes),
        ("time", format_duration(report.seconds)),
    )
