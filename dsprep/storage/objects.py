"""Objects on S3 as what reads files takes them: a missing one is an OSError, as on a disk.

Everything else that S3 refuses is an error of the source. `ObjectFile` reads at any offset: a jump
takes one request for exactly what is asked for. Where reading goes on from there, more is fetched
at once, and more of it ahead.
"""

from __future__ import annotations

import errno
import io
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from dsprep.errors import SourceError, StoreError
from dsprep.storage.location import parse_url
from dsprep.storage.pool import Pace, submit
from dsprep.storage.stored import FATAL, Facts, Level, Stored, combine_all, crc32c, ignore
from dsprep.storage.transfer import Range, plan_parts

if TYPE_CHECKING:
    from concurrent.futures import Future

    from _typeshed import WriteableBuffer

    from dsprep.storage.s3.bucket import S3Store

T = TypeVar("T")

# Bytes fetched at once where reading goes on, doubled each time.
_FIRST, _LARGEST = 1 << 20, 8 << 20
_AHEAD = 3  # windows that are on their way while one is read
_GAP = 4 << 20  # passing over more is a jump; to fetch as many takes as long as one more request
_NEAR = 1 << 16  # bytes between a requested range and the next, such as a header or two
_MOST_ASKED = 128  # ranges asked for in advance that are kept until they are read


def no_object(url: str) -> FileNotFoundError:
    """Return the error for a missing object."""
    return FileNotFoundError(errno.ENOENT, "there is no such object", url)


@contextmanager
def as_source(url: str, *, is_object: bool = False) -> Iterator[tuple[S3Store, str]]:
    """Return the connected bucket of a URL, and its key; raise refusals as errors of the source."""
    from dsprep.storage.s3.bucket import store_of  # slow to load; not where nothing is on S3

    location = parse_url(url)
    try:
        yield store_of(location.bucket), location.key
    except StoreError as error:
        if error.kind == "missing" and is_object:
            raise no_object(url) from None
        if error.kind == "exists":
            raise SourceError(
                f"{url}: has changed while it was being read; give the same command again"
            ) from None
        raise SourceError(str(error)) from None


_answers: ContextVar[dict[tuple[str, str], Any]] = ContextVar("answers")


@contextmanager
def asked_once() -> Iterator[None]:
    """Ask S3 only once what is at a location: each kind of source looks at what the user named."""
    before = _answers.set({})
    try:
        yield
    finally:
        _answers.reset(before)


def _once(what: str, url: str, ask: Callable[[], T]) -> T:
    known = _answers.get({})
    if (what, url) not in known:
        known[what, url] = ask()
    answer: T = known[what, url]
    return answer


def look_up(url: str) -> Stored | None:
    """Look an object up; None if there is none."""

    def ask() -> Stored | None:
        with as_source(url) as (store, key):
            return store.stat(key) if key and not key.endswith("/") else None

    return _once("object", url, ask)


def prefix_of(key: str) -> str:
    """Return the prefix of all keys below a location, as in a directory."""
    return key.rstrip("/") + "/" if key.strip("/") else ""


def levels(url: str) -> Iterator[Level]:
    """List what lies directly below a location, page by page."""

    def pages() -> Iterator[Level]:
        with as_source(url) as (store, key):
            yield from store.levels(prefix_of(key))

    is_known = ("level", url) in _answers.get({})
    listing = pages()
    first = _once("level", url, lambda: next(listing))
    yield first
    if not first.is_last:  # a listing that begins anew brings the known page again
        yield from islice(listing, int(is_known), None)


def object_sizes(url: str) -> dict[str, int]:
    """Return the size of every object below a location, by relative path."""
    with as_source(url) as (store, key):
        prefix = prefix_of(key)
        pages = store.list(prefix)
        return {file.key[len(prefix) :]: file.size for page in pages for file in page}


def read_range(url: str, start: int, size: int, etag: str) -> bytes:
    """Read a range of an object that must still have this ETag."""
    with as_source(url, is_object=True) as (store, key):
        with store.open(key, start, size, etag) as reading:
            data = reading.read_all()
        if len(data) != size:  # only where an ETag could not be asked for
            raise StoreError(f"{url}: is shorter now", "exists")
        return data


