"""``--latest``: the newest versions of records, as in the offline store of a Feature Store."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.errors import OptionError, SourceError
from dsprep.findings import notes_of
from dsprep.schema import Choice
from dsprep.sources.tables.parquet import read_parquet
from dsprep.sources.tables.versions import newest_rows, times
from tests.conftest import Finished
from tests.house.test_guides import feature_store

RunHere = Callable[..., Finished]
KEYS = ("--key", "review_id", "--latest", "EventTime", "--no-image")
OWN = ("--drop", "EventTime,write_time,api_invocation_time,is_deleted")
NO_IMAGE = Choice(no_image=True)


def store(path: Path, *rows: tuple[Any, ...], named: str = "id t v is_deleted") -> str:
    """A file of rows, some of which are later versions of others."""
    columns = named.split()
    table = [dict(zip(columns, row, strict=False)) for row in rows]
    pq.write_table(pa.Table.from_pylist(table), path)
    return str(path)


def kept(*paths: str) -> list[str]:
    """What stays: the values of the column ``v``."""
    found, _ = newest_rows(paths, "id", "t")
    values = [pl.read_parquet(path, glob=False)["v"] for path in paths]
    return ["".join(str(values[file][row])) for file, row in found.select("file", "row").rows()]


def test_the_newest_version_of_each_record(tmp_path: Path) -> None:
    one = store(tmp_path / "1.parquet", ("a", 1.0, "a1"), ("b", 3.0, "b3"), ("c", 2.5, "c25"))
    two = store(tmp_path / "2.parquet", ("a", 2.0, "a2"), ("b", 2.0, "b2"), ("c", 2.25, "c225"))
    assert kept(one, two) == ["b3", "c25", "a2"]
    assert kept(two, one) == ["a2", "b3", "c25"]


def test_a_deleted_record_is_gone_until_it_is_written_again(tmp_path: Path) -> None:
    rows = (("a", 1, "a1", False), ("a", 2, None, True), ("b", 1, "b1", False), ("b", 2, "", True))
    assert kept(store(tmp_path / "1.parquet", *rows, ("b", 3, "b3", False))) == ["b3"]
    late = store(tmp_path / "2.parquet", ("a", 2, "a2", False), ("a", 1, "", True))
    assert kept(late) == ["a2"]  # the deletion is older
    with pytest.raises(SourceError, match="all 1 record are deleted|all 2 records are deleted"):
        kept(store(tmp_path / "3.parquet", *rows))
    texts = store(tmp_path / "4.parquet", ("a", 1, "a", "false"), ("b", 1, "b", "True"))
    assert kept(texts) == ["a"]


def test_equal_times_go_by_the_call_then_the_writing_then_the_place(tmp_path: Path) -> None:
    named = "id t v api_invocation_time write_time"
    call, later = datetime(2024, 5, 1, 10), datetime(2024, 5, 1, 11)
    rows = [("a", "x", "1", later, call), ("a", "x", "2", call, later)]
    rows = [("a", "2024-05-01T10:00:00Z", *row[2:]) for row in rows]
    assert kept(store(tmp_path / "1.parquet", *rows, named=named)) == ["1"]
    rows = [(*row[:3], call, row[4]) for row in rows]
    assert kept(store(tmp_path / "2.parquet", *rows, named=named)) == ["2"]
    rows = [(*row[:3], call, call) for row in rows]
    assert kept(store(tmp_path / "3.parquet", *rows, named=named)) == ["2"]
    assert kept(store(tmp_path / "4.parquet", *rows[::-1], named=named)) == ["1"]


@pytest.mark.parametrize(
    "ordered",
    [
        ("2024-05-01T10:00:00Z", "2024-05-01T10:00:00.001Z", "2024-05-01T10:00:01Z"),
        ("2024-05-01T10:00:00.123Z", "2024-05-01T09:30:00.124-00:30", "2024-05-01T12:00:00+01:00"),
        ("2024-05-01", "2024-05-01 00:00:00.500", "2024-05-01T00:00:01"),
        ("9.5", "10", "1714557600.25"),
        (9.5, 10.0, 1714557600.25),
        (-1, 0, 7),
        (None, 0.5, 1.5),
        (float("nan"), 0.5, 1.5),
        (None, "1970-01-01T00:00:00Z", "2024-05-01T10:00:00Z"),
        (datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 2, tzinfo=UTC)),
    ],
)
def test_times(tmp_path: Path, ordered: Sequence[Any]) -> None:
    for at, earlier in enumerate(ordered):
        for later in ordered[at + 1 :]:
            for first, second, expected in ((earlier, later, "2"), (later, earlier, "1")):
                path = store(tmp_path / "x.parquet", ("a", first, "1"), ("a", second, "2"))
                assert kept(path) == [expected]


def test_rows_without_a_time_are_the_oldest_and_counted(tmp_path: Path) -> None:
    rows = (("a", "2024-05-01", "a1"), ("a", None, "a0"), ("b", "", "b0"))
    path = store(tmp_path / "x.parquet", *rows)
    assert kept(path) == ["a1", "b0"]
    assert newest_rows([path], "id", "t")[1][1:] == ["2 rows without 't' are taken for the oldest"]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ((("a", "1 May", "x"), ("b", "soon", "y")), r"'t' holds '1 May', 'soon': times are numb"),
        ((("a", [1], "x"),), r"--latest t: holds List\(Int64\), no times"),
        ((("a", 1, "x"), (None, 1, "y"), (None, 2, "z")), r"row 1: no 'id' \(2 rows like this\)"),
    ],
)
def test_rows_that_tell_no_version(
    tmp_path: Path, rows: Sequence[tuple[Any, ...]], problem: str
) -> None:
    with pytest.raises((SourceError, OptionError), match=problem):
        kept(store(tmp_path / "x.parquet", *rows))


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    path = store(tmp_path / "x.parquet", ("a", 1, "v"), named="ID eventtime v")
    with pytest.raises(OptionError, match="--key id: .* has no such column, but 'ID', 'eventtime'"):
        newest_rows([path], "id", "t")
    with pytest.raises(OptionError, match="--latest t: .* has no such column"):
        newest_rows([path], "ID", "t")


def test_damage_is_an_error_as_the_newest_rows_are_not_known(tmp_path: Path) -> None:
    rows = [(f"r{at}", float(at), "v" * 50) for at in range(5000)]
    path = Path(store(tmp_path / "x.parquet", *rows))
    data = bytearray(path.read_bytes())
    data[200:4000] = b"\xff" * 3800
    path.write_bytes(data)
    with pytest.raises(SourceError, match="is damaged .* not known which rows are the newest"):
        newest_rows([str(path)], "id", "t")


_times = st.one_of(st.none(), st.integers(0, 3).map(float))


@given(st.lists(st.tuples(st.sampled_from("abc"), _times, st.booleans()), min_size=1))
def test_newest_is_what_a_scan_in_order_finds(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, float | None, bool]]
) -> None:
    newest: dict[str, tuple[float, int]] = {}
    for at, (key, time, _) in enumerate(rows):
        newest[key] = max(newest.get(key, (-2.0, 0)), (-1.0 if time is None else time, at))
    expected = sorted(at for _, at in newest.values() if not rows[at][2])
    path = tmp_path_factory.mktemp("scan") / "x.parquet"
    columns = zip(*rows, strict=True)
    types = (pa.string(), pa.float64(), pa.bool_())
    arrays = [pa.array(each, kind) for each, kind in zip(columns, types, strict=True)]
    pq.write_table(pa.table(arrays, ["id", "t", "is_deleted"]), path, row_group_size=2)
    if not expected:
        with pytest.raises(SourceError):
            newest_rows([str(path)], "id", "t")
        return
    assert newest_rows([str(path)], "id", "t")[0]["row"].to_list() == expected
    catalog, _ = read_parquet([str(path)], None, choice=NO_IMAGE, versions=("id", "t"))
    assert catalog.table["offset"].to_list() == expected
    assert catalog.keys().to_list() == [rows[at][0] for at in expected]


_EPOCH = 1_714_557_600  # 2024-05-01T10:00:00Z
_FORMS: dict[str, Callable[[int], Any]] = {
    "text": lambda at: datetime.fromtimestamp(_EPOCH + at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    "number": lambda at: _EPOCH + at + 0.0,
    "time": lambda at: datetime.fromtimestamp(_EPOCH + at, UTC),
}
_OF_STORE = "id t v api_invocation_time write_time is_deleted"


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize(
    ("as_of", "until"),
    [
        ("2024-05-01T10:00:02Z", 2),
        ("2024-05-01T10:00:01.500Z", 1.5),
        ("2024-05-01T12:00:03+02:00", 3),
        ("2024-05-01 10:00:00", 0),
        (str(_EPOCH + 4), 4),
        ("2025-01-01", 99_999_999),
    ],
)
def test_as_of_is_what_a_query_of_the_store_finds(
    tmp_path: Path, form: str, as_of: str, until: float
) -> None:
    """The query is the one for Athena: rows until a time, the newest of each, unless deleted."""
    call, later = datetime(2024, 5, 1, 10), datetime(2024, 5, 1, 11)
    rows = [
        *(("a", 0, "a0", call, call, False), ("a", 2, "a2", call, call, False)),
        *(("b", 0, "b0", call, call, False), ("b", 1, "", call, call, True)),
        *(("b", 3, "b3", call, call, False), ("a", 2, "a2'", later, call, False)),
        *(("c", 1, "c1", call, later, False), ("c", 1, "c1'", call, call, False)),
        *(("d", 4, "d4", call, call, False), ("e", None, "e", call, call, False)),
    ]
    base = sqlite3.connect(":memory:")
    base.execute("create table store (id, t, v, a, w, is_deleted)")
    texts = [[str(each) if isinstance(each, datetime) else each for each in row] for row in rows]
    base.executemany("insert into store values (?, ?, ?, ?, ?, ?)", texts)
    query = """select v from (select *, row_number() over (partition by id order by t desc, a desc,
        w desc) as n from store where t <= ?) where n = 1 and not is_deleted order by v"""
    expected = [v for (v,) in base.execute(query, [until])]
    changed = [(row[0], None if row[1] is None else _FORMS[form](row[1]), *row[2:]) for row in rows]
    path = store(tmp_path / "x.parquet", *changed, named=_OF_STORE)
    found, notes = newest_rows([path], "id", "t", as_of)
    values = pl.read_parquet(path)["v"]
    assert sorted(values[row] for row in found["row"]) == expected
    left = sum(row[1] is not None and row[1] > until for row in rows)
    shown = "1 row" if left == 1 else f"{left} rows"
    assert notes[1] == f"--as-of {as_of} leaves out {shown} of later times"
    assert notes[-1] == "1 row without 't' is left out"


def test_as_of_before_all(tmp_path: Path) -> None:
    path = store(tmp_path / "x.parquet", ("a", "2024-05-01", "a1"), ("b", None, "b"))
    with pytest.raises(SourceError, match="has no row of --as-of 2024-04-30 or before"):
        newest_rows([path], "id", "t", "2024-04-30")
    with pytest.raises(OptionError, match="--as-of yesterday: is no time; give one such as"):
        newest_rows([path], "id", "t", "yesterday")
    with pytest.raises(OptionError, match="--as-of nan: is no time"):
        newest_rows([path], "id", "t", "nan")


def test_columns_of_other_writers(tmp_path: Path) -> None:
    """Spark's timestamps of 96 bits, categories of pandas, bytes that no one calls text."""
    call, later = datetime(2024, 5, 1, 10), datetime(2024, 5, 1, 11)
    keys, at = ["a", "a", "b"], ["2024-05-01T10:00:00Z"] * 3
    old = {"id": pa.array(keys).dictionary_encode(), "t": pa.array(at).dictionary_encode()}
    new = {"id": pa.array([b"a", b"b", b"b"]), "t": pa.array([each.encode() for each in at])}
    for name, columns, calls in (("1", old, [later, call, later]), ("2", new, [call, call, later])):
        table = {**columns, "v": [name + x for x in "123"], "api_invocation_time": calls}
        is_old = name == "1"
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table(table), path, use_deprecated_int96_timestamps=is_old)
    assert kept(str(tmp_path / "1.parquet"), str(tmp_path / "2.parquet")) == ["11", "23"]


