"""Reading shards, files of a tree, and samples of a source, as the workers of ``verify`` do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import google_crc32c

from dsprep.errors import BadImage, BadSample, DamagedShard, SourceError
from dsprep.formats.base import Format, path_of
from dsprep.formats.folder import Listed
from dsprep.formats.stream import ShardStream
from dsprep.images.decode import make_check
from dsprep.pipeline import Pipeline, make_samples
from dsprep.rows import Pixels, Rows
from dsprep.run.shard import Report
from dsprep.sample import IMAGE_EXTENSIONS, Sample, key_of
from dsprep.schema import Reading
from dsprep.storage.local import LARGEST, read_whole
from dsprep.verifying.digests import Digest, Digester
from dsprep.verifying.indexes import mxnet_difference
from dsprep.verifying.report import Problem, problem_of

_REPORT_EVERY = 256
"""Samples between two progress reports."""

_MAX_PROBLEMS = 100
"""If more samples of a shard are wrong than this, the samples are not the reason."""


class Task(NamedTuple):
    """A shard to read, or some samples of a tree of files."""

    path: str  # the file, or the top of the tree
    layout: Format  # the format
    reading: Reading | None  # makes samples of the schema; None if the schema is unknown
    pixels: Pixels | None  # where samples have their image as bare pixels; None if nowhere
    enforced: bool  # whether a sample that does not fit the schema is a problem
    decode: bool  # whether to decode every image
    max_pixels: int  # the maximum number of pixels of an image
    digester: Digester | None  # digests every sample for a comparison; None if there is none
    idx: str | None = None  # the file with the offsets of the samples, if there is one
    listed: Sequence[Listed] = ()  # what the listing of a tree says of the samples


@dataclass
class Digested:
    """Samples as a comparison needs them: a list for each column."""

    # what a sample is known by: its key, path or id, as the format has it; empty if unknown
    names: list[str] = field(default_factory=list)
    digests: list[Digest | None] = field(default_factory=list)  # None if there is no sample
    reasons: list[str | None] = field(default_factory=list)  # why not
    keys: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)  # empty for the file of the task
    offsets: list[int | None] = field(default_factory=list)  # None in a file of its own

    def add(
        self,
        sample: Sample,
        name: str,
        digest: Digest | None,
        reason: str | None,
        file: str = "",
        offset: int | None = None,
    ) -> None:
        """Add a sample."""
        self.names.append(name)
        self.digests.append(digest)
        self.reasons.append(reason)
        self.keys.append(sample.key)
        self.files.append(file)
        self.offsets.append(offset)


@dataclass
class Inspected:
    """What was found in a shard, or in some samples of a tree."""

    samples: int = 0  # how many it holds
    bytes: int = 0  # its size on disk
    crc32c: int = 0  # of its bytes on disk
    is_read: bool = False  # whether its bytes could be read
    problems: list[Problem] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)  # how many samples have each field
    misfits: int = 0  # how many samples do not fit the schema
    misfit: str = ""  # why the first of them does not
    digested: Digested = field(default_factory=Digested)  # the samples, if there is a digester


def inspect(task: Task, report: Report) -> Inspected:
    """Read a shard from its first byte to its last, or the files of some samples."""
    return _inspect_files(task, report) if task.listed else _inspect_shard(task, report)


def _inspect_shard(task: Task, report: Report) -> Inspected:
    path = Path(task.path)
    found = Inspected()

    def problem(offset: int | None, sample: str, message: str) -> None:
        if len(found.problems) < _MAX_PROBLEMS:
            found.problems.append(Problem(path.name, offset, sample, message))

    try:
        with ShardStream(task.path) as stream:
            try:
                ids, offsets = _read_samples(task, stream, found, problem, report)
            except DamagedShard as error:
                problem(error.offset, "", error.problem)
            else:
                for other in _other_names(task):
                    problem(None, "", other)
                if task.idx is not None and (wrong := _index_problem(task.idx, ids, offsets)):
                    found.problems.append(Problem(Path(task.idx).name, None, "", wrong))
            found.bytes, found.crc32c = stream.checksum()
            found.is_read = True
    except (SourceError, OSError) as error:
        problem(*problem_of(error, path)[1:])
    return found


def _read_samples(
    task: Task,
    stream: ShardStream,
    found: Inspected,
    problem: Callable[[int | None, str, str], None],
    report: Report,
) -> tuple[list[int], list[int]]:
    """Check every sample; return their ids and offsets."""
    check = _checker(task)
    ids, offsets = list[int](), list[int]()
    reported = 0
    for offset, _, raw in task.layout.read(stream):
        found.samples += 1
        ids.append(raw.id)
        offsets.append(offset)
        sample, misfit = None, None
        if task.reading is not None:
            try:
                sample = task.reading(task.pixels.encoded(raw) if task.pixels else raw)
            except BadSample as error:
                misfit = str(error)
                found.misfits += 1
                found.misfit = found.misfit or f"the sample {raw.key!r} {misfit}"
                if task.enforced:
                    problem(offset, raw.key, misfit)
        if sample is not None:
            found.counts.update(sample.fields.keys())
            for wrong in check(sample):
                problem(offset, raw.key, wrong)
        if task.digester is not None:
            digest = None if sample is None else task.digester(sample)
            found.digested.add(raw, name_of(raw, task.layout), digest, misfit, offset=offset)
        if found.samples - reported >= _REPORT_EVERY:
            report(found.samples - reported, 0, [])
            reported = found.samples
    report(found.samples - reported, stream.offset, [])
    return ids, offsets


def _checker(task: Task) -> Callable[[Sample], Iterator[str]]:
    """Return a function that says what is wrong with the images and the class of a sample."""
    schema = task.reading.schema if task.reading else None
    label = schema.label_field if schema else None
    names = label.names if label and label.type == "class" else ()
    images = [it.name for it in schema.fields if it.type == "image"] if schema else []
    check_own = make_check(
        "decode", readable=task.layout.readable_images, max_pixels=task.max_pixels
    )
    check_other = make_check("decode", max_pixels=task.max_pixels)

    def check(sample: Sample) -> Iterator[str]:
        own = sample.class_name
        number = sample.fields.get(label.name) if names and own and label else None
        if number is not None:
            name = names[number] if 0 <= number < len(names) else ""
            if name != own:
                yield f"its class {number} is called {own!r}, and it is {name!r} in the manifest"
        if not task.decode:
            return
        if schema is not None and schema.image and sample.image is None:
            yield "holds no image"
        for name in images:
            if name in sample.fields:
                try:
                    (check_own if name == sample.image else check_other)(sample.fields[name])
                except BadImage as error:
                    yield str(error) if name == sample.image else f"the field {name!r}: {error}"

    return check


def _other_names(task: Task) -> Iterator[str]:
    """Find the classes that have other names in the shard itself than in the schema."""
    fields = task.reading.schema.by_place if task.reading else {}
    for raw, names in task.layout.class_names(task.path).items():
        known = fields[(raw,)].names if (raw,) in fields else ()
        for number, (name, other) in enumerate(zip(names, known, strict=False)):
            if name != other and other:
                yield f"calls the class {number} {name!r}, and it is {other!r} in the manifest"


def _index_problem(path: str, ids: list[int], offsets: list[int]) -> str | None:
    try:
        return mxnet_difference(read_whole(path), ids, offsets)
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def name_of(sample: Sample, layout: Format) -> str:
    """Return what a sample is known by in the shards of a format; empty if it is unknown."""
    if layout.known_by == "id":
        return str(sample.id)
    if layout.known_by == "key" or not (sample.key or sample.path):
        return sample.key
    return path_of(sample)


def _inspect_files(task: Task, report: Report) -> Inspected:
    """Compare the files of samples with the listing."""
    check = make_check("decode", readable=None, max_pixels=task.max_pixels)
    found = Inspected()
    for listed in task.listed:
        files: dict[str, bytes] = {}
        before = len(found.problems)
        for file in listed.files:
            path, wrong = Path(task.path, file.path), ""
            try:
                if path.is_symlink():
                    raise BadSample("is a link, and no file of its own")
                data = read_whole(path, max(file.bytes, LARGEST))
                found.bytes += len(data)
                files[file.path] = data
                if (len(data), google_crc32c.value(data)) != (file.bytes, file.crc32c):
                    wrong = "is not as it was written"
                elif task.decode and file.path.rpartition(".")[2].lower() in IMAGE_EXTENSIONS:
                    check(data)
            except OSError as error:
                wrong = f"cannot be read ({error.strerror})"
            except BadSample as error:
                wrong = str(error)
            if wrong:
                found.problems.append(Problem(file.path, None, listed.key, wrong))
        found.samples += len(found.problems) == before
        if task.digester is not None and task.reading is not None:
            digest, reason = None, None
            try:
                digest = task.digester(task.reading(task.layout.listed_sample(listed, files)))
            except (BadSample, ValueError) as error:
                reason = str(error)
            sample = Sample(listed.key, {}, listed.id)
            found.digested.add(sample, listed.key, digest, reason, listed.files[0].path)
        report(1, 0, [])
    return found


class SourceTask(NamedTuple):
    """Samples of a source to digest."""

    pipeline: Pipeline  # how the shards were made of them
    rows: Rows  # the samples
    digester: Digester


def digest_source(task: SourceTask, report: Report) -> Digested:
    """Make samples of a source as packing would, and digest them."""
    found = Digested()
    pipeline, rows = task.pipeline, task.rows
    done = 0
    for position, sample in enumerate(make_samples(pipeline, rows)):
        digest, reason = None, None
        if isinstance(sample, BadSample):
            reason = str(sample)
            path, id = rows.paths[position], rows.ids[position]
            key = f"{id:09d}" if pipeline.key == "index" else key_of(path)
            sample = Sample(key, {}, id, path)
        else:
            try:
                digest = task.digester(sample)
            except (ValueError, TypeError, OverflowError):
                reason = "a value does not fit the type that the shards have"
        found.add(sample, name_of(sample, pipeline.layout), digest, reason)
        done += 1
        if done == _REPORT_EVERY:
            report(done, 0, [])
            done = 0
    report(done, sum(task.rows.sizes), [])
    return found
