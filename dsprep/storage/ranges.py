"""An object on S3 as a file: read at any place by ranges, which are fetched ahead where it goes on.

A jump takes one request, for what is asked for alone. Where reading goes on from there, what is
fetched at once grows, and more of it is on its way meanwhile.
"""

from __future__ import annotations

import io
from collections import deque
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from dsprep.storage.objects import Facts, facts_of, look_up, no_object, read_range
from dsprep.storage.pool import submit

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_FIRST, _LARGEST = 1 << 20, 8 << 20
"""Bytes fetched at once where reading goes on, doubled each time."""

_AHEAD = 3
"""Such windows that are on their way while one is read."""

_GAP = 4 << 20
"""Passing over more than this is a jump; to fetch as much takes as long as one more request."""

_NEAR = 1 << 16
"""Between what is asked for in advance and what follows it, there may be a header or two."""


_MOST_ASKED = 128
"""Ranges asked for in advance that are kept until they are read."""


class _Range(NamedTuple):
    """Bytes that are there, or on their way."""

    start: int
    stop: int
    data: Future[bytes]

    def holds(self, offset: int) -> bool:
        return self.start <= offset < self.stop


class ObjectFile(io.RawIOBase):
    """An object that is open for reading, and must stay what it is: else reading is an error."""

    def __init__(self, url: str) -> None:
        """Look it up."""
        super().__init__()
        self._asked: deque[_Range] = deque(maxlen=_MOST_ASKED)
        self._windows: deque[_Range] = deque()
        stored = look_up(url)
        if stored is None:
            raise no_object(url)
        self._url, self._size, self._etag = url, stored.size, stored.etag
        self._facts = facts_of(stored)
        self._at = self._window = 0
        self._last = self._told = -_GAP - 1

    def facts(self) -> Facts:
        """Its size, and what tells when it has changed."""
        return self._facts

    def pread(self, count: int, offset: int) -> bytes:
        """Read so many bytes at a place, or fewer at the end."""
        stop = min(offset + count, self._size)
        while self._windows and self._windows[0].stop <= offset:
            self._windows.popleft()
        parts = []
        while offset < stop:
            found = self._find(offset) or self._fetch(offset, stop)
            parts.append(found.data.result()[offset - found.start : stop - found.start])
            offset = self._last = offset + len(parts[-1])
            if offset == found.stop and self._asked and self._asked[0] is found:
                self._asked.popleft()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def ahead(self, offset: int, count: int) -> None:
        """Begin to fetch bytes that will be read; of many, the first.

        They will be read in the order in which they are asked for. Those that follow what was asked
        for before are left to what is fetched as reading goes on.
        """
        follows = abs(offset - self._told) <= _NEAR
        self._told = offset + count
        stop = min(offset + min(count, _LARGEST), self._size)
        if offset < stop and not follows and self._window_of(offset) is None:
            self._asked.append(self._get(offset, stop))

    def _find(self, offset: int) -> _Range | None:
        asked = next((each for each in self._asked if each.holds(offset)), None)
        while asked is not None and self._asked[0] is not asked:
            self._asked.popleft().data.cancel()  # it was passed over, or read from a window
        window = self._window_of(offset)
        if window is not None:
            self._go_on()
        return window or asked

    def _window_of(self, offset: int) -> _Range | None:
        return next((each for each in self._windows if each.holds(offset)), None)

    def _fetch(self, offset: int, stop: int) -> _Range:
        """Fetch what nobody has asked for before."""
        if not -_NEAR <= offset - self._last <= _GAP:
            self._windows.clear()
            self._window = 0
            stop = min(stop, offset + _LARGEST)
        else:
            stop = max(min(stop, offset + _LARGEST), offset + self._widened())
        found = self._get(offset, min(stop, self._size))
        self._windows.append(found)
        return found

    def _go_on(self) -> None:
        """Fetch what follows, if it seems that all of it will be read."""
        while self._window and len(self._windows) <= _AHEAD:
            start = self._windows[-1].stop
            if start == self._size:
                return
            self._windows.append(self._get(start, min(start + self._widened(), self._size)))

    def _widened(self) -> int:
        self._window = min(2 * self._window or _FIRST, _LARGEST)
        return self._window

    def _get(self, start: int, stop: int) -> _Range:
        call = partial(read_range, self._url, start, stop - start, self._etag)
        return _Range(start, stop, submit(call))

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next byte is read."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Read so many bytes, or fewer at the end; without a number, all that follow."""
        count = self._size if size is None or size < 0 else size
        data = self.pread(count, self._at)
        self._at += len(data)
        return data

    def readall(self) -> bytes:
        """Read all that follow."""
        return self.read()

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill a buffer, or less of it at the end."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Let go of what was fetched."""
        for each in (*self._windows, *self._asked):
            each.data.cancel()
        self._windows.clear()
        self._asked.clear()
        super().close()
