"""Functions that the tests of the pool call in workers."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from dsprep.errors import DamagedShard
from dsprep.waits import WAITS


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
