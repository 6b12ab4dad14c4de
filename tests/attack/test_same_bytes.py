"""The same command gives the same bytes: with any workers, anywhere, killed or not."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.attack.trees import contents, names, places
from tests.conftest import Finished, Running
from tests.images import bmp, jpeg, png, truncated

RunCli = Callable[..., Finished]

VARIANTS = {
    "many shards": ("--format", "webdataset", "--samples-per-shard", "2", "--metadata"),
    "gzip": ("--format", "tfrecord", "--compression", "gzip", "--shards", "9"),
    "sidecars": ("--format", "recordio", "--samples-per-shard", "3", "--no-shuffle"),
    "resized": ("--format", "tfrecord", "--target-size", "20KB", "--resize", "48"),
    "list": ("--format", "recordio", "--list", "train.lst", "--samples-per-shard", "2"),
    "one file in pieces": ("train.tar",),
    "one file in pieces, resized": ("train.rec", "--resize", "64", "--encode", "jpeg"),
}


def write_images(root: Path, *, backwards: bool = False) -> None:
    """Sixty-four images, three of them bad, and a hidden directory."""
    images = {
        f"{'ace'[number % 3]}/{number:02}.{kind}": (jpeg if kind == "jpg" else png)(number)
        for number in range(60)
        for kind in [("jpg", "png")[number % 7 == 0]]
    }
    images |= {"a/empty.jpg": b"", "c/cut.jpg": truncated(jpeg(3)), "e/zero.png": bytes(99)}
    images |= {"e/Ünï.JPEG": png(61), ".ipynb_checkpoints/00.jpg": jpeg(0), "a/notes.txt": b"-"}
    for path, data in sorted(images.items(), reverse=backwards):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)


def write_large_images(root: Path) -> None:
    """Fifty megabytes in small files: what makes one shard that several workers write."""
    root.mkdir(parents=True)
    images = [bmp(number, (100, 100)) for number in range(10)]
    for number in range(1660):
        (root / f"{number:04}.bmp").write_bytes(images[number % 10])
    (root / "cut.bmp").write_bytes(truncated(images[0]))


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directories `small` and `large`, and a list."""
    directory = tmp_path_factory.mktemp("sources")
    write_images(directory / "small")
    write_large_images(directory / "large")
    (directory / "train.lst").write_text(
        "".join(f"{3 * n}\t{n % 3}\t{'ace'[n % 3]}/{n:02}.jpg\n" for n in range(60))
    )
    return directory


def command(variant: str, sources: Path, dest: Path) -> list[object]:
    """The arguments of a variant that packs into a directory, `out`."""
    first, *rest = VARIANTS[variant]
    if first.startswith("train"):
        return ["pack", sources / "large", dest / first, *rest]
    rest = [str(sources / each) if each.endswith(".lst") else each for each in rest]
    return ["pack", sources / "small", dest, first, *rest]


@pytest.fixture(scope="module")
def undisturbed(
    run_here: RunCli, sources: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], dict[str, bytes]]:
    """What one worker makes of a variant that nobody disturbs."""
    made: dict[str, dict[str, bytes]] = {}

    def make(variant: str) -> dict[str, bytes]:
        if variant not in made:
            dest = tmp_path_factory.mktemp("undisturbed")
            assert run_here(*command(variant, sources, dest), "-j1").code == 3
            made[variant] = contents(dest)
        return made[variant]

    return make


