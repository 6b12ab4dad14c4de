"""What a schema is: the fields of a data set, their types, and where samples have them.

A new type of a field is one line of :data:`TYPES`; formats go by its attributes.
"""

from __future__ import annotations

import base64
import json
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

from dsprep.annotations import hugging_face, mxnet
from dsprep.annotations.objects import Objects, to_objects
from dsprep.frozen import Frozen
from dsprep.images.pixels import RAW, RAW_CHW
from dsprep.sample import IMAGE_EXTENSIONS, Blobs, Value
from dsprep.tuples import NamedTuple
from dsprep.units import is_text, quoted


class Type(NamedTuple):
    """A type of fields."""

    name: str
    what: str  # what users call a value
    # makes a typed value of a raw one; None for a missing value. Raises ValueError.
    convert: Callable[[Value], Value | None]
    of: type  # the Python type of a value, or of the items of a list
    dtype: str  # Arrow's name of a value or an item, which Hugging Face uses, too
    bits: int = 64  # of a float
    is_list: bool = False

    @property
    def item(self) -> Type:
        """The type of the items of a list; any other type itself."""
        return TYPES[self.name[len("list<") : -1]] if self.is_list else self

    @property
    def is_number(self) -> bool:
        return self.of in (int, bool, float)

    @property
    def is_integer(self) -> bool:
        """Whether a value is one whole number: a class, a bool or an int."""
        return self.of in (int, bool) and not self.is_list

    @property
    def is_bytes(self) -> bool:
        """Whether a value is one string of bytes: an image, JSON or any other."""
        return self.of is bytes and not self.is_list

    @property
    def is_image(self) -> bool:
        """Whether a value is an encoded image, also one that is a mask."""
        return self.name in ("image", "mask")

    @property
    def is_raw(self) -> bool:
        """Whether a value is bare pixels."""
        return self.name in (RAW, RAW_CHW)

    @property
    def is_label(self) -> bool:
        return self.is_number or self.name == "text"

    @property
    def code(self) -> str:
        """The letter that :mod:`struct` has for numbers of this type; empty for other types."""
        return {int: "q", bool: "q", float: "f" if self.bits == 32 else "d"}.get(self.of, "")


def single(value: Value) -> Value | None:
    """Return the one item of a raw list, or None if it is empty."""
    if isinstance(value, tuple | list):
        if len(value) > 1:
            raise ValueError
        return value[0] if value else None
    return value


def _to_bytes(value: Value) -> bytes | None:
    if type(value) is bytes:
        return value
    value = single(value)
    if isinstance(value, str):
        return value.encode()
    if value is not None and not isinstance(value, bytes):
        raise ValueError
    return value


def to_text(value: Value) -> str | None:
    """Make text of a raw value."""
    value = single(value)
    if isinstance(value, bytes):
        return value.decode()
    if value is not None and not isinstance(value, str):
        raise ValueError
    return value


def _to_json(value: Value) -> bytes | None:
    def in_base_64(value: Value) -> str:
        if not isinstance(value, bytes):
            raise ValueError
        return base64.b64encode(value).decode()

    if isinstance(value, dict | list) or (isinstance(value, tuple) and type(value) is not Blobs):
        return json.dumps(
            value, ensure_ascii=False, separators=(",", ":"), default=in_base_64
        ).encode()
    data = _to_bytes(value)
    if data is not None:
        json.loads(data)
    return data


def _to_number(value: Value) -> int | float | None:
    value = single(value)
    if isinstance(value, bytes | str):
        value = single(parse_label(value))
    if value is not None and not isinstance(value, int | float):
        raise ValueError
    return value


def to_int(value: Value) -> int | None:
    """Make a whole number of a raw value."""
    # fast path: most columns hold int values
    number = value if type(value) is int else _to_number(value)
    if number is None:
        return None
    # Not "in range": that goes through all its numbers to find a float.
    if not -(1 << 63) <= number < 1 << 63 or number != int(number):
        raise ValueError
    return int(number)


def _to_bool(value: Value) -> bool | None:
    value = single(value)
    text = value.decode() if isinstance(value, bytes) else value
    if isinstance(text, str) and text.lower() in ("true", "false"):
        return text.lower() == "true"
    number = _to_number(value)
    if number not in (None, 0, 1):
        raise ValueError
    return None if number is None else bool(number)


