"""Look at a few samples before anything is written: their fields, and what a transform would spoil.

Indexing tells the fields of some sources only in part: a tar's headers name members, the index of a
TFRecord names nothing. What this look does not find, workers find when they come to it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dsprep.planning.fields import say_unmatched, with_derived
from dsprep.planning.geometry import dependent_fields, label_depends, refusal
from dsprep.planning.packing import Packing
from dsprep.readers.base import Reader
from dsprep.rows import Rows
from dsprep.sample import IMAGE_KINDS, UNKNOWN_IMAGE, Sample
from dsprep.units import format_count
from dsprep.workers.pool import Pool

if TYPE_CHECKING:
    from dsprep.catalog import Catalog

_SAMPLES = 64
"""How many samples are looked at."""

_ONLY_VALUES_TELL = frozenset(
    (
        *(*IMAGE_KINDS, UNKNOWN_IMAGE, "width", "height", "cls", "class", "filename", "id"),
        *("txt", "text", "json", "label", "label.json", "features.json"),
    )
)
"""Names that do not show whether the field depends on geometry. Other names of members do."""


@dataclass
class Looked:
    """What a look at a few samples found.

    Attributes:
        samples: How many samples could be read.
        fields: How many of them have each field.
        dependent: In how many of them each field may depend on the geometry of the image.
    """

    samples: int = 0
    fields: Counter[str] = field(default_factory=Counter)
    dependent: Counter[str] = field(default_factory=Counter)


def look_at(task: tuple[Reader, Rows]) -> Looked:
    """Read some samples, in a worker."""
    reader, rows = task
    found = Looked()
    for sample in reader.read(rows):
        if isinstance(sample, Sample):
            found.samples += 1
            found.fields.update(sample.fields.keys())
            found.dependent.update(dependent_fields(sample))
    return found


def look(packing: Packing, catalog: Catalog, pool: Pool) -> Looked:
    """Look at a few samples, spread over the source, if there is something to learn from them."""
    moves = packing.transform is not None and packing.transform.moves
    known = _known(packing, catalog, Looked())
    if not catalog.reader.whole or not (moves or say_unmatched(packing.named_fields(), known)):
        return Looked()
    count = min(_SAMPLES, len(catalog))
    places = [number * len(catalog) // count for number in range(count)]
    (found,) = pool.map(
        look_at, [(catalog.reader, replace(catalog, table=catalog.table[places]).rows())]
    )
    return found


def require_unspoiled(packing: Packing, catalog: Catalog, looked: Looked) -> None:
    """Refuse a transform that changes the geometry of images, and not that of other fields.

    Raises:
        OptionError: If samples have such fields, as far as that is known before all are read.
    """
    transform = packing.transform
    if transform is None or not transform.moves:
        return
    counts: Counter[str] = Counter()
    for (name, kind), count in catalog.fields.items():
        counts[name] += count if kind in ("", "bytes", "Ints", "Floats", "Blobs") else 0
    spoiled: dict[str, str] = {}
    at_all = looked.samples == len(catalog)
    for name, count in looked.dependent.items():
        exact = count if at_all else counts[name] if name not in IMAGE_KINDS else 0
        of_those = f" of the {looked.samples:,} looked at"
        spoiled[name] = format_count(exact or count, "sample") + ("" if exact else of_those)
    for name, count in counts.items():
        if count and not looked.fields[name] and name not in _ONLY_VALUES_TELL:
            spoiled[name] = format_count(count, "sample")
    if catalog.label_column == "label":
        count = sum(map(label_depends, map(tuple, catalog.table["label"].to_list())))
        if count:
            spoiled["label"] = format_count(count, "sample")
    spoiled = {
        name: said
        for name, said in spoiled.items()
        if packing.fields.apply({name: 0}) and name not in packing.keep_fields
    }
    if spoiled:
        raise refusal(transform.moving_option, spoiled)


def unmatched(packing: Packing, catalog: Catalog, looked: Looked) -> list[str]:
    """Say which options name a field that no sample has."""
    if catalog.reader.whole and not (catalog.fields or looked.samples):
        return []
    of_those = looked.samples and looked.samples < len(catalog) and not catalog.fields
    who = f"none of the {looked.samples:,} samples looked at" if of_those else "no sample"
    return say_unmatched(packing.named_fields(), _known(packing, catalog, looked), who)


def _known(packing: Packing, catalog: Catalog, looked: Looked) -> set[str]:
    """The names of fields that options may give."""
    known = {name for name, _ in catalog.fields} | looked.fields.keys()
    if catalog.label_column is not None:
        known.add(catalog.label_column)
    if not catalog.reader.whole:
        known.update(catalog.image_kinds())
    if catalog.classes and "cls" in known:
        known.add("class")
    return with_derived(known, packing.layout)
