"""The index of one shard, made in a worker."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from dsprep.errors import DamagedShard, SourceError
from dsprep.formats.base import Format, Group
from dsprep.formats.stream import ShardStream
from dsprep.formats.tar import MAX_NAME
from dsprep.indexes import dali, mxnet
from dsprep.indexing.files import Settled, settle
from dsprep.verifying.inspection import Problem
from dsprep.workers.pool import Report

T = TypeVar("T")

_REPORT_EVERY = 1024
"""Samples between two progress reports."""


def index_name(name: str, layout: Format) -> str:
    """The file name of a shard's index."""
    return name.removesuffix(layout.suffix) + ".idx"


class IndexTask(NamedTuple):
    """A shard to index."""

    path: str  # the file
    layout: Format  # its format
    index_path: str | None  # where its index is to be; None if none is wanted
    scratch: str | None  # A directory for what is not whole yet; None to write nothing
    whole: bool  # whether to read all of it, for its checksum


@dataclass
class IndexedShard:
    """What was found in a shard, and what was made of it."""

    samples: int = 0  # how many it holds
    bytes: int = 0  # its size on disk
    crc32c: int | None = None  # of its bytes; None if not all were read
    compressed: bool = False  # whether it is gzip
    long_names: int = 0  # how many of its members have names that wids does not read whole
    index: Settled | None = None  # its index; None if there is none
    without: str = ""  # why it has none, though one is wanted
    # whether ids are those of several samples, so that the keys in its index are others
    repeats: bool = False
    problem: Problem | None = None  # what is wrong with it


class _Draft(NamedTuple):
    """What an index should hold, and what says how another one is wrong."""

    data: bytes
    difference: Callable[[bytes], str | None] | None = None


def make_index(task: IndexTask, report: Report) -> IndexedShard:
    """Go through a shard, and make its index if it is whole."""
    found = IndexedShard()
    name = Path(task.path).name
    try:
        with _open(task) as stream:
            found.compressed = stream.compressed
            draft = _draft(task, stream, found, report)
            found.bytes = Path(task.path).stat().st_size
            if task.whole:
                found.bytes, found.crc32c = stream.checksum()
    except DamagedShard as error:
        found.problem = Problem(name, error.offset, "", error.problem)
    except SourceError as error:
        message = str(error).removeprefix(f"{task.path}: ")
        found.problem = Problem(name, None, "", message)
    except OSError as error:
        found.problem = Problem(name, None, "", f"cannot be read ({error.strerror})")
    else:
        if task.index_path is None:
            found.without = ""
        elif draft is not None:
            kind = task.layout.shard_index
            found.index = settle(Path(task.index_path), kind, *draft, task.scratch)
    return found


def _open(task: IndexTask) -> ShardStream:
    return ShardStream(task.path) if task.whole else ShardStream.of_headers(task.path)


def _draft(
    task: IndexTask, stream: ShardStream, found: IndexedShard, report: Report
) -> _Draft | None:
    """Read a shard to its end; returns its index if it can have one, else says why not."""
    groups = task.layout.groups(stream)
    if groups is not None:
        draft = _of_members(groups, stream, found, report)
    else:
        draft = _of_records(task, stream, found, report)
    if found.compressed:
        found.without = "is gzip, in which nothing can be found by its offset"
        return None
    return draft


def _of_members(
    groups: Iterator[Group], stream: ShardStream, found: IndexedShard, report: Report
) -> _Draft | None:
    lines = []
    for group in _counted(groups, stream, found, report):
        members = group.members.values()
        found.long_names += sum(len(each.name.encode()) > MAX_NAME for each in members)
        if group.key.endswith("/"):  # a hidden file, which DALI passes over and webdataset does not
            continue
        try:
            lines.append(dali.sample_line(group.key, members))
        except ValueError as error:
            found.without = found.without or str(error)
    if not (lines or found.without):
        found.without = "holds no samples, and DALI takes no index of none"
    return None if found.without else _Draft(dali.webdataset_index(lines))


def _of_records(
    task: IndexTask, stream: ShardStream, found: IndexedShard, report: Report
) -> _Draft | None:
    offsets, sizes, ids = array("q"), array("q"), array("Q")
    for offset, size, id in _counted(_places(task, stream), stream, found, report):
        offsets.append(offset)
        sizes.append(size)
        ids.append(id)
    kind = task.layout.shard_index
    if kind == "dali":
        return _Draft(dali.tfrecord_index(offsets, sizes))
    if kind == "mxnet":
        found.repeats = mxnet.repeat(ids)
        difference = partial(mxnet.difference, ids=ids, offsets=offsets, by_key=True)
        return _Draft(mxnet.recordio_index(ids, offsets), difference)
    return None


def _places(task: IndexTask, stream: ShardStream) -> Iterator[tuple[int, int, int]]:
    """The offset, the size and the id of each sample."""
    if task.whole:  # what has to be read can be checked, too
        for offset, size, sample in task.layout.read(stream):
            yield offset, size, sample.id
    else:
        for span in task.layout.spans(stream):
            yield span.offset, span.size, span.id


def _counted(
    samples: Iterable[T], stream: ShardStream, found: IndexedShard, report: Report
) -> Iterator[T]:
    """Count what passes by, and tell how far it is."""
    said = 0
    for each in samples:
        found.samples += 1
        yield each
        if found.samples % _REPORT_EVERY == 0:
            report(_REPORT_EVERY, stream.offset - said, [])
            said = stream.offset
    report(found.samples % _REPORT_EVERY, stream.offset - said, [])
