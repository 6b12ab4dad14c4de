"""Looking through one shard, as a worker of ``verify`` does."""

from __future__ import annotations

import hashlib
import struct
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from dsprep.errors import BadImage, BadSample, DamagedShard, SourceError
from dsprep.formats.base import Entry, Format
from dsprep.formats.stream import ShardStream
from dsprep.images.check import make_check
from dsprep.indexes import mxnet
from dsprep.planning.recipe import Recipe, make_samples
from dsprep.rows import Rows
from dsprep.running.shard import Report
from dsprep.sample import Sample
from dsprep.stores.local import read_whole

_REPORT_EVERY = 256
"""Samples between two progress reports."""

_MOST_PROBLEMS = 100
"""What is wrong with more samples of one shard than this is not wrong with the samples."""


class Problem(NamedTuple):
    """Something that is not as it should be.

    Attributes:
        file: The file's name.
        offset: Where in it, in (decompressed) bytes; None for the whole file.
        sample: The key of the sample, or the empty string.
        message: What is wrong.
    """

    file: str
    offset: int | None
    sample: str
    message: str


class ShardTask(NamedTuple):
    """A shard to look through.

    Attributes:
        path: The file.
        layout: The format.
        decode: Whether to decode every image.
        max_pixels: The most pixels that an image may have.
        readable: The kinds of image that may be in it; None for any.
        idx: The file with the offsets of the samples, if there is one.
        digests: Whether to say what every sample holds, for a comparison.
    """

    path: str
    layout: Format
    decode: bool
    max_pixels: int
    readable: frozenset[str] | None
    idx: str | None
    digests: bool


@dataclass
class Inspected:
    """What was found in a shard.

    Attributes:
        samples: How many it holds.
        bytes: Its size on disk.
        crc32c: Of its bytes on disk.
        is_read: Whether its bytes could be read.
        problems: What is wrong with it.
        names: What every sample is known by, if digests were asked for: its key, path or id as the
            format has it; empty if the shard does not tell.
        keys: The key of every sample, likewise.
        offsets: Where every sample begins, likewise.
        digests: A digest of the image of every sample, likewise.
        labels: The label of every sample as :func:`label_text` has it, likewise.
    """

    samples: int = 0
    bytes: int = 0
    crc32c: int = 0
    is_read: bool = False
    problems: list[Problem] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    offsets: array[int] = field(default_factory=lambda: array("q"))
    digests: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)


def inspect_shard(task: ShardTask, report: Report) -> Inspected:
    """Look through a shard from its first byte to its last."""
    name = Path(task.path).name
    found = Inspected()

    def problem(offset: int | None, sample: str, message: str) -> None:
        if len(found.problems) < _MOST_PROBLEMS:
            found.problems.append(Problem(name, offset, sample, message))

    try:
        with ShardStream(task.path) as stream:
            try:
                positions = _read_samples(task, stream, found, problem, report)
            except DamagedShard as error:
                problem(error.offset, "", error.problem)
            else:
                if task.idx is not None and (wrong := _check_index(task.idx, positions)):
                    found.problems.append(Problem(Path(task.idx).name, None, "", wrong))
            found.bytes, found.crc32c = stream.checksum()
            found.is_read = True
    except SourceError as error:
        problem(None, "", str(error).removeprefix(f"{task.path}: "))
    except OSError as error:
        problem(None, "", f"cannot be read ({error.strerror})")
    return found


def _read_samples(
    task: ShardTask,
    stream: ShardStream,
    found: Inspected,
    problem: Callable[[int | None, str, str], None],
    report: Report,
) -> list[tuple[int, int]]:
    """Look at every sample; returns the id and the offset of each."""
    check = make_check("decode", readable=task.readable, max_pixels=task.max_pixels)
    positions: list[tuple[int, int]] = []
    seen: set[str] = set()
    reported = 0
    for entry in task.layout.read(stream):
        sample = entry.sample
        found.samples += 1
        positions.append((sample.id, entry.offset))
        if task.layout.keys_must_differ and sample.key in seen:
            problem(entry.offset, sample.key, "the key was there before: readers see two samples")
        seen.add(sample.key)
        if task.decode:
            try:
                _decode(sample, check)
            except BadSample as error:
                problem(entry.offset, sample.key, str(error))
        if task.digests:
            _note(found, task.layout, entry)
        if found.samples - reported >= _REPORT_EVERY:
            report(found.samples - reported, 0, [])
            reported = found.samples
    report(found.samples - reported, stream.offset, [])
    return positions


def _decode(sample: Sample, check: Callable[[bytes], object]) -> None:
    image = sample.image()
    if image is None:
        raise BadImage("holds no image that dsprep knows")
    check(image[1])


def _note(found: Inspected, layout: Format, entry: Entry) -> None:
    sample = entry.sample
    image = sample.image()
    names = {"key": sample.key, "path": sample.fields.get("filename", ""), "id": sample.id}
    found.names.append(str(names[layout.known_by]))
    found.keys.append(sample.key)
    found.offsets.append(entry.offset)
    found.digests.append(digest(image[1] if image else b""))
    found.labels.append(label_text(_labels(sample)))


def digest(data: bytes) -> str:
    """What two payloads share only if they are equal."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def label_text(labels: Sequence[float]) -> str:
    """Labels in the precision that all formats share, 32-bit floats, for a comparison."""
    try:
        return struct.pack(f"<{len(labels)}f", *labels).hex()
    except OverflowError:
        return repr(labels)


def _labels(sample: Sample) -> Sequence[float]:
    """The labels of a sample as it was read from a shard; none if it has none."""
    label = sample.label()
    if label is not None:
        return (label,) if isinstance(label, int) else label
    for name in ("cls", "label", "label.json"):
        value = sample.fields.get(name)
        if isinstance(value, bytes):
            try:
                return [float(number) for number in value.decode().strip("[]").split(",")]
            except ValueError:
                return ()
    return ()


def _check_index(path: str, positions: list[tuple[int, int]]) -> str | None:
    """Say what is wrong with an ``.idx``, given the id and the offset of every sample."""
    try:
        index = read_whole(path)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    ids, offsets = [id for id, _ in positions], [offset for _, offset in positions]
    return mxnet.difference(index, ids, offsets)


class SourceTask(NamedTuple):
    """Samples of a source to digest.

    Attributes:
        recipe: How the shards were made of them.
        rows: The samples.
    """

    recipe: Recipe
    rows: Rows


def digest_source(task: SourceTask, report: Report) -> list[str]:
    """The digest of each image as packing would write it; empty for one that it would reject."""
    digests = []
    done = 0
    for sample in make_samples(task.recipe, task.rows):
        try:
            if isinstance(sample, BadSample):
                raise sample
            image = sample.image()
            digests.append(digest(image[1] if image else b""))
        except BadSample:
            digests.append("")
        done += 1
        if done == _REPORT_EVERY:
            report(done, 0, [])
            done = 0
    report(done, sum(task.rows.sizes), [])
    return digests
