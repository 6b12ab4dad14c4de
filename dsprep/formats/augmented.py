"""SageMaker's augmented manifest: a line of JSON for each image, or for each text.

``{"source-ref": "s3://bucket/cat/a.jpg", "class": "0", "class-metadata": {"class-name": "cat"}}``:
where the image is, an attribute that labels it, and what there is to say about that. This is what
Ground Truth puts out: the label is the number of a class
(``groundtruth/image-classification``), a list of them (``…-multilabel``), or boxes in pixels
(``groundtruth/object-detection``). Lines of texts, ``{"source": "a text", "label": 1}``, are what
BlazingText reads: the text, and the number of its class or a list of such numbers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from dsprep.annotations.mxnet import in_shares, is_detection_label, is_sized_header
from dsprep.errors import BadSample, SourceError
from dsprep.formats.values import format_number
from dsprep.patterns import pattern
from dsprep.sample import IMAGE_EXTENSIONS
from dsprep.schema import LABEL
from dsprep.tuples import NamedTuple
from dsprep.units import is_text, quoted_names

SOURCE = "source-ref"
TEXT = "source"  # the attribute that is a text
METADATA = "-metadata"
REFERENCE = "-ref"  # ends the names of attributes that refer to another file of the sample: a mask
MANIFESTS = (".manifest", ".jsonl")  # how the names of manifests end
# lists of the numbers of classes
MULTILABEL = "groundtruth/image-classification-multilabel"
TEXT_MULTILABEL = "groundtruth/text-classification-multilabel"
_LARGEST = 2**53
_KINDS = {"number": "one number", "list": "a list", "boxes": "boxes"}
_LONGEST = 1 << 26  # characters of a line
_NUMBER = pattern(r"\s*[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?\s*", re.ASCII)
_BOX = ("left", "top", "width", "height")
_REFERRING = pattern(r'\s*\{[^\n]*"[^"\n]*-ref"\s*:')


class AugmentedLine(NamedTuple):
    """A line of a manifest."""

    line: int  # its number, from 1
    ref: str  # where the image is, as it is written there; empty for a text
    # its numbers: a class, several, or boxes (width and height of the image, then class, x0, y0, x1
    # and y1 of each object, in pixels); None if the manifest has no labels
    label: tuple[float, ...] | None
    kind: str  # `number`, `list` or `boxes`; empty without a label
    names: dict[int, str]  # what it says classes are called, by number
    others: tuple[str, ...] = ()  # the attributes that refer to other files of the sample
    has_masks: bool = False  # whether a file of them is a mask, whose colors are told
    lists_classes: bool = False  # whether it says that its list is one of the numbers of classes
    is_text: bool = False  # whether it has a text, and no image
    unread: tuple[str, ...] = ()  # for a text: attributes that are neither it nor its label


class _Wrong(ValueError):
    """An error in a line of an augmented manifest."""


def refers_to_files(text: str) -> bool:
    """Return whether the first line of a text has an attribute that refers to a file."""
    return _REFERRING.match(text) is not None


def parse_augmented(text: str, source: str, label: str | None = None) -> Iterator[AugmentedLine]:
    """Read the lines of a manifest.

    Without a name, the first line shows which attribute is the label.
    """
    attribute = kind = is_text = None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            values = _parse(line)
            if kind is None:
                attribute, is_text = label or _find_attribute(values), SOURCE not in values
            if is_text is not (SOURCE not in values):
                own, first = (SOURCE, TEXT) if is_text else (TEXT, SOURCE)
                raise _Wrong(f"has {own!r}, but the first line has {first!r}")
            found = _annotated(number, values, attribute)
            if kind is not None and found.kind != kind and not (is_text and kind and found.kind):
                raise _Wrong(
                    f"the label is {_KINDS[found.kind]}, but that of the first line {_KINDS[kind]}"
                )
        except _Wrong as wrong:
            raise SourceError(f"{source}:{number}: {wrong}") from None
        kind = found.kind
        yield found


def _find_attribute(values: dict[str, Any]) -> str | None:
    """Which attribute of a line labels its image; None if there is none."""
    names = [name for name in values if not name.endswith((METADATA, REFERENCE))]
    if SOURCE not in values:
        names.remove(TEXT)
        names = [LABEL] if LABEL in names else names
    described = [name for name in names if name + METADATA in values]
    if described:
        return described[0]
    if len(names) > 1:
        raise _Wrong(
            f"several attributes may be the label: {quoted_names(names)}: give --label-field NAME"
        )
    return names[0] if names else None


def default_attributes(names: Collection[str]) -> list[str]:
    """Return which attributes of a line a job reads: references, then labels with metadata."""
    references = [name for name in names if name.endswith(REFERENCE)]
    others = [name for name in names if not name.endswith((REFERENCE, METADATA))]
    if not references and TEXT in others:
        references = [TEXT]
        others.remove(TEXT)
    return [*references, *([name for name in others if name + METADATA in names] or others)]


def _parse(line: str) -> dict[str, Any]:
    if len(line) > _LONGEST:
        raise _Wrong(f"is {len(line):,} characters long, and no line of a manifest is")
    try:
        values: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise _Wrong("is no JSON: a manifest has an object on each line") from None
    if not isinstance(values, dict):
        raise _Wrong("is no JSON object")
    if SOURCE not in values and is_text(values.get(TEXT)):
        return values
    if not values.get(SOURCE) or not is_text(values[SOURCE]):
        raise _Wrong(f"has no {SOURCE!r}, which tells where the image is, and no text {TEXT!r}")
    return values


def _annotated(number: int, values: dict[str, Any], attribute: str | None) -> AugmentedLine:
    found = _without_label(number, values, attribute)
    if attribute is None:
        if _find_attribute(values) is not None:
            raise _Wrong("has a label, but the first line has none")
        return found
    if attribute not in values:
        raise _Wrong(f"has no label {attribute!r}")
    value, metadata = values[attribute], values.get(attribute + METADATA)
    metadata = metadata if isinstance(metadata, dict) else {}
    names = _class_names(metadata)
    if isinstance(value, dict):
        if found.is_text:
            raise _Wrong(f"the label {attribute!r} is neither a number nor a list of numbers")
        return found._replace(label=_boxes(value), kind="boxes", names=names)
    value = _list_in_text(value)
    if isinstance(value, list):
        lists_classes = metadata.get("type") in (MULTILABEL, TEXT_MULTILABEL)
        if not value and not lists_classes:
            raise _Wrong(f"the label {attribute!r} is empty")
        numbers = tuple(map(_number, value))
        return found._replace(label=numbers, kind="list", names=names, lists_classes=lists_classes)
    label = _number(value)
    name: Any = metadata.get("class-name")
    if name and is_text(name) and label.is_integer() and label >= 0:
        names[int(label)] = name
    return found._replace(label=(label,), kind="number", names=names)


def _without_label(number: int, values: dict[str, Any], attribute: str | None) -> AugmentedLine:
    """Return what a line tells besides its label: the image or the text, and the masks."""
    others = tuple(name for name in values if name.endswith(REFERENCE) and name != SOURCE)
    has_masks = any(colors_of(values, name) for name in others)
    found = AugmentedLine(number, values.get(SOURCE, ""), None, "", {}, others, has_masks)
    if SOURCE in values:
        return found
    read = (TEXT, attribute, f"{attribute}{METADATA}")
    return found._replace(is_text=True, unread=tuple(name for name in values if name not in read))


def _class_names(metadata: dict[str, Any]) -> dict[int, Any]:
    """Return the names of the map of classes, by number."""
    class_map = metadata.get("class-map")
    return {
        int(key): name
        for key, name in (class_map.items() if isinstance(class_map, dict) else ())
        if name and is_text(name) and key.isascii() and key.isdecimal() and len(key) < 16
    }


def _list_in_text(value: Any) -> Any:
    """Return the list that a text holds; any other value as it is."""
    if not isinstance(value, str) or not value.strip().startswith("["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise _Wrong(f"the label {value!r:.80} is no list of numbers") from None


def colors_of(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the color map of an attribute that refers to a mask; empty if there is none."""
    metadata = values.get(name + METADATA)
    found = metadata.get("internal-color-map") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def _boxes(value: dict[str, Any]) -> tuple[float, ...]:
    """Width and height of the image, then class, x0, y0, x1 and y1 of each box, in pixels."""
    size, objects = value.get("image_size"), value.get("annotations")
    if isinstance(size, list) and len(size) == 1:
        size = size[0]
    if not isinstance(size, dict) or not isinstance(objects, list):
        raise _Wrong("the label is an object without 'image_size' and 'annotations'")
    width, height = (_number(size.get(side)) for side in ("width", "height"))
    if width < 1 or height < 1:
        raise _Wrong(f"the image's size is {width:g}x{height:g}")
    label = [width, height]
    for each in objects:
        if not isinstance(each, dict):
            raise _Wrong("an annotation is no object")
        number = _number(each.get("class_id"))
        left, top, across, down = (_number(each.get(name)) for name in _BOX)
        if not number.is_integer() or number < 0 or across < 0 or down < 0:
            raise _Wrong(f"an annotation is no box of a class: {json.dumps(each):.200}")
        label += [number, left, top, left + across, top + down]
    return tuple(label)


