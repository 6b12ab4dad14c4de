"""Tables and arrays whose rows are samples: CSV, NumPy and SciPy, judged by their own readers."""

from __future__ import annotations

import csv
import io
import re
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import dsprep
from dsprep import csv_parsers
from dsprep.errors import OptionError, SourceError
from dsprep.plan import weigh
from dsprep.sample import Sample
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from dsprep.sources.tables import arrays, csv_rows, tabular
from tests.formats.test_contract import properties
from tests.formats.test_recordio_protobuf import sagemaker as _sagemaker
from tests.here import Here
from tests.house.test_guides import DOCS, write_tables
from tests.servers.bucket import Bucket

sagemaker = _sagemaker
rng = np.random.default_rng(7)


def samples_of(path: Path | str, **options: Any) -> list[Sample]:
    catalog, _ = read_source(make_source(str(path), **options))
    found = list(catalog.reader.read(catalog.rows()))
    assert all(isinstance(each, Sample) for each in found), found
    return found  # type: ignore[return-value]


def fields_of(path: Path | str, **options: Any) -> list[dict[str, Any]]:
    return [each.fields for each in samples_of(path, **options)]


def types_of(path: Path | str, **options: Any) -> dict[str, str]:
    catalog, _ = read_source(make_source(str(path), **options))
    return {each.name: each.type for each in catalog.settled.schema.fields}


def notes_of(path: Path | str, **options: Any) -> list[str]:
    _, findings = read_source(make_source(str(path), **options))
    return [each.detail for each in findings if each.kind == "note"]


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def records(where: Path, sagemaker: ModuleType) -> list[Any]:
    shards = sorted(where.glob("*.pb"))
    return [
        each for shard in shards for each in sagemaker.read_records(io.BytesIO(shard.read_bytes()))
    ]


def dense(records: list[Any]) -> np.ndarray:
    return np.array([each.features["values"].float32_tensor.values for each in records], "f4")


def sparse(records: list[Any]) -> sp.csr_matrix:
    """The matrix that records are, made by SciPy."""
    tensors = [each.features["values"].float32_tensor for each in records]
    ends = np.cumsum([0, *(len(each.values) for each in tensors)])
    keys = [key for each in tensors for key in each.keys]
    values = [value for each in tensors for value in each.values]
    (width,) = {each.shape[0] for each in tensors}
    return sp.csr_matrix((np.array(values, "f4"), keys, ends), (len(tensors), width))


def labels(records: list[Any]) -> list[float]:
    return [each.label["values"].float32_tensor.values[0] for each in records]


# CSV


