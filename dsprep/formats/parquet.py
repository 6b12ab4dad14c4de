"""Parquet as Hugging Face `datasets` writes it: ``.parquet``, a row for each sample.

There is a column for each field, under its name; images are structs of ``bytes`` and ``path``. All
shards of a data set have the same columns. Rows lie in groups of 100, as the hub has them for
images, or of 16 MiB where that is fewer: what a reader takes at once, and what a writer holds.
Images are not compressed again, which gains 0.1 % and takes time.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dsprep.annotations import hugging_face
from dsprep.annotations.objects import FLAGS, PARTS, Objects
from dsprep.errors import BadSample, SourceError
from dsprep.formats.arrow import (
    BOOKKEEPING,
    Cell,
    ParquetColumns,
    arrow,
    arrow_schema,
    arrow_type,
    decode,
    features_of,
    is_file,
    is_stored,
    leaves_of,
    plain_batch,
    plain_type,
    restored,
    source_schema,
)
from dsprep.formats.arrow_file import ArrowFile, is_arrow
from dsprep.formats.base import Entry, Format, pixel_sizes
from dsprep.formats.card import Split, card
from dsprep.images.header import sniff
from dsprep.sample import UNKNOWN_IMAGE, Sample, key_of
from dsprep.schema import (
    IMAGE,
    IMAGE_ID,
    LABEL,
    Choice,
    Field,
    Meaning,
    Observed,
    PlaceSummary,
    Schema,
    Table,
    settle,
    shown,
)
from dsprep.storage.files import facts, open_file, system_path
from dsprep.storage.local import OutputFile

if TYPE_CHECKING:
    import polars as pl

    from dsprep.formats.stream import ShardStream

ROWS_OF_GROUP = 100
BYTES_OF_GROUP = 16 << 20
ROWS_OF_BATCH = 16  # that are read at once: all that a dictionary of one large value can multiply
_ROW = 96  # bytes that a row takes besides its values, its share of its group's head included
_LARGEST_BYTES = (1 << 31) - (1 << 20)  # a page has a size of 31 bits, and a value lies in a page

# Arrow's types that hold any value of a Python type
_SURE = {
    **dict.fromkeys(("string", "large_string"), str),
    **dict.fromkeys(("binary", "large_binary"), bytes),
    **dict.fromkeys(("float", "double"), float),
    "int64": int,
    "bool": bool,
}


class Parquet(Format):
    """Rows of columns."""

    name: ClassVar[str] = "parquet"
    suffix: ClassVar[str] = ".parquet"
    numbering: ClassVar[str] = "{:05d}-of-{:05d}"
    concatenative: ClassVar[bool] = False
    in_spans: ClassVar[bool] = False
    holds_pixels: ClassVar[bool] = True
    class_names_in: ClassVar[str] = "header"
    object_parts: ClassVar[frozenset[str]] = frozenset((*FLAGS, *PARTS))
    card: bool = field(default=False, kw_only=True, metadata={"recorded": True})
    license: str = field(default="", kw_only=True, metadata={"recorded": True})
    columns: str = ""  # the columns of raw samples: their Arrow schema, serialized, in base 64

    @classmethod
    def of(cls, schema: Any) -> Self:
        return cls(base64.b64encode(schema.serialize().to_pybytes()).decode())

    def like(self, other: Table) -> Self:
        return replace(self, columns=other.columns) if isinstance(other, Parquet) else self

    @cached_property
    def arrow_schema(self) -> Any:
        """The Arrow schema of the shards: that of copied columns also for samples added to them."""
        if self.schema is not None and not self.columns:
            return arrow_schema(self.schema)
        pa = arrow()
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.columns)))

    def meaning(self, place: str) -> Meaning:
        return Meaning("" if place.startswith(BOOKKEEPING) else place)

    def arranged(self, schema: Schema) -> tuple[Self, list[str]]:
        fields = []
        for each in (*schema.fields, *pixel_sizes(schema)):
            # what other formats name is called image and label
            role = {schema.image: IMAGE, schema.label: LABEL}.get(each.name, each.name)
            is_kept = each.given or schema.format == self.name or role in schema.by_name
            fields.append(replace(each, places=((each.name if is_kept else role,),)))
        if schema.objects is not None and schema.image is not None and schema.format != self.name:
            missing = schema.by_name[schema.image].missing
            fields += (
                Field(name, "int", missing, places=((name,),))
                for name in (IMAGE_ID, "width", "height")
                if name not in schema.by_name
            )
            # the order of transformers' examples
            order = {name: at for at, name in enumerate((IMAGE_ID, IMAGE, "width", "height"))}
            fields.sort(key=lambda each: order.get(each.places[0][0], len(order)))
        return self.laid_out(schema, fields), []

    @cached_property
    def _plan(self) -> tuple[set[str], list[tuple[str, str, Any, tuple[type, ...] | None]]]:
        """The fields; and of each column the field, its type, that of Arrow, and what that holds.

        It holds all values of some Python types or, if these are None, all of the field.
        """
        plan: list[tuple[str, str, Any, tuple[type, ...] | None]] = []
        for column in self.arrow_schema:
            kind, sure = column.type, _SURE.get(str(column.type))
            if self.schema is None:
                known = (bytes,) if is_file(kind) else (sure,) if sure else ()
                plan.append((column.name, "image" if is_file(kind) else "", kind, known))
            elif (each := self.schema.by_place.get((column.name,))) is None:
                plan.append(("", "", kind, None))
            else:
                is_same = kind == arrow_type(each.kind)
                what = "image" if each.kind.is_image or each.kind.is_raw else each.type
                what = "" if what == "image" and not is_file(kind) else what
                plan.append((each.name, what, kind, None if is_same else ()))
        return {name for name, *_ in plan}, plan

    def row(self, sample: Sample) -> tuple[list[Cell], int]:
        """Lay a sample out as a row, with about the bytes that it takes."""
        fields, schema = sample.fields, self.schema
        known, plan = self._plan
        if schema is not None and not fields.keys() <= known:
            (extra, *_) = fields.keys() - known
            raise BadSample(f"the data set has no column for its field {extra!r}")
        cells: list[Cell] = []
        for name, kind, column, held in plan:
            value: Any = fields.get(name)
            if value is None and name == IMAGE_ID and schema is not None and schema.objects:
                value = sample.id
            if value is None:
                cells.append(None)
                continue
            if kind == "objects" and isinstance(value, Objects):
                value = hugging_face.write(value)
            is_held = held is None or type(value) in held
            if kind == "image" and isinstance(value, bytes):
                value = {"bytes": value, "path": self._path_of(name, value, sample)}
            elif kind == "json":
                try:
                    value = value.decode() if is_held else json.loads(value)
                except UnicodeDecodeError:
                    raise BadSample(f"the field {name!r} is JSON that is not UTF-8") from None
            try:
                if not is_held:
                    _array([value], column)
            except (arrow().ArrowException, TypeError, ValueError, OverflowError):
                raise BadSample(
                    f"the field {name!r} is {shown(value)}, which a column of {column} cannot hold"
                ) from None
            cells.append(value)
        try:
            return cells, sum(map(_size, cells)) + _ROW
        except UnicodeEncodeError:
            raise BadSample("has a text that is not Unicode") from None

    def _path_of(self, name: str, data: bytes, sample: Sample) -> str | None:
        """Return the path of an image: the sample's, or one that has its key; None for others."""
        if self.schema is None:
            return sample.path or None
        if name != self.schema.image:
            return None
        is_raw = self.schema.by_name[name].kind.is_raw
        kind = None if is_raw else sniff(data)
        return sample.path or f"{sample.key}.{kind or UNKNOWN_IMAGE}"

    @property
    def writes_card(self) -> bool:
        return self.card

    def card_of(self, splits: Sequence[Split]) -> bytes:
        return card(features_of(self.arrow_schema), splits, self.license)

    def open_writer(self, path: str, tree: str, samples: int) -> ParquetWriter:
        return ParquetWriter(self, path)

    def capacity(self, target: int) -> int:
        schema = self.arrow_schema
        names = sum(len(name.encode()) for name in schema.names)
        noted = sum(map(len, (schema.metadata or {}).values()))
        # 8192 bytes for what else a file has once
        return target - 8192 - 8 * names - 3 * noted - 200 * len(schema)

    def weights(self, rows: pl.DataFrame) -> pl.Series:
        total = rows["image"] + rows["path"].str.len_bytes().cast(int) + _ROW
        total += rows["image"] // 4096  # the heads of pages and groups, where few rows fill one
        if "label" in rows.columns:
            total += rows["label"].list.len().cast(int) * 9
        if "objects" in rows.columns:
            total += rows["objects"] * 128 + rows["texts"]
        if "masks" in rows.columns:
            total += rows["masks"] * 2 + 1024
        return total

    def read(self, stream: ShardStream) -> Iterator[Entry]:
        # The offset of an entry is the number of its row.
        pa = arrow()
        position = 0
        try:
            with open_rows(stream.path) as file:
                if (schema := self.schema) is None:
                    schema, _ = source_schema(file.schema_arrow, stream.path)
                    with suppress(SourceError):  # nothing tells which field is the image
                        schema = settled(schema, Choice(), stream.path)
                columns = columns_of(schema)
                names, folder = list(columns.names), os.path.dirname(stream.path)
                for batch in file.iter_batches(ROWS_OF_BATCH, columns=names, use_threads=False):
                    plain = plain_batch(batch, columns.names)
                    size = plain.nbytes // max(len(plain), 1)
                    for sample in decode(plain, columns, folder):
                        if isinstance(sample, BadSample):
                            raise stream.damaged(f"row {position}: {sample}", position)
                        sample.key = key_of(sample.path) if sample.path else ""
                        sample.id = position
                        yield Entry(position, size, sample)
                        position += 1
        except SourceError as error:
            raise stream.damaged(str(error).removeprefix(f"{stream.path}: "), 0) from None
        except (pa.ArrowException, OSError) as error:
            raise stream.damaged(f"row {position}: {first_line(error)}", position) from None

    def class_names(self, path: str) -> Mapping[str, tuple[str, ...]]:
        try:
            with open_rows(path) as file:
                told = source_schema(file.schema_arrow, path)[0]
        except arrow().ArrowException as error:
            raise SourceError(f"{path}: {first_line(error)}") from None
        return {each.places[0][0]: each.names for each in told.fields if each.names}


