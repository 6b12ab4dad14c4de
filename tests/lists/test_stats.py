"""What is in a list: the counts add up."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.lists.rows import objects_of
from dsprep.lists.stats import ClassCount, count_list
from tests.lists import rows, tables

BOX = "0\t0.25\t0.5\t1"
NAMES = ("cat", "dog", "owl", "pug", "ray", "yak")


def test_classes_are_counted() -> None:
    table = rows((0, "0", "a"), (1, "2", "b"), (2, "2", "c"), (3, "1", "d"), (4, "2", "e"))
    found = count_list(table, None, "train.lst")
    assert (found.list, found.rows, found.kind, found.distinct) == ("train.lst", 5, "classes", 3)
    assert found.classes == [(0, None, 1, None), (1, None, 1, None), (2, None, 3, None)]
    assert (found.largest, found.smallest) == (found.classes[2], found.classes[0])
    assert (found.imbalance, found.unused) == (3, 0)
    assert found.widths == {1: 5}
    assert (found.objects, found.objects_per_row) == (None, None)


def test_classes_without_rows_are_counted_if_they_have_names() -> None:
    table = rows((0, "1", "a"), (1, "1", "b"), (2, "7", "c"))
    found = count_list(table, ("cat", "dog", "owl"), "train.lst")
    assert [(each.number, each.name, each.rows) for each in found.classes] == [
        (0, "cat", 0),
        (1, "dog", 2),
        (2, "owl", 0),
        (7, None, 1),
    ]
    assert (found.unused, found.imbalance) == (2, 2)
    assert found.smallest == ClassCount(7, None, 1)


def test_objects_are_counted() -> None:
    table = rows(
        (0, f"2\t5\t1\t{BOX}", "a"),
        (1, f"4\t5\t100\t100\t1\t{BOX}\t0\t{BOX}\t1\t{BOX}", "b"),
        (2, f"2\t6\t0\t{BOX}\t9", "c"),
    )
    found = count_list(table, ("cat", "dog", "owl"), "train.lst")
    assert (found.kind, found.rows, found.objects) == ("detection", 3, 5)
    assert found.objects_per_row == {"least": 1, "mean": 5 / 3, "most": 3}
    assert found.classes == [(0, "cat", 2, 2), (1, "dog", 2, 3), (2, "owl", 0, 0)]
    assert (found.largest, found.smallest) == (found.classes[1], found.classes[0])
    assert (found.imbalance, found.unused) == (1.5, 1)
    assert found.widths == {7: 1, 8: 1, 19: 1}


@pytest.mark.parametrize("label", ["0.5", "1e+300", "1\t2"])
def test_other_labels_are_numbers(label: str) -> None:
    found = count_list(rows((0, "1" + "\t1" * label.count("\t"), "a"), (1, label, "b")), NAMES, "-")
    assert (found.kind, found.distinct, found.classes) == ("numbers", 2, [])
    assert (found.largest, found.smallest, found.imbalance, found.unused) == (None, None, None, 0)


def test_an_object_of_an_impossible_class_is_counted() -> None:
    table = rows((0, f"2\t5\t0.5\t{BOX}\t1e+300\t{BOX}\t-1\t{BOX}", "a"))
    found = count_list(table, None, "train.lst")
    assert [each.objects for each in found.classes] == [1, 1, 1]


@given(tables(), st.none() | st.just(NAMES))
def test_counts_add_up(table: pl.DataFrame, names: tuple[str, ...] | None) -> None:
    found = count_list(table, names, "train.lst")
    assert found.rows == table.height == sum(found.widths.values())
    labels = [label.split("\t") for label in table["label"]]
    assert found.widths == {
        width: sum(len(label) == width for label in labels) for width in set(map(len, labels))
    }
    numbers = [each.number for each in found.classes]
    assert numbers == sorted(set(numbers))
    known = dict(enumerate(names or ()))
    assert all(each.name == known.get(each.number) for each in found.classes)
    if found.kind == "classes":
        assert sum(each.rows for each in found.classes) == table.height
        assert found.imbalance is not None
        assert found.imbalance >= 1
    elif found.kind == "detection":
        assert found.objects == sum(each.weight for each in found.classes)
        assert found.objects == sum((len(label) - int(label[0])) // 5 for label in labels)
    else:
        assert not found.classes


@st.composite
def detection_labels(draw: st.DrawFn) -> list[float]:
    header, width = draw(st.integers(2, 5)), draw(st.integers(5, 7))
    size = header - 2 + width * draw(st.integers(1, 3))
    values = draw(st.lists(st.integers(0, 8), min_size=size, max_size=size))
    return [header, width, *(value / 4 for value in values)]


@given(st.lists(detection_labels(), min_size=1, max_size=5))
def test_objects_are_those_of_a_loop(labels: list[list[float]]) -> None:
    texts = ["\t".join(f"{value:g}" for value in label) for label in labels]
    found = objects_of(rows(*((place, text, f"{place}") for place, text in enumerate(texts))))
    assert found.rows() == [
        (place, *label[start : start + 5])
        for place, label in enumerate(labels)
        for start in range(int(label[0]), len(label), int(label[1]))
    ]
