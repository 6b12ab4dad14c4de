"""Worker processes that run plain functions on plain data.

Not :mod:`multiprocessing`: its workers import the caller's main module again, and a killed one can
leave a pool waiting for ever. These are started with nothing but dsprep in them, can be killed in
an instant, and one that dies is an error at once.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from fcntl import F_GETFL, fcntl
from stat import S_ISREG
from time import monotonic
from typing import TypeAlias, TypeVar

from dsprep.errors import OptionError, RunStopped
from dsprep.opening import began_in
from dsprep.progress import WAITS
from dsprep.units import format_count
from dsprep.workers.executor import Executor, WorkerFailed
from dsprep.workers.worker import Report, is_brief, pack, receive, send

A = TypeVar("A")
R = TypeVar("R")
Worker: TypeAlias = "subprocess.Popen[bytes]"

_BEAT = 1.0  # maximum seconds between two calls of `beat`
_PATIENCE = 0.02  # seconds for which brief calls wait for a worker that is busy
_IDLE = 0.01  # seconds without a call, after which a worker has time to import something
_LONG_IDLE = 0.1  # such seconds of workers that a run may not need


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _files_to_read() -> list[int]:
    """Return the open files that this process lets others read, which ``/dev/fd/3`` names.

    They have this name in a worker, too: a shell has opened them, or they were its pipes.
    """
    found = []
    for fd in map(int, os.listdir("/dev/fd")):
        with suppress(OSError):  # /dev/fd was open itself while it was listed, and is closed now
            is_kept = fd > 2 and os.get_inheritable(fd) and S_ISREG(os.fstat(fd).st_mode)
            if is_kept and fcntl(fd, F_GETFL) & os.O_ACCMODE != os.O_WRONLY:
                found.append(fd)
    return found


class Pool(Executor):
    """Some worker processes of this machine.

    A worker is started when there is a task for it that no other is free for; if tasks are `brief`,
    only when one has waited longer than most take. A call that only waits from some point on, for a
    disk or the network, says so by `yield_core`: its worker then begins the next task, and has two
    at most.
    """

    def __init__(self, workers: int, ahead: Sequence[str] = ()) -> None:
        """Start none yet; a worker is ready some tens of milliseconds after its start.

        Workers that have nothing else to do import the modules ``ahead``, which a later call needs.
        """
        if workers < 1:
            raise OptionError(f"--workers {workers}: one at least is needed")
        if workers > (most := max(64, 4 * available_cores())):
            raise OptionError(
                f"--workers {workers}: give at most {most} on this machine, which has "
                f"{format_count(available_cores(), 'core')}"
            )
        self._size, self._ahead = workers, ahead
        self._workers: list[Worker] = []
        self._alive: tuple[int, ...] = ()

    def _start(self) -> Worker:
        # Nothing is ever written to this pipe: it ends with this process, and so do the workers.
        self._alive = self._alive or os.pipe()
        # a small run needs only the first worker, so others wait longer before they import
        idle = _LONG_IDLE if self._workers else _IDLE
        given = f"{self._alive[0]}, {[*self._ahead]!r}, {idle}"
        main = f"from dsprep.workers.worker import main; main({given})"
        code = f"import sys; sys.path[:] = {sys.path!r}; {main}"
        # Workers inherit what is blocked. Ctrl-C, and some schedulers' SIGTERM, reach every process
        # of a run, but this one alone decides what they mean.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            worker = subprocess.Popen(
                [sys.executable, "-P", "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=began_in(),
                pass_fds=(*self._alive[:1], *_files_to_read()),
            )
        except OSError as error:
            raise RunStopped(
                f"a worker process cannot be started ({error.strerror}); try fewer --workers, or "
                "raise the limits on processes (ulimit -u) and memory (ulimit -v)"
            ) from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._workers.append(worker)
        return worker

    @property
    def size(self) -> int:
        return self._size

    def run(
        self,
        function: Callable[..., R],
        arguments: Iterable[object],
        report: Report | None = None,
        beat: Callable[[], None] | None = None,
    ) -> Iterator[tuple[int, R]]:
        waiting = enumerate(arguments)
        calls: dict[int, Worker] = {}  # the workers of the calls that are not done
        yielding: set[int] = set()  # the calls that only wait, and use no core
        name = (function.__module__, function.__qualname__)
        failed: Exception | None = None
        patient_until = monotonic() + _PATIENCE if is_brief(function) else 0.0

        def free_worker() -> Worker | None:
            has: dict[Worker, list[int]] = {worker: [] for worker in self._workers}
            for position, worker in calls.items():
                has[worker].append(position)
            free = (worker for worker in has if len(has[worker]) < 2 and yielding >= {*has[worker]})
            return min(free, key=lambda worker: len(has[worker]), default=None)

        def hand_out() -> None:
            while failed is None and len(calls) - len(yielding) < self.size:
                worker = free_worker()
                if worker is None and len(self._workers) == self.size:
                    return
                if worker is None and self._workers and monotonic() < patient_until:
                    return
                if (following := next(waiting, None)) is None:
                    return
                if worker is None:
                    worker = self._start()
                    listen(worker)
                position, argument = following
                calls[position] = worker
                assert worker.stdin is not None
                try:
                    call = pack((position, *name, argument, report is not None))
                    send(worker.stdin.fileno(), call)
                except BrokenPipeError:
                    raise _death(worker) from None

        with selectors.DefaultSelector() as selector:

            def listen(worker: Worker) -> None:
                assert worker.stdout is not None
                selector.register(worker.stdout, selectors.EVENT_READ, worker)

            for worker in self._workers:
                listen(worker)
            hand_out()
            # After an error, calls that only wait are nearly done: their shards are kept.
            while calls if failed is None else yielding:
                if patient_until and (patience := patient_until - monotonic()) <= 0:
                    patient_until = 0.0  # also if the caller was busy until now
                    hand_out()
                wait = patience if patient_until else None if beat is None else _BEAT
                ready = selector.select(wait)
                if beat is not None:
                    beat()
                for key, _ in ready:
                    try:
                        kind, position, answer = receive(key.fd)
                    except EOFError:
                        raise _death(key.data) from None
                    if kind == "progress" and report is not None:
                        report(*answer)
                    elif kind == "waits":
                        WAITS.tell(answer)
                    elif kind == "yields":
                        yielding.add(position)
                        hand_out()
                    elif kind == "error":
                        failed = failed or answer
                        yielding.discard(position)
                    elif kind == "crash":
                        raise WorkerFailed(f"a worker failed:\n{answer}")
                    elif kind == "done":
                        del calls[position]
                        yielding.discard(position)
                        hand_out()
                        yield position, answer
        if failed is not None:
            raise failed

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.wait()
            for stream in filter(None, (worker.stdin, worker.stdout)):
                with suppress(BrokenPipeError):
                    stream.close()
        self._workers.clear()
        for end in self._alive:
            os.close(end)
        self._alive = ()


def _death(worker: Worker) -> RunStopped:
    code = worker.wait()
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    if code == -signal.SIGKILL:
        how += " (the system does that when memory runs out: try fewer --workers)"
    return RunStopped(f"a worker process {how}; give the same command again to continue")
