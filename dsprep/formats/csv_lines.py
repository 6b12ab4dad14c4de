"""CSV: what XGBoost and Linear Learner read, a line of numbers for each sample.

The label is the first number, and there is no line of names, as the algorithms of Amazon SageMaker
want it ("CSV format for training": no header, the target in the first column). A missing number is
an empty cell. What is no number has no place: images, text, JSON.

A line tells neither the names of its columns nor their types, so a format that reads has them with
it: the manifest records them. A list is as many columns as it has items, in every sample.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

from dsprep.errors import BadSample, OptionError, SourceError
from dsprep.formats.base import Entry, Format, claim
from dsprep.sample import Sample, Value
from dsprep.schema import Schema, Table
from dsprep.schema.fields import TYPES
from dsprep.tuples import NamedTuple
from dsprep.units import format_some, quoted

if TYPE_CHECKING:
    import polars as pl

    from dsprep.formats.stream import ShardStream

_LONGEST = 1 << 26  # bytes of a line
_SHOWN = 60  # characters of a cell in a message


class _Column(NamedTuple):
    """A field, as lines have it: in as many cells as its list has items."""

    name: str
    type: str  # one of `TYPES`
    width: int  # how many cells it takes
    missing: bool  # whether cells of the column may be empty

    @property
    def is_list(self) -> bool:
        return TYPES[self.type].is_list

    @property
    def heads(self) -> list[str]:
        """The names of its cells."""
        return [f"{self.name}_{at}" for at in range(self.width)] if self.is_list else [self.name]

    @property
    def write(self) -> Callable[[Value], str]:
        """The function that formats a number: the shortest text that keeps all of its bits."""
        kind = TYPES[self.type]
        if kind.of is not float:
            return lambda value: str(int(value))
        return "{:.9g}".format if kind.bits == 32 else repr

    @property
    def parse(self) -> Callable[[bytes], Value]:
        return float if TYPES[self.type].of is float else int


class Csv(Format):
    """Lines of numbers, the label first."""

    name: ClassVar[str] = "csv"
    suffix: ClassVar[str] = ".csv"
    header: bool = False  # whether the first line of each shard has the names of the columns
    columns: str = ""  # names, types and widths of the columns, and what may be missing, as JSON

    def arranged(self, schema: Schema) -> tuple[Self, list[str]]:
        _refuse_others(schema)
        label = schema.label_field
        if label is not None and label.kind.is_list:
            raise OptionError(
                "csv has one label, the first number of a line, and the label "
                f"{quoted(label.name)} is a list: choose one with --label-field, or give --to "
                "recordio-protobuf"
            )
        fields = sorted(schema.fields, key=lambda each: each.name != schema.label)
        used: dict[str, str] = {}
        columns = []
        for each in fields:
            width = each.width if each.kind.is_list else 1
            column = _Column(each.name, each.type, width, each.missing)
            for head in column.heads:
                claim(used, head, each, "column")
            columns.append(column)
        notes = []
        if label is None:
            notes.append("no label: the first column is a feature, as for batch transform")
        named = [each.name for each in fields if each.names]
        if named:
            notes.append(f"classes are written as their numbers: {format_some(named)}")
        empty = [each.name for each in fields if each.missing and each is not label]
        if empty:
            what = "missing numbers are empty cells, which Linear Learner refuses"
            notes.append(f"{what}: {format_some(empty)}")
        placed = [replace(each, places=((each.name,),)) for each in fields]
        own = replace(self, columns=json.dumps(columns, ensure_ascii=False))
        return own.laid_out(schema, placed), notes

    def like(self, other: Table) -> Self:
        return replace(self, columns=other.columns) if isinstance(other, Csv) else self

    @cached_property
    def _columns(self) -> list[_Column]:
        try:
            found = [_Column(*each) for each in json.loads(self.columns or "[]")]
            if all(each.type in TYPES and 0 < each.width < 1 << 24 for each in found):
                return found
        except (ValueError, TypeError, RecursionError):
            pass
        raise SourceError(f"the columns {self.columns!r:.100} are not those of a table")

    @property
    def head(self) -> bytes:
        """The line of names."""
        if not self.header:
            return b""
        text = io.StringIO()
        names = [head for column in self._columns for head in column.heads]
        csv.writer(text, lineterminator="\n").writerow(names)
        return text.getvalue().encode()

    def capacity(self, target: int) -> int:
        return target - len(self.head)

    @cached_property
    def _writers(self) -> list[tuple[str, int, Callable[[Value], str], str]]:
        """For each column: its name, its width (0 if it is no list), `write`, and an error.

        The error is that of a sample that lacks the number; it is empty if numbers may be missing.
        """
        label = self.written.label
        return [
            (
                each.name,
                each.width if each.is_list else 0,
                each.write,
                "" if each.missing and each.name != label else f"lacks {quoted(each.name)}",
            )
            for each in self._columns
        ]

    def encode(self, sample: Sample) -> list[bytes]:
        fields, cells = sample.fields, []
        for name, width, write, lacks in self._writers:
            value = fields.get(name)
            if value is None:
                if lacks:
                    raise BadSample(lacks)
                cells += [""] * (width or 1)
            elif not width:
                cells.append(write(value))
            elif len(value) == width:
                cells += map(write, value)
            else:
                raise BadSample(f"{quoted(name)} has {len(value)} numbers, and others {width}")
        line = ",".join(cells)
        if not line:
            raise BadSample("has no number, and an empty line is no row")
        return [line.encode(), b"\n"]

    def weights(self, rows: pl.DataFrame) -> pl.Series:
        # Only the numbers tell how long their texts are: samples are tried (`weighs`).
        return rows["image"]

    @property
    def weighs(self) -> bool:
        return False

    def read(self, stream: ShardStream) -> Iterator[Entry]:
        columns, head = self._columns, self.head if stream.offset == 0 else b""
        if head and stream.peek(len(head)) != head:
            raise stream.damaged("the first line does not have the names of the columns", 0)
        stream.skip(len(head), "the names of the columns")
        width = sum(each.width for each in columns)
        for position, (offset, line) in enumerate(_lines(stream)):
            cells = line.split(b",")
            if len(cells) != width:
                raise stream.damaged(f"a line has {len(cells)} cells, not {width}", offset)
            try:
                fields = dict(_values(columns, cells))
            except ValueError as error:
                raise stream.damaged(
                    f"a cell is not a number: {error!s:.{_SHOWN}}", offset
                ) from None
            yield Entry(offset, len(line) + 1, Sample("", fields, position))


def _refuse_others(schema: Schema) -> None:
    """Refuse fields that are no numbers, and lists that are no columns."""
    if schema.image is not None:
        raise OptionError(
            f"csv holds numbers, and no images, which the field {quoted(schema.image)} is: choose "
            f"another format, or give --drop {schema.image} --no-image"
        )
    if not schema.fields:
        raise OptionError("csv holds numbers, and the samples have no fields")
    others = [each.name for each in schema.fields if not each.kind.is_number]
    if others:
        what = "is not a number" if len(others) == 1 else "are not numbers"
        raise OptionError(
            f"csv holds numbers, and {format_some(others)} {what}: give --drop {','.join(others)}"
        )
    lists = [each.name for each in schema.fields if each.kind.is_list and not each.width]
    if lists:
        raise OptionError(
            f"csv has a column for each number, and nothing tells how many {format_some(lists)} "
            "has: give --to recordio-protobuf, which also holds sparse rows"
        )


def _values(columns: list[_Column], cells: list[bytes]) -> Iterator[tuple[str, Value]]:
    """Return the values of a line by the names of their columns; a missing one is not there."""
    at = 0
    for each in columns:
        own = cells[at : at + each.width]
        at += each.width
        if not any(own):
            continue
        values = tuple(map(each.parse, own))
        yield each.name, values if each.is_list else values[0]


def _lines(stream: ShardStream) -> Iterator[tuple[int, bytes]]:
    """Return each line, without its end, and the offset where it begins."""
    offset, rest = stream.offset, b""
    for block in stream.blocks():
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield offset, line
            offset += len(line) + 1
        if len(rest) > _LONGEST:
            raise stream.damaged(f"a line of more than {_LONGEST:,} bytes", offset)
    if rest:
        raise stream.damaged("the last line has no end", offset)