@pytest.mark.parametrize("variant", VARIANTS)
class TestSameBytes:
    def test_with_any_number_of_workers(
        self,
        run_here: RunCli,
        sources: Path,
        tmp_path: Path,
        undisturbed: Callable[[str], dict[str, bytes]],
        variant: str,
    ) -> None:
        assert run_here(*command(variant, sources, tmp_path), "-j4").code == 3
        assert contents(tmp_path) == undisturbed(variant)

    def test_on_another_machine(
        self,
        run_cli: RunCli,
        sources: Path,
        tmp_path: Path,
        undisturbed: Callable[[str], dict[str, bytes]],
        variant: str,
    ) -> None:
        """Other paths, times, directory orders, hash seeds and surroundings."""
        elsewhere = tmp_path / "elsewhere"
        if VARIANTS[variant][0].startswith("train"):
            shutil.copytree(sources / "large", elsewhere / "large", copy_function=shutil.copy)
        else:
            write_images(elsewhere / "small", backwards=True)
            shutil.copy(sources / "train.lst", elsewhere)
        (tmp_path / "link").symlink_to("elsewhere")
        verb, source, dest, *options = command(variant, Path("link"), Path("out"))
        surroundings = {
            "PYTHONHASHSEED": "12345",
            "TZ": "Pacific/Kiritimati",
            "LC_ALL": "C",
            "HOME": "/nowhere",
            "COLUMNS": "20",
        }
        done = run_cli(verb, f"{source}/", dest, *options, cwd=tmp_path, env=surroundings)
        assert done.code == 3
        assert contents(tmp_path / "out") == undisturbed(variant)

    def test_which_tell_nothing_of_this_machine(
        self, sources: Path, undisturbed: Callable[[str], dict[str, bytes]], variant: str
    ) -> None:
        for name, data in undisturbed(variant).items():
            assert str(sources.parent).encode() not in data, name
            assert socket.gethostname().encode() not in data or len(socket.gethostname()) < 5
            assert os.uname().release.encode() not in data, name

    def test_after_kills(
        self,
        run_here: RunCli,
        start_cli: Callable[..., Running],
        sources: Path,
        tmp_path: Path,
        undisturbed: Callable[[str], dict[str, bytes]],
        variant: str,
    ) -> None:
        whole = undisturbed(variant)
        rng = random.Random(variant)
        dest = tmp_path / "out"
        args = command(variant, sources, dest)
        published: dict[str, tuple[int, int]] = {}
        for _ in range(3):
            in_pieces = "pieces" in variant
            running = start_cli(*args, "-j", rng.choice((2, 3) if in_pieces else (1, 2, 3)))
            noted = 0 if variant == "one file in pieces" else 1 if in_pieces else 8
            wait_for_progress(running, dest, rng, noted)
            kill = rng.choice((os.kill, os.killpg))
            with suppress(ProcessLookupError):  # it was faster
                kill(running.process.pid, signal.SIGKILL)
            running.process.wait()
            wait_for_end_of_family(running)

            found = {name: data for name, data in contents(dest).items() if not hidden(name)}
            assert found.items() <= whole.items(), "a file that has its name is whole"
            shards = {name: at for name, at in places(dest).items() if name in found}
            assert published.items() <= shards.items(), "what was done is not done again"
            # A shard is done when it has a receipt, and all are when there is a manifest.
            noted = shards if "manifest.json" in found else [path.stem for path in receipts(dest)]
            stems = {Path(name).stem for name in noted}
            published = {
                name: at for name, at in shards.items() if "000" in name if Path(name).stem in stems
            }

        assert run_here(*args, "-j2").code == 3
        assert contents(dest) == whole
        assert published.items() <= places(dest).items()


def hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))


def wait_for_progress(running: Running, dest: Path, rng: random.Random, most: int) -> None:
    """Wait until some more shards, or pieces, are noted; or for a random time."""
    if rng.random() < 0.3 or not most:
        time.sleep(rng.uniform(0, 1.2))
        return
    wanted = shards_noted(dest) + rng.randint(1, most)
    while running.process.poll() is None and shards_noted(dest) < wanted:
        time.sleep(0.002)


def receipts(dest: Path) -> list[Path]:
    found: list[Path] = []
    for directory, _, files in os.walk(dest):  # unlike glob, it ignores what vanishes meanwhile
        if directory.endswith("/receipts"):
            found += [Path(directory, name) for name in files if name.endswith(".json")]
    return found


def shards_noted(dest: Path) -> int:
    return len(receipts(dest))


def wait_for_end_of_family(running: Running) -> None:
    for _ in range(300):
        if not running.family():
            return
        time.sleep(0.1)
    raise AssertionError("workers that nobody is waiting for")


def test_a_destination_below_the_source_makes_no_difference(
    run_here: RunCli, start_cli: Callable[..., Running], tmp_path: Path
) -> None:
    write_images(tmp_path / "a")
    write_images(tmp_path / "b")
    options = ("--format", "webdataset", "--samples-per-shard", "1")
    assert run_here("pack", ".", tmp_path / "out", *options, cwd=tmp_path / "a").code == 3
    dest = tmp_path / "b" / "shards"
    running = start_cli("pack", tmp_path / "b", dest, *options, "-j1")
    while running.process.poll() is None and shards_noted(dest) < 20:
        time.sleep(0.002)
    running.process.kill()
    assert running.end().code == -signal.SIGKILL
    assert names(dest)
    assert run_here("pack", ".", "shards", *options, cwd=tmp_path / "b").code == 3
    assert contents(dest) == contents(tmp_path / "out")
    again = run_here("pack", "b", "b/shards", *options, cwd=tmp_path)
    assert (again.code, "already packed" in again.out) == (3, True)
