"""Bytes in memory as the body of a request, sent without a copy, told while they go."""

from __future__ import annotations

from dsprep.storage.base import Progress

_AT_ONCE = 256 * 1024
"""Bytes given to the socket at once: a stop, a limit and a stall are noticed between two."""


class Body:
    """What an HTTP client reads a request's body from, like a file.

    It hands out views of the buffer rather than copies, larger ones than it is asked for.
    """

    def __init__(self, data: bytes | bytearray | memoryview, progress: Progress) -> None:
        """Send a buffer, which must not change meanwhile."""
        self._view = memoryview(data)
        self._progress = progress
        self._at = 0

    def __len__(self) -> int:
        return len(self._view)

    def whole(self) -> bytes:
        """All of it at once, as a copy."""
        self._progress(len(self._view))
        self._at = len(self._view)
        return bytes(self._view)

    def read(self, size: int = -1) -> memoryview:
        """The next piece."""
        piece = self._view[self._at : self._at + max(size, _AT_ONCE)]
        if piece:
            self._progress(len(piece))
        self._at += len(piece)
        return piece

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go back, to send it again."""
        self._at = offset + (0, self._at, len(self._view))[whence]
        return self._at

    def tell(self) -> int:
        """How far it is."""
        return self._at
