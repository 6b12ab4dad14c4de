"""The catalog: the table of a data set's samples, one row each, without their bytes.

Every source makes a catalog and everything else is planned from one. All work on it is done on
whole columns, so that a million samples take fractions of a second.
"""

from __future__ import annotations

import hashlib
import json
import sys
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from dsprep.findings import Finding as Finding
from dsprep.readers.base import Reader
from dsprep.readers.files import FileReader
from dsprep.rows import Rows
from dsprep.sample import UNKNOWN_IMAGE, image_kind_of, key_expr
from dsprep.schema import Reading, Schema, Settled
from dsprep.storage.paths import short_names

COLUMNS: dict[str, pl.DataType] = {
    "index": pl.Int64(),
    "path": pl.String(),
    "size": pl.Int64(),
    "mtime": pl.Int64(),
}
"""The columns of every catalog, in their order."""

PLACE_COLUMNS: dict[str, pl.DataType] = {
    "file": pl.Int64(),
    "offset": pl.Int64(),
    "stored": pl.Int64(),
}
"""The columns of a catalog whose samples lie in files of many, after those."""

COPY_COLUMNS: dict[str, pl.DataType] = {"copy": pl.Int64()}
"""The column of a catalog in which some samples stand more than once, after those."""

LABEL_COLUMNS: dict[str, pl.DataType] = {"cls": pl.Int64(), "label": pl.List(pl.Float64())}
"""The columns of which a catalog has at most one, as its last."""

_ROWS_PER_HASH = 1 << 16