def _number(value: Any) -> float:
    number = math.nan
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        with suppress(ValueError, OverflowError):
            number = float(value)
    if not math.isfinite(number):
        raise _Wrong(f"{_shown(value)} is no number, as a label has to be")
    if number.is_integer() and abs(number) >= _LARGEST:
        raise _Wrong(f"{_shown(value)} is too large: whole numbers have to be below 2^53")
    return number


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.80}"
    except ValueError:  # a number of thousands of digits
        return "a number"


# Writing

Label: TypeAlias = int | tuple[float, ...]
Row: TypeAlias = (
    tuple[str, Label | None, str | None] | tuple[str, Label | None, str | None, Mapping[str, str]]
)
"""The path of an image, its label, the name of its class, and the paths of its other files."""

_TYPE = "groundtruth/"


def format_augmented(
    rows: Iterable[Row],
    prefix: str,
    classes: Sequence[str] | None = None,
    kind: str | None = None,
    masks: Mapping[str, Sequence[str]] = {},
) -> str:
    """Write a manifest; without a kind, the labels tell what they are.

    ``masks`` has the names of the classes whose numbers are the pixels of a mask, by its name.
    """
    # Nothing in it tells when or by whom it was made: `creation-date`, `job-name` and `confidence`
    # of Ground Truth are left out.
    rows = list(rows)
    start = prefix if not prefix or prefix.endswith("/") else prefix + "/"
    labels = [label for _, label, *_ in rows if label is not None]
    kind = _kind_of(labels, len(classes or ())) if kind is None else kind
    lines = []
    for path, label, name, *others in rows:
        values: dict[str, Any] = {SOURCE: start + path}
        for other, place in _references(others[0] if others else {}).items():
            values[other] = start + place
            # Readers of masks, ours too, leave out a label beside them.
            if label is None and (names := masks.get(other.removesuffix(REFERENCE))):
                values[other + METADATA] = {"human-annotated": "yes"} | _about_mask(names)
        if label is not None:
            try:
                value, metadata = _attribute(label, name, classes or (), kind)
            except BadSample as error:
                raise BadSample(f"{path}: {error}") from None
            values["class"] = value
            values["class" + METADATA] = {"human-annotated": "yes"} | metadata
        lines.append(json.dumps(values, ensure_ascii=False) + "\n")
    return "".join(lines)


