"""The catalog: the table of a data set's samples, one row each, without their bytes.

Every source makes a catalog and every command plans from one. All work on it is done on whole
columns, so that a million samples take fractions of a second.
"""

from __future__ import annotations

import hashlib
import json
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any, TypeAlias

import polars as pl

from dsprep.findings import Finding
from dsprep.formats import shard_stem
from dsprep.frozen import Frozen
from dsprep.rows import Reader, Rows
from dsprep.sample import key_expr
from dsprep.schema import Schema, SettledSchema
from dsprep.storage.files import short_names
from dsprep.tuples import NamedTuple

# The columns of every catalog, in their order.
COLUMNS: dict[str, pl.DataType] = {
    # the sample's id: its number in the order of the source, from 0 (plain sorted paths, for a
    # folder), or the id in a `.lst`
    "index": pl.Int64(),
    "path": pl.String(),  # where its image lies: below the root, parts joined by `/`
    "size": pl.Int64(),  # size of the image's file in bytes
    "mtime": pl.Int64(),  # when that file, or the one it is in, was last changed: ns since 1970
}
# Then, if samples lie in files of many: the number of the file that holds a sample, as the reader
# counts them, where its bytes begin there, and how many they are, compressed or not.
PLACE_COLUMNS: dict[str, pl.DataType] = dict.fromkeys(("file", "offset", "stored"), pl.Int64())
# Then, if images have annotations: the number of those of a sample, as the reader counts them.
ANNOTATION_COLUMNS: dict[str, pl.DataType] = {"annotation": pl.Int64()}
# Then, if several lists name the samples: the number of that of a sample.
LIST_COLUMNS: dict[str, pl.DataType] = {"list": pl.Int64()}
# Then, if the source has sides, such as train and test: the number of that of a sample.
SIDE_COLUMNS: dict[str, pl.DataType] = {"side": pl.Int64()}
# Then, if samples have copies that will be augmented: the number of each copy, 0 for the sample
# itself; and the number of the sample that it is of.
COPY_COLUMNS: dict[str, pl.DataType] = dict.fromkeys(("copy", "origin"), pl.Int64())
# Then one of these, or none: the class number, where the label is one whole number; or a list of
# at least one number, for several numbers, a detection label or a fraction.
LABEL_COLUMNS: dict[str, pl.DataType] = {"cls": pl.Int64(), "label": pl.List(pl.Float64())}


class Annotated(NamedTuple):
    """The annotations of images, without their content."""

    # by the numbers in the column `annotation`: `objects`, how many there are; `texts`, the bytes
    # that tell them; and, if there are masks, `masks`, the bytes of each
    sizes: pl.DataFrame | None  # None if there are no annotations but other values of a table
    digest: str  # digest of the content of the annotations
    # the number of those of each image in its source, or -1, by the same numbers; and where they
    # lie, by the number in the source; if that is empty, readers know it by the number
    numbers: Sequence[int]
    places: Sequence[Any] = ()
    in_shares: bool = False  # whether boxes are shares of the size of images
    boxes_alone: bool = False  # whether no object has polygons or a mask
    # whether images have further fields, such as texts, whose bytes `sizes` does not have
    has_fields: bool = False

    @property
    def tells_sizes(self) -> bool:
        """Whether `sizes` tells the bytes of all that images have besides their pixels."""
        return self.sizes is not None and not self.has_fields

    def located(self, numbers: Sequence[int]) -> list[tuple[int, Any]]:
        """Return what tells a reader the annotations of each image; None if it has none."""
        known = [self.numbers[number] for number in numbers]
        places = self.places or range(max(known, default=0) + 1)
        return [
            (number, None if own < 0 else places[own])
            for number, own in zip(numbers, known, strict=True)
        ]


class Inferred(NamedTuple):
    """What dsprep found out about the inside of a source, as a layout says it."""

    option: str  # the option that says so, as classes of options call it
    value: Any  # the value that says so; None if no option does
    why: str


