"""Data sets with fields of every type, and samples as text that can be compared."""

from __future__ import annotations

from dsprep.formats.recordio import MAGIC
from dsprep.sample import Sample
from dsprep.schema import Field, Schema

JPEG = b"\xff\xd8\xff\xe0\0\x10JFIF"
_BOXES = (2.0, 5.0, 1.0, 0.0, 0.25, 0.5, 0.75)
_IMAGE = Field("image", "image")


def _set(label: str | None, *others: Field, names: tuple[str, ...] = ()) -> Schema:
    """The schema of a data set with a label of a type."""
    labels = (Field("label", label, names=names),) if label else ()
    return Schema((_IMAGE, *labels, *others), "image", "label" if label else None)


DATA_SETS: tuple[tuple[Schema, tuple[Sample, ...]], ...] = (
    (
        _set("class", names=("cat", "dog")),
        (
            Sample("cat/0", {"image": JPEG, "label": 0}, 0, "cat/0.jpg", "image"),
            Sample("d" * 120, {"image": MAGIC, "label": 1}, 1, "", "image"),
        ),
    ),
    (
        _set("list<float32>"),
        (
            Sample("1", {"image": b"\x89PNG\r\n\x1a\n", "label": (0.5, -1.0)}, 1, "", "image"),
            Sample("2", {"image": JPEG, "label": _BOXES}, 2, "", "image"),
        ),
    ),
    (
        _set(
            "class",
            Field("caption", "text", missing=True),
            Field("mask", "image"),
            Field("a", "list<int>"),
            Field("b", "list<float32>"),
            Field("c", "list<text>"),
            Field("d", "json"),
            Field("e", "bytes"),
            Field("f", "bool"),
            Field("width", "int"),
        ),
        (
            Sample(
                "é",
                {
                    "image": JPEG,
                    "label": -1,
                    "caption": "text",
                    "mask": JPEG,
                    "a": (1, -2),
                    "b": (0.5, 1e10),
                    "c": ("a", ""),
                    "d": b"{}",
                    "e": b"\xff",
                    "f": True,
                    "width": 3,
                },
                4,
                "é.jpg",
                "image",
            ),
        ),
    ),
    (_set(None), (Sample("6", {"image": JPEG}, 6, "", "image"),)),
)


def told(sample: Sample) -> tuple[str, dict[str, str]]:
    """The key and the fields as text, so that NaN is NaN and 0.0 is not -0.0."""
    fields = sorted(sample.fields.items())
    return sample.key, {name: f"{type(value).__name__} {value!r}" for name, value in fields}
