"""``dsprep convert`` with ``-`` or a named pipe: one shard from a stream, or to one."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click

from dsprep.cli.help import given_on_the_command_line
from dsprep.cli.streams import echo
from dsprep.declared import options_in, unchecked
from dsprep.errors import REJECTS_EXIT_CODE, OptionError, RunStopped, source_errors
from dsprep.findings import Reject
from dsprep.formats import CONCATENATIVE, format_of_file
from dsprep.formats.stream import Readable
from dsprep.options import require_effect
from dsprep.run.stream import StreamOptions, convert_stream
from dsprep.storage.files import is_dir, open_file, require_disk
from dsprep.storage.local import destination_errors, is_pipe, open_pipe, publish

STREAM = "-"


def is_stream(path: str) -> bool:
    """Return whether a path is that of a stream: ``-``, or a named pipe."""
    return path == STREAM or is_pipe(path)


def convert_stdin(source: Sequence[str], dest: str, quiet: bool, **options: Any) -> int:
    """Convert one shard front to back, in constant memory."""
    if len(source) > 1:
        raise OptionError("-: a stream is one shard; name one SOURCE")
    given = given_on_the_command_line(click.get_current_context())
    require_effect("convert", given, stream=True, stdout=is_stream(dest))
    if dest.endswith(".gz"):
        raise OptionError(f"{dest}: a stream is not compressed; write to - and pipe it into gzip")
    if source[0] != STREAM and is_dir(source[0]):
        raise OptionError(f"{source[0]}: is a directory; a stream is made of one shard")
    rejects: list[str] = []

    def on_reject(reject: Reject) -> None:
        rejects.append(reject.path)
        echo(f"{reject.path}: {reject.reason}", sys.stderr)

    def on_note(note: str) -> None:
        if not quiet:
            echo(f"note: {note}", sys.stderr)

    taken = {name: options[name] for name in options_in(StreamOptions) if name in options}
    taken |= {
        "source": _format(source[0], options["kind"], "--from"),
        "to": _format(dest, options["to"], "--to"),
        "name": "stdin" if source[0] == STREAM else source[0],
        "max_errors": 0 if options["on_error"] == "fail" else options["max_errors"],
        "on_reject": on_reject,
        "on_note": on_note,
    }
    with _open_source(source[0]) as shard, _destination(dest, options["overwrite"]) as output:
        for block in unchecked(convert_stream)(shard, **taken):
            with destination_errors("stdout" if dest == STREAM else dest):
                try:
                    output.write(block)
                    output.flush()
                except BrokenPipeError:
                    name = "stdout" if dest == STREAM else dest
                    raise RunStopped(f"{name} was closed before all was written") from None
    if rejects and not quiet:
        echo(f"{len(rejects):,} samples not converted", sys.stderr)
    return REJECTS_EXIT_CODE if rejects else 0


def _format(path: str, given: str | None, option: str) -> str:
    found = None if path == STREAM else format_of_file(path)
    if found and option == "--to" and given not in (None, found.name):
        raise OptionError(f"{path}: is a name for {found.name}, but --to says {given}")
    name = given or (found.name if found else None)
    if name is None:
        raise OptionError(f"{path}: give its format with {option}: {', '.join(CONCATENATIVE)}")
    return name


def _open_source(path: str) -> AbstractContextManager[Readable]:
    if path == STREAM:
        # Unbuffered: what has come is worked on, whether or not more follows soon.
        return io.FileIO(sys.stdin.fileno(), closefd=False)
    with source_errors(path):
        return open_pipe(path) if is_pipe(path) else open_file(path)


@contextmanager
def _destination(path: str, overwrite: bool) -> Iterator[BinaryIO | io.FileIO]:
    """Open the destination; a file gets its name when it is complete."""
    if path == STREAM:
        if sys.stdout.isatty():
            raise OptionError("-: stdout is a terminal; redirect it into a file or a pipe")
        yield sys.stdout.buffer
        return
    require_disk(path)
    if is_pipe(path):
        with destination_errors(path), open(path, "wb", buffering=0) as pipe:
            yield pipe
        return
    final = Path(path)
    if final.exists() and not overwrite:
        raise OptionError(f"{path}: is there already; give --overwrite to replace it")
    temporary = final.with_name(f".{final.name}.{os.getpid()}.partial")
    try:
        with destination_errors(final), open(temporary, "wb") as file:
            yield file
        publish(temporary, final)
    finally:
        temporary.unlink(missing_ok=True)
