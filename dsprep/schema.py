"""The schema: which fields the samples of a data set have, of which types, under which names.

A data set has one schema, and each of its samples has its fields. A *raw* sample has the names and
values that lie in a source; a *typed* sample has those of the schema. :func:`observe` looks at raw
samples, :func:`settle` makes a schema of what it found and of what the source says of itself, and a
:class:`Reading` makes typed samples of raw ones. What a raw name means is each format's own table
(:meth:`dsprep.formats.base.Format.meaning`).

=============  ================================================================================
type           value
=============  ================================================================================
``image``      encoded bytes; the kind of image is a property of the value
``class``      a class number; its names are a property of the field
``bool``       True or False
``int``        a whole number of 64 bits with a sign
``float32``    a float that 32 bits hold
``float64``    any other float
``text``       text
``json``       UTF-8 bytes that JSON parsers read
``bytes``      any other bytes
``list<...>``  a list of one of ``int``, ``float32``, ``float64``, ``text``, ``bytes``
=============  ================================================================================

This module runs in workers, on every sample, and so imports neither polars nor Pillow.
"""

from __future__ import annotations

import base64
import json
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from dsprep.errors import BadImage, Misfit, OptionError, SourceError
from dsprep.images.header import read_header
from dsprep.sample import IMAGE_EXTENSIONS, Blobs, Floats, Ints, Sample, Value
from dsprep.units import format_count, format_some, quoted

Place: TypeAlias = tuple[str, ...]
"""Where a value lies in a raw sample: a raw name and, for a part of JSON, the names below it."""

IMAGE, LABEL = "image", "label"
"""The roles, and what users may call the fields that have them."""

FACTS = frozenset({"width", "height", "channels", "colorspace", "format", "sha256"})
"""Fields that follow from the image: made again after a transform, else carried where they fit."""

IMAGE_NAMES = (
    *("image", "img", "picture", "photo", "jpg", "jpeg", "png", "webp", "bytes", "image_raw"),
    *("rgb", "0"),
)
"""Conventional names of the image among several, the likeliest first."""

PIXEL_SIZES = (("height",), ("width",), ("depth", "channels"))
"""Conventional names of the sizes that stand beside bare pixels, in the order of rows of pixels."""

LABEL_NAMES = (
    *("label", "labels", "label_id", "fine_label", "cls", "class", "class_id", "class_label"),
    *("target", "category", "category_id", "y"),
)
"""Conventional names of the label, the likeliest first."""

LABEL_TYPES = ("class", "multi", "float", "text")
"""What ``--label-type`` takes."""

LABEL_TEXT = "label text"
"""In a :class:`Meaning`: the type shows in a text, which holds a number, numbers, or a name."""

LABEL_FLOATS = "label floats"
"""In a :class:`Meaning`: floats may hold the label, which is a class if it is one whole number."""

_SHOWN = 60


# Types


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
        """Whether values are numbers or lists of numbers."""
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
    def is_label(self) -> bool:
        """Whether a label may be of this type."""
        return self.is_number or self.name == "text"

    @property
    def code(self) -> str:
        """The letter that :mod:`struct` has for numbers of this type; empty for other types."""
        return {int: "q", bool: "q", float: "f" if self.bits == 32 else "d"}.get(self.of, "")


def _single(value: Value) -> Value | None:
    """Return the one item of a raw list, or None if it is empty."""
    if isinstance(value, tuple | list):
        if len(value) > 1:
            raise ValueError
        return value[0] if value else None
    return value


def _to_bytes(value: Value) -> bytes | None:
    value = _single(value)
    if isinstance(value, str):
        return value.encode()
    if value is not None and not isinstance(value, bytes):
        raise ValueError
    return value


def _to_text(value: Value) -> str | None:
    value = _single(value)
    if isinstance(value, bytes):
        return value.decode()
    if value is not None and not isinstance(value, str):
        raise ValueError
    return value


def _to_json(value: Value) -> bytes | None:
    if isinstance(value, dict | list) or (isinstance(value, tuple) and type(value) is not Blobs):
        return json.dumps(
            value, ensure_ascii=False, separators=(",", ":"), default=_in_base_64
        ).encode()
    data = _to_bytes(value)
    if data is not None:
        json.loads(data)
    return data


def _in_base_64(value: Value) -> str:
    if not isinstance(value, bytes):
        raise ValueError
    return base64.b64encode(value).decode()


def _to_number(value: Value) -> int | float | None:
    value = _single(value)
    if isinstance(value, bytes | str):
        value = _single(parse_label(value))
    if value is not None and not isinstance(value, int | float):
        raise ValueError
    return value


