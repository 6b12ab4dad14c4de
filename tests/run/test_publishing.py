"""A shard that has its final name is on the disk, whatever fails while the next one is written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attack.trees import contents, names
from tests.conftest import Finished
from tests.images import image_folder

RunCli = Callable[..., Finished]

COMMAND = ("--format", "tfrecord", "--shards", "5", "-j2")

# Changes calls of the system in all processes of a run. Each adds a line to the file `log`.
PATCHES = """
import os, signal, time

fsync, replace = os.fsync, os.replace

def log(*words):
    with open(os.environ["LOG"], "a") as file:
        file.write(" ".join(map(str, words)) + "\\n")

def name_of(fd):
    return os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))

def logged_fsync(fd):
    before(name_of(fd))
    fsync(fd)
    log("synced", name_of(fd))

def logged_replace(source, target, **options):
    between(os.path.basename(target))
    replace(source, target, **options)
    log("named", os.path.basename(target))

os.fsync, os.replace = logged_fsync, logged_replace
before = between = lambda name: None
"""


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("publishing") / "photos"
    image_folder(root, ("a", "b"), 20)
    return root


@pytest.fixture
def run_with(run_cli: RunCli, photos: Path, tmp_path: Path) -> Callable[[str], Finished]:
    """Pack with a patch; the file `log` says what was called."""

    def run(patch: str) -> Finished:
        (tmp_path / "sitecustomize.py").write_text(PATCHES + patch)
        path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
        env = {"PYTHONPATH": path, "LOG": str(tmp_path / "log")}
        return run_cli("pack", photos, tmp_path / "out", *COMMAND, env=env)

    return run


@pytest.fixture(scope="module")
def undisturbed(
    run_here: RunCli, photos: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, bytes]:
    """What the command writes that nobody disturbs."""
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    assert run_here("pack", photos, out, *COMMAND).code == 0
    return contents(out)


def shards(path: Path) -> list[str]:
    return [name for name in names(path) if name.endswith(".tfrecord")]


def test_a_shard_is_on_the_disk_before_it_has_its_name(
    run_with: Callable[[str], Finished], tmp_path: Path
) -> None:
    assert run_with("").code == 0
    log = (tmp_path / "log").read_text().splitlines()
    for name in shards(tmp_path / "out"):
        of_it = [line for line in log if name in line]
        assert of_it == [f"synced {name}", f"named {name}", f"named {name}.json"]


def test_the_next_shard_is_written_while_the_disk_takes_one(
    run_with: Callable[[str], Finished], tmp_path: Path
) -> None:
    """The first shards wait for one that a worker can only begin while it waits."""
    wait = f"""
def before(name):
    number = name[6:11]
    until = time.monotonic() + 60
    while number in ("00000", "00001") and time.monotonic() < until:
        found = os.walk({str(tmp_path / "out")!r})
        if any("00003" in name for _, _, names in found for name in names):
            log("waited", name)
            return
        time.sleep(0.01)
"""
    assert run_with(wait).code == 0
    assert (tmp_path / "log").read_text().count("waited") == 2


SHARD, RECEIPT = "train-{:05}-of-00005.tfrecord", "train-{:05}-of-00005.tfrecord.json"


@pytest.mark.parametrize(
    ("where", "name", "number", "action", "code"),
    [
        ("before", SHARD, 0, "raise OSError(5, 'Input/output error')", 5),
        ("before", SHARD, 4, "os.kill(os.getpid(), signal.SIGKILL)", 6),
        ("between", SHARD, 4, "raise OSError(28, 'No space left on device')", 5),
        ("between", SHARD, 0, "os.kill(os.getpid(), signal.SIGKILL)", 6),
        ("between", RECEIPT, 0, "raise OSError(28, 'No space left on device')", 5),
        ("between", RECEIPT, 4, "os.kill(os.getpid(), signal.SIGKILL)", 6),
    ],
)
def test_a_run_that_fails_while_it_publishes_goes_on(
    run_with: Callable[[str], Finished],
    run_here: RunCli,
    photos: Path,
    undisturbed: dict[str, bytes],
    tmp_path: Path,
    where: str,
    name: str,
    number: int,
    action: str,
    code: int,
) -> None:
    name = name.format(number)
    failed = run_with(f"def {where}(name):\n    if name == {name!r}: {action}")
    assert failed.code == code, failed.err
    synced = (tmp_path / "log").read_text()
    assert "manifest.json" not in names(tmp_path / "out")
    assert all(f"synced {name}" in synced for name in shards(tmp_path / "out"))
    assert name not in shards(tmp_path / "out")
    assert run_here("pack", photos, tmp_path / "out", *COMMAND).code == 0
    assert contents(tmp_path / "out") == undisturbed
