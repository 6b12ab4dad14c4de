"""The sample that the features of a ``tf.train.Example`` hold, whoever named them.

It is the way back from :mod:`dsprep.formats.to_features`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dsprep.formats.example import BytesList, Feature, FloatList
from dsprep.formats.feature_values import bytes_of, format_feature, number_of, text_feature
from dsprep.formats.features import FORMAT_NAMES, TYPES, Preset
from dsprep.formats.floats import IDS
from dsprep.formats.key_feature import take_key
from dsprep.formats.label_features import features_to_boxes, take_label_text
from dsprep.formats.typed_json import is_usual
from dsprep.images.header import sniff
from dsprep.sample import IMAGE_KINDS, UNKNOWN_IMAGE, Sample, Value, key_of

_IMAGES = IMAGE_KINDS | {UNKNOWN_IMAGE}
_KIND_OF = {name.encode(): kind for kind, name in FORMAT_NAMES.items()} | {b"": UNKNOWN_IMAGE}
_ID = re.compile(rb"0|[1-9][0-9]{0,19}")


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
    take_label_text(fields, rest)
    if whole:
        features_to_boxes(fields, taken, rest, features, preset)
    _take_derived(fields, kind, rest, preset)
    key = take_key(fields, kind, rest, position, preset, whole)
    if whole and "source_id" in preset.names:
        if str(fields.get("id")) == key:
            del fields["id"]
        elif rest.get(preset.names["source_id"]) == text_feature(key):
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
    image, format_name = (
        bytes_of(features.get(names["image"])),
        bytes_of(features.get(names["format"])),
    )
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
    told = bytes_of(features.get(preset.names.get("format", "image/format")))
    kind = None if told is None else _KIND_OF.get(told)
    return kind or sniff(image) or UNKNOWN_IMAGE


def _value(field: str, feature: Feature, preset: Preset) -> Value | None:
    """The value of a field that a feature is; None if it is none that would be the same again."""
    if field == "label":
        if isinstance(feature, FloatList) and feature and is_usual(feature):
            return tuple(feature)
        return None
    if TYPES.get(field) is int and field != "id":
        number = number_of(feature)
        return number - preset.first_class if field == "cls" and number is not None else number
    data = bytes_of(feature)
    if data is None or field == "image":
        return data
    if field == "id":
        return int(data) if _ID.fullmatch(data) and int(data) in IDS else None
    try:
        return data.decode() if data or field != "filename" else None
    except UnicodeDecodeError:
        return None


def _take_derived(
    fields: dict[str, Value], kind: str | None, rest: dict[str, Feature], preset: Preset
) -> None:
    """Drop the features that are what the fields make them anyway."""
    names = preset.names
    if "format" in names and kind is not None and rest.get(names["format"]) == format_feature(kind):
        del rest[names["format"]]
    name = fields.get("class")
    if (
        "synset" in names
        and isinstance(name, str)
        and rest.get(names["synset"]) == text_feature(name)
    ):
        del rest[names["synset"]]


def _own_value(name: str, feature: Feature, kind: str | None) -> Value:
    """A feature as a field of the same name: bytes alone are no list."""
    if not isinstance(feature, BytesList) or len(feature) != 1:
        return feature
    # If an image's name would make it the sample's image, it stays a list.
    is_other = kind is not None and kind != name and (kind != UNKNOWN_IMAGE)
    return feature if name in _IMAGES and not is_other else feature[0]
