"""What a run leaves that was killed between its manifest and its tidying up."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dsprep.dataset.manifest import FileEntry
from dsprep.errors import RunStopped
from dsprep.plan.destination import Destination
from dsprep.progress import Progress
from dsprep.run.receipt import Receipt
from dsprep.run.state import RunState
from dsprep.run.target import InPlace, target_of
from dsprep.storage.local import ScratchLock
from tests.conftest import Finished
from tests.images import jpeg

Call = Callable[..., Finished]


@pytest.fixture
def shards(tmp_path: Path, run_here: Call) -> Path:
    """A data set, and images for more of it beside it."""
    for name in ("old/a/0.jpg", "new/a/1.jpg", "newer/a/2.jpg"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(jpeg())
    assert run_here(*_pack(tmp_path / "wds")).code == 0
    return tmp_path / "wds"


def _pack(shards: Path) -> tuple[object, ...]:
    return ("pack", shards.parent / "old", shards, "--format", "webdataset", "-q")


def _append(shards: Path, name: str = "new") -> tuple[object, ...]:
    return ("shard", "append", shards.parent / name, shards, "-q")


COMMANDS: dict[str, Callable[[Path], tuple[object, ...]]] = {
    "the same": _append,
    "another append": lambda shards: _append(shards, "newer"),
    "index": lambda shards: ("shard", "index", shards, "-q"),
    "verify": lambda shards: ("verify", shards, "-q"),
    "overwrite": lambda shards: (*_pack(shards), "--overwrite"),
}


@pytest.mark.parametrize(
    ("following", "lost"),
    [
        *((each, "") for each in COMMANDS),
        *(("the same", each) for each in ("run.json", "receipts", "lock")),
    ],
)
def test_the_next_command_removes_what_a_finished_run_left(
    following: str, lost: str, shards: Path, run_here: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    _leave(_append(shards), run_here, monkeypatch)
    if lost:  # it was killed while it tidied up
        path = shards / ".dsprep" / lost
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    done = run_here(*COMMANDS[following](shards))

    assert (done.code, done.err) == (0, "")
    assert not (shards / ".dsprep").exists()


def test_a_command_that_is_refused_removes_it_as_well(
    shards: Path, run_here: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    _leave(_append(shards), run_here, monkeypatch)

    assert run_here(*_pack(shards)).code == 5

    assert not (shards / ".dsprep").exists()


def test_what_packing_left_is_removed_by_append(
    shards: Path, run_here: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    _leave((*_pack(shards), "--overwrite"), run_here, monkeypatch)

    assert run_here(*_append(shards)).code == 0

    assert not (shards / ".dsprep").exists()


@pytest.mark.parametrize("following", ["another append", "index", "verify"])
def test_an_unfinished_append_goes_on_whatever_comes_between(
    following: str, shards: Path, run_here: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(InPlace, "publish_manifest", _stop)
        assert run_here(*_append(shards)).code == 6

    assert run_here(*COMMANDS[following](shards)).code in (3, 5)
    done = run_here("shard", "append", shards.parent / "new", shards)

    assert done.code == 0
    assert "continued" in done.out
    assert not (shards / ".dsprep").exists()


def test_a_run_that_is_alive_keeps_its_directory(
    shards: Path, run_here: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    _leave(_append(shards), run_here, monkeypatch)
    with (shards / ".dsprep" / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for following in ("the same", "index"):
            assert "another dsprep run" in run_here(*COMMANDS[following](shards)).err
        assert "wait for it" in run_here("verify", shards).out

    assert (shards / ".dsprep" / "run.json").exists()


def test_verify_says_that_a_run_is_not_finished(
    shards: Path, run_here: Call, tmp_path: Path
) -> None:
    (tmp_path / "begun" / ".dsprep").mkdir(parents=True)
    (tmp_path / ".one.tar.dsprep").mkdir()

    for name in ("begun", "one.tar"):
        done = run_here("verify", tmp_path / name)
        assert done.code == 4
        assert "wait for it, or give its command again" in done.err


def _leave(command: tuple[object, ...], run_here: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop a command before it removes its notes."""
    with monkeypatch.context() as patch:
        patch.setattr("dsprep.run.complete.tidy_up", _stop)
        assert run_here(*command).code == 6


