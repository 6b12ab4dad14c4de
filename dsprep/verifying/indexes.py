"""The indexes that let readers find samples without reading shards, made in workers.

``mxnet`` is MXNet's ``.idx`` for RecordIO: a line for each record with its key and its offset. The
key is the record's id, as MXIndexedRecordIO and im2rec write it (``python/mxnet/recordio.py``).
MXIndexedRecordIO finds a record by its key alone, and so only the last of several with one key.

``dali`` is NVIDIA DALI's. For WebDataset it is version 1.2 of what ``wds2idx`` writes and
``webdataset_loader.cc`` reads: a line ``v1.2 SAMPLES``, then a line for each sample with
``EXTENSION OFFSET SIZE NAME`` for each of its members, all separated by blanks. The offset is that
of the member's bytes, after its headers. For TFRecord it is what ``tfrecord2idx`` writes and
``indexed_file_loader.h`` reads: a line ``OFFSET SIZE`` for each record, its frame included.

``wids`` is over all shards of a WebDataset; the format makes it, here it is only compared.

``energon`` is Megatron-Energon's for WebDataset; :mod:`dsprep.verifying.energon` makes it.
"""

from __future__ import annotations

import json
import os
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from dsprep.dataset.manifest import FileEntry
from dsprep.errors import DamagedShard, DestinationError, SourceError
from dsprep.formats.base import Entry, Format, Group, ShardFacts, Span
from dsprep.formats.stream import ShardStream
from dsprep.formats.tar import MAX_NAME, Member
from dsprep.storage.files import is_dir, open_file
from dsprep.storage.local import write_whole
from dsprep.storage.store import LARGEST, store_of
from dsprep.storage.stored import crc32c
from dsprep.tuples import NamedTuple
from dsprep.verifying.energon import Shape, offsets_index
from dsprep.verifying.report import IndexFile, Problem, problem_of
from dsprep.workers.worker import Report, counted

Difference = Callable[[bytes], str | None]
"""Says what is wrong with the bytes of an index; None if they are right."""

_WIDS_KIND = "wids-shard-index-v1"
_MARGIN = 1 << 16
_MAX_SHOWN = 60

_PLAIN = re.compile(r"[!-\[\]-~]+")
_BLANK = re.compile(r"[ \t\n\v\f\r]")  # what ends a word in C++

_LETTERS = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 92: "\\"}
_ESCAPED = [
    chr(byte)
    if 0x20 < byte < 0x7F and byte not in _LETTERS
    else f"\\{_LETTERS.get(byte, f'{byte:03o}')}"
    for byte in range(256)
]


def dali_line(key: str, members: Iterable[Member]) -> str:
    """Return the line of one sample in DALI's index of a WebDataset shard."""
    parts = []
    for member in members:
        extension = extension_of_member(key, member)
        if not extension or _BLANK.search(extension):
            raise ValueError(f"DALI's index cannot hold the extension of {member.name!r}")
        # DALI only shows the name, which must be one word. GNU tar escapes names for wds2idx, but
        # leaves a blank as it is, so that DALI cannot read what wds2idx makes of it.
        name = member.name
        word = name if _PLAIN.fullmatch(name) else "".join(_ESCAPED[b] for b in name.encode())
        parts.append(f"{extension} {member.start} {member.size} {word}")
    return " ".join(parts)


def extension_of_member(key: str, member: Member) -> str:
    """Return the extension of a member of the sample with this key, in its own spelling."""
    return member.name.removeprefix("./")[len(key) + 1 :]


def dali_webdataset(lines: Sequence[str]) -> bytes:
    """Return DALI's index of a WebDataset shard."""
    return "".join(f"{line}\n" for line in (f"v1.2 {len(lines)}", *lines)).encode()


def dali_tfrecord(offsets: Iterable[int], sizes: Iterable[int]) -> bytes:
    """Return DALI's index of a TFRecord shard."""
    places = zip(offsets, sizes, strict=True)
    return "".join(f"{offset} {size}\n" for offset, size in places).encode()


def mxnet_index(ids: Sequence[int], offsets: Sequence[int]) -> bytes:
    """Return MXNet's index of a RecordIO shard."""
    keys = range(len(ids)) if repeat(ids) else ids
    lines = zip(keys, offsets, strict=True)
    return "".join(f"{key}\t{offset}\n" for key, offset in lines).encode()


def repeat(keys: Sequence[int]) -> bool:
    """Return whether a key is that of several samples."""
    return len(set(keys)) < len(keys)


