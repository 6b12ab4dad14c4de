"""What the workers of ``verify`` do: read shards, trees and sources."""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from operator import attrgetter, itemgetter, methodcaller
from pathlib import Path
from typing import TypeAlias

import google_crc32c

from dsprep.annotations.objects import PARTS, Objects, content_of_objects
from dsprep.errors import BadImage, BadSample, DamagedShard, LeftOut, SourceError
from dsprep.formats.base import SIZES, Entry, Format, TreeFormat, path_of
from dsprep.formats.listing import Listed
from dsprep.formats.stream import ShardStream
from dsprep.images.header import DEFAULT_MAX_PIXELS
from dsprep.images.pixels import RAW_CHW, Shape, unpack_npy
from dsprep.images.transform import decoded, make_check
from dsprep.pipeline import Pipeline, make_samples
from dsprep.rows import Pixels, Rows
from dsprep.sample import IMAGE_EXTENSIONS, Sample, Value, key_of
from dsprep.schema import TYPES, Reading, Schema, Type
from dsprep.storage.local import LARGEST, read_whole
from dsprep.tuples import NamedTuple
from dsprep.verifying.annotated import Check, ObjectsSeen, make_annotation_check
from dsprep.verifying.indexes import mxnet_difference
from dsprep.verifying.report import Problem, problem_of
from dsprep.workers.worker import Report, counted

# For each field to compare: its name, its type in the shards, and whether values of the samples
# have another type.
Columns: TypeAlias = tuple[tuple[str, str, bool], ...]

# A sample as a comparison needs it: what it is known by (key, path or id, as the format has it;
# empty if unknown), the digests of its fields, why it has none, its key, its file and offset there.
Digested: TypeAlias = tuple[str, bytes | None, str | None, str, str, int | None]

WIDTH = 8  # bytes of a field's digest: a change goes unseen once in 2^64
PIXELS = "pixels"  # what masks are compared by that may be encoded otherwise
LEFT_OUT = "is left out of the shards"
MISSING = bytes(WIDTH)  # the digest of a field that a sample does not have

_MAX_PROBLEMS = 100
"""If more samples of a shard are wrong than this, the samples are not the reason."""

_NO_MISFIT = (-1, "")


class Understood(NamedTuple):
    """What is known of the fields of shards."""

    schema: Schema | None  # the fields; None if they are unknown
    ignored: frozenset[str] = frozenset()  # raw names that are not fields
    # whether every sample was checked against the schema when it was written
    enforced: bool = False
    notes: tuple[str, ...] = ()  # remarks, a line each
    # where samples have their image as bare pixels; None if nowhere
    pixels: Pixels | None = None


class Task(NamedTuple):
    """A shard to read, or some samples of a tree of files."""

    path: str  # the file, or the top of the tree
    layout: Format  # the format
    understood: Understood
    decode: bool  # whether to decode every image
    max_pixels: int  # the maximum number of pixels of an image
    columns: Columns | None  # the fields to digest for a comparison; None if there is none
    listed: Sequence[Listed] = ()  # what the listing of a tree says of the samples
    # One shard may have several tasks, which all read it: the number of this one, from 0, and how
    # many there are. Each checks every n-th sample, and the first one also the shard as a whole.
    share: tuple[int, int] = (0, 1)

    @property
    def reading(self) -> Reading | None:
        """Return a new `Reading`, which types the samples; each compiles its own converters."""
        schema, ignored = self.understood.schema, self.understood.ignored
        return None if schema is None else Reading(schema, self.layout, ignored)


@dataclass
class Inspected:
    """The results of checking a shard, or some samples of a tree."""

    samples: int = 0  # how many it holds
    bytes: int = 0  # its size on disk
    crc32c: int | None = None  # checksum of the bytes on disk; None if not all were read
    problems: list[Problem] = field(default_factory=list)  # problems of samples
    others: list[Problem] = field(default_factory=list)  # problems of the shard as a whole
    # how many samples have which fields: counting all fields of a sample at once is faster
    shapes: Counter[tuple[str, ...]] = field(default_factory=Counter)
    misfits: int = 0  # how many samples do not fit the schema
    # position of the first sample that does not fit, and why it does not
    misfit: tuple[int, str] = _NO_MISFIT
    digested: list[Digested] = field(default_factory=list)  # the samples, if they are compared
    objects: ObjectsSeen = field(default_factory=ObjectsSeen)  # the objects of the samples

    def add(self, problem: Problem) -> None:
        """Add a problem, unless there are too many."""
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(problem)


