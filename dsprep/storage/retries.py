"""How often something is tried again, and how long is waited before."""

from __future__ import annotations

import random
from dataclasses import dataclass

from dsprep.errors import StoreError
from dsprep.units import format_duration
from dsprep.waits import WAITS

_NOTICEABLE = 1.0
"""Seconds of waiting that a user may wonder about."""


@dataclass(frozen=True)
class Retries:
    """Waiting longer and longer, and at random, so that many clients do not come back at once."""

    attempts: int = 8  # how often something is tried at most
    # seconds that the first wait takes at most; each of the next, twice as long
    first: float = 0.25
    longest: float = 20.0  # seconds that any wait takes at most

    def delay(self, failed: int) -> float:
        """Seconds to wait after so many failures: "full jitter", as AWS recommends it."""
        return random.uniform(0, min(self.longest, self.first * 2 ** (failed - 1)))


def retry_line(error: StoreError, delay: float) -> str:
    """What to say of a request that failed and will be made again after so many seconds."""
    what = str(error).partition("; it was tried ")[0]
    return f"{what}; trying again in {format_duration(delay)}"


def tell_retry(error: StoreError, delay: float) -> None:
    """Tell of a request that will be made again, if that takes noticeably long."""
    if delay >= _NOTICEABLE:
        WAITS.tell(retry_line(error, delay))
