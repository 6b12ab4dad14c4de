"""Look at a few samples before anything is written: what would a transform spoil?

What this look does not find, workers find when they come to it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from dsprep.plan.geometry import label_depends, refusal
from dsprep.plan.packing import Packing
from dsprep.plan.recipe import Recipe, dependents_finder
from dsprep.rows import Rows
from dsprep.sample import Sample
from dsprep.units import format_count
from dsprep.workers.pool import Pool

if TYPE_CHECKING:
    from dsprep.catalog import Catalog

_SAMPLES = 64
"""How many samples are looked at."""


class Looked(NamedTuple):
    """What a look at a few samples found."""

    samples: int  # how many samples could be read
    # in how many of them each field may depend on the geometry of the image
    dependent: Counter[str]


def look_at(task: tuple[Recipe, Rows]) -> Looked:
    """Read some samples, in a worker."""
    recipe, rows = task
    dependents = dependents_finder(recipe)
    samples = [each for each in recipe.reader.read(rows) if isinstance(each, Sample)]
    return Looked(len(samples), Counter(name for each in samples for name in dependents(each)))


def require_unspoiled(packing: Packing, catalog: Catalog, pool: Pool) -> None:
    """Refuse a transform that changes the geometry of images, and not that of other fields."""
    transform = packing.transform
    if transform is None or not transform.moves:
        return
    spoiled: dict[str, str] = {}
    if catalog.reader.whole:
        count = min(_SAMPLES, len(catalog))
        places = [number * len(catalog) // count for number in range(count)]
        rows = replace(catalog, table=catalog.table[places]).rows()
        (looked,) = pool.map(look_at, [(packing.recipe(catalog), rows)])
        of_those = f" of the {looked.samples:,} looked at" if count < len(catalog) else ""
        for name, found in looked.dependent.items():
            spoiled[name] = format_count(found, "sample") + of_those
    if catalog.label_column == "label" and catalog.settled is not None:
        count = sum(map(label_depends, map(tuple, catalog.table["label"].to_list())))
        schema = catalog.settled.schema
        kept = [schema.named(name) for name in packing.keep_fields]
        if count and schema.label is not None and schema.label_field not in kept:
            spoiled[schema.label] = format_count(count, "sample")
    if spoiled:
        raise refusal(transform.moving_option, spoiled)