def _to_float64(value: Value) -> float | None:
    if type(value) is float:  # fast path for float values: a third of the time of converting a row
        return value
    number = _to_number(value)
    if isinstance(number, int) and float(number) != number:
        raise ValueError
    return None if number is None else float(number)


def _to_float32(value: Value) -> float | None:
    number = _to_number(value)
    if number is None:
        return None
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        raise ValueError from None
    # A fraction may be rounded; a whole number that changes would be another class or id.
    if rounded != number and number % 1 == 0:
        raise ValueError
    return rounded


def _are_exact(values: tuple[Value, ...], item: Callable[[Value], Value | None]) -> bool:
    """Whether the items of a list need no conversion, as those of embeddings: many at once."""
    kinds = set(map(type, values))
    if kinds == {int} and item is to_int:
        return bool(min(values) >= -(1 << 63) and max(values) < 1 << 63)
    if kinds != {float} or item is not _to_float32:
        return kinds == {float} and item is _to_float64
    layout = f"<{len(values)}f"
    try:
        return bool(struct.unpack(layout, struct.pack(layout, *values)) == values)
    except OverflowError:
        return False


def _to_objects(value: Value) -> Objects | None:
    if isinstance(value, Objects):
        return value
    if isinstance(value, tuple) and len(value) > 1:
        return mxnet.parse(value)
    return hugging_face.parse(value) if hugging_face.has_form(value) else to_objects(value)


def _to_list(item: Callable[[Value], Value | None], value: Value) -> tuple[Value, ...] | None:
    are_texts = item is to_text or item is _to_bytes
    if type(value) is Blobs and len(value) == 1 and not are_texts:
        value = value[0]
    if isinstance(value, bytes | str):
        value = (value,) if are_texts else parse_label(value)
    if value is None:
        return None
    values = tuple(value) if isinstance(value, tuple | list) else (value,)
    if _are_exact(values, item):
        return values
    items = tuple(map(item, values))
    if None in items:
        raise ValueError
    return items


_SCALARS = (
    Type("image", "an encoded image", _to_bytes, bytes, "binary"),
    Type("class", "a class number", to_int, int, "int64"),
    Type("bool", "true or false", _to_bool, bool, "bool"),
    Type("int", "a whole number from -2^63 to 2^63-1", to_int, int, "int64"),
    Type("float32", "a 32-bit float", _to_float32, float, "float32", bits=32),
    Type("float64", "a 64-bit float", _to_float64, float, "float64"),
    Type("text", "UTF-8 text", to_text, str, "string"),
    Type("json", "JSON", _to_json, bytes, "string"),
    Type("bytes", "bytes", _to_bytes, bytes, "binary"),
    Type("mask", "an image of class numbers", _to_bytes, bytes, "binary"),
    Type("objects", "boxes and their classes", _to_objects, Objects, "struct"),
    Type(RAW, "bare pixels", _to_bytes, bytes, "binary"),
    Type(RAW_CHW, "bare planes of pixels", _to_bytes, bytes, "binary"),
)
TYPES: Mapping[str, Type] = {each.name: each for each in _SCALARS} | {
    f"list<{each.name}>": each._replace(
        name=f"list<{each.name}>",
        what=f"a list in which each item is {each.what}",
        convert=partial(_to_list, each.convert),
        is_list=True,
    )
    for each in _SCALARS
    if each.name in ("int", "float32", "float64", "text", "bytes")
}

_WIDER = {
    frozenset({"class", "int"}): "class",
    frozenset({"bool", "int"}): "int",
    frozenset({"class", "float32"}): "float32",
    frozenset({"class", "float64"}): "float64",
    frozenset({"int", "float32"}): "float32",
    frozenset({"int", "float64"}): "float64",
    frozenset({"float32", "float64"}): "float64",
    frozenset({"text", "bytes"}): "bytes",
    frozenset({"text", "json"}): "text",
    frozenset({"image", "bytes"}): "bytes",
}


def join(one: str, other: str) -> str | None:
    """Return the type that holds the values of two types; None if there is none."""
    if one == other:
        return one
    items = frozenset({TYPES[one].item.name, TYPES[other].item.name})
    # some labels are boxes and others are not
    if items in ({"objects", "float32"}, {"objects", "class"}):
        return "list<float32>"
    joined = next(iter(items)) if len(items) == 1 else _WIDER.get(items)
    if joined is None or "list" not in one + other:
        return joined
    joined = "int" if joined in ("class", "bool") else joined
    return f"list<{joined}>" if f"list<{joined}>" in TYPES else None


