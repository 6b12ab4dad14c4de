"""The features of a ``tf.train.Example``: what they mean, and what fields become them.

A preset is a table from roles to feature names. The names are those of the programs that made them
customary: TF-Slim's ``dataset_utils.image_to_tfexample``, Inception's ``build_image_data.py``,
TensorFlow Datasets' ``ImageFolder``, and the Object Detection API's ``create_pascal_tf_record.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dsprep.errors import BadSample
from dsprep.formats.detection import is_detection_label, is_header_alone
from dsprep.formats.example import Feature
from dsprep.formats.floats import as_floats
from dsprep.sample import Floats, Ints
from dsprep.schema import FACTS, IMAGE, LABEL, LABEL_TEXT, Field, Meaning, Schema

PATHS = ("image/filename", "file_name", "filename")
"""The features that tell the name of the image's file, the first of a record being the one."""

CLASS_NUMBER, CLASS_TEXT, CLASS_SYNSET = (
    "image/class/label",
    "image/class/text",
    "image/class/synset",
)

FORMAT = "image/format"

ANY_CLASS, ANY_PATH = "image/class/*", "*/filename"
"""Places that stand for several features: those of one record are told apart by their names."""

PLACES = {CLASS_NUMBER: ANY_CLASS, CLASS_TEXT: ANY_CLASS} | dict.fromkeys(PATHS, ANY_PATH)
"""The features that have such a place."""

_LABEL = Meaning("label", LABEL_TEXT, LABEL)
_FACTS: Mapping[str, str] = {name: f"image/{name}" for name in FACTS} | {
    "sha256": "image/key/sha256"
}

MEANINGS: Mapping[str, Meaning] = {
    "image/encoded": Meaning("image", "image", IMAGE),
    ANY_CLASS: _LABEL,
    CLASS_NUMBER: _LABEL,
    CLASS_TEXT: Meaning(""),  # the name of the class, where the number is there, too
    "image/label": _LABEL,
    "image/source_id": Meaning("source_id"),
    ANY_PATH: Meaning(""),
    PATHS[0]: Meaning(""),
    **{feature: Meaning(name) for name, feature in _FACTS.items()},
    FORMAT: Meaning(""),  # the kind of the image, which its bytes tell
}
"""What features mean; any other is a field of its own name, and its values tell the type."""

SIDES = ("xmin", "ymin", "xmax", "ymax")


class Preset(NamedTuple):
    """What the features are called that fields become."""

    image: str = "image/encoded"  # the image
    label: str = CLASS_NUMBER  # A label that is a class
    numbers: str = "image/label"  # A label of other numbers
    text: str = CLASS_TEXT  # A label that is text
    names: tuple[str, ...] = ()  # the features that tell the name of a class
    path: str = PATHS[0]  # the name of the image's file
    source_id: str = ""  # the id of the sample; empty if it is not written
    facts: Mapping[str, str] = _FACTS  # those by name
    # the facts that each record has, even if the source does not tell them
    written: tuple[str, ...] = ("format",)
    # the prefix of the boxes that a detection label becomes; empty if it stays a label
    boxes: str = ""
    classes: str = ""  # the classes of these boxes, which count from 1
    first_class: int = 0  # what the first class is numbered

    @property
    def box_names(self) -> tuple[str, ...]:
        """The features of boxes, that of the classes last."""
        return (*(f"{self.boxes}/{side}" for side in SIDES), self.classes) if self.boxes else ()


_SIZED = ("format", "height", "width")

PRESETS: Mapping[str, Preset] = {
    "dsprep": Preset(names=(CLASS_TEXT,)),
    "slim": Preset(written=_SIZED),
    "inception": Preset(names=(CLASS_TEXT, CLASS_SYNSET), written=_SIZED, first_class=1),
    "tfds": Preset(
        image="image",
        label="label",
        numbers="labels",
        text="label",
        path="file_name",
        facts={},
        written=(),
    ),
    "detection": Preset(
        source_id="image/source_id",
        written=_SIZED,
        boxes="image/object/bbox",
        classes="image/object/class/label",
    ),
}
"""The presets by name."""


def feature_of(column: Field, schema: Schema, preset: Preset) -> str:
    """Return the feature that a field of samples from another format becomes."""
    name = column.name
    if column.given:
        return name
    if name == schema.image:
        return preset.image
    if name == schema.label:
        if column.type in ("class", "bool", "int"):
            return preset.label
        if column.type == "text":
            return preset.text
        return preset.numbers if "int" in column.type or "float" in column.type else name
    if name == "source_id" and preset.source_id:
        return preset.source_id
    return preset.facts.get(name, name)


def own_feature_of(column: Field) -> str:
    """Return the feature that holds a field of samples from another TFRecord."""
    feature = column.places[0][0]
    if feature == ANY_CLASS:
        return CLASS_TEXT if column.type in ("text", "bytes") else CLASS_NUMBER
    return feature


def boxes_of(label: tuple[float, ...], names: Preset) -> dict[str, Feature]:
    """Return the features of the boxes in a detection label: corners, and classes from 1."""
    if not (is_detection_label(label) or is_header_alone(label)):
        raise BadSample(
            "--features detection needs a detection label: A B … then class xmin ymin xmax ymax"
        )
    head, width = int(label[0]), int(label[1])
    classes, *sides = (label[head + column :: width] for column in range(5))
    for number in classes:
        if number % 1 or abs(number) >= 1 << 53:
            raise BadSample(f"the class {number!r} in a detection label is not a whole number")
    floats = (Floats(as_floats(side, "a corner of a box")) for side in sides)
    return {
        **dict(zip(names.box_names, floats, strict=False)),
        names.classes: Ints(int(number) + 1 for number in classes),
    }
