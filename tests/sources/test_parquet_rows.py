"""Parquet files that are damaged, or made to do harm."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsprep.errors import BadSample, SourceError
from dsprep.sample import Sample
from dsprep.sources.tables.parquet import read_parquet
from tests.images import jpeg
from tests.parquet_files import catalog_of, images, read_all, samples_of, spooled, write_table

JPEG = jpeg(1)
ROWS = 12
NAMES = [f"{i}.jpg" for i in range(ROWS)]


def a_file(path: Path) -> str:
    """A file of three row groups of four samples."""
    columns = {
        "image": images(
            [JPEG + bytes([i]) for i in range(ROWS)], [f"{i}.jpg" for i in range(ROWS)]
        ),
        "label": list(range(ROWS)),
        "text": [f"text {i}" for i in range(ROWS)],
    }
    return write_table(path / "a.parquet", columns, row_group_size=4)


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"PAR1PAR1", b"PAR1" * 5, b"hello, world", bytes(100)]
)
def test_no_parquet(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(SourceError, match=r"a\.parquet: is not a whole Parquet file"):
        read_parquet([str(tmp_path / "a.parquet")], None)


def test_cut_short(tmp_path: Path) -> None:
    path = Path(a_file(tmp_path))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SourceError, match="is not a whole Parquet file"):
        read_parquet([str(path)], None)


def test_not_there(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        read_parquet([str(tmp_path / "a.parquet")], None)
    with pytest.raises(SourceError, match=str(tmp_path)):
        read_parquet([str(tmp_path)], None)


def test_no_rows(tmp_path: Path) -> None:
    path = write_table(tmp_path / "a.parquet", {"image": images([])})
    with pytest.raises(SourceError, match="holds no rows"):
        read_parquet([path], None)


@pytest.mark.parametrize("name", ["image.bytes", "image.path", "a/b", "..", "\n", "'", "x.y"])
def test_names_of_columns(tmp_path: Path, name: str) -> None:
    columns = {"image": images([JPEG], ["a.jpg"]), name: ["text"]}
    path = write_table(tmp_path / "a.parquet", columns)
    assert samples_of(path) == [Sample("a", {"image": JPEG, name: "text"}, 0, "a.jpg", "image")]


def test_a_column_without_a_name(tmp_path: Path) -> None:
    path = write_table(tmp_path / "a.parquet", {"image": images([JPEG]), "": ["text"]})
    assert "has no name" in read_parquet([path], None)[1][0].detail
    assert [each.fields for each in samples_of(path)] == [{"image": JPEG}]


def test_more_rows_than_bytes(tmp_path: Path) -> None:
    path = write_table(tmp_path / "a.parquet", {"x": pa.array([1] * 1_000_000)})
    assert Path(path).stat().st_size < 10_000
    with pytest.raises(SourceError, match="1000000 rows in"):
        read_parquet([path], None)


def test_a_damaged_row_group_spoils_no_other(tmp_path: Path) -> None:
    path = Path(a_file(tmp_path))
    start = pq.read_metadata(path).row_group(1).column(0).data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 8] = b"\xff" * 8
    path.write_bytes(content)
    catalog, findings = read_parquet([str(path)], None)
    assert [(each.kind, each.path) for each in findings] == [("damaged", "a.parquet")]
    assert findings[0].detail.startswith("row group 1: ")
    expected = [0, 1, 2, 3, 8, 9, 10, 11]
    assert catalog.table["offset"].to_list() == expected
    (tmp_path / "spool").mkdir()
    for each in (catalog, spooled(catalog, tmp_path / "spool").shuffle(1)):
        labels = [sample.fields["label"] for sample in read_all(each)]  # type: ignore[union-attr]
        assert sorted(labels) == expected  # type: ignore[type-var]


def test_a_row_group_that_is_damaged_later(tmp_path: Path) -> None:
    path = Path(a_file(tmp_path))
    catalog, _ = read_parquet([str(path)], None)
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    start = pq.read_metadata(path).row_group(1).column(0).data_page_offset
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"\xff" * 8)
    os.utime(path, ns=times)
    (tmp_path / "spool").mkdir()
    for each in (catalog, spooled(catalog, tmp_path / "spool")):
        found = read_all(each)
        assert [isinstance(sample, BadSample) for sample in found] == [False] * 4 + [True] * 4 + [
            False
        ] * 4
        assert "row group" in str(found[4])


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    bad = pa.array([b"\xff\xfe", b"ok"]).view(pa.string())
    path = write_table(tmp_path / "a.parquet", {"image": images([JPEG, JPEG]), "text": bad})
    bad_one, good = read_all(catalog_of(path))
    assert isinstance(bad_one, BadSample) and "'text'" in str(bad_one) and "UTF-8" in str(bad_one)
    assert isinstance(good, Sample) and good.fields["text"] == "ok"


def test_a_path_that_is_not_utf8(tmp_path: Path) -> None:
    paths = pa.array([b"\xff.jpg", b"b.jpg"]).view(pa.string())
    column = pa.StructArray.from_arrays([pa.array([JPEG, JPEG]), paths], ["bytes", "path"])
    catalog, _ = read_parquet([write_table(tmp_path / "a.parquet", {"image": column})], None)
    bad, good = read_all(catalog)
    assert isinstance(bad, BadSample) and "not UTF-8" in str(bad)
    assert isinstance(good, Sample)


def test_a_footer_that_lies_about_its_length(tmp_path: Path) -> None:
    path = Path(a_file(tmp_path))
    content = path.read_bytes()
    for length in (0, 1, 2**31 - 1, 2**32 - 1):
        path.write_bytes(content[:-8] + struct.pack("<I", length) + b"PAR1")
        with pytest.raises(SourceError, match="is not a whole Parquet file"):
            read_parquet([str(path)], None)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**64), st.integers(1, 6), st.booleans())
def test_any_damage_is_told(
    tmp_path_factory: pytest.TempPathFactory, seed: int, bytes_changed: int, in_footer: bool
) -> None:
    directory = tmp_path_factory.mktemp("p")
    path = Path(a_file(directory))
    content = bytearray(path.read_bytes())
    draw = random.Random(seed)
    first = len(content) - 1500 if in_footer else 0
    for _ in range(bytes_changed):
        content[draw.randrange(first, len(content))] = draw.randrange(256)
    path.write_bytes(content)
    try:
        catalog, _ = read_parquet([str(path)], None)
        (directory / "spool").mkdir()
        found = read_all(catalog.shuffle(1))
        again = read_all(spooled(catalog, directory / "spool").shuffle(1))
    except SourceError as error:
        assert str(directory) in str(error)
    else:
        assert len(found) == len(catalog)
        assert [each for each in found if isinstance(each, Sample)] == [
            each for each in again if isinstance(each, Sample)
        ]
