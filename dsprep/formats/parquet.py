"""Parquet as Hugging Face `datasets` writes it: ``.parquet``, a row for each sample.

A column ``image`` holds structs of ``bytes`` and ``path``, a column ``label`` the labels, and there
is one for each other field. All shards of a data set have the same columns. Rows lie in groups of
100, as the hub has them for images, or of 16 MiB where that is fewer: what a reader takes at once,
and what a writer holds. Images are not compressed again, which gains 0.1 % and takes time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from google_crc32c import extend

from dsprep.errors import OptionError, SourceError
from dsprep.formats.arrow_cells import Cell, cells_of, infer_columns, plan_columns
from dsprep.formats.arrow_columns import KEY, Columns, choose_columns
from dsprep.formats.arrow_rows import Row, decode, normal
from dsprep.formats.arrow_types import FILES, TYPES, arrow, item_of, schema_of
from dsprep.formats.base import Entry, Format
from dsprep.sample import IMAGE_KINDS, UNKNOWN_IMAGE, Sample, key_of
from dsprep.stores.opened import open_file
from dsprep.stores.paths import facts
from dsprep.stores.urls import is_s3

if TYPE_CHECKING:
    import polars as pl

    from dsprep.formats.stream import ShardStream

ROWS_OF_GROUP = 100
BYTES_OF_GROUP = 16 << 20

_ROWS_OF_PAGE = 8
"""How many rows are written before a page is looked at, and ended if it has a mebibyte: a page is
what a reader cannot take less of."""

ROWS_OF_BATCH = 16
"""How many rows are read at once: all that a dictionary of one large value can multiply."""

_FOOTER = 8192
"""Bytes of the schema and what else a file has once, less the names of columns and classes."""

_ROW = 96
"""Bytes that a row takes besides its values, its share of its group's head included."""