class Arrow(Parquet):
    """The same rows in files of Arrow, which are read and not written."""

    name: ClassVar[str] = "arrow"
    suffix: ClassVar[str] = ".arrow"


def settled(declared: Schema, choice: Choice, source: str) -> Schema:
    """Return the schema of a source whose columns are known: which one is the image, the label."""
    seen = {each.places[0]: PlaceSummary(1, {each.type: ("", "")}) for each in declared.fields}
    return settle(Observed(1, seen), Parquet(), choice, source, declared).schema


def columns_of(schema: Schema) -> ParquetColumns:
    """Return the columns in which the fields of a schema lie."""
    names = (place[0] for each in schema.fields for place in each.places)
    image = schema.image_field
    return ParquetColumns(tuple(dict.fromkeys(names)), image.places[0][0] if image else None)


def _array(cells: list[Cell], kind: Any) -> Any:
    """Return cells as a column of a type."""
    return restored(arrow().array(cells, plain_type(kind)), kind)


def _size(cell: Cell) -> int:
    if isinstance(cell, bytes | str):
        size = len(cell if isinstance(cell, bytes) else cell.encode())
        if size > _LARGEST_BYTES:
            raise BadSample(f"a value has {size} bytes, and Parquet holds at most {_LARGEST_BYTES}")
        return size
    if isinstance(cell, dict):
        return sum(map(_size, cell.values()))
    if isinstance(cell, list | tuple):
        are_numbers = bool(cell) and isinstance(cell[0], int | float)
        return 8 * len(cell) if are_numbers else sum(map(_size, cell))
    return 0 if cell is None else 8


