"""Sides that have directories of their own, as those of MDS: on a disk and in a bucket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import dsprep
from tests.attack.trees import contents
from tests.conftest import Finished
from tests.kills import run_and_kill
from tests.run.conftest import Machine
from tests.servers.bucket import Bucket

RunCli = Callable[..., Finished]
Machines = Callable[[str], Machine]

COMMAND = ("--to", "mds", "--samples-per-shard", "2", "--split", "train=0.6,val=0.4", "-j", "1")
NAMES = {
    *("classes.txt", "manifest.json", "train/index.json", "val/index.json"),
    *(f"train/train-{number:05}.mds" for number in range(4)),
    *(f"val/val-{number:05}.mds" for number in range(3)),
}


@pytest.fixture
def expected(run_here: RunCli, twelve: Path, tmp_path: Path) -> dict[str, bytes]:
    """What one run writes."""
    assert run_here("pack", twelve, tmp_path / "expected", *COMMAND).code == 0
    found = contents(tmp_path / "expected")
    assert found.keys() == NAMES
    return found


@pytest.mark.parametrize("file", ["val-00001.mds", "index.json", "manifest.json"])
def test_a_killed_run_goes_on(
    run_here: RunCli, twelve: Path, expected: dict[str, bytes], tmp_path: Path, file: str
) -> None:
    words = ("pack", str(twelve), str(tmp_path / "out"), *COMMAND)
    assert run_and_kill(f"name {file}", words).returncode == -9
    assert not (tmp_path / "out" / "manifest.json").exists()
    done = run_here(*words)
    assert (done.code, "continued" in done.out) == (0, True)
    assert contents(tmp_path / "out") == expected


def test_parts_write_the_same(
    run_here: RunCli, twelve: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    for part in ("1/2", "0/2"):
        assert run_here("pack", twelve, tmp_path / "out", *COMMAND, "--part", part).code == 0
    assert contents(tmp_path / "out") == expected


def test_any_number_of_workers_writes_the_same(
    run_here: RunCli, twelve: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    assert run_here("pack", twelve, tmp_path / "out", *COMMAND[:-1], "3").code == 0
    assert contents(tmp_path / "out") == expected


def test_files_of_others_in_such_a_directory_stay(
    run_here: RunCli, twelve: Path, tmp_path: Path
) -> None:
    (tmp_path / "out" / "val").mkdir(parents=True)
    (tmp_path / "out" / "val" / "index.json").write_text("{}")
    done = run_here("pack", twelve, tmp_path / "out", *COMMAND)
    assert (done.code, "val/index.json: is there already" in done.err) == (5, True)
    (tmp_path / "out" / "val" / "index.json").rename(tmp_path / "out" / "val" / "notes.txt")
    assert run_here("pack", twelve, tmp_path / "out", *COMMAND).code == 0
    how = ("--to", "mds", "-j1", "--overwrite")
    assert run_here("pack", twelve, tmp_path / "out", *how).code == 0
    assert contents(tmp_path / "out").keys() == {
        *("classes.txt", "index.json", "manifest.json", "train-00000.mds", "val/notes.txt")
    }


def test_a_bucket_gets_the_same_and_gives_it_back(
    on_ceph: Machines,
    ceph: Bucket,
    twelve: Path,
    expected: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine, place = on_ceph("one"), f"{ceph.url}/set"
    machine("pack", twelve, place, *COMMAND)
    assert ceph.contents("set/") == expected
    assert "already packed" in machine("pack", twelve, place, *COMMAND).out
    machine("verify", place, "--download")
    machine("convert", place, tmp_path / "w", "--to", "webdataset", "-j1")
    machine("convert", f"{place}/val", tmp_path / "v", "--to", "webdataset", "-j1")
    assert dsprep.verify(tmp_path / "w", workers=1).samples == 12
    assert (tmp_path / "v" / "classes.txt").read_text() == "a\nb\n"
    machine("sync", place, tmp_path / "back")
    assert contents(tmp_path / "back") == expected
    machine("pack", twelve, place, "--to", "mds", "-j1", "--overwrite")
    there = {"classes.txt", "index.json", "manifest.json", "train-00000.mds"}
    assert ceph.contents("set/").keys() == there


def test_a_bucket_run_goes_on_elsewhere(
    on_ceph: Machines,
    ceph: Bucket,
    twelve: Path,
    expected: dict[str, bytes],
    soon: None,
    tmp_path: Path,
) -> None:
    one, two = on_ceph("one"), on_ceph("two")
    words = ("pack", str(twelve), f"{ceph.url}/set", *COMMAND)
    assert run_and_kill("send val-00000.mds", words, env=one.env).returncode == -9
    assert "manifest.json" not in ceph.contents("set/")
    two(*words)
    assert {n: d for n, d in ceph.contents("set/").items() if ".dsprep/" not in n} == expected
