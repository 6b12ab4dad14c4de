"""Settling the schema of a source, from what it says of itself and from a look at raw samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from dsprep.errors import OptionError, SourceError
from dsprep.schema.choice import Choice
from dsprep.schema.fields import FACTS, IMAGE, LABEL, Field, Place, Schema, join
from dsprep.schema.look import IMAGE_ID, OBJECTS, Meaning, Observed, Seen, Table
from dsprep.units import format_count, format_some

# conventional names of the image among several, and of the label, the likeliest first
IMAGE_NAMES = (
    *("image", "img", "picture", "photo", "jpg", "jpeg", "png", "webp", "bytes", "image_raw"),
    *("rgb", "0"),
)
LABEL_NAMES = (
    *("label", "labels", "label_id", "fine_label", "cls", "class", "class_id", "class_label"),
    *("target", "category", "category_id", "y"),
)


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