def format_texts(
    rows: Iterable[tuple[str, Label | None, str | None]], classes: Sequence[str] | None = None
) -> str:
    """Write a manifest of texts, each with its label and the name of its class."""
    rows = list(rows)
    labels = [label for _, label, _ in rows if label is not None]
    kind = _kind_of(labels, len(classes or ()))
    lines = []
    for text, label, name in rows:
        values: dict[str, Any] = {TEXT: text}
        if label is not None:
            value, metadata = _attribute(label, name, classes or (), kind.replace("boxes", ""))
            values[LABEL] = _plain(float(value)) if isinstance(value, str) else value
            if "class-name" in metadata or metadata.get("class-map"):
                about = {"type": metadata["type"].replace("image-", "text-")}
                values[LABEL + METADATA] = {"human-annotated": "yes"} | metadata | about
        lines.append(json.dumps(values, ensure_ascii=False) + "\n")
    return "".join(lines)


def _kind_of(labels: Sequence[Label], count: int) -> str:
    """Return what labels are: boxes, a flag for each class, sets of classes, or other lists."""
    tuples = [label for label in labels if isinstance(label, tuple)]
    is_flags = all(len(each) == count and {0.0, 1.0}.issuperset(each) for each in tuples)
    if count and is_flags and len(tuples) == len(labels):
        return "flags"
    full = [label for label in tuples if not is_sized_header(label)]
    if (
        full
        and len(tuples) == len(labels)
        and all(is_detection_label(each) and in_shares(each) for each in full)
    ):
        return "boxes"
    # A list that has a number twice is none of classes.
    return "sets" if all(len(set(label)) == len(label) for label in tuples) else ""


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


