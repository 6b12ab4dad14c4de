"""What a worker process runs: calls come in on stdin, results go out on stdout, both pickled.

Nothing heavy is imported here, so that a worker is ready in some tens of milliseconds. A worker
whose parent is gone, be it by a kill or by an abort in a library, ends by itself at once.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, BinaryIO, Protocol

from dsprep.errors import DsprepError
from dsprep.waits import WAITS

FRAME = struct.Struct("<Q")


class Reader(Protocol):
    """What a message can be read from."""

    def read(self, count: int, /) -> bytes:
        """Read exactly so many bytes, or fewer at the end."""


def send(file: BinaryIO, message: object) -> None:
    """Write one message: its length, then its pickle."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    file.write(FRAME.pack(len(data)) + data)
    file.flush()


def receive(file: Reader) -> Any:
    """Read one message."""
    head = file.read(FRAME.size)
    if len(head) < FRAME.size:
        raise EOFError
    data = file.read(FRAME.unpack(head)[0])
    return pickle.loads(data)


def yield_core() -> None:
    """Tell the pool that the call of this worker only waits from now on."""
    if _answer is not None:
        _answer("yields", None)


_answer: Callable[[str, object], None] | None = None


def _end_with(alive: int) -> None:
    os.read(alive, 1)
    os._exit(1)


def main(alive: int) -> None:
    """Answer calls until stdin is closed."""
    with suppress(RuntimeError):  # no thread can be started: it ends when it sends something
        threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
    calls = os.fdopen(os.dup(0), "rb")
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get among the messages

    sending = threading.Lock()

    def answer_with(kind: str, content: object) -> None:
        with sending:
            send(results, (kind, content))

    global _answer
    _answer = answer_with

    def report(*progress: object) -> None:
        answer_with("progress", progress)

    def waits(text: str) -> None:
        with suppress(OSError):  # the parent is gone
            answer_with("waits", text)

    WAITS.listen(waits)

    while True:
        try:
            module, name, argument, reports = receive(calls)
        except EOFError:
            return
        try:
            function = getattr(import_module(module), name)
            answer = ("done", function(argument, report) if reports else function(argument))
        except DsprepError as error:
            answer = ("error", error)
        except MemoryError:
            answer = ("error", DsprepError("a worker ran out of memory; try fewer --workers"))
        except BaseException:
            answer = ("crash", "".join(traceback.format_exception(*sys.exc_info())))
        try:
            answer_with(*answer)
        except BrokenPipeError:
            return
