"""What callers from Python may give: arguments are converted to the type hints of options.

Paths may be text or :class:`os.PathLike`, one value may stand for a sequence of one, and a mapping
for an object with these attributes. A function itself gets values of exactly its hints.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from numbers import Real
from operator import index
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from dsprep.errors import OptionError
from dsprep.units import quoted

if TYPE_CHECKING:
    # Callers may give both, the function gets text: no type says that of one parameter.
    AnyPath = Any
else:
    AnyPath = str | os.PathLike[str]
    """A path, or the URL of a place on S3."""

_SHOWN = 60  # characters of a value in a message

_WORDS = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    NoneType: "None",
    os.PathLike: "a path",
    Callable: "a function",
}


class _Unfit(Exception):
    """A value does not have the type."""


def accept(name: str, hint: Any, value: Any) -> Any:
    """Return a value converted to a type hint, or raise an OptionError that has its name."""
    try:
        return _converted(name, hint, value)
    except _Unfit:
        shown = repr(value)
        shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
        given = type(value).__name__
        raise OptionError(f"{name}={shown} is of type {given}; give {_words(hint)}") from None


def _converted(name: str, hint: Any, value: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        for option in inner:
            try:
                return _converted(name, option, value)
            except _Unfit:
                continue
        raise _Unfit
    if origin in (Sequence, Collection, tuple):
        return _sequence(name, origin, inner, value)
    if origin is Mapping and isinstance(value, Mapping):
        return {
            accept(f"{name}: a key", inner[0], key): accept(f"{name}[{key!r}]", inner[1], item)
            for key, item in value.items()
        }
    fits = (
        hint is Any
        or (origin is Literal and value in inner)
        or (origin is Callable and callable(value))
    )
    if fits:
        return value
    if origin in (Literal, Callable, Mapping):
        raise _Unfit
    return _single(name, origin or hint, value)


def _single(name: str, kind: type, value: Any) -> Any:
    """Return a value converted to a class."""
    if kind in (str, os.PathLike):
        return _text(name, value)
    if kind in (int, float) and isinstance(value, bool):
        raise _Unfit
    if kind is int:
        try:
            return int(value) if isinstance(value, float) and value.is_integer() else index(value)
        except TypeError:
            raise _Unfit from None
    if kind is float and isinstance(value, Real):
        return float(value)
    if isinstance(value, kind):
        return value
    from dataclasses import is_dataclass  # loaded here because help pages do not need dataclasses

    hints = get_type_hints(kind)
    if is_dataclass(kind) and isinstance(value, Mapping):
        for key in value:
            if key not in hints:
                raise OptionError(f"{name}: has no {key!r}; choose of {', '.join(hints)}")
        return kind(
            **{key: accept(f"{name}[{key!r}]", hints[key], item) for key, item in value.items()}
        )
    if issubclass(kind, tuple) and isinstance(value, tuple | list) and len(value) == len(hints):
        return kind(*(_converted(name, *pair) for pair in zip(hints.values(), value, strict=True)))
    raise _Unfit


def _sequence(name: str, origin: Any, inner: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    """Return several values as a tuple, or one that stands for a sequence of one."""
    if origin is tuple and inner[-1] is not Ellipsis:
        if not isinstance(value, tuple | list) or len(value) != len(inner):
            raise _Unfit
        return tuple(accept(name, *pair) for pair in zip(inner, value, strict=True))
    try:
        return (_converted(name, inner[0], value),)
    except _Unfit:
        if isinstance(value, Mapping | bytes) or not isinstance(value, Iterable):
            raise
    return tuple(accept(f"{name}[{at}]", inner[0], item) for at, item in enumerate(value))


def _text(name: str, value: Any) -> str:
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise _Unfit
    if "\0" in text:
        raise OptionError(f"{name}={quoted(text)}: holds a NUL character; no path and no name does")
    if text is not value and text.startswith("s3:/"):  # a Path has made one slash of two
        raise OptionError(f"{name}={value!r}: give a place on S3 as text, 's3://bucket/prefix'")
    return text


def _words(hint: Any) -> str:
    """Return what may be given, in words."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        words = list(dict.fromkeys(map(_words, inner)))
        if "a path" in words:  # a path is a str or a path object
            words.remove("text")
        return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin is tuple and inner[-1] is not Ellipsis:
        return f"{len(inner)} values, each {_words(inner[0])}"
    if origin in (Sequence, Collection, tuple):
        return f"a list, each {_words(inner[0])}"
    if origin is Mapping:
        return f"a dict from {_words(inner[0])} to {_words(inner[1])}"
    kind = origin or hint
    return _WORDS.get(kind) or f"a {kind.__name__}"
