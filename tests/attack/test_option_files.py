"""Files that options name, ``--schema`` and ``--filter-table``, from a stranger."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from dsprep.schema import Schema
from tests.conftest import Finished

RunCli = Callable[..., Finished]

FIELDS = [
    {"name": "image", "type": "image"},
    {"name": "label", "type": "class", "names": ["cat", "dog"]},
]
HALF = "\ud800"  # JSON has half characters, UTF-8 has not


@pytest.fixture(scope="module")
def shards(run_here: RunCli, photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    dest = tmp_path_factory.mktemp("shards") / "shards"
    assert run_here("pack", photos, dest, "--to", "webdataset").code == 0
    return dest


def schema(field: dict[str, Any] | None = None, **others: Any) -> dict[str, Any]:
    """A schema, with a change to its label."""
    fields = [FIELDS[0], FIELDS[1] | (field or {})]
    return {"fields": fields, "image": "image", "label": "label", "format": ""} | others


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (schema({"type": ["class"]}), "the type ['class'] is unknown"),
        (schema({"type": {}}), "the type {} is unknown"),
        (schema({"name": ["label"]}), "has a name or a place that is no text"),
        (schema({"names": "ab"}), "names, places and ids are lists"),
        (schema({"names": {"a": "b"}}), "names, places and ids are lists"),
        (schema({"names": None}), "names, places and ids are lists"),
        (schema({"places": ["ab"]}), "names, places and ids are lists"),
        (schema({"places": 5}), "names, places and ids are lists"),
        (schema({"ids": {"0": 1, "1": 2}}), "names, places and ids are lists"),
        (schema({"names": ["cat", HALF]}), "has a name or a place that is no text"),
        (schema({"name": HALF}), "has a name or a place that is no text"),
        (schema({"places": [[HALF]]}), "has a name or a place that is no text"),
        (schema({"ids": [1, 1]}), "needs an id of its own"),
        (schema({"ids": [10**400, True]}), "needs an id of its own"),
        (schema({"missing": "yes"}), "missing is true or false"),
        (schema(image=["image"]), "is none of its fields"),
        (schema(label={}), "is none of its fields"),
        (schema(image="label"), "is of the type class"),
        (schema(fields=[5]), "a field needs a name and a type"),
        (schema(fields=["name, type"]), "a field needs a name and a type"),
        (schema(fields=[*FIELDS, *FIELDS]), "two fields are called 'image'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_schema_that_is_none(
    run_here: RunCli, shards: Path, tmp_path: Path, values: Any, why: str
) -> None:
    given = tmp_path / "schema.json"
    given.write_text(json.dumps(values))
    done = run_here("convert", shards, tmp_path / "out", "--to", "tfrecord", "--schema", given)
    assert done.code == 4, done.out
    assert f"{given}: is not a schema: " in done.err
    assert why in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "text",
    ["", "null", "5", "[]", "NaN", "[" * 100_000, '{"fields":' * 100_000, "\0", "9" * 10_000],
    ids=lambda text: text[:9],
)
def test_text_that_is_no_schema(run_here: RunCli, shards: Path, tmp_path: Path, text: str) -> None:
    given = tmp_path / "schema.json"
    given.write_text(text)
    done = run_here("convert", shards, tmp_path / "out", "--to", "tfrecord", "--schema", given)
    assert done.code == 4
    assert f"{given}: is not a schema: " in done.err


def test_many_fields_are_read_in_time_that_grows_with_their_number() -> None:
    """Ten thousand millions of comparisons would end as a hang."""
    fields = [{"name": f"field {at}", "type": "int", "missing": True} for at in range(100_000)]
    assert len(Schema.from_json(schema(fields=[*FIELDS, *fields])).fields) == 100_002


# --filter-table


def parquet(**columns: pl.Series) -> bytes:
    file = io.BytesIO()
    pl.DataFrame(columns).write_parquet(file)
    return file.getvalue()


KEEP = pl.Series([False])
GOOD = parquet(path=pl.Series(["cat/000.jpg"]), keep=KEEP)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("t.csv", b""),
        ("t.csv", b"\0" * 100_000),
        ("t.csv", b"keep\nfalse\n"),
        ("t.csv", b"path,keep\n../secret.jpg,false\n"),
        ("t.csv", b"path,keep\n/etc/passwd,false\n"),
        ("t.csv", b"path,keep\ncat/000.jpg,nan\n"),
        ("t.csv", b"path,keep\ncat/000.jpg,false\ncat/000.jpg,true\n"),
        ("t.csv", b"path,keep\n" + b"x" * 300_000 + b",false\n"),
        ("t.csv", b"path,keep\ncat/000.jpg" + b"," * 1_000_000 + b"\n"),
        ("t.csv", b"path,keep\n\xff,false\n"),
        ("t.csv", b'path,keep\n"'),
        ("t.jsonl", b'{"path": "\\ud800", "keep": false}\n'),
        ("t.jsonl", b'{"path": "cat/000.jpg", "keep": ' + b"[" * 100_000),
        ("t.parquet", b"PAR1"),
        ("t.parquet", b"PAR1" + b"\xff" * 1000 + b"PAR1"),
        ("t.parquet", GOOD[:-1]),
        ("t.parquet", parquet(path=pl.Series([["cat/000.jpg"]]), keep=KEEP)),
        ("t.parquet", parquet(path=pl.Series([b"cat/000.jpg"]), keep=KEEP)),
        ("t.parquet", parquet(path=pl.Series([None], dtype=pl.String), keep=KEEP)),
        ("t.parquet", parquet(path=pl.Series(["cat/000.jpg"]), keep=pl.Series([float("nan")]))),
    ],
    ids=lambda value: ascii(value)[2:24] if isinstance(value, bytes) else value,
)
def test_what_is_no_table_to_filter_by(
    run_here: RunCli, photos: Path, tmp_path: Path, name: str, data: bytes
) -> None:
    given = tmp_path / name
    given.write_bytes(data)
    dest = tmp_path / "out"
    done = run_here("pack", photos, dest, "--to", "webdataset", "--filter-table", given)
    assert done.code in (2, 4), done.out
    assert str(given) in done.err or "--filter-table: names" in done.err
    assert len(done.err) < 2000
    assert not dest.exists()


def test_a_table_of_flipped_bits(run_here: RunCli, photos: Path, tmp_path: Path) -> None:
    """Each is refused, or read where the bit means nothing."""
    given = tmp_path / "t.parquet"
    command = ("pack", photos, tmp_path / "out", "--to", "webdataset", "--dry-run")
    codes = set()
    for at in range(4, len(GOOD), 41):
        given.write_bytes(GOOD[:at] + bytes([GOOD[at] ^ 0xFF]) + GOOD[at + 1 :])
        codes.add(run_here(*command, "--filter-table", given).code)
    assert {4} <= codes <= {0, 2, 4}
