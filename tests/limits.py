"""What a process may not do or have: words that go before its command.

Not done between fork and exec: MXNet and TensorFlow have threads in this process, and may hold
locks for ever in a copy of it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.missing import leave_out

Words = tuple[str, ...]


def bound_to_permissions() -> Words:
    """Without root's right to read and write what nobody may."""
    if os.geteuid():
        return ()
    return ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


def no_file_above(size: int) -> Words:
    """Files cannot become larger than some bytes.

    Python up to 3.12 leaves a compiled module that it could not write as a whole, and every later
    import of that fails.
    """
    return ("env", "PYTHONDONTWRITEBYTECODE=1", "prlimit", f"--fsize={size}")


def no_memory_above(size: int) -> Words:
    """All that is not a file's own takes no more than some bytes."""
    return ("prlimit", f"--data={size}")


def without_streams(numbers: Iterable[int]) -> Words:
    """Some of stdin, stdout and stderr are closed."""
    closed = " ".join(f"{number}>&-" for number in numbers)
    return ("sh", "-c", f'exec "$@" {closed}', "sh")


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """Mount an empty disk of a size such as ``4m`` at ``place``."""
    place.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        leave_out("only root can mount a small disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
