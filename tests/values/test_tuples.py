"""Named tuples: as `typing` has them, made faster."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.tuples import NamedTuple

T = TypeVar("T")


class _Expected(typing.NamedTuple):
    first: int
    second: str = "two"
    third: tuple[int, ...] = ()

    @property
    def doubled(self) -> int:
        return 2 * self.first


class _Made(NamedTuple):
    first: int
    second: str = "two"
    third: tuple[int, ...] = ()

    @property
    def doubled(self) -> int:
        return 2 * self.first


class _Derived(_Made):
    pass


class _Of(NamedTuple, Generic[T]):
    only: T


class _Empty(NamedTuple):
    pass


def _told(make: Callable[[], Any]) -> tuple[object, str]:
    """Return what a call makes, or the error that it raises."""
    try:
        made = make()
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        return type(error), str(error).replace("_Expected", "_Made")
    return made, repr(made).replace("_Expected", "_Made")


_NAMES = st.sampled_from(["first", "second", "third", "fourth"])
_NAMED = st.dictionaries(_NAMES, st.integers())


@given(st.lists(st.integers(), max_size=4), _NAMED, _NAMED)
def test_does_what_a_named_tuple_does(
    values: list[Any], named: dict[str, Any], others: dict[str, Any]
) -> None:
    for use in (
        lambda kind: kind(*values, **named),
        lambda kind: kind(*values, **named)._replace(**others),
        lambda kind: kind(*values, **named)._asdict(),
        lambda kind: kind(*values, **named).doubled,
        lambda kind: kind(*values, **named)[2],
        lambda kind: [*kind(*values, **named)],
        lambda kind: hash(kind(*values, **named)),
        lambda kind: kind._make(values),
        lambda kind: kind(*values, **named) == kind._make(values),
    ):
        assert _told(lambda use=use: use(_Made)) == _told(lambda use=use: use(_Expected))


def test_says_what_a_named_tuple_says_of_itself() -> None:
    shown, expected = inspect.signature(_Made).parameters, inspect.signature(_Expected).parameters
    assert [(each.name, each.default) for each in shown.values()] == [
        (each.name, each.default) for each in expected.values()
    ]
    assert _Made._fields == _Made.__match_args__ == _Expected._fields
    assert _Made._field_defaults == _Expected._field_defaults
    assert typing.get_type_hints(_Made) == typing.get_type_hints(_Expected)
    assert isinstance(_Made(1), tuple) and _Made(1) == (1, "two", ())
    for attribute in ("first", "fourth"):
        with pytest.raises(AttributeError):
            setattr(_Made(1), attribute, 2)


@pytest.mark.parametrize("made", [_Made(1, "a"), _Derived(1, "a"), _Of(1), _Of[int](1), _Empty()])
def test_is_copied_and_pickled(made: Any) -> None:
    for other in (copy.copy(made), pickle.loads(pickle.dumps(made))):
        assert other == made
        assert type(other) is type(made)


def test_is_made_without_its_constructor() -> None:
    class Bare(NamedTuple):
        first: int
        second: int

    made = tuple.__new__(Bare, (1, 2))
    assert (made.first, made.second, repr(made)) == (1, 2, "Bare(first=1, second=2)")
    assert made._replace(second=3) == Bare(1, 3)
    first, second = made
    match made:
        case Bare(taken, second=other):
            assert (taken, other) == (first, second)


def test_two_threads_may_ask_for_the_constructor_at_once() -> None:
    class Bare(NamedTuple):
        first: int

    asked_before = vars(Bare)["__new__"]
    assert Bare(1) == Bare(first=1)
    assert asked_before.__get__(None, Bare)(Bare, 1) == Bare(1)
