"""What the columns of a Parquet file are to a sample, and the samples that its rows hold.

===================  ==========================================================================
column               field
===================  ==========================================================================
the images           named by the image's kind; its ``path`` is ``filename``
the labels           ``cls``, if whole numbers; else ``label``
``__key__``          none: the sample's key
string, binary       bytes of that name; ``class`` and ``filename`` are text
whole numbers, bool  ``Ints`` of one; ``cls``, ``width``, ``height`` and ``id`` are plain numbers
float, double        ``Floats`` of one, a double with all its digits
lists of those       ``Ints``, ``Floats`` or ``Blobs``
bytes and path       ``NAME`` and ``NAME.path``: further images, and sounds
===================  ==========================================================================

A null is a field that the sample does not have.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from dsprep.errors import BadSample, SourceError
from dsprep.formats.arrow_types import (
    FILES,
    FLOATS,
    INTEGERS,
    NOTHING,
    TEXTS,
    arrow,
    features_of,
    item_of,
    names_of_classes,
    type_text,
)
from dsprep.images.header import sniff
from dsprep.sample import UNKNOWN_IMAGE, Blobs, Floats, Ints, Sample, Value

KEY = "__key__"
"""The column of keys, where they do not follow from the images' paths."""

IMAGE_NAMES = ("image", "img", "picture", "photo", "jpg", "jpeg", "png", "webp", "bytes")
"""What columns of images are called, the likeliest first."""

LABEL_NAMES = (
    *("label", "labels", "label_id", "fine_label", "cls", "class", "class_id", "class_label"),
    *("target", "category", "category_id", "y"),
)
"""What columns of labels are called, the likeliest first."""

PLAIN_NUMBERS = frozenset({"cls", "width", "height", "id"})
PLAIN_TEXTS = frozenset({"class", "filename"})
_LAST = ("class", "filename", "width", "height", "id")

_LARGEST_INT = (1 << 63) - 1
_LARGEST_EXACT = 1 << 53


@dataclass(frozen=True)
class Columns:
    """What the columns of a file are. Plain data: it is pickled for the workers.

    Attributes:
        kinds: Name and type of each column that is read, in the file's order.
        image: That of the images, if there is one.
        label: That of the labels, if there is one.
        names: The classes' names by number, if the file tells them.
        numbers: The class number of each value of the labels' column, where it is another.
    """

    kinds: tuple[tuple[str, str], ...]
    image: str | None
    label: str | None
    names: tuple[str, ...] | None = None
    numbers: Mapping[bytes | int, int] | None = None

    @cached_property
    def kind_of(self) -> dict[str, str]:
        """The type of each column."""
        return dict(self.kinds)

    @cached_property
    def path_field(self) -> str:
        """The field of an image's path: another one, where a column has its usual name."""
        return f"{self.image}.path" if "filename" in self.kind_of else "filename"

    @cached_property
    def label_field(self) -> str:
        """``cls`` or ``label``."""
        kind = self.kind_of[self.label or ""]
        return "cls" if kind in INTEGERS or kind in ("bool", "string") else "label"

    @cached_property
    def fields(self) -> list[str]:
        """The columns that are fields of their own, in the order of the fields."""
        others = sorted({*self.kind_of}.difference((self.image, self.label, KEY)))
        last = [name for name in _LAST if name in others]
        return [name for name in others if name not in last] + last

    def type_of(self, name: str) -> str:
        """The name of the type of values that a column's field has."""
        kind = self.kind_of[name]
        item = item_of(kind) or kind
        if kind in TEXTS and name in PLAIN_TEXTS and kind == "string":
            return "str"
        if kind in FILES or kind in TEXTS:
            return "bytes"
        if item in TEXTS:
            return "Blobs"
        if kind in INTEGERS and name in PLAIN_NUMBERS:
            return "int"
        return "Floats" if item in FLOATS else "Ints"


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


