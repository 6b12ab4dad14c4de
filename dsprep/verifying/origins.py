"""The source of shards: its catalog, and how their samples were made of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

from dsprep.catalog import Catalog
from dsprep.errors import SourceError
from dsprep.options import require_effect
from dsprep.pipeline import Images, Pipeline
from dsprep.schema import Choice, Schema
from dsprep.sources.classes import has_flags, renumbered
from dsprep.sources.reading import Source, read_source
from dsprep.verifying.comparison import Matched, Origin, class_problems, match_fields
from dsprep.verifying.inspection import Problem
from dsprep.verifying.shards import Shards
from dsprep.verifying.understanding import Understood
from dsprep.workers.pool import Pool

_MOST_CLASSES = 20
"""Classes that are called otherwise than this are no classes of the source."""


def find_origin(
    shards: Shards,
    understood: Understood,
    against: Source,
    rejected: frozenset[str],
    part_of: Mapping[str, int],
    pool: Pool,
) -> tuple[Origin, Understood, list[Problem]]:
    """Find out how samples of shards were made of those of a source."""
    made = shards.made
    if understood.schema is None:
        raise SourceError(f"{shards.directory}: {understood.notes[-1]}; nothing can be compared")
    catalog, _ = read_source(_as_recorded(against, made.fields, understood), pool.map)
    settled = catalog.settled
    assert settled is not None
    require_effect("", {"--classes": against.classes}, labeled=catalog.is_labeled)
    reader, layout = catalog.reader, made.layout
    if not understood.enforced and reader.whole and reader.table.name == layout.name:
        # Samples that were copied have the fields of the source, which all were looked at for.
        known = understood.schema.by_name
        fields = tuple(
            replace(each, missing=True, names=known[each.name].names if each.name in known else ())
            for each in settled.schema.fields
        )
        schema = replace(settled.schema, fields=fields)
        understood = understood._replace(
            schema=schema, ignored=settled.ignored, pixels=reader.pixels
        )
    assert understood.schema is not None
    base: Schema = understood.schema
    own, named = catalog.classes, base.label_field.names if base.label_field else ()
    told = against.classes is not None or against.class_order is not None
    are_numbers = catalog.label_column == "cls" or has_flags(catalog)
    if own and named and set(own) <= set(named) and are_numbers and not told:
        catalog = renumbered(catalog, named)  # an option, or an append, has numbered them
        catalog = replace(catalog, told=catalog.told | {"label"})
    recipe = Pipeline(
        catalog.reader,
        settled.schema,
        replace(layout, schema=None if made.transform else base),
        Images(check="none", max_pixels=made.max_pixels),
        made.key,
        catalog.classes,
        told=catalog.told,
    )
    is_transformed = made.transform is not None
    matched = match_fields(base, recipe.schema, layout, is_transformed, made.known)
    origin = Origin(catalog, recipe, matched, rejected, part_of)
    return origin, understood, list(_problems(shards, matched, catalog))


def _as_recorded(against: Source, fields: Choice, understood: Understood) -> Source:
    """Return a source, of which the fields are kept that were kept when the shards were made."""
    choice = replace(
        against.choice,
        only=fields.only,
        drop=fields.drop,
        rename=fields.rename,
        look_all=against.choice.look_all or not (understood.enforced or against.choice.schema),
    )
    label = understood.schema.label_field if understood.schema else None
    if label is not None and label.type == "text" and choice.label_type is None:
        choice = replace(choice, label_type="text")
    return replace(against, choice=choice, whole=True)


def _problems(shards: Shards, matched: Matched, catalog: Catalog) -> Iterator[Problem]:
    """Find fields and classes of the source that the shards do not have."""
    for name in matched.unheld if shards.made.known else ():
        yield Problem(shards.manifest_name, None, "", f"has no field {name!r}, and the source has")
    file = shards.manifest_name or str(shards.directory)
    fields = catalog.settled.schema.by_name if catalog.settled else {}
    for at, each in enumerate(matched.fields):
        name = matched.names.get(each.name, each.name)
        names = (
            catalog.classes if at == matched.label else fields[name].names if name in fields else ()
        )
        if each.type == "class":
            yield from islice(class_problems(each.names, names, file), _MOST_CLASSES)
