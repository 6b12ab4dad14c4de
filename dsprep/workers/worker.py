"""What a worker process runs: calls come in on stdin, results go out on stdout, both pickled.

Nothing heavy is imported here, so that a worker is ready in some tens of milliseconds. A worker
whose parent is gone, be it by a kill or by an abort in a library, ends by itself at once.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any, TypeVar

from dsprep.errors import DsprepError
from dsprep.progress import WAITS

# What a running function calls to report its progress, with arguments of its own.
Report = Callable[..., None]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])

_FRAME = struct.Struct("<Q")
_REPORT_EVERY = 256  # samples between two progress reports


def pack(message: object) -> bytes:
    """Return a message as it is sent: its length, then its pickle."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _FRAME.pack(len(data)) + data


def send(pipe: int, packed: bytes) -> None:
    """Write one message."""
    left = memoryview(packed)
    while left:
        left = left[os.write(pipe, left) :]


def receive(pipe: int) -> Any:
    """Read one message and nothing behind it, so that a selector sees the next."""
    return pickle.loads(_read(pipe, *_FRAME.unpack(_read(pipe, _FRAME.size))))


def _read(pipe: int, count: int) -> bytes:
    blocks = []
    while count:
        block = os.read(pipe, min(count, 1 << 20))
        if not block:
            raise EOFError
        blocks.append(block)
        count -= len(block)
    return b"".join(blocks)


def yield_core() -> None:
    """Let this worker begin its next call: the one of this thread only waits from now on."""
    if (yields := getattr(_call, "yields", None)) is not None:
        yields()


_call = threading.local()  # function by which the call of this thread yields
_machine = [""]  # name by which the engine knows this machine


def name_machine(name: str) -> None:
    """Set what messages of this process call its machine."""
    _machine[0] = name


def machine_name() -> str:
    """Return what messages call this machine: its host name, with its address in a cluster."""
    import platform  # slow to load, and few calls need it

    return _machine[0] or platform.node()


def brief(function: F) -> F:
    """Mark a function whose calls usually end before a new worker has started."""
    function.brief = True  # type: ignore[attr-defined]
    return function


def is_brief(function: Callable[..., object]) -> bool:
    """Return whether a function is marked as `brief`."""
    return getattr(function, "brief", False)


def counted(
    samples: Iterable[T], report: Report, done: Callable[[], int] = lambda: 0
) -> Iterator[T]:
    """Yield samples, and report from time to time how many, and how many bytes are done."""
    count, size = 0, 0
    for sample in samples:
        yield sample
        count += 1
        if count == _REPORT_EVERY:
            report(count, done() - size)
            count, size = 0, done()
    report(count, done() - size)


def main(alive: int, ahead: list[str], idle: float) -> None:
    """Answer calls until stdin is closed; import the modules ``ahead`` while no call comes.

    The first import begins after ``idle`` seconds without a call.
    """

    def end_with_parent() -> None:
        os.read(alive, 1)
        os._exit(1)

    with suppress(RuntimeError):  # without a thread, the worker ends when it sends something
        threading.Thread(target=end_with_parent, daemon=True).start()
    gc.set_threshold(50_000)  # samples with objects make little garbage; the default takes a tenth
    calls, results = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # what a library prints must not get among the messages
    sending = threading.Lock()

    def answer_with(packed: bytes) -> None:
        with sending:
            send(results, packed)

    def waits(text: str) -> None:
        with suppress(OSError):  # the pipe is broken because the parent has ended
            answer_with(pack(("waits", -1, text)))

    def report(*progress: object) -> None:
        answer_with(pack(("progress", -1, progress)))

    def serve() -> None:
        """Answer calls, until one yields: another thread answers the next ones."""
        yielded = False

        def yields() -> None:
            nonlocal yielded
            with suppress(RuntimeError):  # without a thread, the next call waits
                threading.Thread(target=serve).start()
                yielded = True
                answer_with(pack(("yields", number, None)))

        _call.yields = yields
        while not yielded:
            try:
                number, module, name, argument, reports = receive(calls)
            except EOFError:
                return
            try:
                function = getattr(import_module(module), name)
                result = function(argument, report) if reports else function(argument)
                # the result itself may be impossible to send
                answer = pack(("done", number, result))
            except DsprepError as error:
                answer = pack(("error", number, error))
            except MemoryError:
                full = DsprepError("a worker ran out of memory; try fewer --workers")
                answer = pack(("error", number, full))
            except BaseException:
                import traceback  # slow to load

                trace = "".join(traceback.format_exception(*sys.exc_info()))
                answer = pack(("crash", number, trace))
            try:
                answer_with(answer)
            except BrokenPipeError:
                return
            wait = idle
            while ahead and not yielded and not select.select([calls], [], [], wait)[0]:
                import_module(ahead.pop(0))
                wait = 0

    WAITS.listen(waits)
    serve()
    # Another thread may be answering calls: once this one has ended, it could import nothing.
    for thread in iter(_next_server, None):
        thread.join()


def _next_server() -> threading.Thread | None:
    """Return another thread that answers calls; None if there is none."""
    own = threading.current_thread()
    return next((each for each in threading.enumerate() if not (each is own or each.daemon)), None)
