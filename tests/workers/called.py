"""Functions that the tests of the pool call in workers."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from dsprep.errors import DamagedShard, SourceError
from dsprep.progress import WAITS
from dsprep.workers.worker import brief, yield_core


def slow_square(number: int) -> int:
    time.sleep(0.01 * (number % 3))
    return number**2


def reporting(number: int, report: Any) -> int:
    report(number, "half")
    return number


def waiting(number: int) -> int:
    WAITS.tell(f"waiting for {number}")
    return number


def reverse(blob: bytes) -> bytes:
    return blob[::-1]


def damaged(_: int) -> None:
    raise DamagedShard("x.rec", 7, "broken")


def divide(number: int) -> float:
    return 1 / number


def die(number: int) -> None:
    if number:
        os.kill(os.getpid(), number)
    time.sleep(60)


def chatter(number: int) -> int:
    print("a library says something")
    os.write(1, b"and C code, too\n")
    sys.stdout.flush()
    return number


def pid(_: int) -> int:
    time.sleep(0.05)
    return os.getpid()


def report_for_ever(directory: str, report: Any) -> None:
    (Path(directory) / str(os.getpid())).touch()
    while True:
        report()
        time.sleep(0.01)


def sleep_for_ever(directory: str, report: Any) -> None:
    (Path(directory) / str(os.getpid())).touch()
    time.sleep(3600)


def waiting_for_the_next(place: tuple[str, int], report: Any) -> int:
    """Wait, without a core, until the call after this one has begun."""
    directory, number = place
    Path(directory, str(number)).touch()
    yield_core()
    deadline = time.monotonic() + 60
    while number < 3 and not Path(directory, str(number + 1)).exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return number


def failing_while_it_waits(ends: str) -> None:
    """Fail, or kill this process, while the next call has begun."""
    assert ends != "does not begin"
    if ends == "sleeps":
        time.sleep(3600)
    yield_core()
    time.sleep(0.2)
    if ends == "fails":
        damaged(1)
    os.kill(os.getpid(), signal.SIGKILL)


def ending_after_the_next_fails(place: tuple[str, int]) -> int:
    """Wait, without a core, until the next call has failed."""
    directory, number = place
    mark = Path(directory, "fails")
    if number:
        mark.touch()
        damaged(number)
    yield_core()
    deadline = time.monotonic() + 60
    while not mark.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.2)
    return number


class _Unpackable:
    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    def __reduce__(self) -> str:
        raise self.error


def answering_what_cannot_be_sent(error: type[Exception] | None) -> object:
    """Wait, while another call begins, and return what cannot be pickled."""
    if error is None:
        return time.sleep(0.5)
    yield_core()
    time.sleep(0.2)
    return _Unpackable(error)


def doing(number: int, report: Any) -> None:
    report(number - 1, [f"half of {number}"])
    report(1, [])


def dying_once(directory: str, report: Any) -> None:
    """Report what is done; the first process ends in the middle."""
    marker = Path(directory, "died")
    for number, letter in enumerate("abcde"):
        report(2, [letter])
        time.sleep(0.1)
        if number == 2 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def slowly(number: int, report: Any) -> int:
    for _ in range(10):
        report(1)
        time.sleep(0.05)
    return number


def leave_a_file(prefix: str) -> None:
    Path(f"{prefix}-{os.getpid()}").touch()


def not_here(_: object) -> None:
    raise SourceError("not here")


def working_directory(_: object) -> str:
    return str(Path.cwd())


@brief
def brief_pid(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()
