"""MXNet's RecordIO: ``.rec`` with its ``.idx`` and ``.lst``.

The framing is dmlc-core's ``recordio.h``; the header of an image record is MXNet's ``IRHeader``
(``python/mxnet/recordio.py``). All integers are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from math import isnan, nan
from typing import TYPE_CHECKING, ClassVar

from dsprep.errors import BadSample
from dsprep.formats.base import Entry, Format, Span
from dsprep.formats.floats import IDS, require_exact
from dsprep.images.header import sniff
from dsprep.lst import fits_lst, format_lst
from dsprep.rows import Rows
from dsprep.sample import IMAGE_KINDS, UNKNOWN_IMAGE, Sample, Value, is_label

if TYPE_CHECKING:
    import polars as pl

    from dsprep.formats.stream import ShardStream

MAGIC = b"\x0a\x23\xd7\xce"
MAX_RECORD = (1 << 29) - 1
"""A record is shorter than 2^29 bytes, because its length has 29 bits."""

_HELD = frozenset({"cls", "label", "class", "filename", "id", "irheader"})
_IMAGES = IMAGE_KINDS | {UNKNOWN_IMAGE}
_LABELS = frozenset({"cls", "label", "irheader"})

_FRAME = struct.Struct("<4sI")
_HEADER = struct.Struct("<IfQQ")
_FLOAT = struct.Struct("<f")
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")


@dataclass(frozen=True)
class RecordIO(Format):
    """Records of a label and an image.

    Attributes:
        labels: Whether the samples have labels. If not, each record says 0, as a record has no way
            to say that there is none, and that is read as no label.
    """

    labels: bool = True

    name: ClassVar[str] = "recordio"
    suffix: ClassVar[str] = ".rec"
    has_sidecars: ClassVar[bool] = True
    known_by: ClassVar[str] = "id"
    needs_labels: ClassVar[bool] = True
    needs_objects: ClassVar[bool] = True
    readable_images: ClassVar[frozenset[str]] = frozenset({"jpg", "png", "bmp"})
    """What the OpenCV 3.4 built into MXNet 1.9.1 decodes: neither WebP nor GIF, which it does not
    know, nor TIFF, which it knows in some compressions only."""
    max_class: ClassVar[int] = 1 << 24
    """Labels are 32-bit floats: they hold every whole number up to here, not every one above."""

    def with_labels(self, labeled: bool) -> RecordIO:
        """Records with labels, or with placeholders."""
        return replace(self, labels=labeled)

    @property
    def wants(self) -> frozenset[str]:
        """The file name, which stands in the ``.lst``."""
        return frozenset({"filename"})

    def encode(self, sample: Sample) -> list[bytes]:
        """Lay one sample out."""
        path = sample.fields.get("filename")
        if untold := _untold(tuple(sample.fields)):
            raise BadSample(f"a record cannot hold its field {untold[0]!r} as well")
        if isinstance(path, str) and not fits_lst(path):
            raise BadSample(
                "a .lst cannot hold a name with a tab, a line break or blanks at its ends"
            )
        if self.labels and not _LABELS & sample.fields.keys():
            raise BadSample(
                "has no label, and a record needs one; the manifest of files that dsprep writes "
                "can say that there is none, a stream cannot"
            )
        head = _header(sample)
        image = sample.image()
        data = image[1] if image else b""
        size = len(head) + len(data)
        if size > MAX_RECORD:
            raise BadSample(f"{size} bytes, but a RecordIO record holds {MAX_RECORD}")
        if MAGIC in data or MAGIC in head + data[:3]:
            return _split(head + data)
        return [_FRAME.pack(MAGIC, size) + head, data, _PADDING[size % 4]]

    def unheld(self, fields: Mapping[str, type]) -> list[str]:
        """All but one image, its label, its id, its names, and the header of a record."""
        return [name for name in fields if name not in _HELD and name not in _IMAGES]

    def capacity(self, target: int) -> int:
        """All but room for sixteen magics in the payloads, which make a shard 4 bytes longer each.

        In the bytes of compressed images the magic stands once in 17 GB, so sixteen in a shard are
        made on purpose.
        """
        return target - 16 * len(MAGIC)

    def weights(self, rows: pl.DataFrame) -> pl.Series:
        """Frame, header, labels and image, padded to 4; a magic in the payload adds 4 bytes."""
        payload = rows["image"] + (_FRAME.size + _HEADER.size)
        if "label" in rows.columns:
            count = rows["label"].list.len().cast(int)
            payload += (count > 1).cast(int) * count * 4
        return (payload + 3) // 4 * 4

    def read(self, stream: ShardStream) -> Iterator[Entry]:
        """Read the records; one whose payload is not an image record is damage, too."""
        while not stream.at_end():
            offset = stream.offset
            payload = _read_record(stream)
            sample = _decode(payload, stream, offset, self.labels)
            yield Entry(offset, stream.offset - offset, sample)

    def spans(self, stream: ShardStream) -> Iterator[Span]:
        """Find the records by their frames, and read the headers of the images."""
        while not stream.at_end():
            offset = stream.offset
            flag, length = _read_frame(stream, inside=False)
            if flag != _WHOLE or length < _HEADER.size:
                payload = _read_rest(stream, flag, length)
            else:
                payload = stream.read(_HEADER.size, "the header of an image")
                labels = min(4 * _HEADER.unpack(payload)[0], length - _HEADER.size)
                payload += stream.read(labels, "the labels of an image")
                stream.skip(length + -length % 4 - len(payload), "a record")
            sample = _decode(payload, stream, offset, self.labels)
            size = stream.offset - offset
            yield Span(offset, size, sample.key, sample.id, sample.label())

    def sidecars(self, rows: Rows, sizes: Sequence[int]) -> dict[str, bytes]:
        """The ``.idx`` that MXIndexedRecordIO needs, and the ``.lst`` that im2rec would take."""
        offsets = accumulate(sizes, initial=0)
        idx = "".join(f"{id}\t{offset}\n" for id, offset in zip(rows.ids, offsets, strict=False))
        return {
            ".idx": idx.encode(),
            ".lst": format_lst(rows.ids, rows.labels, rows.paths).encode(),
        }


@lru_cache(maxsize=4096)
def _untold(names: tuple[str, ...]) -> list[str]:
    """Which fields of a sample would not be in its record."""
    images = [name for name in names if name in _IMAGES]
    labels = [name for name in names if name in ("cls", "label")]
    return [*images[1:], *labels[1:], *(name for name in names if name not in _HELD | _IMAGES)]


def _header(sample: Sample) -> bytes:
    fields, id = sample.fields, sample.id
    if "irheader" in fields:
        return _checked_header(fields["irheader"])
    if "id" in fields:
        id = _checked_id(fields["id"])
    label = fields.get("cls", fields.get("label", 0))
    if isinstance(label, int) and (abs(label) <= RecordIO.max_class or _is_float32(label)):
        return _HEADER.pack(0, label, id, 0)
    if not is_label(label):
        raise BadSample(f"the label {label!r} is not a number that 32-bit floats hold")
    try:
        require_exact(label)
        if len(label) == 1:
            return _HEADER.pack(0, label[0], id, 0)
        count = len(label)
        return _HEADER.pack(count, 0.0, id, 0) + struct.pack(f"<{count}f", *label)
    except OverflowError:
        raise BadSample(f"a label of {label!r} is beyond 32-bit floats") from None


def _is_float32(number: int) -> bool:
    """Whether a whole number is one of those that 32-bit floats hold."""
    try:
        return bool(_FLOAT.unpack(_FLOAT.pack(number))[0] == number)
    except OverflowError:
        return False


def _checked_id(id: Value) -> int:
    if not isinstance(id, int) or id not in IDS:
        raise BadSample(f"the id {id!r} is not a number from 0 to 2^64-1")
    return id


def _checked_header(head: Value) -> bytes:
    """The header and labels of a record, as they were in another.

    Raises:
        BadSample: If they are not.
    """
    if isinstance(head, bytes) and len(head) >= _HEADER.size:
        labels = _HEADER.unpack_from(head)[0]
        if len(head) == _HEADER.size + 4 * labels:
            return head
    raise BadSample("the field 'irheader' is not the header of a record")


def _is_made_again(head: bytes, sample: Sample) -> bool:
    """Whether a sample's fields tell all of the header that it was read with."""
    try:
        return _header(sample) == head
    except BadSample:
        return False


