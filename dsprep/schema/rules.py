"""The rules that settle a schema, in order: which fields samples have, the label, and the image.

Each rule is a function that decides, or returns None and leaves it to the next one. The reason
beside it is what a dry run shows of the field. docs/formats.md has the same tables, and a test
compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TypeAlias

from dsprep.errors import OptionError, SourceError
from dsprep.frozen import Frozen
from dsprep.schema.choice import Choice
from dsprep.schema.fields import FACTS, IMAGE, LABEL, Field, Place, Schema, join
from dsprep.schema.look import IMAGE_ID, OBJECTS, Meaning, Observed, PlaceSummary, Table
from dsprep.tuples import NamedTuple
from dsprep.units import format_some

# conventional names of the image among several, and of the label, the likeliest first
IMAGE_NAMES = (
    *("image", "img", "picture", "photo", "jpg", "jpeg", "png", "webp", "bytes", "image_raw"),
    *("rgb", "0"),
)
LABEL_NAMES = (
    *("label", "labels", "label_id", "fine_label", "cls", "class", "class_id", "class_label"),
    *("target", "category", "category_id", "y"),
)
LOOK = "a look"  # what told a field that only samples show

# reasons of fields
BY_NAME, BY_VALUES, BY_SOURCE = "its name", "its values", "the source says so"
BY_FILES = "each file is an image"
BY_BASE = "the data set has it"


class Raw(NamedTuple):
    """A raw name of samples, or a part of its JSON, as a look found it."""

    place: Place
    seen: PlaceSummary
    meaning: Meaning  # what the format's table says of it; no field for a part of JSON
    lacks: bool  # whether some samples of the look lack it

    @property
    def name(self) -> str:
        return self.place[0]

    @property
    def is_part(self) -> bool:
        return len(self.place) > 1


class Decision(NamedTuple):
    """The field that a rule makes of a raw name."""

    field: Field | None  # the field that it is; None if it is left out
    # what the field is called if another one has its name; empty if it is that field
    other_name: str = ""


LEFT_OUT = Decision(None)


class Evidence(Frozen):
    """The input of all rules: options, declared schema, format and samples that were looked at."""

    choice: Choice  # what the user says
    declared: Schema  # what `--schema` says or, without it, the source says of itself
    table: Table  # what the format says of raw names
    observed: Observed  # what a look found
    source: str  # the source, for messages

    @cached_property
    def raws(self) -> list[Raw]:
        """The raw names that may be fields, and parts of their JSON."""
        raws = []
        for place, seen in self.observed.places.items():
            is_part = len(place) > 1
            general = self.table.place_of(place[0])
            # Several raw names are one place, as all extensions of JPEG are, unless one sample has
            # two.
            if is_part or (place[0] != general) == (general in self.observed.together):
                meaning = Meaning("") if is_part else self.table.meaning(place[0])
                raws.append(Raw(place, seen, meaning, seen.count < self.observed.samples))
        return raws

    @cached_property
    def seen(self) -> Mapping[Place, PlaceSummary]:
        return {raw.place: raw.seen for raw in self.raws}

    def count(self, place: Place) -> int:
        """Return how many samples of the look have something at a place."""
        return self.seen[place].count if place in self.seen else 0

    def described(self, raw: Raw) -> Field | None:
        """Return the field that a schema has at a raw name or, if it has no place, of this name."""
        if found := self.declared.by_place.get(raw.place) or self._any_kind.get(raw.place):
            return found
        if raw.is_part:
            return None
        role = {IMAGE: self.declared.image, LABEL: self.declared.label}.get(raw.meaning.role)
        names = filter(None, (raw.name, raw.meaning.field, role))
        found_by_name = filter(None, map(self.declared.by_name.get, names))
        return next((each for each in found_by_name if not each.places), None)

    @cached_property
    def _any_kind(self) -> Mapping[Place, Field]:
        """Images by the place of any kind: a member `.jpg` that was named exactly is there too."""
        return {
            (self.table.place_of(place[0]),): each
            for place, each in self.declared.by_place.items()
            if each.kind.is_image
        }

    @cached_property
    def objects_in_json(self) -> list[Place]:
        """The parts of JSON that are objects, unless a schema says what JSON or objects are."""
        if self.choice.schema or self.declared.objects or self.told_parts:
            return []
        return [place for place in self.table.parts if place in self.seen]

    @cached_property
    def told_parts(self) -> frozenset[str]:
        """The raw names of JSON whose parts are fields of a schema."""
        return frozenset(place[0] for place in self.declared.by_place if len(place) > 1)

    @cached_property
    def numbers(self) -> frozenset[Place]:
        """The parts of JSON, beside objects, that number the images of all samples."""
        if IMAGE_ID in {raw.meaning.field for raw in self.raws}:
            return frozenset()
        beside = ((place[0], IMAGE_ID) for place in self.objects_in_json)
        return frozenset(
            place
            for place in beside
            if place in self.seen and self.seen[place].count == self.observed.samples
        )

    @cached_property
    def split_up(self) -> frozenset[str]:
        """The raw names of JSON that has nothing but fields, as a look shows."""
        return frozenset(
            place[0]
            for place in self.objects_in_json
            if self.seen[place[:1]].keys.keys() <= {place[-1], *FACTS, *self._number_of(place)}
        )

    def _number_of(self, objects: Place) -> set[str]:
        return {IMAGE_ID} if (objects[0], IMAGE_ID) in self.numbers else set()

    def type_of(self, place: Place) -> str | None:
        """Return the type of all values at a place; None if none was seen."""
        kinds = self.seen[place].kinds
        first, *others = kinds or ("",)
        joined = first
        for kind in others:
            wider = join(joined, kind)
            if wider is None:
                (key, value), (other, second) = kinds[first], kinds[kind]
                raise SourceError(
                    f"{self.source}: {'.'.join(place)!r} is {value} in the sample {key!r} and "
                    f"{second} in {other!r}, which have no type in common: correct one of them, "
                    f"give --drop {place[0]}, or name the type in a --schema FILE"
                )
            joined = wider
        return joined or None


# Which field a raw name is


def field_of_schema(raw: Raw, evidence: Evidence) -> Decision | None:
    """Take the field that `--schema` has at this place or, without places, of this name."""
    known = evidence.described(raw) if evidence.choice.schema else None
    if known is None:
        return None
    told, places = known.told or "--schema", known.places or (raw.place,)
    return Decision(replace(known, places=places, told=told, width=raw.seen.width))


def not_in_schema(raw: Raw, evidence: Evidence) -> Decision | None:
    """Leave out what `--schema` does not have."""
    return LEFT_OUT if evidence.choice.schema else None


def field_of_source(raw: Raw, evidence: Evidence) -> Decision | None:
    """Take the field that the source describes at this place or, without places, of this name."""
    known = evidence.described(raw)
    if known is None:
        return None
    # An image without a word of them has no objects; and a field may lie in another of its places.
    lacks = raw.lacks and known.type != OBJECTS and len(known.places) < 2
    places, missing = known.places or (raw.place,), known.missing or lacks
    return Decision(replace(known, places=places, missing=missing, width=raw.seen.width))


def number_of_image(raw: Raw, evidence: Evidence) -> Decision | None:
    """Take the number of the image that JSON has beside objects, as COCO's `image_id`."""
    if raw.place not in evidence.numbers:
        return None
    return Decision(Field(IMAGE_ID, "int", places=(raw.place,), told=LOOK))


