"""Objects read back: small ones for what they hold, any for the checksum of what they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from dsprep.errors import StoreError
from dsprep.storage.checksums import combine_all, crc32c
from dsprep.storage.local import LARGEST
from dsprep.storage.pool import Pace
from dsprep.storage.s3.bucket import S3Store
from dsprep.storage.store import FATAL, Stored, ignore, read_all
from dsprep.storage.transfer import Range, plan_parts

_AT_ONCE = 1 << 20


def read_small(store: S3Store, key: str) -> tuple[bytes, Stored]:
    """All bytes of a small object, and what was said about it with them."""
    with store.open(key) as reading:
        return read_all(reading, LARGEST), reading.stored


def read_back(
    store: S3Store,
    objects: Sequence[Stored],
    pace: Pace,
    on_part: Callable[[int, Range], object] = ignore,
    part_size: int = 0,
) -> list[int | StoreError]:
    """The crc32c of objects, by reading all of their bytes, which are not kept."""

    def read(task: _Task) -> int | StoreError:
        try:
            value = _crc32c_of_part(store, objects[task.which], task.part, pace)
        except StoreError as error:
            if error.kind in FATAL:
                raise
            return error
        on_part(*task)
        return value

    tasks = [
        _Task(index, part) for index, each in enumerate(objects) for part in _parts(each, part_size)
    ]
    found: list[list[tuple[int, int]]] = [[] for _ in objects]
    failed: dict[int, StoreError] = {}
    for task, value in zip(tasks, pace.each(read, tasks), strict=True):
        if isinstance(value, StoreError):
            failed[task.which] = value
        else:
            found[task.which].append((value, task.part.size))
    return [failed.get(index) or combine_all(runs) for index, runs in enumerate(found)]


class _Task(NamedTuple):
    which: int
    part: Range


def _parts(stored: Stored, part_size: int) -> Iterable[Range]:
    """The parts that it is read in: none, if there is nothing to read."""
    return plan_parts(stored.size, part_size) if stored.size else ()


def _crc32c_of_part(store: S3Store, stored: Stored, part: Range, pace: Pace) -> int:
    value = 0
    with store.open(stored.key, part.start, part.size, stored.etag) as reading:
        while data := reading.read(_AT_ONCE):
            pace.take(len(data))
            value = crc32c(data, value)
    return value
