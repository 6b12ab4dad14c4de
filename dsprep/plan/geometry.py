"""Find the fields of a sample that may depend on the geometry of its image.

A transform changes pixels and nothing else: boxes, masks and key points stay as they are. The type
and the content of a value tell what it is, as a field can have any name. This runs in workers, and
so imports neither polars nor Pillow.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from dsprep.errors import OptionError
from dsprep.formats.values import is_detection_label, is_sized_header
from dsprep.sample import Sample, Value
from dsprep.schema import IMAGE

_LOOKED_AT = 1 << 16
"""Bytes of a text that tell what it is."""

_MOST_NUMBERS = 3
"""Numbers that a line of prose has; a line of YOLO's or KITTI's labels has more."""

_NUMBER = re.compile(r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_MARKUP = ("{", "[", "<")

_COORDINATE = re.compile(
    r"(?<![a-z])([xywh]|c[xy]|[xy]_?(min|max|[0-9]|center)|left|top|right|bottom|width|height|size"
    r"|area|b?box(es)?|coords?|points?|keypoints?|polygons?)(?![a-z])",
    re.IGNORECASE,
)
"""Words in the name of a number that is a place or a size."""


def kept_fields(names: Iterable[str]) -> frozenset[str]:
    """Return the fields that the user declared independent of the image's geometry."""
    kept = frozenset(names)
    if IMAGE in kept:
        raise OptionError("--keep-fields image: the image is what a transform changes")
    return kept


def dependent_fields(sample: Sample) -> list[str]:
    """Return the fields of a sample, typed or raw, that may depend on its image's geometry."""
    if sample.image is None:
        return []
    return [
        name
        for name, value in sample.fields.items()
        if name != sample.image and _depends(name, value)
    ]


def label_depends(label: Value | None) -> bool:
    """Return whether a label has boxes, or the size of its image."""
    if not isinstance(label, tuple):
        return False
    return is_detection_label(label) or is_sized_header(label)


def _depends(name: str, value: Value) -> bool:
    if isinstance(value, tuple | list):
        if len(value) == 1:
            return _depends(name, value[0])
        texts = [each for each in value if isinstance(each, str | bytes)]
        return len(texts) < len(value) or any(_depends(name, each) for each in texts)
    if isinstance(value, int | float):
        return _COORDINATE.search(name) is not None
    if isinstance(value, str):
        return _is_no_prose(value)
    if isinstance(value, bytes):
        return _is_no_text(value)
    return value is not None


def _is_no_text(data: bytes) -> bool:
    """Return whether bytes are anything but prose: an array, a mask, JSON, a list of numbers."""
    try:
        # A character that is cut off at the end is no reason.
        text = data[:_LOOKED_AT].decode("utf-8", "strict" if len(data) <= _LOOKED_AT else "ignore")
    except UnicodeDecodeError:
        return True
    return _CONTROL.search(text) is not None or _is_no_prose(text)


def _is_no_prose(text: str) -> bool:
    """Return whether a text is JSON, XML, or lines of numbers."""
    if text.lstrip().startswith(_MARKUP):
        return True
    words = [re.split(r"[\s,;]+", line.strip()) for line in text[:_LOOKED_AT].splitlines()]
    numbers = [sum(_NUMBER.fullmatch(word) is not None for word in line) for line in words]
    only_numbers = sum(numbers) == sum(any(line) and len(line) for line in words)
    return any(count > _MOST_NUMBERS for count in numbers) or (only_numbers and sum(numbers) > 1)


def refusal(option: str, fields: Mapping[str, str]) -> OptionError:
    """Return the error that says why a transform is refused."""
    named = ", ".join(f"{name} ({samples})" for name, samples in fields.items())
    names = ",".join(fields)
    return OptionError(
        f"{option} changes the geometry of images, but not {named}, which may depend on it: give "
        f"--keep-fields {names} if {_it(fields)} not depend on it, or --drop {names}"
    )


def why_not_turned(fields: Collection[str]) -> str:
    """Return why an image cannot be re-encoded when that turns it upright."""
    names = ",".join(fields)
    return (
        f"its EXIF orientation turns the image, but not {', '.join(fields)}, which may depend on "
        f"it: give --keep-fields {names} if {_it(fields)} not depend on it, or --drop {names}"
    )


def _it(fields: Collection[str]) -> str:
    return "it does" if len(fields) == 1 else "they do"