def mxnet_difference(
    index: bytes, ids: Sequence[int], offsets: Sequence[int], by_key: bool = False
) -> str | None:
    """Say what is wrong with MXNet's index of a shard."""
    try:
        lines = [line.split("\t") for line in index.decode().splitlines()]
        listed = [(int(key), int(offset)) for key, offset in lines]
    except ValueError:
        return "cannot be read as an index"
    any_key = repeat(ids)
    for line, (have, id, offset) in enumerate(zip(listed, ids, offsets, strict=False), start=1):
        if have[1] != offset or not (any_key or have[0] == id):
            return (
                f"line {line}: says id {have[0]} at byte {have[1]}, but id {id} is at byte {offset}"
            )
    if len(listed) != len(ids):
        return f"lists {len(listed):,} samples, but the shard holds {len(ids):,}"
    if by_key and repeat([key for key, _ in listed]):
        return "lists several samples with one id, of which MXNet finds the last only"
    return None


def read_wids(data: bytes) -> list[dict[str, Any]] | None:
    """Return the shards that a wids index lists; None if it is not one."""
    try:
        index = json.loads(data)
        shards = index["shardlist"] if index["__kind__"] == _WIDS_KIND else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    is_list = isinstance(shards, list) and all(isinstance(shard, dict) for shard in shards)
    return shards if is_list else None


def wids_difference(data: bytes, shards: Sequence[ShardFacts]) -> str | None:
    """Say what is wrong with a wids index; the places of urls and other entries are free."""
    listed = read_wids(data)
    if listed is None:
        return "is no wids index"
    for have, want in zip(listed, shards, strict=False):
        name = str(have.get("url")).rpartition("/")[2]
        if name != want.name:
            return f"lists {name:.200}, where {want.name} should be"
        for what, entry in (("samples", "nsamples"), ("bytes", "filesize")):
            says, is_so = have.get(entry), getattr(want, what)
            if says != is_so:
                return f"says that {want.name} has {says!s:.30} {what}, but it has {is_so}"
    if len(listed) != len(shards):
        return f"lists {len(listed):,} shards, but there are {len(shards):,}"
    return None


def settle(
    path: str, kind: str, data: bytes, difference: Difference | None, scratch: Path | None
) -> IndexFile:
    """Compare an index with the expected bytes, and write it if it is missing or wrong.

    Without a ``scratch`` directory for the temporary file, the index is only compared.
    """
    found = compared(path, kind, data, difference)
    if scratch is not None and found.state != "unchanged":
        store, key = store_of(path)
        if store.has_rename:
            write_whole(Path(path), data, scratch)
        else:  # an object appears as a whole
            store.put(key, data)
    return found


def compared(path: str, kind: str, data: bytes, difference: Difference | None) -> IndexFile:
    """Compare an index with the expected bytes."""
    state, detail, name = "missing", "", os.path.basename(path)
    have = present(path, 4 * len(data) + _MARGIN)
    if have is not None:
        wrong = _first_difference(have, data) if difference is None else difference(have)
        if have == data or not wrong:
            return IndexFile(FileEntry(name, len(have), crc32c(have)), kind, "unchanged")
        state, detail = "wrong", wrong
    return IndexFile(FileEntry(name, len(data), crc32c(data)), kind, state, detail)


def present(path: str, limit: int = LARGEST) -> bytes | None:
    """Return the first bytes of an index; None if it is missing."""
    try:
        with open_file(path) as file:
            return file.pread(limit, 0)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        above = os.path.dirname(path)
        raise DestinationError(f"{above}: is a file; move it, a directory has its name") from None
    except OSError as error:
        if is_dir(path):
            why = "is a directory; move it, an index has its name"
            raise DestinationError(f"{path}: {why}") from None
        return str(error).encode()  # the text of the error differs from any index


def binary_difference(index: bytes, expected: bytes) -> str | None:
    """Say what is wrong with an index of numbers of 64 bits."""
    if len(index) != len(expected):
        return f"has {len(index):,} bytes, not {len(expected):,}"
    have, want = (memoryview(data).cast("Q") for data in (index, expected))
    for number, (one, other) in enumerate(zip(have, want, strict=True), start=1):
        if one != other:
            return f"number {number:,} is {one}, not {other}"
    return None