def objects_by_values(raw: Raw, evidence: Evidence) -> Decision | None:
    """Take values that all are boxes and their classes as the field `objects`."""
    if raw.seen.kinds.keys() != {OBJECTS}:
        return None
    found = Field(OBJECTS, OBJECTS, places=(raw.place,), told=LOOK, flags=raw.seen.flags)
    return Decision(found, raw.name)


def no_field(raw: Raw, evidence: Evidence) -> Decision | None:
    """Leave out what is bookkeeping in this format, and other parts of JSON."""
    return None if raw.meaning.field else LEFT_OUT


def whole_of_parts(raw: Raw, evidence: Evidence) -> Decision | None:
    """Leave out JSON that has nothing but fields of their own."""
    return LEFT_OUT if raw.name in evidence.told_parts | evidence.split_up else None


def type_by_name(raw: Raw, evidence: Evidence) -> Decision | None:
    """Take the type that the format has for this name."""
    return _looked_at(raw, evidence) if raw.seen.kinds.keys() == {raw.meaning.type} else None


def type_by_values(raw: Raw, evidence: Evidence) -> Decision | None:
    """Take the type that holds all values."""
    return _looked_at(raw, evidence)


def _looked_at(raw: Raw, evidence: Evidence) -> Decision | None:
    kind = evidence.type_of(raw.place)
    if kind is None:
        return None
    name, width = raw.meaning.field, raw.seen.width
    return Decision(Field(name, kind, raw.lacks, (), (raw.place,), LOOK, width=width), raw.name)


