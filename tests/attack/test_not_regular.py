"""Pipes, devices and huge files under the names of files that dsprep reads."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dsprep.errors import DestinationError
from dsprep.storage.local import open_regular, publish, read_stream, read_whole
from tests.conftest import Finished
from tests.images import jpeg

HUGE = 1 << 40

Call = Callable[..., Finished]


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(HUGE)  # of holes: it takes no room


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, run_here: Call) -> Path:
    """Images, shards with all kinds of files beside them, and a list."""
    root = tmp_path_factory.mktemp("made")
    for name in ("a/0.jpg", "b/1.jpg"):
        (root / "images" / name).parent.mkdir(parents=True)
        (root / "images" / name).write_bytes(jpeg())
    for args in (
        ("pack", root / "images", root / "wds", "--format", "webdataset"),
        ("pack", root / "images", root / "rec", "--format", "recordio"),
        ("convert", root / "images", root / "folder", "--to", "folder"),
        ("lst", "create", root / "images", "-o", root / "lst" / "train.lst"),
    ):
        assert run_here(*args, "-q").code == 0
    return root


@pytest.mark.parametrize("put", [_pipe, _huge])
@pytest.mark.parametrize(
    ("victim", "commands"),
    [
        ("wds/manifest.json", ("verify @wds", "shard append @images @wds", "shard index @wds")),
        ("wds/manifest.json", ("convert @wds @out/t.rec", "pack @images @wds --format tfrecord")),
        ("wds/classes.txt", ("verify @wds", "shard append @images @wds")),
        ("wds/train.json", ("verify @wds", "shard index @wds")),
        ("rec/train-00000.idx", ("verify @rec",)),
        ("rec/train-00000.lst", ("verify @rec", "convert @rec @out/t.tar")),
        ("folder.files.jsonl", ("verify @folder",)),
        ("lst/train.lst", ("lst stats @lst/train.lst", "lst check @lst/train.lst")),
        ("lst/train.lst", ("pack @images @out/t.rec --list @lst/train.lst",)),
        ("lst/classes.txt", ("lst stats @lst/train.lst --classes @lst/classes.txt",)),
    ],
)
def test_what_is_no_regular_file_is_refused_at_once(
    put: Callable[[Path], None],
    victim: str,
    commands: tuple[str, ...],
    made: Path,
    tmp_path: Path,
    run_here: Call,
) -> None:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    (tmp_path / victim).unlink()
    put(tmp_path / victim)

    for command in commands:
        done = run_here(*command.replace("@", f"{tmp_path}/").split())

        # What is a pipe is no shard, list or manifest to some, so that there is none: never read.
        told = done.out + done.err
        assert done.code in (3, 4, 5) or (put is _pipe and not done.code), told
        assert "Errno" not in told


@pytest.mark.parametrize("name", ["lock", "run.json"])
def test_notes_of_a_run_that_are_pipes_are_refused(
    name: str, made: Path, tmp_path: Path, run_here: Call
) -> None:
    (tmp_path / "out" / ".dsprep").mkdir(parents=True)
    os.mkfifo(tmp_path / "out" / ".dsprep" / name)

    done = run_here("pack", made / "images", tmp_path / "out", "--format", "webdataset")

    assert done.code == 5
    assert "not a regular file" in done.err


@pytest.mark.parametrize("name", ["lock", "journal", "train.lst.partial", "journal.partial"])
def test_notes_beside_a_list_that_are_pipes_wait_for_nobody(
    name: str, made: Path, tmp_path: Path, run_here: Call
) -> None:
    lst = tmp_path / "train.lst"
    lst.write_text("0\t1\ta.jpg\n1\t0\tb.jpg\n", "utf-8")
    os.mkfifo(tmp_path / f".train.lst.{name}")

    done = run_here("lst", "create", made / "images", "-o", lst, "--overwrite")

    assert done.code == (5 if name in ("lock", "journal") else 0), done.err


def test_a_partial_list_that_is_a_link_is_not_written_through(
    tmp_path: Path, run_here: Call
) -> None:
    lst = tmp_path / "train.lst"
    lst.write_text("0\t1\ta.jpg\n1\t0\tb.jpg\n", "utf-8")
    (tmp_path / "other").write_text("mine", "utf-8")
    (tmp_path / ".train.lst.train.lst.partial").symlink_to(tmp_path / "other")

    assert run_here("lst", "remove", lst, "--id", "1").code == 0

    assert (tmp_path / "other").read_text("utf-8") == "mine"
    assert lst.read_text("utf-8") == "0\t1\ta.jpg\n"


def test_a_shard_that_is_a_pipe_is_refused(made: Path, tmp_path: Path, run_here: Call) -> None:
    os.mkfifo(tmp_path / "x.tar")

    # The one that `convert` is given by its name is the user's own.
    for args in (("verify", "x.tar"), ("convert", "?.tar", "t.rec"), ("shard", "x.tar", "y.tar")):
        assert run_here(*args, cwd=tmp_path).code == 4


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(os.devnull)
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "link", "/dev/zero"):
        with pytest.raises(OSError, match="not a regular file"):
            open_regular(path)
        with pytest.raises(OSError, match="not a regular file"):
            read_whole(path, 10)
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(tmp_path / "pipe", os.O_WRONLY)


def test_a_temporary_file_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "temporary")
    with pytest.raises(DestinationError):
        publish(tmp_path / "temporary", tmp_path / "final")
    assert not (tmp_path / "final").exists()


def test_files_and_streams_have_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")

    assert read_whole(path, 5) == b"12345"
    with pytest.raises(OSError, match="has 5 B; at most 4 B are read"):
        read_whole(path, 4)
    with path.open("rb") as stream:
        assert read_stream(stream, 5) == b"12345"
    with path.open("rb") as stream, pytest.raises(OSError, match="does not end after 4 B"):
        read_stream(stream, 4)


def test_a_stream_that_a_user_gives_is_read(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"0\t1\ta.jpg\n")
    os.close(writing)

    assert read_whole(f"/dev/fd/{reading}") == b"0\t1\ta.jpg\n"
    os.close(reading)


@pytest.mark.parametrize("kind", ["pipe", "link to a device", "link to nothing", "left pipe"])
def test_what_has_the_name_of_a_manifest_makes_way(
    kind: str, made: Path, tmp_path: Path, run_here: Call
) -> None:
    manifest = tmp_path / "manifest.json"
    if kind == "pipe":
        _pipe(manifest)
    elif kind == "left pipe":
        (tmp_path / ".dsprep").mkdir()
        _pipe(tmp_path / ".dsprep" / "replaced.json")
    else:
        manifest.symlink_to("/dev/zero" if kind == "link to a device" else "nowhere")
    done = run_here("pack", made / "images", tmp_path, "--format", "recordio", "--overwrite", "-q")
    assert (done.code, done.err) == (0, "")
    assert run_here("verify", tmp_path, "-q").code == 0


def test_a_directory_with_the_name_of_a_manifest_stays(
    made: Path, tmp_path: Path, run_here: Call
) -> None:
    (tmp_path / "manifest.json").mkdir()
    (tmp_path / "manifest.json" / "mine").touch()
    for _ in range(2):
        done = run_here("pack", made / "images", tmp_path, "--format", "recordio", "--overwrite")
        assert done.code == 5
        assert "manifest.json: is a directory; remove it" in done.err
    assert [str(each.relative_to(tmp_path)) for each in sorted(tmp_path.rglob("*"))] == [
        "manifest.json",
        "manifest.json/mine",
    ]
