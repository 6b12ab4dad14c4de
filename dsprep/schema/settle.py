"""Settling the schema of a source, from what it says of itself and from a look at raw samples."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple, Protocol, runtime_checkable

from dsprep.annotations import hugging_face, mxnet, objects
from dsprep.annotations.objects import APART, Objects
from dsprep.errors import BadImage, BadSample, OptionError, SourceError
from dsprep.images.header import read_header
from dsprep.sample import Blobs, Floats, Ints, Sample, Value
from dsprep.schema.fields import FACTS, IMAGE, LABEL, TYPES, Field, Place, Schema, join, parse_label
from dsprep.units import format_count, format_some, quoted

# conventional names of the image among several, and of the label, the likeliest first
IMAGE_NAMES = (
    *("image", "img", "picture", "photo", "jpg", "jpeg", "png", "webp", "bytes", "image_raw"),
    *("rgb", "0"),
)
LABEL_NAMES = (
    *("label", "labels", "label_id", "fine_label", "cls", "class", "class_id", "class_label"),
    *("target", "category", "category_id", "y"),
)
OBJECTS = "objects"  # the field of the objects of images
IMAGE_ID = "image_id"  # the field that is the number of an image in COCO's files
# what `--cast` takes
_CASTS = [each.name for each in TYPES.values() if each.is_number or each.name == "json"]
_CASTS.remove("class")

# in a `Meaning`: the type shows in a text, which holds a number, numbers, or a name
LABEL_TEXT = "label text"
# in a `Meaning`: floats may hold the label, which is a class if it is one whole number
LABEL_FLOATS = "label floats"
_SHOWN = 60


class Meaning(NamedTuple):
    """What a raw name means in a format."""

    field: str  # the name of the field; empty for what is no field: bookkeeping
    # its type, `LABEL_TEXT`, `LABEL_FLOATS`, or None if its values tell
    type: str | None = None
    role: str = ""  # `IMAGE`, `LABEL`, or empty if the name says nothing of it


@runtime_checkable
class Table(Protocol):
    """What a format says of raw names."""

    @property
    def name(self) -> str:
        """The name of the format."""

    def place_of(self, raw: str) -> str:
        """Return the place that a raw name stands for: several names may be one place."""

    def meaning(self, place: str) -> Meaning:
        """Return what a place means."""

    def placeholders(self, schema: Schema) -> frozenset[str]:
        """Return the raw names of the labels that samples of a schema without a label have."""

    @property
    def parts(self) -> tuple[Place, ...]:
        """The parts of JSON that are fields by convention."""

    @property
    def has_class_ids(self) -> bool:
        """Whether objects have the ids of their classes, where other formats have numbers."""

    def combined(self, fields: dict[str, Value]) -> dict[str, Value]:
        """Return the fields of a raw sample, several that are one value together made that one."""


@dataclass
class Seen:
    """What samples of a look have at a place."""

    count: int = 0  # how many samples have it
    # the types of values, each with the first sample and its value, for messages
    kinds: dict[str, tuple[str, str]] = field(default_factory=dict)
    width: int = 0  # the length of the first list
    keys: dict[str, None] = field(default_factory=dict)  # some keys of JSON objects
    flags: bool = False  # whether some objects have a flag by which they are not like others


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
            own.keys |= seen.keys
            own.flags |= seen.flags


def observe(samples: Iterable[Sample], table: Table, choice: Choice) -> Observed:
    """Look at raw samples."""
    found = Observed()
    hints: dict[str, str | None] = {}
    known = choice.schema.by_place if choice.schema else ()
    parts = dict.fromkeys((*choice.paths, *(place for place in known if place[1:])))
    roots = {path[0] for path in parts}
    for sample in samples:
        found.samples += 1
        try:
            fields = table.combined(sample.fields)
        except BadSample:  # reading it reports that
            continue
        names = Counter(map(table.place_of, fields))
        found.together.update(name for name, count in names.items() if count > 1)
        for raw, value in fields.items():
            # Whether a place stands for one raw name or more shows when all samples are seen.
            for name in dict.fromkeys((raw, table.place_of(raw))):
                if name not in hints:
                    meant, hint, role = table.meaning(name)
                    if choice.label and choice.label in (name, meant) and role != LABEL:
                        hint = LABEL_TEXT
                    is_text = hint == LABEL_TEXT and choice.label_type == "text"
                    # Who says what labels are, wants no boxes of them.
                    hint = None if hint == LABEL_FLOATS and choice.label_type else hint
                    hints[name] = "text" if is_text else hint
                _see(found, (name,), value, hints[name], sample.key)
        wholes = {raw: parsed(sample.fields.get(raw)) for raw in roots}
        for path in parts:
            if (value := below(wholes[path[0]], path)) is not None:
                _see(found, path, value, LABEL_TEXT, sample.key)
        for path in table.parts:
            if not isinstance(whole := parsed(sample.fields.get(path[0])), dict):
                continue
            found.places[path[:1]].keys |= dict.fromkeys(whole)
            if type_of(value := below(whole, path)) == OBJECTS:
                _see(found, path, value, OBJECTS, sample.key)
            if type(number := whole.get(IMAGE_ID)) is int and (path[0], IMAGE_ID) not in parts:
                _see(found, (path[0], IMAGE_ID), number, None, sample.key)
        for (name, *_), seen in found.places.items() if choice.label else ():
            if "json" in seen.kinds and isinstance(keys := part_of(sample.fields, (name,)), dict):
                seen.keys |= dict.fromkeys(islice(keys, 100))
    return found


def _see(found: Observed, place: Place, value: Value, hint: str | None, key: str) -> None:
    seen = found.places.setdefault(place, Seen())
    kind = type_of(value, hint)
    if kind:
        seen.count += 1
        seen.kinds.setdefault(kind, (key, shown(value)))
        if kind == OBJECTS and not seen.flags:
            with suppress(ValueError, TypeError, KeyError):  # reading it reports that
                items = (TYPES[OBJECTS].convert(value) or Objects()).items
                seen.flags = any(each.flags & APART for each in items)
        if not seen.width and kind.startswith("list<"):
            listed: Any = parse_label(value) if isinstance(value, bytes | str) else value
            seen.width = len(listed)


def part_of(fields: Mapping[str, Value], path: Place) -> Value | None:
    """Return the part of a raw value at a path: a key of JSON, a number of a list; or None."""
    return below(parsed(fields.get(path[0])), path)


def parsed(value: Value | None) -> Value | None:
    """Return a raw value that has parts: what JSON says, or a list."""
    if isinstance(value, Floats):
        return value
    value = value[0] if isinstance(value, tuple | list) and len(value) == 1 else value
    if isinstance(value, bytes | str):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value


def below(value: Value | None, path: Place) -> Value | None:
    """Return what a parsed value has at a path, which begins with its own name."""
    if isinstance(value, Floats):
        at = int(path[1]) if path[1].isdecimal() else len(value)
        return value[at] if at < len(value) else None
    for name in path[1:]:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def type_of(value: Value, hint: str | None = None) -> str:
    """Return the type of a raw value; the empty string if it is a missing one."""
    if value is None or (isinstance(value, tuple | list) and not value):
        return ""
    if isinstance(value, Objects):
        return OBJECTS
    if hint == LABEL_TEXT:
        return _label_type(value)
    if hint == LABEL_FLOATS:
        if isinstance(value, tuple) and mxnet.is_detection(value) and mxnet.in_shares(value):
            return OBJECTS
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
    if hugging_face.has_form(value) or objects.has_form(value):
        return OBJECTS
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
    if isinstance(value, str) and value[:1] == "{":
        with suppress(ValueError, RecursionError):
            return "json" if isinstance(json.loads(value), dict) else "text"
    kind = type_of(value).replace("float64", "float32")  # labels are 32-bit in most formats
    return "class" if kind == "int" else kind


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
    label_type: str | None = None  # `class`, `multi`, `float` or `text`
    only: tuple[str, ...] = ()  # the fields to keep; empty for all
    drop: tuple[str, ...] = ()  # the fields to leave out
    # new names by old ones; with a dot in front, the exact name
    rename: Mapping[str, str] = field(default_factory=dict)
    # the old ones that an earlier run knew, and that samples may lack
    recorded: frozenset[str] = frozenset()
    cast: Mapping[str, str] = field(default_factory=dict)  # new types by names of fields
    schema: Schema | None = None  # the schema, which then is not settled by a look
    look_all: bool = False  # whether all samples are looked at
    no_image: bool = False  # whether samples need no image
    raw_image: str = ""  # the shape of the image, which is bare pixels; empty if it is not given
    unlabeled: bool = False  # whether no field is the label, as the schema says

    def __post_init__(self) -> None:
        if both := set(self.only) & set(self.drop):
            raise OptionError(f"--only and --drop: {', '.join(sorted(both))} is in both")
        if len(set(self.new_names.values())) < len(self.rename):
            raise OptionError("--rename gives two fields the same name")
        if bare := [name for name, new in self.rename.items() if not new.removeprefix(".")]:
            raise OptionError(f"--rename {bare[0]}={self.rename[bare[0]]}: gives no name")
        for name, new in self.rename.items():
            if "=" in new:
                raise OptionError(f"--rename {name}={new}: give --rename again for another field")
        for name, kind in self.cast.items():
            if kind not in _CASTS:
                raise OptionError(f"--cast {name}={kind}: choose one of {', '.join(_CASTS)}")

    @property
    def paths(self) -> tuple[Place, ...]:
        """The parts of JSON that the name of the label may mean."""
        parts = (self.label or "").split(".")
        return tuple((".".join(parts[:at]), *parts[at:]) for at in range(1, len(parts)))

    @property
    def new_names(self) -> Mapping[str, str]:
        """The new names of fields by their old ones, without the dot that makes them exact."""
        return {name: new.removeprefix(".") for name, new in self.rename.items()}

    def options(self) -> dict[str, Any]:
        """Return the choice as a manifest records it: what the schema does not tell."""
        told = {"only": sorted(self.only), "drop": sorted(self.drop), "rename": dict(self.rename)}
        told |= {"cast": dict(self.cast)}
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
    told, is_given = choice.schema or told or Schema(()), choice.schema is not None
    # Several raw names are one place, as all extensions of JPEG are, unless one sample has two.
    seen = {
        place: had
        for place, had in observed.places.items()
        if len(place) > 1
        or (place[0] != table.place_of(place[0])) == (table.place_of(place[0]) in observed.together)
    }
    taken: dict[str, Field] = {}
    ignored: set[str] = set()
    roles: dict[str, str] = {}
    parted = {place[0] for place in told.by_place if len(place) > 1}
    # A member `.jpg` that the user named exactly has the place of all images.
    by_table: dict[Place, Field] = {
        (table.place_of(place[0]),): each
        for place, each in told.by_place.items()
        if each.kind.is_image
    }
    apart = set[str]()  # JSON that is nothing but fields of their own, as a look shows
    for place in table.parts:
        if place in seen and not (parted or told.objects or is_given):
            keys, beside = {place[-1], *FACTS}, (place[0], IMAGE_ID)
            is_all = beside in seen and seen[beside].count == observed.samples
            if is_all and IMAGE_ID not in {table.meaning(raw).field for raw, *_ in seen}:
                keys.add(IMAGE_ID)
                numbered = Field(IMAGE_ID, "int", places=(beside,), told="a look")
                told = replace(told, fields=(*told.fields, numbered))
            if seen[place[:1]].keys.keys() <= keys:
                apart.add(place[0])
    for place, had in seen.items():
        raw, is_part = place[0], len(place) > 1
        meaning = Meaning("") if is_part else table.meaning(raw)
        known = told.by_place.get(place) or by_table.get(place)
        if known is None and not is_part:
            role = {IMAGE: told.image, LABEL: told.label}.get(meaning.role)
            named = (told.by_name.get(name) for name in (raw, meaning.field, role) if name)
            known = next((each for each in named if each and not each.places), None)
        lacks = had.count < observed.samples
        if known is not None:
            lacks = lacks and known.type != OBJECTS  # an image without a word of them has none
            taken[known.name] = replace(
                known,
                places=known.places or (place,),
                missing=known.missing or (not is_given and lacks and len(known.places) < 2),
                told=known.told or ("--schema" if is_given else ""),
                width=had.width,
            )
        elif OBJECTS in had.kinds and len(had.kinds) == 1 and not is_given:
            name = OBJECTS if OBJECTS not in taken else raw
            taken[name] = Field(name, OBJECTS, places=(place,), told="a look", flags=had.flags)
        elif is_given or not meaning.field or (raw in parted | apart and not is_part):
            ignored.update(() if is_part or raw in apart else (raw,))
        elif (kind := _joined(had, place, source)) is not None:
            name = meaning.field if meaning.field not in taken else raw
            if name in taken:  # by convention; a raw name of its own goes first
                own = taken.pop(name)
                other = own.places[0][0]
                taken[other] = replace(own, name=other)
                roles = {role: other if named == name else named for role, named in roles.items()}
            taken[name] = Field(name, kind, lacks, (), (place,), "a look", width=had.width)
            if meaning.role:
                roles.setdefault(meaning.role, name)
    for each in [each for each in told.fields if each.name not in taken]:
        if is_given and not each.missing and observed.samples:
            there = format_some([".".join(place) for place in seen])
            raise SourceError(
                f"{source}: no sample has the field {each.name!r} that --schema names; the samples "
                f"have {there}"
            )
        if each.places:
            lacks = bool(observed.samples) and each.type != OBJECTS
            taken[each.name] = replace(each, missing=each.missing or lacks)
    schema = Schema(tuple(taken.values()), format=table.name)
    for name, kind in choice.cast.items():
        if (found := schema.named(name)) is None:
            raise OptionError(f"--cast {name}={kind}: {_no_such_field(schema, source)}")
        if found.kind.is_image or found.type == OBJECTS:
            raise OptionError(f"--cast {name}={kind}: the field is {found.kind.what}")
        schema = schema.with_field(replace(found, type=kind, names=(), told="--cast"))
    schema = _with_label(schema, seen, choice, told.label or roles.get(LABEL), source)
    image = told.image if told.image in schema.by_name else roles.get(IMAGE)
    schema = _with_image(schema, choice, image, source)
    roles_first = sorted(
        schema.fields, key=lambda each: (schema.image, schema.label, each.name).index(each.name)
    )
    schema = replace(schema, fields=tuple(roles_first))
    told_of = sorted(raw for raw in ignored if table.meaning(raw).field)  # no bookkeeping
    note = f"left out, because --schema does not name it: {format_some(told_of)}"
    notes = (note,) if is_given and told_of else ()
    counts = {
        each.name: max((seen[place].count for place in each.places if place in seen), default=0)
        for each in schema.fields
    }
    return Settled(schema, frozenset(ignored), notes, counts, observed.samples)


def _joined(seen: Seen, place: Place, source: str) -> str | None:
    """Return the type of all values at a place; None if none was seen."""
    first, *others = seen.kinds or ("",)
    joined = first
    for kind in others:
        wider = join(joined, kind)
        if wider is None:
            (key, value), (other, second) = seen.kinds[first], seen.kinds[kind]
            raise SourceError(
                f"{source}: {'.'.join(place)!r} is {value} in the sample {key!r} and {second} in "
                f"{other!r}, which have no type in common: correct one of them, give --drop "
                f"{place[0]}, or name the type in a --schema FILE"
            )
        joined = wider
    return joined or None


def _with_label(
    schema: Schema, seen: Mapping[Place, Seen], choice: Choice, known: str | None, source: str
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
            why = _no_such_field(schema, source) + _keys_to_name(seen, choice.label)
            raise OptionError(f"--label-field {choice.label}: {why}")
    else:
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
    kind = "class" if label.type == "int" else label.type
    if choice.label_type is not None and (choice.label_type, kind) != ("class", "text"):
        numbers = "list<float32>" if label.kind.is_list else "float32"
        asked = {"class": "class", "multi": "list<int>", "text": "text", "float": numbers}
        kind = asked[choice.label_type]
    return replace(schema.with_field(replace(label, type=kind)), label=label.name)


def _with_image(schema: Schema, choice: Choice, known: str | None, source: str) -> Schema:
    images = [each.name for each in schema.fields if each.type == "image" or each.kind.is_raw]
    if choice.image is not None:
        found = schema.named(choice.image)
        if found is None:
            raise OptionError(f"--image-field {choice.image}: {_no_such_field(schema, source)}")
        if found.type not in ("image", "bytes") and not found.kind.is_raw:
            raise OptionError(f"--image-field {choice.image}: holds {found.kind.what}")
        kind = found.type if found.kind.is_raw else "image"
        schema = schema.with_field(replace(found, type=kind))
        return replace(schema, image=found.name)
    lower = {name.lower(): name for name in reversed(images)}
    likely = (lower[name] for name in IMAGE_NAMES if name in lower)
    if known not in images:
        known = images[0] if len(images) == 1 else next(likely, None)
    if known is None and images:
        raise SourceError(
            f"{source}: {format_count(len(images), 'field')} are images, and nothing tells which "
            f"is the image of a sample: give --image-field {' or --image-field '.join(images)}"
        )
    return replace(schema, image=known)


def _no_such_field(schema: Schema, source: str) -> str:
    return f"no sample of {source} has this field; fields are {format_some(list(schema.by_name))}"


def _keys_to_name(seen: Mapping[Place, Seen], label: str) -> str:
    """Return what a message adds on the keys of JSON fields."""
    own = {path[0]: each.keys for path, each in seen.items() if each.keys}
    likely = [f"{name}.{key}" for name in own if (key := label.split(".")[-1]) in own[name]]
    if likely and label not in likely:
        return f"; did you mean {' or '.join(likely)}?"
    return "".join(f"; {name} has {format_some(list(keys))}" for name, keys in own.items())


def idle_names(option: str, names: Iterable[str], schema: Schema) -> list[str]:
    """Return a note on the names of an option that no field has; none if all have one."""
    unknown = [name for name in names if not schema.named(name)]
    which = "this field" if len(unknown) == 1 else "these"
    return [f"{option} {','.join(unknown)}: no sample has {which}"] if unknown else []


def select(settled: Settled, choice: Choice) -> tuple[Settled, list[str]]:
    """Leave fields out and rename others."""
    schema = settled.schema
    there = format_some(list(schema.by_name))
    # Whatever has a role may be kept by it: a list may tell the labels later.
    named = [name for name in choice.only if name not in (IMAGE, LABEL)]
    for problem in idle_names("--only", named, schema):
        raise OptionError(f"{problem}; fields are {there}")
    idle = idle_names("--drop", choice.drop, schema)
    facts = _named_facts(choice, schema)
    dropped, only = (
        {found.name for name in names if (found := schema.named(name))}
        for names in (choice.drop, choice.only)
    )
    kept = [
        each
        for each in schema.fields
        if each.name not in dropped and (each.name in only or not choice.only)
    ]
    if not kept and schema.fields:
        raise OptionError(f"--only and --drop leave no field of {there}")
    new = {
        found.name: (to, choice.rename[name][0] == ".")
        for name, to in choice.new_names.items()
        if (found := schema.named(name))
    }
    still: dict[str | None, str] = {each.name: each.name for each in kept}
    fields = []
    for each in kept:
        if each.name in new:
            name, exact = new[each.name]
            still[each.name] = name
            fact = each.tells if name != each.tells else each.fact
            each = replace(each, name=name, given=True, exact=exact, fact=fact)
        fields.append(each)
    fields += facts
    if len({each.name for each in fields}) < len(fields):
        raise OptionError("--rename gives a field the name of another one")
    image, label = still.get(schema.image), still.get(schema.label)
    chosen = replace(schema, fields=tuple(fields), image=image, label=label)
    gone = {place[0] for each in schema.fields if each.name not in still for place in each.places}
    counts = {still[name]: count for name, count in settled.counts.items() if name in still}
    # What the look has not seen may be left out as well: it may come later.
    ignored = settled.ignored | gone | {name for name in choice.drop if not schema.named(name)}
    return settled._replace(schema=chosen, ignored=ignored, counts=counts), idle


def _named_facts(choice: Choice, schema: Schema) -> list[Field]:
    """Return the facts of images that --rename names and samples lack: they are made."""
    facts = []
    for name, new in choice.new_names.items():
        if schema.named(name) or (name in choice.recorded and name not in FACTS):
            continue
        if name not in FACTS or schema.image is None:
            there = format_some(list(schema.by_name))
            what = "no sample has this field, and no fact of an image has this name"
            raise OptionError(
                f"--rename {name}: {what}; fields are {there}; facts are {', '.join(FACTS)}"
            )
        exact = choice.rename[name][0] == "."
        made = Field(new, FACTS[name], True, told="the image", given=True, exact=exact, fact=name)
        facts.append(made)
    return facts


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
        elif not each.missing and not each.tells:
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
