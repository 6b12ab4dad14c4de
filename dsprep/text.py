"""Text files that users wrote: read whole; a message names the line that is wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import polars as pl

from dsprep.errors import SourceError
from dsprep.storage.files import read_bytes
from dsprep.storage.local import LARGEST_TABLE, read_stream

# what files of gzip, bzip2, xz and zstd begin with
_COMPRESSED = b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"
_SHOWN = 2  # further lines that a message names
Problem = Callable[[dict[str, Any]], str]  # returns what is wrong with a row, given its columns


def read_text(path: str, limit: int = LARGEST_TABLE) -> str:
    """Read a file of UTF-8 text, from a disk or from S3."""
    return decode_text(read_data(path, limit), path)


def read_data(path: str, limit: int = LARGEST_TABLE) -> bytes:
    """Read a file, from a disk or from S3."""
    try:
        return read_bytes(path, limit)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None


def read_stdin() -> bytes:
    """Read standard input to its end."""
    try:
        return read_stream(sys.stdin.buffer)
    except OSError as error:
        raise SourceError(f"<stdin>: cannot be read: {error.strerror}") from None


def decode_text(data: bytes, path: str) -> str:
    """Decode UTF-8, without its byte order mark if it has one."""
    refuse_compressed(data, path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SourceError(f"{path}:{line}: not UTF-8 text: save the file as UTF-8") from None


def refuse_compressed(data: bytes, path: str) -> None:
    """Refuse the content of a compressed file."""
    if data.startswith(_COMPRESSED):
        raise SourceError(f"{path}: is compressed: decompress it first")


def refuse(source: str, rows: pl.DataFrame, wrong: pl.Expr, problem: Problem) -> None:
    """Raise an error about the first row that is wrong, if any is."""
    all_wrong = rows.filter(rows.select(wrong=wrong)["wrong"])
    for row in all_wrong.head(1).iter_rows(named=True):
        raise SourceError(f"{source}:{row['line']}: {problem(row)}{also(all_wrong['line'])}")


def also(lines: pl.Series) -> str:
    """Return what a message on the first of some lines adds about the others."""
    others = lines.unique(maintain_order=True)[1:]
    if others.is_empty():
        return ""
    shown = ", ".join(map(str, others.head(_SHOWN))) + ", …" * (len(others) > _SHOWN)
    return f" ({len(others):,} more like this: line {shown})"