def merged(found: Sequence[Inspected]) -> Inspected:
    """Join what the tasks of one shard have found; the first comes first."""
    if len(found) == 1:
        return found[0]
    problems = sorted(chain(*(one.problems for one in found)), key=attrgetter("offset"))
    return replace(
        found[0],
        problems=problems[:_MAX_PROBLEMS],
        others=list(dict.fromkeys(chain(*(one.others for one in found)))),
        shapes=sum((one.shapes for one in found), Counter[tuple[str, ...]]()),
        misfits=sum(one.misfits for one in found),
        misfit=min((one.misfit for one in found if one.misfits), default=_NO_MISFIT),
        digested=sorted(chain(*(one.digested for one in found)), key=itemgetter(-1)),
        objects=sum((one.objects for one in found), ObjectsSeen()),
    )


def inspect(task: Task, report: Report) -> Inspected:
    """Read a shard from its first byte to its last, or the files of some samples."""
    if isinstance(task.layout, TreeFormat):
        return _inspect_files(task, task.layout, report)
    found, path = Inspected(), Path(task.path)
    is_first = task.share[0] == 0
    try:
        with ShardStream(task.path) as stream:
            try:
                _inspect_samples(task, stream, found, report)
                if is_first:
                    wrong = islice(_other_names(task), _MAX_PROBLEMS)
                    found.others += (Problem(path.name, each) for each in wrong)
            except DamagedShard as error:
                found.others.append(problem_of(error, path))
            if is_first:
                found.bytes, found.crc32c = stream.checksum()
    except (SourceError, OSError) as error:
        found.others.append(problem_of(error, path))
    return found


def _inspect_samples(task: Task, stream: ShardStream, found: Inspected, report: Report) -> None:
    """Check samples, and the index that has their offsets."""
    layout, path, reading = task.layout, Path(task.path), task.reading
    wrong = _checks(task, reading, found)
    digest_of = None if task.columns is None else digester(task.columns, layout)
    ids, offsets = list[int](), list[int]()
    share, shares = task.share
    entries: Iterator[Entry] = layout.read(stream)
    if share:
        entries = islice(entries, share, None, shares)
    else:
        entries = counted(entries, report, lambda: stream.offset)
    for offset, _, raw in entries:
        if not share:
            found.samples += 1
            ids.append(raw.id)
            offsets.append(offset)
            if shares > 1 and (found.samples - 1) % shares:
                continue
        sample, misfit = _typed(task, reading, raw, offset, found)
        if sample is not None:
            found.shapes[tuple(sample.fields)] += 1
            for each in wrong(sample, offset):
                found.add(Problem(path.name, each, raw.key, offset))
        if digest_of is not None:
            digest = None if sample is None else digest_of(sample)
            name = name_of(raw, layout)
            found.digested.append((name, digest, misfit, raw.key, path.name, offset))
    index = path.with_suffix(".idx")
    if not share and ".idx" in layout.sidecar_suffixes and index.exists():
        _compare_index(index, ids, offsets, found)


def _typed(
    task: Task, reading: Reading | None, raw: Sample, offset: int, found: Inspected
) -> tuple[Sample | None, str | None]:
    """Return a sample of the schema; or None, and why the raw one does not fit."""
    if reading is None:
        return None, None
    pixels = task.understood.pixels
    try:
        return reading(pixels(raw, False) if pixels else raw), None
    except BadSample as error:
        misfit = str(error)
    if not found.misfits:
        found.misfit = offset, f"the sample {raw.key!r} {misfit}"
    found.misfits += 1
    if task.understood.enforced:
        found.add(Problem(Path(task.path).name, misfit, raw.key, offset))
    return None, misfit


def _checks(task: Task, reading: Reading | None, found: Inspected) -> Check:
    """Return what finds all that is wrong with a sample, given its offset."""
    wrong_class, wrong_images = _class_check(reading), _image_check(task, reading)
    wrong_annotations = _annotation_check(task, reading, found)

    def wrong(sample: Sample, offset: int) -> Iterator[str]:
        if sample.class_name and (said := wrong_class(sample)):
            yield said
        if task.decode:
            yield from wrong_images(sample)
        if wrong_annotations is not None:
            yield from wrong_annotations(sample, offset)

    return wrong