@dataclass(frozen=True)
class Parquet(Format):
    """Rows of columns.

    Attributes:
        columns: Name and type of each, the types being those of
            :data:`dsprep.formats.arrow_types.TYPES`; None to let each shard's first sample decide,
            which makes one schema only of samples that all have the same fields.
        classes: The names of the classes, if they have names.
        image: What the column of images is called.
        label: What the column of labels is called.
    """

    name: ClassVar[str] = "parquet"
    suffix: ClassVar[str] = ".parquet"
    concatenative: ClassVar[bool] = False
    columns: tuple[tuple[str, str], ...] | None = None
    classes: tuple[str, ...] | None = None
    image: str = "image"
    label: str = "label"

    def __post_init__(self) -> None:
        """Refuse columns that cannot be written.

        Raises:
            OptionError: If a type is unknown, or two columns have one name.
        """
        if KEY in (self.image, self.label) or self.image == self.label:
            raise OptionError("the columns of images, labels and keys need different names")
        names = [name for name, _ in self.columns or ()]
        for name, kind in self.columns or ():
            if kind not in TYPES:
                known = ", ".join(sorted(TYPES))
                raise OptionError(f"the column {name!r} cannot be of type {kind!r}; use {known}")
            if names.count(name) > 1:
                raise OptionError(f"two columns are called {name!r}")

    @property
    def wants(self) -> frozenset[str]:
        """The name of the file, which stands beside the image."""
        return frozenset({"filename"})

    @property
    def holds_anything(self) -> bool:
        """Never: it depends on its columns, which need the types of all fields."""
        return False

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """The format that has the options which ``dataclasses.asdict`` made of one."""
        columns, classes = options["columns"], options["classes"]
        return cls(
            None if columns is None else tuple((str(name), str(kind)) for name, kind in columns),
            None if classes is None else tuple(map(str, classes)),
            str(options["image"]),
            str(options["label"]),
        )

    @cached_property
    def kind_of(self) -> dict[str, str]:
        """The type of each column; empty if the samples are to decide."""
        return dict(self.columns or ())

    def shard_name(self, name: str, number: int, count: int) -> str:
        """``train-00000-of-00010.parquet``."""
        return f"{name}-{number:05d}-of-{count:05d}{self.file_suffix}"

    def unheld(self, fields: Mapping[str, type]) -> list[str]:
        """Those whose names are those of the columns of images, labels and keys."""
        taken = {self.image: IMAGE_KINDS | {UNKNOWN_IMAGE}, self.label: {"label", "cls"}, KEY: ()}
        return [
            name
            for name, kind in fields.items()
            if (name in taken and name not in taken[name]) or (name == self.label and kind is bytes)
        ]

    def encode(self, sample: Sample) -> list[bytes]:
        """The values of a sample's row, as bytes: as many as they will take, about.

        Raises:
            BadSample: If no row can hold the sample.
        """
        layout = self if self.columns is not None else self.fitting(sample)
        return [part for cell in cells_of(sample, layout).values() for part in _parts(cell)]

    def fitting(self, *samples: Sample) -> Parquet:
        """This format, with the columns that some samples need."""
        return replace(self, columns=infer_columns(samples, self))

    def open_writer(self, path: str) -> ParquetWriter:
        """Begin a file.

        Raises:
            OptionError: If pyarrow is not installed.
            OSError: If it cannot be written.
        """
        return ParquetWriter(self, path)

    def capacity(self, target: int) -> int:
        """All but the footer."""
        names = json.dumps([self.columns, self.classes])
        return target - _FOOTER - 8 * len(names) - 200 * len(self.columns or ())

    def weights(self, rows: pl.DataFrame) -> pl.Series:
        """The image, its path and the label, and what a row takes besides."""
        total = rows["image"] + rows["path"].str.len_bytes().cast(int) + _ROW
        total += rows["image"] // 4096  # the heads of pages and groups, where few rows fill one
        if "label" in rows.columns:
            total += rows["label"].list.len().cast(int) * 9
        return total

    def read(self, stream: ShardStream) -> Iterator[Entry]:
        """Read the rows, in order; the offset of an entry is the number of its row."""
        pa = arrow()
        position = 0
        try:
            with open_parquet(stream.path) as file:
                columns = self._columns(file.schema_arrow, stream.path)
                names = [name for name, _ in columns.kinds]
                for batch in file.iter_batches(ROWS_OF_BATCH, columns=names, use_threads=False):
                    plain = normal(batch, columns)
                    size = plain.nbytes // max(len(plain), 1)
                    for row in decode(plain, columns, os.path.dirname(stream.path)):
                        if not isinstance(row, Row):
                            raise stream.damaged(f"row {position}: {row}", position)
                        key = row.key or (key_of(row.path) if row.path else f"{position:09d}")
                        yield Entry(position, size, row.sample(key, position))
                        position += 1
        except SourceError as error:
            raise stream.damaged(str(error).removeprefix(f"{stream.path}: "), 0) from None
        except (pa.ArrowException, OSError) as error:
            raise stream.damaged(f"row {position}: {first_line(error)}", position) from None

    def _columns(self, schema: Any, path: str) -> Columns:
        image = self.image if self.image in schema.names else None
        label = self.label if self.label in schema.names else None
        columns = choose_columns(schema, path, image=image, label=label)
        if columns.label and columns.kind_of[columns.label] == "string":
            return Columns(columns.kinds, columns.image, None)
        return columns


def parquet_for(
    fields: Mapping[tuple[str, str], int],
    classes: tuple[str, ...] | None,
    source: Columns | None = None,
    chosen: Mapping[str, str] = MappingProxyType({}),
) -> Parquet:
    """The format with columns for all samples of a data set.

    Args:
        fields: How many samples have each field, by its name and the name of its values' type.
        classes: The names of the classes.
        source: The columns of the Parquet files that the samples come from, whose names and types
            are kept.
        chosen: The types of columns that the user chose.
    """
    known: dict[str, str] = {}
    image, label = "image", "label"
    if source is not None:
        known = source.kind_of.copy()
        known |= {name: known[name].replace("double", "float") for name in source.rounded}
        image, label = source.image or image, source.label or label
        if source.label and source.label_field == "cls":
            named = classes is not None or known[label] == "string"
            known[label] = "class" if named else known[label]
    plain = Parquet(None, classes, image, label)
    return replace(plain, columns=plan_columns(fields, plain, known | dict(chosen)))


def _parts(cell: Cell | None) -> Iterator[bytes]:
    if isinstance(cell, dict):
        for part in cell.values():
            yield from _parts(part)
    elif isinstance(cell, list):
        for item in cell:
            yield from _parts(item)
    elif isinstance(cell, bytes):
        yield cell
    elif cell is not None:
        yield cell.encode() if isinstance(cell, str) else bytes(8)