def _to_int(value: Value) -> int | None:
    number = _to_number(value)
    if number is None:
        return None
    # Not "in range": that goes through all its numbers to find a float.
    if not -(1 << 63) <= number < 1 << 63 or number != int(number):
        raise ValueError
    return int(number)


def _to_bool(value: Value) -> bool | None:
    number = _to_number(value)
    if number not in (None, 0, 1):
        raise ValueError
    return None if number is None else bool(number)


def _to_float64(value: Value) -> float | None:
    number = _to_number(value)
    if number is None:
        return None
    held = float(number)
    if isinstance(number, int) and held != number:
        raise ValueError
    return held


def _to_float32(value: Value) -> float | None:
    number = _to_number(value)
    if number is None:
        return None
    try:
        held: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        raise ValueError from None
    # A fraction may be rounded; a whole number that changes would be another class or id.
    if held != number and (isinstance(number, int) or number.is_integer()):
        raise ValueError
    return held


def _are_exact(values: tuple[Value, ...], item: Callable[[Value], Value | None]) -> bool:
    """Whether the items of a list need no conversion, as those of embeddings: many at once."""
    kinds = set(map(type, values))
    if kinds == {int} and item is _to_int:
        return bool(min(values) >= -(1 << 63) and max(values) < 1 << 63)
    if kinds != {float} or item is not _to_float32:
        return kinds == {float} and item is _to_float64
    layout = f"<{len(values)}f"
    try:
        return bool(struct.unpack(layout, struct.pack(layout, *values)) == values)
    except OverflowError:
        return False


def _to_list(item: Callable[[Value], Value | None], value: Value) -> tuple[Value, ...] | None:
    if isinstance(value, bytes | str):
        value = parse_label(value) if item is not _to_text and item is not _to_bytes else (value,)
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
    Type("class", "a class number", _to_int, int, "int64"),
    Type("bool", "true or false", _to_bool, bool, "bool"),
    Type("int", "a whole number from -2^63 to 2^63-1", _to_int, int, "int64"),
    Type("float32", "a 32-bit float", _to_float32, float, "float32", bits=32),
    Type("float64", "a 64-bit float", _to_float64, float, "float64"),
    Type("text", "UTF-8 text", _to_text, str, "string"),
    Type("json", "JSON", _to_json, bytes, "string"),
    Type("bytes", "bytes", _to_bytes, bytes, "binary"),
)
_ITEMS = ("int", "float32", "float64", "text", "bytes")
TYPES: Mapping[str, Type] = {each.name: each for each in _SCALARS} | {
    f"list<{each.name}>": each._replace(
        name=f"list<{each.name}>",
        what=f"a list in which each item is {each.what}",
        convert=partial(_to_list, each.convert),
        is_list=True,
    )
    for each in _SCALARS
    if each.name in _ITEMS
}
"""Every type by its name."""


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
    joined = next(iter(items)) if len(items) == 1 else _WIDER.get(items)
    if joined is None or "list" not in one + other:
        return joined
    joined = "int" if joined in ("class", "bool") else joined
    return f"list<{joined}>" if joined in _ITEMS else None


def parse_label(data: bytes | str) -> int | float | str | list[Any]:
    r"""Return the number, the numbers, or the name that the text of a label says.

    ``3\n`` and `` 3 `` are 3, as webdataset's ``int(data)`` reads them.
    """
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


# What a schema is


@dataclass(frozen=True)
class Field:
    """A field of a data set."""

    name: str  # its name
    type: str  # one of :data:`TYPES`
    missing: bool = False  # whether samples may lack it
    names: tuple[str, ...] = ()  # the names of its classes, by number; empty if they have none
    places: tuple[Place, ...] = ()  # where raw samples have it; a sample has it in one of these
    told: str = ""  # what told its type, for reports
    given: bool = False  # whether the user chose its name, which then holds in any format
    width: int = 0  # the length of its list in the first sample; 0 if that is not known

    @property
    def kind(self) -> Type:
        """Its type."""
        return TYPES[self.type]

    def to_json(self) -> dict[str, Any]:
        """Return the field as JSON has it."""
        values: dict[str, Any] = {"name": self.name, "type": self.type}
        if self.missing:
            values["missing"] = True
        if self.names:
            values["names"] = list(self.names)
        if self.places:
            values["places"] = [list(place) for place in self.places]
        return values


