"""A file of Arrow's record batches, read a batch at a time from any store.

Both of Arrow's layouts have the same messages, one after another (Arrow's documentation, "The
encapsulated message format"): four bytes of ones, the size of the metadata as a little-endian i32,
the metadata, and its body. An IPC file has them after the magic ``ARROW1`` and two zeros. The
metadata is a table of FlatBuffers (Arrow's ``Message.fbs``): its field 1 is the type of the header,
field 2 the header, field 3 the size of the body. Field 0 of the header of a record batch is its
number of rows.

A chunk of litdata has either layout before its end, which is the size of it as a u32 and a mark
(litdata 0.2.76, streaming/item_loader.py, ``append_arrow_row_footer``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import Any, Self

from dsprep.formats import ARROW
from dsprep.formats.arrow import arrow
from dsprep.formats.listed_shards import ROWS
from dsprep.storage.files import facts, open_file
from dsprep.storage.store import OpenFile
from dsprep.tuples import NamedTuple

_MAGIC = b"ARROW1\0\0"
_MARK = b"\xff" * 4
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3  # types of headers
_AT_ONCE = 4096  # bytes that have the metadata of most messages
_LARGEST = 64 << 20  # bytes of metadata
_CHUNK = ".bin"  # ends the name of a chunk of litdata


class _Message(NamedTuple):
    """A message of a file."""

    kind: int  # the type of its header
    start: int
    stop: int
    rows: int  # of a record batch


class _Layout(NamedTuple):
    """Where the messages of a file are that it takes to read a record batch."""

    first: Sequence[_Message]  # the schema, and dictionaries
    batches: Sequence[_Message]


def is_arrow(path: str) -> bool:
    """Return whether a file has Arrow's record batches, by its name."""
    return path.endswith((*ARROW, _CHUNK))


class ArrowFile:
    """A file of record batches, with the methods of pyarrow's `ParquetFile` that sources call."""

    def __init__(self, path: str) -> None:
        """Open a file; raise an error of Arrow's if it does not begin as one."""
        found = facts(path)
        self._key = path, found.size, found.mtime_ns
        self._file = open_file(path)
        try:
            with _damage():
                schema = _message_at(self._file, *_messages_in(self._file, path, found.size))
                if schema is None or schema.kind != _SCHEMA:
                    raise ValueError("it does not begin with a schema")
                self.schema_arrow = arrow().ipc.open_stream(self._bytes(schema)).schema
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    @cached_property
    def _layout(self) -> _Layout:
        with _damage():
            return _layout_of(*self._key)

    @property
    def num_row_groups(self) -> int:
        """The number of record batches."""
        return len(self._layout.batches)

    @property
    def rows(self) -> Sequence[int]:
        """The number of rows of each record batch, as its header has it."""
        return [batch.rows for batch in self._layout.batches]

    def iter_batches(
        self,
        rows: int,
        groups: Sequence[int] | None = None,
        columns: Sequence[str] = (),
        use_threads: bool = False,
    ) -> Iterator[Any]:
        """Yield some columns of record batches, or of all of them, some rows at a time."""
        for group in range(self.num_row_groups) if groups is None else groups:
            batch = self._read(group)
            names = [name for name in columns if batch.schema.get_field_index(name) >= 0]
            batch = batch.select(names)
            # Arrow trusts the offsets in a body: a wrong one would lead out of it.
            batch.validate(full=True)
            for start in range(0, len(batch), rows):
                yield batch.slice(start, rows)

    def read(self, columns: Sequence[str], use_threads: bool = False) -> Any:
        """Return some columns of all rows."""
        groups = range(self.num_row_groups)
        batches = list(self.iter_batches(1 << 31, groups, columns))
        schema = arrow().schema([self.schema_arrow.field(name) for name in columns])
        return arrow().Table.from_batches([batch.cast(schema) for batch in batches], schema)

    def _read(self, number: int) -> Any:
        batch = self._layout.batches[number]
        before = (each for each in self._layout.first if each.start < batch.start)
        data = b"".join(self._bytes(each) for each in (*before, batch))
        return arrow().ipc.open_stream(data).read_next_batch()

    def _bytes(self, message: _Message) -> bytes:
        data = self._file.pread(message.stop - message.start, message.start)
        if len(data) != message.stop - message.start:
            raise arrow().ArrowInvalid("a record batch is cut short")
        return data