class TestCsv:
    def test_as_pandas_reads_it(self, tmp_path: Path) -> None:
        text = 'a,b,c,d,e\n1,0.5,x,True,\n-2,1e-3,"y, z",False,3\n3,,"q""r\ns",True,NaN\n'
        found = fields_of(write(tmp_path / "t.csv", text))
        theirs = pd.read_csv(io.StringIO(text)).to_dict("records")
        kept = [{name: v for name, v in row.items() if v == v} for row in theirs]
        assert found == kept
        assert types_of(tmp_path / "t.csv") == {
            "a": "int", "b": "float64", "c": "text", "d": "bool", "e": "int",
        }  # fmt: skip

    @pytest.mark.parametrize("header", ["label,height,b", "target,height,b", "x,height,b"])
    @pytest.mark.parametrize("key", ["path", "index"])
    def test_records_weigh_what_was_planned(self, tmp_path: Path, header: str, key: str) -> None:
        rows = "".join(f"{at % 3},{at / 7},{at}\n" for at in range(300))
        table = write(tmp_path / "t.csv", f"{header}\n{rows}")
        options = {"to": "recordio-protobuf", "key": key, "target_size": "4KB"}
        plan = dsprep.pack(table, tmp_path / "out", dry_run=True, **options)
        dsprep.pack(table, tmp_path / "out", **options)
        found = {each.name: each.stat().st_size for each in (tmp_path / "out").glob("*.pb")}
        assert found == {each.name: each.bytes for each in plan.shards}
        assert max(found.values()) <= 4000

    def test_columns_are_read_as_rows_are(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        text = "".join(
            f"{at},{'' if at % 64 == 0 else 'inf' if at == 150 else at / 3},0.5,"
            f"{'' if at % 5 else 'a b '},{at % 2 == 0},c{at % 3}\n"
            for at in range(300)
        )
        table = write(tmp_path / "t.csv", "i,f,g,text,flag,label\n" + text)

        def read() -> list[Sample]:
            catalog, _ = read_source(make_source(str(table)))
            return list(catalog.reader.read(catalog.rows()))  # type: ignore[arg-type]

        by_column = read()
        monkeypatch.setattr(csv_rows.CsvReader, "_fields", None)
        assert read() == by_column
        assert [len(each.fields) for each in by_column[:3]] == [5, 5, 5]

    @pytest.mark.parametrize(
        ("cells", "kind"),
        [
            (("1", "2"), "int"),
            ((" 1", "2 "), "int"),
            (("1", "2.5"), "float64"),
            (("1", "NA", "n/a", ""), "int"),
            (("0.5", "nan", "null"), "float64"),
            (("007", "8"), "text"),
            (("+1", "2"), "text"),
            (("1_000", "2"), "text"),
            (("1_0.5", "2"), "text"),
            ((str(2**53 + 1), "1"), "int"),
            ((str(2**53 + 1), "0.5"), "text"),
            ((str(2**63), "1"), "text"),
            (("1e400", "1"), "float64"),
            (("true", "FALSE"), "bool"),
            (("true", "1"), "text"),
            (("x", "NA"), "text"),
        ],
    )
    def test_types_join(self, tmp_path: Path, cells: tuple[str, ...], kind: str) -> None:
        # A block each, and all in one: the type is the same.
        text = "k,v\n" + "".join(f"{n},{cell}\n" for n, cell in enumerate(cells))
        path = write(tmp_path / "t.csv", text)
        assert types_of(path)["v"] == kind
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tabular, "_BLOCK", 1)
            assert types_of(path)["v"] == kind

    @properties
    @given(st.data())
    def test_blocks_of_any_size_tell_the_same(
        self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
    ) -> None:
        cell = st.text('ab,"\n\r 7é', max_size=6)
        rows = data.draw(st.lists(st.tuples(cell, cell), min_size=1, max_size=12))
        file = io.StringIO(newline="")
        csv.writer(file).writerows([("a", "b"), *(("x" + a, b + "y") for a, b in rows)])
        path = tmp_path_factory.mktemp("t") / "t.csv"
        path.write_bytes(file.getvalue().encode())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tabular, "_BLOCK", data.draw(st.integers(1, 40)))
            patch.setattr(csv_rows, "_READ", data.draw(st.integers(1, 40)))
            patch.setattr(csv_parsers, "_READ", data.draw(st.integers(1, 40)))
            found = fields_of(path)
        assert [(each["a"], each["b"]) for each in found] == [("x" + a, b + "y") for a, b in rows]

    def test_labels(self, tmp_path: Path) -> None:
        path = write(tmp_path / "t.csv", "x,Species\n1,cat\n2,dog\n3,cat\n")
        catalog, _ = read_source(make_source(str(path), label_field="Species"))
        assert (catalog.classes, catalog.table["cls"].to_list()) == (("cat", "dog"), [0, 1, 0])
        assert [each.fields["Species"] for each in samples_of(path, label_field="Species")] == [
            0,
            1,
            0,
        ]
        path = write(tmp_path / "y.csv", "x,y\n1,0.5\n2,3\n")
        assert types_of(path) == {"y": "float64", "x": "int"}
        path = write(tmp_path / "n.csv", "x,target\n1,5\n2,3\n")
        assert types_of(path) == {"target": "class", "x": "int"}
        assert types_of(path, label_type="float") == {"target": "float32", "x": "int"}
        with pytest.raises(OptionError, match="no sample of .* has this field; fields are"):
            read_source(make_source(str(path), label_field="no"))

    def test_without_a_header(self, tmp_path: Path) -> None:
        path = write(tmp_path / "u.data", "196\t242\t3\t881250949\n186\t302\t3\t891717742\n")
        names = ["column_0", "column_1", "column_2", "column_3"]
        assert [list(each) for each in fields_of(path, kind="csv")] == [names, names]
        assert (
            "its first line has numbers, so no line names the columns"
            in notes_of(path, kind="csv")[0]
        )

    @pytest.mark.parametrize("index", [True, False])
    def test_numbers_are_a_header_of_pandas(self, tmp_path: Path, index: bool) -> None:
        frame = pd.DataFrame(np.arange(6).reshape(2, 3) + 5)
        frame.to_csv(tmp_path / "t.csv", index=index)
        assert fields_of(tmp_path / "t.csv") == [
            {"0": 5, "1": 6, "2": 7}, {"0": 8, "1": 9, "2": 10},
        ]  # fmt: skip
        notes = " ".join(notes_of(tmp_path / "t.csv"))
        assert "is taken for the names of the columns" in notes

    def test_rows_without_any_value_stay_rows(self, tmp_path: Path) -> None:
        path = write(tmp_path / "t.csv", "a,b\n,\n , \n")
        report = dsprep.pack(path, tmp_path / "out", to="tfrecord")
        assert (report.samples, report.rejects) == (2, [])

    def test_two_numbers_are_a_row(self, tmp_path: Path) -> None:
        assert len(fields_of(write(tmp_path / "t.csv", "0,1\n2,3\n"))) == 2

    def test_tags_are_no_classes(self, tmp_path: Path) -> None:
        text = "a,label\n1,haze primary\n2,clear primary\n3,clear\n4,primary\n5,haze\n"
        path = write(tmp_path / "t.csv", text)
        with pytest.raises(SourceError, match="'clear primary', look like several tags"):
            read_source(make_source(str(path)))
        assert types_of(path, label_type="class")["label"] == "class"
        names = "a,label\n1,golden retriever\n2,New York\n3,cat\n"
        assert types_of(write(tmp_path / "n.csv", names))["label"] == "class"

    def test_fields_without_numbers_are_no_features(self, tmp_path: Path) -> None:
        path = write(tmp_path / "t.csv", "a,label\n+1,0\n-1,1\n")
        report = dsprep.pack(path, tmp_path / "out", to="recordio-protobuf")
        assert any("find no features" in note for note in report.notes)

    @pytest.mark.parametrize("to", ["recordio-protobuf", "tfrecord", "webdataset"])
    def test_verified_with_the_label_that_was_given(self, tmp_path: Path, to: str) -> None:
        path = write(tmp_path / "t.csv", "a,b,breed\n1,2,x\n3,4,y\n")
        dsprep.pack(path, tmp_path / "out", to=to, label_field="breed", drop=["b"])
        assert not dsprep.verify(tmp_path / "out", against=path).problems
        write(path, "a,b,breed\n1,2,x\n3,5,x\n")
        (problem,) = dsprep.verify(tmp_path / "out", against=path).problems
        assert "its label is not that of" in problem.message

    def test_rounding_is_one_note(self, tmp_path: Path) -> None:
        names = ",".join(f"c{at}" for at in range(60))
        path = write(tmp_path / "t.csv", f"{names}\n{','.join(['0.1'] * 60)}\n")
        report = dsprep.pack(path, tmp_path / "out", to="tfrecord")
        (note,) = [note for note in report.notes if "rounded" in note]
        assert note.startswith("c0, c1, c2, … (60 fields): 64-bit floats are rounded")
        other = write(tmp_path / "o.csv", f"{names},d0,d1\n{','.join(['0.1'] * 62)}\n")
        found = dsprep.verify(tmp_path / "out", against=other)
        assert [each.message for each in found.problems] == [
            "lacks 2 fields that the source has: 'd0', 'd1'"
        ]

    def test_row_numbers_of_pandas(self, tmp_path: Path) -> None:
        pd.DataFrame({"a": [5, 6], "b": [0.5, 1]}).to_csv(tmp_path / "t.csv")
        assert fields_of(tmp_path / "t.csv") == [{"a": 5, "b": 0.5}, {"a": 6, "b": 1.0}]
        assert "the first column is left out" in notes_of(tmp_path / "t.csv")[0]

    def test_several_files(self, tmp_path: Path) -> None:
        write(tmp_path / "a-0.csv", "x,y\n1,0\n2,1\n")
        write(tmp_path / "a-1.csv", "x,y\n3.5,0\n")
        catalog, _ = read_source(make_source(str(tmp_path / "a-*.csv")))
        assert catalog.table["path"].to_list() == ["a-0-0000000", "a-0-0000001", "a-1-0000000"]
        assert [each["x"] for each in fields_of(tmp_path / "a-*.csv")] == [1.0, 2.0, 3.5]
        write(tmp_path / "a-2.csv", "x,z\n3.5,0\n")
        with pytest.raises(SourceError, match=r"a-2.csv: has other columns than .*a-0.csv"):
            read_source(make_source(str(tmp_path / "a-*.csv")))

    @pytest.mark.parametrize("mark", ["\ufeff", ""])
    @pytest.mark.parametrize("end", ["\r\n", "\n"])
    def test_marks_and_line_ends(self, tmp_path: Path, mark: str, end: str) -> None:
        path = write(tmp_path / "t.csv", end.join((f"{mark}a;b", "1;x", "", "2;y")))
        assert fields_of(path) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