UNSETTLED = SettledSchema(Schema(()))  # before a look settles a schema
AT_ONCE = 1 << 16  # rows that are worked on at once, where all would take too much memory
_BUCKETS = 16  # most ranges of random numbers; each is sorted by itself
# bytes of a text that a column of texts holds in the 16 that each takes; a longer one takes more
_HELD = 12
_PER_HEAD = 16  # paths of one beginning, on average, from which on two parts save memory


class Catalog(Frozen, eq=False):
    """The samples of a data set, in an order."""

    # the samples, with the columns above and without nulls; whole numbers may have 32 bits, and
    # paths be in two parts, which `widened` changes
    table: pl.DataFrame
    root: str  # the directory that the paths start from, or what else the source is called
    classes: tuple[str, ...] | None  # the class names, by number; None if there are none
    reader: Reader  # how workers read the samples
    schema: Schema | None = None  # the fields, as far as the source declares them
    schema_known: bool = False  # whether it declares all, so that no sample is looked at
    imageless: bool = False  # whether a manifest says that the samples have no image
    settled: SettledSchema = UNSETTLED  # the schema of the samples
    keys_known: bool = True  # whether the paths give the keys; if not, only the samples have them
    # what a list changes in whole samples, which the table has: `label`, `id`
    overridden: frozenset[str] = frozenset()
    sides: tuple[str, ...] = ()  # the names of the sides, by number; empty if there are none
    # the names of the lists, without extension, by number; empty if there are not several
    lists: tuple[str, ...] = ()
    annotated: Annotated | None = None  # what there is to know of annotations; None without any
    described: str = ""  # the digest of the files that describe samples; empty without any
    inferred: tuple[Inferred, ...] = ()  # what no option said of the inside of the source

    def __post_init__(self) -> None:
        """Check the rules, as far as that is cheap."""
        columns, label = _widened_types(self.table), self.label_column
        known = COLUMNS | PLACE_COLUMNS | ANNOTATION_COLUMNS | LIST_COLUMNS
        known |= SIDE_COLUMNS | COPY_COLUMNS
        known |= {label: LABEL_COLUMNS[label]} if label else {}
        wanted = {name: kind for name, kind in known.items() if name in (*COLUMNS, *columns)}
        if list(columns.items()) != list(wanted.items()):
            raise ValueError(f"a catalog cannot have the columns {columns}")
        if sum(self.table.null_count().row(0)):
            raise ValueError("a catalog cannot hold nulls")
        if label == "label" and self.table["label"].list.len().min() == 0:
            raise ValueError("a catalog cannot hold an empty label")
        if label == "cls" and self.classes is not None:
            numbers = self.table["cls"]
            least: Any = numbers.min()
            most: Any = numbers.max()
            if least is not None and not 0 <= least <= most < len(self.classes):
                raise ValueError(f"a catalog of {len(self.classes)} classes has others in it")

    def __len__(self) -> int:
        return self.table.height

    def slice(self, start: int, length: int) -> Catalog:
        return replace(self, table=self.table.slice(start, length))

    @property
    def has_places(self) -> bool:
        """Whether samples lie in files of many, and the table says where."""
        return "file" in self.table.columns

    @property
    def tells_all(self) -> bool:
        """Whether rows tell all of a sample but its image: key, label, size.

        If not, only reading the samples shows their labels and other fields.
        """
        return not self.reader.reads_samples

    def keeps_files_together(self) -> bool:
        """Return whether samples lie in shards, and those of each shard are neighbors."""
        if not (self.has_places and self.reader.sources()) or self.reader.encodes:
            return False
        file = self.table["file"]
        return file.rle_id().n_unique() == file.n_unique()

    @property
    def label_column(self) -> str | None:
        """``"cls"``, ``"label"``, or None for samples without labels."""
        return next((name for name in LABEL_COLUMNS if name in self.table.columns), None)

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of the classes; None if they are labels that stay text."""
        label = self.settled.schema.label_field
        is_text = self.label_column == "cls" and label is not None and label.type == "text"
        return None if is_text else self.classes

    @property
    def is_labeled(self) -> bool:
        return self.label_column is not None or self.settled.schema.label is not None

    @property
    def has_classes(self) -> bool:
        """Whether samples have labels, or objects whose classes the source may leave unnamed."""
        objects = self.settled.schema.objects
        is_named = objects is not None and bool(objects.names) and objects.told == "a look"
        return self.is_labeled or self.sizes is not None or is_named

    @property
    def sizes(self) -> pl.DataFrame | None:
        """What there is to know of the annotations of each sample; None without any."""
        sizes = self.annotated.sizes if self.annotated else None
        return None if sizes is None else sizes[self.table["annotation"]]

    def with_settled(self, settled: SettledSchema) -> Catalog:
        """Return the catalog with this schema, which its reader converts samples to."""
        return replace(self, settled=settled, reader=self.reader.converting(settled))

    def rows(self) -> Rows:
        """Return the samples as the plain lists that workers take."""
        table = self.table.drop("mtime").with_columns(whole_path(self.table))
        columns: dict[str, list[Any]] = table.to_dict(as_series=False)
        labels = columns.get("cls")
        if "label" in columns:
            labels = [tuple(label) for label in columns["label"]]
        if self.annotated is not None:
            columns["annotation"] = self.annotated.located(columns["annotation"])
        ids, paths, sizes = (columns[name] for name in ("index", "path", "size"))
        names = (*PLACE_COLUMNS, *ANNOTATION_COLUMNS, *COPY_COLUMNS)
        places = (columns.get(name, ()) for name in names)
        return Rows(ids, paths, sizes, labels, *places)

    def with_sides(self, names: Sequence[str], numbers: pl.Series) -> Catalog:
        """Return the catalog with these sides; there are none if there are no names."""
        own = [name for name in self.table.columns if name not in ("side", self.label_column)]
        columns = [*own, numbers.alias("side")] if names else own
        table = self.table.select(*columns, *filter(None, [self.label_column]))
        return replace(self, table=table, sides=tuple(names))

    def with_lists(self, names: Sequence[str], numbers: pl.Series) -> Catalog:
        """Return the catalog of samples that these lists name."""
        own = [name for name in self.table.columns if name not in ("side", self.label_column)]
        after = [name for name in self.table.columns if name not in own]
        table = self.table.select(*own, numbers.alias("list"), *after)
        return replace(self, table=table, lists=tuple(names))

    @property
    def files(self) -> tuple[str, Sequence[str]]:
        """The column of what each shard can be made of, and its names: lists, or else files."""
        if self.lists:
            return "list", self.lists
        return "file", [shard_stem(name) for name in self.reader.sources()]

    def with_ids_from(self, first: int) -> Catalog:
        ids = pl.col("index").cast(pl.Int64) + first
        return replace(self, table=self.table.with_columns(ids))

    def shuffle(self, seed: int) -> Catalog:
        """Put the samples into a random order that depends on their order and the seed alone."""
        return replace(self, table=self.table[self.shuffled_rows(seed)])

    def shuffled_rows(self, seed: int, first: int | None = None) -> pl.Series:
        """Return the rows in the order of a shuffle, or the first of them."""
        # The order is part of what makes shards reproducible, so it is defined here, not by a
        # library: the samples are sorted by the numbers of a SplitMix64 generator, the `i`-th of
        # which belongs to sample `i`. The generator's state starts as the number that `seed`
        # (modulo 2^64) mixes to. All numbers are different.

        def mix(z: pl.Expr) -> pl.Expr:  # 64-bit arithmetic that wraps on overflow
            z = (z ^ (z // _u64(1 << 30))) * _u64(0xBF58476D1CE4E5B9)
            z = (z ^ (z // _u64(1 << 27))) * _u64(0x94D049BB133111EB)
            return z ^ (z // _u64(1 << 31))

        start, step = _u64(pl.select(mix(_u64(seed % 2**64))).item()), 0x9E3779B97F4A7C15

        def part(low: int) -> pl.Series:
            rows = pl.int_range(low, min(low + AT_ONCE, len(self)), dtype=pl.UInt64)
            return pl.select(mix(start + (rows + _u64(1)) * _u64(step))).to_series()

        # A sort of all at once would take three times the memory of the numbers. The first rows
        # are those of the first bucket, so the other numbers are not kept for them.
        lows = range(0, max(1, len(self)), AT_ONCE)
        buckets = _buckets(len(self))
        parts = list(map(part, lows)) if first is None else ()
        order = pl.Series(dtype=pl.UInt32)
        for bucket in buckets:
            if first is None or len(order) < first:
                found = [
                    (own.gather(rows), rows + low)
                    for low, own in zip(lows, parts or map(part, lows), strict=True)
                    for rows in [own.is_between(*bucket).arg_true()]
                ]
                numbers, rows = map(pl.concat, zip(*found, strict=True))
                del found
                order.append(rows.gather(numbers.arg_sort()))
        return order.head(first) if first is not None else order.rechunk()

    def source_order(self) -> pl.Series | None:
        """Return the rows as their bytes follow one another in the source; None if they do."""
        if not self.has_places:
            return None
        file, offset = self.table["file"], self.table["offset"]
        same = file.slice(1) == file.head(-1)
        later = (file.slice(1) > file.head(-1)) | (same & (offset.slice(1) >= offset.head(-1)))
        if later.all():
            return None
        if same.all():
            return offset.arg_sort()
        return self.table.select(pl.arg_sort_by("file", "offset")).to_series()

    def by_side(self) -> Iterator[tuple[str, Catalog]]:
        """Yield the samples of each side, in their order; all of them, if there are no sides."""
        if not self.sides:
            yield "", self
        for number, name in enumerate(self.sides):
            table = self.table.filter(pl.col("side") == number)
            if not table.is_empty():
                yield name, replace(self, table=table)

    def samples_per_class(self, without: Iterable[str] = ()) -> dict[int, int]:
        if self.label_column != "cls":
            return {}
        rows = self.table.lazy()
        if left_out := list(without):
            rows = rows.filter(~whole_path(self.table).is_in(left_out))
        counts = rows.group_by("cls").len().sort("cls").collect(engine="streaming")
        return dict.fromkeys(range(len(self.classes or ())), 0) | dict(counts.iter_rows())

    def keys(self) -> pl.Series:
        return self._of_paths(key_expr().alias("key"))

    def paths(self) -> pl.Series:
        return whole_paths(self.table["path"])

    def names(self) -> pl.Series:
        """Return what a list calls each sample: its path, or :meth:`long_names` if paths repeat."""
        paths = self.paths()
        repeats = self.has_places and paths.n_unique() < len(paths)
        return self.long_names() if repeats else paths

    def long_names(self) -> pl.Series:
        """Return ``FILE/PATH`` for each sample, with ``~1`` after the second of one such name."""
        # Names are equal only if the source names a file twice.
        files = pl.Series(short_names(self.reader.sources()), dtype=pl.String)
        start = files.gather(self.table["file"]) + "/"
        rows = self.table.select("file", whole_path(self.table), prefix=start)
        path, prefix = pl.col("path"), pl.col("prefix")
        number = pl.int_range(pl.len()).over("file", "path")
        name = pl.when(path.str.starts_with(prefix)).then(path).otherwise(prefix + path)
        again = pl.when(number > 0).then(pl.lit("~") + number.cast(pl.String)).otherwise(pl.lit(""))
        return rows.select(name + again).to_series()

    def collisions(self) -> list[tuple[str, list[str]]]:
        """Find keys that several samples would have, with the names of these samples."""
        hashes = self._of_paths(key_expr().hash())  # equal keys have equal hashes
        buckets = (hashes.filter(hashes.is_between(*each)).sort() for each in _buckets(len(self)))
        if not any((own.slice(1) == own.head(-1)).any() for own in buckets):
            return []
        groups = (
            self.table.select(whole_path(self.table), self.names().alias("name"))
            .filter(hashes.is_duplicated())
            .group_by(key=key_expr(), maintain_order=True)
            .agg("name")
            .filter(pl.col("name").list.len() > 1)
            .sort("key")
        )
        return list(groups.iter_rows())

    def _of_paths(self, expression: pl.Expr) -> pl.Series:
        # Some thousand rows at a time take half the memory.
        rows = self.table.lazy().select(whole_path(self.table)).select(expression)
        return rows.collect(engine="streaming").to_series()

    def digest(self) -> str:
        """Identify the samples, in their order, with their sizes and labels, and the classes."""
        # Neither the root nor the times count, so the same data set has the same digest everywhere.
        # The digest is over values (64-bit little-endian numbers, UTF-8 text), not over a library's
        # memory or file layout, so it stays the same from version to version.
        # The header makes it clear where in the rest a column ends.
        header = ["dsprep catalog 1", self.label_column, self.classes, self.table.height]
        header += [self.annotated.digest] if self.annotated else []
        header += [self.sides] if self.sides else []
        header += [("lists", *self.lists)] if self.lists else []
        header += [self.described] if self.described else []
        sha = hashlib.sha256(json.dumps(header).encode() + b"\n")
        table = self.table.drop("mtime", *PLACE_COLUMNS, *ANNOTATION_COLUMNS, strict=False)
        for content in chain.from_iterable(map(_content, table.get_columns())):
            sha.update(content)
        return sha.hexdigest()

    def mtimes_digest(self) -> str:
        """Identify the times at which the files were last changed: a SHA-256 in hexadecimal."""
        sha = hashlib.sha256()
        for content in _content(self.table["mtime"]):
            sha.update(content)
        return sha.hexdigest()


SourceScan: TypeAlias = tuple[Catalog, list[Finding]]  # what reading a source returns


def widened(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table whose whole numbers have 64 bits, so that sums of them do, and whole paths."""
    table = table.cast({pl.Int32: pl.Int64})
    return table.with_columns(whole_path(table)) if "path" in table.columns else table