def _stop(*_: object) -> None:
    raise RunStopped("killed")


def _begun(directory: Path) -> RunState:
    run = RunState(target_of(Destination(directory)), {}, ["x.tar"], Progress())
    run.begin(["x.tar"])
    return run


def test_who_tidies_up_keeps_others_out_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _begun(tmp_path)
    for number in range(50):
        (run.target.destination.scratch / f"{number}.tmp").touch()
    unlinked = []
    unlink = os.unlink

    def tell(path: str | Path, **options: int | None) -> None:
        unlinked.append(os.path.basename(path))
        unlink(path, **options)

    monkeypatch.setattr(os, "unlink", tell)
    run.hold.remove()

    assert unlinked[-1] == "lock"
    assert len(unlinked) == 53  # run.json, also that of the pieces
    assert list(tmp_path.iterdir()) == []


def test_what_is_removed_already_is_no_more_removed(tmp_path: Path) -> None:
    first = _begun(tmp_path)
    first.hold.remove()
    second = _begun(tmp_path)
    first.release()
    assert (second.target.destination.scratch / "run.json").exists()
    second.hold.remove()


def test_no_link_is_followed_to_what_is_removed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / ".dsprep").symlink_to(tmp_path / "mine")
    ScratchLock(tmp_path / "there" / ".dsprep", "there").remove()
    assert (tmp_path / "mine" / "file").exists()


def test_a_run_waits_for_who_only_tidies_up(tmp_path: Path) -> None:
    tidying = ScratchLock(tmp_path / ".dsprep", tmp_path)

    def end() -> None:
        time.sleep(0.1)
        tidying.remove()

    thread = threading.Thread(target=end)
    thread.start()
    run = _begun(tmp_path)
    thread.join()
    run.hold.remove()


@pytest.mark.parametrize("when", ["before the lock", "while it is looked for"])
def test_a_run_begins_though_the_hidden_directory_is_removed(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir, left = Path.mkdir, [3]

    def make(self: Path, *args: int, **options: bool) -> None:
        mkdir(self, *args, **options)
        left[0] -= 1
        if left[0] >= 0:
            self.rmdir()
            if when == "while it is looked for":
                raise FileExistsError(17, "File exists", str(self))

    monkeypatch.setattr(Path, "mkdir", make)
    run = RunState(target_of(Destination(tmp_path)), {}, [], Progress())
    monkeypatch.undo()
    run.begin([])
    run.hold.remove()


@pytest.mark.parametrize("files", ["abc", 5, {"a": 1}, None])
def test_notes_of_others_name_nothing_to_delete(
    shards: Path, tmp_path: Path, run_here: Call, files: object
) -> None:
    place = tmp_path / "there"
    (place / ".dsprep").mkdir(parents=True)
    (place / "a").write_text("keep", "utf-8")
    note = {"identity": {"name": "x"}, "files": files}
    (place / ".dsprep" / "run.json").write_text(json.dumps(note), "utf-8")
    done = run_here("pack", tmp_path / "old", place, "--to", "tfrecord", "--overwrite", "-q")
    assert "Traceback" not in done.err
    assert (place / "a").read_text("utf-8") == "keep"


@pytest.mark.parametrize(
    "change", [{"class_names": None}, {"samples": "3x"}, {"files": []}, {"sizes": 1}]
)
def test_receipts_that_are_none_are_passed_over(change: dict[str, object], tmp_path: Path) -> None:
    target = target_of(Destination(tmp_path, None))
    whole = Receipt(samples=3, files=[FileEntry("a.tar", 1, 0)])
    for number, values in enumerate(({}, change)):
        written = whole.to_json() | values
        receipt = {"shard": "a.tar", "written": written, "etags": {"a.tar": ""}}
        path = tmp_path / ".dsprep" / "receipts" / f"{number}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(receipt), "utf-8")
    (tmp_path / "a.tar").write_bytes(b"x")
    assert [shard for shard, _ in target.receipts()] == ["a.tar"]
