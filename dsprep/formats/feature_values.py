"""Features of an Example that hold one value each, and whether two labels are the same."""

from __future__ import annotations

from dsprep.formats.example import BytesList, Feature, Int64List
from dsprep.formats.features import FORMAT_NAMES


def is_same(one: object, other: object) -> bool:
    """Whether two labels are bit for bit the same."""
    return repr(one) == repr(other)


def format_feature(kind: str) -> Feature:
    """The feature that tells the kind of an image."""
    return text_feature(FORMAT_NAMES.get(kind, ""))


def text_feature(text: str) -> Feature:
    """A feature that holds a text."""
    return BytesList((text.encode(),))


def bytes_of(feature: Feature | None) -> bytes | None:
    """The bytes in a feature; None if it does not hold just that."""
    return feature[0] if isinstance(feature, BytesList) and len(feature) == 1 else None


def text_of(data: bytes | None) -> str | None:
    """Bytes as text; None if they are none."""
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def number_of(feature: Feature | None) -> int | None:
    """The whole number in a feature; None if it does not hold just that."""
    return feature[0] if isinstance(feature, Int64List) and len(feature) == 1 else None
