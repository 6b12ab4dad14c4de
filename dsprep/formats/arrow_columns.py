"""What the columns of a Parquet file are to a sample.

===================  ==========================================================================
column               field
===================  ==========================================================================
the images           named by the image's kind; its ``path`` is ``filename``
the labels           ``cls``, if whole numbers; else ``label``
``__key__``          none: the sample's key
string, binary       bytes of that name; ``class`` and ``filename`` are text
whole numbers, bool  ``Ints`` of one; ``cls``, ``width``, ``height`` and ``id`` are plain numbers
float, double        ``Floats`` of one, a double with all its digits unless it is to be rounded
lists of those       ``Ints``, ``Floats`` or ``Blobs``
bytes and path       ``NAME`` and ``NAME.path``: further images, and sounds
===================  ==========================================================================

A null is a field that the sample does not have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dsprep.errors import SourceError
from dsprep.formats.arrow_types import (
    FILES,
    FLOATS,
    INTEGERS,
    NOTHING,
    TEXTS,
    features_of,
    item_of,
    names_of_classes,
    own_note,
    type_text,
)

KEY = "__key__"
"""The column of keys, where they do not follow from the images' paths."""

IMAGE_NAMES = ("image", "img", "picture", "photo", "jpg", "jpeg", "png", "webp", "bytes")
"""What columns of images are called, the likeliest first."""

LABEL_NAMES = (
    *("label", "labels", "label_id", "fine_label", "cls", "class", "class_id", "class_label"),
    *("target", "category", "category_id", "y"),
)
"""What columns of labels are called, the likeliest first."""

PLAIN_NUMBERS = frozenset({"cls", "width", "height", "id"})
"""The fields that are whole numbers, rather than lists of one."""

PLAIN_TEXTS = frozenset({"class", "filename"})
"""The fields that are text, rather than bytes."""

LAST = ("class", "filename", "width", "height", "id")
"""The fields that come last in a sample, in this order."""


@dataclass(frozen=True)
class Columns:
    """What the columns of a file are. Plain data: it is pickled for the workers.

    Attributes:
        kinds: Name and type of each column that is read, in the file's order.
        image: That of the images, if there is one.
        label: That of the labels, if there is one.
        names: The classes' names by number, if the file tells them.
        numbers: The class number of each value of the labels' column, where it is another.
        rounded: Columns of 64-bit floats that are rounded to 32 bits.
    """

    kinds: tuple[tuple[str, str], ...]
    image: str | None
    label: str | None
    names: tuple[str, ...] | None = None
    numbers: Mapping[bytes | int, int] | None = None
    rounded: frozenset[str] = frozenset()

    @cached_property
    def kind_of(self) -> dict[str, str]:
        """The type of each column."""
        return dict(self.kinds)

    @cached_property
    def path_field(self) -> str:
        """The field of an image's path: another one, where a column has its usual name."""
        return f"{self.image}.path" if "filename" in self.kind_of else "filename"

    @cached_property
    def label_field(self) -> str:
        """``cls`` or ``label``."""
        kind = self.kind_of[self.label or ""]
        return "cls" if kind in INTEGERS or kind in ("bool", "string") else "label"

    @cached_property
    def fields(self) -> list[str]:
        """The columns that are fields of their own, in the order of the fields."""
        others = sorted({*self.kind_of}.difference((self.image, self.label, KEY)))
        last = [name for name in LAST if name in others]
        return [name for name in others if name not in last] + last

    def type_of(self, name: str) -> str:
        """The name of the type of values that a column's field has."""
        kind = self.kind_of[name]
        item = item_of(kind) or kind
        if kind in TEXTS and name in PLAIN_TEXTS and kind == "string":
            return "str"
        if kind in FILES or kind in TEXTS:
            return "bytes"
        if item in TEXTS:
            return "Blobs"
        if kind in INTEGERS and name in PLAIN_NUMBERS:
            return "int"
        return "Floats" if item in FLOATS else "Ints"


