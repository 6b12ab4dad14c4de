"""Images as bare pixels: the runs of them that a data set is made of, as a catalog."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import SourceError
from dsprep.sources.classes import unknown_classes
from dsprep.sources.pixel_reader import PixelFile, PixelReader

PARTS = ("train", "test")
"""The parts of such a data set, in their order."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")


class Batch(NamedTuple):
    """A run of images that lie in one file at equal distances."""

    name: str  # what it is called in messages
    directory: str  # what the paths of its images begin with: the part, or the part and the batch
    file: PixelFile  # where it lies
    mtime: int  # when that was last changed, in nanoseconds since 1970
    start: int  # where the pixels of the first image begin
    step: int  # how far it is from one image to the next
    labels: Sequence[int] | None  # the class number of each image; None if they have none
    images: int  # how many images there are
    names: Sequence[str] | None = None  # the file name that each image once had, if that is told


def catalog_of(
    batches: Sequence[Batch],
    root: str,
    names: tuple[str, ...] | None,
    classes: tuple[str, ...] | None,
) -> Catalog:
    """Make the catalog of some batches, in their order."""
    labeled = [batch.labels is not None for batch in batches]
    if any(labeled) and not all(labeled):
        bare = batches[labeled.index(False)]
        raise SourceError(f"{bare.name}: has no labels beside it, where others have")
    if classes is not None and not any(labeled):
        raise SourceError(f"{root}: has no labels, but a list of {len(classes)} classes was given")
    files = tuple(dict.fromkeys(batch.file for batch in batches))
    numbers = {file: number for number, file in enumerate(files)}
    tables = [_table(batch, numbers[batch.file], names, classes) for batch in batches]
    table = pl.concat(tables) if tables else pl.DataFrame()
    if table.is_empty():
        raise SourceError(f"{root}: holds no images")
    index = pl.int_range(table.height, dtype=pl.Int64, eager=True).alias("index")
    table = table.select(index, pl.all())
    known = classes if classes is not None else names
    return Catalog(table, root, known if any(labeled) else None, PixelReader(files))


def _table(
    batch: Batch, file: int, names: tuple[str, ...] | None, classes: tuple[str, ...] | None
) -> pl.DataFrame:
    size = batch.file.width * batch.file.height * len(batch.file.mode)
    numbers = pl.int_range(batch.images, dtype=pl.Int64, eager=True)
    digits = numbers.cast(pl.String).str.zfill(max(5, len(str(batch.images - 1))))
    stems = pl.Series([f"{batch.directory}/".removeprefix("/")]) + digits
    if batch.names is not None:
        stems += pl.Series([_suffix(name) for name in batch.names], dtype=pl.String)

    def same(value: int) -> pl.Series:
        return pl.repeat(value, batch.images, dtype=pl.Int64, eager=True)

    columns = {
        "path": stems + ".png",
        "size": same(size),
        "mtime": same(batch.mtime),
        "file": same(file),
        "offset": numbers * batch.step + batch.start,
        "stored": same(size),
    }
    if batch.labels is not None:
        columns["cls"] = _classes(batch, names, classes)
    return pl.DataFrame(columns)


def _suffix(name: str) -> str:
    """What a path takes over from the file name that an image once had."""
    stem = name.rpartition(".")[0] or name
    return f"_{stem}" if _NAME.fullmatch(stem) else ""


def _classes(
    batch: Batch, names: tuple[str, ...] | None, classes: tuple[str, ...] | None
) -> pl.Series:
    assert batch.labels is not None
    labels = pl.Series("cls", batch.labels, dtype=pl.Int64)
    known = names if names is not None else classes
    if known is None:
        return labels
    outside = (~labels.is_between(0, len(known) - 1)).arg_true()
    if len(outside):
        raise SourceError(
            f"{batch.name}: image {outside[0]} has the label {labels[outside[0]]}, which is none "
            f"of the {len(known)} classes"
        )
    if names is None or classes is None or names == classes:
        return labels
    unknown = [name for name in names if name not in classes]
    if unknown:
        raise unknown_classes(batch.name, unknown, classes)
    renumbered = [classes.index(name) for name in names]
    return labels.replace_strict(range(len(names)), renumbered, return_dtype=pl.Int64)