def choose_columns(
    schema: Any,
    source: str,
    *,
    dropped: Collection[str] = (),
    image: str | None = None,
    label: str | None = None,
) -> Columns:
    """Find out what the columns of a file are.

    Images are in the column that is given, else in one that Hugging Face notes as images, else in
    the likeliest by its name, else in the only one of bytes and paths; labels in the one given,
    else in the only one that Hugging Face notes as classes, else in the likeliest by its name.

    Args:
        schema: The file's Arrow schema.
        source: The file, for messages.
        dropped: Columns that are not read.
        image: The column of images, if it is known.
        label: The column of labels, if it is known.

    Raises:
        SourceError: If a column holds what no field can hold, two have one name, or one that is
            named is not there.
    """
    fields = [each for each in schema if each.name not in dropped]
    names = [each.name for each in fields]
    for name, count in Counter(names).items():
        if count > 1:
            raise SourceError(f"{source}: two columns are called {name!r}: --drop {name}")
    features = features_of(schema)
    kinds = {each.name: type_text(each.type) for each in fields}
    for each in fields:
        if kinds[each.name] is None:
            raise SourceError(
                f"{source}: the column {each.name!r} is of the type {str(each.type)[:200]}, "
                f"which no sample can hold: --drop {each.name}"
            )
    held = {name: kind for name, kind in kinds.items() if kind is not None and kind != NOTHING}
    for name, kind in held.items():
        if kind == "image" and features.get(name, {}).get("_type") == FILES["audio"]:
            held[name] = "audio"
    for asked in filter(None, (image, label)):
        if asked not in held:
            raise SourceError(f"{source}: has no column {asked!r}; its columns are {names}")
    if held.get(KEY, "string") != "string":
        raise SourceError(f"{source}: the column {KEY!r} does not hold text: --drop {KEY}")
    image = image or _image_column(held, features)
    label = label or _label_column(held, features, image)
    classes = names_of_classes(features.get(label or "", {}))
    chosen = Columns(tuple(held.items()), image, label, classes)
    _require_distinct(chosen, source)
    return chosen


def _image_column(
    kinds: Mapping[str, str], features: Mapping[str, Mapping[str, Any]]
) -> str | None:
    noted = [name for name in kinds if features.get(name, {}).get("_type") == FILES["image"]]
    fitting = [name for name in noted or kinds if kinds[name] in ("image", "binary")]
    known = {name.lower(): name for name in reversed(fitting)}
    likely = [known[name] for name in IMAGE_NAMES if name in known]
    structs = [name for name in fitting if kinds[name] == "image"]
    return (likely + structs + [None])[0] if likely or noted or len(structs) == 1 else None


def _label_column(
    kinds: Mapping[str, str], features: Mapping[str, Mapping[str, Any]], image: str | None
) -> str | None:
    fitting = [name for name in kinds if name != image and _can_label(kinds[name])]
    noted = [name for name in fitting if features.get(name, {}).get("_type") == "ClassLabel"]
    known = {name.lower(): name for name in reversed(noted or fitting)}
    likely = [known[name] for name in LABEL_NAMES if name in known]
    # Text is a label only where nothing else can be one.
    numbers = [name for name in likely if kinds[name] != "string"]
    return (noted if len(noted) == 1 else numbers + likely + [None])[0]


def _can_label(kind: str) -> bool:
    item = item_of(kind) or kind
    return item in INTEGERS or item in FLOATS or kind in ("bool", "string")


def _require_distinct(columns: Columns, source: str) -> None:
    """Refuse two columns that would be one field."""
    found: dict[str, str] = {columns.label_field: columns.label} if columns.label else {}
    for name in columns.fields:
        split = columns.kind_of[name] in FILES
        for field in (name, f"{name}.path") if split else (name,):
            if field in found:
                raise SourceError(
                    f"{source}: the columns {found[field]!r} and {name!r} would both be the field "
                    f"{field!r}: --drop one of them"
                )
            found[field] = name


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
    parts = [_field(batch, name, columns.kind_of[name]) for name in columns.fields]
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
            if kind in fields:
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
    batch: Any, name: str, kind: str
) -> list[tuple[str, Callable[[Cell], Value], list[Cell]]]:
    """The fields that a column becomes: the name of each, what makes its values, and of what."""
    if kind in FILES:
        data, paths = _files(batch, name, Columns(((name, kind),), name, None))
        return [(name, bytes, data), (f"{name}.path", bytes, paths)]
    return [(name, _value_maker(name, kind), _cells(batch, name))]


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


def find_beside(folder: str, path: str) -> tuple[str, int]:
    """Find an image that a file names and does not hold; returns its place and its bytes.

    Args:
        folder: The directory of the Parquet file; nothing outside it is ever read.
        path: What the file says.

    Raises:
        BadSample: If there is no such file below the folder.
    """
    root = os.path.realpath(folder)
    try:
        full = os.path.realpath(os.path.join(root, path))
        found = os.stat(full)
    except (OSError, ValueError):
        raise BadSample(f"the file only names its image, and {path[:500]!r} is not there") from None
    if not full.startswith(root.rstrip("/") + "/") or not stat.S_ISREG(found.st_mode):
        raise BadSample(
            f"the file only names its image, and {path[:500]!r} is no file in its folder"
        )
    return full, found.st_size


def read_beside(folder: str, path: str) -> bytes:
    """Read an image that a file names and does not hold.

    Raises:
        BadSample: If there is no such file below the folder, or it cannot be read.
    """
    full, _ = find_beside(folder, path)
    try:
        fd = os.open(full, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            return file.read()
    except OSError as error:
        raise BadSample(f"{path!r} cannot be read ({error.strerror})") from None
