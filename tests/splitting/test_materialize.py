"""Places in a tree: by class or by path, each for one file, all below the output."""

from __future__ import annotations

from pathlib import PurePosixPath

import polars as pl
import pytest
from hypothesis import given, settings

from dsprep.errors import SourceError
from dsprep.splitting.materialize import plan_tree
from tests.lists import rows, tables

properties = settings(deadline=None)


def targets(
    table: pl.DataFrame, classes: tuple[str, ...] | None = None, keep_paths: bool = False
) -> list[str]:
    sides = pl.Series("side", ["train", "val"] * table.height).head(table.height)
    return plan_tree(table, sides, classes, keep_paths)["target"].to_list()


def test_a_class_is_a_directory() -> None:
    table = rows((5, "1", "x/a.jpg"), (6, "0", "./y//b.jpg"), (7, "1", "c.jpg"))
    assert targets(table, ("cat", "birds/owl")) == [
        "train/birds/owl/a.jpg",
        "val/cat/b.jpg",
        "train/birds/owl/c.jpg",
    ]
    assert targets(table) == ["train/1/a.jpg", "val/0/b.jpg", "train/1/c.jpg"]
    assert targets(table, ("cat", "owl"), keep_paths=True) == [
        "train/x/a.jpg",
        "val/y/b.jpg",
        "train/c.jpg",
    ]


@pytest.mark.parametrize("label", ["0.5", "1\t2", "2\t5\t0\t0\t0\t1\t1"])
def test_labels_that_are_no_classes_keep_paths(label: str) -> None:
    assert targets(rows((0, label, "x/a.jpg")), ("cat",)) == ["train/x/a.jpg"]


@pytest.mark.parametrize(
    "name", ["..", "../..", "/etc", "a/../b", ".", "", "a//b", "a/", "./a", "a\0b", "../val"]
)
def test_a_class_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(SourceError, match="cannot be a place below"):
        targets(rows((0, "0", "a.jpg")), (name,))


def test_a_label_that_is_no_class_is_refused() -> None:
    with pytest.raises(SourceError, match="7 is none of the 1 classes"):
        targets(rows((0, "7", "a.jpg")), ("cat",))


def test_two_files_in_one_place_are_refused() -> None:
    table = rows((0, "0", "x/a.jpg"), (1, "1", "b.jpg"), (2, "0", "y/a.jpg"))
    with pytest.raises(SourceError, match=r"'x/a.jpg' and 'y/a.jpg' would both be 'train/0/a.jpg'"):
        targets(table)
    assert len(set(targets(table, keep_paths=True))) == 3


def test_one_file_that_is_listed_twice_has_one_place() -> None:
    table = rows((0, "0", "a.jpg"), (1, "1", "b.jpg"), (2, "0", "./a.jpg"))
    assert targets(table) == ["train/0/a.jpg", "val/1/b.jpg", "train/0/a.jpg"]


@properties
@given(tables())
def test_places_lie_below_their_sides(table: pl.DataFrame) -> None:
    try:
        places = targets(table)
    except SourceError as error:
        assert "would both be" in str(error)
        return
    for number, place in enumerate(places):
        parts = PurePosixPath(place).parts
        assert parts[0] == ("train", "val")[number % 2]
        assert len(parts) > 1
        assert not {"..", "."}.intersection(place.split("/"))
