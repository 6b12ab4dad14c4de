"""Writing SageMaker's augmented manifest; :mod:`dsprep.formats.augmented` says what that is."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from dsprep.errors import BadSample
from dsprep.formats.augmented import METADATA, MULTILABEL, REFERENCE, SOURCE
from dsprep.formats.detection import is_detection_label, is_sized_header
from dsprep.formats.lst import format_number
from dsprep.sample import IMAGE_EXTENSIONS

Row: TypeAlias = (
    tuple[str, int | tuple[float, ...] | None, str | None]
    | tuple[str, int | tuple[float, ...] | None, str | None, Mapping[str, str]]
)

_TYPE = "groundtruth/"
_WHOLE_PIXEL = 1e-3
"""What a coordinate may be off a whole pixel to be meant as one: 32-bit floats are, by less."""


def format_augmented(
    rows: Iterable[Row],
    prefix: str,
    attribute: str = "class",
    classes: Sequence[str] | None = None,
) -> str:
    """Write a manifest.

    Nothing in it tells when or by whom it was made: ``creation-date``, ``job-name`` and
    ``confidence`` of Ground Truth are left out.
    """
    rows = list(rows)
    start = prefix if not prefix or prefix.endswith("/") else prefix + "/"
    labels = [label for _, label, *_ in rows if label is not None]
    has_boxes = _are_boxes(labels)
    has_flags = bool(classes) and all(_are_flags(label, len(classes or ())) for label in labels)
    # A list that has a number twice is none of classes.
    are_sets = all(isinstance(label, int) or len(set(label)) == len(label) for label in labels)
    lines = []
    for path, label, name, *others in rows:
        values: dict[str, Any] = {SOURCE: start + path}
        for other, place in _references(others[0] if others else {}).items():
            values[other] = start + place
        if label is not None:
            try:
                if has_flags and isinstance(label, tuple):
                    numbers = [number for number, flag in enumerate(label) if flag]
                    values |= _several(attribute, numbers, classes or ())
                else:
                    told = _attribute(attribute, label, name, classes or (), has_boxes, are_sets)
                    values |= told
            except BadSample as error:
                raise BadSample(f"{path}: {error}") from None
        lines.append(json.dumps(values, ensure_ascii=False) + "\n")
    return "".join(lines)


def _references(others: Mapping[str, str]) -> dict[str, str]:
    """The attributes that refer to other files: ``mask-ref`` for ``mask.png``."""
    found: dict[str, str] = {}
    for name, path in others.items():
        stem, _, extension = name.rpartition(".")
        short = stem if extension in IMAGE_EXTENSIONS and stem else name
        attribute = short + REFERENCE
        taken = attribute == SOURCE or attribute in found
        found[name + REFERENCE if taken else attribute] = path
    return found


def _attribute(
    name: str,
    label: int | tuple[float, ...],
    class_name: str | None,
    classes: Sequence[str],
    has_boxes: bool,
    are_sets: bool,
) -> dict[str, Any]:
    """The attribute that tells a label, and its metadata."""
    if not all(map(math.isfinite, (label,) if isinstance(label, int) else label)):
        raise BadSample(f"JSON has no number for a label of {label!r}")
    metadata: dict[str, Any] = {"human-annotated": "yes"}
    if has_boxes:
        assert isinstance(label, tuple)
        value, numbers = _pixels(label)
        metadata["type"] = _TYPE + "object-detection"
        metadata["objects"] = [{"confidence": 1}] * len(numbers)
        metadata["class-map"] = _named(numbers, classes)
        return {name: value, name + METADATA: metadata}
    if isinstance(label, int) or len(label) == 1:
        number = label if isinstance(label, int) else label[0]
        if float(number).is_integer():
            metadata["type"] = _TYPE + "image-classification"
        if class_name is not None:
            metadata["class-name"] = class_name
        return {name: format_number(number), name + METADATA: metadata}
    if are_sets and all(number >= 0 and float(number).is_integer() for number in label):
        return _several(name, [int(number) for number in label], classes)
    return {name: list(map(_plain, label)), name + METADATA: metadata}


def _several(name: str, numbers: Sequence[int], classes: Sequence[str]) -> dict[str, Any]:
    """The attribute that lists the classes of an image, and its metadata."""
    metadata = {
        "human-annotated": "yes",
        "type": MULTILABEL,
        "class-map": _named(numbers, classes),
    }
    return {name: list(numbers), name + METADATA: metadata}


def _are_flags(label: int | tuple[float, ...], count: int) -> bool:
    """Whether a label has a 0 or a 1 for each of some classes."""
    return isinstance(label, tuple) and len(label) == count and {0.0, 1.0}.issuperset(label)


def _named(numbers: Iterable[float], classes: Sequence[str]) -> dict[str, str]:
    known = sorted({int(number) for number in numbers if 0 <= number < len(classes)})
    return {str(number): classes[number] for number in known}


def _plain(number: float) -> int | float:
    return int(number) if float(number).is_integer() else number


def _are_boxes(labels: Sequence[int | tuple[float, ...] | None]) -> bool:
    """Whether all labels that there are are ones for detection, rather than several classes."""
    tuples = [label for label in labels if isinstance(label, tuple)]
    if not tuples or any(isinstance(label, int) for label in labels):
        return False
    full = [label for label in tuples if not is_sized_header(label)]
    return bool(full) and all(
        is_detection_label(tuple(map(float, label)))
        and all(-1 <= side <= 2 for side in _sides(label))
        for label in full
    )


def _sides(label: tuple[float, ...]) -> Iterator[float]:
    head, width = int(label[0]), int(label[1])
    for start in range(head, len(label), width):
        yield from label[start + 1 : start + 5]


def _pixels(label: tuple[float, ...]) -> tuple[dict[str, Any], list[float]]:
    """The boxes of a detection label in pixels, and the class of each."""
    if label[:2] != (4, 5) or not (label[2] >= 1 and label[3] >= 1):
        raise BadSample(
            "its detection label has to begin with 4, 5, and the image's width and height, as "
            "boxes are in pixels here"
        )
    width, height = label[2:4]
    annotations = []
    for start in range(4, len(label), 5):
        number, *sides = label[start : start + 5]
        if not float(number).is_integer():
            raise BadSample(f"the class {number!r} in its detection label is not a whole number")
        left, top, right, bottom = (
            _pixel(side * scale) for side, scale in zip(sides, (width, height) * 2, strict=True)
        )
        across, down = _pixel(right - left), _pixel(bottom - top)
        annotations.append(
            {"class_id": int(number), "left": left, "top": top, "width": across, "height": down}
        )
    image = {"width": _plain(width), "height": _plain(height), "depth": 3}
    return {"image_size": [image], "annotations": annotations}, list(label[4::5])


def _pixel(value: float) -> int | float:
    """A coordinate in pixels, whole if it is meant as one."""
    whole = round(value)
    return whole if abs(value - whole) < _WHOLE_PIXEL else round(value, 6)
