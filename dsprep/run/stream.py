"""Convert one shard as it comes: from anything that can be read, to blocks of bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain

from dsprep.declared import called_with, field
from dsprep.errors import BadSample, DsprepError, OptionError, RunStopped, SourceError
from dsprep.findings import (
    MisfitReject,
    Reject,
    effect_notes,
    misfits_error,
    most_misfits,
    reject_of,
)
from dsprep.formats import CONCATENATIVE
from dsprep.formats.base import Entry, Format
from dsprep.formats.stream import Readable, ShardStream, why_no_shard
from dsprep.options import given_options, require_effect
from dsprep.pipeline import Pipeline, sample_finisher
from dsprep.plan.image_options import ImageOptions
from dsprep.plan.job import images_of, make_layout, no_image_error, with_image_type
from dsprep.plan.options import FormatOptions
from dsprep.run.shard import same_key
from dsprep.sample import Sample
from dsprep.schema import Field, Observed, Reading, Schema, idle_names, observe, select
from dsprep.sources.look import settle_samples, with_sizes
from dsprep.sources.options import FieldOptions, SelectionOptions
from dsprep.sources.raw_pixels import RawPixels, raw_pixels
from dsprep.sources.shards.shards import ShardReader
from dsprep.sources.source import choice_of

_LOOKED_AT = 64  # samples that are read before the first block, to find the schema
_MOST_BYTES = 16_000_000  # bytes of these
_STEM = "stream"  # what keys of records without names begin with
_BLOCK = 1 << 20  # bytes of a block, unless a sample is larger; that much is held back at most


class StreamOptions(FormatOptions, ImageOptions, SelectionOptions, FieldOptions):
    """The options of :func:`convert_stream`."""

    reader: Readable = field(kw_only=False)
    source: str  # the format of what it reads
    to: str = field()  # the format of what comes out
    max_errors: int | None = None  # stop when more samples than this are rejected
    on_reject: Callable[[Reject], None] | None = None
    on_note: Callable[[str], None] | None = None
    name: str = "the shard"  # what messages call the shard
    block: int = _BLOCK  # about how many bytes to yield at once


@called_with(StreamOptions)
def convert_stream(options: StreamOptions) -> Converted:
    """Convert one shard while it is being read.

    ``reader`` is an object with ``read(count)``: a file, a pipe, the body of an HTTP response.
    ``source`` is the format of what it reads, ``to`` that of what comes out: one whose shards are
    one sample after another. Memory holds a sample and a block, however long the shard is; the
    first block comes when the first samples, at most 64 or 16 MB, have been read, which settle the
    schema. Gzip in the input is recognized and decompressed.

    ``on_reject`` is called with each sample that cannot be converted; without it, the first is an
    error. ``on_note`` is called at the end with what else a report would say.

    Returns:
        The bytes of the new shard, in order: an iterator of blocks that can also be read from. It
        raises DamagedShard where the input breaks its format, when all before has come out of it.

    Raises:
        OptionError: If the arguments make no sense.
        RunStopped: Out of what is returned, if a sample cannot be converted and ``on_reject`` is
            not given, if more than 1 % of all samples, or 1,000, do not fit the schema, or if more
            samples than ``max_errors`` are rejected.
    """
    source, to = options.source, options.to
    if source not in CONCATENATIVE:
        raise OptionError(f"source {source}: choose one of {', '.join(CONCATENATIVE)}")
    require_effect("convert", given_options({"look": options.look}), stream=True)
    layout = make_layout(to, options)
    if to not in CONCATENATIVE:
        raise OptionError(f"{to}: cannot be streamed; convert files instead")
    preset = options.features if to != source else None
    table = CONCATENATIVE[source]().with_options(preset=preset)
    images = images_of(options)
    if images.check is None:
        images = replace(images, check="none" if layout.limits.images is None else "structure")
    pipeline = Pipeline(ShardReader((), table), Schema(()), layout, images, options.key)
    require_effect("convert", options.given, format=to, tfrecords=source == "tfrecord")
    return Converted(options, table, pipeline)


class Converted(Iterator[bytes]):
    """The bytes of a shard that is being converted: an iterator of blocks, or a file to read."""

    def __init__(self, options: StreamOptions, table: Format, pipeline: Pipeline) -> None:
        self._options, self._table, self._pipeline = options, table, pipeline
        self._name, self._note = options.name, options.on_note or (lambda note: None)
        self._rejects = self._misfits = 0
        self._blocks, self._left = self._convert(), b""

    def __next__(self) -> bytes:
        left, self._left = self._left, b""
        return left or next(self._blocks)

    def read(self, count: int = -1) -> bytes:
        """Read ``count`` bytes, or fewer at the end; all if it is negative."""
        parts, size = [self._left], len(self._left)
        while (count < 0 or size < count) and (block := next(self._blocks, b"")):
            parts.append(block)
            size += len(block)
        data = b"".join(parts)
        self._left = b"" if count < 0 else data[count:]
        return data if count < 0 else data[:count]

    def _convert(self) -> Iterator[bytes]:
        parts: list[bytes] = []
        samples = pending = total = members = 0
        effects = Counter[str]()
        before = None
        with ShardStream(self._name, self._options.reader) as stream:
            entries = self._table.read(stream)
            first, error = _take(entries)
            try:
                if first or error is None:
                    self._settle([replace(entry.sample) for entry in first], stream)
                layout, read = self._pipeline.layout, self._pipeline.reader.typed
                finish = sample_finisher(self._pipeline)
                for entry in chain(first, entries):
                    samples += 1
                    members += len(entry.sample.fields)
                    raw = entry.sample
                    path = raw.key = raw.key or f"{_STEM}-{raw.id:07d}"
                    try:
                        sample = finish(read(raw), path, 0)
                        if isinstance(sample, BadSample):
                            raise sample
                        if sample.key == before and layout.distinct == "key":
                            raise same_key(sample.key, "the sample before")
                        encoded = layout.encode(sample)
                    except BadSample as bad:
                        self._reject(reject_of(path, bad))
                        continue
                    before = sample.key
                    effects.update(sample.effects or {})
                    parts += encoded
                    pending += sum(map(len, encoded))
                    if pending >= self._options.block:
                        yield b"".join(parts)
                        total += pending
                        parts, pending = [], 0
                if error is not None:
                    raise error
                if why := why_no_shard(stream.passed_over, members):
                    raise SourceError(f"{self._name}: {why}")
                # The number of samples is known only now, so that of misfits is judged again.
                self._require_fit(most_misfits(samples))
            except DsprepError:
                if parts:
                    yield b"".join(parts)
                raise
        yield b"".join((*parts, layout.trailer(total + pending)))
        for note in effect_notes(effects):
            self._note(note)

    def _reject(self, reject: Reject) -> None:
        options = self._options
        if options.on_reject is None:
            raise RunStopped(f"{reject.path}: {reject.reason}")
        options.on_reject(reject)
        self._rejects += 1
        if isinstance(reject, MisfitReject):
            self._misfits += 1
            self._last_misfit = reject
        if options.max_errors is not None and self._rejects > options.max_errors:
            raise RunStopped(f"stopped: {self._rejects:,} samples cannot be converted")
        self._require_fit(most_misfits())

    def _require_fit(self, most: int) -> None:
        """Stop if more samples than ``most`` do not fit the schema."""
        if self._options.max_errors is None and self._misfits > most:
            raise misfits_error(self._misfits, self._last_misfit)

    def _settle(self, samples: Sequence[Sample], stream: ShardStream) -> None:
        """Settle the schema by the first samples."""
        options, table, layout = self._options, self._table, self._pipeline.layout
        choice, given = choice_of(options), options.given

        def look(pixels: RawPixels | None) -> Observed:
            looked_at = samples if pixels is None else _with_images(samples, pixels)
            return observe(looked_at, table, choice)

        def find(own: Field | None) -> RawPixels | None:
            return raw_pixels(samples, table, choice, own)

        settled, pixels = settle_samples(look, find, table, choice, self._name)
        settled, idle = select(settled, choice)
        schema = settled.schema
        if samples and schema.image is None and not choice.no_image:
            if why := why_no_shard(stream.passed_over, sum(len(each.fields) for each in samples)):
                raise SourceError(f"{self._name}: {why}")
            raise no_image_error(self._name, schema)
        changes = {"--features", "--metadata", "--order", "--rename", "--cast", "--schema"}
        changes |= {"--label-field", "--label-type"}
        images = self._pipeline.images
        transform = images.transform
        is_bare = transform is not None and (transform.is_raw or pixels is not None)
        changed = is_bare or images.moves_fields(schema) or changes.intersection(given)
        raw = table.name == layout.name and not changed
        notes: list[str] = []
        if not raw:
            layout, notes = layout.arranged(with_image_type(schema, transform, layout))
            if layout.placeholders(schema) and samples:
                raise OptionError(
                    f"{self._name}: its samples have no label, and {layout.name} needs one: a "
                    "manifest can say that there is none, a stream cannot"
                )
        own_schema = with_sizes(schema, pixels, table) if raw else schema
        reading = Reading(own_schema, table, settled.ignored, raw)
        pixels = None if raw else pixels
        reader = replace(self._pipeline.reader, reading=reading, pixels=pixels)
        self._pipeline = replace(self._pipeline, layout=layout, schema=schema, reader=reader)
        require_effect("convert", given, looks=self._pipeline.looks)
        idle += idle_names("--keep-fields", sorted(options.keep_fields), schema)
        for note in (*settled.notes, *notes, *idle):
            self._note(note)


def _with_images(samples: Sequence[Sample], pixels: RawPixels) -> Iterator[Sample]:
    for sample in samples:
        with suppress(BadSample):  # reading the sample later rejects it
            yield pixels(sample)


def _take(entries: Iterator[Entry]) -> tuple[list[Entry], DsprepError | None]:
    """Take the samples that settle the schema, and the error after which none follows."""
    taken: list[Entry] = []
    size = 0
    try:
        for entry in entries:
            taken.append(entry)
            size += entry.size
            if len(taken) == _LOOKED_AT or size >= _MOST_BYTES:
                break
    except DsprepError as error:
        return taken, error
    return taken, None
