"""The page cache: files are dropped from it, or brought into it, and that is proven."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from dsprep.storage.local import open_regular

_COLD = 0.95  # the least share of the data that comes from the device


def drop(paths: Sequence[str]) -> None:
    """Drop files from the page cache."""
    for path in paths:
        with open(path, "rb", buffering=0, opener=open_regular) as file:
            os.fdatasync(file.fileno())  # the kernel drops only pages that are already on the disk
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def warm(paths: Sequence[str]) -> None:
    """Read files, so that they are in the page cache as far as it holds them."""
    with open(os.devnull, "wb") as nowhere:
        for path in paths:
            with open(path, "rb", buffering=0, opener=open_regular) as file:
                shutil.copyfileobj(file, nowhere, 1 << 20)


def in_memory(path: str) -> bool:
    """Return whether a path is on a file system that has no device."""
    with open("/proc/mounts", "rb", opener=open_regular) as file:
        mounts = [line.split()[1:3] for line in file.read().decode().splitlines()]
    real = os.path.realpath(path)
    above = [
        each for each in mounts if real == each[0] or real.startswith(each[0].rstrip("/") + "/")
    ]
    return max(above, key=lambda each: len(each[0]))[1] in ("tmpfs", "ramfs")


def proof(wanted: str, from_device: int, data: int) -> str:
    """Return what the page cache was, by the bytes that came from the device, and those of data."""
    return "warm in part" if wanted == "cold" and from_device < _COLD * data else wanted


def total_memory() -> int:
    """Return the bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
