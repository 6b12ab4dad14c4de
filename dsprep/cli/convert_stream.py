"""``dsprep convert`` with ``-``: one shard from stdin, or to stdout."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click

from dsprep.cli.help import given_on_the_command_line
from dsprep.cli.options import parse_pairs, split_commas
from dsprep.cli.streams import visible
from dsprep.cli.writing_options import take_transform
from dsprep.commands.stream import convert_stream
from dsprep.errors import REJECTS_EXIT_CODE, OptionError, RunStopped, SourceError
from dsprep.findings import Reject
from dsprep.formats import CONCATENATIVE, format_of_file
from dsprep.formats.compressed import Readable
from dsprep.options import require_effect
from dsprep.storage.local import destination_errors, publish
from dsprep.storage.opened import open_file
from dsprep.storage.paths import is_dir
from dsprep.storage.urls import require_disk

STREAM = "-"


def convert_stdin(
    sources: Sequence[str],
    dest: str,
    *,
    kind: str | None,
    to: str | None,
    renamed: tuple[str, ...],
    only: str | None,
    drop: str | None,
    keep_fields: str | None,
    max_pixels: int | None,
    quiet: bool,
    max_errors: int | None,
    on_error: str,
    overwrite: bool,
    **options: Any,
) -> int:
    """Convert one shard front to back, in constant memory."""
    if len(sources) > 1:
        raise OptionError("-: is one shard, made of one; name one SOURCE")
    given = given_on_the_command_line(click.get_current_context())
    require_effect("convert", given, stream=True, stdout=dest == STREAM)
    if dest.endswith(".gz"):
        raise OptionError(f"{dest}: a stream is not compressed; write to - and pipe it into gzip")
    rejects = _Rejects(0 if on_error == "fail" else max_errors)
    with _source(sources[0]) as source, _destination(dest, overwrite) as output:
        blocks = convert_stream(
            source,
            source=_format(sources[0], kind, "--from"),
            to=_format(dest, to, "--to"),
            only=split_commas(only),
            drop=split_commas(drop),
            keep_fields=split_commas(keep_fields),
            rename=parse_pairs(renamed, "--rename"),
            **{
                name: options[name]
                for name in ("image_field", "label_field", "label_type", "schema", "no_image")
            },
            features=options["features"],
            metadata=options["metadata"],
            key=options["key"],
            transform=take_transform(options),
            check=options["check"],
            max_pixels=max_pixels,
            on_reject=rejects,
            on_note=lambda note: None if quiet else click.echo(visible(f"note: {note}"), err=True),
            name="stdin" if sources[0] == STREAM else sources[0],
        )
        for block in blocks:
            with destination_errors("stdout" if dest == STREAM else dest):
                try:
                    output.write(block)
                    output.flush()
                except BrokenPipeError:
                    raise RunStopped("stdout was closed before all was written") from None
    if rejects.count and not quiet:
        click.echo(f"{rejects.count:,} samples not converted", err=True)
    return REJECTS_EXIT_CODE if rejects.count else 0


class _Rejects:
    """Says each sample that is not converted, and stops when there are too many."""

    def __init__(self, most: int | None) -> None:
        self.count = 0
        self._most = most

    def __call__(self, reject: Reject) -> None:
        self.count += 1
        click.echo(visible(f"{reject.path}: {reject.reason}"), err=True)
        if self._most is not None and self.count > self._most:
            raise RunStopped(f"stopped: {self.count:,} samples cannot be converted")


def _format(path: str, given: str | None, option: str) -> str:
    told = None if path == STREAM else format_of_file(path)
    name = given or (told.name if told else None)
    if option == "--to" and told and name != told.name:
        raise OptionError(f"{path}: is a name for {told.name}, but --to says {name}")
    if name is None:
        choices = ", ".join(CONCATENATIVE)
        raise OptionError(f"{path}: say its format with {option}: {choices}")
    return name


@contextmanager
def _source(path: str) -> Iterator[Readable]:
    if path == STREAM:
        # Unbuffered: what has come is worked on, whether or not more follows soon.
        yield io.FileIO(sys.stdin.fileno(), closefd=False)
        return
    if is_dir(path):
        raise OptionError(f"{path}: is a directory; a stream is made of one shard")
    try:
        file = open_file(path)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from None
    with file:
        yield file


@contextmanager
def _destination(path: str, overwrite: bool) -> Iterator[BinaryIO]:
    """Where the bytes go; a file has its name when it is whole."""
    if path == STREAM:
        if sys.stdout.isatty():
            raise OptionError("-: stdout is a terminal; redirect it into a file or a pipe")
        yield sys.stdout.buffer
        return
    require_disk(path)
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