def parse_label(data: bytes | str) -> int | float | str | list[Any]:
    """Return the number, the numbers, or the name that the text of a label says."""
    # `3\n` and ` 3 ` are 3, as webdataset's `int(data)` reads them.
    text = (data.decode() if isinstance(data, bytes) else data).strip()
    if not text:
        raise ValueError("is empty")
    try:
        return int(text)
    except ValueError:
        pass
    if text[0] in "[-+.0123456789" or text in ("NaN", "Infinity"):
        try:
            found = json.loads(text) if text[0] == "[" else float(text)
        except (ValueError, RecursionError):
            return text
        if isinstance(found, float) or all(type(each) in (int, float) for each in found):
            return found
    return text


# where a value lies in a raw sample: a raw name and, for a part of JSON, the names below it
Place: TypeAlias = tuple[str, ...]
IMAGE, LABEL = "image", "label"  # names of the two roles, which users may use for the fields
# fields that follow from the image, and their types: made again after a transform, else carried
# where they fit
FACTS: Mapping[str, str] = dict.fromkeys(("width", "height", "channels"), "int") | dict.fromkeys(
    ("colorspace", "format", "sha256"), "text"
)


class Field(Frozen):
    """A field of a data set."""

    name: str
    type: str  # one of `TYPES`
    missing: bool = False  # whether samples may lack it
    names: tuple[str, ...] = ()  # the names of its classes, by number; empty if they have none
    places: tuple[Place, ...] = ()  # where raw samples have it; a sample has it in one of these
    told: str = ""  # what told its type, for reports
    given: bool = False  # whether the user chose its name, which then holds in any format
    exact: bool = False  # whether this name is the whole name of its file, nothing added to it
    fact: str = ""  # which fact of the image it tells, if it has another name or the user asked
    width: int = 0  # the length of its list in the first sample; 0 if that is not known
    # the ids that the source of objects gives to classes, by number; empty if it gives none
    ids: tuple[int, ...] = ()
    # whether some objects may have a flag by which they are not like others: crowd, difficult
    flags: bool = False
    why: str = field(default="", compare=False)  # which rule found it, for a dry run

    @property
    def kind(self) -> Type:
        return TYPES[self.type]

    @property
    def told_by(self) -> str:
        """What told its type: the manifest if nothing else did."""
        return self.told or "the manifest"

    @property
    def tells(self) -> str:
        """The fact of the image that it tells; empty if it tells none."""
        return self.fact or (self.name if self.name in FACTS else "")

    def class_id(self, number: int) -> int:
        return self.ids[number] if number < len(self.ids) else number + 1

    def class_name(self, number: int) -> str | None:
        return self.names[number] if 0 <= number < len(self.names) else None

    def to_json(self) -> dict[str, Any]:
        places = [list(place) for place in self.places]
        values: dict[str, Any] = {"name": self.name, "type": self.type, "missing": self.missing}
        values |= {"names": list(self.names), "places": places, "ids": list(self.ids)}
        values |= {"flags": self.flags, "fact": self.fact}
        return {name: value for name, value in values.items() if value}


