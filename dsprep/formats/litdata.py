"""litdata, what ``litdata.optimize`` writes: ``.bin`` chunks, and an ``index.json`` beside them.

A chunk is as ``streaming/writer.py`` of litdata 0.2.76 writes it, numbers being little-endian::

    uint32 samples
    uint32 offset of each sample in the file, and of the end of the last one
    each sample: uint32 size of each value, and the values

The index names the serializers of the values (``data_format``) and the tree that each sample is
(``data_spec``). zstd compresses whole chunks (``compression_level`` absent or ``chunk``), some
samples at a time (``batch``: see `stream._FramesDecompressor`) or each sample (``sample``). What
older versions append, rows of Arrow that end in ``LDARW01``, follows the last sample.

Samples without media are such rows alone (`listed_shards.ShardIndex` has the format ``arrow``), and
are read as those of files of Arrow. dsprep writes no litdata: its index holds the time of day.
"""

from __future__ import annotations

import io
import json
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Self

from dsprep.errors import SourceError
from dsprep.formats.base import Span
from dsprep.formats.listed_shards import INDEX, ROWS, read_index
from dsprep.formats.litdata_values import Decoding, TreeColumn, columns_of, decoding_of
from dsprep.formats.offset_table import OffsetTableFormat, read_offsets
from dsprep.formats.stream import ShardStream, is_bomb, require_zstd, zstd
from dsprep.sample import Sample
from dsprep.schema import IMAGE, LABEL, Meaning, Schema
from dsprep.units import quoted

if TYPE_CHECKING:
    import polars as pl

_PIECE = 1 << 12  # compressed bytes at once: few enough that what they become fits into memory


class LitData(OffsetTableFormat):
    """Samples that are trees of values, behind a table of their offsets."""

    name: ClassVar[str] = "litdata"
    suffix: ClassVar[str] = ".bin"
    columns: str = ""  # the columns as JSON: lists of the items of `litdata_values.TreeColumn`
    packed: bool = False  # whether each sample is a frame of zstd

    @cached_property
    def _columns(self) -> dict[str, tuple[int | None, Decoding]]:
        """Of each column the number of its leaves, and how they are read."""
        try:
            columns = [TreeColumn(*each) for each in json.loads(self.columns or "[]")]
            return {each.name: (each.leaves, decoding_of(each.serializer)) for each in columns}
        except (ValueError, TypeError, RecursionError):
            shown = quoted(self.columns)
            raise SourceError(f"the columns {shown} are not those of litdata") from None

    @cached_property
    def _sizes(self) -> struct.Struct:
        """The sizes of the values of a sample."""
        return struct.Struct(f"<{sum(leaves or 1 for leaves, _ in self._columns.values())}I")

    def meaning(self, place: str) -> Meaning:
        if place not in self._columns:
            return Meaning(place)
        leaves, decoding = self._columns[place]
        kind = decoding.type if leaves is None else f"list<{decoding.type}>"
        if place == LABEL:
            return Meaning(LABEL, "class" if kind == "int" else kind, LABEL)
        return Meaning(place, kind, IMAGE if place == IMAGE and kind == "image" else "")

    # No run asks for these: it is not among the formats that are written.

    def arranged(self, schema: Schema) -> tuple[Self, list[str]]:
        raise NotImplementedError

    def weights(self, rows: pl.DataFrame) -> pl.Series:
        raise NotImplementedError

    def told_by(self, files: Sequence[str]) -> Self:
        """Return the format with the columns that the index beside chunks tells."""
        path = os.path.join(os.path.dirname(files[0]), INDEX)
        indexed = read_index(os.path.dirname(files[0]))
        if indexed is None:
            raise SourceError(
                f"{files[0]}: no {INDEX} of litdata lies beside it, which tells what it holds"
            )
        if indexed.format != self.name:
            raise SourceError(f"{path}: its shards are read with --from {indexed.format}")
        config = indexed.config
        try:
            columns = columns_of(config.get("data_spec"), list(config["data_format"]))
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise SourceError(f"{path}: is not an index of litdata: {error!s:.200}") from None
        for column in columns:
            try:
                decoding_of(column.serializer)
            except ValueError as error:
                raise SourceError(f"{path}: the value {column.name!r:.100} {error}") from None
        return replace(
            self,
            columns=json.dumps(columns, ensure_ascii=False),
            packed=config.get("compression_level") == "sample",
        )

    def open_table(self, stream: ShardStream) -> tuple[Self, Iterator[tuple[int, int]]]:
        first = stream.read(8, "the head")
        count, start = struct.unpack("<II", first)
        if start != 4 * (count + 2):
            raise stream.damaged("the first bytes are not those of a chunk of litdata", 0)
        offsets = read_offsets(stream, first[4:], count)
        if count and offsets[-1] == start:
            raise stream.damaged("it holds rows of Arrow, which the first chunk does not", 0)
        return self, pairwise(offsets)

    def spans(self, stream: ShardStream) -> Iterator[Span]:
        names = tuple(self._columns)
        _, samples = self.open_table(stream)
        for number, (start, stop) in enumerate(samples):
            stream.skip(stop - stream.offset, "a sample")
            yield Span(start, stop - start, "", number, fields=names)

    def read_sample(self, stream: ShardStream, number: int) -> Sample:
        offset = stream.offset
        if self.packed:
            stream = ShardStream(stream.path, io.BytesIO(_read_frame(stream)), start=offset)
        sizes = self._sizes.unpack(stream.read(self._sizes.size, "the sizes of values"))
        data = io.BytesIO(stream.read(sum(sizes), "the values of a sample"))
        if self.packed and not stream.at_end():
            raise stream.damaged("bytes follow the values of a sample")
        sample, left = Sample("", {}, number), iter(sizes)
        for name, (leaves, decoding) in self._columns.items():
            try:
                values = [decoding.decode(data.read(next(left))) for _ in range(leaves or 1)]
            except (struct.error, ValueError, RecursionError, MemoryError) as error:
                raise stream.damaged(f"the value {name!r:.100}: {error}", offset) from None
            sample.fields[name] = values[0] if leaves is None else tuple(values)
        return sample

    def read_end(self, stream: ShardStream) -> None:
        tail = b""
        for block in stream.blocks():
            tail = (tail + block)[-len(ROWS) :]
        if tail and tail != ROWS:
            raise stream.damaged("bytes follow the last sample")


def _read_frame(stream: ShardStream) -> bytes:
    """Read a frame of zstd, which tells itself where it ends."""
    require_zstd(stream.path)
    start, frame = stream.offset, zstd().ZstdDecompressor().decompressobj()
    parts, size = list[bytes](), 0
    while not frame.eof:
        piece = stream.peek(_PIECE)[:_PIECE]
        if not piece:
            raise stream.damaged("a frame of zstd is cut short", start)
        try:
            parts.append(frame.decompress(piece))
        except zstd().ZstdError as error:
            raise stream.damaged(f"bad zstd data ({error})", start) from None
        stream.skip(len(piece) - len(frame.unused_data), "a sample")
        size += len(parts[-1])
        if is_bomb(size, stream.offset - start):
            raise stream.damaged("a sample is a bomb", start)
    return b"".join(parts)