def test_times_of_an_empty_column() -> None:
    assert times(pl.Series("t", [None, None]), "t", "x").null_count() == 2


def test_keys_of_records_may_hold_anything(tmp_path: Path) -> None:
    ids = ("u.7", "a/b", "../c", "é", "1")
    path = store(tmp_path / "x.parquet", *((id, 1, "v") for id in ids))
    catalog, _ = read_parquet([path], None, choice=NO_IMAGE, versions=("id", "t"))
    assert catalog.keys().to_list() == ["u_7", "a/b", "c", "é", "1"]
    path = store(tmp_path / "y.parquet", *((id, 1, "v") for id in ("u.7", "u_7")))
    catalog, _ = read_parquet([path], None, choice=NO_IMAGE, versions=("id", "t"))
    assert catalog.keys().to_list() == ["y-0000000", "y-0000001"]


# The command, on a store as Feature Store writes it


@pytest.fixture(scope="module", params=["text", "number"])
def offline(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An offline store: eight rows of four records, one of them deleted."""
    root = tmp_path_factory.mktemp("store")
    feature_store(root, numbers=request.param == "number")
    return root / "reviews-1714550400"


@pytest.mark.parametrize("place", ["", "data"])
@pytest.mark.parametrize("format", ["webdataset", "tfrecord", "parquet"])
def test_a_feature_store_is_packed(
    run_here: RunHere, offline: Path, tmp_path: Path, format: str, place: str
) -> None:
    more = ("--cast", "input_ids=list<int>", "--label-field", "label_id", *OWN, "-j2")
    arguments = (offline / place, tmp_path / "out", "--to", format, *KEYS, *more)
    done = run_here("pack", *arguments)
    assert done.code == 0, done.err
    assert "keeps 3 records of 8 rows; left out: 4 older versions, 1 deleted record" in done.out
    assert "directories are partitions: their year, month, day, hour become no fields" in done.out
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest["samples"] == 3
    assert {each["name"]: each["type"] for each in manifest["schema"]["fields"]} == {
        "label_id": "class",
        "review_id": "text",
        "input_ids": "list<int>",
    }
    against = ("--against", offline / place, "--no-image", "--label-field", "label_id")
    assert run_here("verify", tmp_path / "out", *against).code == 0
    assert "already packed" in run_here("pack", *arguments).out
    to = ("--to", "parquet", "--no-image", "-q", "-j1")
    assert run_here("convert", tmp_path / "out", tmp_path / "rows", *to).code == 0
    (path,) = (tmp_path / "rows").glob("*.parquet")
    rows = pl.read_parquet(path).rename({"label": "label_id"}, strict=False).sort("review_id")
    found = rows.select("review_id", "input_ids", "label_id").rows()
    assert found == [("R1", [101, 77, 102], 0), ("R3", [101, 9], 0), ("R4", [1], 1)]


def test_a_feature_store_as_it_was(run_here: RunHere, offline: Path, tmp_path: Path) -> None:
    dest, until = tmp_path / "out", ("--as-of", "2024-05-01T11:00:00Z")
    options = ("--to", "parquet", *KEYS, *until, *OWN, "-j1")
    done = run_here("pack", offline, dest, *options, "--cast", "input_ids=list<int>")
    assert done.code == 0, done.err
    assert "keeps 3 records of 8 rows; left out: 1 older version, 0 deleted records" in done.out
    assert "--as-of 2024-05-01T11:00:00Z leaves out 4 rows of later times" in done.out
    (path,) = dest.glob("*.parquet")
    rows = pl.read_parquet(path).sort("review_id")
    assert rows["input_ids"].to_list() == [[101, 7, 102], [101, 8], [101, 9]]
    assert run_here("verify", dest, "--against", offline, "--no-image", "-q").code == 0
    done = run_here("pack", offline, tmp_path / "no", "--to", "parquet", "--no-image", *until)
    assert done.code == 2
    assert "it says which rows are too new: give --latest" in done.err


def test_numbers_go_into_tensors(run_here: RunHere, offline: Path, tmp_path: Path) -> None:
    drop = ("--drop", "review_id,EventTime,write_time,api_invocation_time,is_deleted")
    casts = ("--cast", "input_ids=list<float32>", "--label-field", "label_id")
    to = ("--to", "recordio-protobuf", "-q", "-j1")
    done = run_here("pack", offline, tmp_path / "out", *to, *KEYS, *drop, *casts)
    assert done.code == 0, done.err


def test_without_partitions_a_directory_is_read_as_before(tmp_path: Path) -> None:
    from dsprep.sources.reading import read_source
    from dsprep.sources.source import make_source

    (tmp_path / "a=1").mkdir()
    store(tmp_path / "x.parquet", ("a", 1, "v"))
    store(tmp_path / "a=1/y.parquet", ("b", 1, "v"))
    catalog, findings = read_source(make_source(str(tmp_path), choice=NO_IMAGE))
    assert len(catalog) == 1
    assert not any("partitions" in note for note in notes_of(findings))


def test_without_effect(run_here: RunHere, tmp_path: Path) -> None:
    path = store(tmp_path / "x.parquet", ("a", 1, "v"))
    for options, problem in (
        (("--latest", "t"), "give --key with the column that identifies a record"),
        (
            ("--latest", "t", "--key", "index"),
            "give --key with the column that identifies a record",
        ),
        (("--key", "id"), "keys come from path or index, or with --latest"),
    ):
        done = run_here("pack", path, tmp_path / "o", "--to", "tfrecord", "--no-image", *options)
        assert done.code == 2
        assert problem in done.err
    (tmp_path / "images/a").mkdir(parents=True)
    (tmp_path / "images/a/1.jpg").write_bytes(b"x")
    options = ("--latest", "t", "--key", "id", "--check", "none")
    done = run_here("pack", tmp_path / "images", tmp_path / "o", "--to", "webdataset", *options)
    assert done.code == 2
    assert "SOURCE is not Parquet" in done.err


@pytest.mark.parametrize("column", ["key", "time"])
def test_columns_that_cannot_be_compared(tmp_path: Path, column: str) -> None:
    values: dict[str, Any] = {"key": ["a", "b"], "time": [1, 2]}
    for wrong in ([[1], [2]], [b"\xff", b"a"]):
        pq.write_table(pa.table(values | {column: wrong}), tmp_path / "a.parquet")
        with pytest.raises((OptionError, SourceError), match=rf"--.* {column}"):
            newest_rows([str(tmp_path / "a.parquet")], "key", "time")


def test_versions_of_one_time_are_counted(tmp_path: Path) -> None:
    path = store(tmp_path / "1.parquet", ("a", 1, "a1"), ("a", 1, "a2"), ("b", 1, "b1"))
    _, notes = newest_rows([path], "id", "t")
    assert "1 row as new as the newest of its record: the last is kept" in notes
    assert kept(path) == ["a2", "b1"]
