"""The values of a plan as JSON: each class and function that a plan may hold has a name.

A plan file may come from anybody. So only named classes make values, nothing is imported or called
by a path in a file, and each value is checked against the type of its field. What plans of any
source hold is named here; kinds of sources and annotations name the rest, by `saved`.
"""

from __future__ import annotations

import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from inspect import get_annotations
from types import FunctionType, UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import polars as pl

from dsprep.catalog import Annotated, Catalog, Inferred
from dsprep.dataset.copies import Copies
from dsprep.errors import OptionError
from dsprep.findings import Finding, MisfitReject, Reject
from dsprep.formats import ALL_FORMATS
from dsprep.images.augment import Augment
from dsprep.images.pixels import Shape
from dsprep.images.transform import Transform
from dsprep.moving import Frame
from dsprep.pipeline import Images
from dsprep.places.archive import ArchiveReader, CompressedTarReader, ZipReader
from dsprep.places.zip import Packed
from dsprep.plan.cut import PlannedShard, ShardSize
from dsprep.plan.existing import Existing
from dsprep.plan.job import Job
from dsprep.plan.plan import Plan
from dsprep.plan.select import Chosen
from dsprep.rows import Pixels
from dsprep.schema import TYPES, Field, Reading, Schema, SettledSchema, Table
from dsprep.sources.annotation_kinds import all_annotation_kinds
from dsprep.sources.kinds import Kind
from dsprep.sources.raw_pixels import RawPixels
from dsprep.sources.reading import known_kinds
from dsprep.sources.source import Source
from dsprep.storage.stored import Facts

CLASSES: Mapping[str, type] = {
    "plan": Plan,
    "job": Job,
    "shard-size": ShardSize,
    "shard": PlannedShard,
    "chosen": Chosen,
    "existing": Existing,
    "finding": Finding,
    "reject": Reject,
    "misfit": MisfitReject,
    "copies": Copies,
    "catalog": Catalog,
    "annotated": Annotated,
    "inferred": Inferred,
    "facts": Facts,
    # images
    "images": Images,
    "transform": Transform,
    "augment": Augment,
    "frame": Frame,
    "shape": Shape,
    # the schema
    "schema": Schema,
    "field": Field,
    "settled": SettledSchema,
    "reading": Reading,
    **{f"{name}-format": layout for name, layout in ALL_FORMATS.items()},
    # of any kind of source: members of archives, bare pixels in samples
    "archive-reader": ArchiveReader,
    "zip-reader": ZipReader,
    "compressed-tar-reader": CompressedTarReader,
    "packed": Packed,
    "raw-pixels": RawPixels,
}
_COLLECTIONS: Mapping[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple,
    "frozenset": frozenset,
    "dict": dict,
    "range": lambda each: range(*each),
    "array": lambda each: array(each[0], each[1]),
}

# What each part of a run has itself, and no file tells.
OWN_FIELDS = ("command", "source", "destination", "given", "divide", "base")
DEEPEST = 64  # values within each other that are read; a plan has about 20

_Item = TypeVar("_Item")


class _Array(Generic[_Item]):
    """Stands for :class:`array.array` in type hints, which Python 3.11 cannot subscript."""


# What hints name that a module has for type checkers alone.
_HINTED: dict[str, Any] = {kind.__name__: kind for kind in (Pixels, Table)}
_HINTED |= {"Any": Any, "Callable": Callable, "Mapping": Mapping, "Sequence": Sequence, "pl": pl}


