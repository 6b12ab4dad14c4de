"""MDS, the format of MosaicML Streaming: ``.mds`` files, and an ``index.json`` that lists them.

A shard is as ``MDSWriter`` of MosaicML Streaming 0.13.0 writes it, numbers being little-endian::

    uint32 samples
    uint32 offset of each sample in the file, and of the end of the last one
    JSON   version, format, compression, hashes, size_limit; names, encodings and sizes of columns
    each sample: uint32 size of each value whose encoding has no size of its own; then the values

Columns are in the order of their names, and there is one for each field. All samples have all
columns. The key of a sample is in the column ``__key__``. Offsets count the bytes of the shard
before it is compressed, which ``StreamingDataset`` unpacks on the disk.
"""

from __future__ import annotations

import io
import json
import os
import struct
import sys
import zlib
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dsprep.annotations.objects import FLAGS, PARTS
from dsprep.errors import BadSample, DamagedShard, OptionError, RunStopped, SourceError
from dsprep.formats.base import ShardFacts, Span, claim, without_gaps
from dsprep.formats.listed_shards import INDEX
from dsprep.formats.mds_values import Coding, coding_of
from dsprep.formats.offset_table import OffsetTableFormat, read_offsets
from dsprep.formats.stream import ShardStream, require_zstd, zstd
from dsprep.formats.values import json_writer, key_in
from dsprep.sample import Sample, Value, image_kind_of, key_size_expr
from dsprep.schema import IMAGE, LABEL, Field, Meaning, Schema, Table
from dsprep.storage.local import OutputFile, open_regular
from dsprep.storage.stored import combine_all
from dsprep.units import quoted

if TYPE_CHECKING:
    import polars as pl

KEY = "__key__"  # the column of the key
_LARGEST = (1 << 32) - 1  # offsets and sizes have 32 bits
_LONGEST_HEAD = 1 << 24  # bytes of the JSON in a shard
_BLOCK = 1 << 20
_ENCODINGS = {
    "image": "jpeg",  # readers open both kinds of image alike
    "mask": "png",
    **dict.fromkeys(("class", "int"), "int"),
    "bool": "uint8",
    "float32": "float32",
    "float64": "float64",
    "text": "str",
    "json": "json",
    "bytes": "bytes",
    "list<int>": "ndarray:int64",
    "list<float32>": "ndarray:float32",
    "list<float64>": "ndarray:float64",
    **dict.fromkeys(("list<text>", "objects"), "json"),
}
"""The encoding of each type of fields; types that are missing here have none."""

_COMPRESSIONS: dict[str, tuple[str, str | None]] = {
    "": ("", None),
    "gzip": (".gz", "gz:6"),
    "zstd": (".zstd", "zstd"),
}
"""The end of the names of compressed shards, and what MDS calls the compression."""