def _split(payload: bytes) -> list[bytes]:
    """Frame a payload that holds the magic: it is cut there, where it stands at a multiple of 4."""
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
    last = len(parts) - 1
    framed = []
    for number, part in enumerate(parts):
        flag = (
            _WHOLE if last == 0 else _FIRST if number == 0 else _LAST if number == last else _MIDDLE
        )
        framed += [_FRAME.pack(MAGIC, flag << 29 | len(part)), part, _PADDING[len(part) % 4]]
    return framed


def _read_record(stream: ShardStream) -> bytes:
    """Read one record, its parts joined by the magic that cut them."""
    return _read_rest(stream, *_read_frame(stream, inside=False))


def _read_frame(stream: ShardStream, inside: bool) -> tuple[int, int]:
    """Read the flag and the length of a part, which is the first of a record or inside one."""
    offset = stream.offset
    magic, word = _FRAME.unpack(stream.read(_FRAME.size, "the head of a record"))
    flag, length = word >> 29, word & MAX_RECORD
    if magic != MAGIC:
        raise stream.damaged(
            "a record should begin here, but its magic number is not there", offset
        )
    if flag > _LAST or (flag in (_MIDDLE, _LAST)) != inside:
        raise stream.damaged(f"a part with flag {flag} does not belong here", offset)
    return flag, length


