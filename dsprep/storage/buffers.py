"""Memory for parts, one buffer a thread, used again and again: fresh memory costs page faults."""

from __future__ import annotations

import threading

_ours = threading.local()


def buffer(size: int) -> memoryview:
    """A buffer of this size, which is this thread's until it asks for another."""
    held: bytearray | None = getattr(_ours, "held", None)
    if held is None or len(held) < size:
        held = _ours.held = bytearray(size)
    return memoryview(held)[:size]