def _first_difference(have: bytes, want: bytes) -> str:
    def shown(line: bytes) -> str:
        text = line.decode(errors="backslashreplace")
        return repr(text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…")

    have_lines, want_lines = have.split(b"\n"), want.split(b"\n")
    for number, (one, other) in enumerate(zip(have_lines, want_lines, strict=False), start=1):
        if one != other:
            return f"line {number} is {shown(one)}, not {shown(other)}"
    return f"has {len(have_lines) - 1:,} lines, not {len(want_lines) - 1:,}"


def index_name(name: str, layout: Format, kind: str = "") -> str:
    """Return the file name of a shard's index, by default of the kind that readers know."""
    if kind in layout.shard_indexes[1:]:
        return f"{name}.idx"
    return name.removesuffix(layout.suffix) + ".idx"


# What workers do


class IndexTask(NamedTuple):
    """A shard to index."""

    path: str  # the file, or its address
    layout: Format  # its format
    kinds: tuple[str, ...]  # the kinds of indexes that are wanted for it
    scratch: Path | None  # a directory for unfinished files; None to write nothing
    whole: bool  # whether to read all of it, for its checksum


@dataclass
class ShardWithIndex:
    """The check of a shard, and its indexes."""

    samples: int = 0  # how many it holds
    bytes: int = 0  # its size on disk
    crc32c: int = 0  # checksum of the shard's bytes; 0 if not all were read
    compressed: bool = False  # whether it is gzip
    long_names: int = 0  # how many of its members have names that wids does not read whole
    indexes: Sequence[IndexFile] = ()  # its indexes
    # why it lacks one that is wanted, by the kind of that index
    without: dict[str, str] = field(default_factory=dict)
    shapes: Counter[Shape] = field(default_factory=Counter)  # the extensions that samples have
    # whether ids are those of several samples, so that the keys in its index are positions
    repeats: bool = False
    problem: Problem | None = None  # what is wrong with it


def make_index(task: IndexTask, report: Report) -> ShardWithIndex:
    """Read a shard, and make its indexes if it is whole."""
    found = ShardWithIndex()
    try:
        with ShardStream(task.path, headers=not task.whole) as stream:
            found.compressed = stream.compressed
            drafts = _drafts(task, stream, found, report)
            found.bytes = stream.facts().size
            if task.whole:
                found.bytes, found.crc32c = stream.checksum()
    except (DamagedShard, SourceError, OSError) as error:
        found.problem = problem_of(error, task.path)
        return found
    if found.compressed:
        why = "is gzip, in which nothing can be found by its offset"
        found.without = dict.fromkeys(task.kinds, why)
    above, slash, name = task.path.rpartition("/")
    found.indexes = [
        settle(
            f"{above}{slash}{index_name(name, task.layout, kind)}",
            kind,
            *drafts[kind],
            task.scratch,
        )
        for kind in task.kinds
        if kind in drafts and kind not in found.without
    ]
    return found


_Drafts = dict[str, tuple[bytes, Difference | None]]
"""What each kind of index should hold, and what says how another one differs."""


def _drafts(task: IndexTask, stream: ShardStream, found: ShardWithIndex, report: Report) -> _Drafts:
    """Read a shard to its end, and return what its indexes should hold."""
    groups = task.layout.groups(stream)
    if groups is not None:
        return _drafts_of_groups(task, stream, groups, found, report)
    kind = next(iter(task.layout.shard_indexes), "")
    offsets, sizes, ids = array("q"), array("q"), array("Q")
    # What is read anyway, for a checksum, is checked, too.
    read: Iterator[Entry | Span] = (task.layout.read if task.whole else task.layout.spans)(stream)
    for entry in counted(read, report, lambda: stream.offset):
        found.samples += 1
        offsets.append(entry.offset)
        sizes.append(entry.size)
        ids.append(entry.id if isinstance(entry, Span) else entry.sample.id)
    if kind == "dali":
        return {kind: (dali_tfrecord(offsets, sizes), None)}
    if kind != "mxnet":
        return {}
    found.repeats = kind in task.kinds and repeat(ids)
    difference = partial(mxnet_difference, ids=ids, offsets=offsets, by_key=True)
    return {kind: (mxnet_index(ids, offsets), difference)}


def _drafts_of_groups(
    task: IndexTask,
    stream: ShardStream,
    groups: Iterable[Group],
    found: ShardWithIndex,
    report: Report,
) -> _Drafts:
    """Read a shard whose samples have members, and return what its indexes should hold."""
    lines, starts, end = list[str](), array("Q"), 0
    for group in counted(groups, report, lambda: stream.offset):
        found.samples += 1
        members = group.members.values()
        found.long_names += sum(len(member.name.encode()) > MAX_NAME for member in members)
        starts.append(group.start)
        end = group.stop
        extensions = (extension_of_member(group.key, member) for member in members)
        found.shapes[tuple(sorted(extensions))] += 1
        if "dali" not in task.kinds or group.key.endswith("/"):
            continue  # DALI passes over hidden files, and webdataset does not
        try:
            lines.append(dali_line(group.key, members))
        except ValueError as error:
            found.without.setdefault("dali", str(error))
    if "dali" in task.kinds and not lines:
        found.without.setdefault("dali", "holds no samples, and DALI takes no index of none")
    if "energon" in task.kinds and not starts:
        found.without["energon"] = "holds no samples, and Megatron-Energon takes no such shard"
    offsets = offsets_index(starts, end)
    return {
        "dali": (dali_webdataset(lines), None),
        "energon": (offsets, partial(binary_difference, expected=offsets)),
    }