@dataclass(frozen=True)
class Schema:
    """The fields of a data set."""

    fields: tuple[Field, ...]  # they, in their order
    image: str | None = None  # the name of the field that is the image; None if there is none
    label: str | None = None  # the name of the field that is the label, likewise
    format: str = ""  # the name of the format that the places are of; empty if they are of none

    @cached_property
    def by_name(self) -> Mapping[str, Field]:
        """The fields by name."""
        return {each.name: each for each in self.fields}

    @cached_property
    def by_place(self) -> Mapping[Place, Field]:
        """The fields by place."""
        return {place: each for each in self.fields for place in each.places}

    @property
    def label_field(self) -> Field | None:
        """The label."""
        return self.by_name[self.label] if self.label else None

    @property
    def image_field(self) -> Field | None:
        """The image."""
        return self.by_name[self.image] if self.image else None

    @property
    def others(self) -> Iterator[Field]:
        """The fields that are neither the image nor the label."""
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
        return replace(
            self,
            fields=tuple(changed if each.name == changed.name else each for each in self.fields),
        )

    def with_names(self, names: Sequence[str]) -> Schema:
        """Return the schema with names of the label's classes."""
        label = self.label_field
        return self if label is None else self.with_field(replace(label, names=tuple(names)))

    def to_json(self) -> dict[str, Any]:
        """Return the schema as ``--schema-out`` writes it and a manifest holds it."""
        return {
            "fields": [each.to_json() for each in self.fields],
            "image": self.image,
            "label": self.label,
            "format": self.format,
        }

    @classmethod
    def from_json(cls, values: Any) -> Schema:
        """Read a schema, which may come from anywhere."""
        if not isinstance(values, dict) or not isinstance(values.get("fields"), list):
            raise ValueError("it has no list of fields")
        fields = tuple(map(_field, values["fields"]))
        names = [each.name for each in fields]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two fields are called {name!r}")
        for role in (IMAGE, LABEL):
            if values.get(role) not in (None, *names):
                raise ValueError(f"its {role} {values[role]!r} is none of its fields")
        schema = cls(fields, values.get(IMAGE), values.get(LABEL), str(values.get("format") or ""))
        if schema.image_field is not None and schema.image_field.type != "image":
            raise ValueError(f"its image {schema.image!r} is of the type {schema.image_field.type}")
        return schema


def _field(values: Any) -> Field:
    try:
        name, kind = values["name"], values["type"]
        names, places = values.get("names", []), values.get("places", [])
        texts = [name, *names, *(part for place in places for part in place)]
    except (TypeError, KeyError, AttributeError):
        raise ValueError("a field needs a name and a type") from None
    if kind not in TYPES:
        raise ValueError(f"the type {quoted(kind)} is unknown; types are {', '.join(TYPES)}")
    if not name or not all(isinstance(text, str) for text in texts) or not all(places):
        raise ValueError(f"the field {quoted(name)} has a name or a place that is no text")
    if len(set(filter(None, names))) < len(list(filter(None, names))):
        raise ValueError(f"two classes of the field {quoted(name)} have one name")
    missing = values.get("missing", False)
    if not isinstance(missing, bool):
        raise ValueError(f"the field {quoted(name)}: missing is true or false")
    return Field(name, kind, missing, tuple(names), tuple(map(tuple, places)))


# Looking at samples


class Meaning(NamedTuple):
    """What a raw name means in a format."""

    field: str  # the name of the field; empty for what is no field: bookkeeping
    # its type, :data:`LABEL_TEXT`, :data:`LABEL_FLOATS`, or None if its values tell
    type: str | None = None
    role: str = ""  # :data:`IMAGE`, :data:`LABEL`, or empty if the name says nothing of it


class Table(Protocol):
    """What a format says of raw names."""

    @property
    def name(self) -> str:
        """The name of the format."""

    def place_of(self, raw: str) -> str:
        """Return the place that a raw name stands for: several names may be one place."""

    def meaning(self, place: str) -> Meaning:
        """Return what a place means."""


@dataclass
class Seen:
    """What samples of a look have at a place."""

    count: int = 0  # how many samples have it
    # the types of values, each with the first sample and its value, for messages
    kinds: dict[str, tuple[str, str]] = field(default_factory=dict)
    width: int = 0  # the length of the first list


@dataclass
class Observed:
    """What a look at samples found. Plain data: workers return it."""

    samples: int = 0  # how many samples were looked at
    # what they have, by place, in the order of the first appearance
    places: dict[Place, Seen] = field(default_factory=dict)
    # places that stand for several raw names of one sample
    together: set[str] = field(default_factory=set)

    def add(self, other: Observed) -> None:
        """Add what was found in later samples."""
        self.samples += other.samples
        self.together |= other.together
        for place, seen in other.places.items():
            own = self.places.setdefault(place, Seen())
            own.count += seen.count
            own.width = own.width or seen.width
            for kind, example in seen.kinds.items():
                own.kinds.setdefault(kind, example)


