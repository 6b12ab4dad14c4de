"""Looking at raw samples: which values they have at which places, of which types."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from dsprep.errors import BadImage, OptionError
from dsprep.images.header import read_header
from dsprep.sample import Blobs, Floats, Ints, Sample, Value
from dsprep.schema.fields import LABEL, Place, Schema
from dsprep.schema.types import TYPES, parse_label
from dsprep.units import quoted

LABEL_TYPES = ("class", "multi", "float", "text")
"""What ``--label-type`` takes."""

LABEL_TEXT = "label text"
"""In a :class:`Meaning`: the type shows in a text, which holds a number, numbers, or a name."""

LABEL_FLOATS = "label floats"
"""In a :class:`Meaning`: floats may hold the label, which is a class if it is one whole number."""

_SHOWN = 60


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
            if (value := part_of(sample.fields, path)) is not None:
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


def part_of(fields: Mapping[str, Value], path: Place) -> Value | None:
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
        return f"list<{joined}>" if f"list<{joined}>" in TYPES else "json"
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
