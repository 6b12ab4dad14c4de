"""Which combinations there are, and why others are refused."""

from __future__ import annotations

import ast
import struct
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

import pytest

from dsprep.benching import cells
from dsprep.benching.cells import (
    BenchData,
    cells_of,
    copy_notes,
    loop_of,
    parse_access,
    read_data,
    read_loops,
    shard_notes,
)
from dsprep.errors import OptionError, SourceError
from tests.formats import mds_peer

WDS = BenchData("wds", "webdataset", ("a.tar", "b.tar", "c.tar"), 300, 30)
REMOTE = BenchData("s3://bucket/wds", "webdataset", ("s3://bucket/wds/a.tar",), 100)
TF = BenchData("tf", "tfrecord", ("a.tfrecord",), 100)
S3_PHOTOS = BenchData("s3://bucket/photos", "folder", ("s3://bucket/photos/a.jpg",), 100)
PHOTOS = BenchData("photos", "folder", ("photos/a.jpg",), 100)
WRITTEN = Path(__file__).parents[1] / "formats"  # what MosaicML Streaming and litdata wrote


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What is installed, which tests change."""
    names = {
        *("webdataset", "PIL", "numpy", "torch", "tensorflow", "mxnet", "datasets", "wids"),
        *("boto3", "s3fs", "s3torchconnector", "streaming", "litdata"),
    }
    monkeypatch.setattr(cells, "is_installed", lambda name: name in names)
    return names


def found(
    data: Sequence[BenchData], readers: Sequence[str] = (), access: Sequence[str] = ()
) -> list[str]:
    return [f"{one.reader} {one.access}" for one in cells_of(data, readers, access, [0])[0]]


@pytest.mark.parametrize("reader", cells.READERS)
def test_each_reader_has_a_loop(reader: str) -> None:
    assert loop_of(reader, "file").name == f"{reader}_loop.py"
    assert all(loop_of(reader, way).is_file() for way in cells.READERS[reader].access.split())


@pytest.mark.parametrize(
    "path", sorted(loop_of("raw", "file").parent.glob("*")), ids=attrgetter("stem")
)
def test_a_loop_is_short_and_of_no_other_file(path: Path) -> None:
    """20 to 60 lines of code; what is not code are docstrings and empty lines."""
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    empty = {at for at, line in enumerate(text.splitlines(), 1) if not line.strip()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            empty |= {*range(node.lineno, (node.end_lineno or 0) + 1)}
    assert 20 <= len(text.splitlines()) - len(empty) <= 60
    assert "dsprep" not in text


def test_a_way_may_have_a_loop_of_its_own(data: Path) -> None:
    (code,) = read_loops(["s3://bucket/photos"], ["torch"], ["s3torchconnector"])
    assert "S3MapDataset" in code
    both = read_loops(["s3://bucket/shards", "s3://bucket/more"], ["webdataset"], ["boto3,s3fs"])
    assert ["s3fs." in each for each in both] == [False, True]
    (code,) = read_loops([str(data / "webdataset")], [], ["file,fifo"])
    assert "boto3" not in code


def test_each_format_has_a_natural_reader_and_way(installed: set[str]) -> None:
    data = [WDS, REMOTE, TF, PHOTOS]
    assert found(data) == ["webdataset file", "webdataset boto3", "tf file", "torch file"]
    installed -= {"torch"}
    assert found([PHOTOS]) == ["raw file"]


def test_valid_pairs_are_measured_and_others_noted() -> None:
    done, notes = cells_of([WDS, TF], [], ["file", "fifo"], [0, 2])

    assert [(cell.reader, cell.access, cell.workers) for cell in done] == [
        *(("webdataset", "file", 0), ("webdataset", "file", 2)),
        *(("webdataset", "fifo", 0), ("webdataset", "fifo", 2), ("tf", "file", 0)),
        ("tf", "file", 2),
    ]
    assert notes == ["tf x fifo: not a valid pair; tf reads by file, download"]


@pytest.mark.parametrize(
    ("data", "readers", "access", "message"),
    [
        (WDS, ["torch"], [], "torch does not read webdataset (wds), but folder"),
        (WDS, ["tensorflow"], [], "--reader tensorflow: choose of webdataset, tf"),
        (WDS, [], ["boto3"], "webdataset x boto3: wds is on a disk"),
        (REMOTE, [], ["file"], "webdataset x file: s3://bucket/wds is on S3"),
        (TF, [], ["cmd:cat {url}"], "tf x cmd: not a valid pair; tf reads by file, download"),
        (WDS, [], ["file", "s3fs"], "webdataset x s3fs: wds is on a disk"),
    ],
)
def test_impossible_ones_are_refused_by_name(
    data: BenchData, readers: Sequence[str], access: Sequence[str], message: str
) -> None:
    with pytest.raises(OptionError) as refused:
        cells_of([data], readers, access, [0])
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "reader", "image", "is_packed"),
    [
        ("mds/all", "mds", "image", False),
        ("mds/zstd", "mds", "image", True),
        ("mds/zstd", "litdata", "image", True),
        ("litdata/all", "litdata", "image", False),
        ("litdata/batch", "litdata", "image", False),
        ("litdata/chunk", "litdata", "image", True),
        ("litdata/pairs", "litdata", "0", False),
        ("litdata/rows", "litdata", "image", False),
    ],
)
def test_loaders_are_told_the_image_and_unpack_copies_only(
    name: str, reader: str, image: str, is_packed: bool
) -> None:
    data = read_data(str(WRITTEN / name))
    (cell,), notes = cells_of([data], [reader], [], [0])
    assert (cell.reader, data.keywords, notes) == (reader, {"image": [image]}, [])
    told = [f"{data.name}: {reader} unpacks a copy of it in a temporary directory, once a run"]
    assert [*copy_notes([cell, cell])] == told * is_packed


@pytest.mark.parametrize(
    ("name", "reader", "message"),
    [
        ("mds/plain", "litdata", "litdata reads only MDS that is compressed with zstd: measure"),
        ("mds/gz", "litdata", "litdata reads only MDS that is compressed with zstd: measure"),
        ("mds/sides", "mds", "mds reads the shards of one directory, such as "),
        ("litdata/sides", "litdata", "litdata reads the shards of one directory, such as "),
    ],
)
def test_what_loaders_do_not_read_is_refused(name: str, reader: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        cells_of([read_data(str(WRITTEN / name))], [reader], [], [0])


def test_images_of_pixels_are_refused(tmp_path: Path) -> None:
    pixels = struct.pack("<III", 2, 1, 3) + b"RGB" + bytes(6)
    mds_peer.write(tmp_path, {"image": "pil"}, [[{"image": pixels}]])
    with pytest.raises(SourceError, match="its images are bare pixels, which no loop reads"):
        read_data(str(tmp_path))


def test_what_is_not_installed_is_named_once_with_the_command(installed: set[str]) -> None:
    installed -= {"torch", "tensorflow", "s3torchconnector"}
    with pytest.raises(OptionError) as refused:
        cells_of([TF], [], [], [0, 2, 4])
    assert str(refused.value) == (
        "tf x file: not installed: tensorflow; pip install tensorflow-cpu"
    )
    done, notes = cells_of([WDS], [], ["file", "fifo"], [0, 2, 4])
    assert [(cell.access, cell.workers) for cell in done] == [("file", 0), ("fifo", 0)]
    assert notes == [
        "webdataset x file with workers, webdataset x fifo with workers: not installed: torch; "
        "pip install torch"
    ]
    installed -= {"webdataset"}
    with pytest.raises(OptionError) as refused:
        cells_of([WDS, TF, S3_PHOTOS], ["webdataset", "tf", "torch"], [], [0, 2])
    assert str(refused.value).startswith(
        "webdataset x file, tf x file, torch x boto3: not installed: webdataset, torch, "
        "tensorflow; pip install webdataset torch tensorflow-cpu; "
    )
    done, notes = cells_of([WDS], [], [], [0])  # another reader takes its place
    assert [cell.reader for cell in done] == ["raw"]
    assert notes == ["webdataset x file: not installed: webdataset; pip install webdataset"]


def test_ways_are_named_one_by_one_or_together() -> None:
    command = "cmd:aws s3 cp {url} - --quiet, really"
    assert parse_access(["file,fifo", "file", command]) == ["file", "fifo", command]
    for wrong in ("nfs", "cmd:cat", "file,,fifo", "cmd"):
        with pytest.raises(OptionError, match="--access"):
            parse_access([wrong])


def test_shards_are_counted_against_readers() -> None:
    many = BenchData("my wds", "webdataset", tuple(f"{at}.tar" for at in range(24)), 100)
    done, _ = cells_of([many, WDS, PHOTOS], [], [], [0, 2, 24, 32])
    assert [*shard_notes(done)] == [
        "my wds: 24 shards for 32 readers: 8 get nothing; "
        "dsprep shard 'my wds' DEST --multiple-of 32",
        "wds: 3 shards for 2 readers: 1 reads a shard more than the others; "
        "dsprep shard wds DEST --multiple-of 2",
        "wds: 3 shards for 24 readers: 21 get nothing; dsprep shard wds DEST --multiple-of 24",
        "wds: 3 shards for 32 readers: 29 get nothing; dsprep shard wds DEST --multiple-of 32",
    ]


def test_data_sets_are_recognized(data: Path, tmp_path: Path) -> None:
    names = ("folder", "webdataset", "tfrecord", "recordio", "parquet")
    read = [read_data(str(data / name)) for name in names]
    assert [one.format for one in read] == [*names]
    assert [len(one.files) for one in read] == [24, 3, 3, 3, 3]
    assert [one.samples for one in read] == [24, 24, 24, 24, None]
    for one in read:
        assert one.size == sum(Path(file).stat().st_size for file in one.files)
    with pytest.raises(SourceError, match="neither shards"):
        read_data(str(tmp_path))
    with pytest.raises(SourceError, match="gone"):
        read_data(str(tmp_path / "gone"))
