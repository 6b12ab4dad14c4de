"""Which field of a sample becomes which feature of a ``tf.train.Example``, and back.

A preset is a table from field to feature name. The names are those of the programs that made them
customary: TF-Slim's ``dataset_utils.image_to_tfexample``, Inception's ``build_image_data.py``,
TensorFlow Datasets' ``ImageFolder``, and the Object Detection API's ``create_pascal_tf_record.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dsprep.errors import BadSample, OptionError
from dsprep.formats.example import BytesList, Feature, FloatList, Int64List
from dsprep.formats.floats import require_exact
from dsprep.images.header import sniff
from dsprep.sample import IMAGE_KINDS, UNKNOWN_IMAGE, Sample, Value, key_of

FORMAT_NAMES = {kind: kind for kind in IMAGE_KINDS} | {"jpg": "jpeg", "tif": "tiff"}
"""What the ``format`` field says for each kind of image; nothing for an unknown one."""

_COMMON = {
    "image": "image/encoded",
    "format": "image/format",
    "cls": "image/class/label",
    "label": "image/label",
}

BOXES = ("xmin", "ymin", "xmax", "ymax")
"""The features of a detection label's coordinates, below the name of ``boxes``."""


@dataclass(frozen=True)
class Preset:
    """A set of feature names.

    Attributes:
        names: Feature name by field. ``image`` is the image whatever its kind, ``format`` what that
            kind is called, ``synset`` the class name again, ``source_id`` the sample's id, and
            ``boxes`` and ``classes`` the parts of a detection label.
        first_class: What the first class is numbered.
    """

    names: Mapping[str, str]
    first_class: int = 0

    def in_order(self) -> list[tuple[str, str]]:
        """Feature name and field of each feature, in the order of the names."""
        single = {field: name for field, name in self.names.items() if field != "boxes"}
        if "boxes" in self.names:
            single |= {side: f"{self.names['boxes']}/{side}" for side in BOXES}
        return sorted((name, field) for field, name in single.items())


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "dsprep": Preset(_COMMON | {"class": "image/class/text", "filename": "image/filename"}),
        "slim": Preset(_COMMON | {"height": "image/height", "width": "image/width"}),
        "inception": Preset(
            _COMMON
            | {
                "class": "image/class/text",
                "synset": "image/class/synset",
                "filename": "image/filename",
                "height": "image/height",
                "width": "image/width",
            },
            first_class=1,
        ),
        "tfds": Preset(
            {"image": "image", "cls": "label", "label": "labels", "filename": "file_name"}
        ),
        "detection": Preset(
            {
                "image": "image/encoded",
                "format": "image/format",
                "filename": "image/filename",
                "source_id": "image/source_id",
                "height": "image/height",
                "width": "image/width",
                "boxes": "image/object/bbox",
                "classes": "image/object/class/label",
            },
            first_class=1,
        ),
    }
)


def choose_features(preset: str, renamed: Mapping[str, str]) -> Preset:
    """A preset, with some of its features renamed and others added.

    Args:
        preset: Its name.
        renamed: Feature name by field, on top of the preset's.

    Raises:
        OptionError: If the preset or a field is unknown, or two fields get one name.
    """
    if preset not in PRESETS:
        raise OptionError(f"--features {preset}: unknown; choose one of {', '.join(PRESETS)}")
    known = {field for each in PRESETS.values() for field in each.names}
    for field in renamed:
        if field not in known:
            raise OptionError(
                f"--map {field}=…: no such field; there are {', '.join(sorted(known))}"
            )
    chosen = Preset({**PRESETS[preset].names, **renamed}, PRESETS[preset].first_class)
    names = [name for name, _ in chosen.in_order()]
    if len(set(names)) < len(names):
        raise OptionError("--map gives two fields the same feature name")
    return chosen