@contextmanager
def _damage() -> Iterator[None]:
    """Turn what a damaged header raises into an error of Arrow's."""
    try:
        yield
    except arrow().ArrowException:
        raise
    except (ValueError, struct.error) as error:
        raise arrow().ArrowInvalid(f"a header is damaged: {error}") from None


@lru_cache(64)
def _layout_of(path: str, size: int, mtime: int) -> _Layout:
    """Return the messages of a file; ``size`` and ``mtime`` tell whether it is still the same."""
    first, batches = list[_Message](), list[_Message]()
    with open_file(path) as file:
        at, stop = _messages_in(file, path, size)
        while (message := _message_at(file, at, stop)) is not None:
            if message.kind == _DICTIONARY or not first:
                first.append(message)
            elif message.kind == _BATCH:
                batches.append(message)
            at = message.stop
    return _Layout(tuple(first), tuple(batches))


def _messages_in(file: OpenFile, path: str, size: int) -> tuple[int, int]:
    """Return where the messages of a file begin, and where they end at most."""
    start, stop = 0, size
    if path.endswith(_CHUNK):
        stop = max(0, size - 4 - len(ROWS))
        tail = file.pread(size - stop, stop)
        if not tail.endswith(ROWS):
            raise ValueError("it has no rows at its end")
        start = stop - struct.unpack("<I", tail[: -len(ROWS)])[0]
        if start < 0:
            raise ValueError("its rows are cut short")
    return start + len(_MAGIC) * (file.pread(len(_MAGIC), start) == _MAGIC), stop


def _message_at(file: OpenFile, at: int, size: int) -> _Message | None:
    """Return the message at an offset; None at the end of a file."""
    if at >= size:
        return None
    head = file.pread(_AT_ONCE, at)
    if len(head) < 8 or not head.startswith(_MARK):
        raise ValueError(f"it has no message at byte {at}")
    (length,) = struct.unpack_from("<i", head, 4)
    if length == 0:
        return None  # the mark of the end
    if not 0 < length <= min(_LARGEST, size - at - 8):
        raise ValueError(f"the message at byte {at} is cut short")
    if 8 + length > len(head):
        head = file.pread(8 + length, at)
    kind, rows, body = _header(head[8 : 8 + length])
    stop = at + 8 + length + body
    if body < 0 or rows < 0 or stop > size:
        raise ValueError(f"the message at byte {at} is cut short")
    return _Message(kind, at, stop, rows)


def _header(metadata: bytes) -> tuple[int, int, int]:
    """Return the type of a message, its number of rows, and the size of its body."""
    message = struct.unpack_from("<I", metadata)[0]
    kind = _field(metadata, message, 1, "<B")
    body = _field(metadata, message, 3, "<q")
    if kind != _BATCH:
        return kind, 0, body
    header = _place(metadata, message, 2)
    batch = header + struct.unpack_from("<I", metadata, header)[0]
    return kind, _field(metadata, batch, 0, "<q"), body


def _place(data: bytes, table: int, number: int) -> int:
    """Return where a field of a table of FlatBuffers is; 0 if the table does not have it."""
    entries = table - struct.unpack_from("<i", data, table)[0]
    if entries < 0 or 4 + 2 * number >= struct.unpack_from("<H", data, entries)[0]:
        return 0
    offset: int = struct.unpack_from("<H", data, entries + 4 + 2 * number)[0]
    return table + offset if offset else 0


def _field(data: bytes, table: int, number: int, layout: str) -> int:
    """Return a number of a table of FlatBuffers; 0 if the table does not have it."""
    place = _place(data, table, number)
    value: int = struct.unpack_from(layout, data, place)[0] if place else 0
    return value
