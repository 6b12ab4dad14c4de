"""A sample with all its fields as the features of a ``tf.train.Example``, and back.

What a preset names has its feature; any other field stands under its own name. So does a feature
that the field which the preset has for it would not give back as it is: an ``image/format`` that
says ``JPEG``, a class number that is text. A field with the very name of a derived feature takes
its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dsprep.errors import BadSample
from dsprep.formats.example import BytesList, Feature, FloatList, Int64List
from dsprep.formats.features import (
    BOXES,
    FORMAT_NAMES,
    TYPES,
    Preset,
    boxes_of,
    feature_of,
    fields_for,
    is_detection_label,
)
from dsprep.formats.floats import IDS, as_floats, require_held
from dsprep.formats.label_text import label_text, parse_label
from dsprep.formats.typed_json import is_usual
from dsprep.images.header import sniff
from dsprep.sample import (
    IMAGE_KINDS,
    UNKNOWN_IMAGE,
    Blobs,
    Floats,
    Ints,
    Sample,
    Value,
    is_label,
    key_of,
)

KEY = "__key__"
"""The feature that holds the key, where no other tells it."""

LABEL_TEXT = "label.json"
"""The feature that holds a label as text, where 32-bit floats do not hold it."""

_IMAGES = IMAGE_KINDS | {UNKNOWN_IMAGE}
_KIND_OF = {name.encode(): kind for kind, name in FORMAT_NAMES.items()} | {b"": UNKNOWN_IMAGE}
_ID = re.compile(rb"0|[1-9][0-9]{0,19}")


def features_of(sample: Sample, preset: Preset, whole: bool) -> dict[str, Feature]:
    """The features that hold a sample.

    Args:
        sample: The sample, with any fields.
        preset: The names of the features. A field that it does not name has the name that another
            preset has for it.
        whole: Whether the key must come back, too. If so, a sample without a file name gets one,
            ``KEY.EXT`` of its image, and the key gets a feature of its own if it does not follow
            from the file name, or if a field says that the file name is just that.

    Raises:
        BadSample: If features cannot hold it, or if the preset is for detection and the label is
            not; if whole, such a label is kept as it is.
    """
    image = sample.image()
    kind = image[0] if image else None
    told = {
        name: value
        for name, value in sample.fields.items()
        if name == kind or type(value) is TYPES.get(name)
    }
    features = {
        name: own_feature(value) for name, value in sample.fields.items() if name not in told
    }
    if "boxes" in preset.names and not features.keys() & set(preset.box_names):
        features |= _boxes(told, preset, whole)
    text = _label_text(told.get("label"))
    if text is not None:
        features.setdefault(LABEL_TEXT, BytesList((text,)))
    if whole:
        _tell_key(sample.key, kind, told, features, preset)
    for field, value in told.items():
        name = preset.name_of("image" if field == kind else field)
        name = field if name in features else name
        if name in features:
            raise BadSample(f"two of its fields would be the feature {name!r}")
        features[name] = feature_of(field, value, preset.first_class)
    for field, name in preset.names.items():
        if field == "format" and kind is not None:
            features.setdefault(name, _format(kind))
        elif field == "synset" and "class" in told:
            features.setdefault(name, feature_of(field, told["class"], 0))
        elif field == "source_id":
            features.setdefault(name, _text(sample.key if whole else str(sample.id)))
    return features


def usual_fields(sample: Sample, preset: Preset) -> dict[str, Value] | None:
    """The fields of a sample that comes back whole if each has the feature of its name.

    Returns:
        They, under the names that the preset has for them; None if there is more to it.
    """
    if not preset.tells_keys or "label" in sample.fields:
        return None
    image = sample.image()
    fields = None if image is None else fields_for(sample, preset)
    if image is None or fields is None:
        return None
    filename = fields.get("filename")
    if not isinstance(filename, str | None):
        return None
    if _needs_key(sample.key, image[0], filename, None, is_other=False):
        return None
    if filename is None:
        fields["filename"] = f"{sample.key}.{image[0]}"
    return fields


def own_feature(value: Value) -> Feature:
    """The feature that holds a field which no convention names.

    Raises:
        BadSample: If it holds a number that features do not.
    """
    if isinstance(value, bytes | str):
        return BytesList((value.encode() if isinstance(value, str) else value,))
    feature: Feature
    if isinstance(value, int):
        feature = Int64List((int(value),))
    elif is_label(value):
        feature = FloatList(value)
    else:
        assert isinstance(value, Ints | Floats | Blobs)
        feature = value
    require_held(feature)
    return feature


def _boxes(told: dict[str, Value], preset: Preset, whole: bool) -> dict[str, Feature]:
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


def _has_classes(label: tuple[float, ...]) -> bool:
    try:
        return bool(boxes_of(label))
    except BadSample:
        return False


def _label_text(label: Value | None) -> bytes | None:
    """The text of a label, if 32-bit floats do not hold it."""
    if not is_label(label):
        return None
    held = as_floats(label)
    return None if held == label or is_same(held, label) else label_text(label)


def is_same(one: object, other: object) -> bool:
    """Whether two labels are bit for bit the same."""
    return repr(one) == repr(other)


def _format(kind: str) -> Feature:
    return _text(FORMAT_NAMES.get(kind, ""))


def _text(text: str) -> Feature:
    return BytesList((text.encode(),))


def _tell_key(
    key: str,
    kind: str | None,
    told: dict[str, Value],
    features: dict[str, Feature],
    preset: Preset,
) -> None:
    """Add what tells the key, if something must.

    Raises:
        BadSample: If a field would be taken for what tells it.
    """
    own_name = features.get(preset.name_of("filename"))
    filename = told.get("filename")
    assert filename is None or isinstance(filename, str)
    needs_key = _needs_key(key, kind, filename, own_name, "filename" in features)
    if field := _decoded(_bytes(features.get(KEY))):
        if needs_key or field != key:
            raise BadSample(f"its field {KEY!r} would be read as its key: drop it")
    elif needs_key:
        features.setdefault(KEY, _text(key))
    elif filename is None and own_name is None:
        told["filename"] = f"{key}.{kind}"


def _needs_key(
    key: str, kind: str | None, filename: str | None, own_name: Feature | None, is_other: bool
) -> bool:
    """Whether a feature must tell the key; if not, the file name does, or ``KEY.EXT`` will.

    Args:
        key: The key.
        kind: The kind of the image, if there is one.
        filename: The file name, if there is one.
        own_name: The feature that would hold it, if there is one that does not.
        is_other: Whether another feature has the name of the field.
    """
    derived = _derived_name(key, kind)
    if filename is not None:
        return filename == derived or key_of(filename) != key
    if own_name is not None:
        return _key_of(own_name) != key
    return derived is None or is_other


def _derived_name(key: str, kind: str | None) -> str | None:
    name = f"{key}.{kind}"
    return name if kind is not None and key_of(name) == key else None


def _key_of(feature: Feature | None) -> str | None:
    """The key that a file name tells, even one that is not UTF-8."""
    name = _bytes(feature)
    return key_of(name.decode(errors="replace")) if name else None


def sample_of(
    features: Mapping[str, Feature], position: int, preset: Preset, whole: bool = False
) -> Sample:
    """The sample that an Example holds, whichever preset named its features.

    If whole, :func:`features_of` makes the same features of it again, but for the names of those
    that another preset than this one names. It may add ``image/format``, ``image/class/synset`` and
    ``image/source_id`` where this preset has them, and what tells the key, where none did.

    Args:
        features: The Example's features by name.
        position: Its place in the shard, which serves as its key when no feature tells one.
        preset: Whose names come first, and what it numbers the first class.
        whole: Whether a file name that is ``KEY.EXT`` is no field, and boxes are a label.
    """
    taken = _take(features, preset)
    rest = dict(features)
    for name, _ in taken.values():
        del rest[name]
    # A feature with the name of one of these fields keeps it from being told by another's name.
    while clashes := [field for field in taken if field in rest]:
        for field in clashes:
            name, _ = taken.pop(field)
            rest[name] = features[name]
    fields = {field: value for field, (_, value) in taken.items()}
    kind = next(iter(fields.keys() & _IMAGES), None)
    _take_label_text(fields, rest)
    if whole:
        _take_boxes(fields, taken, rest, features, preset)
    _take_derived(fields, kind, rest, preset)
    key = _take_key(fields, kind, rest, position, preset, whole)
    if whole and "source_id" in preset.names:
        if str(fields.get("id")) == key:
            del fields["id"]
        elif rest.get(preset.names["source_id"]) == _text(key):
            del rest[preset.names["source_id"]]
    for name in sorted(rest):
        fields[name] = _own_value(name, rest[name], kind)
    return Sample(key, fields, position)


def usual_sample(features: Mapping[str, Feature], position: int, preset: Preset) -> Sample | None:
    """What :func:`sample_of` makes of features that are an image and what a preset names.

    Returns:
        The sample, read whole; None if there is more to it.
    """
    if not preset.usual_features or not features.keys() <= preset.usual_features:
        return None
    names = preset.names
    image, format_name = _bytes(features.get(names["image"])), _bytes(features.get(names["format"]))
    kind = None if format_name is None else _KIND_OF.get(format_name)
    if image is None or kind is None or names["filename"] not in features:
        return None
    fields: dict[str, Value] = {kind: image}
    for field in ("cls", "class", "filename", "width", "height"):
        feature = features.get(names.get(field, ""))
        if feature is not None:
            value = _value(field, feature, preset)
            if value is None:
                return None
            fields[field] = value
    filename = str(fields["filename"])
    key = key_of(filename)
    if filename == f"{key}.{kind}":
        del fields["filename"]
    return Sample(key, fields, position)


def _take(features: Mapping[str, Feature], preset: Preset) -> dict[str, tuple[str, Value]]:
    """The features that are fields by convention: name and value by field."""
    taken: dict[str, tuple[str, Value]] = {}
    for field, candidates in preset.candidates.items():
        for name in candidates:
            if name in features:
                value = _value(field, features[name], preset)
                if field == "image" and isinstance(value, bytes):
                    field = _kind(value, features, preset)
                if value is not None:
                    taken[field] = name, value
                break
    return taken


def _kind(image: bytes, features: Mapping[str, Feature], preset: Preset) -> str:
    told = _bytes(features.get(preset.names.get("format", "image/format")))
    kind = None if told is None else _KIND_OF.get(told)
    return kind or sniff(image) or UNKNOWN_IMAGE


def _value(field: str, feature: Feature, preset: Preset) -> Value | None:
    """The value of a field that a feature is; None if it is none that would be the same again."""
    if field == "label":
        if isinstance(feature, FloatList) and feature and is_usual(feature):
            return tuple(feature)
        return None
    if TYPES.get(field) is int and field != "id":
        number = _number(feature)
        return number - preset.first_class if field == "cls" and number is not None else number
    data = _bytes(feature)
    if data is None or field == "image":
        return data
    if field == "id":
        return int(data) if _ID.fullmatch(data) and int(data) in IDS else None
    try:
        return data.decode() if data or field != "filename" else None
    except UnicodeDecodeError:
        return None


def _bytes(feature: Feature | None) -> bytes | None:
    return feature[0] if isinstance(feature, BytesList) and len(feature) == 1 else None


def _decoded(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def _number(feature: Feature | None) -> int | None:
    return feature[0] if isinstance(feature, Int64List) and len(feature) == 1 else None


def _take_label_text(fields: dict[str, Value], rest: dict[str, Feature]) -> None:
    """Take the label from its text, where there is one because floats do not hold it."""
    data = _bytes(rest.get(LABEL_TEXT))
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


def _take_derived(
    fields: dict[str, Value], kind: str | None, rest: dict[str, Feature], preset: Preset
) -> None:
    """Drop the features that are what the fields make them anyway."""
    names = preset.names
    if "format" in names and kind is not None and rest.get(names["format"]) == _format(kind):
        del rest[names["format"]]
    name = fields.get("class")
    if "synset" in names and isinstance(name, str) and rest.get(names["synset"]) == _text(name):
        del rest[names["synset"]]


def _take_boxes(
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
            again = _boxes(told, preset, whole=True)
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


def _take_key(
    fields: dict[str, Value],
    kind: str | None,
    rest: dict[str, Feature],
    position: int,
    preset: Preset,
    whole: bool,
) -> str:
    """The key; a feature that tells what others tell stays a field."""
    filename = fields.get("filename")
    assert filename is None or isinstance(filename, str)
    own_name = rest.get(preset.name_of("filename"))
    implied = key_of(filename) if filename else _key_of(own_name)
    if key := _decoded(_bytes(rest.get(KEY))):
        if _needs_key(key, kind, filename, own_name, "filename" in rest):
            del rest[KEY]
        return key
    key = str(position) if implied is None else implied
    if whole and filename is not None and filename == _derived_name(key, kind):
        del fields["filename"]
    return key


def _own_value(name: str, feature: Feature, kind: str | None) -> Value:
    """A feature as a field of the same name: bytes alone are no list."""
    if not isinstance(feature, BytesList) or len(feature) != 1:
        return feature
    # If an image's name would make it the sample's image, it stays a list.
    is_other = kind is not None and kind != name and (kind != UNKNOWN_IMAGE)
    return feature if name in _IMAGES and not is_other else feature[0]
