"""Names of classes: each has one of its own, and each that a plan file may hold has one there."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_origin

import dsprep.sources
from dsprep.images.transform import Geometry
from dsprep.plan.plan import Plan
from dsprep.plan.values import PlanValues
from dsprep.rows import Pixels
from dsprep.schema import Table
from dsprep.sources.annotation_kinds import own_annotation_kinds
from dsprep.sources.kinds import own_kinds

PACKAGE = Path(__file__).parents[2] / "dsprep"
NOT_IN_PLANS = {Geometry}  # `verify` makes it, of a transform


def test_no_two_classes_share_a_name() -> None:
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert places
    shared = {name: where for name, where in places.items() if len(where) > 1}
    assert not shared, "give each of them a name that says what it holds"


# Words that do not say what a thing is. `told` is also a key of `--json` and of plan files, which
# `Field.told` and `FieldFound.told` are.
VAGUE = {"told", "own", "at"}
PARTICIPLES = {"Told", "Found", "Looked", "Asked", "Left", "Noticed", "Settled", "Seen", "Written"}
KEYS = {("schema/fields.py", "told"), ("verifying/report.py", "told")}


def public_names(tree: ast.Module | ast.ClassDef) -> Iterator[str]:
    """Yield the names of classes, their attributes, public functions and their parameters."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name.lstrip("_")
            yield from public_names(node)
            stored = (each for each in ast.walk(node) if isinstance(each, ast.Attribute))
            yield from (each.attr for each in stored if isinstance(each.ctx, ast.Store))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            given = node.args
            yield from (node.name, *(each.arg for each in (*given.args, *given.kwonlyargs)))


def test_names_say_what_a_thing_is() -> None:
    found = {
        (str(path.relative_to(PACKAGE)), name)
        for path in PACKAGE.rglob("*.py")
        for name in public_names(ast.parse(path.read_text("utf-8")))
        if name in VAGUE | PARTICIPLES
    }
    assert found == KEYS, "name the thing: a receipt, the schema that a source declares, a position"


def records() -> set[type]:
    """The classes of dsprep that consist of fields, with those of every source."""
    for each in pkgutil.walk_packages(dsprep.sources.__path__, "dsprep.sources."):
        import_module(each.name)
    return {
        each
        for name, module in list(sys.modules.items())
        if name.startswith("dsprep.")
        for each in vars(module).values()
        if isinstance(each, type) and (is_dataclass(each) or hasattr(each, "_fields"))
    }


def named_in(hint: Any) -> Iterator[Any]:
    """Yield the classes of dsprep that a type hint names."""
    kind = get_origin(hint) or hint
    if getattr(kind, "__module__", "").startswith("dsprep"):
        yield kind
    for each in () if kind is get_origin(Callable[..., Any]) else get_args(hint):
        yield from named_in(each)


def members(protocol: type) -> set[str]:
    return {name for name in vars(protocol) if name == "__call__" or not name.startswith("_")}


def has_type(record: type, kind: type) -> bool:
    if kind not in (Pixels, Table):
        return kind in record.__mro__
    return all(any(name in vars(base) for base in record.__mro__) for name in members(kind))


def test_what_a_plan_consists_of_has_a_name_in_plan_files() -> None:
    # A field of any values, such as the places of annotations, may have a sequence of dsprep's.
    values = PlanValues((*own_kinds().kinds, *own_annotation_kinds().kinds))
    known, found, left = records(), set[type](), [Plan, Sequence]
    while left:
        kind: Any = left.pop()
        own = {each for each in known if has_type(each, kind) and not inspect.isabstract(each)}
        own -= found | NOT_IN_PLANS
        found |= own
        hints = [hint for each in own for hint in values.hints_of(each).values()]
        left += [one for hint in hints for one in named_in(hint)]
    differ = sorted(each.__name__ for each in found ^ set(values.classes.values()))
    assert differ == [], "each needs a name in `saved` of its kind of source, or has it for nothing"
