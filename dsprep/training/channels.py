"""What a channel of a SageMaker job sends in Pipe mode: the bytes of an epoch, in constant memory.

The objects of a channel come one after another, as they are; with ``RecordWrapperType`` RecordIO,
each is the payload of a record. Tables and other text of lines have no such wrapper, and are
decompressed. Of an augmented manifest, each attribute of a line is a record:
a file for the names that end in ``-ref``, else the value as text (SageMaker's developer guide,
"Augmented Manifest File Format for Pipe Mode Training").

Records are sent whole, also those that RecordIO cuts because they hold its magic number. Readers of
pipes go by the length of a record, and the one of SageMaker for TensorFlow loses the magic number
of a record in parts (``RecordIOReader.cpp`` of aws/sagemaker-tensorflow-extensions at 2cc1666).
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain

from dsprep.errors import DamagedShard, OptionError, SourceError, source_errors
from dsprep.findings import Reject
from dsprep.formats import FORMATS
from dsprep.formats.augmented import REFERENCE, default_attributes
from dsprep.formats.recordio import FRAME, MAGIC, MAX_RECORD, PADDING, frame_whole, whole_records
from dsprep.formats.stream import Readable, ShardStream
from dsprep.frozen import Frozen
from dsprep.places.match import find_elsewhere
from dsprep.run.part import Part
from dsprep.run.stream import convert_stream
from dsprep.schema import Schema
from dsprep.storage.files import exists, is_dir, is_shared, open_file
from dsprep.text import read_text
from dsprep.training.facts import TEXTS, DataFacts, facts_of, is_augmented, side_of, text_extension
from dsprep.training.jobs import needs_upload
from dsprep.training.options import CHANNEL
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some

_SENT_WHOLE = (
    "holds RecordIO's magic number: it is sent whole here, but SageMaker sends it in parts, of "
    "which its reader for TensorFlow loses 4 bytes each"
)
_MIXED_TEXT = (
    "its files are not all text with the same extension, so each file is sent as a record of "
    "RecordIO: name files of one extension to send their lines"
)
_NO_LINE_BREAK = (
    "its last line has no line break, so this line and the first line of the next file become one: "
    "add a line break"
)
_BLOCK = 1 << 20  # bytes that are sent at once, unless a record is larger

# The value of `ContentType` for each format; the first two are those of SageMaker's algorithms.
CONTENT_TYPES = {
    "recordio": "application/x-recordio",
    "recordio-protobuf": "application/x-recordio-protobuf",
    "tfrecord": "application/x-tfrecord",
    "webdataset": "application/x-tar",
    "parquet": "application/x-parquet",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "txt": "text/plain",
    "libsvm": "text/libsvm",
    "jsonl": "application/jsonlines",
    "list": "application/x-image",
    "files": "application/x-recordio",
    "augmented-manifest": "application/x-recordio",
}

WRAPPED = ("files", "augmented-manifest")  # each of their objects becomes a record of RecordIO

Unit = tuple[str | bytes, ...]
"""What is never divided: a shard, a file, or the attributes of a line. Text is the path of one."""


class ChannelNotes(NamedTuple):
    """What sending reports besides the bytes; each once, as epochs repeat themselves."""

    rejects: dict[Reject, None]
    notes: dict[str, None]


class Channel(Frozen):
    """A channel: what it sends, in its order."""

    name: str
    # format of what the channel sends; `files`, `augmented-manifest`, or an extension of `TEXTS`
    format: str
    units: Sequence[Unit] = field(repr=False)
    # sizes of files, where known
    sizes: Mapping[str, int] = field(default_factory=dict, repr=False)
    part: Part = Part(0, 1)
    seed: int | None = None  # seed of the order in each epoch; None to keep the order of names
    source: str = ""  # the format that is converted; empty to send what is there
    schema: Schema | None = None  # schema of the samples that are converted; None to look at some

    @property
    def is_wrapped(self) -> bool:
        """Whether each object becomes a record of RecordIO."""
        return self.format in WRAPPED

    @property
    def config(self) -> dict[str, str]:
        """What ``inputdataconfig.json`` says of it."""
        return {
            "ContentType": CONTENT_TYPES[self.format],
            "TrainingInputMode": "Pipe",
            "S3DistributionType": "FullyReplicated" if self.part.of == 1 else "ShardedByS3Key",
            "RecordWrapperType": "RecordIO" if self.is_wrapped else "None",
        }

    def order(self, epoch: int) -> Sequence[Unit]:
        """Return what is sent in an epoch: the part is taken of all units in their new order."""
        units = list(self.units)
        if self.seed is not None:
            random.Random(f"{self.seed} {epoch}").shuffle(units)
        return self.part.share(units)

    def epoch(self, number: int, noted: ChannelNotes) -> Iterator[bytes]:
        """Yield the bytes of an epoch in blocks of about a megabyte."""
        return _blocks(chain.from_iterable(self._send(unit, noted) for unit in self.order(number)))

    def _send(self, unit: Unit, noted: ChannelNotes) -> Iterator[bytes]:
        for part in unit:
            if isinstance(part, bytes):
                yield from frame_whole(part)
                continue
            with source_errors(part), open_file(part) as file:
                size = file.facts().size
                # A shard may end early between two samples, where its format allows it.
                if size != (known := self.sizes.get(part, size)):
                    problem = f"the file has {size:,} bytes, but {known:,} are recorded"
                    raise DamagedShard(part, min(size, known), problem)
                yield from (
                    _record(part, file, size) if self.is_wrapped else self._shard(part, file, noted)
                )

    def _shard(self, path: str, file: Readable, noted: ChannelNotes) -> Iterator[bytes]:
        if self.source:
            file = convert_stream(
                file,
                source=self.source,
                to=self.format,
                schema=self.schema,
                on_reject=noted.rejects.setdefault,
                on_note=noted.notes.setdefault,
                name=path,
            )
        with ShardStream(path, file) as stream:
            if self.format in TEXTS:
                yield from self._text(path, stream, noted)
                return
            if self.format != "recordio":
                yield from stream.blocks()
                return
            for offset, record in whole_records(stream):
                if offset is not None and not self.source:
                    noted.notes[f"{path}: the record at byte {offset} {_SENT_WHOLE}"] = None
                yield from record

    def _text(self, path: str, stream: ShardStream, noted: ChannelNotes) -> Iterator[bytes]:
        block = b"\n"
        for block in stream.blocks():
            yield block
        if not block.endswith(b"\n"):
            noted.notes[f"{path}: {_NO_LINE_BREAK}"] = None


def _blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join pieces to blocks."""
    parts: list[bytes] = []
    size = 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size >= _BLOCK:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)


