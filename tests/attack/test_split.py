"""Whatever happens to a split, its lists are those of one split, and no file is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dsprep.lists.store import read_list
from tests.attack.trees import contents, names
from tests.conftest import Finished, Running
from tests.limits import bound_to_permissions, no_file_above, small_disk

RunCli = Callable[..., Finished]
StartCli = Callable[..., Running]

SIDES = ("train", "val", "test")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Four hundred files of two classes."""
    return write_files(tmp_path / "root", 400)


def write_files(root: Path, count: int) -> Path:
    for name in ("cat", "dog"):
        (root / name).mkdir(parents=True)
    for number in range(count):
        (root / ("cat", "dog")[number % 2] / f"{number:04}.jpg").write_bytes(b"%d" % number)
    return root


@pytest.fixture
def lst(tmp_path: Path) -> Path:
    """A list of a hundred thousand samples."""
    path = tmp_path / "all.lst"
    path.write_text("".join(f"{n}\t{n % 10}\t{n % 10}/{n}.jpg\n" for n in range(100_000)))
    return path


def listed(out: Path) -> dict[str, list[str]]:
    """The paths of each list that is there."""
    return {
        path.stem: read_list(str(path)).table["path"].to_list()
        for path in sorted(out.glob("*.lst"))
    }


def assert_disjoint(lists: dict[str, list[str]]) -> None:
    """No sample is on two sides, as it would be were they lists of two splits."""
    every = [path for paths in lists.values() for path in paths]
    assert len(set(every)) == len(every)


def kill_after(running: Running, seconds: float) -> Finished:
    try:
        running.process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.kill(running.process.pid, signal.SIGKILL)
    return running.end()


def wait_for(path: Path, running: Running) -> None:
    while running.process.poll() is None and not path.exists():
        time.sleep(0.001)


def how_long(run: Callable[[], Finished]) -> float:
    began = time.monotonic()
    assert run().code == 0
    return time.monotonic() - began