def open_parquet(path: str) -> Any:
    """Open a file for reading, front to back and in little memory.

    Raises:
        OSError: If it cannot be read.
        pyarrow.ArrowException: If it is not Parquet.
    """
    pa = arrow()
    facts(path)  # refuses a pipe, which pyarrow would wait for
    # Of a path, pyarrow asks whether it is an address; of its bytes, the system alone.
    source = open_file(path) if is_s3(path) else pa.OSFile(os.fsencode(path))
    try:
        return pa.parquet.ParquetFile(source, buffer_size=1 << 20, pre_buffer=False)
    except UnicodeDecodeError:
        raise pa.ArrowInvalid("the name of a column is not UTF-8") from None


def first_line(error: BaseException) -> str:
    """What an error of Arrow's says, without the lines that tell where in Arrow it arose."""
    return str(error).strip().partition("\n")[0][:300] or type(error).__name__


class ParquetWriter:
    """Writes samples as rows, a group at a time.

    Attributes:
        bytes: The file's size on disk, once it is finished.
        crc32c: Of its bytes, once it is finished.
    """

    def __init__(self, layout: Parquet, path: str) -> None:
        """Open the file."""
        self._layout = layout
        self._pa = arrow()
        self._sink = _Sink(path)
        self._writer: Any = None
        self._rows: list[dict[str, Cell]] = []
        self._pending = 0
        self.bytes = self.crc32c = 0

    def add(self, sample: Sample) -> int:
        """Take a sample; returns about how many bytes it will take.

        Raises:
            BadSample: If a field fits no column; nothing of the sample is written.
            OSError: If a group of rows cannot be written.
        """
        layout = self._layout if self._layout.columns is not None else self._layout.fitting(sample)
        row = cells_of(sample, layout)
        self._layout = layout
        size = sum(len(part) for cell in row.values() for part in _parts(cell)) + _ROW
        if self._pending and self._pending + size > BYTES_OF_GROUP:
            self._flush()
        self._rows.append(row)
        self._pending += size
        if len(self._rows) == ROWS_OF_GROUP:
            self._flush()
        return size

    def finish(self) -> None:
        """Write everything."""
        self._flush()
        if self._writer is None:
            self._open()
        self._writer.close()
        self.bytes, self.crc32c = self._sink.bytes, self._sink.crc32c

    def close(self) -> None:
        """Close the file; it is whole only if :meth:`finish` was called."""
        self._sink.close()

    def _open(self) -> None:
        layout = self._layout
        schema = schema_of(layout.columns or (), layout.classes, layout.image, layout.label)
        stored = [f"{name}.bytes" for name, kind in layout.columns or () if kind in FILES]
        stored += [name for name, kind in layout.columns or () if kind == "binary"]
        leaves = [leaf for name, kind in layout.columns or () for leaf in _leaves(name, kind)]
        self._writer = self._pa.parquet.ParquetWriter(
            self._pa.PythonFile(self._sink, mode="w"),
            schema,
            compression={leaf: "none" if leaf in stored else "snappy" for leaf in leaves},
            use_dictionary=[leaf for leaf in leaves if leaf not in stored],
            write_batch_size=_ROWS_OF_PAGE,
            write_statistics=[leaf for leaf in leaves if leaf not in stored],
        )

    def _flush(self) -> None:
        """Write the rows that are pending as one group."""
        rows, self._rows, self._pending = self._rows, [], 0
        if not rows:
            return
        if self._writer is None:
            self._open()
        schema = self._writer.schema
        columns = [
            self._pa.array([row.get(field.name) for row in rows], field.type) for field in schema
        ]
        table = self._pa.Table.from_arrays(columns, schema=schema)
        self._writer.write_table(table, row_group_size=len(rows))


def _leaves(name: str, kind: str) -> list[str]:
    """The names that Parquet has for the parts of a column."""
    if kind in FILES:
        return [f"{name}.bytes", f"{name}.path"]
    return [f"{name}.list.element"] if item_of(kind) is not None else [name]


class _Sink:
    """A file that Arrow writes to, with its size and checksum."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        self._open = True
        self.closed = False  # Arrow asks, and closes what is its own only
        self.bytes = self.crc32c = 0

    def write(self, data: Any) -> int:
        """Write, unless the file was given up, when Arrow still writes what it has."""
        content = bytes(data)
        if self._open:
            self.crc32c = extend(self.crc32c, content)
            self.bytes += len(content)
            view = memoryview(content)
            while view:
                view = view[os.write(self._fd, view) :]
        return len(content)

    def tell(self) -> int:
        """How many bytes have been written."""
        return self.bytes

    def flush(self) -> None:
        """Do nothing: nothing is held back."""

    def close(self) -> None:
        """Close the file, once."""
        if self._open:
            self._open = False
            os.close(self._fd)
