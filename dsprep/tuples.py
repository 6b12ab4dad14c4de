"""Named tuples whose classes are made fast.

`typing.NamedTuple` compiles a constructor and five more functions for each class, which takes 0.2
ms, and a command makes about a hundred classes before it begins. Here, all of them share these
functions, and a constructor is compiled when its class is first called. Type checkers alone refuse
what is wrong in a class, such as a field without a default after one that has it.
"""

from __future__ import annotations

import sys
from _collections import _tuplegetter  # type: ignore[import-not-found]  # that of `namedtuple`
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

_Unexpected = TypeError if sys.version_info >= (3, 13) else ValueError  # as `typing` raises it


class _LateConstructor:
    """The ``__new__`` of a class, until it is asked for."""

    def __set_name__(self, owner: Any, name: str) -> None:
        self._owner = owner

    def __get__(self, instance: object, kind: Any) -> Callable[..., Any]:
        owner = self._owner  # two threads may both be here, and then compile the same
        names = "".join(f"{name}, " for name in owner._fields)
        make: Any = eval(f"lambda _kind, {names}: _new(_kind, ({names}))", {"_new": tuple.__new__})
        make.__name__, make.__qualname__ = "__new__", f"{owner.__name__}.__new__"
        make.__defaults__ = tuple(owner._field_defaults.values())
        make.__annotations__, make.__module__ = owner.__annotations__, owner.__module__
        owner.__new__ = make
        return make  # type: ignore[no-any-return]


class _TupleKind(type):
    """Makes the annotations of a class its fields, and the values beside them their defaults."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> _TupleKind:
        if bases[0].__base__ is tuple:  # `NamedTuple`, not a class that derives from it
            fields = tuple(body.get("__annotations__", ()))
            body["_fields"] = body["__match_args__"] = fields
            body["_field_defaults"] = {field: body[field] for field in fields if field in body}
            body["__new__"], body["__slots__"] = _LateConstructor(), ()
            body |= {field: _tuplegetter(place, "") for place, field in enumerate(fields)}
        return super().__new__(cls, name, bases, body)


class _NamedTuple(tuple[Any, ...], metaclass=_TupleKind):
    """A tuple whose items have names, as `typing.NamedTuple` makes it."""

    __slots__ = ()
    _fields = tuple[str, ...]()

    @classmethod
    def _make(cls, values: Any) -> Self:
        made = tuple.__new__(cls, values)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self, /, **values: Any) -> Self:
        made = self._make(map(values.pop, self._fields, self))
        if values:
            raise _Unexpected(f"Got unexpected field names: {list(values)!r}")
        return made

    __replace__ = _replace

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({', '.join(shown)})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)


if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple  # as type checkers know it
else:
    NamedTuple = _NamedTuple
