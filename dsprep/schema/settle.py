"""Settling the schema of a source, from what it says of itself and from a look at samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from dsprep.errors import OptionError, SourceError
from dsprep.schema.fields import FACTS, IMAGE, LABEL, Field, Place, Schema
from dsprep.schema.look import Choice, Meaning, Observed, Seen, Table
from dsprep.schema.types import TYPES, join
from dsprep.units import format_count, format_some

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