def fields_for(sample: Sample, preset: Preset) -> dict[str, Value]:
    """A sample's fields under the names that presets have for them.

    Raises:
        BadSample: If the preset is for detection and the sample's label is not.
    """
    found: dict[str, Value] = {}
    for field, value in sample.fields.items():
        if not isinstance(value, bytes):
            found[field] = value
    image = sample.image()
    if image is not None:
        found["image"], found["format"] = image[1], FORMAT_NAMES.get(image[0], "")
    names = preset.names
    if "synset" in names and "class" in found:
        found["synset"] = found["class"]
    if "source_id" in names:
        found["source_id"] = str(sample.id)
    if "boxes" in names:
        found.update(_boxes(found.get("label")))
    return found


def feature_of(field: str, value: Value, first_class: int) -> Feature:
    """The feature that holds one field.

    Raises:
        BadSample: If a label holds a whole number that the feature's 32-bit floats cannot.
        OverflowError: If a label holds a number beyond them.
    """
    if isinstance(value, tuple):
        if field == "classes":
            return Int64List(int(number) + first_class for number in value)
        require_exact(value)
        return FloatList(value)
    if isinstance(value, int):
        return Int64List((value + first_class if field == "cls" else value,))
    return BytesList((value.encode() if isinstance(value, str) else value,))


def _boxes(label: Value | None) -> dict[str, Value]:
    """The parts of MXNet's detection label: ``A B [A-2 more] (class xmin ymin xmax ymax …)*``."""
    if not isinstance(label, tuple) or not is_detection_label(label):
        raise BadSample(
            "--features detection needs a detection label: A B … then class xmin ymin xmax ymax"
        )
    head, width = int(label[0]), int(label[1])
    classes, *sides = (label[head + column :: width] for column in range(5))
    for number in classes:
        if not number.is_integer() or abs(number) >= 1 << 53:
            raise BadSample(f"the class {number!r} in a detection label is not a whole number")
    return {"classes": classes, **dict(zip(BOXES, sides, strict=True))}


def is_detection_label(label: tuple[float, ...]) -> bool:
    """Whether a label is MXNet's for detection: a head of A ≥ 2 numbers, then objects of B ≥ 5."""
    if len(label) < 7 or not (label[0].is_integer() and label[1].is_integer()):
        return False
    head, width = int(label[0]), int(label[1])
    return head >= 2 and width >= 5 and len(label) > head and (len(label) - head) % width == 0


def sample_of(features: Mapping[str, Feature], position: int, preset: Preset) -> Sample:
    """The sample that an Example holds, whichever preset named its features.

    Args:
        features: The Example's features by name.
        position: Its place in the shard, which serves as its key when no feature tells one.
        preset: Whose names come first, and what it numbers the first class.
    """
    fields: dict[str, Value] = {}
    image = _first(features, "image", BytesList, preset)
    if isinstance(image, bytes):
        fields[sniff(image) or UNKNOWN_IMAGE] = image
    label = _first(features, "cls", Int64List, preset)
    if isinstance(label, int):
        fields["cls"] = label - preset.first_class
    for name in _names_of("label", preset):
        feature = features.get(name)
        if isinstance(feature, FloatList):
            fields["label"] = tuple(feature)
            break
    filename = _first(features, "filename", BytesList, preset)
    if isinstance(filename, bytes) and filename:
        fields["filename"] = filename.decode(errors="replace")
        return Sample(key_of(str(fields["filename"])), fields, position)
    return Sample(str(position), fields, position)


def _names_of(field: str, preset: Preset) -> list[str]:
    names = (each.names.get(field) for each in (preset, *PRESETS.values()))
    return list(dict.fromkeys(name for name in names if name))


def _first(
    features: Mapping[str, Feature], field: str, kind: type[Feature], preset: Preset
) -> bytes | float | int | None:
    for name in _names_of(field, preset):
        feature = features.get(name)
        if isinstance(feature, kind) and len(feature) == 1:
            return feature[0]
    return None
