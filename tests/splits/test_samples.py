"""Files that give sides or classes: a column, Kaggle's table, the development kit's numbers."""

from __future__ import annotations

import polars as pl
import pytest

from dsprep.errors import OptionError, SourceError
from dsprep.splits.samples import assigned_values, class_labels, parse_assignment

PATHS = pl.Series("path", ["val/c.JPEG", "val/a.JPEG", "val/b.JPEG"])
KAGGLE = """\
ImageId,PredictionString
a,n01440764 1 2 3 4
c,n03995372 85 1 499 272 n03995372 1 2 3 4
b,n01440764 5 6 7 8
"""


def values(text: str, column: str | None = None, skip: bool = False) -> list[str]:
    return assigned_values(parse_assignment(text, "f", column)[1], PATHS, "f", skip).to_list()


def labels(text: str, classes: tuple[str, ...] | None = None) -> tuple[list[str], tuple[str, ...]]:
    gives, given = parse_assignment(text, "f", None)
    label, names = class_labels(gives, assigned_values(given, PATHS, "f"), classes, "f")
    assert label.name == "label"
    return label.to_list(), names


@pytest.mark.parametrize(
    "names",
    [
        ("val/a.JPEG", "val/b.JPEG", "val/c.JPEG"),
        ("a.JPEG", "b.JPEG", "c.JPEG"),
        ("val/a", "val/b", "val/c"),
        ("a", "b", "c"),
        ("./val//a.JPEG", "b", "val/c"),
    ],
)
@pytest.mark.parametrize("separator", [",", "\t", ";"])
def test_a_column_gives_sides(names: tuple[str, ...], separator: str) -> None:
    lines = [("image", "fold", "x"), *zip(names, ("1", "test", "1"), "xyz", strict=True)]
    text = "".join(separator.join(line) + "\n" for line in lines)
    assert values(text) == ["1", "1", "test"]
    assert values(text, "x") == ["z", "x", "y"]


def test_rows_that_agree_may_repeat_a_sample() -> None:
    assert values("image,fold\na,1\nb,2\na,1\nc,1\n") == ["1", "1", "2"]
    with pytest.raises(SourceError, match=r"f:4: 'val/a\.JPEG' is assigned in line 2 already"):
        values("image,fold\na,1\nb,2\na,2\nc,1\n")


def test_numbers_follow_the_sorted_order_and_count_from_1() -> None:
    assert values("7\n3\n7\n") == ["7", "7", "3"]
    assert labels("7\n3\n7\n") == (["6", "6", "2"], ("1", "2", "3", "4", "5", "6", "7"))
    assert labels("2\r\n1\r\n2\r\n\r\n", ("kit fox", "English setter")) == (
        ["1", "1", "0"],
        ("kit fox", "English setter"),
    )


def test_kaggle_names_classes_which_are_sorted() -> None:
    assert labels(KAGGLE) == (["1", "0", "0"], ("n01440764", "n03995372"))
    closed = ("n03995372", "n00000001", "n01440764")
    assert labels(KAGGLE, closed) == (["0", "2", "2"], closed)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1\n2\n", r"has 2 lines.*3 images"),
        ("1\n2\n3\n4\n", r"has 4 lines.*3 images"),
        ("1\n2\nx\n", r"f:3: 'x' is no class number"),
        ("1\n0\n2\n", r"f:2: '0' is no class number"),
        ("1\n-1\n2\n", r"f:2: '-1' is no class number"),
        ("1\n\n2\n3\n", r"f:2: '' is no class number"),
        ("image,fold\na,1\nb,1\n", r"does not assign 'val/c.JPEG'"),
        ("image,fold\na,1\nb,1\nc,2\nd,1\n", r"f:5: 'd' names no sample"),
        ("image,fold\na,1\nb,1\nc,2\nval/a,2\n", r"f:5: 'val/a.JPEG' is assigned in line 2"),
        ("image,fold\na,1\nb,\nc,2\n", r"f:3: nothing in the column 'fold'"),
        ("image,fold\na,1\n,1\nc,2\n", r"f:3: no path in the column 'image'"),
        ("image,fold\n", r"nothing below its header"),
        (KAGGLE.replace("n01440764 5 6", "n01440764 5"), r"f:4: .* one class with its boxes"),
        (KAGGLE.replace("n03995372 1", "n01440764 1"), r"f:3: .* one class with its boxes"),
        (KAGGLE.replace("n01440764 5 6 7 8", ""), r"f:4: .* one class with its boxes"),
    ],
)
def test_what_does_not_fit_is_told_by_its_line(text: str, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        values(text)


def test_rows_of_other_samples_can_be_passed_over() -> None:
    assert values("image,fold\nz,9\na,1\nb,1\nc,2\n", skip=True) == ["2", "1", "1"]


@pytest.mark.parametrize(
    "text", ["image,label\na,1\n", "image,fold,split\na,1,1\n", "a\nb\nc\n", "x,fold,y\na,1,2\n"]
)
def test_columns_that_are_not_clear_have_to_be_named(text: str) -> None:
    with pytest.raises(OptionError, match=r"--(assign|path)-column"):
        values(text)


def test_a_name_that_may_mean_two_is_refused() -> None:
    paths = pl.Series("path", ["x/a.jpg", "y/a.jpg"])
    _, given = parse_assignment("image,fold\na,1\n", "f", None)
    with pytest.raises(SourceError, match=r"f:2: 'a' may mean 'x/a.jpg' or 'y/a.jpg'"):
        assigned_values(given, paths, "f")


def test_a_sample_that_is_listed_twice_has_one_value() -> None:
    paths = pl.Series("path", ["a.jpg", "b.jpg", "./a.jpg"])
    _, given = parse_assignment("image,fold\na,1\nb,2\n", "f", None)
    assert assigned_values(given, paths, "f").to_list() == ["1", "2", "1"]


def test_the_kit_s_numbers_are_not_those_of_sorted_names() -> None:
    with pytest.raises(SourceError, match="sorted order"):
        labels("2\n1\n2\n", ("n01440764", "n03995372"))
    assert labels("2\n1\n2\n", ("n03995372", "n01440764"))[0] == ["1", "1", "0"]


@pytest.mark.parametrize(
    ("text", "classes", "said"),
    [
        ("3\n1\n2\n", ("x", "a"), "3 is none of the 2"),
        (KAGGLE, ("n01440764",), "'n03995372' is not among the 1 class"),
    ],
)
def test_a_class_that_is_not_named_is_refused(
    text: str, classes: tuple[str, ...], said: str
) -> None:
    with pytest.raises(SourceError, match=said):
        labels(text, classes)
