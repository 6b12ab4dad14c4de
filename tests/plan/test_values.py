"""The values of a plan file: what has a name comes back, and nothing else makes a value."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from dsprep.errors import OptionError
from dsprep.images.transform import Geometry
from dsprep.plan.cut import PlannedShard
from dsprep.plan.values import DEEPEST, PlanValues, fits
from dsprep.sources.annotation_kinds import all_annotation_kinds
from dsprep.sources.kinds import all_kinds

VALUES = PlanValues((*all_kinds().kinds, *all_annotation_kinds().kinds))


def read(plain: Any) -> Any:
    return VALUES.from_json(plain, lambda number: number, {})


SHARD = {"name": "a", "start": 0, "stop": 1, "bytes": 9}


def test_a_value_is_the_same_again() -> None:
    for value in (
        *(None, True, 1, 0.5, "é", b"\xff", (), (1, (2,)), [1, ()], frozenset("ab")),
        *({1: 2, "1": (3,)}, range(3, 9, 2), array("q", [-1, 2])),
        *(PlannedShard("a", 0, 1, 9), *VALUES.functions.values()),
    ):
        again = read(VALUES.to_json(value, []))
        assert (type(again), again) == (type(value), value)


def test_what_has_no_name_is_not_written() -> None:
    with pytest.raises(OptionError, match="Geometry"):
        VALUES.to_json(Geometry(), [])


def test_what_makes_no_value() -> None:
    for plain, why in (
        ({"subprocess:Popen": {"args": "true"}}, "'subprocess:Popen', which is no value"),
        ({"dsprep.plan.cut:PlannedShard": SHARD}, "which is no value of a plan"),
        ({"function": "dsprep.storage.local:publish"}, "dsprep.storage.local:publish"),
        ({"tuple": 5}, "'tuple', which is no value"),
        ({}, "several names, or none"),
        ({"tuple": [], "dict": []}, "several names, or none"),
        ({"shard": [0, 1]}, "its shard has other fields"),
        ({"shard": {**SHARD, "more": 1}}, "its shard has other fields"),
        ({"shard": {"name": "a"}}, "its shard has other fields"),
        ({"shard": {**SHARD, "name": {"shard": SHARD}}}, "its shard has a wrong name"),
        ({"shard": {**SHARD, "start": True}}, "its shard has a wrong start: True"),
        ({"shard": {**SHARD, "start": 0.0}}, "its shard has a wrong start: 0.0"),
        ("a\0b", "NUL"),
    ):
        with pytest.raises((ValueError, LookupError), match=why):
            read(plain)


def test_a_value_is_not_too_deep() -> None:
    def nested(depth: int) -> Any:
        return [nested(depth - 1)] if depth else []

    assert read(nested(DEEPEST)) == nested(DEEPEST)
    with pytest.raises(ValueError, match="nested too deep"):
        read(nested(DEEPEST + 1))


def test_a_type_has_these_values() -> None:
    parse = list(VALUES.functions.values())
    cases: list[tuple[Any, list[Any], list[Any]]] = [
        (int, [0, 10**30], [True, 1.0, "1", None]),
        (float, [0, 0.5], [True, "1"]),
        (str, ["a"], [b"a", ("a",)]),
        (int | None, [None, 1], ["1", False]),
        (tuple[int, str], [(1, "a")], [(1,), (1, 2), [1, "a"], (1, "a", 1)]),
        (tuple[str, ...], [(), ("a", "b")], ["ab", ("a", 1)]),
        (Sequence[str], [["a"], ("a",)], ["a", [1], {"a": 1}, range(5), array("q", [1])]),
        (Sequence[int], [range(10**18), array("q", [1])], ["a", 5, frozenset([1])]),
        (Mapping[str, int], [{}, {"a": 1}], [{1: 1}, {"a": "1"}, [("a", 1)]]),
        (Sequence[Any], [range(9), [1, "a"]], ["ab", 1]),
        (Callable[[bytes], int], parse, [len, int, "len", None]),
        (VALUES.classes["table-boxes"], [], [None, {}]),
    ]
    for hint, right, wrong in cases:
        assert [each for each in right if not fits(each, hint)] == [], hint
        assert [each for each in wrong if fits(each, hint)] == [], hint
