"""Which field of a sample becomes which feature of a ``tf.train.Example``, and back.

A preset is a table from field to feature name. The names are those of the programs that made them
customary: TF-Slim's ``dataset_utils.image_to_tfexample``, Inception's ``build_image_data.py``,
TensorFlow Datasets' ``ImageFolder``, and the Object Detection API's ``create_pascal_tf_record.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType

from dsprep.errors import BadSample, OptionError
from dsprep.formats.example import BytesList, Feature, FloatList, Int64List
from dsprep.formats.floats import require_exact, require_held
from dsprep.sample import IMAGE_KINDS, UNKNOWN_IMAGE, Sample, Value, is_label

FORMAT_NAMES = {kind: kind for kind in IMAGE_KINDS} | {"jpg": "jpeg", "tif": "tiff"}
"""What the ``format`` field says for each kind of image; nothing for an unknown one."""

TYPES: Mapping[str, type] = {
    "label": tuple,
    "cls": int,
    "class": str,
    "filename": str,
    "width": int,
    "height": int,
    "id": int,
}
"""The fields that conventions name, and what they are; those of other types are any fields."""

_COMMON = {
    "image": "image/encoded",
    "format": "image/format",
    "cls": "image/class/label",
    "label": "image/label",
}

BOXES = ("xmin", "ymin", "xmax", "ymax")
"""The features of a detection label's coordinates, below the name of ``boxes``."""

_SAME = {"id": "source_id"}
"""Fields that have another name among those of presets."""


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

    @cached_property
    def usual(self) -> frozenset[str]:
        """The fields besides the image that it has features for."""
        label = {"label"} if "boxes" in self.names else set()
        return frozenset(self.names.keys() & TYPES.keys() | label)

    @cached_property
    def tells_keys(self) -> bool:
        """Whether it has a feature for the file name, and none that tells what others do."""
        return "filename" in self.names and not self.names.keys() & {"boxes", "source_id"}

    @cached_property
    def usual_features(self) -> frozenset[str]:
        """The features that mean just what they are named for, if there are no others.

        There are none if there is more to what they mean. A name without ``/`` may be a field's.
        """
        fields = ("image", "format", "cls", "class", "filename", "width", "height")
        names = frozenset(self.names[field] for field in fields if field in self.names)
        means_more = "format" not in self.names or not self.tells_keys
        return frozenset() if means_more or any("/" not in name for name in names) else names

    @cached_property
    def box_names(self) -> tuple[str, ...]:
        """The features that a detection label becomes: first that of the classes."""
        return (self.names["classes"], *(f"{self.names['boxes']}/{side}" for side in BOXES))

    @cached_property
    def candidates(self) -> dict[str, list[str]]:
        """The features that may hold a field, best first: this preset's, then the others'."""
        taken = {name for name, _ in self.in_order()}
        found: dict[str, list[str]] = {}
        for field in ("image", "cls", "label", "class", "filename", "width", "height", "id"):
            others = (each.names.get(_SAME.get(field, field), "") for each in PRESETS.values())
            own = self.names.get(_SAME.get(field, field), "")
            names = [own, *(name for name in others if name not in taken)]
            found[field] = list(dict.fromkeys(filter(None, names)))
        return found

    def name_of(self, field: str) -> str:
        """The feature that a field becomes, even if another preset has to name it."""
        return next(iter(self.candidates[field]), field)


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


FIELDS = frozenset(field for preset in PRESETS.values() for field in preset.names)
"""The fields that presets name."""


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
    for field in renamed:
        if field not in FIELDS:
            raise OptionError(
                f"--map {field}=…: no such field; there are {', '.join(sorted(FIELDS))}"
            )
    chosen = Preset({**PRESETS[preset].names, **renamed}, PRESETS[preset].first_class)
    names = [name for name, _ in chosen.in_order()]
    if len(set(names)) < len(names):
        raise OptionError("--map gives two fields the same feature name")
    return chosen


def fields_for(sample: Sample, preset: Preset) -> dict[str, Value] | None:
    """A sample's fields under the names that presets have for them.

    Returns:
        They; None if there are others than an image and what the preset names.

    Raises:
        BadSample: If the preset is for detection and the sample's label is not.
    """
    kind = _only_image(tuple(sample.fields), preset.usual)
    if kind is None:
        return None
    found = sample.fields.copy()
    found["image"], found["format"] = found.pop(kind), FORMAT_NAMES.get(kind, "")
    names = preset.names
    if "synset" in names and "class" in found:
        found["synset"] = found["class"]
    if "source_id" in names:
        found["source_id"] = str(sample.id)
    if "boxes" in names:
        found.update(boxes_of(found.get("label")))
    return found


@lru_cache(maxsize=4096)
def _only_image(names: tuple[str, ...], usual: frozenset[str]) -> str | None:
    """The field that is the image, if all others are usual ones."""
    others = [name for name in names if name not in usual]
    is_image = len(others) == 1 and others[0] in (*IMAGE_KINDS, UNKNOWN_IMAGE)
    return others[0] if is_image else None


def feature_of(field: str, value: Value, first_class: int) -> Feature:
    """The feature that holds one field.

    Raises:
        BadSample: If it holds a number that the feature cannot hold.
    """
    if is_label(value):
        if field == "classes":
            return Int64List(int(number) + first_class for number in value)
        try:
            require_exact(value)
        except OverflowError:
            raise BadSample(f"a label of {value!r} is beyond 32-bit floats") from None
        return FloatList(value)
    if isinstance(value, int) and field != "id":
        number = Int64List((value + first_class if field == "cls" else value,))
        require_held(number)
        return number
    if isinstance(value, bytes):
        return BytesList((value,))
    return BytesList((str(value).encode(),))


def boxes_of(label: Value | None) -> dict[str, Value]:
    """The parts of MXNet's detection label: ``A B [A-2 more] (class xmin ymin xmax ymax …)*``.

    Raises:
        BadSample: If it is none, or if a class in it is no whole number.
    """
    if not is_label(label) or not (is_detection_label(label) or is_header_alone(label)):
        raise BadSample(
            "--features detection needs a detection label: A B … then class xmin ymin xmax ymax"
        )
    head, width = int(label[0]), int(label[1])
    classes, *sides = (label[head + column :: width] for column in range(5))
    for number in classes:
        if not number.is_integer() or abs(number) >= 1 << 53:
            raise BadSample(f"the class {number!r} in a detection label is not a whole number")
    return {"classes": classes, **dict(zip(BOXES, sides, strict=True))}


def is_header_alone(label: tuple[float, ...]) -> bool:
    """Whether a label may be one for detection that has a head and no objects."""
    return len(label) >= 2 and label[0] == len(label) and label[1] >= 5 and label[1].is_integer()


def is_sized_header(label: tuple[float, ...]) -> bool:
    """Return whether a label is ``4 5 WIDTH HEIGHT``: MXNet's for an image without objects."""
    return len(label) == 4 and label[:2] == (4, 5)


def is_detection_label(label: tuple[float, ...]) -> bool:
    """Whether a label is MXNet's for detection: a head of A ≥ 2 numbers, then objects of B ≥ 5."""
    if len(label) < 7 or not (label[0].is_integer() and label[1].is_integer()):
        return False
    head, width = int(label[0]), int(label[1])
    return head >= 2 and width >= 5 and len(label) > head and (len(label) - head) % width == 0
