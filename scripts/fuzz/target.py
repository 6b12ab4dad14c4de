"""What a target of the fuzzer is, and what counts as a find.

A reader may refuse bytes with one of dsprep's own errors. Any other exception is a find; so is a
reader that takes longer than it should, and an answer that is not the one which another way to read
the same bytes gives.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from dsprep.errors import DsprepError

SECONDS = 2.0
"""Of the processor's time, for an input of 64 KB or less, watched by the fuzzer."""


class Slow(AssertionError):
    """An input that took too long."""


class Different(AssertionError):
    """Bytes that mean one thing to one reader and another to another."""


@dataclass(frozen=True)
class Target:
    """A reader to fuzz.

    Attributes:
        read: Reads bytes, in a directory where it may write files; raises only what is a find.
        seeds: Makes what to start from.
        repair: Makes checksums right in bytes that were changed.
    """

    read: Callable[[bytes, Path], None]
    seeds: Callable[[], list[bytes]]
    repair: Callable[[bytes], bytes] | None = None

    def check(self, data: bytes, directory: Path) -> None:
        """Read bytes.

        Raises:
            Exception: If they are a find.
        """
        begun = time.process_time()
        with suppress(DsprepError):
            self.read(data, directory)
        taken = time.process_time() - begun
        if taken > SECONDS:
            raise Slow(f"{taken:.1f} s for {len(data)} bytes")


def is_chosen(data: bytes) -> bool:
    """Whether an input is one of the eighth with which that is done, too, which takes longest."""
    return crc32(data) % 8 == 0


def require_equal(one: object, other: object, where: str) -> None:
    """See that two ways to read the same bytes come to the same.

    Raises:
        Different: If they do not.
    """
    if one != other:
        raise Different(f"{where}: {one!r:.500} and {other!r:.500}")