def observe(samples: Iterable[Sample], table: Table, choice: Choice) -> Observed:
    """Look at raw samples."""
    found = Observed()
    hints: dict[str, str | None] = {}
    for sample in samples:
        found.samples += 1
        names = Counter(map(table.place_of, sample.fields))
        found.together.update(name for name, count in names.items() if count > 1)
        for raw, value in sample.fields.items():
            # Whether a place stands for one raw name or more shows when all samples are seen.
            for name in dict.fromkeys((raw, table.place_of(raw))):
                if name not in hints:
                    meaning = table.meaning(name)
                    is_label = choice.label in (name, meaning.field) and choice.label is not None
                    is_label = is_label and meaning.role != LABEL
                    hint = LABEL_TEXT if is_label else meaning.type
                    is_text = hint == LABEL_TEXT and choice.label_type == "text"
                    hints[name] = "text" if is_text else hint
                _see(found, (name,), value, hints[name], sample.key)
        for path in dict.fromkeys((*choice.paths, *choice.schema_paths)):
            if (value := _part_of(sample.fields, path)) is not None:
                _see(found, path, value, LABEL_TEXT, sample.key)
    return found


def _see(found: Observed, place: Place, value: Value, hint: str | None, key: str) -> None:
    seen = found.places.setdefault(place, Seen())
    kind = type_of(value, hint)
    if kind:
        seen.count += 1
        seen.kinds.setdefault(kind, (key, shown(value)))
        if not seen.width and kind.startswith("list<"):
            items: Any = parse_label(value) if isinstance(value, bytes | str) else value
            seen.width = len(items)


