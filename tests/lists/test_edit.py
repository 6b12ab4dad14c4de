"""Edits: what is meant is changed, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from dsprep.editing.edit_lists import edit_list
from dsprep.errors import DestinationError, OptionError, SourceError
from dsprep.lists.edit import append_rows, class_number, cut_parts, selected
from dsprep.lists.rows import format_rows, require_fitting, require_one_kind
from dsprep.lists.store import read_list
from tests.lists import paths, rows, tables

LIST = rows((0, "0", "cat/1.jpg"), (2, "1", "dog/2.jpg"), (7, "1", "dog/old/3.jpg"))


def chosen(**conditions: Any) -> list[int]:
    return LIST.filter(selected(**conditions))["index"].to_list()


@pytest.mark.parametrize(
    ("glob", "ids"),
    [
        ("*.jpg", [0, 2, 7]),
        ("dog/*", [2]),
        ("dog/**", [2, 7]),
        ("**/old/*", [7]),
        ("?.jpg", [0, 2, 7]),
        ("cat/?.jpg", [0]),
        ("/cat/1.jpg", [0]),
        ("1.jpg", [0]),
        ("cat", []),
        ("[12].jpg", []),
        (".+", []),
    ],
)
def test_globs(glob: str, ids: list[int]) -> None:
    assert chosen(paths=[glob]) == ids


def test_conditions_are_all_fulfilled_by_any_of_their_values() -> None:
    assert chosen(ids=["0-2"]) == [0, 2]
    assert chosen(ids=["0", "7"], classes=[1]) == [7]
    assert chosen(paths=["cat/*", "dog/*"], classes=[0, 1]) == [0, 2]
    with pytest.raises(OptionError, match="no condition"):
        chosen()


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1-2-3", "1.5", "9" * 30])
def test_ids_that_are_none(text: str) -> None:
    with pytest.raises(OptionError, match="--id"):
        selected(ids=[text])


def test_classes_have_a_name_or_a_number() -> None:
    assert class_number("dog", ("cat", "dog")) == 1
    assert class_number("1", ("cat", "1")) == 1
    assert class_number("0", ("cat", "dog")) == 0
    assert class_number("12", None) == 12
    for text, classes in (
        ("2", ("cat", "dog")),
        ("cow", ("cat",)),
        ("cow", None),
        ("-1", ("cat",)),
    ):
        with pytest.raises(OptionError):
            class_number(text, classes)


@settings(max_examples=30, deadline=None)
@given(tables().map(lambda table: table.with_columns(label=pl.lit("1"))), st.data())
def test_set_changes_what_is_chosen_and_no_more(
    tmp_path_factory: pytest.TempPathFactory, table: pl.DataFrame, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("set") / "train.lst"
    path.write_text(format_rows(table))
    ids = data.draw(st.sets(st.sampled_from(table["index"].to_list()), min_size=1))
    is_chosen = pl.col("index").is_in(list(ids))
    edit_list(str(path), ids=sorted(ids), label=5)
    changed = read_list(str(path)).table
    assert_frame_equal(changed.filter(~is_chosen), table.filter(~is_chosen))
    assert set(changed.filter(is_chosen)["label"]) == {"5"}
    assert_frame_equal(changed.select("index", "path"), table.select("index", "path"))


def test_prefixes(tmp_path: Path) -> None:
    path = tmp_path / "train.lst"

    def replaced(table: pl.DataFrame, old: str, new: str) -> list[str]:
        path.write_text(format_rows(table))
        edit_list(str(path), prefix=(old, new))
        return read_list(str(path)).table["path"].to_list()

    assert replaced(LIST, "dog/", "wolf/") == ["cat/1.jpg", "wolf/2.jpg", "wolf/old/3.jpg"]
    assert replaced(LIST, "dog/", "")[1:] == ["2.jpg", "old/3.jpg"]
    assert replaced(rows((0, "0", "ünï/ä.jpg")), "ünï/", "é/") == ["é/ä.jpg"]
    with pytest.raises(SourceError, match="no row matches"):
        replaced(LIST, "og/", "x")


@given(tables(), st.lists(paths, max_size=8))
def test_appending_twice_is_appending_once(table: pl.DataFrame, new: list[str]) -> None:
    files = pl.DataFrame(
        {"path": new, "label": ["1"] * len(new)},
        schema_overrides={"path": pl.String, "label": pl.String},
    )
    once = append_rows(table, files)
    assert_frame_equal(once.head(table.height), table)
    assert once["index"].is_unique().all()
    assert set(once["path"]) == {*table["path"], *new}
    assert once.height == table.height + len(set(new) - set(table["path"]))
    assert_frame_equal(append_rows(once, files), once)


def test_appending_knows_a_file_by_other_spellings() -> None:
    listed = rows((3, "0", "./cat//1.jpg"))
    new = pl.DataFrame({"path": ["cat/1.jpg", "cat/2.jpg"], "label": ["0", "0"]})
    assert append_rows(listed, new).rows() == [(3, "0", "./cat//1.jpg"), (4, "0", "cat/2.jpg")]


@pytest.mark.parametrize(
    "path", ["", "a\tb", "a\nb", "a\rb", " a", "a ", "a\x1f", "../a", "/a", "a\0"]
)
def test_what_could_not_be_read_again_is_not_written(path: str) -> None:
    with pytest.raises(DestinationError, match="cannot be in a list"):
        require_fitting(rows((0, "0", "b"), (1, "0", path)), "x.lst")


def test_labels_stay_of_one_kind() -> None:
    one, two = rows((0, "0", "a")), rows((1, "0\t1", "b"))
    boxes = (
        rows((0, "2\t5\t1\t0\t0\t1\t1", "a")),
        rows((1, "2\t5\t1\t0\t0\t1\t1\t1\t0\t0\t1\t1", "b")),
    )
    require_one_kind(one, one, "x.lst")
    require_one_kind(*boxes, "x.lst")
    with pytest.raises(SourceError, match="x.lst: has 1 labels a row"):
        require_one_kind(one, two, "x.lst")
    with pytest.raises(SourceError):
        require_one_kind(boxes[1], two, "x.lst")


@given(st.integers(1, 300), st.integers(1, 5), st.floats(0.01, 1), st.floats(0, 0.99))
def test_every_row_is_in_one_part(n: int, chunks: int, train: float, test: float) -> None:
    try:
        parts = cut_parts(n, chunks, train, test)
    except OptionError:
        return
    assert sorted(row for part in parts.values() for row in part) == list(range(n))
    assert all(parts.values())


def test_parts_are_named_as_im2rec_names_them() -> None:
    assert [*cut_parts(10)] == [""]
    assert [*cut_parts(10, 2)] == ["_0", "_1"]
    assert [*cut_parts(10, 1, 0.7, 0.1).items()] == [
        *(("_train", range(1, 8)), ("_val", range(8, 10)), ("_test", range(1)))
    ]
    assert cut_parts(10, 1, 0.7, 0.3) == {"_train": range(3, 10), "_test": range(3)}
    assert [*cut_parts(9, 2, 0.5)] == ["_0_train", "_0_val", "_1_train", "_1_val"]


@pytest.mark.parametrize(
    "given_",
    [
        (10, 1, 0.0, 0.5),
        (10, 1, 0.8, 0.3),
        (10, 11, 1.0, 0.0),
        (1, 1, 0.5, 0.0),
        (10, 1, float("nan"), 0.1),
    ],
)
def test_parts_that_make_no_sense(given_: tuple[int, int, float, float]) -> None:
    with pytest.raises(OptionError):
        cut_parts(*given_)


def test_a_prefix_stands_instead_of_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.lst"
    path.write_text("0\t1\tcat/1.jpg\n1\t0\tdog/2.jpg\n")
    edit_list(str(path), prefix=("cat/", "pets/"), label="0", new_path="x.jpg")
    assert path.read_text() == "0\t1\tpets/1.jpg\n1\t0\tdog/2.jpg\n"