class TestBadCsv:
    def test_lines_that_are_no_rows_are_counted(self, run_here: Here, tmp_path: Path) -> None:
        text = 'a,b\n1,"x\ny"\n2\n3,4,5\n6,é\n7,"open\n8,z\n9,'
        path = tmp_path / "t.csv"
        path.write_bytes(text.encode("latin-1") + b"w\n10")
        done = run_here("pack", path, tmp_path / "out", "--to", "parquet", "--no-shuffle")
        assert done.code == 3
        rejects = (tmp_path / "out" / "rejects.jsonl").read_text().splitlines()
        assert [line.split('"path":')[1].split('"')[1].rpartition(":")[2] for line in rejects] == [
            *("4", "5", "6", "7", "10")
        ]
        assert "1 cell, where" not in done.err
        rows = pq.read_table(next((tmp_path / "out").glob("*.parquet"))).to_pylist()
        assert [(row["a"], row["b"]) for row in rows] == [(1, "x\ny"), (8, "z"), (9, "w")]
        assert "the file was cut off in it" in rejects[-1]

    def test_words_among_numbers_are_said(self, tmp_path: Path) -> None:
        text = "age\n" + "".join(f"{n}\n" for n in range(50)) + "twelve\n"
        (note,) = notes_of(write(tmp_path / "t.csv", text))
        assert (
            note == "'age' is text, because 1 of its 51 values are no numbers: 'twelve' (line 52)"
        )

    def test_missing_values_are_counted(self, tmp_path: Path) -> None:
        path = write(tmp_path / "t.csv", "a,b,c\n1,,\n2,5,\nNA,6,\n")
        assert notes_of(path) == [
            "columns without values are left out: c",
            "1 row without a value for 'a'",
            "1 row without a value for 'b'",
        ]
        with pytest.raises(OptionError, match="samples may lack a, b.*--drop a,b"):
            dsprep.pack(path, tmp_path / "out", to="recordio-protobuf")

    @pytest.mark.parametrize(
        ("data", "problem"),
        [
            (b"", "is empty"),
            (b"\n\n", "is empty"),
            (b"a,b\n", "has no rows"),
            (b"a,a\n1,2\n", "two columns are called 'a'"),
            ("a,b\n1,2\n".encode("utf-16"), "is UTF-16: convert it with iconv"),
            (b"\x1f\x8b\x08\0\0\0\0\0", "is compressed"),
            (b"path,label\na.jpg,1\nb.jpg,0\n", "names images, such as 'a.jpg': give their folder"),
            (b'"a', "unexpected end of data|has no rows|:1:"),
            (b"a,b\n" + b"1\n" * 3000, "more than 1,000 lines are no rows.*line 2: 1 cells"),
            (b"1.0 0.5 \n0.0 1.0 \n", "has blanks between its numbers"),
            (b"a\n" + b'"x\n' * 1500, "more than 1,000 lines are no rows"),
        ],
    )
    def test_refused(self, tmp_path: Path, data: bytes, problem: str) -> None:
        (tmp_path / "t.csv").write_bytes(data)
        with pytest.raises(SourceError, match=problem):
            read_source(make_source(str(tmp_path / "t.csv")))

    def test_a_line_without_end(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(csv_parsers, "_LONGEST", 1000)
        path = write(tmp_path / "t.csv", "a,b\n1," + "x" * 3_000_000)
        with pytest.raises(SourceError, match="has a line of more than 1,000 bytes"):
            read_source(make_source(str(path)))

    def test_a_table_of_images_is_packed_if_it_is_named(self, tmp_path: Path) -> None:
        path = write(tmp_path / "t.csv", "path,label\na.jpg,1\nb.jpg,0\n")
        assert fields_of(path, kind="csv") == [
            {"path": "a.jpg", "label": 1},
            {"path": "b.jpg", "label": 0},
        ]


# Arrays

TYPES = ["<f4", "<f8", ">f8", "<f2", "?", "u1", "i1", ">i2", "<u4", "<i8"]


class TestNumbersAmongLabels:
    @pytest.mark.parametrize(
        ("labels", "problem"),
        [("1 2 oops 10", "and others, 'oops', are not"), ("+1 -1 +1 -1", "but not written as")],
    )
    def test_are_not_taken_for_names(
        self, run_here: Here, tmp_path: Path, labels: str, problem: str
    ) -> None:
        rows = "".join(f"{at},{label}\n" for at, label in enumerate(labels.split()))
        path = write(tmp_path / "t.csv", f"x,y\n{rows}")
        command = ("pack", path, tmp_path / "out", "--to", "tfrecord", "--label-field", "y")
        refused = run_here(*command)
        assert refused.code == 4
        assert problem in refused.err
        assert run_here(*command, "--label-type", "class").code == 0

    def test_frames_are_refused(self, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", np.zeros((5, 20, 16, 16), np.uint8))
        path = str(tmp_path / "a.npy")
        with pytest.raises(SourceError, match=r"reshape\(-1, 16, 16\)\); .* give --from numpy"):
            read_source(make_source(path))
        assert len(read_source(make_source(path, kind="numpy"))[0]) == 5


class TestArrays:
    @pytest.mark.parametrize("dtype", TYPES)
    @pytest.mark.parametrize("order", ["C", "F"])
    @pytest.mark.parametrize("shape", [(9,), (9, 4), (9, 1), (9, 2, 3)])
    def test_as_numpy_reads_it(
        self, tmp_path: Path, dtype: str, order: str, shape: tuple[int, ...]
    ) -> None:
        array = np.asarray(rng.integers(0, 100, shape), dtype=dtype, order=order)  # type: ignore[call-overload]
        np.save(tmp_path / "a.npy", array)
        found = [each["values"] for each in fields_of(tmp_path / "a.npy")]
        rows = array.reshape(9, -1).tolist() if len(shape) > 1 else array.tolist()
        assert found == [tuple(row) if len(shape) > 1 else row for row in rows]

    @pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
    def test_npz(self, tmp_path: Path, save: Callable[..., None], sagemaker: ModuleType) -> None:
        X, y = rng.random((300, 5), "f4"), np.array(["no", "yes", "é"] * 100)
        save(tmp_path / "a.npz", X=X, y=y)
        for workers in (1, 2):
            out = tmp_path / f"out{workers}"
            dsprep.pack(tmp_path / "a.npz", out, to="recordio-protobuf", workers=workers, shards=3)
            found = records(out, sagemaker)
            at = [int(each.uid.rpartition("-")[2]) for each in found]
            assert at != sorted(at)
            assert (dense(found) == X[at]).all()
            assert [("no", "yes", "é")[int(each)] for each in labels(found)] == y[at].tolist()
        assert (tmp_path / "out1" / "classes.txt").read_text("utf-8") == "no\nyes\né\n"
        one, two = (sorted((tmp_path / f"out{n}").glob("*.pb")) for n in (1, 2))
        assert [each.read_bytes() for each in one] == [each.read_bytes() for each in two]

    @pytest.mark.parametrize("compressed", [True, False])
    @pytest.mark.parametrize("shuffle", [True, False])
    def test_sparse(
        self, tmp_path: Path, compressed: bool, shuffle: bool, sagemaker: ModuleType
    ) -> None:
        X = sp.random(200, 40, 0.05, "csr", "f4", random_state=1)
        X[17] = 0
        X.eliminate_zeros()
        y = (rng.random(200) > 0.5).astype("f4")
        sp.save_npz(tmp_path / "X.npz", X, compressed=compressed)
        np.save(tmp_path / "y.npy", y)
        out = tmp_path / "out"
        dsprep.pack(
            *(tmp_path / "X.npz", out), labels=tmp_path / "y.npy", to="recordio-protobuf",
            shuffle=shuffle, samples_per_shard=70,
        )  # fmt: skip
        found = records(out, sagemaker)
        at = [int(each.uid.rpartition("-")[2]) for each in found]
        assert (sparse(found) != X[at]).nnz == 0
        assert labels(found) == y[at].tolist()
        # and the same tensors as SageMaker writes
        theirs = io.BytesIO()
        sagemaker.write_spmatrix_to_sparse_tensor(theirs, X[at], y[at])
        theirs.seek(0)
        assert [(each.features, each.label) for each in sagemaker.read_records(theirs)] == [
            (each.features, each.label) for each in found
        ]

    def test_sparse_rows_are_weighed_without_being_read(
        self, tmp_path: Path, sagemaker: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        at = rng.integers(0, (3000, 70_000), (42_000, 2))  # sp.random numbers all cells first
        X = sp.csr_matrix((rng.random(42_000, "f4"), at.T), (3000, 70_000))
        sp.save_npz(tmp_path / "X.npz", X)
        np.save(tmp_path / "y.npy", np.arange(3000) / 2)
        monkeypatch.setattr(weigh, "_try_samples", None)
        out = tmp_path / "out"
        dsprep.pack(
            *(tmp_path / "X.npz", out), labels=tmp_path / "y.npy", label_type="float",
            to="recordio-protobuf", target_size=50_000, workers=1,
        )  # fmt: skip
        sizes = [path.stat().st_size for path in out.glob("*.pb")]
        assert 40_000 < min(sizes) <= max(sizes) <= 50_000
        found = records(out, sagemaker)
        at = [int(each.uid.rpartition("-")[2]) for each in found]
        assert (sparse(found) != X[at]).nnz == 0

    @pytest.mark.parametrize("shuffle", [True, False])
    def test_compressed_arrays_are_weighed_as_others_are(
        self, tmp_path: Path, shuffle: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(weigh, "_AT_ONCE", 100)
        arrays = {"x": rng.integers(0, 1000, (1000, 3)), "t": rng.integers(0, 9, 1000)}
        np.savez(tmp_path / "plain.npz", **arrays)
        np.savez_compressed(tmp_path / "packed.npz", **arrays)
        shards = {}
        for name, workers in (("plain", 1), ("packed", 1), ("packed", 2)):
            (tmp_path / f"{name}.npz").rename(source := tmp_path / "x.npz")
            out = tmp_path / f"{name}-{workers}"
            dsprep.pack(
                *(source, out), to="tfrecord", target_size=20_000, workers=workers, shuffle=shuffle
            )
            source.rename(tmp_path / f"{name}.npz")
            shards[out.name] = [path.read_bytes() for path in sorted(out.glob("*.tfrecord"))]
        assert len(shards["plain-1"]) > 2
        assert max(map(len, shards["plain-1"])) <= 20_000
        assert shards["plain-1"] == shards["packed-1"] == shards["packed-2"]

    def test_rows_in_many_tasks_unpack_an_array_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        X = rng.random((20_000, 8))
        np.savez_compressed(tmp_path / "X.npz", x=X)
        catalog, _ = read_source(make_source(str(tmp_path / "X.npz")))
        unpacked = 0

        def counted(self: arrays.Unpacked) -> bytes:
            nonlocal unpacked
            block = more(self)
            unpacked += len(block)
            return block

        more = arrays.Unpacked._more
        monkeypatch.setattr(arrays.Unpacked, "_more", counted)
        tasks = [catalog.slice(at, 1000).rows() for at in range(0, 20_000, 1000)]
        found = [each.fields["x"] for rows in tasks for each in catalog.reader.read(rows)]
        assert (np.array(found) == X).all()
        assert X.nbytes <= unpacked <= X.nbytes + 1000
        again = [each.fields["x"] for each in catalog.reader.read(tasks[3])]
        assert (np.array(again) == X[3000:4000]).all()

    def test_sparse_to_other_formats_and_back(self, tmp_path: Path, sagemaker: ModuleType) -> None:
        X = sp.random(50, 30, 0.1, "csr", "f4", random_state=2)
        sp.save_npz(tmp_path / "X.npz", X)
        before = tmp_path / "X.npz"
        for to in ("tfrecord", "parquet", "webdataset", "recordio-protobuf", "tfrecord"):
            out = tmp_path / f"{to}-of-{before.name}"
            dsprep.convert(before, out, to=to)  # the manifest says that there are no images
            before = out
        dsprep.convert(before, tmp_path / "last", to="recordio-protobuf")
        (before / "manifest.json").unlink()
        with pytest.raises(SourceError, match="no image; .* or --no-image to accept"):
            dsprep.convert(before, tmp_path / "bare", to="parquet")
        assert (sparse(records(tmp_path / "last", sagemaker)) != X).nnz == 0

    def test_labels_in_a_file(self, tmp_path: Path) -> None:
        np.save(tmp_path / "X.npy", rng.random((6, 2)))
        X, y = tmp_path / "X.npy", tmp_path / "y.npy"
        np.save(y, np.array([0, 1, 2, 0, 1, 2]))
        catalog, _ = read_source(make_source(str(X), labels=str(y)))
        assert catalog.table["cls"].to_list() == [0, 1, 2, 0, 1, 2]
        catalog, _ = read_source(make_source(str(X), labels=str(y), label_type="float"))
        assert catalog.table["label"].to_list()[2] == [2.0]
        np.save(y, rng.random((6, 3)))
        assert types_of(X, labels=str(y))["label"].startswith("list<float")
        np.save(y, np.arange(5))
        with pytest.raises(SourceError, match=r"y.npy: has 5 labels, but there are 6 rows"):
            read_source(make_source(str(X), labels=str(y)))
        with pytest.raises(OptionError, match=r"--labels .*t.csv: labels of arrays are"):
            read_source(make_source(str(X), labels=str(write(tmp_path / "t.csv", "x,y\n"))))
        with pytest.raises(OptionError, match="an array labels the rows of an array"):
            read_source(make_source(str(tmp_path), labels=str(y)))

    @pytest.mark.parametrize(
        ("y", "label_type", "problem"),
        [
            (np.zeros((3, 0)), None, "has 0 labels a row"),
            (np.array([["a", "b"]] * 3), None, "has 2 labels a row"),
            (np.array([1, 2, 2**63 + 5], "u8"), None, "the label of row 2 is 9223372036854775813"),
            (np.array([1.5, np.nan, 2]), None, "the label of row 1 is nan: correct it"),
            (np.array([1.5, 2, 2]), "class", "the label 1.5 is not the number of a class"),
            (np.eye(3), "class", "are of the type list<float64>: give --label-type float"),
            (np.arange(3), "multi", "are of the type int: give --label-type class"),
            (np.array(["a", "b", "a"]), "float", "are of the type text: give --label-type class"),
        ],
    )
    def test_labels_that_do_not_fit(
        self, tmp_path: Path, y: Any, label_type: str | None, problem: str
    ) -> None:
        np.save(tmp_path / "X.npy", np.ones((3, 2)))
        np.save(tmp_path / "y.npy", y)
        options: Any = {"labels": str(tmp_path / "y.npy"), "label_type": label_type}
        with pytest.raises((SourceError, OptionError), match=problem):
            read_source(make_source(str(tmp_path / "X.npy"), **options))

    @pytest.mark.parametrize(
        ("y", "label_type"),
        [
            (np.array([True, False, True]), None),
            (np.array([[1], [0], [1]]), None),
            (np.array([1.0, 0, 1]), "class"),
            (np.array([[1.0], [0], [1]]), "class"),
        ],
    )
    def test_labels_that_are_classes(self, tmp_path: Path, y: Any, label_type: str | None) -> None:
        np.save(tmp_path / "X.npy", np.ones((3, 2)))
        np.save(tmp_path / "y.npy", y)
        options: Any = {"labels": str(tmp_path / "y.npy"), "label_type": label_type}
        catalog, _ = read_source(make_source(str(tmp_path / "X.npy"), **options))
        assert catalog.table["cls"].to_list() == [1, 0, 1]

    @pytest.mark.parametrize("option", ["--resize", "--crop", "--max-pixels"])
    def test_are_no_images(self, run_here: Here, tmp_path: Path, option: str) -> None:
        np.save(tmp_path / "X.npy", np.ones((3, 2)))
        args = ("pack", tmp_path / "X.npy", tmp_path / "out", "--to", "parquet", option, 16)
        done = run_here(*args)
        assert done.code == 2
        assert option in done.err
        assert "has no effect: the samples of SOURCE are rows of numbers" in done.err

    def test_arrays_of_several_lengths(self, tmp_path: Path) -> None:
        shapes = {"x_train": (6, 2), "y_train": (6,), "x_test": (2, 2), "y_test": (2,)}
        np.savez(tmp_path / "a.npz", **{name: np.zeros(shape) for name, shape in shapes.items()})
        with pytest.raises(SourceError, match="x_test 2, y_test 2: .* --only x_train,y_train"):
            read_source(make_source(str(tmp_path / "a.npz")))
        only = ("x_test", "y_test")
        assert len(samples_of(tmp_path / "a.npz", choice=dsprep_choice(only))) == 2

    def test_not_finite(self, run_here: Here, tmp_path: Path) -> None:
        X = np.ones((5, 3), "f4")
        X[1, 2], X[3, 0] = np.nan, np.inf
        np.save(tmp_path / "X.npy", X)
        done = run_here("pack", tmp_path / "X.npy", tmp_path / "out", "--to", "recordio-protobuf")
        assert "2 samples with a number that is not finite, NaN or infinity" in done.err + done.out


def dsprep_choice(only: tuple[str, ...]) -> Any:
    from dsprep.schema import Choice

    return Choice(only=only)


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    size = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes((version, 0)) + size + header.encode() + data


class TestBadArrays:
    @pytest.mark.parametrize(
        ("data", "problem"),
        [
            (b"", "is no array of NumPy"),
            (b"\x93NUMPY\1\0", "is no array of NumPy"),
            (
                npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 9999999999999)}"),
                "cut off",
            ),
            (
                npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}", bytes(15)),
                "cut off",
            ),
            (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, -2)}"), "is no array"),
            (npy("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", bytes(4)), "has no rows"),
            (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3)}"), "has no rows"),
            (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 0)}"), "has no rows"),
            (
                npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"cos"),
                "objects, which",
            ),
            (npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", bytes(8)), "complex"),
            (npy("{'descr': '<M8', 'fortran_order': False, 'shape': (1,)}", bytes(8)), "times"),
            (npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}"), "of several"),
            (npy("__import__('os')"), "is no array of NumPy"),
            (npy("(" * 5000), "is no array of NumPy"),
            (npy("{}"), "is no array of NumPy"),
            (npy("{'descr': '<f16', 'fortran_order': False, 'shape': (1,)}", bytes(16)), "f16"),
            (b"\x93NUMPY\2\0\xff\xff\xff\xff", "is no array of NumPy"),
        ],
    )
    def test_refused(self, tmp_path: Path, data: bytes, problem: str) -> None:
        (tmp_path / "a.npy").write_bytes(data)
        with pytest.raises(SourceError, match=problem):
            read_source(make_source(str(tmp_path / "a.npy")))
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
            file.writestr("a.npy", data)
        with pytest.raises(SourceError, match=problem):
            read_source(make_source(str(tmp_path / "a.npz")))

    @pytest.mark.parametrize(
        ("changed", "problem"),
        [
            ({"format": np.array(b"csc")}, "is a sparse matrix of the format csc.*tocsr"),
            ({"indptr": np.array([0, 3, 2, 4])}, "indptr, indices and data do not fit together"),
            ({"indptr": np.array([0, 1, 2])}, "do not fit together"),
            ({"indptr": np.array([0, 1, 2, 9])}, "do not fit together"),
            ({"indptr": np.array([1, 1, 2, 4])}, "do not fit together"),
            ({"indices": np.array([0, 1, 2])}, "do not fit together"),
            ({"indices": np.array([0, 1, 2, 0.5])}, "do not fit together"),
            ({"shape": np.array([3])}, "do not fit together"),
            ({"shape": np.array(["3", "5"])}, "do not fit together"),
            ({"shape": np.array([3.0, 5.0])}, "do not fit together"),
            ({"shape": np.array([-1, 5]), "indptr": np.array([], int)}, "do not fit together"),
            ({"shape": np.array([3, 2**63 + 1], "u8")}, "do not fit together"),
            ({"indptr": np.array([0.0, 1, 2, 4])}, "do not fit together"),
            ({"format": np.array([b"coo", b"csr"])}, "of the format coo"),
            ({"indices": None}, "do not fit together|has no indices"),
            ({"data": np.array([{}, 1, 2, 3], dtype=object)}, "objects, which are pickles"),
        ],
    )
    def test_matrices(self, tmp_path: Path, changed: dict[str, Any], problem: str) -> None:
        arrays = {
            "format": np.array(b"csr"), "shape": np.array([3, 5]), "indptr": np.array([0, 1, 2, 4]),
            "indices": np.array([0, 4, 1, 2]), "data": np.ones(4, "f4"),
        }  # fmt: skip
        kept = {name: each for name, each in (arrays | changed).items() if each is not None}
        np.savez(tmp_path / "a.npz", **kept)
        with pytest.raises(SourceError, match=problem):
            read_source(make_source(str(tmp_path / "a.npz")))

    @pytest.mark.parametrize("index", [5, -1])
    def test_columns_that_are_not_there(self, run_here: Here, tmp_path: Path, index: int) -> None:
        np.savez(
            tmp_path / "a.npz", format=np.array(b"csr"), shape=np.array([3, 5]), data=np.ones(4),
            indptr=np.array([0, 1, 2, 4]), indices=np.array([0, index, 1, 2]),
        )  # fmt: skip
        done = run_here("pack", tmp_path / "a.npz", tmp_path / "out", "--to", "tfrecord")
        assert done.code == 3
        assert f"a-0000001: has a value in column {index} of 5" in done.err + done.out

    def test_two_values_in_one_place(self, run_here: Here, tmp_path: Path) -> None:
        np.savez(
            tmp_path / "a.npz", format=np.array(b"csr"), shape=np.array([3, 5]), data=np.ones(4),
            indptr=np.array([0, 1, 2, 4]), indices=np.array([0, 1, 2, 2]),
        )  # fmt: skip
        done = run_here("pack", tmp_path / "a.npz", tmp_path / "out", "--to", "tfrecord")
        assert done.code == 3
        assert "a-0000002: has two values in column 2" in done.err + done.out

    def test_damage_of_an_archive_that_was_streamed(self, tmp_path: Path) -> None:
        class Pipe(io.BytesIO):  # a zip to it has the checksums behind the members
            def seekable(self) -> bool:
                return False

            def tell(self) -> int:
                raise OSError

        pipe = Pipe()
        with zipfile.ZipFile(pipe, "w") as file:
            for name in "XY":
                array = io.BytesIO()
                np.save(array, rng.random((100, 10)))
                file.writestr(f"{name}.npy", array.getvalue())
        data = bytearray(pipe.getvalue())
        (tmp_path / "a.npz").write_bytes(data)
        assert len(read_source(make_source(str(tmp_path / "a.npz")))[0]) == 100
        data[len(data) * 3 // 4] ^= 0x55
        (tmp_path / "a.npz").write_bytes(data)
        with pytest.raises(SourceError, match=r"Y.npy is damaged"):
            read_source(make_source(str(tmp_path / "a.npz")))

    @pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
    def test_damage(self, tmp_path: Path, save: Callable[..., None]) -> None:
        save(tmp_path / "a.npz", X=rng.random((100, 10)))
        data = bytearray((tmp_path / "a.npz").read_bytes())
        data[len(data) // 2] ^= 0x55
        (tmp_path / "a.npz").write_bytes(data)
        with pytest.raises(SourceError, match=r"X.npy is damaged"):
            read_source(make_source(str(tmp_path / "a.npz")))


# What is written


class TestRecords:
    def test_columns_are_one_tensor(self, tmp_path: Path, sagemaker: ModuleType) -> None:
        table = pd.DataFrame(rng.random((40, 3)), columns=["a", "b", "c"])
        table["n"], table["y"] = range(40), [n % 2 for n in range(40)]
        table.to_csv(tmp_path / "t.csv", index=False)
        report = dsprep.pack(
            tmp_path / "t.csv", tmp_path / "out", to="recordio-protobuf", shuffle=False
        )
        found = records(tmp_path / "out", sagemaker)
        assert (dense(found) == table[["a", "b", "c", "n"]].to_numpy("f4")).all()
        assert labels(found) == table["y"].tolist()
        assert (
            "values: 64-bit floats are rounded to the 32 bits that SageMaker reads" in report.notes
        )
        # The manifest knows the columns.
        dsprep.convert(tmp_path / "out", tmp_path / "back", to="parquet", no_image=True)
        back = pl.read_parquet(tmp_path / "back" / "*.parquet").drop(
            "__index_level_0__", strict=False
        )
        assert back["n"].to_list() == list(range(40))
        assert back["a"].to_list() == table["a"].astype("f4").tolist()

    def test_whole_numbers_that_floats_change(self, run_here: Here, tmp_path: Path) -> None:
        path = write(tmp_path / "t.csv", "user,time,y\n1,881250949,0\n2,881250951,1\n")
        done = run_here("pack", path, tmp_path / "out", "--to", "recordio-protobuf")
        assert done.code != 0
        assert "the field 'time' is 8812509" in done.err + done.out

    def test_text(self, tmp_path: Path) -> None:
        path = write(tmp_path / "t.csv", "a,name,y\n1,x,0\n2,z,1\n")
        report = dsprep.pack(path, tmp_path / "out", to="recordio-protobuf")
        assert any("--drop name" in note for note in report.notes)


class TestElsewhere:
    def test_on_s3(self, ceph: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", ceph.endpoint)
        np.savez_compressed(tmp_path / "a.npz", X=rng.random((500, 3)), y=np.arange(500))
        np.save(tmp_path / "b.npy", np.asfortranarray(rng.random((50, 3))))
        write(tmp_path / "t.csv", "x,z\n" + "".join(f'{n},"a\nb"\n' for n in range(500)))
        monkeypatch.setattr(tabular, "_BLOCK", 1000)
        for name in ("a.npz", "b.npy", "t.csv"):
            ceph.put(name, (tmp_path / name).read_bytes())
            there, here = samples_of(f"{ceph.url}/{name}"), samples_of(tmp_path / name)
            assert there == here

    @pytest.mark.parametrize("name", ["t.csv", "a.npz", "s.npz"])
    def test_the_same_bytes_in_any_order(self, tmp_path: Path, name: str) -> None:
        write(tmp_path / "t.csv", "x,y\n" + "".join(f"{n}.5,{n % 3}\n" for n in range(300)))
        np.savez_compressed(tmp_path / "a.npz", X=rng.random((300, 3)), y=np.arange(300))
        sp.save_npz(tmp_path / "s.npz", sp.random(300, 9, 0.2, "csr", random_state=3))
        one, two = tmp_path / "one", tmp_path / "two"
        dsprep.pack(tmp_path / name, one, to="webdataset", workers=1, shards=4)
        dsprep.pack(tmp_path / name, two, to="webdataset", workers=3, shards=4)
        names = sorted(each.name for each in one.iterdir() if each.is_file())
        assert [(one / each).read_bytes() for each in names] == [
            (two / each).read_bytes() for each in names
        ]
        assert not dsprep.verify(two, against=tmp_path / name).problems

    def test_movielens_as_the_guide_has_it(self, tmp_path: Path, sagemaker: ModuleType) -> None:
        write_tables(tmp_path)
        guide = (DOCS / "guides" / "tables.md").read_text("utf-8")
        script = next(each for each in blocks_of(guide, "python") if "USERS" in each)
        pack = next(line for line in guide.splitlines() if line.startswith("dsprep pack ua.base"))
        pack = pack.replace("dsprep", f"{sys.executable} -m dsprep", 1)
        for command in ([sys.executable, "-c", script], ["bash", "-c", pack]):
            subprocess.run(command, cwd=tmp_path, check=True)
        found = records(tmp_path / "movielens" / "train", sagemaker)
        rows = np.loadtxt(tmp_path / "ml-100k" / "ua.base", dtype=int)
        wanted = sp.lil_matrix((len(rows), 943 + 1682), dtype="f4")
        for at, (user, movie, *_) in enumerate(rows):
            wanted[at, user - 1] = wanted[at, 943 + movie - 1] = 1
        at = [int(each.uid.rpartition("-")[2]) for each in found]
        assert sorted(at) == list(range(len(rows)))
        assert (sparse(found) != wanted.tocsr()[at]).nnz == 0
        assert labels(found) == (rows[at, 2] >= 4).tolist()


def blocks_of(guide: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", guide, re.M | re.S)
