"""Frozen dataclasses whose classes are made fast.

`dataclass` compiles six methods for each class, which takes 0.4 ms, and a command makes about
eighty classes before it begins. Here, all of them share one set of methods. These take longer to
make an object: what a run makes for each sample is a `dataclass`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from functools import cache
from inspect import Parameter, Signature
from typing import Any, NoReturn, dataclass_transform


@cache
def _fields(kind: Any) -> tuple[Field[Any], ...]:
    return fields(kind)


@cache
def _signature(kind: type) -> Signature:
    parameters = [
        Parameter(
            each.name,
            Parameter.KEYWORD_ONLY if each.kw_only else Parameter.POSITIONAL_OR_KEYWORD,
            default=_shown_default(each),
            annotation=each.type,
        )
        for each in _fields(kind)
    ]
    return Signature(sorted(parameters, key=lambda each: each.kind))


def _shown_default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return Parameter.empty if field.default_factory is MISSING else field.default_factory


class ShownSignature:
    """The signature of a class, as ``help()`` and documentation show it."""

    def __init__(self, make: Callable[[type], Signature]) -> None:
        self._make = make

    def __get__(self, instance: object, kind: type) -> Signature:
        return self._make(kind)


@cache
def _by_position(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in _fields(kind) if not each.kw_only)


def _compared(value: object) -> tuple[Any, ...]:
    kind: type = type(value)
    return tuple(getattr(value, each.name) for each in _fields(kind) if each.compare)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Frozen:
    """A frozen dataclass, as are all classes that derive from it; `fields` and `replace` take it.

    One with ``eq=False`` is equal to itself only; ``kw_only=True`` is that of a dataclass.
    """

    __signature__ = ShownSignature(_signature)

    def __init_subclass__(cls, eq: bool = True, kw_only: bool = False) -> None:
        dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
        if not eq:
            cls.__eq__, cls.__hash__ = object.__eq__, object.__hash__  # type: ignore[method-assign]

    def __init__(self, *args: Any, **named: Any) -> None:
        kind: type = type(self)
        values, taken = vars(self), 0
        given = dict(zip(_by_position(kind), args, strict=False), **named)
        for each in _fields(kind):
            name = each.name
            if name in given:
                values[name] = given[name]
                taken += 1
            elif each.default is not MISSING:
                values[name] = each.default
            elif each.default_factory is not MISSING:
                values[name] = each.default_factory()
        if taken < len(args) + len(named) or len(values) < len(_fields(kind)):
            _signature(kind).bind(*args, **named)  # raises a TypeError that says what is wrong
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check the values."""

    def __repr__(self) -> str:
        kind: type = type(self)
        shown = (f"{each.name}={getattr(self, each.name)!r}" for each in _fields(kind) if each.repr)
        return f"{kind.__qualname__}({', '.join(shown)})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot change field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        return _compared(self) == _compared(other) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return hash(_compared(self))
