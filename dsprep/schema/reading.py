"""Making typed samples of raw ones."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, TypeAlias

from dsprep.errors import Misfit
from dsprep.sample import Floats, Ints, Sample, Value
from dsprep.schema.fields import Field, Place, Schema, single, to_int, to_text
from dsprep.schema.settle import LABEL_TEXT, Table, part_of, shown, type_of
from dsprep.units import format_count

_Plain: TypeAlias = tuple[str, Callable[[Value], Value | None], Field]
"""The name of a field, what makes its values, and the field."""

_SHORT = 64  # bytes of a name of a class that is looked up


@dataclass(frozen=True)
class Reading:
    """Makes samples of a schema of raw samples. Plain data: it is pickled for the workers."""

    schema: Schema  # the schema, with the places of the source
    table: Table  # what the source's format says of raw names
    ignored: frozenset[str] = frozenset()  # the places that are left out
    # whether samples stay raw, apart from fields that are left out: those of the same format
    raw: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to workers without what is compiled."""
        return Reading, (self.schema, self.table, self.ignored, self.raw)

    @cached_property
    def _plain(self) -> dict[str, _Plain | None]:
        """What raw names are; None for what is left out. It grows."""
        known: dict[str, _Plain | None] = {}
        for each in self.schema.fields:
            for place in each.places:
                if len(place) == 1:
                    is_number = self.table.meaning(place[0]).type in (LABEL_TEXT, "class")
                    known[place[0]] = each.name, _converter(each, is_number), each
        nested = {path[0] for path, _ in self._nested}
        return dict.fromkeys(self.ignored | nested, None) | known

    @cached_property
    def _nested(self) -> list[tuple[Place, Field]]:
        return [
            (place, each) for each in self.schema.fields for place in each.places if len(place) > 1
        ]

    @cached_property
    def _required(self) -> frozenset[str]:
        return frozenset(each.name for each in self.schema.fields if not each.missing)

    def __call__(self, sample: Sample) -> Sample:
        known = self._plain
        fields: dict[str, Value] = {}
        image = None
        for raw, value in sample.fields.items():
            if raw not in known:
                if not type_of(value):  # nothing that the schema could lack
                    if self.raw:
                        fields[raw] = value
                    continue
                known[raw] = self._find(raw)
            found = known[raw]
            if self.raw:
                if found is not None or self._is_kept(raw):
                    fields[raw] = value
                    image = raw if found and found[0] == self.schema.image else image
                continue
            if found is None:
                continue
            name, convert, column = found
            if name in fields:
                raise Misfit(f"has two values for the field {name!r}, one of them at {raw!r}")
            try:
                typed = convert(value)
            except (ValueError, TypeError, RecursionError, OverflowError, IndexError):
                raise _misfit(column, value) from None
            if typed is not None:
                fields[name] = typed
        if self.raw:
            sample.fields, sample.image = fields, image
            return sample
        for path, column in self._nested:
            if (value := part_of(sample.fields, path)) is not None:
                try:
                    fields[column.name] = _converter(column)(value)
                except (ValueError, TypeError, OverflowError):
                    raise _misfit(column, value) from None
        if not fields.keys() >= self._required:
            lacking = ", ".join(repr(each) for each in sorted(self._required - fields.keys()))
            raise Misfit(
                f"lacks the field {lacking}, which the samples looked at have: give --look all, or "
                "a --schema FILE that says it may be missing"
            )
        sample.fields = fields
        sample.image = self.schema.image if self.schema.image in fields else None
        return sample

    @cached_property
    def _is_kept(self) -> Callable[[str], bool]:
        """Whether a raw name is bookkeeping of what is kept: of the label, if of a field."""
        table, kept = self.table, {self.table.place_of(each[0]) for each in self.schema.by_place}

        @cache
        def is_kept(raw: str) -> bool:
            place = table.place_of(raw)
            is_bookkeeping = not table.meaning(place).field
            if table.meaning(raw).field:
                return is_bookkeeping and raw not in self.ignored
            return is_bookkeeping or place in kept

        return is_kept

    def _find(self, raw: str) -> _Plain | None:
        """Return what a raw name is that has not been seen before."""
        place = self.table.place_of(raw)
        if place in self._plain:
            return self._plain[place]
        if not (self.table.meaning(place).field and self.table.meaning(raw).field):
            return None
        raise Misfit(
            f"has a field {raw!r} that the samples looked at lack: give --look all, or --drop {raw}"
        )


def _converter(column: Field, is_number: bool = False) -> Callable[[Value], Value | None]:
    """Return what makes a typed value of a raw one."""
    convert = column.kind.convert
    if column.type == "text" and (column.names or is_number):

        def to_label(value: Value) -> str | None:
            if column.names and not isinstance(single(value), bytes | str | None):
                number = to_int(value)
                if number is None or number < 0:
                    raise ValueError
                value = column.names[number]
            text = to_text(value)
            # The text of a label ends in a line break if it is a file of its own.
            return text.strip() if text and is_number else text

        return to_label
    if column.type != "class" or not column.names:
        return convert
    numbers = {name: number for number, name in enumerate(column.names)}
    count = len(column.names)

    def to_class(value: Value) -> int | None:
        value = single(value)
        if isinstance(value, bytes | str):
            text = value.decode() if isinstance(value, bytes) else value
            if (number := numbers.get(text)) is None:
                number = numbers.get(text.strip())
            if number is not None and is_number:
                with suppress(ValueError):  # a number is one, even if a class is called so
                    int(text)
                    number = None
            if number is not None:
                return number
        number = convert(value)
        # -1 is what Hugging Face writes where the class is not known, as in most test sets.
        if number is not None and not -1 <= number < count:
            raise ValueError
        return number

    known = lru_cache(maxsize=4096, typed=True)(to_class)  # many samples share a class

    def to_known(value: Value) -> int | None:
        kind = type(value)
        is_short = kind is Ints or kind is Floats or (kind is bytes and len(value) < _SHORT)
        return known(value) if is_short else to_class(value)

    return to_known


def _misfit(column: Field, value: Value) -> Misfit:
    what = column.kind.what
    if column.names:
        what += f" of the {format_count(len(column.names), 'class')}"
    return Misfit(
        f"the field {column.name!r} is {shown(value)}, which is not {what}: correct it, give "
        f"--look all, or another type in a --schema FILE"
    )
