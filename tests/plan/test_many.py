"""Plans of many samples: in parts and with small numbers, they are what they are all at once."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
from bisect import bisect_left, bisect_right
from itertools import accumulate
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsprep
from dsprep.catalog import Catalog, compact, whole_paths, widened, with_short_paths
from dsprep.formats.recordio import RecordIO
from dsprep.plan.cut import ShardSize, cut_by_bytes, cut_pieces, plan_shards
from dsprep.plan.tables import write_table
from dsprep.sample import key_of, key_size_expr
from dsprep.sources.readers import FileReader
from dsprep.sources.shards.shards import read_shards
from dsprep.sources.shards.shardset import ShardSet
from tests.images import image_folder

LARGE = 2**31
TARGETS = {"webdataset": "20KB"}
names = st.text("aB._é 猫", min_size=1, max_size=8).filter(lambda name: name not in {".", ".."})
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
paths |= names.map("some/directory/{}.jpeg".format)  # their beginnings are stored once
numbers = st.one_of(st.integers(0, 300), st.integers(LARGE - 2, LARGE + 2), st.integers(0, 2**62))
rows = st.lists(st.tuples(paths, numbers, st.integers(0, 4)), max_size=30)


def make(rows: list[tuple[str, int, int]]) -> Catalog:
    table = pl.DataFrame(
        {
            "index": range(len(rows)),
            "path": [path for path, _, _ in rows],
            "size": [size for _, size, _ in rows],
            "mtime": [7 + size for _, size, _ in rows],
            "cls": [cls for _, _, cls in rows],
        },
        schema={
            **dict.fromkeys(("index", "path", "size", "mtime", "cls"), pl.Int64),
            "path": pl.String,
        },
    )
    return Catalog(table, "root", tuple("abcde"), FileReader("root"))


def compacted(catalog: Catalog, order: pl.Series | None = None) -> Catalog:
    table = compact(with_short_paths(catalog.table.get_columns()), order)
    return Catalog(table, catalog.root, catalog.classes, catalog.reader)


@given(rows, st.integers(0, 2**64))
def test_numbers_of_32_bits_are_the_same_samples(
    rows: list[tuple[str, int, int]], seed: int
) -> None:
    whole = make(rows)
    small = compacted(whole)
    assert widened(small.table).equals(whole.table)
    assert small.digest() == whole.digest()
    assert small.mtimes_digest() == whole.mtimes_digest()
    assert small.collisions() == whole.collisions()
    assert small.samples_per_class() == whole.samples_per_class()
    without = whole.table["path"].head(2).to_list()
    assert small.samples_per_class(without) == whole.samples_per_class(without)
    assert small.keys().to_list() == whole.keys().to_list()
    assert small.names().to_list() == whole.names().to_list()
    written = io.BytesIO(), io.BytesIO()
    for file, table in zip(written, (small.table, whole.table), strict=True):
        write_table(table.select("path"), file)
    assert written[0].getvalue() == written[1].getvalue()
    assert small.rows() == whole.rows()
    order = whole.shuffled_rows(seed)
    assert widened(compacted(whole, order).table).equals(whole.shuffle(seed).table)
    assert whole.shuffled_rows(seed, 5).to_list() == order.to_list()[:5]


def test_numbers_are_small_where_they_fit() -> None:
    table = compacted(make([("a", LARGE - 1, 0), ("b", 5, 4)])).table
    assert table.schema["size"] == pl.Int32
    assert compacted(make([("a", LARGE, 0)])).table.schema["size"] == pl.Int64


def test_beginnings_of_paths_are_stored_once() -> None:
    def short(paths: list[str]) -> pl.Series:
        column = pl.Series("path", paths)
        (found,) = with_short_paths([column])
        assert whole_paths(found).to_list() == paths
        return found

    alike = short([f"n0144/n0144_{number:06d}.JPEG" for number in range(100_000)])
    assert alike.estimated_size() < 14 * len(alike)
    assert short(["é猫/0123456789é.jpg", "é猫/012345猫789é.jpg"]).dtype != pl.String
    assert short(["0123456789ab", ""]).dtype == pl.String
    assert short([f"{number:x>9}/abcdefgh.png" for number in range(40)]).dtype == pl.String


def plain_cuts(weights: list[int], capacity: int) -> list[int]:
    """Cut as the documentation of the cuts says, on lists."""
    sums = [0, *accumulate(weights)]
    shares = [0, *accumulate(min(weight, capacity) for weight in weights)]
    fits = [len(weights)]
    while fits[-1] > 0:
        stop = fits[-1]
        fits.append(min(bisect_left(sums, sums[stop] - capacity, 0, stop), stop - 1))
    cuts, count = [0], len(fits) - 1
    for left in range(count, 1, -1):
        start = cuts[-1]
        ideal = shares[start] + (shares[-1] - shares[start]) / left
        cut = bisect_left(shares, ideal)
        if cut > 0 and ideal - shares[cut - 1] < shares[cut] - ideal:
            cut -= 1
        lowest = max(fits[left - 1], start + 1)
        highest = max(bisect_right(sums, sums[start] + capacity) - 1, start + 1)
        cuts.append(min(max(cut, lowest), highest, len(weights) - left + 1))
    return [*cuts, len(weights)]


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=60), st.integers(1, 3_000))
def test_cuts_are_those_of_lists(weights: list[int], capacity: int) -> None:
    series = pl.Series(weights, dtype=pl.Int64)
    assert cut_by_bytes(series, capacity) == plain_cuts(weights, capacity)


def test_sums_of_small_numbers_have_64_bits() -> None:
    sizes = pl.Series([LARGE - 1] * 8, dtype=pl.Int32)
    shards = plan_shards(sizes, ShardSize(samples=8), RecordIO(), lambda *_: "train")
    assert [shard.bytes for shard in shards] == [8 * (LARGE - 1)]
    assert len(cut_pieces(sizes, 0, 8, LARGE)) == 8


@given(st.lists(paths, max_size=20))
def test_key_size_is_that_of_the_key(paths: list[str]) -> None:
    table = pl.DataFrame({"path": paths}, schema={"path": pl.String})
    sizes = table.select(key_size_expr()).to_series().to_list()
    assert sizes == [len(key_of(path).encode()) for path in paths]


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.*")}


@pytest.mark.parametrize("to", ["webdataset", "tfrecord", "recordio", "recordio-protobuf"])
def test_parts_of_a_plan_are_the_plan(
    to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image_folder(tmp_path / "images", ("cat", "dog"), 25, size=(8, 8))
    how: dict[str, Any] = {"target_size": TARGETS.get(to, "6KB"), "workers": 1, "shuffle": True}
    made = {}
    for at_once in (1 << 16, 4):
        for module in ("catalog", "sources.labels.classes"):
            monkeypatch.setattr(f"dsprep.{module}.AT_ONCE", at_once)
        monkeypatch.setattr("dsprep.sources.shards.shards._AT_ONCE", at_once)
        packed, cut = tmp_path / f"packed{at_once}", tmp_path / f"cut{at_once}"
        report = dsprep.pack(tmp_path / "images", packed, to=to, **how)
        assert len(report.shards) > 4
        dsprep.shard(packed, cut, **how)
        made[at_once] = contents(packed), contents(cut)
    assert made[4] == made[1 << 16]


def write_records(path: Path, records: list[tuple[int, list[float]]]) -> str:
    """Write MXNet's records: id and labels, with an image that nothing decodes."""
    with path.open("wb") as file:
        for id, labels in records:
            flag = len(labels) if len(labels) != 1 else 0
            head = struct.pack("<IfQQ", flag, 0 if flag else labels[0], id, 0)
            payload = head + struct.pack(f"<{flag}f", *(labels if flag else ())) + b"\xff\xd8"
            file.write(struct.pack("<II", 0xCED7230A, len(payload)) + payload)
            file.write(bytes(-len(payload) % 4))
    return str(path)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([[[1.0], [2.0]], [[3.0]]], [1, 2, 3]),
        ([[[1.0], [2.5]], [[3.0]]], [[1.0], [2.5], [3.0]]),
        ([[[1.0], [2.0]], [[3.0, 4.0]]], [[1.0], [2.0], [3.0, 4.0]]),
    ],
)
def test_labels_of_headers(
    labels: list[list[list[float]]], expected: list[Any], tmp_path: Path
) -> None:
    files = tuple(
        write_records(tmp_path / f"{at}.rec", [(10 * at + n, own) for n, own in enumerate(each)])
        for at, each in enumerate(labels)
    )
    catalog, _ = read_shards(ShardSet("set", files, RecordIO()))
    assert catalog.label_column is not None
    assert catalog.table[catalog.label_column].to_list() == expected
    assert catalog.table["index"].to_list() == [0, 1, 10]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([[5, 3], [4]], [5, 3, 4]),
        ([[5, 3], [5]], [0, 1, 2]),
        ([[5, 3], [2**63]], [0, 1, 2]),
        ([[2**63 - 1, 3], [4]], [2**63 - 1, 3, 4]),
    ],
)
def test_ids_of_headers(ids: list[list[int]], expected: list[int], tmp_path: Path) -> None:
    files = tuple(
        write_records(tmp_path / f"{at}.rec", [(id, [1.0]) for id in own])
        for at, own in enumerate(ids)
    )
    catalog, _ = read_shards(ShardSet("set", files, RecordIO()))
    assert catalog.table["index"].to_list() == expected


def test_the_simulation_plans() -> None:
    for source in ("folder", "shards"):
        words = [sys.executable, "-m", "scripts.simulate", "20000", "--one", "--source", source]
        root = Path(__file__).parents[2]
        done = subprocess.run(words, cwd=root, capture_output=True, text=True)
        assert '"shards": ' in done.stdout, done.stderr
