"""One manifest of several data sets, whose shards or files stay as they are."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import chain, zip_longest
from typing import Any

from dsprep.dataset.find import DataSet
from dsprep.dataset.manifest import Manifest, common_name
from dsprep.errors import OptionError, SourceError
from dsprep.numbering import natural_order
from dsprep.schema import Schema

# Options that do not say what a sample is: how the source was selected and cut into shards.
_CUT = ("size", "seed", "selection")
_OF_EACH = {*_CUT, "sides", "single_file", "apart", "appended"}


def joined(sets: Sequence[DataSet]) -> Manifest:
    """Return the manifest of the shards of all sets, without the files beside them."""
    first, schema = sets[0], sets[0].manifest.schema
    for other in sets[1:]:
        _require_alike(first, other)
        _require_same_classes(first, other)
        schema = _joined_schema(first, other, schema, other.manifest.schema)
    _require_apart(sets)
    every = [each.manifest for each in sets]
    sides = list(dict.fromkeys(chain.from_iterable(each.sides.values() for each in every)))
    placed = [
        (one, shard)
        for side in sides or [""]
        for one in every
        for shard in one.shards
        if one.sides.get(shard.name, "") == side
    ]
    of_side = Counter(one.sides.get(shard.name, "") for one, shard in placed)
    options = {**first.manifest.options, "single_file": False}
    options["appended"] = list(_added(first.manifest, placed))
    if sides:
        options["sides"] = {side: of_side[side] for side in sides}
    shards = [shard for _, shard in placed]
    return replace(
        first.manifest,
        name=common_name({each.name for each in every}),
        samples=sum(shard.samples for shard in shards),
        rejected=sum(each.rejected for each in every),
        bytes=sum(shard.bytes for shard in shards),
        options=options,
        shards=shards,
        files=(),
        schema=schema,
        enforced=all(each.enforced for each in every),
        objects=_sum_of_objects(every),
        layout={},  # that of one source is not that of another
    )


def joined_folders(sets: Sequence[DataSet]) -> Manifest:
    """Return the manifest of the files of all folders, as far as it is known before a listing.

    Class names are merged. Numbers of samples and bytes are those of all folders together.
    """
    first, schema = sets[0], sets[0].manifest.schema
    for other in sets[1:]:
        _require_alike(first, other)
        if not merges_classes(first.manifest):
            _require_same_classes(first, other)
        schema = _joined_schema(first, other, schema, other.manifest.schema)
    _require_named_once(sets)
    every = [each.manifest for each in sets]
    classes = first.manifest.classes
    if merges_classes(first.manifest):
        classes = _merged_names(sets, [each.classes for each in every])
        schema = _with_all_names(sets, schema)
    options = dict(first.manifest.options)
    if sides := [each.options["sides"] for each in every if each.options.get("sides")]:
        options["sides"] = dict.fromkeys(dict.fromkeys(chain.from_iterable(sides)), 1)
    return replace(
        first.manifest,
        name=common_name({each.name for each in every}),
        classes=classes,
        samples=sum(each.samples for each in every),
        rejected=sum(each.rejected for each in every),
        bytes=sum(each.bytes for each in every),
        source=sha256("".join(each.digest for each in every).encode()).hexdigest(),
        options=options,
        files=(),
        schema=schema.with_names(classes) if schema and schema.label_field and classes else schema,
        enforced=all(each.enforced for each in every),
        objects=_sum_of_objects(every),
        layout={},  # that of one source is not that of another
    )


def merges_classes(manifest: Manifest) -> bool:
    """Return whether the files of a folder name classes, so that these may get other numbers."""
    schema = manifest.schema or Schema(())
    named = [field for field in schema.fields if field.names]
    is_plain = all(field.kind.is_integer and not field.ids for field in named)
    return schema.objects is None and is_plain


def _merged_names(
    sets: Sequence[DataSet], lists: Sequence[Sequence[str] | None]
) -> tuple[str, ...] | None:
    """Return the class names of all, in the order that each list has, or in that of their first."""
    known = [(each, names) for each, names in zip(sets, lists, strict=True) if names]
    if not known:
        return None
    (first, names), *others = known
    if all(own == names for _, own in others) and len(known) == len(sets):
        return tuple(names)
    for each, own in zip(sets, lists, strict=True):
        if not own or "" in own:
            why = f"class {own.index('')} has no name" if own else "classes have no names"
            raise SourceError(
                f"{each.name}: its {why}, and those of {first.name} have; give each machine the "
                "same --classes FILE"
            )
    every = dict.fromkeys(chain.from_iterable(names for _, names in known))
    for order in (sorted, natural_order):
        if all(tuple(names) == tuple(order(names)) for _, names in known):
            return tuple(order(every))
    return tuple(every)


def _with_all_names(sets: Sequence[DataSet], schema: Schema | None) -> Schema | None:
    """Return a schema whose class fields, apart from the label, have the names of all folders."""
    if schema is None:
        return None
    fields = []
    for field in schema.fields:
        own = [each.manifest.schema.by_name[field.name] for each in sets if each.manifest.schema]
        if field.name != schema.label and any(each.names for each in own):
            names = _merged_names(sets, [each.names for each in own])
            field = replace(field, names=names or ())
        fields.append(field)
    return replace(schema, fields=tuple(fields))


def _sum_of_objects(every: Sequence[Manifest]) -> tuple[int, int] | None:
    """Return how many objects there are, and how many samples have any; None if one is unknown."""
    known = [each.objects for each in every if each.objects is not None]
    if len(known) < len(every):
        return None
    return sum(count for count, _ in known), sum(count for _, count in known)


def _added(first: Manifest, placed: Sequence[tuple[Manifest, Any]]) -> Iterator[dict[str, Any]]:
    """Yield what ``shard append`` would record of the shards after those of the first source."""
    before = (first, 0)
    for position, (one, shard) in enumerate(placed):
        part = one.parts[shard.name]
        if (one, part) == before:
            continue
        before = one, part
        if part:
            added = dict(one.added[part - 1])
        else:  # the ids of this part were numbered in its own source
            own, others = one.options, first.options
            added = {name: own.get(name) for name in _CUT if own.get(name) != others.get(name)}
            added |= {"source": one.source, "first_id": 0}
        yield added | {"first_shard": position}


def _require_alike(first: DataSet, other: DataSet) -> None:
    """Refuse samples that were made in another way."""
    one, two = first.manifest, other.manifest
    if one.format != two.format:
        raise SourceError(f"{other.name}: is {two.format}, and {first.name} is {one.format}")
    names = sorted((one.options.keys() | two.options.keys()) - _OF_EACH)
    differ = [name for name in names if one.options.get(name) != two.options.get(name)]
    if differ:
        raise SourceError(
            f"{other.name}: was written with other options than {first.name} "
            f"({', '.join(differ)}); give each machine the same ones"
        )
    sided = [bool(each.options.get("sides")) for each in (one, two)]
    if sided[0] != sided[1]:
        without, known = (first, other) if sided[1] else (other, first)
        raise SourceError(f"{without.name}: has no sides, and {known.name} has")


def _require_same_classes(first: DataSet, other: DataSet) -> None:
    """Refuse samples whose classes have other numbers."""
    one, two = first.manifest, other.manifest
    for field, mine in _class_names(one).items():
        for number, (name, own) in enumerate(zip_longest(mine, _class_names(two).get(field, ()))):
            if name != own:
                of_field = f" of the field {field!r}" if field else ""
                has, had = ("missing" if each is None else repr(each) for each in (own, name))
                raise SourceError(
                    f"{other.name}: its class {number}{of_field} is {has}, and that of "
                    f"{first.name} is {had}; give each machine the same --classes FILE"
                )


def _class_names(manifest: Manifest) -> Mapping[str, Sequence[str]]:
    """Return the names of classes: those of the label, and by the names of other fields."""
    schema = manifest.schema or Schema(())
    label = schema.label_field
    return {"": manifest.classes or (label.names if label else ())} | {
        field.name: [f"{name} ({id})" for name, id in zip(field.names, field.ids, strict=True)]
        if field.ids
        else field.names
        for field in schema.others
    }


def _joined_schema(
    first: DataSet, other: DataSet, one: Schema | None, two: Schema | None
) -> Schema | None:
    """Return the schema of the samples of both; a field may be missing in either."""
    if one is two is None:  # neither data set has a schema: other programs wrote the shards
        return None
    one, two, fields = one or Schema(()), two or Schema(()), []
    for name in {**one.by_name, **two.by_name}:
        mine, own = one.by_name.get(name), two.by_name.get(name)
        if mine is None or own is None:
            without, known = (first, other) if mine is None else (other, first)
            raise SourceError(
                f"{without.name}: has no field {name!r}, and {known.name} has; give each machine "
                "the same --only FIELD[,FIELD...]"
            )
        if mine.type != own.type:
            raise SourceError(
                f"{other.name}: its field {name!r} is {own.type}, and that of {first.name} is "
                f"{mine.type}; give each machine --cast {name}=TYPE"
            )
        places = tuple(dict.fromkeys((*mine.places, *own.places)))
        flags = mine.flags or own.flags
        fields.append(
            replace(mine, missing=mine.missing or own.missing, places=places, flags=flags)
        )
    if (one.image, one.label, one.format) != (two.image, two.label, two.format):
        raise SourceError(
            f"{other.name}: has another image or label than {first.name}; give each machine the "
            "same --image-field and --label-field"
        )
    return replace(one, fields=tuple(fields))


def _require_named_once(sets: Sequence[DataSet]) -> None:
    paths = Counter(each.path for each in sets)
    for path, count in paths.items():
        if count > 1:
            raise OptionError(f"{path}: its data set is given {count} times; name it once")


def _require_apart(sets: Sequence[DataSet]) -> None:
    """Refuse files of one name, and samples that are in two data sets."""
    _require_named_once(sets)
    of_files: dict[str, DataSet] = {}
    of_sources: dict[str, DataSet] = {}
    for each in sets:
        for shard in each.manifest.shards:
            for file in (shard, *shard.sidecars):
                name = os.path.basename(file.name)
                if (known := of_files.setdefault(name, each)) is not each:
                    raise SourceError(
                        f"{each.name}: has a file {name}, as {known.name} has; give each "
                        "machine a --name of its own"
                    )
        for source in (each.manifest.source, *(it.get("source") for it in each.manifest.added)):
            if source and (known := of_sources.setdefault(str(source), each)) is not each:
                raise SourceError(
                    f"{each.name}: holds samples of the same source as {known.name}; leave one out"
                )