def _compare_index(
    index: Path, ids: Sequence[int], offsets: Sequence[int], found: Inspected
) -> None:
    """Find where the index of a shard differs from its samples."""
    try:
        difference = mxnet_difference(read_whole(index), ids, offsets)
    except OSError as error:
        found.others.append(problem_of(error, index))
    else:
        found.others += [Problem(index.name, difference)] if difference else []


def _annotation_check(task: Task, reading: Reading | None, found: Inspected) -> Check | None:
    if reading is None:
        return None
    return make_annotation_check(reading.schema, found.objects, task.decode, task.max_pixels)


def _class_check(reading: Reading | None) -> Callable[[Sample], str]:
    """Return a function that says what is wrong with the class of a sample that names it."""
    label = reading.schema.label_field if reading else None
    names = label.names if label and label.type == "class" else ()

    def check(sample: Sample) -> str:
        number = sample.fields.get(label.name) if names and label else None
        if number is None:
            return ""
        own, name = sample.class_name, names[number] if 0 <= number < len(names) else ""
        if name == own:
            return ""
        return f"its class {number} is called {own!r}, and it is {name!r} in the manifest"

    return check


def _image_check(task: Task, reading: Reading | None) -> Callable[[Sample], Iterator[str]]:
    """Return a function that decodes the images of a sample and says what is wrong with them."""
    schema = reading.schema if reading else Schema(())
    images = [it.name for it in schema.fields if it.type == "image"]
    raw = {it.name: it.type == RAW_CHW for it in schema.fields if it.kind.is_raw}
    if task.understood.pixels is not None:  # the option makes images of bare pixels
        images, raw = [*images, *raw], {}
    check_own = make_check("decode", readable=task.layout.limits.images, max_pixels=task.max_pixels)
    check_other = make_check("decode", max_pixels=task.max_pixels)

    def check(sample: Sample) -> Iterator[str]:
        if schema.image and sample.image is None:
            yield "holds no image"
        if schema.image in raw and (wrong := wrong_pixels(sample, raw[schema.image])):
            yield wrong
        for name in images:
            if name in sample.fields:
                try:
                    (check_own if name == sample.image else check_other)(sample.fields[name])
                except BadImage as error:
                    yield str(error) if name == sample.image else f"the field {name!r}: {error}"

    return check


def wrong_pixels(sample: Sample, planes: bool) -> str:
    """Return what is wrong with an image of bare pixels; empty if nothing is."""
    data = sample.fields.get(sample.image or "", b"")
    pixels, shape = unpack_npy(data, planes) or (data, None)
    sizes = [sample.fields[name] for name in SIZES if name in sample.fields]
    if shape is None and len(sizes) == len(SIZES):
        height, width, channels = sizes
        shape = Shape(height, width, channels, planes)
    if shape is None or len(pixels) == shape.bytes:
        return "" if shape else "holds pixels without their shape"
    return f"has {len(pixels):,} bytes of pixels, and not {shape}"


def _other_names(task: Task) -> Iterator[str]:
    """Find the classes that have other names in the shard itself than in the schema."""
    fields = task.understood.schema.by_place if task.understood.schema else {}
    for raw, names in task.layout.class_names(task.path).items():
        known = fields[(raw,)].names if (raw,) in fields else ()
        for number, (name, other) in enumerate(zip(names, known, strict=False)):
            if name != other and other:
                yield f"calls the class {number} {name!r}, and it is {other!r} in the manifest"


def name_of(sample: Sample, layout: Format) -> str:
    """Return what a sample is known by in the shards of a format; empty if it is unknown."""
    if layout.known_by == "id":
        return str(sample.id)
    if layout.known_by == "key" or not (sample.key or sample.path):
        return sample.key
    return path_of(sample)


