"""Measure the images of samples: what their headers say, how they look, and what they are equal to.

Workers run :func:`measure`. Nothing of an image is kept but numbers, so memory does not grow with
the images.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from operator import mul
from typing import TYPE_CHECKING, Any, TypeAlias

from dsprep.annotations.objects import Objects
from dsprep.errors import BadImage, BadSample, SourceError
from dsprep.formats import FORMATS
from dsprep.frozen import Frozen
from dsprep.images.header import DEFAULT_MAX_PIXELS, NAMES, read_header, require_whole
from dsprep.images.phash import perceptual_hash, quick_hash
from dsprep.images.transform import converted, load, open_image, orientation_of, pillow
from dsprep.pipeline import Images, Pipeline, read_samples
from dsprep.rows import Rows
from dsprep.sample import Sample
from dsprep.schema import Schema
from dsprep.storage.files import read_bytes
from dsprep.tuples import NamedTuple
from dsprep.units import format_count
from dsprep.workers.executor import Executor
from dsprep.workers.worker import counted

if TYPE_CHECKING:
    import polars as pl
    from PIL.Image import Image

    from dsprep.catalog import Catalog

_AT_ONCE = 256  # samples of a task
_CENTER = 96  # pixels: the edge of the part of an image whose sharpness is measured
_LUMA = (0.299, 0.587, 0.114)  # the parts of red, green and blue (ITU-R BT.601)
_LEVELS = range(256)
_SQUARES = [level * level for level in _LEVELS]
_TURNED = frozenset({5, 6, 7, 8})  # EXIF orientations of images that lie on their sides


Digest: TypeAlias = bytes  # a column is called `bytes`, too


class SampleMeasures(NamedTuple):
    """The measurements of a sample: a row of the table."""

    row: int  # number of the row in the catalog
    labels: list[str]  # its class, or several labels; numbers, if classes have no names
    label: list[float] | None  # the numbers of its label, if they are no classes
    objects: list[str] | None  # the class of each of its objects; None if there can be none
    reason: str | None = None  # why it, or its image, cannot be read
    bytes: int | None = None  # size of the encoded image; None without an image
    digest: Digest | None = None  # digest of the bytes of the image
    kind: str | None = None  # kind of the image, as in `ImageHeader`
    width: int | None = None  # in pixels, upright
    height: int | None = None
    mode: str | None = None  # mode of the image, as Pillow names it
    orientation: int | None = None  # EXIF's, 1 to 8
    # these are None if the image was not decoded
    means: list[float] | None = None  # means of red, green and blue, from 0 to 1
    squares: list[float] | None = None  # the means of their squares
    brightness: float | None = None  # the mean of luma (ITU-R BT.601), 0 to 1
    contrast: float | None = None  # the root of the mean variance of red, green and blue, 0 to 1
    # the standard deviation of the Laplacian (up + down + left + right - 4 times the pixel) of luma
    # in the middle, at most 96 pixels wide and high, in levels of 255; more than 127 counts as 127
    sharpness: float | None = None
    hash: int | None = None  # perceptual, of 64 bits; None if the image is flat, or nothing hashes


class Look(Frozen):
    """How samples are looked at. Plain data, pickled for the workers."""

    pipeline: Pipeline  # how samples are read
    decode: bool = True  # whether images are decoded
    hash: bool = True  # whether they are hashed by what they show, which needs numpy
    hash_alone: bool = False  # whether no more of what they show is wanted, which is faster


def reading_pipeline(catalog: Catalog, max_pixels: int | None = None) -> Pipeline:
    """Return how the samples of a catalog are read, with all their fields."""
    schema = catalog.settled.schema
    limit = DEFAULT_MAX_PIXELS if max_pixels is None else max_pixels
    return Pipeline(
        catalog.reader,
        schema,
        replace(FORMATS["parquet"](), schema=schema),
        Images(check="none", max_pixels=limit),
        classes=catalog.classes,
        overridden=catalog.overridden,
    )


def measure_catalog(
    catalog: Catalog, names: pl.Series, look: Look, pool: Executor, report: Callable[..., None]
) -> pl.DataFrame:
    """Measure the samples of a catalog, in workers.

    Args:
        catalog: The samples.
        names: What lists call them; if the catalog is a part of another, they are unique in that.
        look: How they are looked at.
        pool: The workers.
        report: Receives the progress.

    Returns:
        A row for each sample, in their order: its ``path`` and ``side`` (empty without sides), and
        the attributes of :class:`SampleMeasures`.
    """
    import polars as pl

    schema = _columns()
    starts = range(0, len(catalog), _AT_ONCE)
    tasks = ((look, at, catalog.slice(at, _AT_ONCE).rows()) for at in starts)
    found = {
        at: pl.DataFrame(rows, schema, orient="row")
        for at, rows in pool.run(measure, tasks, report)
    }
    table = pl.concat([found[at] for at in sorted(found)]) if found else pl.DataFrame(schema=schema)
    # polars 2.1 panics on texts made of columns whose chunks do not line up.
    return _named(catalog, names).hstack(table).rechunk()


def _named(catalog: Catalog, names: pl.Series) -> pl.DataFrame:
    """Return the name of each sample, and its side; empty without sides."""
    import polars as pl

    sides = pl.Series("side", [""] * len(catalog), pl.String)
    if catalog.sides:
        sides = pl.Series("side", catalog.sides, pl.String).gather(catalog.table["side"])
    return pl.DataFrame([names.alias("path"), sides])


def _columns() -> dict[str, Any]:
    """Return the types of the columns of :class:`SampleMeasures`."""
    import polars as pl

    of_items = dict.fromkeys(("labels", "objects"), pl.List(pl.String))
    of_items |= dict.fromkeys(("label", "means", "squares"), pl.List(pl.Float64))
    numbers = dict.fromkeys(("bytes", "width", "height", "orientation"), pl.Int64)
    floats = dict.fromkeys(("brightness", "contrast", "sharpness"), pl.Float64)
    others = {"row": pl.UInt32, "digest": pl.Binary, "hash": pl.UInt64}
    known = {**of_items, **numbers, **floats, **others}
    return {name: known.get(name, pl.String) for name in SampleMeasures._fields}


def _has_holes() -> pl.Expr:
    """Return whether a list lacks a value, which is so in none that was measured."""
    import polars as pl

    of_three = pl.col("means", "squares").list
    return pl.any_horizontal(
        pl.col(pl.List).list.eval(pl.element().is_null().any()).list.any().any(),
        (of_three.len() != 3).any(),
        pl.col("means").is_null().ne(pl.col("squares").is_null()).any(),
    )


def is_measured(data: bytes) -> bool:
    """Return whether a file is a table of measured samples."""
    import polars as pl

    try:
        return {"path", "side", *SampleMeasures._fields} <= {
            *pl.read_parquet_schema(io.BytesIO(data))
        }
    except pl.exceptions.PolarsError:
        return False


def read_measured(paths: Sequence[str], catalog: Catalog, names: pl.Series) -> pl.DataFrame:
    """Read what other processes measured of a catalog, a file of Parquet each.

    The samples have ``names``, as :func:`measure_catalog` takes them.

    Raises:
        SourceError: If a file is no such table, or samples of the catalog are in none of them.
    """
    import polars as pl

    schema = {"path": pl.String, "side": pl.String, **_columns()}
    tables = []
    for path in paths:
        try:
            table = pl.read_parquet(io.BytesIO(read_bytes(path)))
        except (OSError, pl.exceptions.PolarsError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not Parquet"
            raise SourceError(f"{path}: cannot be read: {why}") from None
        if not schema.items() <= table.schema.items() or table.select(_has_holes()).item():
            raise SourceError(f"{path}: is not a table that dsprep inspect --part has written")
        tables.append(table.select(*schema))
    found = pl.concat(tables).drop("row", "side").unique("path")
    named = _named(catalog, names).with_row_index("row")
    table = named.join(found, on="path", how="left", maintain_order="left")
    lacking = table.filter(pl.col("labels").is_null())["path"]
    if len(lacking):
        raise SourceError(
            f"{', '.join(paths)}: have {len(table) - len(lacking):,} of the "
            f"{format_count(len(table), 'sample')} to look at, not {lacking[0]}: name the files of "
            "all parts, which need the same --sample and --seed"
        )
    return table.select(*schema)


def measure(task: tuple[Look, int, Rows], report: Callable[..., None]) -> list[SampleMeasures]:
    """Measure some samples; the first of them is this row."""
    look, first, rows = task
    found: list[SampleMeasures] = []
    for each in counted(_measured(look, first, rows), report, lambda: _size_of(found)):
        found.append(each)
    return found


def _size_of(found: Sequence[SampleMeasures]) -> int:
    return sum(each.bytes or 0 for each in found)


def _measured(look: Look, first: int, rows: Rows) -> Iterator[SampleMeasures]:
    schema = look.pipeline.schema
    for row, sample in enumerate(read_samples(look.pipeline, rows), first):
        if isinstance(sample, BadSample):
            yield SampleMeasures(row, [], None, None, str(sample))
            continue
        found = SampleMeasures(row, *_labels(sample, schema), _objects(sample, schema))
        data = sample.encoded
        if sample.image is None or sample.image not in sample.fields:
            yield found
            continue
        try:
            yield _seen(found, data, look)
        except BadImage as error:
            yield found._replace(reason=str(error))


def _labels(sample: Sample, schema: Schema) -> tuple[list[str], list[float] | None]:
    """Return the classes of a sample, by name where they have names, and its other numbers."""
    field = schema.label_field
    value = sample.fields.get(field.name) if field else None
    if field is None or value is None or field.type == "objects":
        return [], None
    values = [*value] if isinstance(value, list | tuple) else [value]
    if field.kind.item.name.startswith("float"):
        return [], values
    if sample.class_name is not None and len(values) == 1:
        return [sample.class_name], None
    has_names = field.kind.item.name == "class" or bool(field.names)
    return [(has_names and field.class_name(each)) or str(each) for each in values], None


def _objects(sample: Sample, schema: Schema) -> list[str] | None:
    """Return the classes of the objects of a sample; None if there can be none."""
    if (field := schema.objects) is None:
        return None
    value = sample.fields.get(field.name)
    items = value.items if isinstance(value, Objects) else ()
    return [field.class_name(each.number) or str(each.number) for each in items]


def _seen(found: SampleMeasures, data: bytes, look: Look) -> SampleMeasures:
    """Look at an image."""
    header = read_header(data)
    require_whole(data, header)
    max_pixels = look.pipeline.images.max_pixels
    with pillow(f"cannot decode this {NAMES[header.kind]}", max_pixels):
        image = open_image(data, header, max_pixels)
        mode, orientation = image.mode, 1 if header.kind == "tif" else orientation_of(image)
        across, down = image.size[::-1] if orientation in _TURNED else image.size
        found = found._replace(
            bytes=len(data),
            digest=blake2b(data, digest_size=16).digest(),
            kind=header.kind,
            width=across,
            height=down,
            mode=mode,
            orientation=orientation,
        )
        if not look.decode:
            return found
        if look.hash_alone:
            return found._replace(hash=quick_hash(image, orientation))
        load(image)
        colors = converted(image, "rgb", alpha=False)
        luma = colors.convert("L")
        means, squares, variances = map(list, zip(*_moments(colors.histogram()), strict=True))
        return found._replace(
            means=means,
            squares=squares,
            brightness=sum(map(mul, means, _LUMA)),
            contrast=math.sqrt(sum(variances) / 3),
            sharpness=_sharpness(luma),
            hash=perceptual_hash(luma, orientation) if look.hash else None,
        )


def _moments(histogram: Sequence[int]) -> list[tuple[float, float, float]]:
    """Return the mean of each channel, from 0 to 1, the mean of its squares, and its variance."""
    count = sum(histogram[:256])
    found = []
    for at in range(0, len(histogram), 256):
        levels = histogram[at : at + 256]
        first, second = sum(map(mul, levels, _LEVELS)), sum(map(mul, levels, _SQUARES))
        # In whole numbers, what does not vary has a variance of 0.
        variance = (count * second - first * first) / (255 * count) ** 2
        found.append((first / (255 * count), second / (255**2 * count), variance))
    return found


def _sharpness(luma: Image) -> float:
    left, top = max(0, (luma.width - _CENTER) // 2), max(0, (luma.height - _CENTER) // 2)
    right, bottom = min(luma.width, left + _CENTER), min(luma.height, top + _CENTER)
    if min(right - left, bottom - top) < 3:
        return 0.0
    edges = luma.crop((left, top, right, bottom)).filter(_laplacian())
    # Pillow leaves the outermost pixels as they are.
    edges = edges.crop((1, 1, edges.width - 1, edges.height - 1))
    ((_, _, variance),) = _moments(edges.histogram())
    return 255 * math.sqrt(variance)


@cache
def _laplacian() -> Any:
    from PIL import ImageFilter

    return ImageFilter.Kernel((3, 3), (0, 1, 0, 1, -4, 1, 0, 1, 0), scale=1, offset=128)