@pytest.mark.slow
class TestAKill:
    def test_leaves_lists_of_one_split(
        self, run_cli: RunCli, run_here: RunCli, start_cli: StartCli, lst: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "out"
        seconds = how_long(lambda: run_cli("split", lst, "-o", out))
        for seed in range(1, 9):
            command = ("split", lst, "-o", out, "--overwrite", "--seed", seed)
            kill_after(start_cli(*command), seconds * (0.4 + seed / 12))
            assert_disjoint(listed(out))
            assert {name for name in names(out) if name[0] != "."} <= {f"{s}.lst" for s in SIDES}
        assert run_here("split", lst, "-o", out, "--overwrite").code == 0
        assert names(out) == sorted(f"{side}.lst" for side in SIDES)
        assert sum(map(len, listed(out).values())) == 100_000

    @pytest.mark.parametrize("way", ["hardlink", "copy", "symlink"])
    def test_of_a_tree_is_made_good_by_the_same_command(
        self, run_here: RunCli, start_cli: StartCli, root: Path, tmp_path: Path, way: str
    ) -> None:
        command = ("split", root, "--materialize", way, "-o")
        assert run_here(*command, tmp_path / "whole").code == 0
        whole = contents(tmp_path / "whole")
        stopped = 0
        for turn, side in enumerate(("train", "train", "val", "test", "test")):
            out = tmp_path / f"out{turn}"
            running = start_cli(*command, out)
            wait_for(out / side, running)
            killed = kill_after(running, turn % 2 * 0.005)
            stopped += killed.code != 0
            found = {name: data for name, data in contents(out).items() if "/." not in f"/{name}"}
            assert found.items() <= whole.items()
            assert run_here(*command, out).code == 0
            assert contents(out) == whole
        assert stopped


class TestADisk:
    @pytest.fixture
    def small(self, tmp_path: Path) -> Iterator[Path]:
        with small_disk(tmp_path / "disk", "1m") as disk:
            yield disk

    def test_that_is_full_leaves_what_was_there(
        self, run_cli: RunCli, lst: Path, small: Path
    ) -> None:
        few = lst.with_name("few.lst")
        few.write_text("".join(f"{number}\t0\t{number}.jpg\n" for number in range(20)))
        out = small / "out"
        assert run_cli("split", few, "-o", out).code == 0
        before = contents(out)
        refused = run_cli("split", lst, "-o", out, "--overwrite")
        assert refused.code == 5
        assert "disk is full" in refused.err
        assert contents(out) == before
        refused = run_cli("split", lst, "-o", small / "new")
        assert refused.code == 5
        assert contents(small / "new") == {}

    def test_that_refuses_large_files_leaves_what_was_there(
        self, run_cli: RunCli, lst: Path, tmp_path: Path
    ) -> None:
        refused = run_cli("split", lst, "-o", tmp_path / "out", under=no_file_above(500_000))
        assert refused.code == 5
        assert "limits of this process" in refused.err
        assert contents(tmp_path / "out") == {}

    def test_that_fills_up_with_copies_is_continued(
        self, run_cli: RunCli, small: Path, tmp_path: Path
    ) -> None:
        root = tmp_path / "large"
        (root / "cat").mkdir(parents=True)
        for number in range(40):
            (root / "cat" / f"{number}.jpg").write_bytes(bytes([number]) * 20_000)
        (small / "filler").write_bytes(bytes(500_000))
        command = ("split", root, "-o", small / "out", "--materialize", "copy")
        refused = run_cli(*command)
        assert refused.code == 5
        assert "disk is full" in refused.err
        assert not list((small / "out").glob("*.lst"))
        assert not list((small / "out").rglob(".split*"))
        (small / "filler").unlink()
        left = small / "out" / "train" / "of another split" / ".split.partial"
        left.parent.mkdir()
        left.write_bytes(bytes(1000))  # by a run that was killed
        assert run_cli(*command).code == 0
        assert not left.exists()
        assert sum(map(len, listed(small / "out").values())) == 40

    def test_that_no_hard_link_reaches_is_told(
        self, run_cli: RunCli, root: Path, small: Path
    ) -> None:
        refused = run_cli("split", root, "-o", small / "out", "--materialize", "hardlink")
        assert refused.code == 5
        assert "--materialize symlink or copy" in refused.err

    def test_that_may_not_be_written_is_told(
        self, run_cli: RunCli, lst: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "closed").mkdir(mode=0o500)
        for out in (tmp_path / "closed", tmp_path / "closed" / "new"):
            refused = run_cli("split", lst, "-o", out, under=bound_to_permissions())
            assert refused.code == 5
            assert "permission denied" in refused.err
        refused = run_cli("split", lst, "-o", lst)
        assert refused.code == 5


class TestHostile:
    def write(self, tmp_path: Path, *paths: str) -> Path:
        lines = (f"{number}\t0\t{path}\n" for number, path in enumerate(paths))
        (tmp_path / "hostile.lst").write_text("".join(lines))
        return tmp_path / "hostile.lst"

    @pytest.mark.parametrize(
        "path", ["../secret", "a/../../secret", "/etc/passwd", "..", "a/..", "x\0y"]
    )
    def test_paths_that_lead_outside_are_refused(
        self, run_here: RunCli, tmp_path: Path, path: str
    ) -> None:
        (tmp_path / "secret").write_text("secret")
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "ok.jpg").touch()
        lst = self.write(tmp_path, "ok.jpg", path)
        for options in ((), ("--root", tmp_path / "in", "--materialize", "copy")):
            refused = run_here("split", lst, "-o", tmp_path / "out", *options)
            assert refused.code == 4
            assert "hostile.lst:2" in refused.err
            assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("name", ["..", "../..", "/tmp/x", ".", "a/../../b"])
    def test_classes_that_lead_outside_are_refused(
        self, run_here: RunCli, tmp_path: Path, name: str
    ) -> None:
        (tmp_path / "in").mkdir()
        for number in range(10):
            (tmp_path / "in" / f"{number}.jpg").touch()
        lst = self.write(tmp_path, *(f"{number}.jpg" for number in range(10)))
        (tmp_path / "classes.txt").write_text(f"{name}\n")
        before = names(tmp_path)
        command = ("split", lst, "--root", tmp_path / "in", "-o", tmp_path / "out")
        refused = run_here(*command, "--materialize", "hardlink")
        assert refused.code == 4
        assert "cannot be a place below the output" in refused.err
        assert names(tmp_path) == before

    @pytest.mark.parametrize("way", ["hardlink", "symlink", "copy"])
    @pytest.mark.parametrize("planted", ["train", "train/cat"])
    def test_links_in_the_output_are_not_followed(
        self, run_here: RunCli, root: Path, tmp_path: Path, way: str, planted: str
    ) -> None:
        elsewhere, out = tmp_path / "elsewhere", tmp_path / "out"
        elsewhere.mkdir()
        (out / planted).parent.mkdir(parents=True)
        (out / planted).symlink_to(elsewhere)
        before = contents(root)
        refused = run_here("split", root, "-o", out, "--materialize", way)
        assert refused.code == 5
        assert "remove" in refused.err
        assert names(elsewhere) == []
        assert contents(root) == before

    def test_a_link_at_a_list_s_place_is_not_written_through(
        self, run_here: RunCli, root: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "out"
        out.mkdir()
        (tmp_path / "victim").write_text("precious")
        (out / "train.lst").symlink_to(tmp_path / "victim")
        (out / ".split").symlink_to(tmp_path)
        assert run_here("split", root, "-o", out).code == 5
        assert run_here("split", root, "-o", out, "--overwrite").code == 0
        assert (tmp_path / "victim").read_text() == "precious"
        assert not (out / "train.lst").is_symlink()

    @pytest.mark.parametrize("way", ["hardlink", "symlink", "copy"])
    def test_files_of_others_are_refused_and_stay(
        self, run_here: RunCli, root: Path, tmp_path: Path, way: str
    ) -> None:
        out = tmp_path / "out"
        for place in ("val/cat/stranger.jpg", "val/notes.txt"):
            (out / place).parent.mkdir(parents=True, exist_ok=True)
            (out / place).write_text("mine")
            refused = run_here("split", root, "-o", out, "--materialize", way, "--overwrite")
            assert refused.code == 5
            assert f"{place}: is not of this split" in refused.err
            assert contents(out) == {place: b"mine"}
            (out / place).unlink()
        assert len(contents(root)) == 400

    @pytest.mark.parametrize("way", ["hardlink", "symlink", "copy"])
    def test_a_file_in_another_s_place_is_refused_and_stays(
        self, run_here: RunCli, root: Path, tmp_path: Path, way: str
    ) -> None:
        assert run_here("split", root, "-o", tmp_path / "plan").code == 0
        taken = listed(tmp_path / "plan")["val"][0]
        out = tmp_path / "out"
        (out / "val" / taken).parent.mkdir(parents=True)
        (out / "val" / taken).write_text("mine")
        refused = run_here("split", root, "-o", out, "--materialize", way)
        assert refused.code == 5
        assert f"{taken}: is there already" in refused.err
        assert (out / "val" / taken).read_text() == "mine"
        assert len(contents(root)) == 400

    def test_another_split_s_tree_is_not_mixed_in(
        self, run_here: RunCli, root: Path, tmp_path: Path
    ) -> None:
        command = ("split", root, "-o", tmp_path / "out", "--materialize", "hardlink")
        assert run_here(*command).code == 0
        before = contents(tmp_path / "out")
        refused = run_here(*command, "--overwrite", "--seed", 1)
        assert refused.code == 5
        assert "is not of this split" in refused.err
        assert contents(tmp_path / "out") == before

    def test_a_tree_among_its_own_images_is_refused(self, run_here: RunCli, root: Path) -> None:
        for out in (root, root / "split", root / "cat" / "deeper"):
            refused = run_here("split", root, "-o", out, "--materialize", "hardlink")
            assert refused.code == 2
            assert "choose a directory outside" in refused.err
        assert len(contents(root)) == 400


class TestWhatIsRead:
    def test_is_never_replaced(self, run_here: RunCli, lst: Path, tmp_path: Path) -> None:
        for name in ("train.lst", "val.lst"):
            source = tmp_path / name
            lst.rename(source)
            before = source.read_bytes()
            for options in ((), ("--overwrite",)):
                refused = run_here("split", name, "-o", ".", *options, cwd=tmp_path)
                assert refused.code == 2
                assert "is what this command reads" in refused.err
                assert names(tmp_path) == [name]
            assert source.read_bytes() == before
            source.rename(lst)

    def test_is_never_replaced_under_another_name(
        self, run_here: RunCli, lst: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "out"
        out.mkdir()
        (out / "test.lst").symlink_to(lst)
        refused = run_here("split", lst, "-o", out, "--overwrite")
        assert refused.code == 2
        assert (out / "test.lst").is_symlink()


class TestTwoSplits:
    def test_of_one_directory_do_not_mix(
        self, start_cli: StartCli, lst: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "out"
        together = [
            start_cli("split", lst, "-o", out, "--overwrite", "--seed", seed) for seed in range(4)
        ]
        finished = [running.end() for running in together]
        assert {each.code for each in finished} <= {0, 5}
        assert any(each.code == 0 for each in finished)
        assert all("another dsprep run" in each.err for each in finished if each.code == 5)
        assert names(out) == sorted(f"{side}.lst" for side in SIDES)
        assert_disjoint(listed(out))
        assert sum(map(len, listed(out).values())) == 100_000


def test_one_sample_is_too_few_for_three_sides(run_here: RunCli, tmp_path: Path) -> None:
    (tmp_path / "one.lst").write_text("7\t0\ta.jpg\n")
    for options in ((), ("--stable",), ("--folds", "2"), ("--group", "a")):
        refused = run_here("split", tmp_path / "one.lst", "-o", tmp_path / "out", *options)
        assert refused.code == 4
        assert "empty" in refused.err
    done = run_here("split", tmp_path / "one.lst", "-o", tmp_path / "out", "--ratio", "all=1")
    assert done.code == 0
    assert (tmp_path / "out" / "all.lst").read_text() == "7\t0\ta.jpg\n"
