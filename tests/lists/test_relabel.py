"""Classes renamed, merged, refined and renumbered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.errors import SourceError
from dsprep.lists.diff import ClassMove
from dsprep.lists.edit import Change, parse_map, relabel
from tests.lists import rows

CLASSES = ("cat", "dog", "wolf")
LIST = rows(
    *((0, "0", "a/1.jpg"), (1, "1", "b/2.jpg"), (2, "1", "b/poodle/3.jpg"), (3, "2", "c/4.jpg"))
)


def changes(*pairs: tuple[str, str]) -> list[Change]:
    return [Change(line, *pair) for line, pair in enumerate(pairs, 1)]


def labels(*pairs: tuple[str, str], **options: bool) -> tuple[list[str], tuple[str, ...] | None]:
    done = relabel(LIST, CLASSES, changes(*pairs), "map.tsv", **options)
    return done.rows["label"].to_list(), done.classes


def test_a_map_with_a_cell_that_is_too_long() -> None:
    with pytest.raises(SourceError, match="^map.tsv:2: is not CSV"):
        parse_map(f"a,b\nc,{'d' * 200_000}", "map.tsv")


def test_renaming_numbers_anew() -> None:
    assert labels(("cat", "zebra"), keep=True) == (["2", "0", "0", "1"], ("dog", "wolf", "zebra"))


def test_merging_leaves_no_gap() -> None:
    assert labels(("wolf", "dog"), keep=True) == (["0", "1", "1", "1"], ("cat", "dog"))


def test_a_pattern_refines_and_wins() -> None:
    done = labels(("cat", "cat"), ("dog", "other dog"), ("**/poodle/*", "poodle"), ("wolf", "wolf"))
    assert done == (["0", "1", "2", "3"], ("cat", "other dog", "poodle", "wolf"))


def test_of_two_patterns_the_first_wins() -> None:
    assert labels(("b/**", "x"), ("*.jpg", "y")) == (["1", "0", "0", "1"], ("x", "y"))


def test_what_is_said_of_it() -> None:
    done = relabel(
        LIST, (*CLASSES, "gone"), changes(("wolf", "dog"), ("z/*", "zoo")), "map.tsv", keep=True
    )
    assert done.moves == [
        ClassMove("cat", "cat", 1),
        ClassMove("dog", "dog", 2),
        ClassMove("wolf", "dog", 1),
    ]
    assert done.dropped == ["gone"]
    assert done.idle == [Change(2, "z/*", "zoo")]
    assert done.classes == ("cat", "dog", "zoo")


def test_the_new_order_may_be_fixed() -> None:
    done = relabel(
        LIST, CLASSES, changes(("wolf", "dog")), "m", keep=True, order=("dog", "cow", "cat")
    )
    assert done.rows["label"].to_list() == ["2", "0", "0", "0"]
    with pytest.raises(SourceError, match="'cat' is none of the 1 given"):
        relabel(LIST, CLASSES, changes(("wolf", "dog")), "m", keep=True, order=("dog",))


def test_numbers_may_stay_numbers() -> None:
    done = relabel(LIST, None, changes(("0", "5"), ("1", "9")), "m", keep=True)
    assert (done.rows["label"].to_list(), done.classes) == (["5", "9", "9", "2"], None)
    done = relabel(LIST, None, changes(("0", "5"), ("1", "9")), "m", keep=True, renumber=True)
    assert done.rows["label"].to_list() == ["1", "2", "2", "0"]


def test_numbers_may_get_names() -> None:
    done = relabel(LIST, None, changes(("0", "b"), ("1", "a"), ("2", "a")), "m")
    assert (done.rows["label"].to_list(), done.classes) == (["1", "0", "0", "0"], ("a", "b"))
    with pytest.raises(SourceError, match="gives some classes names"):
        relabel(LIST, None, changes(("0", "b")), "m", keep=True)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("cat", "x")], "does not match 3 rows, such as 'b/2.jpg' of class 'dog'"),
        ([("cow", "x")], "m:1: 'cow' is no class of the list"),
    ],
)
def test_what_does_not_fit_is_refused(pairs: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        relabel(LIST, CLASSES, changes(*pairs), "m")


def test_labels_that_are_no_classes_are_refused() -> None:
    with pytest.raises(SourceError, match="'a' has a label that is not one class number"):
        relabel(rows((0, "0.5", "a")), None, changes(("0", "1")), "m")
    with pytest.raises(SourceError, match="the label 3 is none of the 3 classes"):
        relabel(rows((0, "3", "a")), CLASSES, changes(("cat", "x")), "m")


def test_maps_are_read_with_tabs_or_commas() -> None:
    text = 'old,new\n# why\ncat,"big, cat"\n\ndog\tbig dog\n'
    assert parse_map(text, "m") == [Change(3, "cat", "big, cat"), Change(5, "dog", "big dog")]
    for wrong, message in (
        ("", "holds no changes"),
        ("cat\n", "m:1: a line is"),
        ("a,b,c\n", "m:1: a line is"),
        ("a,b\na,c\n", "m:2: 'a' is 'b' in line 1"),
    ):
        with pytest.raises(SourceError, match=message):
            parse_map(wrong, "m")


def test_objects_have_classes_too() -> None:
    boxes = rows(
        (0, "2\t5\t0\t0\t0\t1\t1\t2\t0\t0\t1\t1", "a.jpg"),
        (1, "3\t6\t9\t1\t0\t0\t1\t1\t0.5", "b.jpg"),
    )
    done = relabel(boxes, CLASSES, changes(("wolf", "dog"), ("cat", "zebra")), "m", keep=True)
    assert done.rows["label"].to_list() == [
        *("2\t5\t1\t0\t0\t1\t1\t0\t0\t0\t1\t1", "3\t6\t9\t0\t0\t0\t1\t1\t0.5")
    ]
    assert done.unit == "object"
    assert done.moves == [
        ClassMove("cat", "zebra", 1),
        ClassMove("dog", "dog", 1),
        ClassMove("wolf", "dog", 1),
    ]
    by_file = relabel(boxes, CLASSES, changes(("a.*", "x"), ("dog", "y")), "m")
    assert by_file.classes == ("x", "y")
    fraction = rows((0, "2\t5\t0.5\t0\t0\t1\t1", "a.jpg"))
    with pytest.raises(SourceError, match="not one class number"):
        relabel(fraction, CLASSES, changes(("cat", "x")), "m")


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=20),
    st.lists(st.integers(0, 4), min_size=5, max_size=5),
)
def test_every_row_goes_where_the_map_says(old: list[int], new: list[int]) -> None:
    names = tuple("abcde")
    table = rows(*((number, str(each), f"{number}.jpg") for number, each in enumerate(old)))
    pairs = [(name, names[each]) for name, each in zip(names, new, strict=True)]
    done = relabel(table, names, changes(*pairs), "m")
    assert done.classes is not None
    found = [done.classes[int(label)] for label in done.rows["label"]]
    assert found == [names[new[each]] for each in old]
    assert sum(move.moved for move in done.moves) == len(old)
    assert list(done.classes) == sorted({names[each] for each in new})
