"""One manifest of several data sets, whose shards stay as they are."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any

from dsprep.dataset.find import DataSet
from dsprep.dataset.manifest import Manifest, common_name
from dsprep.errors import OptionError, SourceError
from dsprep.formats import writes_tree
from dsprep.schema import Schema

# Options that do not say what a sample is: how the source was selected and cut into shards.
_CUT = ("size", "seed", "selection")
_OF_EACH = {*_CUT, "sides", "single_file", "apart", "appended"}


def joined(sets: Sequence[DataSet]) -> Manifest:
    """Return the manifest of the shards of all sets, without the files beside them."""
    first, schema = sets[0], sets[0].manifest.schema
    for each in sets:
        if writes_tree(each.recorded.layout.name):
            raise OptionError(f"{each.name}: is a folder of files; join takes data sets of shards")
    for other in sets[1:]:
        _require_alike(first, other)
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
    objects = [each.objects for each in every if each.objects is not None]
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
        objects=(sum(all for all, _ in objects), sum(some for _, some in objects))
        if len(objects) == len(every)
        else None,
    )


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
        else:  # its ids are those of its own source
            own, others = one.options, first.options
            added = {name: own.get(name) for name in _CUT if own.get(name) != others.get(name)}
            added |= {"source": one.source, "first_id": 0}
        yield added | {"first_shard": position}


def _require_alike(first: DataSet, other: DataSet) -> None:
    """Refuse samples that were made in another way, or whose classes have other numbers."""
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
    if bool(one.sides) != bool(two.sides):
        without, sided = (first, other) if two.sides else (other, first)
        raise SourceError(f"{without.name}: has no sides, and {sided.name} has")
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
    if one is two is None:  # shards of other programs
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


def _require_apart(sets: Sequence[DataSet]) -> None:
    """Refuse files of one name, and samples that are in two data sets."""
    paths = Counter(each.path for each in sets)
    for path, count in paths.items():
        if count > 1:
            raise OptionError(f"{path}: its data set is given {count} times; name it once")
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
