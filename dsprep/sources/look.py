"""A look at some samples of a catalog: the types of their values, and bare pixels among them.

The look is the same for any number of workers: the first 64 samples of the set, then the first and
the second of every shard, in source order, within 64 MB. Workers call the functions at the end, so
that polars is imported only where it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from dsprep.places.scan import RunAll
from dsprep.rows import Pixels, Reader, Rows
from dsprep.sample import Sample
from dsprep.schema import (
    IMAGE_NAMES,
    Choice,
    Field,
    Observed,
    Schema,
    SettledSchema,
    Table,
    observe,
    settle,
)
from dsprep.sources.raw_pixels import BY_FORMAT, RawPixels, raw_pixels

if TYPE_CHECKING:
    from dsprep.catalog import Catalog

FIRST = 64  # samples of the set that are looked at
_OF_SHARD = 2  # samples of each shard
_MOST_BYTES = 64_000_000  # bytes of all samples that are looked at
_TASKS = 16  # that look, if samples are many
# samples that a worker looks at, at least: each worker opens files, which takes requests on S3
_LEAST = 32


def look(catalog: Catalog, choice: Choice, run_all: RunAll) -> Observed:
    """Look at samples: at some of each shard, or at all."""
    import polars as pl

    from dsprep.catalog import AT_ONCE

    table = catalog.table
    if not choice.look_all:
        row, of_shard = pl.col("row"), pl.int_range(pl.len())
        if "file" in table.columns:
            of_shard = of_shard.over("file")
        # Those of all shards are among those of each part of the table.
        candidates = (
            table.slice(at, AT_ONCE)
            .with_columns(row=at + pl.int_range(pl.len()))
            .filter((row < FIRST) | (of_shard < _OF_SHARD))
            for at in range(0, table.height, AT_ONCE)
        )
        first = pl.concat([table.clear().with_columns(row=pl.lit(0, pl.Int64)), *candidates])
        rank = pl.when(row < FIRST).then(0).otherwise(1 + of_shard)
        first = first.with_columns(rank=rank).sort("rank", "row")
        fits = (pl.col("size").cast(pl.Int64).cum_sum() <= _MOST_BYTES) | (row == 0)
        first = first.filter(fits & (pl.col("rank") <= _OF_SHARD)).sort("row")
        table = first.drop("row", "rank")
    share = max(_LEAST, -(-table.height // _TASKS))
    parts = (replace(catalog, table=part) for part in table.iter_slices(share))
    found = Observed()
    for part in run_all(look_at, [(catalog.reader, part.rows(), choice) for part in parts]):
        found.add(part)
    return found


def settle_samples(
    look_with: Callable[[RawPixels | None], Observed],
    find: Callable[[Field | None], RawPixels | None],
    table: Table,
    choice: Choice,
    source: str,
    declared: Schema | None = None,
) -> tuple[SettledSchema, RawPixels | None]:
    """Look at samples, find bare pixels among them, and settle their schema.

    Args:
        look_with: Looks at samples, whose bare pixels are made images if it is told where they are.
        find: Finds bare pixels; it may be given the field that holds them.
        table: What the format says of raw names.
        choice: What the user says.
        source: The source, for messages.
        declared: What the source says of itself.
    """
    observed, own = look_with(None), raw_field(choice.schema or declared)
    pixels = None
    if own is not None or choice.raw_image or may_have_pixels(observed, choice):
        pixels = find(own)
    if pixels is not None:
        observed = look_with(pixels)
        choice = replace(choice, schema=without_sizes(choice.schema, pixels))
        declared = without_sizes(declared, pixels)
    settled = settle(observed, table, choice, source, declared)
    if not choice.box:
        settled = settled._replace(notes=(*settled.notes, *_tried_boxes(observed, source)))
    return with_pixels(settled, pixels), pixels


def _tried_boxes(observed: Observed, source: str) -> list[str]:
    """Try whether boxes are in the documented order; refuse others, and return notes."""
    boxes = max((seen.boxes for seen in observed.places.values()), key=len, default=[])
    if not boxes:
        return []
    import polars as pl

    from dsprep.sources.box_orders import EDGES, HEIGHT, WHERE, WIDTH, require_documented

    names = (WHERE, *EDGES, WIDTH, HEIGHT)
    kinds = {name: pl.String if name == WHERE else pl.Float64 for name in names}
    note = require_documented(pl.DataFrame(boxes, kinds, orient="row"), source)
    return [note] if note else []


def look_at(task: tuple[Reader, Rows, Choice]) -> Observed:
    """Look at some samples, in a worker."""
    reader, rows, choice = task
    samples = (sample for sample in reader.read(rows) if isinstance(sample, Sample))
    return observe(samples, reader.table, choice)


def may_have_pixels(observed: Observed, choice: Choice) -> bool:
    """Return whether samples may have an image as bare pixels."""
    kinds = {place[0]: seen.kinds for place, seen in observed.places.items()}
    if any(said in BY_FORMAT for each in kinds.values() for _, said in each.values()):
        return True
    may_be = any("bytes" in kinds.get(name, ()) for name in (*IMAGE_NAMES, choice.image or ""))
    return may_be and not any("image" in each for each in kinds.values())


def raw_field(declared: Schema | None) -> Field | None:
    """Return the image of a schema if that is bare pixels."""
    image = declared.image_field if declared is not None else None
    return image if image is not None and image.kind.is_raw else None


def without_sizes(declared: Schema | None, pixels: RawPixels) -> Schema | None:
    """Return a schema without the sizes of bare pixels, which are made images that tell them."""
    if declared is None:
        return None
    sizes = {(name,) for name in pixels.beside}
    kept = (each for each in declared.fields if sizes.isdisjoint(each.places))
    return replace(declared, fields=tuple(kept))


def with_sizes(schema: Schema, pixels: Pixels | None, table: Table) -> Schema:
    """Return the schema of raw samples, which have the sizes of bare pixels beside them."""
    image = schema.image_field
    missing = image is None or image.missing
    for raw, kind in pixels.beside.items() if pixels is not None else ():
        name = table.meaning(raw).field or "format"
        schema = schema.with_field(Field(name, kind, missing, places=((raw,),)))
    return schema


def find_pixels(task: tuple[Reader, Rows, Choice, Field | None]) -> RawPixels | None:
    """Find where samples have bare pixels, in a worker."""
    reader, rows, choice, known = task
    samples = (each for each in reader.read(rows) if isinstance(each, Sample))
    return raw_pixels(samples, reader.table, choice, known)


def with_pixels(settled: SettledSchema, pixels: RawPixels | None) -> SettledSchema:
    """Return a schema whose image is bare pixels in the source, if it is."""
    image = settled.schema.image_field
    if pixels is None or image is None or image.kind.is_raw:
        return settled
    return settled._replace(schema=settled.schema.with_field(replace(image, type=pixels.type)))
