"""Frozen classes: as dataclasses are, made faster."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace

import pytest

from dsprep.frozen import Frozen


@dataclass(frozen=True)
class _Expected:
    first: int
    second: str = "two"
    third: Sequence[int] = field(default_factory=list)
    why: str = field(default="", compare=False, repr=False)


class _Made(Frozen):
    first: int
    second: str = "two"
    third: Sequence[int] = field(default_factory=list)
    why: str = field(default="", compare=False, repr=False)


class _Derived(_Made, kw_only=True):
    fourth: int

    def __post_init__(self) -> None:
        if self.fourth < 0:
            raise ValueError("less than 0")


class _Alone(Frozen, eq=False):
    only: int


def test_is_what_a_dataclass_is() -> None:
    for values in ({"first": 1}, {"first": 1, "third": (2,), "why": "so"}):
        made, expected = _Made(**values), _Expected(**values)
        assert vars(made) == vars(expected)
        assert repr(made) == repr(expected).replace("_Expected", "_Made")
        assert [each.name for each in fields(made)] == [each.name for each in fields(expected)]
    assert str(inspect.signature(_Made)).startswith("(first: 'int', second: 'str' = 'two', third")
    assert (
        replace(_Made(1, "a"), first=2)
        == _Made(2, "a")
        == pickle.loads(pickle.dumps(_Made(2, "a")))
    )
    assert hash(_Made(1, third=(2,))) == hash(_Made(1, third=(2,), why="not compared"))
    assert _Made(1) != _Made(2) != _Expected(2)
    assert _Made(1).third is not _Made(1).third


def test_derived() -> None:
    assert _Derived(1, fourth=4) == _Derived(first=1, second="two", fourth=4) != _Made(1)
    assert str(inspect.signature(_Derived)).endswith("*, fourth: 'int')")
    with pytest.raises(ValueError, match="less than 0"):
        replace(_Derived(1, fourth=4), fourth=-1)
    alone = _Alone(1)
    assert {alone: 1}[alone] == 1
    assert alone != _Alone(1)


@pytest.mark.parametrize(
    ("args", "named", "why"),
    [
        ((), {}, "missing a required argument: 'first'"),
        ((1, "two", (), "why", 5), {}, "too many positional arguments"),
        ((1,), {"first": 1}, "multiple values for argument 'first'"),
        ((1,), {"fifth": 1}, "unexpected keyword argument 'fifth'"),
    ],
)
def test_wrong_arguments(args: tuple[object, ...], named: dict[str, object], why: str) -> None:
    with pytest.raises(TypeError, match=why):
        _Made(*args, **named)  # type: ignore[arg-type]


def test_does_not_change() -> None:
    made = _Made(1)
    with pytest.raises(FrozenInstanceError, match="'first'"):
        made.first = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="'first'"):
        del made.first
