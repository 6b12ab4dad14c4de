"""Samples with every kind of field, and samples as text that can be compared."""

from __future__ import annotations

from dsprep.formats.recordio import MAGIC
from dsprep.sample import Blobs, Floats, Ints, Sample

JPEG = b"\xff\xd8\xff\xe0\0\x10JFIF"
_BOXES = (2.0, 5.0, 1.0, 0.0, 0.25, 0.5, 0.75)

SAMPLES = (
    Sample("cat/0", {"jpg": JPEG, "cls": 3}, 0),
    Sample("cat/1", {"png": b"\x89PNG\r\n\x1a\n", "label": (0.5, -1.0), "id": 7}, 1),
    Sample("2", {"bin": b"", "label": _BOXES}, 2),
    Sample("d" * 120, {"jpg": JPEG, "class": "cat", "filename": "a.jpg", "width": 3}, 3),
    Sample("é", {"txt": b"text", "image/object/mask": b"\0", "cls": -1}, 4),
    Sample("5", {"a": Ints((1, -2)), "b": Floats((0.5, 1e10)), "c": Blobs((b"\xff", b"a"))}, 5),
    Sample("6", {"jpg": MAGIC, "label": (0.25,), "filename": "6.jpg"}, 6),
)


def told(sample: Sample) -> tuple[str, dict[str, str]]:
    """The key and the fields as text, so that NaN is NaN and 0.0 is not -0.0.

    A list of one byte string is that byte string: TFRecord and RecordIO-protobuf have no other.
    """
    fields = {}
    for name, value in sorted(sample.fields.items()):
        plain = value[0] if isinstance(value, Blobs) and len(value) == 1 else value
        fields[name] = f"{type(plain).__name__} {plain!r}"
    return sample.key, fields