def _widened_types(table: pl.DataFrame) -> dict[str, pl.DataType]:
    """Return the types of the columns that `widened` returns, without a query for them."""
    types: dict[str, pl.DataType] = {
        name: pl.Int64() if kind == pl.Int32 else kind for name, kind in table.schema.items()
    }
    if isinstance(types.get("path"), pl.Struct):
        types["path"] = pl.String()
    return types


def whole_path(table: pl.DataFrame) -> pl.Expr:
    """Return the expression of the paths in a table of a catalog."""
    path = pl.col("path")
    if table.schema["path"] == pl.String:
        return path
    head, tail = path.struct.field("head").cast(pl.String), path.struct.field("tail")
    return pl.concat_str(head, tail).alias("path")


def whole_paths(paths: pl.Series) -> pl.Series:
    """Return the paths of a catalog, which may be in two parts."""
    table = paths.to_frame("path")
    return table.select(whole_path(table)).to_series()


def with_short_paths(columns: list[pl.Series]) -> list[pl.Series]:
    """Return columns whose paths are in two parts, if that takes less memory.

    A path is the number of how it begins, and its last characters, which a column of texts holds
    without further memory. The list is emptied meanwhile, so that no path is in memory twice.
    """
    done = []
    while columns:
        column = columns.pop(0)
        if column.name == "path":
            parts = [
                part.slice(at, AT_ONCE)
                for part in column.get_chunks()
                for at in range(0, len(part), AT_ONCE)
            ]
            heads = _heads(parts)
            if heads is not None:
                column = column.clear()
                column = _in_two_parts(column, heads, parts)
        done.append(column)
    return done


