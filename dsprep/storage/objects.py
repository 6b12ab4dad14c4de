"""Objects as what reads files takes them: a missing one is an OSError, as on a disk.

Everything else that a store refuses is an error of the source. `ObjectFile` reads at any offset: a
jump takes one request for exactly what is asked for. Where reading goes on from there, more is
fetched at once, and more of it ahead.
"""

from __future__ import annotations

import errno
import io
import os
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from dsprep.errors import SourceError, StoreError
from dsprep.storage.pool import Pace, submit
from dsprep.storage.store import LARGEST, OpenFile, Store, store_of
from dsprep.storage.stored import FATAL, Events, Facts, Level, Stored, combine_all, crc32c, ignore
from dsprep.storage.transfer import Range, TransferOptions, Transferred, plan_parts
from dsprep.tuples import NamedTuple

if TYPE_CHECKING:
    from concurrent.futures import Future

    from _typeshed import WriteableBuffer

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
def as_source(url: str, *, is_object: bool = False) -> Iterator[tuple[Store, str]]:
    """Return the store of a URL, and the key there; raise refusals as errors of the source."""
    store, key = store_of(url)
    with _source_errors(url, is_object):
        yield store, key


@contextmanager
def _source_errors(url: str, is_object: bool = False) -> Iterator[None]:
    try:
        yield
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
    """Ask only once what is at a place: each kind of source looks at what the user named."""
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


def prefix_of(key: str) -> str:
    """Return the prefix of all keys below a place, as in a directory."""
    return key.rstrip("/") + "/" if key.strip("/") else ""


def object_sizes(url: str) -> dict[str, int]:
    """Return the size of every object below a place, by relative path."""
    with as_source(url) as (store, key):
        prefix = prefix_of(key)
        pages = store.list(prefix)
        return {file.key[len(prefix) :]: file.size for page in pages for file in page}


class ObjectEntry(NamedTuple):
    """What lies directly below a place in a store of objects, like :class:`os.DirEntry`."""

    name: str  # its name there
    path: str  # its address
    is_object: bool  # whether it is an object; else keys that lie deeper begin so

    def is_file(self) -> bool:
        return self.is_object

    def is_dir(self) -> bool:
        return not self.is_object


