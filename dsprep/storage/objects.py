"""Objects on S3, as what reads files takes them: what is not there is an OSError, as it is there.

All else that S3 refuses is an error of the source, in the words of the store.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from zlib import crc32

from dsprep.errors import SourceError, StoreError
from dsprep.storage.checksums import is_whole
from dsprep.storage.location import parse_url
from dsprep.storage.store import Level, Stored, read_all

if TYPE_CHECKING:
    from dsprep.storage.s3.bucket import S3Store

T = TypeVar("T")

_SECOND = 1_000_000_000


class Facts(NamedTuple):
    """What tells whether a file is still the one that it was."""

    size: int  # in bytes
    # when it was last changed, in nanoseconds since 1970. An object's time has whole seconds; what
    # follows them is made of its ETag, so that it changes with the content.
    mtime_ns: int


def facts_of(stored: Stored) -> Facts:
    """The facts of an object."""
    mark = crc32(stored.etag.encode()) % _SECOND
    return Facts(stored.size, int(stored.modified) * _SECOND + mark)


def no_object(url: str) -> FileNotFoundError:
    """The error where there should be an object."""
    return FileNotFoundError(errno.ENOENT, "there is no such object", url)


@contextmanager
def as_source(url: str, *, is_object: bool = False) -> Iterator[None]:
    """Tell what a store refuses as what is wrong with a source."""
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


def bucket_and_key(url: str) -> tuple[S3Store, str]:
    """The bucket of an object or a prefix, connected, and its key."""
    from dsprep.storage.s3.bucket import store_of  # not where nothing is on S3

    location = parse_url(url)
    return store_of(location.bucket), location.key


_answers: ContextVar[dict[tuple[str, str], Any] | None] = ContextVar("answers", default=None)


@contextmanager
def asked_once() -> Iterator[None]:
    """Ask S3 only once what is at a place, for as long as this lasts: nothing is to change there.

    What a user named is looked at by all that may know it, one after the other.
    """
    before = _answers.set({})
    try:
        yield
    finally:
        _answers.reset(before)


def _once(what: str, url: str, ask: Callable[[], T]) -> T:
    known = _answers.get()
    if known is None:
        return ask()
    if (what, url) not in known:
        known[what, url] = ask()
    answer: T = known[what, url]
    return answer


def look_up(url: str) -> Stored | None:
    """What is known about an object; None if there is none."""

    def ask() -> Stored | None:
        with as_source(url):
            store, key = bucket_and_key(url)
            return store.stat(key) if key and not key.endswith("/") else None

    return _once("object", url, ask)


def prefix_of(key: str) -> str:
    """What the keys of all objects begin with that lie below a place, as in a directory."""
    return key.rstrip("/") + "/" if key.strip("/") else ""


def levels(url: str) -> Iterator[Level]:
    """What lies right below a place, page by page."""
    first = _once("level", url, lambda: next(_levels(url)))
    yield first
    if not first.is_last:
        yield from islice(_levels(url), 1, None)


def _levels(url: str) -> Iterator[Level]:
    with as_source(url):
        store, key = bucket_and_key(url)
        yield from store.levels(prefix_of(key))


def object_sizes(url: str) -> dict[str, int]:
    """The size of every object below a place, by its path from there."""
    with as_source(url):
        store, key = bucket_and_key(url)
        prefix = prefix_of(key)
        pages = store.list(prefix)
        return {each.key[len(prefix) :]: each.size for page in pages for each in page}


def read_range(url: str, start: int, size: int, etag: str) -> bytes:
    """Some bytes of an object that must still have this ETag."""
    with as_source(url, is_object=True):
        store, key = bucket_and_key(url)
        with store.open(key, start, size, etag) as reading:
            data = read_all(reading)
        if len(data) != size:  # only where an ETag could not be asked for
            raise StoreError(f"{url}: is shorter now", "exists")
        return data


def read_object(url: str, size: int | None = None, limit: int | None = None) -> bytes | None:
    """All of an object, in one request."""
    with as_source(url, is_object=True):
        store, key = bucket_and_key(url)
        failed = 0
        while True:
            with store.open(key) as reading:
                if size not in (None, reading.stored.size):
                    return None
                data = read_all(reading, limit)
            if reading.stored.crc32c is None or is_whole(data, reading.stored):
                return data
            failed += 1
            problem = f"{url}: its crc32c is not that of the bytes that came"
            store.again(StoreError(problem, "damaged"), failed)