def choose_columns(
    schema: Any,
    source: str,
    *,
    dropped: Collection[str] = (),
    image: str | None = None,
    label: str | None = None,
) -> Columns:
    """Find out what the columns of a file are.

    Images are in the column that is given, else in one that Hugging Face notes as images, else in
    the likeliest by its name, else in the only one of bytes and paths; labels in the one given,
    else in the only one that Hugging Face notes as classes, else in the likeliest by its name. A
    file that dsprep wrote says both.

    Args:
        schema: The file's Arrow schema.
        source: The file, for messages.
        dropped: Columns that are not read.
        image: The column of images, if it is known.
        label: The column of labels, if it is known.

    Raises:
        SourceError: If a column holds what no field can hold, two have one name, or one that is
            named is not there.
    """
    fields = [each for each in schema if each.name not in dropped]
    names = [each.name for each in fields]
    for name, count in Counter(names).items():
        if count > 1:
            raise SourceError(f"{source}: two columns are called {name!r}: --drop {name}")
    features = features_of(schema)
    kinds = {each.name: type_text(each.type) for each in fields}
    for each in fields:
        if kinds[each.name] is None:
            raise SourceError(
                f"{source}: the column {each.name!r} is of the type {str(each.type)[:200]}, "
                f"which no sample can hold: --drop {each.name}"
            )
    held = {name: kind for name, kind in kinds.items() if kind is not None and kind != NOTHING}
    for name, kind in held.items():
        if kind == "image" and features.get(name, {}).get("_type") == FILES["audio"]:
            held[name] = "audio"
    for asked in filter(None, (image, label)):
        if asked not in held:
            raise SourceError(f"{source}: has no column {asked!r}; its columns are {names}")
    if held.get(KEY, "string") != "string":
        raise SourceError(f"{source}: the column {KEY!r} does not hold text: --drop {KEY}")
    own = own_note(schema)
    if own is not None:
        image, label = image or own["image"], label or own["label"]
        image, label = (name if name in held else None for name in (image, label))
    else:
        image = image or _image_column(held, features)
        label = label or _label_column(held, features, image)
    if image and held[image] not in ("image", "binary"):
        raise SourceError(f"{source}: the column {image!r} is of {held[image]}, not of images")
    if label and (label == image or not _can_label(held[label])):
        raise SourceError(f"{source}: the column {label!r} is of {held[label]}, not of labels")
    classes = names_of_classes(features.get(label or "", {}))
    chosen = Columns(tuple(held.items()), image, label, classes)
    _require_distinct(chosen, source)
    return chosen


def _image_column(
    kinds: Mapping[str, str], features: Mapping[str, Mapping[str, Any]]
) -> str | None:
    noted = [name for name in kinds if features.get(name, {}).get("_type") == FILES["image"]]
    fitting = [name for name in noted or kinds if kinds[name] in ("image", "binary")]
    known = {name.lower(): name for name in reversed(fitting)}
    likely = [known[name] for name in IMAGE_NAMES if name in known]
    structs = [name for name in fitting if kinds[name] == "image"]
    return (likely + structs + [None])[0] if likely or noted or len(structs) == 1 else None


def _label_column(
    kinds: Mapping[str, str], features: Mapping[str, Mapping[str, Any]], image: str | None
) -> str | None:
    fitting = [name for name in kinds if name != image and _can_label(kinds[name])]
    noted = [name for name in fitting if features.get(name, {}).get("_type") == "ClassLabel"]
    known = {name.lower(): name for name in reversed(noted or fitting)}
    likely = [known[name] for name in LABEL_NAMES if name in known]
    # Text is a label only where nothing else can be one.
    numbers = [name for name in likely if kinds[name] != "string"]
    return (noted if len(noted) == 1 else numbers + likely + [None])[0]


def _can_label(kind: str) -> bool:
    item = item_of(kind) or kind
    return item in INTEGERS or item in FLOATS or kind in ("bool", "string")


def _require_distinct(columns: Columns, source: str) -> None:
    """Refuse two columns that would be one field."""
    found: dict[str, str] = {columns.label_field: columns.label} if columns.label else {}
    for name in columns.fields:
        split = columns.kind_of[name] in FILES
        for field in (name, f"{name}.path") if split else (name,):
            if field in found:
                raise SourceError(
                    f"{source}: the columns {found[field]!r} and {name!r} would both be the field "
                    f"{field!r}: --drop one of them"
                )
            found[field] = name
