"""The texts of indexes: DALI's, MXNet's, and what is wrong with one of wids."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.dataset.manifest import Recorded
from dsprep.formats.base import ShardFacts
from dsprep.formats.recordio import RecordIO
from dsprep.formats.stream import ShardStream
from dsprep.formats.tar import Member
from dsprep.formats.tfrecord import TFRecord
from dsprep.formats.webdataset import WebDataset
from dsprep.plan.destination import Destination
from dsprep.verifying.indexes import (
    dali_line,
    dali_tfrecord,
    dali_webdataset,
    index_name,
    mxnet_difference,
    mxnet_index,
    read_wids,
    settle,
    wids_difference,
)
from dsprep.verifying.indexing import data_set_name
from dsprep.verifying.shards import Shards


def member(name: str, at: int = 512, size: int = 3) -> Member:
    return Member(at - 512, name, at, size, at + size + -size % 512, b"")


def tar_file(path: Path, names: list[str], **options: Any) -> Path:
    """A tar of files that hold their own names, as Python's tarfile writes it."""
    with tarfile.open(path, "w", **options) as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = len(name.encode())
            archive.addfile(info, io.BytesIO(name.encode()))
    return path


def dali_index(path: Path) -> bytes:
    with ShardStream(str(path), headers=True) as stream:
        lines = [dali_line(each.key, each.members.values()) for each in WebDataset().groups(stream)]
    return dali_webdataset(lines)


def as_dali_reads(index: bytes) -> list[list[tuple[str, int, int, str]]]:
    """The samples of an index by the rules of DALI's `webdataset_loader.cc`."""
    head, *lines = index.decode().removesuffix("\n").split("\n")
    version, count = head.split()
    assert (version, int(count)) == ("v1.2", len(lines))
    samples = []
    for line in lines:
        words = line.split()
        assert words
        assert len(words) % 4 == 0
        parts = zip(words[::4], words[1::4], words[2::4], words[3::4], strict=True)
        samples.append([(ext, int(at), int(size), name) for ext, at, size, name in parts])
    assert all(at % 512 == 0 for sample in samples for _, at, _, _ in sample)
    return samples


class TestDaliForWebDataset:
    def test_golden(self) -> None:
        lines = [
            dali_line("a", [member("a.jpg", 512, 700), member("a.cls", 2048, 1)]),
            dali_line("d/b", [member("d/b.seg.png", 3072, 9)]),
        ]
        assert dali_webdataset(lines) == (
            b"v1.2 2\njpg 512 700 a.jpg cls 2048 1 a.cls\nseg.png 3072 9 d/b.seg.png\n"
        )

    def test_extensions_keep_their_case(self) -> None:
        assert dali_line("a", [member("a.JPG")]) == "JPG 512 3 a.JPG"

    @pytest.mark.parametrize(
        ("name", "word"),
        [
            ("a b.jpg", r"a\040b.jpg"),
            ("é.jpg", r"\303\251.jpg"),
            ("a\\b.jpg", r"a\\b.jpg"),
            ("a\tb.jpg", r"a\tb.jpg"),
            ('it\'s "x".jpg', r"it's\040" + '"x".jpg'),
        ],
    )
    def test_names_are_one_word_as_gnu_tar_escapes_them(self, name: str, word: str) -> None:
        assert dali_line(name[: -len(".jpg")], [member(name)]) == f"jpg 512 3 {word}"

    @pytest.mark.parametrize("extension", ["", "a b", "j\tpg"])
    def test_extensions_that_are_no_word_are_refused(self, extension: str) -> None:
        with pytest.raises(ValueError, match="extension"):
            dali_line("a", [member(f"a.{extension}")])

    @pytest.mark.parametrize(
        "format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
    )
    def test_offsets_are_those_of_the_bytes(self, tmp_path: Path, format: int) -> None:
        """Also behind the headers of long names, which DALI without an index takes for files."""
        names = [f"{'d' * 60}/{'n' * 70}.jpg", "b.jpg", "b.json", "e" * 90 + ".cls"]
        path = tar_file(tmp_path / "a.tar", names, format=format)
        data = path.read_bytes()
        samples = as_dali_reads(dali_index(path))
        assert [[name for *_, name in sample] for sample in samples] == [
            names[:1],
            names[1:3],
            names[3:],
        ]
        for _, at, size, name in (each for sample in samples for each in sample):
            assert data[at : at + size].decode() == name

    @given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1))
    def test_any_name_is_one_word(self, names: list[str]) -> None:
        members = [member(f"{name}.jpg".replace(".", "_", name.count("."))) for name in names]
        lines = [dali_line(each.name[: -len(".jpg")], [each]) for each in members]
        samples = as_dali_reads(dali_webdataset(lines))
        assert [sample[0][:3] for sample in samples] == [("jpg", 512, 3)] * len(names)


