"""Machines as far as dsprep knows them: directories, whose processes share nothing but a disk."""

from __future__ import annotations

import gc
import itertools
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import dsprep.workers.cluster as cluster
from dsprep.workers.cluster import Answer, Call, Sign

_SERVE = "from tests.workers.machines import serve; import sys; serve(*sys.argv[1:])"


class Task:
    """A process that makes one call on a machine."""

    def __init__(
        self, machine: str, name: str, process: subprocess.Popen[bytes], result: Path
    ) -> None:
        self.machine, self.process, self.result = machine, process, result
        self.name = name  # that of the function

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)


class Directories:
    """A cluster of directories: each is the TMPDIR and the working directory of its processes.

    ``broken`` is code that a machine runs before each call; ``begun`` is called with each new task.
    """

    def __init__(self, root: Path, names: Sequence[str] = ("one", "two")) -> None:
        self._root, self.names, self._numbers = root, list(names), itertools.count()
        self.broken: dict[str, str] = {}
        self.begun: Callable[[Task], None] = lambda task: None
        self.tasks: list[Task] = []
        for name in ("signs", *names):
            (root / name).mkdir(parents=True)

    def cores(self) -> int:
        return len(self.names)

    def describe(self) -> str:
        return f"{len(self.names)} directories"

    def submit(self, call: Call, avoid: Collection[str] = ()) -> Task:
        number = next(self._numbers)
        names = [name for name in self.names if name not in avoid] or self.names
        task = self._start(names[number % len(names)], number, call)
        self.begun(task)
        return task

    def _start(self, name: str, number: int, call: Call) -> Task:
        result = self._root / f"{number}.answer"
        process = subprocess.Popen(
            [sys.executable, "-c", self.broken.get(name, "") + "\n" + _SERVE, name, str(result)],
            stdin=subprocess.PIPE,
            cwd=self._root / name,
            env=os.environ
            | {"TMPDIR": str(self._root / name), "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert process.stdin is not None
        seconds = cluster.BEAT
        with suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(pickle.dumps((call, seconds)))
        self.tasks.append(task := Task(name, call.function[1], process, result))
        return task

    def everywhere(self, call: Call) -> list[Answer]:
        tasks = [self._start(name, next(self._numbers), call) for name in self.names]
        for task in tasks:
            task.process.wait()
        return [self.answer(task) for task in tasks]

    def wait(self, handles: Sequence[Task], seconds: float) -> Sequence[Task]:
        until = time.monotonic() + seconds
        while True:
            ended = [task for task in handles if task.process.poll() is not None]
            if ended or time.monotonic() > until:
                return ended
            time.sleep(0.005)

    def answer(self, handle: Task) -> Answer:
        if handle.process.returncode == 0:
            return pickle.loads(handle.result.read_bytes())  # type: ignore[no-any-return]
        return Answer("lost", f"a worker on {handle.machine} died")

    def signs(self, needless: Collection[int]) -> Mapping[int, Sign]:
        found = {}
        for path in (self._root / "signs").glob("*.sign"):
            found[int(path.stem)] = pickle.loads(path.read_bytes())
            path.unlink()
        return found

    def close(self) -> None:
        for task in self.tasks:
            if task.process.poll() is None and not self._is_stopped(task):
                task.process.kill()
                task.process.wait()

    def _is_stopped(self, task: Task) -> bool:
        stat = Path(f"/proc/{task.process.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"


def serve(machine: str, result: str) -> None:
    """Make the call that comes on stdin, in a process that ends as a command does."""
    gc.set_threshold(200_000)
    call, cluster.BEAT = pickle.loads(sys.stdin.buffer.read())
    signs = Path(result).parent / "signs"

    def tell(number: int, sign: Sign) -> None:
        partial = signs / f"{number}.partial"
        partial.write_bytes(pickle.dumps(sign))
        partial.replace(signs / f"{number}.sign")

    Path(result).write_bytes(pickle.dumps(cluster.answer(call, machine, machine, tell)))
    os._exit(0)


def executor(machines: Any, workers: int | None = None) -> cluster.Cluster:
    return cluster.Cluster(machines, workers)
