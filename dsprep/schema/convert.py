"""What makes a typed value of a raw one, for a field.

The first kind of field in :data:`KINDS` that a field is has the conversion; others have that of
their type.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import TypeAlias

from dsprep.annotations import hugging_face
from dsprep.annotations.objects import Objects, numbers_of
from dsprep.annotations.orders import Order
from dsprep.sample import Floats, Ints, Value
from dsprep.schema.fields import Field, single, to_int, to_text
from dsprep.tuples import NamedTuple

Convert: TypeAlias = Callable[[Value], Value | None]

_SHORT = 64  # bytes of a name of a class that is looked up
_UNKNOWN = -1  # what Hugging Face writes where the class is not known, as in most test sets


class Column(NamedTuple):
    """A field, and what the format says of the raw name that it lies in."""

    field: Field
    is_number: bool = False  # whether the text of a value is the number of a class
    has_ids: bool = False  # whether classes of objects have ids, where other formats have numbers
    box: str = ""  # what the four numbers of a box are, as `--box` calls it, if the user says so


def converter_of(column: Column) -> Convert:
    """Return what makes a typed value of a raw one; it raises ValueError and the like."""
    made = (make(column) for make in KINDS)
    return next(filter(None, made), column.field.kind.convert)


def objects(column: Column) -> Convert | None:
    """Number the classes of objects from 0, if the field is objects."""
    field = column.field
    if field.kind.of is not Objects:
        return None
    most = len(field.names) or sys.maxsize
    numbers = {id: number for number, id in enumerate(field.ids)}

    def number_of(own: int) -> int:
        number = own
        if column.has_ids:
            number = numbers.get(own, -1) if numbers else own - 1
        if not 0 <= number < most:
            raise ValueError(f"the class {own} is none of the classes")
        return number

    convert = field.kind.convert
    if column.box:
        convert = partial(_in_order, convert, Order.of(column.box))
    return partial(_renumbered if column.has_ids else _numbered, convert, number_of)


def _in_order(convert: Convert, order: Order, value: Value) -> Objects | None:
    """Return objects whose boxes Hugging Face's form has in another order."""
    return hugging_face.parse(value, order) if hugging_face.has_form(value) else convert(value)


def _numbered(convert: Convert, number_of: Callable[[int], int], value: Value) -> Objects | None:
    """Return objects whose classes have numbers; refuse those of other classes."""
    found = convert(value)
    if not isinstance(found, Objects):
        return None
    for own in numbers_of(found):
        number_of(own)
    return found


def _renumbered(convert: Convert, number_of: Callable[[int], int], value: Value) -> Objects | None:
    found = convert(value)
    if not isinstance(found, Objects):
        return None
    numbers = {own: number_of(own) for own in dict.fromkeys(each.number for each in found.items)}
    if all(own == number for own, number in numbers.items()):
        return found
    items = (each._replace(number=numbers[each.number]) for each in found.items)
    return found._replace(items=tuple(items))


def text_of_label(column: Column) -> Convert | None:
    """Make names of classes of their numbers, if the field is text that may have such."""
    field = column.field
    if field.type != "text" or not (field.names or column.is_number):
        return None
    return partial(_text_of_label, field.names, column.is_number)


def _text_of_label(names: Sequence[str], is_number: bool, value: Value) -> str | None:
    if names and not isinstance(single(value), bytes | str | None):
        number = to_int(value)
        if number is None or number < 0:
            raise ValueError
        value = names[number]
    text = to_text(value)
    # The text of a label ends in a line break if it is a file of its own.
    return text.strip() if text and is_number else text


def named_class(column: Column) -> Convert | None:
    """Make numbers of the names of classes, if the field is a class that has names."""
    field = column.field
    if field.type != "class" or not field.names:
        return None
    numbers = {name: number for number, name in enumerate(field.names)}
    number_of_name = partial(_number_of_name, numbers, column.is_number)
    to_class = partial(_number_of_class, field.kind.convert, number_of_name, len(field.names))
    known = lru_cache(maxsize=4096, typed=True)(to_class)  # many samples share a class

    def to_known(value: Value) -> int | None:
        kind = type(value)
        is_short = kind is Ints or kind is Floats or (kind is bytes and len(value) < _SHORT)
        return known(value) if is_short else to_class(value)

    return to_known


def _number_of_class(
    convert: Convert, number_of_name: Callable[[bytes | str], int | None], count: int, value: Value
) -> int | None:
    value = single(value)
    named = number_of_name(value) if isinstance(value, bytes | str) else None
    if named is not None:
        return named
    number: int | None = convert(value)
    if number is not None and not _UNKNOWN <= number < count:
        raise ValueError
    return number


def _number_of_name(numbers: Mapping[str, int], is_number: bool, value: bytes | str) -> int | None:
    """Return the number of the class that a text names; None if it names none."""
    text = value.decode() if isinstance(value, bytes) else value
    number = numbers.get(text, numbers.get(text.strip()))
    if number is not None and is_number:
        with suppress(ValueError):  # a number is one, even if a class is called so
            int(text)
            return None
    return number


KINDS: tuple[Callable[[Column], Convert | None], ...] = (objects, text_of_label, named_class)
