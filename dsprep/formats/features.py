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
from dsprep.images.header import sniff
from dsprep.sample import IMAGE_KINDS, Sample, Value, key_of

FORMAT_NAMES = {kind: kind for kind in IMAGE_KINDS} | {"jpg": "jpeg", "tif": "tiff"}
"""What the ``format`` field says for each kind of image."""

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
    names = {**PRESETS[preset].names, **renamed}
    if len(set(names.values())) < len(names):
        raise OptionError("--map gives two fields the same feature name")
    return Preset(names, PRESETS[preset].first_class)


def features_of(sample: Sample, preset: Preset) -> dict[str, Feature]:
    """The features of one sample.

    Raises:
        BadSample: If the preset is for detection and the sample's label is not a detection label.
    """
    names = preset.names
    fields = sample.fields
    by_field: dict[str, Feature] = {}
    for field, value in fields.items():
        if field == "cls" and isinstance(value, int):
            by_field["cls"] = Int64List((value + preset.first_class,))
        elif isinstance(value, bytes):
            by_field["image"] = BytesList((value,))
            by_field["format"] = BytesList((FORMAT_NAMES[field].encode(),))
        elif isinstance(value, int):
            by_field[field] = Int64List((value,))
        elif isinstance(value, str):
            by_field[field] = BytesList((value.encode(),))
        else:
            by_field[field] = FloatList(value)
    if "class" in by_field:
        by_field["synset"] = by_field["class"]
    by_field["source_id"] = BytesList((str(sample.index).encode(),))
    found = {names[field]: feature for field, feature in by_field.items() if field in names}
    if "boxes" in names:
        found.update(_detection(fields.get("label"), names, preset.first_class))
    return found


def _detection(
    label: Value | None, names: Mapping[str, str], first_class: int
) -> dict[str, Feature]:
    """The boxes of MXNet's detection label: ``A B [A-2 more] (class xmin ymin xmax ymax …)*``."""
    if not isinstance(label, tuple) or not is_detection_label(label):
        raise BadSample(
            "--features detection needs a detection label: A B … then class xmin ymin xmax ymax"
        )
    head, width = int(label[0]), int(label[1])
    classes, *sides = (label[head + column :: width] for column in range(5))
    found: dict[str, Feature] = {
        names["classes"]: Int64List(int(number) + first_class for number in classes)
    }
    for side, values in zip(BOXES, sides, strict=True):
        found[f"{names['boxes']}/{side}"] = FloatList(values)
    return found


def is_detection_label(label: tuple[float, ...]) -> bool:
    """Whether a label is MXNet's for detection: a head of A ≥ 2 numbers, then objects of B ≥ 5."""
    if len(label) < 7 or not (label[0].is_integer() and label[1].is_integer()):
        return False
    head, width = int(label[0]), int(label[1])
    return head >= 2 and width >= 5 and len(label) > head and (len(label) - head) % width == 0


def sample_of(features: Mapping[str, Feature], position: int) -> Sample:
    """The sample that an Example holds, whichever preset named its features.

    Args:
        features: The Example's features by name.
        position: Its place in the shard, which serves as its key when no feature tells one.
    """
    fields: dict[str, Value] = {}
    image = _first(features, "image", BytesList)
    if isinstance(image, bytes):
        fields[sniff(image) or "bin"] = image
    label = _first(features, "cls", Int64List)
    if isinstance(label, int):
        fields["cls"] = label
    for name in _names_of("label"):
        if isinstance(features.get(name), FloatList):
            fields["label"] = tuple(features[name])  # type: ignore[arg-type]
    filename = _first(features, "filename", BytesList)
    if isinstance(filename, bytes) and filename:
        fields["filename"] = filename.decode(errors="replace")
        return Sample(key_of(str(fields["filename"])), fields, position)
    return Sample(str(position), fields, position)


def _names_of(field: str) -> list[str]:
    names = (preset.names.get(field) for preset in PRESETS.values())
    return list(dict.fromkeys(name for name in names if name))


def _first(
    features: Mapping[str, Feature], field: str, kind: type[Feature]
) -> bytes | float | int | None:
    for name in _names_of(field):
        feature = features.get(name)
        if isinstance(feature, kind) and len(feature) == 1:
            return feature[0]
    return None
