"""A guard between ``serve`` and the program that it feeds: the program never sees a false end.

A reader cannot tell a broken stream from the end of an epoch: both are an end of file. If ``serve``
is killed, the kernel closes its pipes before anybody learns of it. So the guard, a process of its
own, opens each pipe and keeps it open until ``serve`` says that the epoch is over. When ``serve``
goes, the guard kills the program with all of its descendants, and only then closes the pipes.

This file runs alone as well, without dsprep: that is the guard.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_OPEN, _CLOSE, _DONE = b"o", b"c", b"."
_LONGEST = 1 << 16  # bytes of a message: a path has at most 4,096
_GRACE = 10.0  # seconds that a program has to end by itself when it is stopped
_LOOK = 0.02  # seconds between two looks at processes that are ending
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # constants of linux/prctl.h


class GuardedProgram:
    """A program that runs under a guard, as ``serve`` sees it."""

    def __init__(self, program: Sequence[str], environment: Mapping[str, str]) -> None:
        own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, str(other.fileno()), *program],
                env=environment,
                pass_fds=[other.fileno()],
            )
        self._socket, self._lock = own, threading.Lock()

    def poll(self) -> int | None:
        """Return the exit code of the program; None while it runs."""
        return self._process.poll()

    def open(self, path: str) -> int:
        """Open a pipe for writing; the guard keeps it open as well.

        Raises:
            OSError: As :func:`os.open` does: ENXIO while nobody reads the pipe.
            BrokenPipeError: The program has ended.
        """
        answer = b""
        with self._lock, suppress(ConnectionError):
            if self._socket.fileno() < 0:  # the program was stopped
                raise BrokenPipeError
            self._socket.send(_OPEN + os.fsencode(path))
            answer, files, *_ = socket.recv_fds(self._socket, _LONGEST, 1)
            if files:
                return files[0]
        if not answer:
            raise BrokenPipeError
        raise OSError(int(answer), os.strerror(int(answer)), path)

    def close(self, path: str) -> None:
        """Let the guard close a pipe, because the epoch is over."""
        with self._lock, suppress(OSError):  # sending fails if the program and the guard have ended
            self._socket.send(_CLOSE + os.fsencode(path))
            self._socket.recv(_LONGEST)

    def stop(self) -> int:
        """Stop the program with all that it has started; return its exit code."""
        self._process.terminate()
        code = self._process.wait()
        with self._lock:  # no thread may use the socket after its number is free for another file
            self._socket.close()
        return code


# The guard


def main(descriptor: int, program: list[str]) -> int:
    """Run a program, and answer ``serve`` on a socket; return the exit code of the program."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1)  # descendants whose parent ends become the guard's
    guard = os.getpid()
    wake, woken = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    stopped = []
    child = os.fork()
    if not child:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _run(program, guard)
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        # the program gets the signal, too, and decides what to do
        signal.signal(number, signal.SIG_IGN)
    pipes: dict[str, int] = {}
    waited: list[Any]
    with socket.socket(fileno=descriptor) as served:
        while not stopped:
            waited = [served, wake]
            ready, _, _ = select.select(waited, [], [])
            with suppress(BlockingIOError):
                os.read(wake, _LONGEST)
            if (code := _code_of(child)) is not None:
                _kill_descendants()
                return code
            if served in ready and not _answer(served, pipes):
                _kill_descendants()  # serve was killed
                return 1
        return _end(child)


def _run(program: list[str], guard: int) -> None:
    """Become the program."""
    try:
        signal.set_wakeup_fd(-1)
        if os.getppid() == guard:  # a different parent means that the guard was killed before
            os.execvp(program[0], program)
    except OSError as error:
        name = program[0] if program[0].isprintable() else ascii(program[0])
        print(f"dsprep: {name}: cannot be run: {error.strerror}", file=sys.stderr)
    finally:
        os._exit(1)


def _answer(served: socket.socket, pipes: dict[str, int]) -> bool:
    """Open or close a pipe for ``serve``; return False if it has gone."""
    try:
        message = served.recv(_LONGEST)
        if not message:
            return False
        path = os.fsdecode(message[1:])
        if message[:1] == _CLOSE:
            if path in pipes:
                os.close(pipes.pop(path))
            served.send(_DONE)
            return True
        try:
            pipes[path] = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            served.send(str(error.errno).encode())
        else:
            socket.send_fds(served, [_DONE], [pipes[path]])
    except OSError:
        return False
    return True


def _end(child: int) -> int:
    """Ask all descendants to end, and kill those that do not; return the program's exit code."""
    code, late = None, time.monotonic() + _GRACE
    for process in _descendants():
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    while code is None and time.monotonic() < late:
        code = _code_of(child)
        time.sleep(_LOOK)
    if code is None:
        os.kill(child, signal.SIGKILL)
        code = 128 + signal.SIGKILL
    _kill_descendants()
    return code


def _code_of(child: int) -> int | None:
    """Return the exit code of the program, as shells have it; None while it runs."""
    found = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
                found = 128 - code if code < 0 else code
    return found


def _kill_descendants() -> None:
    while processes := _descendants():
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        _code_of(0)
        time.sleep(_LOOK / 10)


def _descendants() -> list[int]:
    """Return the ids of all processes that come from this one and have not ended."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            # `PID (NAME) STATE PARENT …`; a name may hold blanks and brackets (man 5 proc).
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                text = os.read(descriptor, _LONGEST)
            finally:
                os.close(descriptor)
            state, parent = text.rpartition(b")")[2].split()[:2]
            if state not in (b"Z", b"X"):
                children.setdefault(int(parent), []).append(int(path.parent.name))
    found = [*children.get(os.getpid(), ())]
    for process in found:
        found += children.get(process, ())
    return found


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