class ObjectStore(Store):
    """A store of objects that are reached over a network, and have no directories.

    A store that derives from this class defines `url`, `in_role`, `stat`, `list`, `levels`, `open`,
    `put`, `delete` and the facts that are missing here. The other methods are made of these.
    """

    takes_requests = True
    is_shared = True
    has_directories = False
    has_rename = False
    has_locks = False

    def retried(self, attempt: Callable[[int], T]) -> T:
        """Make an attempt, again if it may help."""
        return attempt(1)

    def path(self, key: str) -> str | None:
        return None

    def canonical(self, key: str) -> str:
        return self.url(key).rstrip("/")

    def hurried(self, seconds: float) -> Self:
        return self.in_role(StoreError)

    def for_run(self, wait: Callable[[float], object], events: Events, connections: int) -> Self:
        return self

    def close(self) -> None:
        """Release connections: there are none."""

    def read(self, key: str, limit: int = LARGEST) -> tuple[bytes, Stored]:
        """Read a small object, and what the answer says about it."""
        with self.open(key) as reading:
            return reading.read_all(limit), reading.stored

    def require_rights(self, prefix: str, *, deleting: bool = False) -> None:
        """Refuse nothing now: who may not write finds out when writing."""

    def abort_uploads(self, prefix: str, keys: Collection[str]) -> None:
        """Abort nothing: there are no uploads in parts."""

    def send_file(
        self, path: Path, key: str, options: TransferOptions, crc32c: int | None = None
    ) -> Transferred:
        from dsprep.storage.copying import send_whole

        return send_whole(self, path, key, options, crc32c)

    def take_file(
        self, path: Path, key: str, options: TransferOptions, crc32c: int | None = None
    ) -> Transferred:
        sent = self.send_file(path, key, options, crc32c)
        path.unlink()
        return sent

    def fetch_file(
        self,
        key: str,
        path: Path,
        options: TransferOptions,
        listed: Stored | None = None,
        crc32c: int | None = None,
    ) -> Transferred:
        from dsprep.storage.copying import fetch_whole

        return fetch_whole(self, key, path, options, listed, crc32c)

    def copy_file(
        self, source: Store, stored: Stored, key: str, options: TransferOptions
    ) -> Transferred:
        from dsprep.storage.copying import copy_whole

        return copy_whole(source, stored, self, key, options)

    def exists(self, key: str) -> bool:
        return self.is_file(key) or self.is_dir(key)

    def is_file(self, key: str) -> bool:
        return self.look_up(key) is not None

    def is_dir(self, key: str) -> bool:
        first = next(self.levels_once(key))
        return bool(first.files or first.deeper or not key.rstrip("/"))

    def facts(self, key: str) -> Facts:
        found = self.look_up(key)
        if found is None:
            raise no_object(self.url(key))
        return found.facts

    def entries(self, key: str, below: str) -> Iterator[ObjectEntry]:
        for level in self.levels_once(key):
            found = [(file.key, True) for file in level.files]
            found += [(prefix.rstrip("/"), False) for prefix in level.deeper]
            for each, is_object in found:
                if name := os.path.basename(each):  # the object for the directory itself has none
                    yield ObjectEntry(name, os.path.join(below, name), is_object)

    def find(self, pattern: str) -> Sequence[str]:
        with _source_errors(self.url(pattern)):
            pages = self.list(re.split(r"[*?[]", pattern, maxsplit=1)[0])
            found = (file.key for page in pages for file in page)
            return [self.url(key) for key in found if matches(key, pattern)]

    def read_file(self, key: str, limit: int = LARGEST) -> bytes:
        return self.read_object(key, limit=limit) or b""

    def read_sized(self, key: str, size: int) -> bytes | None:
        return self.read_object(key, size)

    def open_file(self, key: str) -> ObjectFile:
        return ObjectFile(self, key)

    def look_up(self, key: str) -> Stored | None:
        """Look an object up; None if there is none."""
        url = self.url(key)

        def ask() -> Stored | None:
            with _source_errors(url):
                return self.stat(key) if key and not key.endswith("/") else None

        return _once("object", url, ask)

    def levels_once(self, key: str) -> Iterator[Level]:
        """List what lies directly below a place, page by page; `asked_once` keeps the first."""
        url = self.url(key)

        def pages() -> Iterator[Level]:
            with _source_errors(url):
                yield from self.levels(prefix_of(key))

        is_known = ("level", url) in _answers.get({})
        listing = pages()
        first = _once("level", url, lambda: next(listing))
        yield first
        if not first.is_last:  # the first page is known: continue behind it
            yield from islice(listing, int(is_known), None)

    def read_range(self, key: str, start: int, size: int, etag: str) -> bytes:
        """Read a range of an object that must still have this ETag."""
        url = self.url(key)
        with _source_errors(url, is_object=True):
            with self.open(key, start, size, etag) as reading:
                data = reading.read_all()
            if len(data) != size:  # the object changed, in a store that has no ETags
                raise StoreError(f"{url}: is shorter now", "exists")
            return data

    def read_object(
        self, key: str, size: int | None = None, limit: int | None = None
    ) -> bytes | None:
        """Read an object in one request; None if it has another size."""
        url = self.url(key)

        def attempt(_: int) -> bytes | None:
            with self.open(key) as reading:
                if size not in (None, reading.stored.size):
                    return None
                data = reading.read_all(limit)
            if reading.stored.crc32c is not None and not reading.stored.is_whole(data):
                raise StoreError(f"{url}: its crc32c is not that of the bytes that came", "damaged")
            return data

        with _source_errors(url, is_object=True):
            return self.retried(attempt)


def matches(path: str, pattern: str) -> bool:
    """Return whether a file matches a pattern, as :mod:`glob` has it."""
    # Wildcards match neither slashes nor a dot at the beginning of a name; `**/` is any
    # directories, and `**` at the end all files below.
    parts = pattern.split("/")
    return _match(path.split("/"), [*parts, "*"] if parts[-1] == "**" else parts)


def _match(names: Sequence[str], parts: Sequence[str]) -> bool:
    if not names or not parts:
        return not names and not parts
    is_hidden = names[0].startswith(".") and not parts[0].startswith(".")
    if parts[0] == "**":
        passes = len(names) > 1 and names[0] != "" and not is_hidden
        return _match(names, parts[1:]) or (passes and _match(names[1:], parts))
    return not is_hidden and fnmatchcase(names[0], parts[0]) and _match(names[1:], parts[1:])


def read_back(
    store: Store,
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


class ObjectFile(OpenFile):
    """An object that is open for reading; reading it fails if it has been replaced."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        super().__init__()
        self._asked: deque[_Range] = deque(maxlen=_MOST_ASKED)
        self._windows: deque[_Range] = deque()
        stored = store.look_up(key)
        if stored is None:
            raise no_object(store.url(key))
        self._store, self._stored, self._size = store, stored, stored.size
        self._at = self._window = 0
        self._last = self._announced = -_GAP - 1

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
        follows = abs(offset - self._announced) <= _NEAR
        self._announced = offset + count
        stop = min(offset + min(count, _LARGEST), self._size)
        if offset < stop and not follows and _holding(self._windows, offset) is None:
            self._asked.append(self._get(offset, stop))

    def _find(self, offset: int) -> _Range | None:
        asked = _holding(self._asked, offset)
        while asked is not None and self._asked[0] is not asked:
            self._asked.popleft().data.cancel()  # the range was skipped, or was read otherwise
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
        stored = self._stored
        call = partial(self._store.read_range, stored.key, start, stop - start, stored.etag)
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
