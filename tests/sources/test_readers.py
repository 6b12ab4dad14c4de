"""Reading samples, and bytes at places in files."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from random import Random

import pytest

from dsprep.catalog import Catalog
from dsprep.errors import SourceError
from dsprep.formats.recordio import RecordIO
from dsprep.formats.tfrecord import TFRecord
from dsprep.places.prefetch import OpenFiles
from dsprep.sample import Blobs, Floats, Ints, Sample
from dsprep.sources.reading import read_source
from dsprep.sources.shards.shards import ShardReader
from dsprep.sources.source import make_source
from tests.formats.layouts import JPEG


def test_more_files_than_may_be_open(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(400)]
    for path in paths:
        path.write_text(path.name)
    before = len(os.listdir("/proc/self/fd"))
    with OpenFiles(tuple(map(str, paths))) as opened:
        for number in (*range(400), 0, 399, 200, 0):
            assert opened[number].pread(9, 0) == b"%d" % number
        assert 1 < len(os.listdir("/proc/self/fd")) - before <= 256
    assert len(os.listdir("/proc/self/fd")) == before


def shards(directory: Path, contents: list[bytes], compress: Callable[[bytes], bytes]) -> Catalog:
    """The catalog of shards of TFRecord."""
    directory.mkdir()
    for number, content in enumerate(contents):
        name = f"t-{number:05d}-of-{len(contents):05d}.tfrecord"
        (directory / name).write_bytes(compress(content))
    return read_source(make_source(str(directory)))[0]


def records(count: int) -> list[bytes]:
    samples = [
        Sample("", {"image/encoded": Blobs((JPEG,)), "y": Ints((number,))})
        for number in range(count)
    ]
    return [b"".join(TFRecord().encode(sample)) for sample in samples]


def outcomes(catalog: Catalog) -> list[tuple[str, object] | str]:
    """What the reader gives for each row: key and class, or what is wrong."""
    found = catalog.reader.read(catalog.rows())
    return [
        (each.key, each.fields["y"]) if isinstance(each, Sample) else str(each) for each in found
    ]


def test_compressed_shards_are_read_as_others(tmp_path: Path) -> None:
    whole = [b"".join(records(3)), b"".join(records(4))]
    plain = outcomes(shards(tmp_path / "plain", whole, bytes))
    stems = ["t-00000-of-00002-000000"] * 3 + ["t-00001-of-00002-000000"] * 4
    ends = ["0", "1", "2", "0", "1", "2", "3"]
    assert [key for key, _ in plain] == [stem + end for stem, end in zip(stems, ends, strict=True)]
    assert outcomes(shards(tmp_path / "gzip", whole, gzip.compress)) == plain


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_one_damaged_sample_does_not_spoil_the_next(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    good = records(9)
    bad = good[4][:-1] + b"x"
    catalog = shards(tmp_path / "s", [b"".join([*good[:4], bad, *good[5:]])], compress)
    found = outcomes(catalog)
    problem = f"at byte {len(b''.join(good[:4]))}: the checksum of a record's data is wrong"
    assert found.pop(4) == problem
    assert [value for _, value in found] == [0, 1, 2, 3, 5, 6, 7, 8]


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_nor_when_all_are_read_for_what_headers_do_not_tell(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    good = records(9)
    bad = [good[4][:-1] + b"x", good[6][:-1] + b"x"]
    data = b"".join([*good[:4], bad[0], good[5], bad[1], *good[7:], good[0][:50]])
    (tmp_path / "s.tfrecord").write_bytes(compress(data))
    source = make_source(str(tmp_path / "s.tfrecord"), needs_names=True)
    catalog, findings = read_source(source)
    assert [value for _, value in outcomes(catalog)] == [0, 1, 2, 3, 5, 7, 8]
    assert catalog.table["cls"].to_list() == [0, 1, 2, 3, 5, 7, 8]
    places = [0, *accumulate(map(len, good))]
    assert [(each.kind, each.path) for each in findings] == [
        ("damaged", "s.tfrecord"),
        ("unreadable", "s-0000004"),
        ("unreadable", "s-0000006"),
    ]
    assert [each.detail.partition(":")[0] for each in findings] == [
        f"at byte {place}" for place in (places[9] + 12, places[4], places[6])
    ]


def test_samples_of_a_compressed_shard_in_any_order(tmp_path: Path) -> None:
    catalog = shards(tmp_path / "s", [b"".join(records(5))], gzip.compress)
    order = [3, 3, 0, 4, 4, 1]
    found = outcomes(replace(catalog, table=catalog.table[order]))
    assert [value for _, value in found] == order


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_shard_that_changes(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    catalog = shards(tmp_path / "s", [b"".join(records(3))], compress)
    (path,) = (tmp_path / "s").iterdir()
    path.write_bytes(compress(b"".join(reversed(records(3)))))
    assert isinstance(catalog.reader, ShardReader)
    for read in (catalog.reader.read, catalog.reader.copy):
        with pytest.raises(SourceError, match=f"{path}: has changed; give the same command again"):
            list(read(catalog.rows()))


@pytest.mark.parametrize(
    ("listed", "keys"),
    [
        ("5\t1.0\ta b/x.jpg\n8\t1\t2\t3\t y.z.jpg \r\n", ["a b/x", "y_z"]),
        ("8\t0\ty.jpg\n\n9\t0\tz.jpg\n5\t0\tx.jpg\n", ["x", "y"]),
        ("5\t0\tx.jpg\n", ["5", "8"]),
        ("5\t0\tx.jpg\n8\t0\ty.jpg\n8\t0\tz.jpg\n", ["5", "8"]),
        ("5\t0\tx.jpg\n8\t0\t../y.jpg\n", ["5", "8"]),
        ("no list", ["5", "8"]),
        ("", ["5", "8"]),
    ],
)
def test_names_that_a_list_beside_recordio_tells(
    tmp_path: Path, listed: str, keys: list[str]
) -> None:
    """If it tells all of them; whatever else it says."""
    samples = [Sample("", {"image": JPEG, "label": Floats((1.0,) * id)}, id) for id in (5, 8)]
    data = b"".join(part for sample in samples for part in RecordIO().encode(sample))
    (tmp_path / "a.rec").write_bytes(data)
    (tmp_path / "a.lst").write_text(listed)
    catalog, findings = read_source(make_source(str(tmp_path / "a.rec")))
    found = list(catalog.reader.read(catalog.rows()))
    assert [each.key for each in found if isinstance(each, Sample)] == keys
    assert findings == []


def test_a_compressed_shard_that_is_damaged_is_read_as_far_as_it_is_listed(tmp_path: Path) -> None:
    noise = Random(0).randbytes(1 << 21)
    samples = [Sample("", {"bin": noise[at : at + 4096]}) for at in range(0, len(noise), 4096)]
    data = b"".join(part for sample in samples for part in TFRecord().encode(sample))
    whole = gzip.compress(data, 1)
    path = tmp_path / "a.tfrecord.gz"
    for place in range(300_000, 1_500_000, 150_000):
        path.write_bytes(whole[:place] + noise[:50_000] + whole[place + 50_000 :])
        catalog, findings = read_source(make_source(str(path)))
        assert [each.kind for each in findings] == ["damaged"]
        assert len(catalog) > place // 4200 - 40
        assert all(isinstance(each, Sample) for each in catalog.reader.read(catalog.rows()))
        catalog.reader.write_spool(0, str(tmp_path / "0"))
