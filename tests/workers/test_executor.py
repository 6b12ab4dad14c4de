"""What each executor does: processes of this machine, and machines of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dsprep.errors import DamagedShard, SourceError
from dsprep.workers.cluster import Cluster
from dsprep.workers.executor import Executor, WorkerLost
from dsprep.workers.pool import Pool
from tests.workers import called
from tests.workers.machines import Directories, Task


@pytest.fixture
def machines(tmp_path: Path) -> Directories:
    return Directories(tmp_path / "machines")


@pytest.fixture(params=["local", "cluster"])
def executor(request: Any, machines: Directories) -> Any:
    with Pool(2) if request.param == "local" else Cluster(machines, None) as opened:
        yield opened


class TestEveryExecutor:
    def test_gives_results_in_order(self, executor: Executor) -> None:
        assert executor.map(called.slow_square, range(5)) == [0, 1, 4, 9, 16]
        assert executor.map(called.slow_square, []) == []

    def test_reports_what_is_done(self, executor: Executor) -> None:
        told: list[tuple[int, list[str]]] = []
        executor.map(called.doing, [5, 7], lambda *args: told.append(args))
        assert sum(count for count, _ in told) == 12
        assert sorted(text for _, texts in told for text in texts) == ["half of 5", "half of 7"]

    def test_raises_errors_whole(self, executor: Executor) -> None:
        with pytest.raises(DamagedShard, match="x.rec: at byte 7: broken") as caught:
            executor.map(called.damaged, [1])
        assert caught.value.offset == 7

    def test_shows_the_traceback_of_a_bug(self, executor: Executor) -> None:
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            executor.map(called.divide, [0])


class TestCluster:
    def test_tries_again_what_a_dead_worker_has_not_done(self, machines: Directories) -> None:
        killed: list[Task] = []

        def begun(task: Task) -> None:
            if not killed:
                killed.append(task)
                task.process.kill()

        machines.begun = begun
        with Cluster(machines, 2) as executor:
            assert executor.map(called.slow_square, range(3)) == [0, 1, 4]
        assert len(machines.tasks) == 4

    def test_gives_up_a_call_that_kills_its_workers(self, machines: Directories) -> None:
        with Cluster(machines, 2) as executor, pytest.raises(WorkerLost, match="4 times") as lost:
            executor.map(called.die, [9])
        assert lost.value.position == 0
        assert {task.machine for task in machines.tasks} == {"one", "two"}

    def test_reports_nothing_twice(
        self, machines: Directories, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr("dsprep.workers.cluster.BEAT", 0.02)
        monkeypatch.setattr("dsprep.workers.cluster._LOOK_EVERY", 0.05)
        told: list[tuple[int, list[str]]] = []
        with Cluster(machines, 1) as executor:
            executor.map(called.dying_once, [str(tmp_path)], lambda *args: told.append(args))
        assert sum(count for count, _ in told) == 10
        assert [text for _, texts in told for text in texts] == list("abcde")
        assert len(told) > 1

    def test_tries_elsewhere_what_is_silent(
        self, machines: Directories, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, seconds in (("BEAT", 0.05), ("SILENT_AFTER", 1.0), ("_LOOK_EVERY", 0.1)):
            monkeypatch.setattr(f"dsprep.workers.cluster.{name}", seconds)
        stopped: list[Task] = []

        def silence(*_: object) -> None:
            if not stopped:
                stopped.append(machines.tasks[0])
                stopped[0].stop()

        with Cluster(machines, 1) as executor:
            assert executor.map(called.slowly, [3], silence) == [3]
            stopped[0].go_on()
        first, second = machines.tasks
        assert first.machine != second.machine

    @pytest.mark.parametrize("other", ["dies", "fails", "does not begin"])
    def test_does_not_wait_for_ever(
        self, machines: Directories, monkeypatch: pytest.MonkeyPatch, other: str
    ) -> None:
        """A machine falls silent, and no other one does its work."""
        for name, seconds in (("BEAT", 0.05), ("SILENT_AFTER", 0.4), ("BEGINS_WITHIN", 0.4)):
            monkeypatch.setattr(f"dsprep.workers.cluster.{name}", seconds)
        monkeypatch.setattr("dsprep.workers.cluster._LOOK_EVERY", 0.1)
        error = "os._exit(9)" if other == "dies" else "cluster._invoke = lambda *_: 1 / 0"
        stops = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
        told = "import dsprep.workers.cluster as cluster\n"
        told += (
            f"def stop(*given):\n    import time; time.sleep(1); {stops}\ncluster._invoke = stop"
        )
        machines.broken["one"] = stops if other == "does not begin" else told
        machines.broken["two"] = f"import os, dsprep.workers.cluster as cluster; {error}"
        if other == "does not begin":
            machines.broken.pop("two")
        with Cluster(machines, 1) as executor:
            if other == "does not begin":
                assert executor.map(called.slow_square, [3]) == [9]
            else:
                kind = WorkerLost if other == "dies" else RuntimeError
                with pytest.raises(kind, match="times" if other == "dies" else "ZeroDivision"):
                    executor.map(called.slow_square, [3])
        for task in machines.tasks:
            task.process.kill()
            task.process.wait()

    def test_ends_a_try_that_another_one_makes_needless(
        self, machines: Directories, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, seconds in (("BEAT", 0.05), ("BEGINS_WITHIN", 0.3), ("_LOOK_EVERY", 0.1)):
            monkeypatch.setattr(f"dsprep.workers.cluster.{name}", seconds)
        machines.broken["one"] = "import time; time.sleep(9)"  # it waits for a core
        needless = set[int]()
        signs = machines.signs
        monkeypatch.setattr(machines, "signs", lambda some: needless.update(some) or signs(some))
        with Cluster(machines, 1) as executor:
            assert executor.map(called.slowly, [3], lambda *_: None) == [3]
        assert 1 in needless  # on a busy machine, the next may not have begun in time either

    def test_prepares_each_machine(self, machines: Directories, tmp_path: Path) -> None:
        with Cluster(machines, 2) as executor:
            executor.prepare(called.leave_a_file, str(tmp_path / "prepared"))
            assert len(list(tmp_path.glob("prepared-*"))) == 2
            machines.names.append("one")  # a machine that comes later
            executor.map(called.slow_square, range(2))
            assert len(list(tmp_path.glob("prepared-*"))) == 4
            machines.broken["two"] = "import os; os._exit(9)"  # it is going
            executor.prepare(called.leave_a_file, str(tmp_path / "again"))
            machines.broken.clear()
            with pytest.raises(SourceError, match=r"not here \(on "):
                executor.prepare(called.not_here, None)

    def test_resolves_paths_where_the_driver_runs(
        self, machines: Directories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        with Cluster(machines, 2) as executor:
            assert executor.map(called.working_directory, [0]) == [str(tmp_path)]
