"""The worker processes: results, errors, deaths."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from dsprep.errors import DamagedShard, DsprepError, RunStopped
from dsprep.progress import Waits
from dsprep.workers.pool import Pool, available_cores

# Workers import functions by name, so these are functions that stand in an importable module.
from tests.workers import called


def test_results_are_in_order() -> None:
    with Pool(3) as pool:
        assert pool.map(called.slow_square, range(20)) == [number**2 for number in range(20)]
        assert pool.map(called.slow_square, []) == []


@pytest.mark.parametrize(("patience", "workers"), [(60.0, 1), (0.01, 2)])
def test_brief_calls_wait_for_a_busy_worker(
    patience: float, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsprep.workers.pool._PATIENCE", patience)
    with Pool(2) as pool:
        assert len(set(pool.map(called.brief_pid, [0.1] * workers * 2))) == workers


def test_brief_calls_do_not_wait_for_a_caller_that_was_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]  # the patience ends when this test says so, however long a worker takes to start
    monkeypatch.setattr("dsprep.workers.pool.monotonic", lambda: now[0])
    with Pool(2) as pool:
        run = pool.run(called.brief_pid, [0.0, 60.0, 0.0])
        _, first = next(run)  # the second call has begun
        now[0] = 1.0
        _, third = next(run)
        assert first != third


def test_idle_workers_import_ahead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = f"import os, pathlib; pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch()"
    (tmp_path / "imported_ahead.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("dsprep.workers.pool._LONG_IDLE", 0.01)
    with Pool(2, ["imported_ahead"]) as pool:
        workers = set(pool.map(called.pid, [0] * 4))
        assert len(workers) == 2
        deadline = time.monotonic() + 60
        while not all((tmp_path / str(pid)).exists() for pid in workers):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_progress_reaches_the_caller() -> None:
    told: list[tuple[Any, ...]] = []
    with Pool(2) as pool:
        results = dict(pool.run(called.reporting, [5, 7], lambda *args: told.append(args)))
    assert results == {0: 5, 1: 7}
    assert sorted(told) == [(5, "half"), (7, "half")]


def test_what_a_worker_waits_for_is_told_here(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    waits = Waits()
    waits.listen(told.append)
    monkeypatch.setattr("dsprep.workers.pool.WAITS", waits)
    with Pool(1) as pool:
        assert pool.map(called.waiting, [1, 2]) == [1, 2]
    assert told[0] == "waiting for 1"


def test_while_a_call_only_waits_its_worker_begins_the_next(tmp_path: Path) -> None:
    beats: list[int] = []
    with Pool(2) as pool:
        places = [(str(tmp_path), number) for number in range(4)]
        run = pool.run(
            called.waiting_for_the_next,
            places,
            lambda: None,
            lambda: beats.append(len(pool._workers)),
        )
        assert dict(run) == {number: number for number in range(4)}
    assert max(beats) <= 2


@pytest.mark.parametrize(
    ("ends", "error", "text"),
    [("fails", DamagedShard, "broken"), ("dies", RunStopped, "killed by signal 9")],
)
def test_a_call_that_only_waits_ends_the_run_with_its_error(
    ends: str, error: type[Exception], text: str
) -> None:
    with Pool(1) as pool, pytest.raises(error, match=text):
        pool.map(called.failing_while_it_waits, [ends, "sleeps", "does not begin"])


def test_a_call_that_only_waits_is_done_before_an_error_is_raised(tmp_path: Path) -> None:
    done = []
    places = [(str(tmp_path), number) for number in (0, 1)]
    with Pool(1) as pool, pytest.raises(DamagedShard, match="broken"):
        for _, answer in pool.run(called.ending_after_the_next_fails, places):
            done.append(answer)
    assert done == [0]


@pytest.mark.parametrize(
    ("error", "raised", "text"),
    [(MemoryError, DsprepError, "ran out of memory"), (TypeError, RuntimeError, "TypeError")],
)
def test_a_result_that_cannot_be_sent_is_an_error_not_a_hang(
    error: type[Exception], raised: type[Exception], text: str
) -> None:
    with Pool(1) as pool, pytest.raises(raised, match=text):
        pool.map(called.answering_what_cannot_be_sent, [error, None])


def test_large_arguments_and_results_travel() -> None:
    with Pool(2) as pool:
        blob = os.urandom(5_000_000)
        assert pool.map(called.reverse, [blob, blob[::-1]]) == [blob[::-1], blob]


def test_an_error_comes_out_whole() -> None:
    with Pool(2) as pool, pytest.raises(DamagedShard, match="x.rec: at byte 7: broken") as caught:
        pool.map(called.damaged, [1])
    assert caught.value.offset == 7


def test_a_bug_in_a_worker_shows_its_traceback() -> None:
    with Pool(1) as pool, pytest.raises(RuntimeError, match="ZeroDivisionError"):
        pool.map(called.divide, [0])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_dead_worker_is_an_error_not_a_hang(number: int) -> None:
    with Pool(2) as pool, pytest.raises(RunStopped, match=f"killed by signal {number:d}"):
        pool.map(called.die, [number, 0, 0])


def test_what_a_worker_prints_does_not_disturb() -> None:
    with Pool(1) as pool:
        assert pool.map(called.chatter, [1, 2]) == [1, 2]


def test_the_workers_end_with_the_pool() -> None:
    with Pool(2) as pool:
        pids = pool.map(called.pid, [0, 0])
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_worker_is_started_for_a_task_and_no_earlier() -> None:
    with Pool(50) as pool:
        assert pool.map(called.pid, []) == []
        assert not pool._workers
        (first,) = pool.map(called.pid, [0])
        assert len(set(pool.map(called.pid, [0, 0, 0])) - {first}) <= 2
        assert len(pool._workers) <= 3


def test_more_workers_than_a_machine_can_use_are_refused(run_here: Any, tmp_path: Path) -> None:
    done = run_here("pack", tmp_path, tmp_path / "out", "--format", "webdataset", "-j", 5000)
    assert done.code == 2
    assert "--workers 5000: give at most" in done.err


def test_a_worker_that_cannot_be_started_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with Pool(2) as pool, pytest.raises(RunStopped, match="cannot be started .* fewer --workers"):
        pool.map(called.pid, [0])


@pytest.mark.parametrize("at_work", ["report_for_ever", "sleep_for_ever"])
def test_orphans_end_by_themselves(at_work: str, tmp_path: Path) -> None:
    """Kill the parent of workers that are in the middle of something."""
    script = f"""
        import sys
        from dsprep.workers.pool import Pool
        from tests.workers import called
        with Pool(2) as pool:
            for _ in pool.run(called.{at_work}, [sys.argv[1]] * 2, lambda *_: None):
                pass
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script), str(tmp_path)])
    try:
        _wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
        pids = [int(path.name) for path in tmp_path.iterdir()]
    finally:
        parent.kill()
        parent.wait()
    _wait_until(lambda: not any(_runs(pid) for pid in pids))


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _wait_until(true: Any) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_cores_are_those_of_this_process() -> None:
    assert available_cores() == len(os.sched_getaffinity(0))
