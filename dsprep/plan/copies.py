"""Which samples get copies that are augmented, and how many: rows of the catalog."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dsprep.dataset.copies import Copies
from dsprep.errors import OptionError, SourceError
from dsprep.places.names import SPLITS, side_of_source, usual_side
from dsprep.sample import copy_expr
from dsprep.schema import Schema
from dsprep.units import format_count, format_some

if TYPE_CHECKING:
    import polars as pl

    from dsprep.catalog import Catalog

_TRAIN = "train"
_MOST_COPIES = 100_000_000  # rows of a catalog that fit into memory


def with_copies(catalog: Catalog, asked: Copies, kept: Sequence[str]) -> tuple[Catalog, list[str]]:
    """Return a catalog with a row for each copy, after that of its sample, and notes on that.

    Args:
        catalog: The samples.
        asked: How many copies.
        kept: The further images of samples that do not depend on the image.
    """
    import polars as pl

    _require_fields(catalog, kept)
    _require_few(max(asked.per_image or 0, asked.per_class or 0))
    if not catalog.keys_known:
        raise SourceError(
            f"{catalog.root}: several samples have one key, and the keys of copies are made of "
            "these; give dsprep convert --key index first"
        )
    chosen, notes = _sides_of(catalog, asked)
    table = catalog.table.with_columns(origin=pl.int_range(pl.len(), dtype=pl.Int64))
    counts, more = _counts(catalog, asked, chosen)
    first = pl.when(chosen & (not asked.keep_originals)).then(1).otherwise(0)
    numbers = pl.int_ranges(first, counts + 1, dtype=pl.Int64)
    _require_few(int(table.select("origin", copies=counts.cast(pl.Float64))["copies"].sum()))
    left_out = table.select((chosen & (counts == 0)).sum()).item()
    if not asked.keep_originals and left_out:
        more.append(f"{format_count(left_out, 'sample')} without a copy left out")
    table = table.with_columns(copy=numbers).filter(pl.col("copy").list.len() > 0).explode("copy")
    is_copy = pl.col("copy") > 0
    # Originals keep their ids.
    ids = catalog.table["index"].max() + is_copy.cum_sum().cast(pl.Int64)
    table = table.with_columns(
        path=copy_expr(), index=pl.when(is_copy).then(ids).otherwise("index")
    )
    label = catalog.label_column
    own = [name for name in catalog.table.columns if name != label]
    table = table.select(*own, "copy", "origin", *filter(None, [label]))
    count = int((table["copy"] > 0).sum())
    if not count:
        raise OptionError("no sample gets a copy: each class has that many samples already")
    origins = table.filter(pl.col("copy") > 0)["origin"].n_unique()
    noun = "copy" if count == 1 else "copies"
    made = f"{count:,} augmented {noun} of {format_count(origins, 'sample')}"
    notes = [*notes, *more, made]
    catalog = replace(catalog, table=table)
    for key, names in catalog.collisions()[:1]:
        raise SourceError(
            f"{catalog.root}: the key {key} would be that of several samples ({format_some(names)})"
            ": rename files; if some are copies already, augment the originals only"
        )
    return catalog, notes


def _require_few(count: int) -> None:
    if count > _MOST_COPIES:
        raise OptionError(f"{count:,} copies: dsprep writes {_MOST_COPIES:,} at once; give fewer")


def _require_fields(catalog: Catalog, kept: Sequence[str]) -> None:
    """Refuse samples with fields that would not fit the copies of their image."""
    schema: Schema = catalog.settled.schema
    if schema.image is None:
        raise SourceError(
            f"{catalog.root}: its samples have no image to augment; fields are "
            f"{format_some(list(schema.by_name))}: give --image-field NAME"
        )
    others = [
        each.name
        for each in schema.fields
        if each.kind.is_image and each.type != "mask" and each.name not in (schema.image, *kept)
    ]
    if others:
        names = ",".join(others)
        raise OptionError(
            f"copies change the image and its masks, but not the further images {names}: give "
            f"--keep-fields {names} if they do not depend on it, or --drop {names}"
        )


def _sides_of(catalog: Catalog, asked: Copies) -> tuple[pl.Expr, list[str]]:
    """Return which rows get copies, and say which sides do not."""
    import polars as pl

    if asked.any_side:
        return pl.lit(True), []
    if not catalog.sides:
        name = os.path.basename(catalog.root.removesuffix("/manifest.json").rstrip("/"))
        if usual_side(side_of_source(catalog.root) or _TRAIN) != _TRAIN:
            raise SourceError(
                f"{catalog.root}: is called {name}, and copies of images for validation or test "
                "would spoil what these measure: give --any-side if it is a training set"
            )
        _require_no_split_in(catalog)
        return pl.lit(True), []
    own = [number for number, name in enumerate(catalog.sides) if usual_side(name) == _TRAIN]
    others = [name for name in catalog.sides if usual_side(name) != _TRAIN]
    if not own:
        raise SourceError(
            f"{catalog.root}: has the sides {format_some(catalog.sides)}, and none is for "
            "training: give --any-side to augment all of them"
        )
    notes = [f"without copies, as these sides are not for training: {format_some(others)}"]
    return pl.col("side").is_in(own), notes if others else []


def _require_no_split_in(catalog: Catalog) -> None:
    """Refuse classes such as ``dogs/val/pug``, whose images are for validation or test."""
    for name in catalog.classes or ():
        *above, _ = parts = name.split("/")
        for depth, part in enumerate(parts if above else (), 1):
            if SPLITS.get(part.lower(), _TRAIN) != _TRAIN:
                raise SourceError(
                    f"{catalog.root}: has the class {name}, and copies of images for validation or "
                    f"test would spoil what these measure: give --sides-from {depth}, or "
                    "--any-side if all images are for training"
                )


def _counts(catalog: Catalog, asked: Copies, chosen: pl.Expr) -> tuple[pl.Expr, list[str]]:
    """Return how many copies each row gets, and say which classes are larger than asked for."""
    import polars as pl

    if asked.per_image is not None:
        return pl.when(chosen).then(asked.per_image).otherwise(0), []
    option = "--balance" if asked.balance else f"--per-class {asked.per_class}"
    if catalog.label_column != "cls":
        raise OptionError(
            f"{option}: the samples of {catalog.root} do not have one class each; give --per-image"
        )
    counted = catalog.table.filter(chosen).group_by("cls").len().sort("cls")
    per_class: dict[int, int] = dict(counted.iter_rows())
    names = catalog.classes or ()
    empty = [name for number, name in enumerate(names) if name and number not in per_class]
    if empty:
        raise SourceError(
            f"{option}: {format_count(len(empty), 'class')} without images to copy: "
            f"{format_some(empty)}; add images, or name the others with --keep-classes"
        )
    wanted = max(per_class.values()) if asked.balance else asked.per_class
    own = pl.len().over("cls", chosen).cast(pl.Int64)
    place = pl.int_range(pl.len(), dtype=pl.Int64).over("cls", chosen)
    missing = pl.lit(wanted, dtype=pl.Int64) - (own if asked.keep_originals else 0)
    counts = (missing // own + (place < missing % own)).clip(0)
    large = [number for number, count in per_class.items() if count > (wanted or 0)]
    notes = []
    if large and asked.keep_originals:
        named = format_some([names[number] if names else str(number) for number in large])
        notes.append(f"{format_count(len(large), 'class')} with more samples than that: {named}")
    return pl.when(chosen).then(counts).otherwise(0), notes
