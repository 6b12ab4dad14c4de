"""Settling the schema of a source, from what it says of itself and from a look at raw samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dsprep.errors import OptionError, SourceError
from dsprep.schema.choice import Choice
from dsprep.schema.fields import FACTS, IMAGE, LABEL, Field, Schema
from dsprep.schema.look import OBJECTS, Observed, Table
from dsprep.schema.rules import (
    BY_BASE,
    BY_SOURCE,
    IMAGE_RULES,
    LABEL_RULES,
    Evidence,
    decide,
    find_role,
    images_of,
    no_such_field,
)
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some


class SettledSchema(NamedTuple):
    """A schema, and how it came about."""

    schema: Schema  # the schema
    ignored: frozenset[str] = frozenset()  # the raw names that are left out
    notes: tuple[str, ...] = ()  # what there is to say, a line each
    counts: Mapping[str, int] = {}  # how many samples of the look have each field
    samples: int = 0  # how many samples were looked at
    box: str = ""  # what the user says of the boxes of objects as Hugging Face has them


def settle(
    observed: Observed, table: Table, choice: Choice, source: str, declared: Schema | None = None
) -> SettledSchema:
    """Settle the schema of a source: by the rules, which fields there are, the label, the image."""
    evidence = Evidence(choice, choice.schema or declared or Schema(()), table, observed, source)
    fields, ignored = _fields(evidence)
    schema = Schema((*fields.values(), *_unseen(fields, evidence)), format=table.name)
    schema = _with_casts(schema, choice, source)
    schema = _with_label(schema, evidence)
    schema = _with_image(schema, evidence)
    roles_first = sorted(
        schema.fields, key=lambda each: (schema.image, schema.label, each.name).index(each.name)
    )
    schema = replace(schema, fields=tuple(roles_first))
    counts = {
        each.name: max((evidence.count(place) for place in each.places), default=0)
        for each in schema.fields
    }
    notes = _notes(ignored, evidence)
    box = choice.box if any(seen.boxes for seen in observed.places.values()) else ""
    return SettledSchema(schema, frozenset(ignored), notes, counts, observed.samples, box)


def _fields(evidence: Evidence) -> tuple[dict[str, Field], set[str]]:
    """Return the fields that samples show, by name, and the raw names that are left out."""
    fields: dict[str, Field] = {}
    ignored: set[str] = set()
    for raw in evidence.raws:
        decision = decide(raw, evidence)
        if decision is None:
            continue
        if (field := decision.field) is not None:
            _add(fields, field, decision.other_name)
        elif not raw.is_part and raw.name not in evidence.split_up:
            ignored.add(raw.name)
    return fields, ignored


def _add(fields: dict[str, Field], field: Field, other_name: str) -> None:
    """Add a field, under its other name if another field has its name."""
    if other_name and field.name in fields:
        field = replace(field, name=other_name)
        # a field that got this name by convention makes way for the raw name
        if field.name in fields:
            moved = fields.pop(field.name)
            moved = replace(moved, name=moved.places[0][0])
            fields[moved.name] = moved
    fields[field.name] = field


def _unseen(fields: Mapping[str, Field], evidence: Evidence) -> Iterable[Field]:
    """Return the fields that a schema describes and no sample of the look has."""
    samples, is_given = evidence.observed.samples, evidence.choice.schema is not None
    for each in evidence.declared.fields:
        if each.name in fields:
            continue
        if is_given and not each.missing and samples:
            there = format_some([".".join(place) for place in evidence.seen])
            raise SourceError(
                f"{evidence.source}: no sample has the field {each.name!r} that --schema names; "
                f"the samples have {there}"
            )
        if each.places:
            # An image without a word of them has no objects.
            lacks = bool(samples) and each.type != OBJECTS
            told, why = (
                (each.told or "--schema", "--schema") if is_given else (each.told, BY_SOURCE)
            )
            yield replace(each, missing=each.missing or lacks, told=told, why=why)


def _notes(ignored: set[str], evidence: Evidence) -> tuple[str, ...]:
    """Return what there is to say of raw names that are left out."""
    # bookkeeping such as __key__ is no field
    names = sorted(raw for raw in ignored if evidence.table.meaning(raw).field)
    if evidence.choice.schema is None or not names:
        return ()
    return (f"left out, because --schema does not name it: {format_some(names)}",)


def _with_casts(schema: Schema, choice: Choice, source: str) -> Schema:
    """Return the schema with the types that `--cast` gives."""
    for name, kind in choice.cast.items():
        if (found := schema.named(name)) is None:
            raise OptionError(f"--cast {name}={kind}: {no_such_field(schema, source)}")
        if found.kind.is_image or found.type == OBJECTS:
            raise OptionError(f"--cast {name}={kind}: the field is {found.kind.what}")
        schema = schema.with_field(replace(found, type=kind, names=(), told="--cast"))
    return schema


def _with_label(schema: Schema, evidence: Evidence) -> Schema:
    """Return the schema with its label, of the type that the user wants."""
    choice = evidence.choice
    if choice.unlabeled and choice.label is None:
        return schema
    label = find_role(LABEL_RULES, schema, evidence)
    if label is None:
        return schema
    is_read = label.type in ("bytes", "list<bytes>") and choice.label_type is not None
    if not (label.kind.is_label or label.type == "list<text>" or is_read):
        if choice.label is not None:
            what = label.kind.what
            raise OptionError(f"--label-field {choice.label}: is {what}, which is no label")
        return schema
    label = replace(label, type=_type_of_label(label, choice.label_type))
    return replace(schema.with_field(label), label=label.name)


def _type_of_label(label: Field, asked: str | None) -> str:
    """Return the type of the label: the one that is asked for; a whole number is a class."""
    kind = "class" if label.type == "int" else label.type
    if asked is None or (asked, kind) == ("class", "text"):  # names of classes, numbered later
        return kind
    numbers = "list<float32>" if label.kind.is_list else "float32"
    return {"class": "class", "multi": "list<int>", "text": "text", "float": numbers}[asked]


def _with_image(schema: Schema, evidence: Evidence) -> Schema:
    """Return the schema with its image."""
    image = find_role(IMAGE_RULES, schema, evidence)
    if image is not None:
        return replace(schema.with_field(image), image=image.name)
    if images := [each.name for each in images_of(schema)]:
        raise SourceError(
            f"{evidence.source}: {format_count(len(images), 'field')} are images, and nothing "
            f"tells which is the image of a sample: give --image-field "
            f"{' or --image-field '.join(images)}"
        )
    return schema


def idle_names(option: str, names: Iterable[str], schema: Schema) -> list[str]:
    """Return a note on the names of an option that no field has; none if all have one."""
    unknown = [name for name in names if not schema.named(name)]
    which = "this field" if len(unknown) == 1 else "these"
    return [f"{option} {','.join(unknown)}: no sample has {which}"] if unknown else []


def select(settled: SettledSchema, choice: Choice) -> tuple[SettledSchema, list[str]]:
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
        made = Field(
            new,
            FACTS[name],
            True,
            told="the image",
            given=True,
            exact=exact,
            fact=name,
            why="--rename",
        )
        facts.append(made)
    return facts


def impose(source: SettledSchema, base: Schema, where: str) -> SettledSchema:
    """Give the fields of a source the types of a data set that it is added to."""
    schema = source.schema
    fields: list[Field] = []
    used: set[str] = set()
    for each in base.fields:
        role = {base.image: schema.image, base.label: schema.label}.get(each.name)
        found = schema.by_name.get(each.name) or schema.by_name.get(role or "")
        if found is not None:
            used.add(found.name)
            fields.append(replace(each, places=found.places, why=BY_BASE))
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