def _record(path: str, file: Readable, size: int) -> Iterator[bytes]:
    """Frame a file as one record."""
    if size > MAX_RECORD:
        raise SourceError(f"{path}: has {size:,} bytes, and a record at most {MAX_RECORD:,}")
    yield FRAME.pack(MAGIC, size)
    left = size
    while left and (data := file.read(min(left, _BLOCK))):
        left -= len(data)
        yield data
    if left or file.read(1):
        raise SourceError(f"{path}: changes while it is read")
    yield PADDING[size % 4]


def require_stream(data: DataFacts) -> None:
    """Refuse shards that cannot be read front to back, one after another."""
    if data.format in FORMATS and not FORMATS[data.format].concatenative:
        raise OptionError(
            f"{data.place}: {data.format} cannot be read from a pipe: convert it to another "
            "format, or use File or FastFile mode"
        )


def channel_name(name: str, place: str) -> str:
    """Return a name that SageMaker allows; that of a side comes from a manifest, so from anyone."""
    if not CHANNEL.fullmatch(name):
        raise OptionError(
            f"{place}: {name!r} is no name of a channel: give it a name of letters, digits and "
            f". _ - only, as NAME={place}"
        )
    return name


def channels_of(
    data: str, name: str | None, attributes: Sequence[str], notes: dict[str, None]
) -> Iterator[Channel]:
    """Return the channel of a data set, or, without a name, one for each of its sides."""
    if is_augmented(data, attributes):
        own = channel_name(name or "train", data)
        yield Channel(own, "augmented-manifest", _lines(data, attributes))
        return
    if attributes:
        raise OptionError(f"--attributes: {data} is no augmented manifest; leave it out")
    for each in side_of(data, name):
        require_stream(each)
        sizes = {os.path.join(each.directory, file): size for file, size in each.files}
        if each.format in WRAPPED and each.beside:
            count = format_count(len(each.beside), "file")
            notes[f"{data}: {count} passed over, such as {format_some(each.beside)}"] = None
        is_text = any(text_extension(file) for file, _ in each.files)
        if each.format == "files" and is_text and not each.samples:
            notes[f"{data}: {_MIXED_TEXT}"] = None
        units = [(path,) for path in sizes]
        own = channel_name(name or each.side or "train", data)
        yield Channel(own, each.format, units, sizes, schema=each.schema)


def _lines(path: str, attributes: Sequence[str]) -> list[Unit]:
    """Return what each line of an augmented manifest sends."""
    if not exists(path):
        raise SourceError(f"{path}: does not exist")
    beside = os.path.splitext(path)[0]
    root = beside if is_dir(beside) else os.path.dirname(path) or "."
    units: list[list[str | bytes]] = []
    named: list[tuple[int, str]] = []  # the line of each reference
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
            attributes = attributes or default_attributes(values)
            unit: list[str | bytes] = []
            for name in attributes:
                value = values[name]
                if not name.endswith(REFERENCE):
                    text = value if isinstance(value, str) else json.dumps(value)
                    unit.append(text.encode())
                elif is_shared(path):
                    # The manifest may come from anywhere: it must not name files here.
                    if needs_upload(value):
                        raise ValueError
                    unit.append(value)
                else:
                    if not isinstance(value, str):
                        raise TypeError
                    named.append((number, value))
                    unit.append(value)
        except KeyError as error:
            raise SourceError(f"{path}:{number}: has no attribute {error}") from None
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise _refusal(path, number, root) from None
        units.append(unit)
    if not units:
        raise SourceError(f"{path}: names no files")
    if not named:
        return list(map(tuple, units))
    files = _files_meant(path, named, root)
    are_files = [name.endswith(REFERENCE) for name in attributes]
    for unit in units:
        unit[:] = [next(files) if is_file else unit[at] for at, is_file in enumerate(are_files)]
    return list(map(tuple, units))


def _files_meant(path: str, named: Sequence[tuple[int, str]], root: str) -> Iterator[str]:
    """Return the files that the references of a manifest mean."""
    import polars as pl

    numbers, names = zip(*named, strict=True)
    meant = find_elsewhere(names, (file for file, _ in facts_of(root)[0].files))
    advice = f": give its path below {root}"
    meant.refuse_several(path, lambda one, two: advice, lines=pl.Series(numbers))
    found = meant.paths.to_list()
    for number, file in zip(numbers, found, strict=True):
        if file is None:
            raise _refusal(path, number, root)
    return (os.path.join(root, file) for file in found)


def _refusal(path: str, number: int, root: str) -> SourceError:
    return SourceError(
        f"{path}:{number}: is no JSON object whose references are files below {root}"
    )