class Schema(Frozen):
    """The fields of a data set."""

    fields: tuple[Field, ...]  # they, in their order
    image: str | None = None  # the name of the field that is the image; None if there is none
    label: str | None = None  # the name of the field that is the label, likewise
    format: str = ""  # the name of the format that the places are of; empty if they are of none

    @cached_property
    def by_name(self) -> Mapping[str, Field]:
        return {each.name: each for each in self.fields}

    @cached_property
    def by_place(self) -> Mapping[Place, Field]:
        return {place: each for each in self.fields for place in each.places}

    @property
    def label_field(self) -> Field | None:
        return self.by_name[self.label] if self.label else None

    @property
    def image_field(self) -> Field | None:
        return self.by_name[self.image] if self.image else None

    @property
    def objects(self) -> Field | None:
        """The field with the objects of images; None if there is none."""
        return next((each for each in self.fields if each.type == "objects"), None)

    @property
    def has_texts(self) -> bool:
        """Whether a field other than the label is text, or a list of texts."""
        return any(each.type in ("text", "list<text>") for each in self.others)

    @property
    def has_masks(self) -> bool:
        """Whether a field is the mask of an image."""
        return any(each.type == "mask" for each in self.fields)

    @property
    def others(self) -> Iterator[Field]:
        return (each for each in self.fields if each.name not in (self.image, self.label))

    def named(self, name: str) -> Field | None:
        """Return the field that a user means: by its name, its role, or its place; None if none."""
        role = {IMAGE: self.image, LABEL: self.label}.get(name)
        found = self.by_name.get(name) or self.by_name.get(role or "")
        stem, dot, last = name.rpartition(".")
        kind = "*" if last.lower() in IMAGE_EXTENSIONS else last.lower()
        places = (name, name.lower(), f"{stem}{dot}{kind}")  # any kind of image is one place
        return found or next(filter(None, (self.by_place.get((each,)) for each in places)), None)

    def with_field(self, changed: Field) -> Schema:
        """Return the schema with another field in the place of the one of its name, or added."""
        if changed.name not in self.by_name:
            return replace(self, fields=(*self.fields, changed))
        fields = (changed if each.name == changed.name else each for each in self.fields)
        return replace(self, fields=tuple(fields))

    def with_names(self, names: Sequence[str]) -> Schema:
        """Return the schema with names of the label's classes."""
        label = self.label_field
        return self if label is None else self.with_field(replace(label, names=tuple(names)))

    def to_json(self) -> dict[str, Any]:
        """Return the schema as ``--schema-out`` writes it and a manifest holds it."""
        fields = [each.to_json() for each in self.fields]
        return {"fields": fields, "image": self.image, "label": self.label, "format": self.format}

    @classmethod
    def from_json(cls, values: Any) -> Schema:
        """Read a schema, which may come from anywhere."""
        if not isinstance(values, dict) or not isinstance(values.get("fields"), list):
            raise ValueError("it has no list of fields")
        fields = tuple(map(_field, values["fields"]))
        names = [each.name for each in fields]
        for name, count in Counter(names).most_common(1):
            if count > 1:
                raise ValueError(f"two fields are called {quoted(name)}")
        for role in (IMAGE, LABEL):
            if values.get(role) not in (None, *names):
                raise ValueError(f"its {role} {values[role]!r} is none of its fields")
        schema = cls(fields, values.get(IMAGE), values.get(LABEL), str(values.get("format") or ""))
        image = schema.image_field
        if image is not None and not (image.type == "image" or image.kind.is_raw):
            raise ValueError(f"its image {schema.image!r} is of the type {image.type}")
        return schema


def _field(values: Any) -> Field:
    try:
        name, kind = values["name"], values["type"]
    except (TypeError, KeyError):
        raise ValueError("a field needs a name and a type") from None
    names, places, ids = (values.get(key, []) for key in ("names", "places", "ids"))
    inner = places if isinstance(places, list) else []
    if not all(isinstance(each, list) for each in (names, places, ids, *inner)):
        raise ValueError(f"the field {quoted(name)}: names, places and ids are lists")
    texts = [name, *names, *(part for place in places for part in place)]
    if not isinstance(kind, str) or kind not in TYPES:
        raise ValueError(f"the type {quoted(kind)} is unknown; types are {', '.join(TYPES)}")
    if not name or not all(map(is_text, texts)) or not all(places):
        raise ValueError(f"the field {quoted(name)} has a name or a place that is no text")
    if len(set(filter(None, names))) < len(list(filter(None, names))):
        raise ValueError(f"two classes of the field {quoted(name)} have one name")
    missing = values.get("missing", False)
    if not isinstance(missing, bool):
        raise ValueError(f"the field {quoted(name)}: missing is true or false")
    if ids and (len(ids) != len(names) or {*map(type, ids)} != {int} or len({*ids}) < len(ids)):
        raise ValueError(f"the field {quoted(name)} needs an id of its own for each class")
    flags, fact = values.get("flags") is True, values.get("fact", "")
    if fact not in ("", *FACTS) or (fact and kind != FACTS[fact]):
        raise ValueError(f"the field {quoted(name)} tells no fact of an image")
    places, ids = tuple(map(tuple, places)), tuple(ids)
    return Field(name, kind, missing, tuple(names), places, ids=ids, flags=flags, fact=fact)
