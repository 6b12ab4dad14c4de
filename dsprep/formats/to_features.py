"""A sample with all its fields as the features of a ``tf.train.Example``.

What a preset names has its feature; any other field stands under its own name. So does a feature
that the field which the preset has for it would not give back as it is: an ``image/format`` that
says ``JPEG``, a class number that is text. A field with the very name of a derived feature takes
its place.
"""

from __future__ import annotations

from dsprep.errors import BadSample
from dsprep.formats.example import BytesList, Feature, FloatList, Int64List
from dsprep.formats.feature_values import format_feature, text_feature
from dsprep.formats.features import TYPES, Preset, feature_of, fields_for
from dsprep.formats.floats import require_held
from dsprep.formats.key_feature import is_key_needed, tell_key
from dsprep.formats.label_features import LABEL_TEXT, boxes_to_features, text_of_label
from dsprep.sample import Blobs, Floats, Ints, Sample, Value, is_label


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
        features |= boxes_to_features(told, preset, whole)
    text = text_of_label(told.get("label"))
    if text is not None:
        features.setdefault(LABEL_TEXT, BytesList((text,)))
    if whole:
        tell_key(sample.key, kind, told, features, preset)
    for field, value in told.items():
        name = preset.name_of("image" if field == kind else field)
        name = field if name in features else name
        if name in features:
            raise BadSample(f"two of its fields would be the feature {name!r}")
        features[name] = feature_of(field, value, preset.first_class)
    for field, name in preset.names.items():
        if field == "format" and kind is not None:
            features.setdefault(name, format_feature(kind))
        elif field == "synset" and "class" in told:
            features.setdefault(name, feature_of(field, told["class"], 0))
        elif field == "source_id":
            features.setdefault(name, text_feature(sample.key if whole else str(sample.id)))
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
    if is_key_needed(sample.key, image[0], filename, None, is_other=False):
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
