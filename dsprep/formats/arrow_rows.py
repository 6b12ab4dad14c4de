"""The samples that the rows of a Parquet file hold."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from dsprep.errors import BadSample
from dsprep.formats.arrow_columns import KEY, PLAIN_NUMBERS, PLAIN_TEXTS, Columns
from dsprep.formats.arrow_types import FILES, FLOATS, TEXTS, arrow, item_of
from dsprep.formats.beside import read_beside
from dsprep.images.header import sniff
from dsprep.sample import UNKNOWN_IMAGE, Blobs, Floats, Ints, Sample, Value

_LARGEST_INT = (1 << 63) - 1
_LARGEST_EXACT = 1 << 53


class Row(NamedTuple):
    """What a row of a file holds.

    Attributes:
        kind: The image's kind, if it has one.
        data: The image, likewise.
        path: The image's path as the file has it.
        key: What the column of keys says.
        fields: All other fields.
        path_field: The field that the path goes to.
    """

    kind: str
    data: bytes | None
    path: str | None
    key: str | None
    fields: dict[str, Value]
    path_field: str

    def sample(self, key: str, id: int) -> Sample:
        """The sample of this row, under a key."""
        fields: dict[str, Value] = {} if self.data is None else {self.kind: self.data}
        fields |= self.fields
        if self.path is not None and self.path != f"{key}.{self.kind}":
            as_text = self.path_field == "filename"
            fields[self.path_field] = self.path if as_text else self.path.encode()
        return Sample(key, fields, id)


Cell: TypeAlias = Any
"""A value as Arrow gives it."""


def normal(batch: Any, columns: Columns) -> Any:
    """A batch of rows in which each column has the plainest type that holds its values.

    Text becomes bytes, which need not be UTF-8; a dictionary is looked up.

    Args:
        batch: Arrow's record batch, which may hold other columns.
        columns: Those to keep, and what they are.
    """
    arrays = []
    for name, kind in columns.kinds:
        position = batch.schema.get_field_index(name)
        if position < 0:
            arrays.append(arrow().nulls(len(batch)))
        else:
            arrays.append(_plain(batch.column(position), kind))
    return arrow().RecordBatch.from_arrays(arrays, [name for name, _ in columns.kinds])


def _plain(column: Any, kind: str) -> Any:
    pa = arrow()
    if pa.types.is_null(column.type):
        return column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if kind in FILES and pa.types.is_struct(column.type):
        parts = {column.type.field(i).name: part for i, part in enumerate(column.flatten())}
        nothing = pa.nulls(len(column))
        plain = [_plain(parts.get(name, nothing), "binary") for name in ("bytes", "path")]
        return pa.StructArray.from_arrays(plain, ["bytes", "path"])
    if kind in TEXTS:
        return column.cast(pa.large_binary())
    if item_of(kind) in TEXTS:
        return column.cast(pa.large_list(pa.large_binary()))
    return column


def decode(batch: Any, columns: Columns, folder: str) -> Iterator[Row | BadSample]:
    """The rows of a batch.

    Args:
        batch: As :func:`normal` made it.
        columns: What the columns are.
        folder: Where images may lie that the file only names.
    """
    images, paths = _files(batch, columns.image, columns)
    keys = _cells(batch, KEY) if KEY in columns.kind_of else [None] * len(batch)
    label_of = _label_maker(columns)
    labels = _cells(batch, columns.label) if columns.label else [None] * len(batch)
    parts = [
        _field(batch, name, columns.kind_of[name], name in columns.rounded)
        for name in columns.fields
    ]
    makers = [made for part in parts for made in part]
    for row in range(len(batch)):
        try:
            fields: dict[str, Value] = {}
            if labels[row] is not None and (value := label_of(labels[row])) is not None:
                fields[columns.label_field] = value
            for name, make, cells in makers:
                if cells[row] is not None:
                    fields[name] = _made(make, cells[row], name)
            path = _text(paths[row], "the path of its image")
            data = images[row]
            if data is None and path:
                data = read_beside(folder, path)
            kind = "" if data is None else sniff(data) or UNKNOWN_IMAGE
            if data is not None and kind in fields:
                raise BadSample(f"its image is a {kind}, and it has a column {kind!r} besides")
            key = _text(keys[row], "its key")
            yield Row(kind, data, path or None, key, fields, columns.path_field)
        except BadSample as error:
            yield error


def _cells(batch: Any, name: str) -> list[Cell]:
    cells: list[Cell] = batch.column(batch.schema.get_field_index(name)).to_pylist()
    return cells


def _files(
    batch: Any, name: str | None, columns: Columns
) -> tuple[list[bytes | None], list[bytes | None]]:
    """The bytes and the paths of a column of files."""
    nothing: list[bytes | None] = [None] * len(batch)
    if name is None:
        return nothing, nothing
    column = batch.column(batch.schema.get_field_index(name))
    if not arrow().types.is_struct(column.type):
        return column.to_pylist(), nothing
    data, paths = column.flatten()
    return data.to_pylist(), paths.to_pylist()


def _field(
    batch: Any, name: str, kind: str, rounded: bool
) -> list[tuple[str, Callable[[Cell], Value], list[Cell]]]:
    """The fields that a column becomes: the name of each, what makes its values, and of what."""
    if kind in FILES:
        data, paths = _files(batch, name, Columns(((name, kind),), name, None))
        return [(name, bytes, data), (f"{name}.path", bytes, paths)]
    make = _rounded if rounded else _value_maker(name, kind)
    return [(name, make, _cells(batch, name))]


def _value_maker(name: str, kind: str) -> Callable[[Cell], Value]:
    """What makes a field's value of a column's cell."""
    item = item_of(kind)
    if item is None:
        if kind in TEXTS:
            is_text = name in PLAIN_TEXTS and kind == "string"
            return (lambda cell: _text(cell, name) or "") if is_text else bytes
        if kind in FLOATS:
            return lambda cell: Floats((cell,))
        if name in PLAIN_NUMBERS and kind != "bool":
            return _whole
        return lambda cell: Ints((_whole(cell),))
    if item in TEXTS:
        return lambda cell: Blobs(_full(cell))
    if item in FLOATS:
        return lambda cell: Floats(_full(cell))
    return lambda cell: Ints(map(_whole, _full(cell)))


def _rounded(cell: Cell) -> Floats:
    """The 32-bit floats next to some of 64 bits."""
    numbers = _full(cell) if isinstance(cell, list) else [cell]
    layout = f"<{len(numbers)}f"
    try:
        return Floats(struct.unpack(layout, struct.pack(layout, *numbers)))
    except OverflowError:
        raise BadSample("there is a number beyond 32-bit floats") from None


def _label_maker(columns: Columns) -> Callable[[Cell], Value | None]:
    """What makes the label of a cell of the labels' column; None for a list of no numbers."""
    kind = columns.kind_of[columns.label] if columns.label else ""
    if item_of(kind) is not None:
        return lambda cell: tuple(map(_exact, _full(cell))) or None
    if kind in FLOATS:
        return lambda cell: (cell,)
    numbers = columns.numbers
    if numbers is None:
        return _whole

    def number(cell: Cell) -> int:
        if cell not in numbers:
            shown = cell.decode(errors="replace") if isinstance(cell, bytes) else cell
            raise BadSample(f"its label {shown!r} is none of the classes")
        return numbers[cell]

    return number


def _made(make: Callable[[Cell], Value], cell: Cell, name: str) -> Value:
    try:
        return make(cell)
    except BadSample as error:
        raise BadSample(f"the column {name!r}: {error}") from None


def _whole(cell: Cell) -> int:
    if cell > _LARGEST_INT:
        raise BadSample(f"the number {cell} is beyond 64 bits with a sign")
    return int(cell)


def _exact(cell: Cell) -> float:
    if isinstance(cell, int) and abs(cell) > _LARGEST_EXACT:
        raise BadSample(f"the label {cell} is too large: whole numbers have to be below 2^53")
    return float(cell)


def _full(cell: Cell) -> Cell:
    if None in cell:
        raise BadSample("there is a null within a list")
    return cell


def _text(cell: bytes | None, what: str) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        raise BadSample(f"{what} is not UTF-8") from None