@dataclass(frozen=True, eq=False)
class Catalog:
    """The samples of a data set, in an order.

    The columns of the table, in this order, none of which holds nulls:

    =========  =============  ==============================================================
    column     type           value
    =========  =============  ==============================================================
    ``index``  Int64          the sample's id: its number in the order of the source, from 0
                              (plain sorted paths, for a folder), or the id in a ``.lst``
    ``path``   String         where its image lies: below the root, parts joined by ``/``
    ``size``   Int64          bytes of that file
    ``mtime``  Int64          when that file, or the one it is in, was last changed: ns since 1970
    ``file``   Int64          optional: the file that holds its bytes, as the reader counts them
    ``offset`` Int64          with that: where in that file they begin
    ``stored`` Int64          with that: how many bytes they take there, compressed or not
    ``copy``   Int64          optional: 0 for a sample itself, 1 for its first copy, and so on
    ``cls``    Int64          optional: the class number, where the label is one whole number
    ``label``  List(Float64)  optional: several numbers, a detection label or a fraction;
                              at least one number each
    =========  =============  ==============================================================

    A catalog has ``cls``, or ``label``, or neither.
    """

    table: pl.DataFrame  # the samples
    root: str  # the directory that the paths start from, or what else the source is called
    # the class names, `cls` being a position among them; None if there are none
    classes: tuple[str, ...] | None = None
    # how workers read the samples; by default, as files below the root
    reader: Reader = None  # type: ignore[assignment] # set below
    schema: Schema | None = None  # what the source says of its fields by itself; None if nothing
    is_told: bool = False  # whether that is all, so that no look at samples is needed
    settled: Settled | None = None  # the schema of the samples, settled by a look; None before that
    # whether the samples' keys follow from the paths; if not, the samples tell them when they are
    # read
    keys_known: bool = True
    # what whole samples have to take from the table, because a list or a table of labels tells it
    # in another way than they do: `label`, `id`
    told: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Check the rules, as far as that is cheap."""
        if self.reader is None:
            object.__setattr__(self, "reader", FileReader(self.root))
        columns = dict(self.table.schema)
        label = [name for name in LABEL_COLUMNS if name in columns][:1]
        wanted = dict(COLUMNS)
        for optional in (PLACE_COLUMNS, COPY_COLUMNS):
            wanted |= {name: kind for name, kind in optional.items() if name in columns}
        wanted |= {name: LABEL_COLUMNS[name] for name in label}
        if list(columns.items()) != list(wanted.items()):
            raise ValueError(f"a catalog cannot have the columns {columns}")
        if sum(self.table.null_count().row(0)):
            raise ValueError("a catalog cannot hold nulls")
        if label == ["label"] and self.table["label"].list.len().min() == 0:
            raise ValueError("a catalog cannot hold an empty label")
        if label == ["cls"] and self.classes is not None:
            outside = ~self.table["cls"].is_between(0, len(self.classes) - 1)
            if outside.any():
                raise ValueError(f"a catalog of {len(self.classes)} classes has others in it")

    def __len__(self) -> int:
        """The number of samples."""
        return self.table.height

    def slice(self, start: int, length: int) -> Catalog:
        """Some of the samples, in their order: ``length`` of them from row ``start`` on."""
        return replace(self, table=self.table.slice(start, length))

    @property
    def has_places(self) -> bool:
        """Whether samples lie in files of many, and the table says where."""
        return "file" in self.table.columns

    def keeps_files_together(self) -> bool:
        """Whether samples lie in files of many, and those of each file follow each other."""
        if not (self.has_places and self.reader.sources()):
            return False
        file = self.table["file"]
        return file.rle_id().n_unique() == file.n_unique()

    @property
    def label_column(self) -> str | None:
        """``"cls"``, ``"label"``, or None for samples without labels."""
        return next((name for name in LABEL_COLUMNS if name in self.table.columns), None)

    def image_kinds(self) -> list[str]:
        """Return the kinds of image that the extensions of paths promise, sorted."""
        endings = self.table["path"].str.extract("([^./]*)$").unique()
        return sorted({image_kind_of(ending) or UNKNOWN_IMAGE for ending in endings})

    def with_settled(self, settled: Settled) -> Catalog:
        """Return the catalog with another schema, its reader making samples of that."""
        reader = self.reader
        if reader.whole:
            fields = tuple(each for each in settled.schema.fields if each.places)
            schema = replace(settled.schema, fields=fields)
            reading = Reading(schema, reader.table, settled.ignored)
            reader = replace(reader, reading=reading)
        return replace(self, settled=settled, reader=reader)

    @property
    def is_labeled(self) -> bool:
        """Whether samples have labels."""
        has_field = self.settled is not None and self.settled.schema.label is not None
        return self.label_column is not None or has_field

    def rows(self) -> Rows:
        """The samples as the plain lists that workers take."""
        labels: list[Any] | None = None
        if self.label_column:
            labels = self.table[self.label_column].to_list()
            if self.label_column == "label":
                labels = [tuple(label) for label in labels]
        ids, paths, sizes = (self.table[name].to_list() for name in ("index", "path", "size"))
        files, offsets, stored, copies = (
            self.table[name].to_list() if name in self.table.columns else None
            for name in ("file", "offset", "stored", "copy")
        )
        return Rows(ids, paths, sizes, labels, files, offsets, stored, copies)

    def with_ids_from(self, first: int) -> Catalog:
        """The same samples, their ids larger by ``first``."""
        return replace(self, table=self.table.with_columns(pl.col("index") + first))

    def shuffle(self, seed: int) -> Catalog:
        """Put the samples into a random order that depends on their order and the seed alone.

        The order is part of what makes shards reproducible, so it is defined here and not left to a
        library: sample ``i`` of the present order goes where the ``i``-th number drawn from the
        SplitMix64 generator stands when the numbers are sorted; the generator's state starts as the
        number that ``seed`` (modulo 2^64) mixes to. No two of the numbers are equal.
        """
        order = self.table.select(_random_numbers(seed).arg_sort()).to_series()
        return replace(self, table=self.table[order])

    def samples_per_class(self, without: Iterable[str] = ()) -> dict[int, int]:
        """Count the samples of each class."""
        if self.label_column != "cls":
            return {}
        counted = self.table.filter(~pl.col("path").is_in(list(without)))
        counts = counted.group_by("cls").len().sort("cls")
        every_class = dict.fromkeys(range(len(self.classes or ())), 0)
        return every_class | dict(counts.iter_rows())

    def without_objects(self) -> int:
        """Count the samples that have no objects, if labels are ones for detection."""
        if self.label_column != "label":
            return 0
        label, count = pl.col("label"), pl.col("label").list.len()
        header, width = label.list.get(0), label.list.get(1, null_on_oob=True)
        is_detection = (header >= 2) & (width >= 5) & ((count - header) % width == 0)
        is_empty, has_objects = is_detection & (count == header), is_detection & (count > header)
        counts = self.table.select(is_empty.sum(), objects=has_objects.sum()).row(0)
        return int(counts[0]) if counts[1] else 0

    def keys(self) -> pl.Series:
        """The key of every sample."""
        return self._stream(key_expr().alias("key"))

    def names(self) -> pl.Series:
        """Return what a list calls each sample: its path, or :meth:`long_names` if paths repeat."""
        paths = self.table["path"]
        repeats = self.has_places and paths.n_unique() < len(paths)
        return self.long_names() if repeats else paths

    def long_names(self) -> pl.Series:
        """Return ``FILE/PATH`` for each sample, with ``~1`` after the second of one such name.

        Only a file that the source names twice gives equal names, as its samples are the same.
        """
        files = pl.Series(short_names(self.reader.sources()), dtype=pl.String)
        rows = self.table.select("file", "path", prefix=files.gather(self.table["file"]) + "/")
        path, prefix = pl.col("path"), pl.col("prefix")
        number = pl.int_range(pl.len()).over("file", "path")
        return rows.select(
            pl.when(path.str.starts_with(prefix)).then(path).otherwise(prefix + path)
            + pl.when(number > 0).then(pl.lit("~") + number.cast(pl.String)).otherwise(pl.lit(""))
        ).to_series()

    def collisions(self) -> list[tuple[str, list[str]]]:
        """Find samples that would have the same key."""
        if "copy" in self.table.columns:
            return replace(
                self, table=self.table.filter(pl.col("copy") == 0).drop("copy")
            ).collisions()
        hashes = self._stream(key_expr().hash())  # equal keys have equal hashes
        if hashes.n_unique() == len(hashes):
            return []
        groups = (
            self.table.with_columns(self.names().alias("name"))
            .filter(hashes.is_duplicated())
            .group_by(key=key_expr(), maintain_order=True)
            .agg("name")
            .filter(pl.col("name").list.len() > 1)
            .sort("key")
        )
        return list(groups.iter_rows())

    def _stream(self, expression: pl.Expr) -> pl.Series:
        """Evaluate row by row, some thousand rows at a time, which takes half the memory."""
        return self.table.lazy().select(expression).collect(engine="streaming").to_series()

    def digest(self) -> str:
        """Identify the samples, in their order, with their sizes and labels, and the classes.

        Neither the root nor the times count, so the same data set has the same digest everywhere.
        The digest is over values (64-bit little-endian numbers, UTF-8 text), not over a library's
        memory or file layout, so it stays the same from version to version.
        """
        sha = hashlib.sha256(_header(self.label_column, self.classes, self.table.height))
        columns = self.table.select(*COLUMNS).drop("mtime").get_columns()
        if self.label_column:
            columns.append(self.table[self.label_column])
        for column in columns:
            for content in _content(column):
                sha.update(content)
        return sha.hexdigest()

    def mtimes_digest(self) -> str:
        """Identify the times at which the files were last changed: a SHA-256 in hexadecimal."""
        sha = hashlib.sha256()
        for content in _content(self.table["mtime"]):
            sha.update(content)
        return sha.hexdigest()


def _random_numbers(seed: int) -> pl.Expr:
    """The first numbers of SplitMix64, one for each row, as wrapping UInt64 arithmetic."""
    gamma = 0x9E3779B97F4A7C15
    start = pl.select(_mix(_u64(seed % 2**64))).item()
    return _mix(_u64(start) + (pl.int_range(pl.len(), dtype=pl.UInt64) + _u64(1)) * _u64(gamma))


def _mix(z: pl.Expr) -> pl.Expr:
    z = (z ^ (z // _u64(1 << 30))) * _u64(0xBF58476D1CE4E5B9)
    z = (z ^ (z // _u64(1 << 27))) * _u64(0x94D049BB133111EB)
    return z ^ (z // _u64(1 << 31))


def _u64(number: int) -> pl.Expr:
    return pl.lit(number, dtype=pl.UInt64)


def _header(label: str | None, classes: tuple[str, ...] | None, rows: int) -> bytes:
    """What a digest is of, which also makes it unambiguous where in the rest a column ends."""
    return json.dumps(["dsprep catalog 1", label, classes, rows]).encode() + b"\n"


def _content(column: pl.Series) -> Iterator[bytes]:
    """The values of a column as bytes, text ended by NUL (which no path can hold)."""
    if column.dtype == pl.String:
        for part in _slices(column):
            yield part.str.join("\0").item().encode() + b"\0"
    elif column.dtype == pl.Int64:
        for part in _slices(column):
            yield _little_endian(array("q", part.to_list()))
    elif column.dtype == pl.Float64:
        for part in _slices(column):
            yield _little_endian(array("d", part.to_list()))
    else:
        yield from _content(column.list.len().cast(pl.Int64))
        yield from _content(column.explode())


def _slices(column: pl.Series) -> Iterator[pl.Series]:
    for start in range(0, len(column), _ROWS_PER_HASH):
        yield column.slice(start, _ROWS_PER_HASH)


def _little_endian(numbers: array[int] | array[float]) -> bytes:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()
