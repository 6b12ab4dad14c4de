"""End what hangs, so that the run goes on and ends with pytest's summary.

pytest-timeout fails a test that takes longer than `timeout`, if the test runs Python code. What is
deadlocked in C does not answer. So each worker of xdist writes to a file what it does and since
when, and the process that started the workers reads these files. It kills a worker that is late,
with all that it has started. xdist then reports its test as failed and starts another worker.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

GRACE = 1.5
"""A worker is late after this many times the limit of its test."""

END = 120
"""Seconds between the summary and the end of the process."""


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    config = session.config
    if not hasattr(config, "workerinput"):  # a run that is terminated ends as after Ctrl-C
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    limit = GRACE * float(config.getoption("timeout") or config.getini("timeout") or 0)
    if (given := getattr(config, "workerinput", {}).get("hangs")) is not None:
        config.pluginmanager.register(Worker(Path(given)))
    elif limit and config.pluginmanager.hasplugin("dsession"):
        config.pluginmanager.register(Watch(limit))


class Worker:
    """Writes down what this worker does."""

    def __init__(self, directory: Path) -> None:
        self._place = directory / os.environ["PYTEST_XDIST_WORKER"]
        faulthandler.register(signal.SIGUSR2, os.dup(2))
        self._tell("the collection of tests")

    def _tell(self, doing: str) -> None:
        with suppress(OSError):  # the run is over: nobody reads it any more
            self._place.write_text(f"{os.getpid()}\n{time.monotonic()}\n{doing}\n")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        self._place.unlink(missing_ok=True)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._tell(item.nodeid)
        try:
            return (yield)
        finally:
            self._place.unlink(missing_ok=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._tell("its end")

    def pytest_unconfigure(self) -> None:
        self._place.unlink(missing_ok=True)


class Watch:
    """Kills workers that are late."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._directory = Path(tempfile.mkdtemp(prefix="dsprep-workers-"))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["hangs"] = str(self._directory)

    def pytest_testnodedown(self, node: Any) -> None:
        (self._directory / node.gateway.id).unlink(missing_ok=True)  # it cannot be late any more

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self._over.set()
        self._thread.join()
        shutil.rmtree(self._directory, ignore_errors=True)
        faulthandler.dump_traceback_later(END, exit=True, file=sys.__stderr__)

    def _watch(self) -> None:
        while not self._over.wait(1):
            for place in self._directory.iterdir():
                with suppress(OSError, ValueError):  # it has just been written or removed
                    pid, since, doing = place.read_text().splitlines()
                    late = time.monotonic() - float(since)
                    if late > self._limit:
                        place.unlink()
                        told = f"{place.name} is killed: {doing} has taken {late:.0f} s"
                        print(f"\n{told}", file=sys.stderr)
                        end(int(pid))


def end(worker: int) -> None:
    """Let a process print where it is, then kill it with all its descendants."""
    family = descendants(worker)
    with suppress(ProcessLookupError):
        os.kill(worker, signal.SIGUSR2)
        time.sleep(1)
    for process in (worker, *family):
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)


def descendants(process: int) -> list[int]:
    """Return the children of a process, their children and so on, but no daemons (the servers)."""
    children: dict[int, list[int]] = {}
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = (each / "stat").read_text().rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(each.name))
    found = [process]
    for each in found:
        found += children.get(each, [])
    return found[1:]
