"""What a process may not do or have: words that go before its command.

Not done between fork and exec: MXNet and TensorFlow have threads in this process, and may hold
locks for ever in a copy of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

Words = tuple[str, ...]


def bound_to_permissions() -> Words:
    """Without root's right to read and write what nobody may."""
    if os.geteuid():
        return ()
    return ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


def no_file_above(size: int) -> Words:
    """Files cannot become larger than some bytes."""
    return ("prlimit", f"--fsize={size}")


def no_memory_above(size: int) -> Words:
    """All that is not a file's own takes no more than some bytes."""
    return ("prlimit", f"--data={size}")


def without_streams(numbers: Iterable[int]) -> Words:
    """Some of stdin, stdout and stderr are closed."""
    closed = " ".join(f"{number}>&-" for number in numbers)
    return ("sh", "-c", f'exec "$@" {closed}', "sh")
