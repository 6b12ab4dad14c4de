"""Standard streams: closed, of any encoding, with a reader that goes away.

Nothing else prints: what people read is one :func:`echo` a line, in which names cannot do harm.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import click

from dsprep.errors import DestinationError
from dsprep.printable import visible

_NOBODY_READS = (errno.EPIPE, errno.EIO)  # of a pipe, of a terminal that is closed
_MOST_LINES = 20
_LINE_START, _LINE_END = 800, 400  # characters of a long line: what is wrong, and what to do


def prepare_streams() -> None:
    """Make all three usable: replace closed ones by /dev/null, escape what cannot be encoded."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # This gets the number of the closed stream, the lowest free one, and workers get it,
            # too: else a file that is opened later would, and what libraries print go into it.
            null = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(null, True)
            setattr(sys, name, os.fdopen(null, mode))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def shortened(message: str) -> str:
    """Return a message of at most 20 lines; no line fills more than a screen.

    Messages quote files, and a wrong file may contain anything.
    """
    lines = message.split("\n")
    if len(lines) > _MOST_LINES:
        rest = len(lines) - _MOST_LINES + 1
        lines = [*lines[: _MOST_LINES - 2], f"… ({rest:,} more lines)", lines[-1]]
    for number, line in enumerate(lines):
        if (left_out := len(line) - _LINE_START - _LINE_END) > 0:
            more = f"… ({left_out:,} more characters) …"
            lines[number] = line[:_LINE_START] + more + line[-_LINE_END:]
    return "\n".join(lines)


def echo(line: str, stream: TextIO | None = None) -> None:
    """Write a line for people, with what names and addresses hold made visible and harmless."""
    echo_as_is(visible(line), stream)


def echo_as_is(text: str, stream: TextIO | None = None, **how: Any) -> None:
    """Write what is safe already, or is for programs: JSON, code, help, pictures.

    Raises:
        DestinationError: If the stream cannot be written, as where a disk is full.
    """
    try:
        click.echo(text, file=stream, **how)
    except OSError as error:
        if error.errno in _NOBODY_READS:
            raise
        name = (stream or sys.stdout).name
        raise DestinationError(f"{name}: cannot be written: {error.strerror}") from None


@contextmanager
def until_nobody_reads(stream: TextIO) -> Iterator[None]:
    """Ignore a reader that goes away: ``| head`` does not change the exit code.

    Nor does a closed terminal, for which the system returns EIO.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _NOBODY_READS:
            raise
        # Python flushes once more at its end, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def say(text: str) -> None:
    """Write a line to stderr, above a progress bar if there is one."""
    from tqdm import tqdm

    with suppress(OSError):
        tqdm.write(visible(text), file=sys.stderr)
        sys.stderr.flush()