FieldRule: TypeAlias = Callable[[Raw, Evidence], Decision | None]
FIELD_RULES: tuple[tuple[FieldRule, str], ...] = (
    (field_of_schema, "--schema"),
    (not_in_schema, "--schema"),
    (field_of_source, BY_SOURCE),
    (number_of_image, BY_NAME),
    (objects_by_values, BY_VALUES),
    (no_field, BY_NAME),
    (whole_of_parts, BY_VALUES),
    (type_by_name, BY_NAME),
    (type_by_values, BY_VALUES),
)


def decide(raw: Raw, evidence: Evidence) -> Decision | None:
    """Return what the first rule decides of a raw name; None if no sample shows what it is."""
    for rule, why in FIELD_RULES:
        if (decision := rule(raw, evidence)) is not None:
            field = decision.field
            return decision._replace(field=field and replace(field, why=why))
    return None


# Which field is the label


def label_option(schema: Schema, evidence: Evidence) -> Field | None:
    """Take the field that `--label-field` names."""
    return schema.named(evidence.choice.label) if evidence.choice.label else None


def label_in_json(schema: Schema, evidence: Evidence) -> Field | None:
    """Take the part of JSON that `--label-field` names."""
    choice, seen = evidence.choice, evidence.seen
    if choice.label is None:
        return None
    path = next((each for each in choice.paths if each in seen), None)
    if path is None:
        why = no_such_field(schema, evidence.source) + _keys_to_name(seen, choice.label)
        raise OptionError(f"--label-field {choice.label}: {why}")
    kind = evidence.type_of(path) or "class"
    name = path[-1] if path[-1] not in schema.by_name else choice.label
    lacks = seen[path].count < max(each.count for each in seen.values())
    return Field(name, kind, lacks, (), (path,), told="--label-field")


def label_of_schema(schema: Schema, evidence: Evidence) -> Field | None:
    """Take the label of `--schema`."""
    return label_of_source(schema, evidence) if evidence.choice.schema else None


def label_of_source(schema: Schema, evidence: Evidence) -> Field | None:
    """Take the label that the source describes."""
    return schema.by_name.get(evidence.declared.label or "")


def label_of_format(schema: Schema, evidence: Evidence) -> Field | None:
    """Take the field that has the format's name of labels, if the source describes no label."""
    return None if evidence.declared.label else _by_format(LABEL, schema, evidence)


def label_by_name(schema: Schema, evidence: Evidence) -> Field | None:
    """Take the field with a usual name of labels, if the source describes no label."""
    likely = (each for each in schema.fields if each.kind.is_label)
    return None if evidence.declared.label else _likeliest(LABEL_NAMES, likely)


def only_class(schema: Schema, evidence: Evidence) -> Field | None:
    """Take the only field that is a class."""
    return _only(each for each in schema.fields if each.type == "class")


RoleRule: TypeAlias = Callable[[Schema, Evidence], Field | None]
LABEL_RULES: tuple[tuple[RoleRule, str], ...] = (
    (label_option, "--label-field"),
    (label_in_json, "--label-field"),
    (label_of_schema, "--schema"),
    (label_of_source, BY_SOURCE),
    (label_of_format, BY_NAME),
    (label_by_name, "a usual name"),
    (only_class, "the only class"),
)