def _read_rest(stream: ShardStream, flag: int, length: int) -> bytes:
    """Read a record of which the first frame has been read."""
    parts = [stream.read(length + -length % 4, "a record")[:length]]
    total = length
    while flag not in (_WHOLE, _LAST):
        offset = stream.offset
        flag, length = _read_frame(stream, inside=True)
        total += length + len(MAGIC)
        if total > MAX_RECORD:
            raise stream.damaged("a record longer than RecordIO allows", offset)
        parts.append(stream.read(length + -length % 4, "a record")[:length])
    return MAGIC.join(parts)


def _decode(payload: bytes, stream: ShardStream, offset: int, labels: bool) -> Sample:
    if len(payload) < _HEADER.size:
        raise stream.damaged("a record too short for the header of an image", offset)
    flag, label, index, _ = _HEADER.unpack_from(payload)
    start = _HEADER.size + 4 * flag
    if start > len(payload):
        raise stream.damaged(f"a record says it has {flag} labels, but ends before", offset)
    fields: dict[str, Value] = {}
    data = payload[start:]
    if data:  # InsightFace's files begin with a record that is labels only
        fields[sniff(data) or UNKNOWN_IMAGE] = data
    if flag:
        fields["label"] = struct.unpack_from(f"<{flag}f", payload, _HEADER.size)
    elif label == 0 and not labels:
        pass  # it is a placeholder
    elif label.is_integer() and abs(label) <= RecordIO.max_class:
        fields["cls"] = int(label)
    else:
        fields["label"] = (label,)
    sample = Sample(str(index), fields, index)
    values = fields.get("label")
    if is_label(values) and any(map(isnan, values)):
        # Of the many bit patterns that are no number, texts know one.
        fields["label"] = tuple(nan if isnan(each) else each for each in values)
        fields["irheader"] = payload[:start]
    elif not _is_made_again(payload[:start], sample):
        fields["irheader"] = payload[:start]
    return sample