def test_dali_for_tfrecord() -> None:
    assert dali_tfrecord([0, 120], [120, 64]) == b"0 120\n120 64\n"


class TestMxnet:
    def test_golden(self) -> None:
        assert mxnet_index([7, 3], [0, 40]) == b"7\t0\n3\t40\n"

    def test_positions_where_ids_repeat(self) -> None:
        assert mxnet_index([0, 0, 0], [0, 40, 80]) == b"0\t0\n1\t40\n2\t80\n"

    @pytest.mark.parametrize(
        ("index", "message"),
        [
            (b"7\t0\n3\t40\n", None),
            (b"7\t0\r\n3\t40", None),
            (b"", "lists 0 samples"),
            (b"7\t0\n3\t41\n", "line 2: says id 3 at byte 41, but id 3 is at byte 40"),
            (b"7\t0\n4\t40\n", "line 2: says id 4"),
            (b"7\t0\n3\t40\n9\t80\n", "lists 3 samples"),
            (b"v1.2 1\njpg 0 3 a.jpg\n", "cannot be read"),
            (b"\xff", "cannot be read"),
        ],
    )
    def test_difference(self, index: bytes, message: str | None) -> None:
        found = mxnet_difference(index, [7, 3], [0, 40])
        assert (found or "").startswith(message or "")
        assert (found is None) == (message is None)

    def test_any_key_will_do_where_ids_repeat(self) -> None:
        ids, offsets = [0, 0], [0, 40]
        assert mxnet_difference(b"5\t0\n6\t40\n", ids, offsets, by_key=True) is None
        assert mxnet_difference(b"0\t0\n0\t40\n", ids, offsets) is None
        assert "last only" in str(mxnet_difference(b"0\t0\n0\t40\n", ids, offsets, by_key=True))


class TestWids:
    FACTS = (ShardFacts("a-0.tar", 3, 10240), ShardFacts("a-1.tar", 2, 20480))

    def test_what_the_format_writes_is_right(self) -> None:
        ((name, data),) = WebDataset().dataset_index("a", self.FACTS).items()
        assert name == "a.json"
        assert wids_difference(data, self.FACTS) is None

    def test_more_may_be_told_and_elsewhere(self) -> None:
        ((_, data),) = WebDataset().dataset_index("a", self.FACTS).items()
        index = json.loads(data) | {"name": "other", "description": "x"}
        for shard in index["shardlist"]:
            shard |= {"url": "s3://bucket/" + shard["url"], "md5sum": "0" * 32}
        assert wids_difference(json.dumps(index).encode(), self.FACTS) is None

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"url": "b.tar"}, "lists b.tar, where a-1.tar"),
            ({"nsamples": 3}, "has 3 samples, but it has 2"),
            ({"filesize": "20480"}, None),
            ({"filesize": None}, "has None bytes"),
        ],
    )
    def test_what_is_wrong_is_said(self, change: dict[str, Any], message: str | None) -> None:
        ((_, data),) = WebDataset().dataset_index("a", self.FACTS).items()
        index = json.loads(data)
        index["shardlist"][1] |= change
        assert (message or "has 20480 bytes") in str(
            wids_difference(json.dumps(index).encode(), self.FACTS)
        )

    def test_lists_of_other_lengths(self) -> None:
        ((_, data),) = WebDataset().dataset_index("a", self.FACTS[:1]).items()
        assert "lists 1 shards, but there are 2" in str(wids_difference(data, self.FACTS))

    @pytest.mark.parametrize(
        "data",
        [b"", b"{", b"[]", b"{}", b"\xff", b'{"__kind__":"wids-shard-index-v1"}', b"[" * 100_000]
        + [b'{"__kind__":"wids-shard-index-v1","shardlist":[1]}', b'"text"'],
    )
    def test_other_files_are_no_index(self, data: bytes) -> None:
        assert read_wids(data) is None
        assert wids_difference(data, self.FACTS) == "is no wids index"