def read_object(url: str, size: int | None = None, limit: int | None = None) -> bytes | None:
    """Read an object in one request; None if it has another size."""
    with as_source(url, is_object=True) as (store, key):

        def attempt(_: int) -> bytes | None:
            with store.open(key) as reading:
                if size not in (None, reading.stored.size):
                    return None
                data = reading.read_all(limit)
            if reading.stored.crc32c is not None and not reading.stored.is_whole(data):
                raise StoreError(f"{url}: its crc32c is not that of the bytes that came", "damaged")
            return data

        return store.retried(attempt)


def read_back(
    store: S3Store,
    objects: Sequence[Stored],
    pace: Pace,
    on_part: Callable[[int, Range], object] = ignore,
    part_size: int = 0,
) -> list[int | StoreError]:
    """Return the crc32c of objects, by reading all of their bytes, which are not kept."""

    def read(task: tuple[int, Range]) -> int | StoreError:
        (index, part), value = task, 0
        stored = objects[index]
        try:
            with store.open(stored.key, part.start, part.size, stored.etag) as reading:
                while data := reading.read():
                    pace.take(len(data))
                    value = crc32c(data, value)
        except StoreError as error:
            if error.kind in FATAL:
                raise
            return error
        on_part(index, part)
        return value

    plans = [plan_parts(stored.size, part_size) if stored.size else [] for stored in objects]
    tasks = [(index, part) for index, plan in enumerate(plans) for part in plan]
    found: list[list[tuple[int, int]]] = [[] for _ in objects]
    failed: dict[int, StoreError] = {}
    for (index, part), value in zip(tasks, pace.each(read, tasks), strict=True):
        if isinstance(value, StoreError):
            failed[index] = value
        else:
            found[index].append((value, part.size))
    return [failed.get(index) or combine_all(runs) for index, runs in enumerate(found)]


class _Range(NamedTuple):
    """Bytes that are in memory, or on their way."""

    start: int
    stop: int
    data: Future[bytes]


def _holding(ranges: Iterable[_Range], offset: int) -> _Range | None:
    return next((found for found in ranges if found.start <= offset < found.stop), None)


class ObjectFile(io.RawIOBase):
    """An object that is open for reading; reading it fails if it has been replaced."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._asked: deque[_Range] = deque(maxlen=_MOST_ASKED)
        self._windows: deque[_Range] = deque()
        stored = look_up(url)
        if stored is None:
            raise no_object(url)
        self._url, self._stored, self._size = url, stored, stored.size
        self._at = self._window = 0
        self._last = self._told = -_GAP - 1

    def facts(self) -> Facts:
        return self._stored.facts

    def pread(self, count: int, offset: int) -> bytes:
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
        """Begin to fetch bytes, of many the first, that are read in the order of these calls."""
        # Bytes that follow those of the last call are left to the windows of sequential reading.
        follows = abs(offset - self._told) <= _NEAR
        self._told = offset + count
        stop = min(offset + min(count, _LARGEST), self._size)
        if offset < stop and not follows and _holding(self._windows, offset) is None:
            self._asked.append(self._get(offset, stop))

    def _find(self, offset: int) -> _Range | None:
        asked = _holding(self._asked, offset)
        while asked is not None and self._asked[0] is not asked:
            self._asked.popleft().data.cancel()  # it was passed over, or read from a window
        window = _holding(self._windows, offset)
        # Fetch what follows, if it seems that all of it will be read.
        while window and self._window and len(self._windows) <= _AHEAD:
            if (start := self._windows[-1].stop) == self._size:
                break
            self._windows.append(self._get(start, min(start + self._widened(), self._size)))
        return window or asked

    def _fetch(self, offset: int, stop: int) -> _Range:
        """Fetch what was not asked for in advance."""
        stop = min(stop, offset + _LARGEST)
        if -_NEAR <= offset - self._last <= _GAP:
            stop = max(stop, offset + self._widened())
        else:
            self._windows.clear()
            self._window = 0
        found = self._get(offset, min(stop, self._size))
        self._windows.append(found)
        return found

    def _widened(self) -> int:
        self._window = min(2 * self._window or _FIRST, _LARGEST)
        return self._window

    def _get(self, start: int, stop: int) -> _Range:
        call = partial(read_range, self._url, start, stop - start, self._stored.etag)
        return _Range(start, stop, submit(call))

    def readable(self) -> bool:
        return True

    seekable = readable

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        count = self._size if size is None or size < 0 else size
        data = self.pread(count, self._at)
        self._at += len(data)
        return data

    readall = read

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        for found in (*self._windows, *self._asked):
            found.data.cancel()
        self._windows.clear()
        self._asked.clear()
        super().close()
