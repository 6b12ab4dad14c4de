"""What a schema is: the fields of a data set, their types, and where samples have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from dsprep.sample import IMAGE_EXTENSIONS
from dsprep.schema.types import TYPES, Type
from dsprep.units import quoted

Place: TypeAlias = tuple[str, ...]
"""Where a value lies in a raw sample: a raw name and, for a part of JSON, the names below it."""

IMAGE, LABEL = "image", "label"
"""The roles, and what users may call the fields that have them."""

FACTS = frozenset({"width", "height", "channels", "colorspace", "format", "sha256"})
"""Fields that follow from the image: made again after a transform, else carried where they fit."""


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
        values = {
            "name": self.name,
            "type": self.type,
            "missing": self.missing,
            "names": list(self.names),
            "places": [list(place) for place in self.places],
        }
        return {name: value for name, value in values.items() if value}


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