class TestSettling:
    def test_a_right_file_is_not_touched(self, tmp_path: Path) -> None:
        path = tmp_path / "a.idx"
        path.write_bytes(b"right")
        before = path.stat()
        settled = settle(str(path), "dali", b"right", None, tmp_path)
        assert (settled.state, settled.receipt.bytes) == ("unchanged", 5)
        assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    def test_a_missing_one_is_written(self, tmp_path: Path) -> None:
        (tmp_path / "scratch").mkdir()
        settled = settle(str(tmp_path / "a.idx"), "dali", b"x", None, tmp_path / "scratch")
        assert settled.state == "missing"
        assert (tmp_path / "a.idx").read_bytes() == b"x"
        assert not list((tmp_path / "scratch").iterdir())

    def test_a_wrong_one_is_replaced_and_told(self, tmp_path: Path) -> None:
        path = tmp_path / "a.idx"
        path.write_bytes(b"one\nother\n")
        settled = settle(str(path), "dali", b"one\ntwo\n", None, tmp_path)
        assert (settled.state, settled.detail) == ("wrong", "line 2 is 'other', not 'two'")
        assert path.read_bytes() == b"one\ntwo\n"

    def test_without_a_scratch_nothing_is_written(self, tmp_path: Path) -> None:
        path = tmp_path / "a.idx"
        assert settle(str(path), "dali", b"x", None, None).state == "missing"
        assert not path.exists()
        path.write_bytes(b"x" * 10_000_000)
        assert settle(str(path), "dali", b"x", None, None).state == "wrong"
        assert path.stat().st_size == 10_000_000


@pytest.mark.parametrize(
    ("layout", "name", "index"),
    [
        (WebDataset(), "train-000000.tar", "train-000000.idx"),
        (WebDataset(), "a.b.tar", "a.b.idx"),
        (RecordIO(), "train.rec", "train.idx"),
        (TFRecord(), "a.tfrecord", "a.idx"),
        (TFRecord(), "a.tfrecord-00000-of-00002", "a.tfrecord-00000-of-00002.idx"),
    ],
)
def test_every_shard_has_an_index_of_its_own(layout: Any, name: str, index: str) -> None:
    assert index_name(name, layout) == index


@pytest.mark.parametrize(
    ("layout", "names", "name"),
    [
        (WebDataset(), ["train-000000.tar", "train-000001.tar"], "train"),
        (WebDataset(), ["cifar10-0.tar"], "cifar10"),
        (WebDataset(), ["00000.tar", "00001.tar"], "shards"),
        (WebDataset(), ["set_train_0.tar", "set_val_0.tar"], "set"),
        (WebDataset(), ["manifest-0.tar"], "shards"),
        (TFRecord(), ["train-00000-of-01024", "train-00001-of-01024"], "train"),
        (TFRecord(), ["a-train.tfrecord-00000-of-00002"], "a-train"),
        (TFRecord(), ["x_00000-of-00002.tfrecord.gz"], "x"),
    ],
)
def test_the_name_of_a_data_set(layout: Any, names: list[str], name: str) -> None:
    assert data_set_name(Shards(Recorded(layout), names, None, Destination(Path()))) == name
