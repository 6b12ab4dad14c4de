"""How class names get their numbers."""

from __future__ import annotations

import polars as pl
import pytest

from dsprep.errors import SourceError, UnknownClass
from dsprep.numbering import (
    Known,
    natural_order,
    not_given,
    number_classes,
    number_ids,
    numbered,
    numbers_of,
)

NAMES = ("10", "9", "é", "z")  # in plain order


@pytest.mark.parametrize(
    "names",
    [
        ("0", "1", "2", "10", "11"),
        ("a", "a1", "a02", "a2", "a10", "a10b", "b"),
        ("v1/9", "v1/10", "v2/1", "v10/1"),
        ("9", "٣", "猫2", "猫10"),
        ("7" * 5000, "8" * 5000),
    ],
)
def test_natural_order_reads_numbers_as_numbers(names: tuple[str, ...]) -> None:
    assert natural_order(reversed(names)) == names


def test_the_order_of_names() -> None:
    plain = tuple(sorted(NAMES))
    assert number_classes({*NAMES}, Known(), "here") == plain == ("10", "9", "z", "é")
    natural = number_classes({*NAMES}, Known(order="natural"), "here")
    assert natural == ("9", "10", "z", "é")
    assert number_classes({"9"}, Known(NAMES, order="natural"), "here") == NAMES


def test_names_that_known_classes_lack() -> None:
    known, names = Known(("cat", "dog")), {"cat", "owl", "ant"}
    with pytest.raises(UnknownClass, match="^here: 'ant', 'owl' are not among the 2 classes$"):
        number_classes(names, known, "here")
    with pytest.raises(SourceError, match="^here: no class of --classes: 'ant', 'owl'$"):
        number_classes(names, known, "here", not_given)
    assert number_classes(names, known, "here", unknown=None) == ("cat", "dog")


@pytest.mark.parametrize("name", ["", " ", "a\nb", "a\rb", "a\0b"])
def test_a_name_that_is_no_line_is_refused(name: str) -> None:
    for known in (Known(), Known(("a",))):  # it cannot be added to a list of classes either
        with pytest.raises(SourceError, match=r"does not fit on a line of classes\.txt"):
            number_classes({"a", name}, known, "here")


def test_numbers_of_names() -> None:
    assert numbers_of(("a", "", "b", "", "a")) == {"a": 0, "": 1, "b": 2}
    found = numbered(pl.Series(["b", "c", "a"]), ("a", "b"))
    assert (found.name, found.dtype, found.to_list()) == ("cls", pl.Int64, [1, None, 0])


def test_accents_are_found_in_both_forms() -> None:
    written, stored = "caf\xe9", "cafe\u0301"
    for own, other in ((written, stored), (stored, written)):
        assert number_classes([other], Known(("bar", own)), "here") == ("bar", own)
        assert numbered(pl.Series([other, own, "bar"]), ("bar", own)).to_list() == [1, 1, 0]
    assert numbers_of((stored, written)) == {stored: 0, written: 1}
    half, other_half = "\xe9e\u0301", "e\u0301\xe9"  # both have the same two forms
    assert numbers_of((half, other_half)) == {half: 0, other_half: 1}


def test_ids() -> None:
    named = {10: "cat", 9: "dog"}
    assert number_ids(named, None, "here") == (("dog", "cat"), (9, 10), {9: 0, 10: 1})
    given = ("cat", "owl", "dog")
    assert number_ids(named, given, "here") == (given, (), {10: 0, 9: 2})
    texts = {"b": "cat", 9: "dog"}  # no ids that a data set could have
    assert number_ids(texts, None, "here") == (("dog", "cat"), (), {9: 0, "b": 1})
    with pytest.raises(SourceError, match="no class of --classes: 'cat'"):
        number_ids(named, ("dog",), "here")
