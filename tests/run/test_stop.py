"""Whatever stops a run stops it at once, says how to go on, and leaves nothing half done."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.attack.trees import contents, names, rejects
from tests.conftest import Finished, Running
from tests.images import jpeg

RunCli = Callable[..., Finished]
StartCli = Callable[..., Running]

SLOW = ("--format", "webdataset", "--samples-per-shard", "10", "--resize", "100", "-j2")
"""Some five seconds of work."""

SOON = 20.0
"""Seconds; no more than the machine being busy with other tests explains."""

HIDING = """
import os, signal, sys, time
from dsprep.cli import main

def end(*_):
    os.kill(os.getpid(), signal.SIGTERM)

def work(**_):
    eval(sys.argv[1])
    time.sleep(30)
    print("done")

main.cli.main = work
main.main()
"""
"""A command that a signal ends while a class is made, or an object is freed."""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A thousand names of one photograph."""
    root = tmp_path_factory.mktemp("many") / "many"
    root.mkdir()
    (root / "0000.jpg").write_bytes(jpeg(0, (800, 600)))
    for number in range(1, 1000):
        (root / f"{number:04}.jpg").hardlink_to(root / "0000.jpg")
    return root


def wait_until(condition: Callable[[], object]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never happened")


def wait_for_end(running: Running) -> None:
    wait_until(lambda: not running.family())


def shards(dest: Path) -> list[str]:
    return [name for name in names(dest) if name.startswith("train")]


def assert_stopped(running: Running, dest: Path) -> Finished:
    """It ends soon, all of its processes do, and what has its name is whole."""
    finished = running.end(timeout=SOON)
    wait_for_end(running)
    assert "manifest.json" not in names(dest)
    assert not [name for name in contents(dest) if "partial-" in name]
    for name in shards(dest):
        assert (dest / name).read_bytes().endswith(bytes(1024))
    return finished


class TestASignal:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    @pytest.mark.parametrize("to_all", [False, True])
    def test_while_shards_are_written(
        self,
        run_cli: RunCli,
        start_cli: StartCli,
        many: Path,
        tmp_path: Path,
        number: int,
        to_all: bool,
    ) -> None:
        dest = tmp_path / "out"
        running = start_cli("pack", many, dest, *SLOW)
        wait_until(lambda: shards(dest))
        (os.killpg if to_all else os.kill)(running.process.pid, number)
        finished = assert_stopped(running, dest)
        assert finished.code == 130
        assert finished.out == ""
        assert "of 100 shards are written" in finished.err
        assert "same command again" in finished.err
        assert len(shards(dest)) < 100

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_before_anything_is_written(
        self, start_cli: StartCli, many: Path, tmp_path: Path, number: int
    ) -> None:
        """Workers start, the source is scanned, sizes are estimated, the plan is made."""
        rng = random.Random(number)
        for _ in range(3):
            running = start_cli("pack", many, tmp_path / "a/b", *SLOW[:2], *SLOW[4:])
            wait_until(running.workers)
            time.sleep(rng.uniform(0, 0.6))
            os.killpg(running.process.pid, number)
            finished = running.end(timeout=SOON)
            assert finished.code == 130
            assert "interrupted" in finished.err
            assert len(finished.err.split("\n")) <= 3
            wait_for_end(running)
            assert names(tmp_path) == []

    def test_that_comes_again_and_again(
        self, start_cli: StartCli, many: Path, tmp_path: Path
    ) -> None:
        """Impatient people press Ctrl-C more than once."""
        dest = tmp_path / "out"
        running = start_cli("pack", many, dest, *SLOW)
        wait_until(lambda: shards(dest))
        while running.process.poll() is None:
            os.killpg(running.process.pid, signal.SIGINT)
        assert assert_stopped(running, dest).code == 130

    def test_while_shards_are_verified(
        self, run_here: RunCli, start_cli: StartCli, many: Path, tmp_path: Path
    ) -> None:
        assert run_here("pack", many, tmp_path / "out", "--format", "recordio", "-j2").code == 0
        before = contents(tmp_path)
        running = start_cli("verify", tmp_path / "out", "--decode", "--against", many)
        wait_until(running.workers)
        time.sleep(0.5)
        os.killpg(running.process.pid, signal.SIGINT)
        finished = running.end(timeout=SOON)
        assert (finished.code, "interrupted" in finished.err) == (130, True)
        wait_for_end(running)
        assert contents(tmp_path) == before

    @pytest.mark.parametrize(
        "moment",
        [
            "type('Made', (), {'name': type('Named', (), {'__set_name__': end})()})",
            "type('Freed', (), {'__del__': end})()",
        ],
    )
    def test_where_python_hides_what_is_raised(self, moment: str) -> None:
        """It raises another error in the one case, and goes on in the other."""
        finished = subprocess.run(
            [sys.executable, "-c", HIDING, moment, "status", "."],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (finished.returncode, finished.stdout) == (130, "")
        assert finished.stderr == "dsprep: interrupted; give the same command again\n"

    def test_where_stderr_cannot_be_written(self) -> None:
        code = "import os, signal; from dsprep.cli import main; "
        code += "main.cli.invoke = lambda _: os.kill(os.getpid(), signal.SIGINT); main.main()"
        command = [sys.executable, "-c", code, "status", "."]
        with open("/dev/full", "wb") as full:
            assert subprocess.run(command, stderr=full, timeout=60, check=False).returncode == 130


class TestAWorkerThatDies:
    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
    def test_while_shards_are_written(
        self, start_cli: StartCli, many: Path, tmp_path: Path, number: int
    ) -> None:
        dest = tmp_path / "out"
        running = start_cli("pack", many, dest, *SLOW)
        wait_until(lambda: shards(dest))
        os.kill(running.workers()[0], number)
        finished = assert_stopped(running, dest)
        assert finished.code == 6
        assert f"signal {int(number)}" in finished.err
        assert "same command again" in finished.err

    def test_before_anything_is_written(
        self, start_cli: StartCli, many: Path, tmp_path: Path
    ) -> None:
        for _ in range(3):
            running = start_cli("pack", many, tmp_path / "out", *SLOW)
            wait_until(running.workers)
            os.kill(running.workers()[-1], signal.SIGKILL)
            finished = running.end(timeout=SOON)
            assert finished.code == 6
            assert "signal 9" in finished.err
            wait_for_end(running)

    def test_all_at_once(self, start_cli: StartCli, many: Path, tmp_path: Path) -> None:
        dest = tmp_path / "out"
        running = start_cli("pack", many, dest, *SLOW)
        wait_until(lambda: shards(dest))
        for worker in running.workers():
            with suppress(ProcessLookupError):  # the command ends it when it sees that another died
                os.kill(worker, signal.SIGKILL)
        assert assert_stopped(running, dest).code == 6

    def test_while_shards_are_verified(
        self, run_here: RunCli, start_cli: StartCli, many: Path, tmp_path: Path
    ) -> None:
        dest = tmp_path / "out"
        assert run_here("pack", many, dest, "--format", "recordio", "--shards", 2).code == 0
        running = start_cli("verify", dest, "--decode", "-j2")
        wait_until(lambda: len(running.workers()) == 2)
        os.kill(running.workers()[0], signal.SIGKILL)
        finished = running.end(timeout=SOON)
        assert (finished.code, "signal 9" in finished.err) == (6, True)


class TestTwoRuns:
    def test_the_second_is_refused_at_once(
        self, run_here: RunCli, start_cli: StartCli, many: Path, tmp_path: Path
    ) -> None:
        dest = tmp_path / "out"
        options = ("--format", "webdataset", "--samples-per-shard", "10")
        first = start_cli("pack", many, dest, *options)
        wait_until(lambda: shards(dest))
        first.process.send_signal(signal.SIGSTOP)
        try:
            for others in ((), ("--overwrite",), ("--seed", "1"), ("--seed", "1", "--overwrite")):
                refused = run_here("pack", many, dest, *options, *others)
                assert refused.code == 5
                assert str(dest) in refused.err
                assert "another dsprep run" in refused.err
        finally:
            first.process.send_signal(signal.SIGCONT)
        assert first.end().code == 0
        assert run_here("verify", dest, "--against", many).code == 0

    def test_of_several_that_start_together_one_wins(
        self, start_cli: StartCli, many: Path, tmp_path: Path
    ) -> None:
        options = ("--format", "recordio", "--samples-per-shard", "50", "-j1")
        together = [start_cli("pack", many, tmp_path / "out", *options) for _ in range(4)]
        finished = [running.end() for running in together]
        assert {each.code for each in finished} <= {0, 5}
        won = [each for each in finished if ": packed as" in each.out]
        assert len(won) == 1
        assert ".dsprep" not in names(tmp_path / "out")


class TestASource:
    """It changes while it is packed."""

    def test_of_which_files_vanish_or_change(
        self, start_cli: StartCli, many: Path, tmp_path: Path
    ) -> None:
        source, dest = tmp_path / "source", tmp_path / "out"
        source.mkdir()
        for path in many.iterdir():
            (source / path.name).hardlink_to(path)
        running = start_cli("pack", source, dest, *SLOW, "--no-shuffle")
        wait_until(lambda: shards(dest))
        for number, data in ((997, b""), (998, jpeg(1)), (999, None)):
            path = source / f"0{number}.jpg"
            path.unlink()
            if data is not None:
                path.write_bytes(data)
        assert running.end().code == 3
        assert rejects(dest).keys() == {"0997.jpg", "0998.jpg", "0999.jpg"}
        assert all("has changed" in rejects(dest)[f"0{number}.jpg"] for number in (997, 998))
        assert "cannot be read" in rejects(dest)["0999.jpg"]

    def test_that_vanishes_is_no_heap_of_bad_samples(
        self, run_here: RunCli, start_cli: StartCli, many: Path, tmp_path: Path
    ) -> None:
        source, dest = tmp_path / "source", tmp_path / "out"
        source.mkdir()
        for path in many.iterdir():
            (source / path.name).hardlink_to(path)
        running = start_cli("pack", source, dest, *SLOW)
        wait_until(lambda: shards(dest))
        source.rename(tmp_path / "gone")
        finished = assert_stopped(running, dest)
        assert finished.code == 4
        assert str(source) in finished.err
        assert "same command again" in finished.err
        assert run_here("pack", source, dest, *SLOW).code == 4
        (tmp_path / "gone").rename(source)
        assert run_here("pack", source, dest, *SLOW).code == 0


def test_while_the_report_is_printed_harms_nothing(
    run_here: RunCli, many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dsprep.cli.report.write_lines", interrupted)
    done = run_here("pack", many, tmp_path / "out", "--to", "webdataset")
    assert (done.code, done.out) == (0, "")
    assert done.err == f"{tmp_path}/out: packed; only this report was interrupted\n"
