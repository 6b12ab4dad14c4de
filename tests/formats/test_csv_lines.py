"""CSV, as XGBoost and Linear Learner read it: written, read by others, and read back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas
import polars as pl
import pytest
import scipy.sparse

from dsprep.formats.csv_lines import Csv
from dsprep.schema import Field, Schema
from tests.conftest import Finished
from tests.images import image_folder

RunHere = Callable[..., Finished]

FIELDS = ("--label-field", "churned", "--drop", "plan")


@pytest.fixture
def churn(tmp_path: Path) -> Path:
    """A table with numbers, true and false, words, and two cells that are empty."""
    lines = ["age,income,plan,active,churned"]
    for row in range(200):
        age = "" if row in (7, 70) else row % 60
        active = "true" if row % 3 else "false"
        lines.append(
            f"{age},{row / 7!r},{'ab'[row % 2]},{active},{'no' if row % 60 < 30 else 'yes'}"
        )
    path = tmp_path / "churn.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_algorithms_read_all_files_of_the_directory(
    run_here: RunHere, churn: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out/train"
    done = run_here("pack", churn, out, "--to", "csv", *FIELDS, "--shards", 3, "-j", 1)
    assert done.code == 0, done.err
    assert "classes are written as their numbers: churned" in done.out
    assert "missing numbers are empty cells, which Linear Learner refuses: age" in done.out
    assert sorted(os.listdir(out)) == [f"train-{n:05}.csv" for n in range(3)]
    beside = ["train", "train.classes.txt", "train.manifest.json"]
    assert sorted(os.listdir(out.parent)) == beside
    table = pandas.concat(pandas.read_csv(path, header=None) for path in sorted(out.iterdir()))
    assert list(table.dtypes.map(str)) == ["int64", "float64", "float64", "int64"]
    assert table[1].isna().sum() == 2
    # The label is first, and the row is the one of the source.
    wanted = pandas.read_csv(churn)
    rows = {(row.income, row.active, row.churned) for row in wanted.itertuples()}
    names = (tmp_path / "out/train.classes.txt").read_text().split()
    assert {(row[3], bool(row[4]), names[row[1]]) for row in table.itertuples()} == rows
    from sklearn.linear_model import LogisticRegression  # it loads for a second

    model = LogisticRegression(max_iter=1000).fit(table.loc[:, 1:].fillna(0), table[0])
    assert model.score(table.loc[:, 1:].fillna(0), table[0]) > 0.9


def test_it_is_read_back_exactly(run_here: RunHere, churn: Path, tmp_path: Path) -> None:
    out, back = tmp_path / "train", tmp_path / "back"
    command = ("pack", churn, out, "--to", "csv", *FIELDS, "--shards", 2, "--header")
    assert run_here(*command, "-j", 1).code == 0
    head = b"churned,age,income,active\n"
    assert all(path.read_bytes().startswith(head) for path in out.iterdir())
    assert "whole" in run_here("verify", out, "--against", churn).out
    assert run_here("convert", out, back, "--to", "parquet").code == 0
    wanted = pl.read_csv(churn).drop("plan").sort("income")
    found = pl.read_parquet(back / "*.parquet").sort("income")
    schema = json.loads((back / "manifest.json").read_text())["schema"]
    (label,) = (each for each in schema["fields"] if each["name"] == "churned")
    numbers = wanted["churned"].replace_strict({name: n for n, name in enumerate(label["names"])})
    assert found["label"].to_list() == numbers.to_list()
    assert found.select("age", "income", "active").equals(wanted.select("age", "income", "active"))
    # without the line of names, cut again and written by several processes
    again = ("--to", "csv", "--shards", 5)
    assert run_here("shard", out, tmp_path / "one", *again, "-j", 1).code == 0
    for part in ("1/2", "0/2"):
        assert run_here("shard", out, tmp_path / "two", *again, "--part", part).code == 0
    for name in os.listdir(tmp_path / "one"):
        data = (tmp_path / "one" / name).read_bytes()
        assert data == (tmp_path / "two" / name).read_bytes()
        assert not data.startswith(head)
    files = ("shard", tmp_path / "one/*.csv", tmp_path / "files", "--to", "csv", "--shards", 1)
    assert run_here(*files).code == 0
    assert "whole" in run_here("verify", tmp_path / "files").out
    more = run_here("shard", "append", churn, out, *FIELDS, "-j", 1)
    assert more.code == 0, more.err
    assert "whole" in run_here("verify", out).out


def test_the_shortest_lines_are_read_back(run_here: RunHere, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,c\n1,2,3\n4,5,6\n")
    done = run_here("convert", tmp_path / "t.csv", tmp_path / "one.csv", "--to", "csv")
    assert done.code == 0, done.err
    assert (tmp_path / "one.csv").read_text() == "1,2,3\n4,5,6\n"
    done = run_here("convert", tmp_path / "one.csv", tmp_path / "two.csv", "--to", "csv")
    assert done.code == 0, done.err
    assert (tmp_path / "two.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()


def test_floats_keep_their_bits(run_here: RunHere, tmp_path: Path) -> None:
    values = np.array([[0.1, 1e-45, -3.4e38], [1 / 3, 16777217, 5]], "float32")
    np.save(tmp_path / "X.npy", values)
    np.save(tmp_path / "y.npy", np.array([0.1, 1e308]))
    done = run_here(
        *("pack", tmp_path / "X.npy", tmp_path / "train", "--labels", tmp_path / "y.npy"),
        *("--to", "csv", "--label-type", "float", "--no-shuffle", "--header"),
    )
    assert done.code == 0, done.err
    path = tmp_path / "train/train-00000.csv"
    assert path.read_text().startswith("label,values_0,values_1,values_2\n0.1,0.1")
    table = pandas.read_csv(path)
    assert (table.to_numpy()[:, 1:].astype("float32") == values).all()
    assert list(table["label"]) == [0.1, 1e308]


def test_shards_have_the_size_that_is_asked_for(
    run_here: RunHere, churn: Path, tmp_path: Path
) -> None:
    command = ("pack", churn, tmp_path / "train", "--to", "csv", *FIELDS, "--header")
    assert run_here(*command, "--target-size", "1500", "-j", 1).code == 0
    sizes = [path.stat().st_size for path in (tmp_path / "train").iterdir()]
    assert len(sizes) > 3
    assert 1100 < min(sizes) <= max(sizes) <= 1500


def test_what_is_no_row_of_numbers_is_refused(
    run_here: RunHere, churn: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    image_folder(tmp_path / "photos", ("ant",), 2)
    scipy.sparse.save_npz(tmp_path / "sparse.npz", scipy.sparse.eye(3, format="csr"))
    for source, options, why in (
        ("photos", (), "no images, which the field 'image' is: choose another format, or give "),
        ("churn.csv", ("--label-field", "churned"), "and plan is not a number: give --drop plan"),
        ("sparse.npz", (), "nothing tells how many"),
    ):
        done = run_here("pack", tmp_path / source, out, "--to", "csv", *options)
        assert (done.code, why in done.err) == (2, True), done.err
        if source == "photos":
            advised = done.err.rstrip().rpartition(" give ")[2].split()
            bare = tmp_path / "bare"
            assert run_here("pack", tmp_path / source, bare, "--to", "csv", *advised).code == 0
    done = run_here("pack", churn, out, "--to", "parquet", "--header")
    assert (done.code, "--header has no effect: only CSV has a line" in done.err) == (2, True)
    assert not out.exists()

    labels = churn.read_text().replace(",yes\n", ",1\n").replace(",no\n", ",0\n")
    churn.write_text(labels.replace("\n1,", "\n1,", 1).replace(",0\n", ",\n", 1))
    done = run_here("pack", churn, out, "--to", "csv", *FIELDS, "-j", 1)
    assert (done.code, "lacks 'churned'" in done.out) == (3, True), done.err


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: data[:-1], "the last line has no end"),
        (lambda data: data + b"1,2\n", "a line has 2 cells, not 4"),
        (lambda data: data + b"1,x,3,1\n", "a cell is not a number: invalid literal"),
        (lambda data: data.replace(b"age", b"AGE"), "the first line does not have the names"),
    ],
)
def test_damage_is_found(
    run_here: RunHere, churn: Path, tmp_path: Path, change: Callable[[bytes], bytes], why: str
) -> None:
    out = tmp_path / "train"
    command = ("pack", churn, out, "--to", "csv", *FIELDS, "--header", "--shards", 1)
    assert run_here(*command, "-j", 1).code == 0
    path = out / "train-00000.csv"
    path.write_bytes(change(path.read_bytes()))
    done = run_here("verify", out)
    assert (done.code, why in done.out) == (3, True), done.out


def test_without_a_manifest_csv_is_no_shard(run_here: RunHere, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2\n")
    for place, why in ((tmp_path, "holds no shards"), (tmp_path / "a.csv", "its name is not that")):
        done = run_here("verify", place)
        assert done.code == 4
        assert why in done.err
        assert ".parquet or, with a manifest, .csv)" in done.err


def test_names_of_columns_are_told_apart() -> None:
    fields = (Field("x", "list<float32>", width=2), Field('a,"b"', "int"), Field("y", "bool"))
    layout, _ = Csv(header=True).arranged(Schema(fields, label="y"))
    assert layout.head == b'y,x_0,x_1,"a,""b"""\n'
