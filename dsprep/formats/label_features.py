"""The label of a sample among the features of an Example: as text, or as boxes."""

from __future__ import annotations

from collections.abc import Mapping

from dsprep.errors import BadSample
from dsprep.formats.example import Feature, FloatList, Int64List
from dsprep.formats.feature_values import bytes_of, is_same
from dsprep.formats.features import BOXES, Preset, boxes_of, feature_of, is_detection_label
from dsprep.formats.floats import as_floats
from dsprep.formats.label_text import label_text, parse_label
from dsprep.formats.typed_json import is_usual
from dsprep.sample import Value, is_label

LABEL_TEXT = "label.json"
"""The feature that holds a label as text, where 32-bit floats do not hold it."""


def text_of_label(label: Value | None) -> bytes | None:
    """The text of a label, if 32-bit floats do not hold it."""
    if not is_label(label):
        return None
    held = as_floats(label)
    return None if held == label or is_same(held, label) else label_text(label)


def take_label_text(fields: dict[str, Value], rest: dict[str, Feature]) -> None:
    """Take the label from its text, where there is one because floats do not hold it."""
    data = bytes_of(rest.get(LABEL_TEXT))
    if data is not None and "label" in fields:
        label = parse_label(data)
        if is_label(label) and not is_same(label, fields["label"]):
            try:
                held = as_floats(label)
            except (BadSample, OverflowError):
                return
            if is_same(held, fields["label"]):
                fields["label"] = label
                del rest[LABEL_TEXT]


def boxes_to_features(told: dict[str, Value], preset: Preset, whole: bool) -> dict[str, Feature]:
    """The features of the boxes in the label, which is taken out if they tell all of it."""
    label = told.get("label")
    if whole and not (is_label(label) and is_detection_label(label) and _has_classes(label)):
        return {}
    parts = boxes_of(label)
    features = {
        name: feature_of(field, parts[field], preset.first_class)
        for name, field in zip(preset.box_names, ("classes", *BOXES), strict=True)
    }
    if not whole or is_same(_label_of(features, preset), label):
        del told["label"]
    return features


def features_to_boxes(
    fields: dict[str, Value],
    taken: Mapping[str, tuple[str, Value]],
    rest: dict[str, Feature],
    features: Mapping[str, Feature],
    preset: Preset,
) -> None:
    """Make boxes a label, or drop them if they are those of the label."""
    if "boxes" not in preset.names or not rest.keys() >= set(preset.box_names):
        return
    boxes = {name: rest[name] for name in preset.box_names}
    label = _label_of(boxes, preset)
    if "label" in fields and not is_same(label, fields["label"]):
        told = dict(fields)
        try:
            again = boxes_to_features(told, preset, whole=True)
        except (BadSample, OverflowError):
            return
        if again != boxes:
            return
    elif label is None or "label" in rest:
        return
    else:
        if "label" in fields:  # told twice
            name, _ = taken["label"]
            rest[name] = features[name]
        fields["label"] = label
    for name in boxes:
        del rest[name]


def _has_classes(label: tuple[float, ...]) -> bool:
    try:
        return bool(boxes_of(label))
    except BadSample:
        return False


def _label_of(boxes: Mapping[str, Feature], preset: Preset) -> tuple[float, ...] | None:
    """The detection label that becomes these features again; None if none does."""
    classes, *sides = (boxes[name] for name in preset.box_names)
    count = len(classes)
    if not count or not isinstance(classes, Int64List):
        return None
    if any(not isinstance(each, FloatList) or len(each) != count for each in sides):
        return None
    numbers = [number - preset.first_class for number in classes]
    if any(abs(number) >= 1 << 53 for number in numbers):
        return None
    rows = zip(map(float, numbers), *sides, strict=True)
    label = (2.0, 5.0, *(value for row in rows for value in row))
    try:
        return label if is_same(as_floats(label), label) and is_usual(label) else None
    except (BadSample, OverflowError):
        return None
