"""Workers that write one shard together make the bytes that one worker makes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dsprep.formats.recordio import MAGIC
from dsprep.plan.cut import PlannedShard
from dsprep.run.run import Run
from tests.attack.trees import contents
from tests.conftest import Finished
from tests.images import jpeg, png, truncated

RunCli = Callable[..., Finished]


def with_magic(image: bytes, count: int) -> bytes:
    """Put the magic number of RecordIO into a JPEG, where it cuts a record."""
    comment = b".." + MAGIC * count
    return image[:2] + b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment + image[2:]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of which some are bad, at each end and in a row, and some are larger as records."""
    root = tmp_path_factory.mktemp("pieces") / "photos"
    root.mkdir()
    for number in range(60):
        data = png(number) if number % 7 == 3 else jpeg(number, (40 + number, 50))
        data = truncated(data) if number in {0, 20, 21, 22, 23, 24, 25, 59} else data
        data = with_magic(data, 300) if number in {11, 40} else data
        (root / f"{number:02}.jpg").write_bytes(data)
    return root


CASES = {
    "webdataset": ("train.tar",),
    "webdataset with metadata": ("train.tar", "--metadata"),
    "tfrecord": ("train.tfrecord",),
    "recordio": ("train.rec", "--check", "header"),
    "last of five": ("--to", "tfrecord", "--shards", "5"),
    "shuffled": ("--to", "webdataset", "--shards", "3", "--shuffle"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_bytes_are_those_of_one_worker(
    run_here: RunCli, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr("dsprep.run.run._SHARED_BYTES", 1)
    cut: list[int] = []
    shared = Run._shared

    def counted(run: Run, workers: int) -> dict[str, list[PlannedShard]]:
        found = shared(run, workers)
        cut.append(sum(map(len, found.values())))
        return found

    monkeypatch.setattr(Run, "_shared", counted)
    first, *options = CASES[case]
    options = [first, *options] if first == "--to" else options
    for workers in (1, 2, 3):
        dest = tmp_path / str(workers) / ("out" if first == "--to" else first)
        dest.parent.mkdir()
        done = run_here("pack", photos, dest, *options, "-j", workers)
        assert done.code == 3, done.err
        assert contents(tmp_path / str(workers)) == contents(tmp_path / "1")
    assert cut[0] == 0
    assert max(cut[1:]) > 3


def test_so_are_those_of_samples_that_are_copied(
    run_here: RunCli, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsprep.run.run._SHARED_BYTES", 1)
    assert run_here("pack", photos, tmp_path / "in.tar").code == 3
    for workers in (1, 3):
        out = tmp_path / str(workers)
        out.mkdir()
        options = ("--shuffle", "--seed", "3", "-j", workers)
        assert run_here("shard", tmp_path / "in.tar", out / "out.tar", *options).code == 0
        assert contents(out) == contents(tmp_path / "1")
