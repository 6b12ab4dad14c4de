"""MXNet's RecordIO: ``.rec`` with its ``.idx`` and ``.lst``.

The framing is dmlc-core's ``recordio.h``; the header of an image record is MXNet's ``IRHeader``
(``python/mxnet/recordio.py``). All integers are little-endian.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, Self

from dsprep.annotations import mxnet
from dsprep.annotations.objects import APART, Objects
from dsprep.errors import BadSample, LeftOut, Misfit, OptionError
from dsprep.formats.base import Entry, Format, Limits, Span, rounding_notes
from dsprep.formats.values import as_floats, fits_lst, format_lst
from dsprep.rows import Rows
from dsprep.sample import Floats, Sample, Value
from dsprep.schema import FACTS, IMAGE, IMAGE_ID, LABEL, LABEL_FLOATS, Meaning, Schema
from dsprep.units import format_count

if TYPE_CHECKING:
    import polars as pl

    from dsprep.formats.stream import ShardStream

MAGIC = b"\x0a\x23\xd7\xce"
LARGEST_CLASS = 1 << 24  # a 32-bit float holds every whole number up to here
MAX_RECORD = (1 << 29) - 1  # a record is shorter than 2^29 bytes, because its length has 29 bits

FRAME = struct.Struct("<4sI")
# In photographs, a pattern finds it in half of the time that `in` takes.
_find_magic = re.compile(re.escape(MAGIC)).search
PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")
_HEADER = struct.Struct("<IfQQ")
_NO_ID = bytes(8)
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_BEGIN, _CONTINUE = (_WHOLE, _FIRST), (_MIDDLE, _LAST)
_WHY_NOT_EMPTY = (
    "at which MXNet's ImageDetIter and ImageDetRecordIter stop: give --empty drop to leave these "
    "out, or --empty mark for an object of class -1, which ImageDetRecordIter alone reads"
)


class RecordIO(Format):
    """Records of a label and an image.

    If the schema has no label, each record says 0, because a record always has a label.
    """

    name: ClassVar[str] = "recordio"
    suffix: ClassVar[str] = ".rec"
    holds_texts: ClassVar[bool] = False
    holds_masks: ClassVar[bool] = False
    least: ClassVar[int] = 8  # magic number and length
    meanings: ClassVar[Mapping[str, Meaning]] = {
        "image": Meaning("image", "image", IMAGE),
        "label": Meaning("label", LABEL_FLOATS, LABEL),
        "header": Meaning(""),  # no field: what a header holds besides label and id
    }
    shard_indexes: ClassVar[tuple[str, ...]] = ("mxnet",)
    known_by: ClassVar[str] = "id"
    # The OpenCV 3.4 built into MXNet 1.9.1 decodes neither WebP nor GIF, and TIFF in some
    # compressions only.
    limits: ClassVar[Limits] = Limits(
        frozenset({"jpg", "png", "bmp"}), LARGEST_CLASS, float_bits=32, label_bits=32
    )
    # what becomes of images without objects: `drop`, `mark`, or empty to refuse them
    empty: str = field(default="", kw_only=True, metadata={"recorded": True})

    def placeholders(self, schema: Schema) -> frozenset[str]:
        is_told = schema.label is not None or schema.objects is not None
        return frozenset() if is_told else frozenset({"label"})

    @property
    def why_not_empty(self) -> str:
        return _WHY_NOT_EMPTY if self.written.objects is not None and not self.empty else ""

    def kept_parts(self) -> frozenset[str]:
        objects = self.written.objects
        return APART if objects and objects.flags else frozenset()

    def arranged(self, schema: Schema) -> tuple[Self, list[str]]:
        image, label = schema.image_field, schema.label_field
        if image is None:
            raise OptionError("format recordio: a record needs an image, and the samples have none")
        if label is not None and not label.kind.is_number:
            raise OptionError(
                f"format recordio: the label is {label.type}, and a record holds numbers: give "
                f"--label-type class, or --drop {label.name}"
            )
        objects = schema.objects
        if objects is not None and label is not None:
            raise OptionError(
                "format recordio: a record holds a label or objects, and the samples have both: "
                f"give --drop {label.name}, or --drop {objects.name}"
            )
        others = [each.name for each in schema.others if each is not objects]
        known = {*FACTS, *((IMAGE_ID, "source_id") if objects else ())}
        if refused := [name for name in others if name not in known]:
            role = ",label" if label else f",{objects.name}" if objects else ""
            raise OptionError(
                "format recordio: a record holds an image and its label, no other field: give "
                f"--drop {','.join(refused)}, or --only image{role}"
            )
        notes = []
        if others:
            notes.append(f"left out, because a record has no place for it: {', '.join(others)}")
        fields = [replace(image, places=(("image",),))]
        if label is not None:
            notes += rounding_notes([label], "a record")
            fields.append(replace(label, places=(("label",),)))
        if objects is not None:
            if objects.flags:
                notes.append("crowd, difficult and group-of are one sixth number of an object")
            fields.append(replace(objects, places=(("label",),)))
        return self.laid_out(schema, fields), notes

    @cached_property
    def _names(self) -> tuple[str, str | None, int]:
        """The names of the image and of the label, and how many numbers that has."""
        label = self.written.label_field
        if self.schema is None:
            return "image", "label", 0
        return self.schema.image or "image", self.schema.label, label.width if label else 0

    def encode(self, sample: Sample) -> list[bytes]:
        image, label, width = self._names
        path = sample.path or sample.key
        if not fits_lst(path):
            raise BadSample(
                "a .lst cannot hold a name with a tab, a line break or blanks at its ends"
            )
        data: bytes = sample.fields.get(image, b"")
        value = sample.fields.get(label) if label is not None else 0
        if self.schema is None:
            value = 0 if value is None else value
        elif self.schema.objects is not None:
            value = self.listed_label(sample)
        # MXNet takes a record that holds only labels for an index of others
        if not data and self.schema is not None:
            raise BadSample("has no image, and a record needs one")
        if value is None:
            raise BadSample("has no label, and a record needs one: give a label, or --drop label")
        if width and type(value) is tuple and len(value) != width and not mxnet.is_detection(value):
            raise Misfit(
                f"its label has {len(value)} numbers, and that of the first sample has {width}: "
                "MXNet's label_width is the same for all samples"
            )
        head = _header(value, sample.id)
        if "header" in sample.fields and self.schema is None:
            own = sample.fields["header"]
            # It differs from the one that is made in the second id, or in how it has one label.
            # Label and id may have changed since.
            head = own if _header(*_label_and_id(own)) == head else head
        size = len(head) + len(data)
        if size > MAX_RECORD:
            raise BadSample(f"{size} bytes, but a RecordIO record holds {MAX_RECORD}")
        if _find_magic(data) or MAGIC in head + data[:3]:
            return _split(head + data)
        return [FRAME.pack(MAGIC, size) + head, data, PADDING[size % 4]]

    def listed_label(self, sample: Sample) -> tuple[float, ...]:
        column = self.written.objects
        assert column is not None
        found = sample.fields.get(column.name) or Objects()
        if not found.items and self.empty == "drop":
            raise LeftOut("image left out: it has no objects")
        if not found.items and not self.empty:
            raise BadSample(f"has no objects, {_WHY_NOT_EMPTY}")
        return mxnet.write(found, column.flags, marks=True)

    def capacity(self, target: int) -> int:
        # Each magic in a payload makes a shard 4 bytes longer. In the bytes of compressed images it
        # stands once in 17 GB, so sixteen in a shard are made on purpose.
        return target - 16 * len(MAGIC)

    def weights(self, rows: pl.DataFrame) -> pl.Series:
        payload = rows["image"] + (FRAME.size + _HEADER.size)
        if "label" in rows.columns:
            count = rows["label"].list.len().cast(int).fill_null(0)
            payload += (count > 1).cast(int) * count * 4
        if "objects" in rows.columns:
            payload += (rows["objects"].clip(1) * 6 + 4) * 4
        return (payload + 3) // 4 * 4

    def caveats(self, rows: pl.LazyFrame) -> Iterator[str]:
        if "label" not in rows.collect_schema() or self.written.objects is not None:
            return
        label = rows.select("label").collect().to_series()
        count = label.list.len()
        header, width = label.list.get(0), label.list.get(1, null_on_oob=True)
        is_detection = (header >= 2) & (width >= 5) & ((count - header) % width == 0)
        without = int((is_detection & (count == header)).sum())
        if without and (is_detection & (count > header)).any():
            yield (
                f"{format_count(without, 'image')} without objects, at which MXNet's ImageDetIter "
                "and ImageDetRecordIter stop"
            )

    def read(self, stream: ShardStream) -> Iterator[Entry]:
        for _, offset in stream.records():
            payload = _read_rest(stream, *read_frame(stream, _BEGIN))
            label, id, start = _decode_header(payload, stream, offset)
            fields: dict[str, Value] = {}
            # files of InsightFace begin with a record that holds only labels
            if len(payload) > start:
                fields["image"] = payload[start:]
            fields["label"] = label
            # Nearly all headers are these two numbers and zeros.
            is_plain = start == _HEADER.size and payload[16:24] == _NO_ID and label[0] == label[0]
            if not is_plain and _header(label, id) != payload[:start]:
                fields["header"] = payload[:start]
            yield Entry(offset, stream.offset - offset, Sample(str(id), fields, id))

    def spans(self, stream: ShardStream) -> Iterator[Span]:
        for _, offset in stream.records():
            flag, length = read_frame(stream, _BEGIN)
            if flag != _WHOLE or length < _HEADER.size:
                payload = _read_rest(stream, flag, length)
                length = len(payload)
            else:
                payload = stream.read(_HEADER.size, "the header of an image")
                labels = min(4 * _HEADER.unpack(payload)[0], length - _HEADER.size)
                payload += stream.read(labels, "the labels of an image")
                stream.skip(length + -length % 4 - len(payload), "a record")
            label, id, start = _decode_header(payload, stream, offset)
            fields = ("image", "label") if length > start else ("label",)
            yield Span(offset, stream.offset - offset, str(id), id, label, fields)

    def sidecars(self, rows: Rows, sizes: Sequence[int]) -> dict[str, bytes]:
        # the index that MXIndexedRecordIO needs, and the list that im2rec would take
        offsets = accumulate(sizes, initial=0)
        idx = "".join(f"{id}\t{offset}\n" for id, offset in zip(rows.ids, offsets, strict=False))
        lst = format_lst(rows.ids, rows.labels, rows.paths)
        return {".idx": idx.encode(), ".lst": lst.encode()}


def _header(label: Value, id: int) -> bytes:
    """Return the header of a record and its labels: one in the header, or several after it."""
    try:
        if isinstance(label, int) and abs(label) <= LARGEST_CLASS:
            return _HEADER.pack(0, label, id, 0)
        values = label if isinstance(label, tuple) else (label,)
        values = values if isinstance(values, Floats) else as_floats(values, "the label")
        if len(values) == 1:
            return _HEADER.pack(0, values[0], id, 0)
        if not values:
            raise BadSample("has a label without numbers, and a record needs at least one")
        count = len(values)
        return _HEADER.pack(count, 0.0, id, 0) + struct.pack(f"<{count}f", *values)
    except struct.error:
        raise BadSample(f"the id {id} is not a number from 0 to 2^64-1") from None


def _label_and_id(payload: bytes) -> tuple[Floats, int]:
    flag, label, id, _ = _HEADER.unpack_from(payload)
    if not flag:
        return Floats((label,)), id
    return Floats(struct.unpack_from(f"<{flag}f", payload, _HEADER.size)), id


def _split(payload: bytes) -> list[bytes]:
    """Frame a payload that holds the magic: cut it at each magic at a multiple of 4."""
    parts = []
    start = 0
    at = payload.find(MAGIC)
    while at >= 0:
        if at % 4 == 0:
            parts.append(payload[start:at])
            start = at + 4
            at = payload.find(MAGIC, start)
        else:
            at = payload.find(MAGIC, at + 1)
    parts.append(payload[start:])
    flags = [_FIRST, *[_MIDDLE] * (len(parts) - 2), _LAST] if len(parts) > 1 else [_WHOLE]
    framed = []
    for flag, part in zip(flags, parts, strict=True):
        framed += [FRAME.pack(MAGIC, flag << 29 | len(part)), part, PADDING[len(part) % 4]]
    return framed


def read_frame(stream: ShardStream, flags: Container[int], problem: str = "") -> tuple[int, int]:
    """Read the head of a part of a record: its flag, which is one of some, and its length."""
    offset = stream.offset
    magic, word = FRAME.unpack(stream.read(FRAME.size, "the head of a record"))
    if magic != MAGIC:
        problem = "a record should begin here, but its magic number is not there"
        raise stream.damaged(problem, offset)
    if (flag := word >> 29) not in flags:
        problem = problem or f"a part with flag {flag} does not belong here"
        raise stream.damaged(problem, offset)
    return flag, word & MAX_RECORD


def _read_rest(stream: ShardStream, flag: int, length: int) -> bytes:
    """Read a record after its first head; its parts are joined by the magic that cut them."""
    parts = [stream.read(length + -length % 4, "a record")[:length]]
    total = length
    while flag not in (_WHOLE, _LAST):
        offset = stream.offset
        flag, length = read_frame(stream, _CONTINUE)
        total += length + len(MAGIC)
        if total > MAX_RECORD:
            raise stream.damaged("a record longer than RecordIO allows", offset)
        parts.append(stream.read(length + -length % 4, "a record")[:length])
    return MAGIC.join(parts)


def whole_records(stream: ShardStream) -> Iterator[tuple[int | None, list[bytes]]]:
    """Yield each record framed in one piece, and its offset if it lies there in parts.

    A reader that goes by the length gets the magic number in it; one that searches for it does not.
    """
    for _, offset in stream.records():
        flag, length = read_frame(stream, _BEGIN)
        payload = _read_rest(stream, flag, length)
        yield offset if flag else None, frame_whole(payload)


def frame_whole(payload: bytes) -> list[bytes]:
    """Frame a payload as one piece, whatever it holds."""
    return [FRAME.pack(MAGIC, len(payload)), payload, PADDING[len(payload) % 4]]


def _decode_header(payload: bytes, stream: ShardStream, offset: int) -> tuple[Floats, int, int]:
    """Return the label and the id that a record begins with, and where its image begins."""
    if len(payload) < _HEADER.size:
        raise stream.damaged("a record too short for the header of an image", offset)
    (flag,) = struct.unpack_from("<I", payload)
    start = _HEADER.size + 4 * flag
    if start > len(payload):
        raise stream.damaged(f"a record says it has {flag} labels, but ends before", offset)
    return *_label_and_id(payload), start