def _heads(parts: Iterable[pl.Series]) -> pl.Series | None:
    """Return how paths begin; None if two parts of them would take no less memory."""
    heads, count = pl.Series(dtype=pl.String), 0
    for part in parts:
        heads = pl.concat([heads, part.str.head(-_HELD).unique()]).unique()
        count += len(part)
        if len(heads) > 1 + count // _PER_HEAD:
            return None
    return None if (heads == "").all() else heads.sort()


def _in_two_parts(column: pl.Series, heads: pl.Series, parts: list[pl.Series]) -> pl.Series:
    """Return parts of a column of paths, in two parts each; the list is emptied."""
    head = pl.col("path").str.head(-_HELD).cast(pl.Enum(heads))
    # concatenated with nothing, as a part of a text keeps the memory of the whole
    tail = pl.concat_str(pl.col("path").str.tail(_HELD), pl.lit(""))
    short = pl.struct(head=head, tail=tail).alias("path")
    done = [column.to_frame().select(short)]
    parts.reverse()
    while parts:
        done.append(parts.pop().to_frame().select(short))
    return pl.concat(done, rechunk=True).to_series()


def compact(columns: list[pl.Series], rows: pl.Series | None = None) -> pl.DataFrame:
    """Return columns with numbers of 32 bits where these fit, in an order of rows if one is given.

    The list is emptied meanwhile, so that no more than one column is in memory twice.
    """
    done = []
    while columns:
        column = columns.pop(0)
        is_same = column.dtype.is_integer() and len(column) > 0 and column.min() == column.max()
        if rows is not None and is_same:  # parts of a constant column may share their memory
            column = column.head(len(rows))
        elif rows is not None:
            column = _gathered(column.rechunk(), rows)
        if column.dtype == pl.Int64:
            fits = column.cast(pl.Int32, strict=False)
            column = column if fits.null_count() else fits.rechunk()
        done.append(column)
    return pl.DataFrame(done)


