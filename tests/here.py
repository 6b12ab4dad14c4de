"""The command in this process, with workers that last: for tests of many small runs.

To start the command and its workers takes ten times as long as such a run. What a process is the
point of (signals, streams, exit) is tested with `run_cli` and `start_cli`.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager, nullcontext, redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import Any
from unittest import mock

from dsprep.cli.main import main
from dsprep.storage.s3 import store as s3_store
from dsprep.workers.pool import Pool
from tests.conftest import Finished

_POOLS = 4
"""How many pools last: more than one command uses."""


class _Stream(TextIOWrapper):
    """What is written to a standard stream."""

    def __init__(self) -> None:
        super().__init__(BytesIO(), encoding="utf-8", write_through=True)

    def text(self) -> str:
        written: bytes = self.buffer.getvalue()  # type: ignore[attr-defined]
        return written.decode("utf-8", "backslashreplace")


class Lasting(Pool):
    """Workers that serve one run after another, until one fails while they are at work."""

    _unfinished = 0  # calls of `run` whose last result was not taken

    def run(self, *args: Any, **options: Any) -> Iterator[tuple[int, Any]]:
        self._unfinished += 1
        yield from super().run(*args, **options)
        self._unfinished -= 1

    def close(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._unfinished:  # some may still be at work
            self.end()

    def end(self) -> None:
        super().close()
        self._unfinished = 0


class Here:
    """Calls the command as `run_cli` does."""

    def __init__(self) -> None:
        self._pools: dict[object, Lasting] = {}  # the last used is the last
        self._aws: dict[str, str] = {}  # what the environment of the last call said of S3

    def __call__(
        self, *args: object, cwd: Path | None = None, env: dict[str, str] | None = None
    ) -> Finished:
        out, err = _Stream(), _Stream()
        with (
            nullcontext() if cwd is None else chdir(cwd),
            mock.patch.dict(os.environ, env or {}),
            mock.patch.object(sys, "argv", ["dsprep", *map(str, args)]),
            self.lasting(),
            redirect_stdout(out),
            redirect_stderr(err),
            _signals_kept(),
        ):
            try:
                main()
                code = 0
            except SystemExit as ended:
                code = int(ended.code or 0)
        return Finished(code, out.text(), err.text())

    @contextmanager
    def lasting(self) -> Iterator[None]:
        """Let all that is called inside, `dsprep.convert` and others, have workers that last."""
        aws = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        if aws != self._aws:  # which may name another server
            for store in s3_store._stores.values():
                store.close()
                atexit.unregister(store.close)  # which would keep it
            s3_store._stores.clear()
            self._aws = aws
        with mock.patch("dsprep.workers.pool.Pool", self._pool):
            yield

    def _pool(self, workers: int, ahead: str = "") -> Lasting:
        # Workers that last follow neither another directory nor another environment.
        environment = {**os.environ, "PYTEST_CURRENT_TEST": ""}
        surroundings = (workers, os.getcwd(), tuple(sorted(environment.items())))
        pool = self._pools.pop(surroundings, None) or Lasting(workers)
        if any(each.poll() is not None for each in pool._workers):
            pool.end()  # and starts others
        self._pools[surroundings] = pool
        while len(self._pools) > _POOLS:
            self._pools.pop(next(iter(self._pools))).end()
        return pool

    def end(self) -> None:
        for pool in self._pools.values():
            pool.end()
        self._pools.clear()


@contextmanager
def _signals_kept() -> Iterator[None]:
    """The command decides what signals mean; afterwards they mean again what they did."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    hook = sys.unraisablehook
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)