def open_rows(path: str) -> Any:
    """Open a file of Parquet, or one of Arrow, which has the methods that are used here."""
    return ArrowFile(path) if is_arrow(path) else open_parquet(path)


def open_parquet(path: str) -> Any:
    """Open a file for reading, front to back and in little memory."""
    pa = arrow()
    facts(path)  # refuses a pipe, which pyarrow would wait for
    # Of a path, pyarrow asks whether it is an address; of its bytes, the system alone.
    full = system_path(path)
    source = open_file(path) if full is None else pa.OSFile(os.fsencode(full))
    try:
        return pa.parquet.ParquetFile(source, buffer_size=1 << 20, pre_buffer=False)
    except UnicodeDecodeError:
        raise pa.ArrowInvalid("the name of a column is not UTF-8") from None


def first_line(error: BaseException) -> str:
    """What an error of Arrow's says, without the lines that tell where in Arrow it arose."""
    return str(error).strip().partition("\n")[0][:300] or type(error).__name__


class ParquetWriter:
    """Writes samples as rows, a group at a time."""

    def __init__(self, layout: Parquet, path: str) -> None:
        pa = arrow()
        self._layout, self._schema = layout, layout.arrow_schema
        leaves = [leaf for each in self._schema for leaf in leaves_of(each.name, each.type)]
        stored = {name for name, kind in leaves if is_stored(kind)}
        others = [name for name, _ in leaves if name not in stored]
        self._file = _ArrowFile(path)
        try:
            self._writer = pa.parquet.ParquetWriter(
                pa.PythonFile(self._file, mode="w"),
                self._schema,
                compression={name: "none" if name in stored else "snappy" for name, _ in leaves},
                use_dictionary=others,
                # After these rows, a page ends if it has a mebibyte; readers take whole pages.
                write_batch_size=8,
                write_statistics=others,
            )
        except BaseException:
            self._file.close()
            raise
        self._rows: list[list[Cell]] = []
        self._pending = 0
        self.bytes = self.crc32c = self.raw = 0

    def add(self, sample: Sample) -> int:
        row, size = self._layout.row(sample)
        if self._pending and self._pending + size > BYTES_OF_GROUP:
            self._flush()
        self._rows.append(row)
        self._pending += size
        if len(self._rows) == ROWS_OF_GROUP:
            self._flush()
        return size

    def finish(self) -> None:
        self._flush()
        self._writer.close()
        self.bytes, self.crc32c = self._file.bytes, self._file.crc32c

    def close(self) -> None:
        self._file.close()

    def _flush(self) -> None:
        rows, self._rows, self._pending = self._rows, [], 0
        if rows:
            columns = [
                _array(list(cells), each.type)
                for cells, each in zip(zip(*rows, strict=True), self._schema, strict=True)
            ]
            table = arrow().Table.from_arrays(columns, schema=self._schema)
            self._writer.write_table(table, row_group_size=len(rows))


class _ArrowFile(OutputFile):
    """A file as Arrow wants to write it."""

    closed = False  # Arrow reads this attribute, and closes only files that it opened

    def write(self, *parts: Any) -> None:
        """Write what Arrow has, also when the file was given up: then it is lost."""
        if self._fd >= 0:
            super().write(*map(bytes, parts))

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        """Do nothing: nothing is held back."""