class PlanValues:
    """The values that a plan may hold, if sources and annotations of some kinds may be read."""

    def __init__(self, kinds: Iterable[type[Kind]]) -> None:
        """Name what plans of any source hold, and what each kind adds."""
        named: dict[str, Callable[..., Any]] = {**CLASSES}
        for kind in kinds:
            for name, value in kind.saved().items():
                if named.setdefault(name, value) is not value:
                    other = named[name].__qualname__
                    raise OptionError(
                        f"--part: {value.__module__}.{value.__qualname__} cannot be called "
                        f"{name!r} in a plan, as {other} is: name it otherwise in {kind.__name__}"
                    )
        self.classes = {name: each for name, each in named.items() if isinstance(each, type)}
        self.functions = {name: each for name, each in named.items() if not isinstance(each, type)}
        self._names = {each: name for name, each in named.items()}
        self._hinted = {kind.__name__: kind for kind in self.classes.values()} | _HINTED
        self._hints: dict[type, Mapping[str, Any]] = {}

    def to_json(self, value: Any, tables: list[pl.DataFrame]) -> Any:
        """Return a value as what JSON knows; tables are put into a list."""
        inner = partial(self.to_json, tables=tables)
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, list):
            return list(map(inner, value))
        if isinstance(value, bytes):
            return {"bytes": b64encode(value).decode()}
        if isinstance(value, pl.DataFrame):
            tables.append(value)
            return {"table": len(tables) - 1}
        if isinstance(value, FunctionType):
            return {"function": self._names[value]}
        if name := self._names.get(type(value)):
            hints = self.hints_of(type(value))
            return {name: {each: inner(getattr(value, each)) for each in hints}}
        if isinstance(value, array):
            return {"array": [value.typecode, value.tolist()]}
        if isinstance(value, range):
            return {"range": [value.start, value.stop, value.step]}
        if isinstance(value, Mapping):
            return {"dict": [[inner(name), inner(each)] for name, each in value.items()]}
        if isinstance(value, frozenset):
            return {"frozenset": sorted(map(inner, value), key=repr)}
        if type(value) is tuple:
            return {"tuple": list(map(inner, value))}
        raise OptionError(
            f"--part: a plan cannot hold {type(value).__module__}.{type(value).__qualname__}: the "
            "kind of source that makes it gives it no name"
        )

    def from_json(
        self,
        plain: Any,
        table: Callable[[Any], pl.DataFrame],
        unsaved: Mapping[str, Any],
        depth: int = 0,
    ) -> Any:
        """Return the value that JSON tells, or raise an error that says what is wrong with it.

        ``table`` returns a table by its number, and ``unsaved`` has the fields of a job that no
        file tells.
        """
        if depth > DEEPEST:
            raise ValueError("its values are nested too deep")
        inner = partial(self.from_json, table=table, unsaved=unsaved, depth=depth + 1)
        if isinstance(plain, list):
            return list(map(inner, plain))
        if isinstance(plain, str) and "\0" in plain:
            raise ValueError("a text has a NUL character")
        if not isinstance(plain, dict):
            return plain
        if len(plain) != 1:
            raise ValueError("a value has several names, or none")
        ((name, content),) = plain.items()
        if name in self.classes:
            return self._made(name, content, inner, unsaved if name == "job" else {})
        if name == "function":
            return self.functions[content]
        if name == "bytes":
            return b64decode(content)
        if name == "table":
            return table(content)
        if name not in _COLLECTIONS or not isinstance(content, list):
            raise ValueError(f"it has {name!r:.100}, which is no value of a plan")
        return _COLLECTIONS[name](list(map(inner, content)))

    def _made(
        self, name: str, content: Any, inner: Callable[[Any], Any], unsaved: Mapping[str, Any]
    ) -> Any:
        """Return an object of a class, of exactly the fields that it has, each of its type."""
        hints = self.hints_of(self.classes[name])
        if not isinstance(content, dict) or content.keys() != hints.keys():
            raise ValueError(f"its {name} has other fields")
        values = {each: inner(item) for each, item in content.items()}
        for each, item in values.items():
            if not fits(item, hints[each]):
                raise ValueError(f"its {name} has a wrong {each}: {item!r:.100}")
        made = self.classes[name](**values, **unsaved)
        if isinstance(made, Field) and made.type not in TYPES:
            raise ValueError(f"it has fields of type {made.type!r:.100}")
        if isinstance(made, Schema) and not {made.image, made.label} <= {None, *made.by_name}:
            raise ValueError(
                f"the image {made.image!r:.100} or label {made.label!r:.100} is no field"
            )
        return made

    def hints_of(self, kind: type) -> Mapping[str, Any]:
        """Return the fields of a class that a file tells, in their order, with their types."""
        if kind not in self._hints:
            self._hints[kind] = self._find_hints(kind)
        return self._hints[kind]

    def _find_hints(self, kind: type) -> Mapping[str, Any]:
        if is_dataclass(kind):
            names = [each.name for each in fields(kind) if each.init]
        else:
            names = list(kind._fields)  # type: ignore[attr-defined]  # a named tuple
        if kind is Job:
            names = [name for name in names if name not in OWN_FIELDS]
        hints: dict[str, Any] = {}
        for base in reversed(kind.__mro__):
            told = get_annotations(base)
            # A hint is text, which the module of its class explains.
            known = self._hinted | vars(sys.modules[base.__module__]) | {"array": _Array}
            holder = type("", (), {"__annotations__": {n: told[n] for n in names if n in told}})
            hints |= get_type_hints(holder, known, known)
        return {name: hints[name] for name in names}


@cache
def _values_of(kinds: tuple[type[Kind], ...]) -> PlanValues:
    return PlanValues(kinds)


def values_for(source: Source) -> PlanValues:
    """Return what a plan for a source may hold: nothing of kinds that cannot claim it."""
    return _values_of((*known_kinds(source).kinds, *all_annotation_kinds().kinds))


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value has a type, with all that it consists of."""
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind is Any:
        return True
    if kind in (Union, UnionType):
        return any(fits(value, each) for each in inner)
    if kind is get_origin(Callable[..., Any]):
        return isinstance(value, FunctionType)
    if kind is _Array:
        codes = "fd" if inner == (float,) else "bBhHiIlLqQ"
        return isinstance(value, array) and value.typecode in codes
    if kind in (int, float):
        return isinstance(value, int | kind) and not isinstance(value, bool)
    if kind is not str and isinstance(value, str):  # a str is a sequence, too
        return False
    return isinstance(value, kind) and _holds(value, kind, inner)


def _holds(value: Any, kind: type, inner: tuple[Any, ...]) -> bool:
    """Return whether what a value consists of has the types that its hint names."""
    if kind is tuple and inner[-1] is not Ellipsis:
        return len(value) == len(inner) and all(map(fits, value, inner))
    if all(each is Any for each in inner):  # true for hints without parameters, too
        return True
    if isinstance(value, Mapping):
        return all(fits(name, inner[0]) and fits(each, inner[1]) for name, each in value.items())
    if isinstance(value, range):  # a range may be too long to look at each number
        return inner[0] is int
    return all(fits(each, inner[0]) for each in value)