def _about_mask(names: Sequence[str]) -> dict[str, Any]:
    """Return the classes of a gray mask, whose colors are their numbers."""
    colors = {
        str(number): {"class-name": name, "hex-color": f"#{number:02x}{number:02x}{number:02x}"}
        for number, name in enumerate(names)
    }
    return {"type": _TYPE + "semantic-segmentation", "internal-color-map": colors}


def _attribute(
    label: Label, class_name: str | None, classes: Sequence[str], kind: str
) -> tuple[Any, dict[str, Any]]:
    """Return the value of the attribute of a label, and its metadata."""
    numbers = label if isinstance(label, tuple) else (label,)
    if not all(map(math.isfinite, numbers)):
        raise BadSample(f"JSON has no number for a label of {label!r}")
    if kind == "boxes":
        boxes, numbers = _pixels(numbers)
        return boxes, {
            "type": _TYPE + "object-detection",
            "objects": [{"confidence": 1}] * len(numbers),
            "class-map": _named(numbers, classes),
        }
    if kind == "flags":
        numbers = tuple(number for number, flag in enumerate(numbers) if flag)
    elif len(numbers) == 1:
        is_class = float(numbers[0]).is_integer()
        metadata = {"type": _TYPE + "image-classification"} if is_class else {}
        return format_number(numbers[0]), metadata | (
            {} if class_name is None else {"class-name": class_name}
        )
    if kind and all(number >= 0 and float(number).is_integer() for number in numbers):
        class_map = _named(numbers, classes)
        return list(map(int, numbers)), {"type": MULTILABEL, "class-map": class_map}
    return list(map(_plain, numbers)), {}


def _named(numbers: Iterable[float], classes: Sequence[str]) -> dict[str, str]:
    known = sorted({int(number) for number in numbers if 0 <= number < len(classes)})
    return {str(number): classes[number] for number in known}


def _plain(number: float) -> int | float:
    return int(number) if float(number).is_integer() else number


def _pixels(label: tuple[float, ...]) -> tuple[dict[str, Any], tuple[float, ...]]:
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
    return {"image_size": [image], "annotations": annotations}, label[4::5]


def _pixel(value: float) -> int | float:
    """Return a coordinate in pixels: an int if it differs from one only by rounding."""
    whole = round(value)
    # 32-bit floats are off a whole pixel by less than this.
    return whole if abs(value - whole) < 1e-3 else round(value, 6)
