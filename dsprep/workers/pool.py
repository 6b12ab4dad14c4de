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
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, TypeVar

from dsprep.errors import OptionError, RunStopped
from dsprep.units import format_count
from dsprep.waits import WAITS
from dsprep.workers.worker import receive, send

A = TypeVar("A")
R = TypeVar("R")
Report = Callable[..., None]
"""What a running function calls to tell how far it is, in words of its own."""

_BEAT = 1.0
"""Seconds."""


def available_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def most_workers() -> int:
    """The most processes that a user may ask for on this machine."""
    return max(64, 4 * available_cores())


class Pool:
    """Some worker processes; use it as a context manager, which ends them.

    Functions must be importable by name, and their arguments and results picklable. A worker is
    started when there is a task for it that no other is free for. A call that only waits from some
    point on, for a disk or the network, says so by `yield_core`: another worker, of up to twice as
    many, then begins the next task.
    """

    def __init__(self, workers: int) -> None:
        """Start none yet; a worker is ready some tens of milliseconds after its start."""
        if workers < 1:
            raise OptionError(f"--workers {workers}: one at least is needed")
        if workers > most_workers():
            raise OptionError(
                f"--workers {workers}: give at most {most_workers()} on this machine, which has "
                f"{format_count(available_cores(), 'core')}"
            )
        self.size = workers
        self._workers: list[subprocess.Popen[bytes]] = []
        self._alive: tuple[int, ...] = ()

    def _start(self) -> int:
        """Start one more worker, and return its number."""
        # Nothing is ever written to this pipe: it ends with this process, and so do the workers.
        self._alive = self._alive or os.pipe()
        main = f"from dsprep.workers.worker import main; main({self._alive[0]})"
        code = f"import sys; sys.path[:] = {sys.path!r}; {main}"
        # Workers inherit what is blocked. Ctrl-C, and some schedulers' SIGTERM, reach every process
        # of a run, but this one alone decides what they mean.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            worker = subprocess.Popen(
                [sys.executable, "-P", "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=self._alive[:1],
            )
        except OSError as error:
            raise RunStopped(
                f"a worker process cannot be started ({error.strerror}); try fewer --workers, or "
                "raise the limits on processes (ulimit -u) and memory (ulimit -v)"
            ) from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._workers.append(worker)
        return len(self._workers) - 1

    def map(
        self, function: Callable[..., R], arguments: Iterable[A], report: Report | None = None
    ) -> list[R]:
        """Call a function with each of the arguments; the results are in their order.

        With ``report``, the function takes that, too, and reports its progress.
        """
        results = dict(self._run(function, arguments, report, None))
        return [results[position] for position in range(len(results))]

    def run(
        self,
        function: Callable[[A, Report], R],
        arguments: Iterable[A],
        report: Report,
        beat: Callable[[], None] | None = None,
    ) -> Iterator[tuple[int, R]]:
        """Call a function that reports its progress with each of the arguments.

        ``beat`` is called about once a second, also while no worker reports anything.
        """
        return self._run(function, arguments, report, beat)

    def _run(
        self,
        function: Callable[..., R],
        arguments: Iterable[A],
        report: Report | None,
        beat: Callable[[], None] | None,
    ) -> Iterator[tuple[int, R]]:
        waiting = enumerate(arguments)
        idle = list(range(len(self._workers)))
        busy: dict[int, int] = {}  # the position of the argument that a worker has
        yielding: set[int] = set()  # workers that only wait, and use no core
        name = (function.__module__, function.__qualname__)

        def hand_out() -> None:
            while len(busy) - len(yielding) < self.size:
                if not (idle or len(self._workers) < 2 * self.size):
                    return
                if (following := next(waiting, None)) is None:
                    return
                if not idle:
                    idle.append(self._start())
                    listen(idle[0])
                position, argument = following
                number = idle.pop(0)
                busy[number] = position
                try:
                    send(self._stream(number, "stdin"), (*name, argument, report is not None))
                except BrokenPipeError:
                    raise self._death(number) from None

        with selectors.DefaultSelector() as selector:

            def listen(number: int) -> None:
                selector.register(self._stream(number, "stdout"), selectors.EVENT_READ, number)

            for number in idle:
                listen(number)
            hand_out()
            while busy:
                ready = selector.select(None if beat is None else _BEAT)
                if beat is not None:
                    beat()
                for key, _ in ready:
                    number = key.data
                    kind, answer = self._receive(number)
                    if kind == "progress":
                        if report is not None:
                            report(*answer)
                        continue
                    if kind == "waits":
                        WAITS.tell(answer)
                        continue
                    if kind == "yields":
                        yielding.add(number)
                        hand_out()
                        continue
                    if kind == "error":
                        raise answer
                    if kind == "crash":
                        raise RuntimeError(f"a worker failed:\n{answer}")
                    position = busy.pop(number)
                    yielding.discard(number)
                    idle.append(number)
                    hand_out()
                    yield position, answer

    def _stream(self, number: int, name: str) -> Any:
        return getattr(self._workers[number], name)

    def _receive(self, number: int) -> Any:
        try:
            # Read no further than this message, or the selector would not see the next.
            return receive(_Unbuffered(self._stream(number, "stdout").fileno()))
        except EOFError:
            raise self._death(number) from None

    def _death(self, number: int) -> RunStopped:
        code = self._workers[number].wait()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        why = (
            " (the system does that when memory runs out: try fewer --workers)"
            if code == -9
            else ""
        )
        return RunStopped(f"a worker process {how}{why}; give the same command again to continue")

    def __enter__(self) -> Pool:
        """Return the pool itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the workers."""
        self.close()

    def close(self) -> None:
        """End the workers: they hold nothing that another run would not find."""
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.wait()
            for stream in (worker.stdin, worker.stdout):
                try:
                    if stream is not None:
                        stream.close()
                except BrokenPipeError:
                    pass
        self._workers.clear()
        for end in self._alive:
            os.close(end)
        self._alive = ()


class _Unbuffered:
    """A file descriptor read by exact counts, with nothing read ahead."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def read(self, count: int) -> bytes:
        blocks = []
        while count and (block := os.read(self._fd, min(count, 1 << 20))):
            blocks.append(block)
            count -= len(block)
        return b"".join(blocks)