def _gathered(column: pl.Series, rows: pl.Series) -> pl.Series:
    """Return rows of a column."""
    if not (column.dtype.is_nested() or column.dtype == pl.String) or not len(rows):
        return column.gather(rows)
    # Texts, lists and paths in two parts take twice their memory on the way, so some thousand are
    # moved at a time.
    parts = (column.gather(rows.slice(at, AT_ONCE)) for at in range(0, len(rows), AT_ONCE))
    return pl.concat(parts, rechunk=False)


def _buckets(count: int) -> list[tuple[int, int]]:
    """Return shares of the range of 64-bit numbers: the first and the last number of each.

    If random numbers are many, those of one share are sorted at once, which takes less memory.
    """
    shares = min(_BUCKETS, 1 + count // AT_ONCE)
    ends = [2**64 * share // shares for share in range(shares + 1)]
    return [(low, stop - 1) for low, stop in pairwise(ends)]


def _u64(number: int) -> pl.Expr:
    return pl.lit(number, dtype=pl.UInt64)


def _content(column: pl.Series) -> Iterator[bytes]:
    """Return the values of a column as bytes; NUL, which no path holds, ends each text."""
    if isinstance(column.dtype, pl.List):
        yield from _content(column.list.len().cast(pl.Int64))
        yield from _content(column.explode())
        return
    for start in range(0, len(column), AT_ONCE):
        part = column.slice(start, AT_ONCE)
        if column.name == "path":
            part = whole_paths(part)
        if part.dtype == pl.String:
            yield part.str.join("\0").item().encode() + b"\0"
        else:
            numbers = array("q" if column.dtype.is_integer() else "d", part.to_list())
            if sys.byteorder == "big":
                numbers.byteswap()
            yield numbers.tobytes()
