"""What was left open and depends on the source, and what the source rules out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dsprep.errors import OptionError, SourceError
from dsprep.formats.folder import Folder
from dsprep.formats.parquet import Parquet, parquet_for
from dsprep.options import require_effect
from dsprep.planning.cuts import ShardSize
from dsprep.planning.fields import FieldChoice
from dsprep.planning.packing import Packing
from dsprep.readers.parquet import ParquetReader
from dsprep.readers.shards import ShardReader
from dsprep.sample import TYPES
from dsprep.sources.reading import may_be_labeled
from dsprep.units import format_count

if TYPE_CHECKING:
    from dsprep.catalog import Catalog

_UNIT = 64_000_000
"""Bytes of files that a worker writes of a folder before they are noted as done."""


def settle(packing: Packing, catalog: Catalog) -> Packing:
    """What was asked for, with all that was left open and depends on the source."""
    check, size, layout = packing.check, packing.size, packing.layout
    if isinstance(layout, Parquet):
        layout = _columns(packing, catalog)
    else:
        _require_no_doubles(packing, catalog)
    if check is None:
        # A reader that dies of an image must not get it. What is whole already is not judged anew.
        guarded = packing.layout.readable_images is not None
        check = "decode" if guarded else "none" if catalog.reader.whole else "header"
    if size.by_file and not (catalog.reader.whole and catalog.keeps_files_together()):
        size = ShardSize()
    if isinstance(packing.layout, Folder):
        size = ShardSize(target=_UNIT)
    looks = packing.transform is not None or check != "none" or "width" in layout.wants
    require_effect(
        packing.command,
        packing.given,
        carried=size.by_file,
        looks=looks,
        parquet=isinstance(catalog.reader, ParquetReader),
        labeled=may_be_labeled(catalog),
    )
    # Not a tar of CIFAR, say, nor samples whose labels a list changes.
    copies = packing.copies and isinstance(catalog.reader, ShardReader) and not catalog.told
    return replace(packing, check=check, size=size, layout=layout, copies=copies)


def _columns(packing: Packing, catalog: Catalog) -> Parquet:
    """Parquet with columns for all fields that the samples have."""
    fields = packing.fields.apply_to_counts(catalog.fields)
    if not catalog.reader.whole:
        types = {"cls": "int", "label": "tuple"}
        label = {
            (name, types[name]): len(catalog)
            for name in packing.fields.apply(dict.fromkeys(types))
            if name == catalog.label_column
        }
        fields = {("jpg", "bytes"): len(catalog)} | label
    reader = catalog.reader
    columns = reader.columns if isinstance(reader, ParquetReader) else None
    return parquet_for(fields, catalog.classes, source=columns)


def _require_no_doubles(packing: Packing, catalog: Catalog) -> None:
    """Refuse columns of 64-bit floats where they would not survive.

    Raises:
        OptionError: If there are any, and they are neither dropped nor to be rounded.
    """
    if not isinstance(catalog.reader, ParquetReader):
        return
    columns = catalog.reader.columns
    doubles = [
        name
        for name, kind in columns.kinds
        if kind in ("double", "list<double>")
        and name not in columns.rounded
        and name not in (columns.image, columns.label)
    ]
    kept = list(packing.fields.apply(dict.fromkeys(doubles, None)))
    if kept:
        names = ",".join(kept)
        raise OptionError(
            f"{packing.source.root}: holds 64-bit floats in {', '.join(kept)}, and "
            f"{packing.layout.name} holds 32-bit ones: give --round {names}, or --drop {names}"
        )


def require_held(packing: Packing, catalog: Catalog) -> None:
    """Refuse a source whose fields the format cannot hold, before anything is written.

    Raises:
        OptionError: If there are such fields and they are not to be dropped.
    """
    counts: dict[str, int] = {}
    types: dict[str, type] = {}
    for (name, kind), count in catalog.fields.items():
        counts[name] = counts.get(name, 0) + count
        types[name] = TYPES.get(kind, bytes)
    kept = packing.fields.apply(counts)
    unheld = packing.layout.unheld(packing.fields.apply(types))
    if unheld:
        named = ", ".join(
            f"{name} ({format_count(kept.get(name, 0), 'sample')})" for name in unheld
        )
        raise OptionError(
            f"{packing.layout.name} cannot hold {named}; "
            f"give --drop {','.join(unheld)} to leave {'it' if len(unheld) == 1 else 'them'} out"
        )


def require_images(packing: Packing, catalog: Catalog) -> None:
    """Refuse a choice of fields that leaves out images of image files.

    Raises:
        OptionError: If it does.
    """
    if catalog.reader.whole or packing.fields.is_all:
        return
    kinds = catalog.image_kinds()
    lost = [kind for kind in kinds if not packing.fields.apply({kind: None})]
    if lost:
        raise OptionError(
            f"{packing.source.root}: holds images and labels; --only and --drop leave no image of "
            f"the kind {' or '.join(lost)}, and no sample is without one: keep the field image"
        )


def with_chosen_label(fields: FieldChoice, catalog: Catalog) -> Catalog:
    """Return the catalog without labels and class names, if the labels are left out."""
    # If nothing tells which fields there are, a class number is most likely.
    guess = "label" if "label" in (fields.only or ()) else "cls"
    known = {name for name, _ in catalog.fields} & {"cls", "label"}
    labels = {catalog.label_column} if catalog.label_column else known or {guess}
    if fields.apply(dict.fromkeys(labels)):
        return catalog
    return replace(catalog, table=catalog.table.drop(labels, strict=False), classes=None)


def settle_labels(packing: Packing, catalog: Catalog) -> Packing:
    """What was asked for, with a format for samples that have labels, or for such as have none.

    Raises:
        SourceError: If some have labels and others have not, and the format needs them; or if the
            samples to which these are added are of the other kind.
    """
    layout, root = packing.layout, packing.source.root
    if not layout.needs_labels:
        return packing
    fields = packing.fields.apply_to_counts(catalog.fields)
    labeled, count = replace(catalog, fields=fields).labeled(), len(catalog)
    if 0 < labeled < count:
        raise SourceError(
            f"{root}: {count - labeled:,} of {count:,} samples have no label, and {layout.name} "
            "holds none without: label these, leave them out, or choose another format"
        )
    settled = layout.with_labels(labeled > 0)
    if packing.first_shard and settled != layout:
        there = packing.destination
        raise SourceError(
            f"{root}: its samples have labels, and those of {there} have none"
            if labeled
            else f"{root}: its samples have no labels, and those of {there} have: give --labels "
            "or --list, or put the images of each class into a directory of its own"
        )
    return replace(packing, layout=settled)


def require_exact_labels(packing: Packing, catalog: Catalog) -> None:
    """Refuse class numbers that the format cannot hold exactly.

    Raises:
        SourceError: If there is one.
    """
    limit = packing.layout.max_class
    if limit is not None and catalog.label_column == "cls":
        largest = max(map(abs, catalog.samples_per_class()))
        if largest > limit:
            raise SourceError(
                f"{packing.source.root}: the label {largest} is above {limit}, which "
                f"{packing.layout.name} cannot hold exactly; choose another format"
            )