# Which field is the image


def image_option(schema: Schema, evidence: Evidence) -> Field | None:
    """Take the field that `--image-field` names."""
    option = evidence.choice.image
    if option is None:
        return None
    found = schema.named(option)
    if found is None:
        raise OptionError(f"--image-field {option}: {no_such_field(schema, evidence.source)}")
    if found.type not in ("image", "bytes") and not found.kind.is_raw:
        raise OptionError(f"--image-field {option}: holds {found.kind.what}")
    return found if found.kind.is_raw else replace(found, type="image")


def image_of_schema(schema: Schema, evidence: Evidence) -> Field | None:
    """Take the image of `--schema`."""
    return image_of_source(schema, evidence) if evidence.choice.schema else None


def image_of_source(schema: Schema, evidence: Evidence) -> Field | None:
    """Take the image that the source describes."""
    return _if_image(schema.by_name.get(evidence.declared.image or ""))


def image_of_format(schema: Schema, evidence: Evidence) -> Field | None:
    """Take the image that has the format's name of images."""
    return _if_image(_by_format(IMAGE, schema, evidence))


def only_image(schema: Schema, evidence: Evidence) -> Field | None:
    """Take the only field that is an image."""
    return _only(images_of(schema))


def image_by_name(schema: Schema, evidence: Evidence) -> Field | None:
    """Take the image with a usual name of images."""
    return _likeliest(IMAGE_NAMES, images_of(schema))


IMAGE_RULES: tuple[tuple[RoleRule, str], ...] = (
    (image_option, "--image-field"),
    (image_of_schema, "--schema"),
    (image_of_source, BY_SOURCE),
    (image_of_format, BY_NAME),
    (only_image, "the only image"),
    (image_by_name, "a usual name"),
)


def find_role(
    rules: tuple[tuple[RoleRule, str], ...], schema: Schema, evidence: Evidence
) -> Field | None:
    """Return the field that the first rule finds, with the reason; None if none does."""
    for rule, why in rules:
        if (found := rule(schema, evidence)) is not None:
            return replace(found, why=why)
    return None


def images_of(schema: Schema) -> Iterator[Field]:
    """Yield the fields that may be the image."""
    return (each for each in schema.fields if _if_image(each))


def no_such_field(schema: Schema, source: str) -> str:
    """Return what a message says of a name that no field has."""
    return f"no sample of {source} has this field; fields are {format_some(list(schema.by_name))}"


def _if_image(field: Field | None) -> Field | None:
    """Return a field if it is an image, encoded or bare pixels."""
    return field if field and (field.type == "image" or field.kind.is_raw) else None


def _by_format(role: str, schema: Schema, evidence: Evidence) -> Field | None:
    """Return the first field whose raw name has a role in the format, and no schema describes."""
    for raw in evidence.raws:
        found = schema.by_place.get(raw.place) if raw.meaning.role == role else None
        if found is not None and found.type != OBJECTS and not evidence.described(raw):
            return found
    return None


def _likeliest(names: tuple[str, ...], fields: Iterator[Field]) -> Field | None:
    by_name: dict[str, Field] = {}
    for each in fields:
        by_name.setdefault(each.name.lower(), each)
    return next((by_name[name] for name in names if name in by_name), None)


def _only(fields: Iterator[Field]) -> Field | None:
    found = list(fields)
    return found[0] if len(found) == 1 else None


def _keys_to_name(seen: Mapping[Place, PlaceSummary], label: str) -> str:
    """Return what a message adds on the keys of JSON fields."""
    own = {path[0]: each.keys for path, each in seen.items() if each.keys}
    likely = [f"{name}.{key}" for name in own if (key := label.split(".")[-1]) in own[name]]
    if likely and label not in likely:
        return f"; did you mean {' or '.join(likely)}?"
    return "".join(f"; {name} has {format_some(list(keys))}" for name, keys in own.items())
