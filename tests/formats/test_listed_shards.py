"""``index.json`` of MDS and litdata: what is believed of it, and what is not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.errors import SourceError
from dsprep.formats import listed_shards as module
from dsprep.formats.listed_shards import differences, read_index
from tests.formats.test_mds import GOLDEN


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / "all", tmp_path / "in"))


def changed(directory: Path, **raw: Any) -> None:
    index = json.loads((directory / "index.json").read_text())
    index["shards"][0]["raw_data"] |= raw
    (directory / "index.json").write_text(json.dumps(index))


def test_its_order_counts_and_nothing_else_is_read(copied: Path, tmp_path: Path) -> None:
    index = json.loads((copied / "index.json").read_text())
    index["shards"].reverse()
    (copied / "index.json").write_text(json.dumps(index))
    shutil.copy(GOLDEN / "plain" / "shard.00000.mds", copied / "left-over.mds")
    report = dsprep.convert(copied, tmp_path / "out", to="parquet")
    assert [shard.name for shard in report.shards] == ["shard.00001.parquet", "shard.00000.parquet"]
    assert report.samples == 4


def test_a_shard_that_is_not_there(copied: Path, tmp_path: Path) -> None:
    (copied / "shard.00001.mds").unlink()
    with pytest.raises(SourceError, match="there is no such shard"):
        dsprep.convert(copied, tmp_path / "out", to="parquet")
    assert [(each.file, each.message) for each in dsprep.verify(copied).problems] == [
        ("shard.00001.mds", "is in index.json, but not there")
    ]


def test_samples_that_are_missing_are_rejects(copied: Path, tmp_path: Path) -> None:
    index = json.loads((copied / "index.json").read_text())
    index["shards"][0]["samples"] += 1
    (copied / "index.json").write_text(json.dumps(index))
    report = dsprep.convert(copied, tmp_path / "out", to="parquet")
    assert (report.samples, len(report.rejects)) == (4, 1)
    (problem,) = dsprep.verify(copied).problems
    assert problem.message == "holds 2 samples, not 3"


def test_hashes_are_checked(copied: Path) -> None:
    index = read_index(str(copied))
    assert index is not None
    shards = index.shards
    assert [set(each.hashes) for each in shards] == [{"sha256", "xxh64"}] * 2
    assert not [*differences(shards[0])]
    data = bytearray((copied / "shard.00000.mds").read_bytes())
    data[-1] ^= 1
    (copied / "shard.00000.mds").write_bytes(data)
    assert any("its sha256 is not the one in" in each.message
               for each in dsprep.verify(copied).problems)  # fmt: skip
    (copied / "shard.00000.mds").write_bytes(data + b"x")
    assert [*differences(shards[0])] == [
        f"has {len(data) + 1:,} bytes, not {len(data):,} as index.json says"
    ]


@pytest.mark.parametrize(
    "name", ["../x.mds", "/etc/passwd", "a//b.mds", ".", "a\0.mds", "\ud800.mds"]
)
def test_names_that_lead_elsewhere(copied: Path, name: str) -> None:
    changed(copied, basename=name)
    with pytest.raises(
        SourceError, match="names no file below its directory|surrogates not allowed"
    ):
        read_index(str(copied))


@pytest.mark.parametrize("size", [-1, "x", None, 1 << 70, float("inf")])
def test_sizes_that_are_none(copied: Path, size: object) -> None:
    changed(copied, bytes=size)
    with pytest.raises(SourceError, match="is not an index of MDS"):
        read_index(str(copied))


@pytest.mark.parametrize("value", [[], "x", {"hashes": [1]}])
def test_files_that_are_none(copied: Path, value: object) -> None:
    index = json.loads((copied / "index.json").read_text())
    raw = index["shards"][0]["raw_data"]
    index["shards"][0]["raw_data"] = raw | value if isinstance(value, dict) else value
    (copied / "index.json").write_text(json.dumps(index))
    with pytest.raises(SourceError, match="is not an index of MDS"):
        read_index(str(copied))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"shards": 3}', '{"shards": [{}]}', '{"shards": []}', "[" * 99_999]
)
def test_an_index_of_something_else(tmp_path: Path, text: str) -> None:
    (tmp_path / "index.json").write_text(text)
    assert read_index(str(tmp_path)) is None


@pytest.mark.parametrize("text", ["", '{"shards": [', '{"version": 2, "shards": []}'])
def test_an_index_that_is_damaged_beside_shards(copied: Path, tmp_path: Path, text: str) -> None:
    (copied / "index.json").write_text(text)
    sides = tmp_path / "sides"
    shutil.copytree(copied, sides / "train")
    for place in (copied, sides):
        with pytest.raises(SourceError, match=r"index\.json: does not list the shards beside it"):
            dsprep.convert(place, tmp_path / "out", to="parquet")
    with pytest.raises(SourceError, match="does not list the shards beside it"):
        dsprep.verify(copied)
    report = dsprep.convert(f"{copied}/*.mds", tmp_path / "out", to="parquet", workers=1)
    assert report.samples == 4


def test_shards_of_text(tmp_path: Path) -> None:
    text = json.dumps({"version": 2, "shards": [{"format": "json"}]})
    (tmp_path / "index.json").write_text(text)
    with pytest.raises(SourceError, match="lists shards of json, not of MDS"):
        read_index(str(tmp_path))


@pytest.mark.parametrize("name", ["mds/all", "litdata/batch"])
def test_a_shard_that_is_listed_twice(name: str, tmp_path: Path) -> None:
    where = Path(shutil.copytree(GOLDEN.parent / name, tmp_path / "in"))
    index = json.loads((where / "index.json").read_text())
    shards = index.get("shards") or index["chunks"]
    shards.append(shards[0])
    (where / "index.json").write_text(json.dumps(index))
    with pytest.raises(SourceError, match=r"index\.json: lists (shard|chunk)\S+ 2 times"):
        dsprep.convert(where, tmp_path / "out", to="parquet")
    with pytest.raises(SourceError, match="2 times"):
        dsprep.verify(where)


def test_an_index_that_is_too_large(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGEST", 100)
    with pytest.raises(SourceError, match=r"index\.json: cannot be read \(has .*at most 100 B"):
        read_index(str(copied))


@pytest.mark.parametrize(
    "chunk",
    [
        {"filename": "../chunk-0-0.bin"},
        {"filename": "/etc/passwd"},
        {"chunk_size": -1},
        {"chunk_bytes": 1 << 70},
        {"chunk_bytes": None},
        {"filename": ""},
    ],
)
def test_chunks_of_litdata_that_are_none(chunk: dict[str, Any], tmp_path: Path) -> None:
    where = Path(shutil.copytree(GOLDEN.parent / "litdata" / "batch", tmp_path / "in"))
    index = json.loads((where / "index.json").read_text())
    index["chunks"][0] |= chunk
    (where / "index.json").write_text(json.dumps(index))
    with pytest.raises(SourceError, match="is not an index of litdata"):
        read_index(str(where))