class Mds(OffsetTableFormat):
    """Samples of columns, behind a table of their offsets."""

    name: ClassVar[str] = "mds"
    suffix: ClassVar[str] = ".mds"
    object_parts: ClassVar[frozenset[str]] = frozenset((*FLAGS, *PARTS))
    columns: str = ""  # names and encodings of the columns, as JSON
    compression: str = ""  # of whole shards: one of `_COMPRESSIONS`

    def __post_init__(self) -> None:
        if self.compression not in _COMPRESSIONS:
            raise OptionError(f"compression {self.compression!r:.20}: mds has gzip and zstd")

    def with_options(self, **options: Any) -> Self:
        told = options.get("compression")
        if told == "zstd":
            require_zstd("--compression zstd", OptionError)
        return super().with_options(**options | {"compression": "" if told == "none" else told})

    @property
    def file_suffix(self) -> str:
        return self.suffix + _COMPRESSIONS[self.compression][0]

    def like(self, other: Table) -> Self:
        return replace(self, columns=other.columns) if isinstance(other, Mds) else self

    @cached_property
    def codings(self) -> dict[str, Coding]:
        """How the values of each column are written and read."""
        try:
            columns = json.loads(self.columns or "[]")
            return {name: coding_of(encoding, name) for name, encoding in columns}
        except (ValueError, TypeError, RecursionError):
            raise SourceError(f"the columns {self.columns!r:.100} are not those of MDS") from None

    def without(self, raws: Collection[str]) -> Self:
        columns = dict(json.loads(self.columns or "[]"))
        gone = {*raws} - {KEY}
        kept = {name: encoding for name, encoding in columns.items() if name not in gone}
        return replace(self, columns=_told(kept))

    def meaning(self, place: str) -> Meaning:
        if place == KEY:
            return Meaning("")
        kind = self.codings[place].type if place in self.codings else None
        if place == LABEL:
            return Meaning(LABEL, "class" if kind == "int" else kind, LABEL)
        return Meaning(place, kind, IMAGE if place == IMAGE and kind == "image" else "")

    def arranged(self, schema: Schema) -> tuple[Self, list[str]]:
        used, fields, columns = {KEY: ""}, list[Field](), {KEY: "str"}
        for each in (*schema.fields, *_sizes_beside_objects(schema)):
            _require_held(each)
            role = {schema.image: IMAGE, schema.label: LABEL}.get(each.name, each.name)
            is_kept = each.given or schema.format == self.name or role in schema.by_name
            place = each.name if is_kept else role
            claim(used, place, each, "column")
            columns[place] = _ENCODINGS[each.type]
            fields.append(replace(each, places=((place,),)))
        notes = []
        if self.compressed:
            notes.append("--target-size is the size of shards before they are compressed")
        return replace(self, columns=_columns(columns)).laid_out(schema, fields), notes

    def of_images(self, kind: str) -> Self:
        image = self.written.image_field
        if image is None or kind != "png":
            return self
        columns = dict(json.loads(self.columns)) | {image.places[0][0]: kind}
        return replace(self, columns=_columns(columns))

    # Samples

    @cached_property
    def _writers(self) -> list[tuple[str, str, bool, Callable[[Value], bytes]]]:
        """Of each column the field, the name, whether values have sizes, and what writes them."""
        found = []
        for name, coding in self.codings.items():
            own, write = self.written.by_place.get((name,)), coding.encode
            if own is not None and own.type in ("list<text>", "objects"):
                write = partial(_encoded, json_writer(own.kind))
            elif own is not None and own.kind.is_list:
                write = partial(_array, own.name, coding.encode)
            found.append((name if own is None else own.name, name, coding.size is None, write))
        return found

    def encode(self, sample: Sample) -> list[bytes]:
        fields, values, sizes = sample.fields, list[bytes](), list[int]()
        for known, name, has_size, write in self._writers:
            value = _name_of(sample) if name == KEY else fields.get(known)
            if value is None:
                raise BadSample(f"lacks the field {known!r}, and mds has no missing values")
            try:
                data = write(value)
            except (struct.error, ValueError, TypeError, OverflowError) as error:
                raise BadSample(f"the field {known!r} cannot be a value of MDS: {error}") from None
            except BadSample as error:
                raise BadSample(f"the field {known!r} {error}") from None
            values.append(data)
            if has_size:
                sizes.append(len(data))
        if sum(sizes) > _LARGEST:
            raise BadSample(f"has {sum(sizes):,} bytes, and a shard of MDS fewer than 4 GiB")
        return [struct.pack(f"<{len(sizes)}I", *sizes), *values]

    def weights(self, rows: pl.DataFrame) -> pl.Series:
        import polars as pl

        total = rows.select(key_size_expr()).to_series() + rows["image"]
        for name, coding in self.codings.items():
            own = self.written.by_place.get((name,))
            total += 4 if coding.size is None else coding.size
            if own is None or own.name != self.written.label:
                continue
            if own.kind.is_list:
                count = rows["label"].list.len().cast(int)
                head = pl.when(pl.col("n") < 1 << 8).then(2).when(pl.col("n") < 1 << 16).then(3)
                total += count.to_frame("n").select(head.otherwise(5)).to_series()
                total += count * (own.kind.bits // 8)
            elif own.type == "text" and "class" in rows.columns:
                total += rows["class"].str.len_bytes().cast(int)
        if self.written.objects and "objects" in rows.columns:
            # a box has four numbers of at most 24 characters
            total += rows["texts"] + rows["objects"] * 128 + 32
        if "masks" in rows.columns:  # one with a palette becomes gray PNG, which may be larger
            total += rows["masks"] * 2 + 1024
        return total

    # Shards

    def head_size(self, samples: int) -> int:
        return 4 * (samples + 2) + len(self.head)

    @property
    def head(self) -> bytes:
        """What a shard says of its columns."""
        columns = json.loads(self.columns or "[]")
        values = {
            "version": 2,
            "format": self.name,
            "compression": _COMPRESSIONS[self.compression][1],
            "hashes": [],
            "size_limit": None,
            "column_names": [name for name, _ in columns],
            "column_encodings": [encoding for _, encoding in columns],
            "column_sizes": [coding.size for coding in self.codings.values()],
        }
        return json.dumps(values, sort_keys=True).encode()

    def capacity(self, target: int) -> int:
        if target > _LARGEST:
            raise OptionError(
                f"--target-size {target}: a shard of MDS has fewer than 4 GiB; give a smaller one"
            )
        return target - self.head_size(0)

    def open_writer(self, path: str, tree: str, samples: int) -> MdsWriter:
        return MdsWriter(self, path, samples)

    def told_by(self, files: Sequence[str]) -> Self:
        """Return the format with the columns that the first whole shard tells."""
        problem: DamagedShard | None = None
        for path in files:
            try:
                with ShardStream(path, headers=True) as stream:
                    columns = _read_head(stream)[1]
                _require_known(path, dict(json.loads(columns)))
                return replace(self, columns=columns)
            except DamagedShard as error:
                problem = problem or error
        raise SourceError(str(problem))

    def spans(self, stream: ShardStream) -> Iterator[Span]:
        layout, samples = self.open_table(stream)
        names, key = [*layout.codings], ""
        fields = tuple(name for name in names if name != KEY)
        for number, (start, stop) in enumerate(samples):
            if KEY in names:
                sizes, at = layout._read_sizes(stream), names.index(KEY)
                if start + sum(sizes) > stop:
                    raise stream.damaged("a value leads out of its sample", start)
                stream.skip(sum(sizes[:at]), "a value")
                key = key_in(_text(stream.read(sizes[at], "a key")))
            stream.skip(stop - stream.offset, "a sample")
            yield Span(start, stop - start, key, number, fields=fields)

    def is_intact(self, encoded: bytes) -> bool | None:
        stream = ShardStream("", io.BytesIO(encoded), start=0)
        try:
            return sum(self._read_sizes(stream)) == len(encoded) - stream.offset
        except DamagedShard:
            return False

    def dataset_index(self, name: str, shards: Sequence[ShardFacts]) -> dict[str, bytes]:
        config = json.loads(self.head)
        entries = [
            config
            | {
                "samples": each.samples,
                "raw_data": {
                    "basename": each.name.removesuffix(self.file_suffix) + self.suffix,
                    "bytes": each.raw or each.bytes,
                    "hashes": {},
                },
                "zip_data": {"basename": each.name, "bytes": each.bytes, "hashes": {}}
                if self.compressed
                else None,
            }
            for each in shards
        ]
        index = {"version": 2, "shards": entries}
        return {INDEX: json.dumps(index, sort_keys=True).encode()}

    def open_table(self, stream: ShardStream) -> tuple[Self, Iterator[tuple[int, int]]]:
        offsets, columns = _read_head(stream)
        if self.columns and self.columns != columns:
            raise stream.damaged("its columns are others than those of the first shard", 0)
        return replace(self, columns=columns), pairwise(offsets)

    def _read_sizes(self, stream: ShardStream) -> list[int]:
        """Read the sizes of the values of a sample."""
        codings = self.codings.values()
        head = struct.Struct(f"<{sum(each.size is None for each in codings)}I")
        told = iter(head.unpack(stream.read(head.size, "the sizes of values")))
        return [next(told) if each.size is None else each.size for each in codings]

    def read_sample(self, stream: ShardStream, number: int) -> Sample:
        offset, sizes = stream.offset, self._read_sizes(stream)
        sample, at = Sample("", {}, number), 0
        body = stream.read(sum(sizes), "the values of a sample")
        for (name, coding), size in zip(self.codings.items(), sizes, strict=True):
            data = body[at : at + size]
            at += size
            if name == KEY:
                told = _text(data)
                sample.key = key_in(told)
                if told != sample.key:
                    sample.fields[KEY] = told
                    sample.path = told if image_kind_of(told) else ""
                continue
            try:
                sample.fields[name] = coding.decode(data)
            except (struct.error, ValueError, OverflowError, MemoryError) as error:
                raise stream.damaged(f"the column {name!r}: {error}", offset) from None
        return sample


def _sizes_beside_objects(schema: Schema) -> Iterator[Field]:
    """Yield the fields of the size of the image that objects are in, if it is not told."""
    told = {each.tells for each in schema.fields} | schema.by_name.keys()
    for name in ("width", "height") if schema.objects else ():
        if name not in told:
            yield Field(name, "int")


def _require_held(each: Field) -> None:
    """Refuse a field that no column holds."""
    if each.missing:
        raise OptionError(
            f"mds has a value in each column, and samples may lack {quoted(each.name)}: "
            f"{without_gaps([each.name])}"
        )
    if each.type not in _ENCODINGS:
        raise OptionError(
            f"mds holds no {each.type}, which the field {quoted(each.name)} is: give --drop "
            f"{each.name}"
        )


def _encoded(write: Callable[[Value], str], value: Value) -> bytes:
    return write(value).encode()


def _array(name: str, encode: Callable[[Value], bytes], value: Value) -> bytes:
    if not value:
        raise BadSample(f"is an empty list, which no array of MDS is: give --cast {name}=json")
    return encode(value)


def _columns(columns: Mapping[str, str]) -> str:
    return _told(dict(sorted(columns.items())))


def _told(columns: Mapping[str, str]) -> str:
    """Return columns as `Mds.columns` has them, in the order of a shard."""
    return json.dumps([*columns.items()], ensure_ascii=False, separators=(",", ":"))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _name_of(sample: Sample) -> str:
    """Return what stands for the key of a sample: what stood there, if that still tells it."""
    own: str | None = sample.fields.get(KEY)
    return sample.key if own is None or key_in(own) != sample.key else own


def _read_head(stream: ShardStream) -> tuple[array[int], str]:
    """Read the head of a shard: where samples begin, and the columns as `Mds.columns` has them."""
    first = stream.read(8, "the head")
    count, start = struct.unpack("<II", first)
    length = start - 8 - 4 * count
    if not 2 <= length <= _LONGEST_HEAD:
        raise stream.damaged("the first bytes are not those of a shard of MDS", 0)
    offsets = read_offsets(stream, first[4:], count)
    told = stream.read(length, "the description of columns")
    try:
        values = json.loads(told)
        names, encodings = values["column_names"], values["column_encodings"]
        columns = dict(zip(names, encodings, strict=True))
        if not all(type(each) is str for each in (*columns, *encodings)):
            raise ValueError("its columns have no names")
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise stream.damaged(
            f"the head does not describe columns: {error}", 8 + 4 * count
        ) from None
    return offsets, _told(columns)


def _require_known(path: str, columns: Mapping[str, str]) -> None:
    for name, encoding in columns.items():
        if encoding == "pkl":
            raise SourceError(
                f"{path}: the column {name!r} is pickled, and reading it would run code that the "
                "file holds; write the column with another encoding, such as json or ndarray"
            )
        try:
            coding_of(encoding)
        except ValueError as error:
            raise SourceError(f"{path}: the column {name!r}: {error}") from None


class MdsWriter:
    """Writes samples behind room for the table of their offsets, which comes last."""

    def __init__(self, layout: Mds, path: str, samples: int) -> None:
        """Begin a shard, given the number of its samples; rejects make it smaller."""
        self._layout, self._path, self._room = layout, path, layout.head_size(samples)
        self._raw = f"{path}.raw" if layout.compressed else path
        OutputFile(self._raw).close()  # another run may have left a longer one
        self._body = OutputFile(self._raw, self._room)
        self._sizes, self._parts, self._pending = array("I"), list[bytes](), 0
        self.bytes = self.crc32c = self.raw = 0

    def add(self, sample: Sample | bytes) -> int:
        parts = [sample] if isinstance(sample, bytes) else self._layout.encode(sample)
        size = sum(map(len, parts))
        self._sizes.append(size)
        self._parts += parts
        self._pending += size
        if self._room + self._body.bytes + self._pending > _LARGEST:
            raise RunStopped(
                f"{os.path.basename(self._path)}: would have 4 GiB or more, and MDS has offsets of "
                "32 bits: give --target-size, such as 64MB"
            )
        if self._pending >= _BLOCK:
            self._flush()
        return size

    def _flush(self) -> None:
        parts, size = self._parts, self._pending
        self._parts, self._pending = [], 0
        self._body.write_parts(parts, size)

    def finish(self) -> None:
        self._flush()
        self._body.close()
        start = self._layout.head_size(len(self._sizes))
        if start < self._room:
            _move(self._raw, self._room, start, self._body.bytes)
        offsets = array("I", [start])
        for size in self._sizes:
            offsets.append(offsets[-1] + size)
        if sys.byteorder == "big":
            offsets.byteswap()
        head = OutputFile(self._raw, 0)
        head.write(struct.pack("<I", len(self._sizes)) + offsets.tobytes() + self._layout.head)
        head.close()
        parts = ((head.crc32c, head.bytes), (self._body.crc32c, self._body.bytes))
        self.bytes, self.crc32c = head.bytes + self._body.bytes, combine_all(parts)
        if self._layout.compressed:
            self.raw = self.bytes
            self._compress()

    def _compress(self) -> None:
        """Write the compressed shard, and remove the other."""
        if self._layout.compression == "zstd":
            packer = zstd().ZstdCompressor(level=3).compressobj(size=self.raw)
        else:  # wbits=31 is gzip with no time and no name in its header
            packer = zlib.compressobj(6, zlib.DEFLATED, 31)
        packed = OutputFile(self._path)
        with open(self._raw, "rb", buffering=0, opener=open_regular) as raw:
            while data := raw.read(_BLOCK):
                packed.write(packer.compress(data))
        packed.write(packer.flush())
        packed.close()
        os.unlink(self._raw)
        self.bytes, self.crc32c = packed.bytes, packed.crc32c

    def close(self) -> None:
        self._body.close()


def _move(path: str, source: int, target: int, size: int) -> None:
    """Move the last bytes of a file forward, and cut it after them."""
    fd = open_regular(path, os.O_RDWR)
    try:
        for at in range(0, size, _BLOCK):
            data = os.pread(fd, min(_BLOCK, size - at), source + at)
            while data:
                written = os.pwrite(fd, data, target + at)
                data, at = data[written:], at + written
        os.ftruncate(fd, target + size)
    finally:
        os.close(fd)