def _part_of(fields: Mapping[str, Value], path: Place) -> Value | None:
    """Return the part of a raw JSON value at a path; None if there is none."""
    value = fields.get(path[0])
    value = value[0] if isinstance(value, tuple | list) and len(value) == 1 else value
    if isinstance(value, bytes | str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    for name in path[1:]:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def type_of(value: Value, hint: str | None = None) -> str:
    """Return the type of a raw value; the empty string if it is a missing one."""
    if value is None or (isinstance(value, tuple | list) and not value):
        return ""
    if hint == LABEL_TEXT:
        return _label_type(value)
    if hint == LABEL_FLOATS:
        kind = type_of(value).replace("float64", "float32")
        number = value[0] if isinstance(value, tuple) else value
        return "class" if kind in ("int", "float32") and number % 1 == 0 else kind
    if hint is not None:
        return hint
    if isinstance(value, Ints | Floats):
        item = "int" if isinstance(value, Ints) else "float32"
        return item if len(value) == 1 else f"list<{item}>"
    if isinstance(value, Blobs):
        kinds = {_type_of_bytes(each) for each in value}
        if len(value) == 1:
            return kinds.pop()
        return "list<text>" if kinds == {"text"} else "list<bytes>"
    if isinstance(value, bytes):
        return "bytes" if not is_image(value) else "image"
    if isinstance(value, tuple | list):
        kinds = {type_of(each) for each in value}
        joined = kinds.pop() if len(kinds) == 1 else ""
        joined = "float64" if kinds == {"int", "float64"} else joined
        return f"list<{joined}>" if joined in _ITEMS else "json"
    plain = {bool: "bool", int: "int", float: "float64", str: "text"}
    return plain.get(type(value), "json")


def _label_type(value: Value) -> str:
    if isinstance(value, bytes | str):
        try:
            value = parse_label(value)
        except ValueError:
            return "bytes"
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    kind = type_of(value) if not _is_object(value) else "json"
    kind = kind.replace("float64", "float32")  # labels are 32-bit floats in most formats
    return "class" if kind == "int" else kind


def _is_object(text: Value) -> bool:
    try:
        return isinstance(text, str) and text[:1] == "{" and isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _type_of_bytes(data: bytes) -> str:
    if is_image(data):
        return "image"
    try:
        return "bytes" if "\0" in data.decode() else "text"
    except UnicodeDecodeError:
        return "bytes"


def is_image(data: bytes) -> bool:
    """Return whether bytes are an encoded image: their whole header parses."""
    try:
        read_header(data)
    except BadImage:
        return False
    return True


def shown(value: Value) -> str:
    """Return a value as messages quote it."""
    if isinstance(value, Blobs | Ints | Floats) and len(value) == 1:
        value = value[0]
    if isinstance(value, bytes) and len(value) > _SHOWN:
        return f"{len(value):,} bytes"
    return quoted(value, _SHOWN)


# Settling the schema


@dataclass(frozen=True)
class Choice:
    """What the user says of the fields."""

    image: str | None = None  # the field that is the image
    # the field that is the label; `json.label` is a part of the field `json`
    label: str | None = None
    label_type: str | None = None  # one of :data:`LABEL_TYPES`
    only: tuple[str, ...] = ()  # the fields to keep; empty for all
    drop: tuple[str, ...] = ()  # the fields to leave out
    rename: Mapping[str, str] = field(default_factory=dict)  # new names by old ones
    schema: Schema | None = None  # the schema, which then is not settled by a look
    look_all: bool = False  # whether all samples are looked at
    no_image: bool = False  # whether samples need no image
    unlabeled: bool = False  # whether no field is the label, as the schema says

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if both := set(self.only) & set(self.drop):
            raise OptionError(f"--only and --drop: {', '.join(sorted(both))} is in both")
        if len(set(self.rename.values())) < len(self.rename):
            raise OptionError("--rename gives two fields the same name")
        if self.label_type not in (None, *LABEL_TYPES):
            raise OptionError(
                f"--label-type {self.label_type}: choose one of {', '.join(LABEL_TYPES)}"
            )

    @property
    def paths(self) -> tuple[Place, ...]:
        """The parts of JSON that the label's name may mean."""
        parts = (self.label or "").split(".")
        return tuple((".".join(parts[:at]), *parts[at:]) for at in range(1, len(parts)))

    @property
    def schema_paths(self) -> tuple[Place, ...]:
        """The parts of JSON that fields of the given schema are."""
        return tuple(place for place in (self.schema.by_place if self.schema else ()) if place[1:])

    def options(self) -> dict[str, Any]:
        """Return the choice as a manifest records it: what the schema does not tell."""
        told = {"only": sorted(self.only), "drop": sorted(self.drop), "rename": dict(self.rename)}
        return {name: value for name, value in told.items() if value}


class Settled(NamedTuple):
    """A schema, and how it came about."""

    schema: Schema  # the schema
    ignored: frozenset[str] = frozenset()  # the raw names that are left out
    notes: tuple[str, ...] = ()  # what there is to say, a line each
    counts: Mapping[str, int] = {}  # how many samples of the look have each field
    samples: int = 0  # how many samples were looked at


def settle(
    observed: Observed, table: Table, choice: Choice, source: str, told: Schema | None = None
) -> Settled:
    """Settle the schema of a source."""
    told = choice.schema or told or Schema(())
    seen = _exact(observed, table)
    taken: dict[str, Field] = {}
    ignored: set[str] = set()
    roles: dict[str, str] = {}
    parted = {place[0] for place in told.by_place if len(place) > 1}
    for place, had in seen.items():
        raw, is_part = place[0], len(place) > 1
        meaning = Meaning("") if is_part else table.meaning(raw)
        known = told.by_place.get(place) or (None if is_part else _told_by_name(told, meaning, raw))
        lacks = had.count < observed.samples
        if known is not None:
            missing = known.missing or (choice.schema is None and lacks and len(known.places) < 2)
            places = known.places or (place,)
            by = known.told or ("--schema" if choice.schema is not None else "")
            taken[known.name] = replace(
                known, places=places, missing=missing, told=by, width=had.width
            )
        elif choice.schema is not None or not meaning.field or (raw in parted and not is_part):
            ignored.update(() if is_part else (raw,))
        elif (kind := _joined(had, place, source)) is not None:
            name = meaning.field if meaning.field not in taken else raw
            if name in taken:  # by convention; a raw name of its own goes first
                own = taken.pop(name)
                taken[own.places[0][0]] = replace(own, name=own.places[0][0])
                roles = {role: own.places[0][0] if n == name else n for role, n in roles.items()}
            taken[name] = Field(name, kind, lacks, (), (place,), "a look", width=had.width)
            if meaning.role:
                roles.setdefault(meaning.role, name)
    absent = [each for each in told.fields if each.name not in taken]
    for each in absent:
        if choice.schema is not None and not each.missing and observed.samples:
            there = format_some([".".join(place) for place in seen])
            raise SourceError(
                f"{source}: no sample has the field {each.name!r} that --schema names; the samples "
                f"have {there}"
            )
        if each.places:
            taken[each.name] = replace(each, missing=each.missing or bool(observed.samples))
    schema = Schema(tuple(taken.values()), format=table.name)
    schema = _with_label(schema, seen, choice, told, roles, source)
    schema = _with_image(schema, choice, told, roles, source)
    first = (schema.image, schema.label)
    ordered = sorted(schema.fields, key=lambda each: (*first, each.name).index(each.name))
    schema = replace(schema, fields=tuple(ordered))
    notes = []
    if choice.schema is not None and ignored:
        notes.append(f"left out, because --schema does not name it: {format_some(sorted(ignored))}")
    counts = {
        each.name: max((seen[place].count for place in each.places if place in seen), default=0)
        for each in schema.fields
    }
    return Settled(schema, frozenset(ignored), tuple(notes), counts, observed.samples)


def _exact(observed: Observed, table: Table) -> dict[Place, Seen]:
    """Return what was seen by the places that tell it apart.

    Several raw names are one place, as all extensions of JPEG are, unless one sample has two.
    """
    return {
        place: seen
        for place, seen in observed.places.items()
        if len(place) > 1
        or (
            place[0] not in observed.together
            if table.place_of(place[0]) == place[0]
            else table.place_of(place[0]) in observed.together
        )
    }


def _told_by_name(told: Schema, meaning: Meaning, raw: str) -> Field | None:
    """Return the told field without places that a raw name means."""
    role = {IMAGE: told.image, LABEL: told.label}.get(meaning.role)
    for name in filter(None, (raw, meaning.field, role)):
        found = told.by_name.get(name)
        if found is not None and not found.places:
            return found
    return None


def _joined(seen: Seen, place: Place, source: str) -> str | None:
    """Return the type of all values at a place; None if none was seen."""
    kinds = list(seen.kinds)
    joined = kinds[0] if kinds else None
    for kind in kinds[1:]:
        wider = join(str(joined), kind)
        if wider is None:
            (key, value), (other, second) = seen.kinds[kinds[0]], seen.kinds[kind]
            raise SourceError(
                f"{source}: {'.'.join(place)!r} is {value} in the sample {key!r} and {second} in "
                f"{other!r}, which have no type in common: correct one of them, give --drop "
                f"{place[0]}, or name the type in a --schema FILE"
            )
        joined = wider
    return joined


def _with_label(
    schema: Schema,
    seen: Mapping[Place, Seen],
    choice: Choice,
    told: Schema,
    roles: Mapping[str, str],
    source: str,
) -> Schema:
    """Find the label, and give it the type that the user wants."""
    if choice.unlabeled and choice.label is None:
        return schema
    label = None
    if choice.label is not None:
        label = schema.named(choice.label)
        path = next((each for each in choice.paths if each in seen), None)
        if label is None and path is not None:
            kind = _joined(seen[path], path, source) or "class"
            name = path[-1] if path[-1] not in schema.by_name else choice.label
            lacks = seen[path].count < max(each.count for each in seen.values())
            label = Field(name, kind, lacks, (), (path,), told="--label-field")
            schema = schema.with_field(label)
        if label is None:
            raise OptionError(f"--label-field {choice.label}: {_no_such_field(schema, source)}")
    else:
        known = told.label or roles.get(LABEL)
        likely = {each.name.lower(): each for each in reversed(schema.fields) if each.kind.is_label}
        guess = next((likely[each] for each in LABEL_NAMES if each in likely), None)
        label = schema.by_name.get(known) if known else guess
        if label is None and len(classes := [e for e in schema.fields if e.type == "class"]) == 1:
            label = classes[0]
    if label is None:
        return schema
    is_read = label.type in ("bytes", "list<bytes>") and choice.label_type is not None
    if not (label.kind.is_label or label.type == "list<text>" or is_read):
        if choice.label is not None:
            what = label.kind.what
            raise OptionError(f"--label-field {choice.label}: is {what}, which is no label")
        return schema
    kind = label.type
    if choice.label_type is not None and not (choice.label_type == "class" and kind == "text"):
        kind = _chosen_type(choice.label_type, kind)
    elif kind == "int":
        kind = "class"
    return replace(schema.with_field(replace(label, type=kind)), label=label.name)


def _chosen_type(asked: str, kind: str) -> str:
    if asked == "float":
        return "list<float32>" if TYPES[kind].is_list else "float32"
    return {"class": "class", "multi": "list<int>", "text": "text"}[asked]


def _with_image(
    schema: Schema, choice: Choice, told: Schema, roles: Mapping[str, str], source: str
) -> Schema:
    """Find the image."""
    images = [each.name for each in schema.fields if each.type == "image"]
    if choice.image is not None:
        found = schema.named(choice.image)
        if found is None:
            raise OptionError(f"--image-field {choice.image}: {_no_such_field(schema, source)}")
        if found.type not in ("image", "bytes"):
            raise OptionError(f"--image-field {choice.image}: holds {found.kind.what}")
        schema = schema.with_field(replace(found, type="image"))
        return replace(schema, image=found.name)
    known = told.image if told.image in schema.by_name else roles.get(IMAGE)
    if known in images or len(images) <= 1:
        only = images[0] if images else None
        return replace(schema, image=known if known in images else only)
    lower = {name.lower(): name for name in reversed(images)}
    likely = next((lower[name] for name in IMAGE_NAMES if name in lower), None)
    if likely is None:
        raise SourceError(
            f"{source}: {format_count(len(images), 'field')} are images, and nothing tells which "
            f"is the image of a sample: give --image-field {' or --image-field '.join(images)}"
        )
    return replace(schema, image=likely)


def _no_such_field(schema: Schema, source: str) -> str:
    return f"no sample of {source} has this field; fields are {format_some(list(schema.by_name))}"


def select(settled: Settled, choice: Choice) -> tuple[Settled, list[str]]:
    """Leave fields out and rename others."""
    schema = settled.schema
    idle = []
    options = {"--only": choice.only, "--drop": choice.drop, "--rename": tuple(choice.rename)}
    for option, names in options.items():
        # Whatever has a role may be kept by it: a list may tell the labels later.
        roles = (IMAGE, LABEL) if option == "--only" else ()
        if unknown := [name for name in names if not (name in roles or schema.named(name))]:
            which = "this field" if len(unknown) == 1 else "these"
            if option == "--only":
                raise OptionError(
                    f"--only {','.join(unknown)}: no sample has {which}; fields are "
                    f"{format_some(list(schema.by_name))}"
                )
            idle.append(f"{option} {','.join(unknown)}: no sample has {which}")
    dropped = {found.name for name in choice.drop if (found := schema.named(name))}
    only = {found.name for name in choice.only if (found := schema.named(name))}
    kept = [
        each
        for each in schema.fields
        if each.name not in dropped and (each.name in only or not choice.only)
    ]
    if not kept and schema.fields:
        raise OptionError(
            f"--only and --drop leave no field of {format_some(list(schema.by_name))}"
        )
    new = {found.name: to for name, to in choice.rename.items() if (found := schema.named(name))}
    fields = tuple(
        replace(each, name=new[each.name], given=True) if each.name in new else each
        for each in kept
    )
    if len({each.name for each in fields}) < len(fields):
        raise OptionError("--rename gives a field the name of another one")
    still = {each.name: each.name for each in kept} | new
    used = {place[0] for each in kept for place in each.places}
    gone = {place[0] for each in schema.fields for place in each.places} - used
    left = {each.name for each in kept}
    chosen = replace(
        schema,
        fields=fields,
        image=still[schema.image] if schema.image in left else None,
        label=still[schema.label] if schema.label in left else None,
    )
    counts = {still[name]: count for name, count in settled.counts.items() if name in left}
    # What the look has not seen may be left out as well: it may come later.
    ignored = settled.ignored | gone | {name for name in choice.drop if not schema.named(name)}
    return settled._replace(schema=chosen, ignored=ignored, counts=counts), idle


# From raw samples to typed ones


@dataclass(frozen=True)
class Reading:
    """Makes samples of a schema of raw samples. Plain data: it is pickled for the workers."""

    schema: Schema  # the schema, with the places of the source
    table: Table  # what the source's format says of raw names
    ignored: frozenset[str] = frozenset()  # the places that are left out
    # whether samples stay raw, but for what is left out: those of the same format
    raw: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to workers without what is compiled."""
        return Reading, (self.schema, self.table, self.ignored, self.raw)

    @cached_property
    def _plain(self) -> dict[str, tuple[str, Callable[[Value], Value | None], Field] | None]:
        """What raw names are: name and converter; None for what is left out. It grows."""
        known: dict[str, tuple[str, Callable[[Value], Value | None], Field] | None] = {}
        for each in self.schema.fields:
            for place in each.places:
                if len(place) == 1:
                    is_number = self.table.meaning(place[0]).type in (LABEL_TEXT, "class")
                    known[place[0]] = each.name, _converter(each, is_number), each
        nested = {path[0] for path, _ in self._nested}
        return dict.fromkeys(self.ignored | nested, None) | known

    @cached_property
    def _nested(self) -> list[tuple[Place, Field]]:
        return [
            (place, each) for each in self.schema.fields for place in each.places if len(place) > 1
        ]

    @cached_property
    def _required(self) -> frozenset[str]:
        return frozenset(each.name for each in self.schema.fields if not each.missing)

    def __call__(self, sample: Sample) -> Sample:
        """Make a sample of the schema."""
        known = self._plain
        fields: dict[str, Value] = {}
        image = None
        for raw, value in sample.fields.items():
            if raw not in known:
                if not type_of(value):  # nothing that the schema could lack
                    if self.raw:
                        fields[raw] = value
                    continue
                known[raw] = self._find(raw)
            found = known[raw]
            if self.raw:
                if found is not None or self._is_kept(raw):
                    fields[raw] = value
                    image = raw if found and found[0] == self.schema.image else image
                continue
            if found is None:
                continue
            name, convert, column = found
            if name in fields:
                raise Misfit(f"has two values for the field {name!r}, one of them at {raw!r}")
            try:
                typed = convert(value)
            except (ValueError, TypeError, RecursionError, OverflowError, IndexError):
                raise _misfit(column, value) from None
            if typed is not None:
                fields[name] = typed
        if self.raw:
            sample.fields, sample.image = fields, image
            return sample
        for path, column in self._nested:
            if (value := _part_of(sample.fields, path)) is not None:
                try:
                    fields[column.name] = _converter(column)(value)
                except (ValueError, TypeError, OverflowError):
                    raise _misfit(column, value) from None
        if not fields.keys() >= self._required:
            lacking = ", ".join(repr(each) for each in sorted(self._required - fields.keys()))
            raise Misfit(
                f"lacks the field {lacking}, which the samples looked at have: give --look all, or "
                "a --schema FILE that says it may be missing"
            )
        sample.fields = fields
        sample.image = self.schema.image if self.schema.image in fields else None
        return sample

    def _is_kept(self, raw: str) -> bool:
        """Return whether a raw name is bookkeeping of what is kept: of the label, if of a field."""
        place, found = self.table.place_of(raw), self._kept.get(raw)
        if found is None:
            if self.table.meaning(raw).field:
                found = not self.table.meaning(place).field and raw not in self.ignored
            else:
                places = {self.table.place_of(each[0]) for each in self.schema.by_place}
                found = not self.table.meaning(place).field or place in places
            self._kept[raw] = found
        return found

    @cached_property
    def _kept(self) -> dict[str, bool]:
        return {}

    def _find(self, raw: str) -> tuple[str, Callable[[Value], Value | None], Field] | None:
        """Return what a raw name is that has not been seen before."""
        place = self.table.place_of(raw)
        if place in self._plain:
            return self._plain[place]
        if not (self.table.meaning(place).field and self.table.meaning(raw).field):
            return None
        raise Misfit(
            f"has a field {raw!r} that the samples looked at lack: give --look all, or --drop {raw}"
        )


def _converter(column: Field, is_number: bool = False) -> Callable[[Value], Value | None]:
    """Return what makes a typed value of a raw one."""
    convert = column.kind.convert
    if column.type == "text" and (column.names or is_number):

        def to_text(value: Value) -> str | None:
            is_name = not column.names or _is_text(value)
            text = _to_text(value if is_name else column.names[_index(value)])
            # The text of a label ends in a line break if it is a file of its own.
            return text.strip() if text and is_number else text

        return to_text
    if column.type != "class" or not column.names:
        return convert
    numbers = {name: number for number, name in enumerate(column.names)}
    count = len(column.names)

    def to_class(value: Value) -> int | None:
        value = _single(value)
        if isinstance(value, bytes | str):
            text = value.decode() if isinstance(value, bytes) else value
            if (number := numbers.get(text)) is None:
                number = numbers.get(text.strip())
            if number is not None and not (is_number and _is_whole(text)):
                return number
        number = convert(value)
        # -1 is what Hugging Face writes where the class is not known, as in most test sets.
        if number is not None and not -1 <= number < count:
            raise ValueError
        return number

    return to_class


def _is_whole(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


def _is_text(value: Value) -> bool:
    return isinstance(_single(value), bytes | str | None)


def _index(value: Value) -> int:
    number = _to_int(value)
    if number is None or number < 0:
        raise ValueError
    return number


def _misfit(column: Field, value: Value) -> Misfit:
    what = column.kind.what
    if column.names:
        what += f" of the {format_count(len(column.names), 'class')}"
    return Misfit(
        f"the field {column.name!r} is {shown(value)}, which is not {what}: correct it, give "
        f"--look all, or another type in a --schema FILE"
    )


def impose(source: Settled, base: Schema, where: str) -> Settled:
    """Give the fields of a source the types of a data set that it is added to."""
    schema = source.schema
    fields: list[Field] = []
    used: set[str] = set()
    for each in base.fields:
        role = {base.image: schema.image, base.label: schema.label}.get(each.name)
        found = schema.by_name.get(each.name) or schema.by_name.get(role or "")
        if found is not None:
            used.add(found.name)
            fields.append(replace(each, places=found.places))
        elif not each.missing and each.name not in FACTS:
            raise SourceError(
                f"{where}: its samples have the field {each.name!r} ({each.type}), and the new "
                f"ones have {format_some(list(schema.by_name))}: give --rename OLD={each.name}"
            )
    if extra := [name for name in schema.by_name if name not in used]:
        raise SourceError(
            f"{where}: its samples lack {format_some(extra)}, which the new ones have: give --drop "
            f"{','.join(extra)}"
        )
    imposed = Schema(tuple(fields), base.image, base.label, schema.format)
    return source._replace(schema=imposed)
