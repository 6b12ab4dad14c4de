"""Looking through one shard, as a worker of ``verify`` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from dsprep.errors import BadImage, BadSample, DamagedShard, SourceError
from dsprep.formats.base import Entry, Format, path_of
from dsprep.formats.stream import ShardStream
from dsprep.images.check import make_check
from dsprep.indexes import mxnet
from dsprep.plan.recipe import Recipe, make_samples
from dsprep.rows import Pixels, Rows
from dsprep.run.shard import Report
from dsprep.sample import Sample, key_of
from dsprep.schema import Reading
from dsprep.storage.local import read_whole
from dsprep.verifying.digests import Digest, Digester

_REPORT_EVERY = 256
"""Samples between two progress reports."""

_MOST_PROBLEMS = 100
"""What is wrong with more samples of one shard than this is not wrong with the samples."""


class Problem(NamedTuple):
    """Something that is not as it should be."""

    file: str  # the file's name
    offset: int | None  # where in it, in (decompressed) bytes; None for the whole file
    sample: str  # the key of the sample, or the empty string
    message: str  # what is wrong


class ShardTask(NamedTuple):
    """A shard to look through."""

    path: str  # the file
    layout: Format  # the format
    reading: Reading | None  # makes samples of the schema; None if nothing tells it
    pixels: Pixels | None  # where samples have their image as bare pixels; None if nowhere
    enforced: bool  # whether a sample that does not fit the schema is a problem
    decode: bool  # whether to decode every image
    max_pixels: int  # the most pixels that an image may have
    readable: frozenset[str] | None  # the kinds of image that may be in it; None for any
    idx: str | None  # the file with the offsets of the samples, if there is one
    # says what every sample holds, for a comparison; None if that is not wanted
    digester: Digester | None


@dataclass
class Inspected:
    """What was found in a shard."""

    samples: int = 0  # how many it holds
    bytes: int = 0  # its size on disk
    crc32c: int = 0  # of its bytes on disk
    is_read: bool = False  # whether its bytes could be read
    problems: list[Problem] = field(default_factory=list)  # what is wrong with it
    counts: Counter[str] = field(default_factory=Counter)  # how many samples have each field
    misfits: int = 0  # how many samples do not fit the schema
    misfit: str = ""  # why the first of them does not
    # why samples do not, by position, if digests were asked for
    reasons: dict[int, str] = field(default_factory=dict)
    # what every sample is known by, if digests were asked for: its key, path or id as the format
    # has it; empty if the shard does not tell
    names: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)  # the key of every sample, likewise
    # where every sample begins, likewise; None in a file of its own
    offsets: list[int | None] = field(default_factory=list)
    # the file of every sample, if samples have files of their own
    files: list[str] = field(default_factory=list)
    # what the digester says of every sample, likewise; None for one that does not fit
    digests: list[Digest | None] = field(default_factory=list)

    def add(self, other: Inspected) -> None:
        """Add what was found of more samples of a folder."""
        before = len(self.digests)
        self.reasons |= {before + at: reason for at, reason in other.reasons.items()}
        for name in (
            "samples",
            "bytes",
            "problems",
            "names",
            "keys",
            "offsets",
            "files",
            "digests",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))


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
                for other in _other_names(task):
                    problem(None, "", other)
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
    check = _checker(task)
    positions: list[tuple[int, int]] = []
    reported = 0
    for entry in task.layout.read(stream):
        key = entry.sample.key
        found.samples += 1
        positions.append((entry.sample.id, entry.offset))
        sample, misfit = _typed(entry.sample, task)
        if misfit:
            found.misfits += 1
            found.misfit = found.misfit or f"the sample {key!r} {misfit}"
            if task.digester is not None:
                found.reasons[len(found.digests)] = misfit
        if misfit and task.enforced:
            problem(entry.offset, key, misfit)
        if sample is not None:
            found.counts.update(sample.fields.keys())
            for wrong in check(sample):
                problem(entry.offset, key, wrong)
        if task.digester is not None:
            _note(found, task, entry, sample)
        if found.samples - reported >= _REPORT_EVERY:
            report(found.samples - reported, 0, [])
            reported = found.samples
    report(found.samples - reported, stream.offset, [])
    return positions


def _typed(sample: Sample, task: ShardTask) -> tuple[Sample | None, str]:
    """Return the sample as the schema has it, or why it does not fit."""
    if task.reading is None:
        return None, ""
    try:
        return task.reading(task.pixels.encoded(sample) if task.pixels else sample), ""
    except BadSample as error:
        return None, str(error)


def _checker(task: ShardTask) -> Callable[[Sample], Iterator[str]]:
    """Return a function that says what is wrong with the images and the class of a sample."""
    schema = task.reading.schema if task.reading else None
    label = schema.label_field if schema else None
    names = label.names if label and label.type == "class" else ()
    images = [each.name for each in schema.fields if each.type == "image"] if schema else []
    own = make_check("decode", readable=task.readable, max_pixels=task.max_pixels)
    other = make_check("decode", max_pixels=task.max_pixels)

    def check(sample: Sample) -> Iterator[str]:
        told = sample.class_name
        number = sample.fields.get(label.name) if names and told and label else None
        if number is not None:
            name = names[number] if 0 <= number < len(names) else ""
            if name != told:
                yield f"its class {number} is called {told!r}, and it is {name!r} in the manifest"
        if not task.decode:
            return
        if schema is not None and schema.image and sample.image is None:
            yield "holds no image"
        for name in images:
            if name in sample.fields:
                try:
                    (own if name == sample.image else other)(sample.fields[name])
                except BadImage as error:
                    yield str(error) if name == sample.image else f"the field {name!r}: {error}"

    return check


def _other_names(task: ShardTask) -> Iterator[str]:
    """Find the classes that the shard itself calls otherwise than the schema."""
    fields = task.reading.schema.by_place if task.reading else {}
    for raw, names in task.layout.class_names(task.path).items():
        known = fields[(raw,)].names if (raw,) in fields else ()
        for number, (name, other) in enumerate(zip(names, known, strict=False)):
            if name != other and other:
                yield f"calls the class {number} {name!r}, and it is {other!r} in the manifest"


def _note(found: Inspected, task: ShardTask, entry: Entry, sample: Sample | None) -> None:
    assert task.digester is not None
    found.names.append(name_of(entry.sample, task.layout))
    found.keys.append(entry.sample.key)
    found.offsets.append(entry.offset)
    found.digests.append(None if sample is None else task.digester(sample))


def name_of(sample: Sample, layout: Format) -> str:
    """Return what a sample is known by in the shards of a format; empty if nothing tells it."""
    if layout.known_by == "id":
        return str(sample.id)
    if layout.known_by == "key" or not (sample.key or sample.path):
        return sample.key
    return path_of(sample)


def _check_index(path: str, positions: list[tuple[int, int]]) -> str | None:
    """Say what is wrong with an ``.idx``, given the id and the offset of every sample."""
    try:
        index = read_whole(path)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    ids, offsets = [id for id, _ in positions], [offset for _, offset in positions]
    return mxnet.difference(index, ids, offsets)


class SourceTask(NamedTuple):
    """Samples of a source to digest."""

    recipe: Recipe  # how the shards were made of them
    rows: Rows  # the samples
    digester: Digester  # says what they hold


@dataclass
class Digested:
    """Samples of a source."""

    names: list[str] = field(default_factory=list)  # what each is known by in the shards
    # what the digester says of each; None for one that cannot be had
    digests: list[Digest | None] = field(default_factory=list)
    reasons: dict[int, str] = field(default_factory=dict)  # why not, by position


def digest_source(task: SourceTask, report: Report) -> Digested:
    """Make samples of a source as packing would, and digest them."""
    found = Digested()
    recipe, rows = task.recipe, task.rows
    done = 0
    for position, sample in enumerate(make_samples(recipe, rows)):
        digest = None
        if isinstance(sample, BadSample):
            found.reasons[position] = str(sample)
            path, id = rows.paths[position], rows.ids[position]
            key = f"{id:09d}" if recipe.key == "index" else key_of(path)
            sample = Sample(key, {}, id, path)
        else:
            try:
                digest = task.digester(sample)
            except (ValueError, TypeError, OverflowError):
                found.reasons[position] = "a value does not fit the type that the shards have"
        found.names.append(name_of(sample, recipe.layout))
        found.digests.append(digest)
        done += 1
        if done == _REPORT_EVERY:
            report(done, 0, [])
            done = 0
    report(done, sum(task.rows.sizes), [])
    return found