def _inspect_files(task: Task, layout: TreeFormat, report: Report) -> Inspected:
    check = make_check("decode", readable=None, max_pixels=task.max_pixels)
    found, reading, digest_of = Inspected(), task.reading, digester(task.columns or (), layout)
    wrong_annotations = _annotation_check(task, reading, found)
    for listed in counted(task.listed, report):
        files: dict[str, bytes] = {}
        before = len(found.problems)
        found.bytes += 0 if listed.files else listed.size
        for file in listed.files:
            path, wrong = os.path.join(task.path, file.path), ""
            try:
                if os.path.islink(path):
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
                found.problems.append(Problem(file.path, wrong, listed.key))
        found.samples += len(found.problems) == before
        if reading is None or (task.columns is None and wrong_annotations is None):
            continue
        sample, digest, reason, key = None, None, None, listed.key
        try:
            sample = reading(layout.listed_sample(listed, files))
            digest = digest_of(sample)
        except (BadSample, ValueError) as error:
            reason = str(error)
        first = listed.files[0].path if listed.files else ""
        if task.columns is not None:
            found.digested.append((key, digest, reason, key, first, None))
        if wrong_annotations is not None and sample is not None:
            found.shapes[tuple(sample.fields)] += 1
            wrongs = wrong_annotations(sample, listed.id)
            found.problems += (Problem(first, wrong, key) for wrong in wrongs)
    return found


def digest_source(task: tuple[Pipeline, Rows, Columns], report: Report) -> list[Digested]:
    """Make samples of a source as packing would, and digest them."""
    digested = list[Digested]()
    pipeline, rows, columns = task
    digest_of = digester(columns, pipeline.layout)
    objects = pipeline.layout.schema and pipeline.layout.schema.objects
    samples = zip(rows.ids, rows.paths, make_samples(pipeline, rows), strict=True)
    for id, path, sample in counted(samples, report):
        digest, reason = None, None
        if isinstance(sample, BadSample):
            reason = str(sample)
            key = f"{id:09d}" if pipeline.key == "index" else key_of(path)
            sample = Sample(key, {}, id, path)
        else:
            try:
                if objects is not None and is_left_out(sample, pipeline.layout):
                    reason = LEFT_OUT
                else:
                    digest = digest_of(sample)
            except (ValueError, TypeError, OverflowError):
                reason = "a value does not fit the type that the shards have"
        name = name_of(sample, pipeline.layout)
        digested.append((name, digest, reason, sample.key, "", None))
    report(0, sum(rows.sizes))
    return digested


def is_left_out(sample: Sample, layout: Format) -> bool:
    """Return whether a sample with objects is not written, as the user wanted."""
    try:
        layout.listed_label(sample)
    except LeftOut:
        return True
    except BadSample:  # a sample with an error was not left out on purpose
        pass
    return False


def digester(columns: Columns, layout: Format) -> Callable[[Sample], bytes]:
    """Return a function from a sample to the digests of its fields, one after another."""
    from hashlib import sha1  # slow to load

    def digest_of(name: str, converts: bool) -> Callable[[Value], bytes]:
        kind = TYPES["mask" if name == PIXELS else name]
        content = _content_of(kind, layout.object_parts.issuperset(PARTS))
        content = _pixels_of if name == PIXELS else content

        def digest(value: Value) -> bytes:
            if converts and (value := kind.convert(value)) is None:
                return MISSING
            # Processors have instructions for SHA-1: 1.9 GB/s, where BLAKE2 has 0.7.
            return sha1(content(value), usedforsecurity=False).digest()[:WIDTH]

        return digest

    digests = [(name, digest_of(kind, converts)) for name, kind, converts in columns]

    def digest_all(sample: Sample) -> bytes:
        fields = sample.fields
        return b"".join(
            [digest(fields[name]) if name in fields else MISSING for name, digest in digests]
        )

    return digest_all


def _content_of(kind: Type, exact: bool = True) -> Callable[[Value], bytes]:
    """Return a function from a value of a type to bytes that no other value has."""
    code = kind.code
    if kind.of is Objects:
        return partial(content_of_objects, exact=exact)
    if kind.is_list and code:
        return lambda values: struct.pack(f"<{len(values)}{code}", *values)
    if kind.is_list:
        of_item = _content_of(kind.item)
        return lambda values: b"".join(
            b"%d:%s" % (len(content), content) for content in map(of_item, values)
        )
    if code:
        return struct.Struct(f"<{code}").pack
    return methodcaller("encode", "utf-8", "surrogatepass") if kind.of is str else bytes


def _pixels_of(mask: bytes) -> bytes:
    """Return the size and the pixels of a mask; its bytes, if it is none."""
    try:
        image = decoded(mask, "its mask", DEFAULT_MAX_PIXELS)
    except BadSample:
        return mask
    return f"{image.size} {image.mode} ".encode() + image.tobytes()
