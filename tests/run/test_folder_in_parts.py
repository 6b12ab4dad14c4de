"""``--part`` and ``--engine ray`` of folders: the files of one machine, on a disk and on S3."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.attack.trees import contents
from tests.conftest import Finished
from tests.images import jpeg
from tests.run.test_cluster import machines
from tests.servers.bucket import Bucket
from tests.workers.machines import Directories

RunHere = Callable[..., Finished]

__all__ = ["machines"]

HOSTILE = ("../up", "/abs", "a\nb", "a//c", "-rf", "\u202eé", "a%2Fb+c&?#", "files", "x" * 300)


@pytest.fixture(params=["disk", "S3"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, Callable[[], dict[str, bytes]]]:
    """Where folders go, and a look at what is there."""
    if request.param == "disk":
        (tmp_path / "there").mkdir()
        return str(tmp_path / "there"), lambda: contents(tmp_path / "there")
    ceph: Bucket = request.getfixturevalue("ceph")
    monkeypatch.setenv("AWS_ENDPOINT_URL", ceph.endpoint)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return ceph.url, ceph.contents


Place = tuple[str, Callable[[], dict[str, bytes]]]


def convert(run: RunHere, source: Path, dest: object, *options: object) -> Finished:
    return run("convert", source, dest, "--to", "folder", "-j", 1, *options)


def tar_of(path: Path, keys: Sequence[str]) -> Path:
    """Write a shard whose samples have these keys."""
    with tarfile.open(path, "w") as tar:
        for number, key in enumerate(keys):
            for end, data in ((".jpg", jpeg(number, (20, 20))), (".cls", b"0")):
                member = tarfile.TarInfo(key + end)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return path


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 0, 1), (1, 2, 1, 0, 2)])
def test_parts_in_any_order_and_twice(
    run_here: RunHere, place: Place, twelve: Path, tmp_path: Path, order: tuple[int, ...]
) -> None:
    assert convert(run_here, twelve, tmp_path / "alone" / "set").code == 0
    dest, there = place
    for number in order:
        assert "set.manifest.json" not in there() or set(order[:-1]) == {0, 1, 2}
        done = convert(run_here, twelve, f"{dest}/set", "--part", f"{number}/3")
        assert done.code == 0, done.err
        if number == 2 and order[0] == 2:
            found = json.loads(run_here("status", f"{dest}/set", "--json").out)
            assert (found["state"], found["missing"]) == ("unfinished", ["0/3", "1/3"])
            assert found["bytes"] > 3000
    assert there() == contents(tmp_path / "alone")
    again = convert(run_here, twelve, f"{dest}/set", "--part", "1/3")
    assert "already converted" in again.out


def test_what_is_killed_goes_on_in_any_way(
    run_here: RunHere, place: Place, twelve: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that was killed before it completed the folder; then a run without parts."""
    assert convert(run_here, twelve, tmp_path / "alone" / "set").code == 0
    dest, there = place
    assert convert(run_here, twelve, f"{dest}/set", "--part", "0/2").code == 0
    with monkeypatch.context() as patch:
        patch.setattr("dsprep.run.complete.publish_manifest", _stopped)
        assert convert(run_here, twelve, f"{dest}/set", "--part", "1/2").code == 6
    assert "set.manifest.json" not in there()
    assert convert(run_here, twelve / "a", f"{dest}/set", "--part", "1/2").code == 5
    done = convert(run_here, twelve, f"{dest}/set")
    assert (done.code, "0 samples left to write" in done.err) == (0, True), done.err
    assert there() == contents(tmp_path / "alone")


def _stopped(*_: object) -> None:
    from dsprep.errors import RunStopped

    raise RunStopped("killed")


def test_hostile_names(run_here: RunHere, place: Place, tmp_path: Path) -> None:
    source, (dest, there) = tar_of(tmp_path / "names.tar", HOSTILE), place
    assert convert(run_here, source, tmp_path / "alone" / "set").code == 0
    for part in ("1/2", "0/2"):
        done = convert(run_here, source, f"{dest}/set", "--part", part)
        assert done.code == 0, done.err
    assert there() == contents(tmp_path / "alone")
    assert len(there()) > len(HOSTILE)


@pytest.mark.parametrize("keys", [("b", "c", "b"), ("0/b.jpg/x", "c", "b")])
def test_two_samples_of_one_path_stop_the_run(
    run_here: RunHere, place: Place, tmp_path: Path, keys: tuple[str, ...]
) -> None:
    dest, there = place
    shards = [tar_of(tmp_path / f"{number}.tar", (key,)) for number, key in enumerate(keys)]
    command = ("convert", *shards, f"{dest}/set", "--to", "folder", "-j", 1)
    # On a disk, a directory that has the path of a file is found when its unit is moved.
    codes = [run_here(*command, "--part", part).code for part in ("0/2", "1/2")]
    assert sorted(codes) == [0, 4]
    done = run_here(*command, "--part", "0/2")
    assert done.code == 4, done.err
    assert "/b.jpg already, and a folder holds one of a name" in done.err
    assert "set.manifest.json" not in there()


def test_on_a_cluster(
    run_here: RunHere, machines: Directories, place: Place, twelve: Path, tmp_path: Path
) -> None:
    dest, there = place
    for where, engine in ((tmp_path / "alone", "local"), (dest, "ray")):
        done = run_here(
            "augment",
            twelve,
            f"{where}/set",
            "--to",
            "folder",
            "--op",
            "hflip",
            "--per-image",
            1,
            "--engine",
            engine,
        )
        assert done.code == 0, done.err
    assert there() == contents(tmp_path / "alone")
    assert {task.machine for task in machines.tasks} == {"one", "two"}
