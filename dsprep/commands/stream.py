"""Converting one shard as it comes: from anything that can be read, to blocks of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from dsprep.arguments import AnyPath, public
from dsprep.errors import BadSample, DsprepError, OptionError, SourceError
from dsprep.findings import Reject, frames_note
from dsprep.formats import CONCATENATIVE
from dsprep.formats.base import Entry, Format
from dsprep.formats.compressed import Readable
from dsprep.formats.stream import ShardStream, why_no_shard
from dsprep.images.check import DEFAULT_MAX_PIXELS, LEVELS
from dsprep.images.transform import Transform
from dsprep.options import given_options, require_effect
from dsprep.plan.geometry import kept_fields
from dsprep.plan.layouts import make_layout
from dsprep.plan.recipe import Recipe, sample_finisher
from dsprep.sample import Sample
from dsprep.schema import FACTS, LABEL, Choice, Reading, Schema, observe, select, settle
from dsprep.sources.reading import make_choice
from dsprep.sources.shards import ShardReader
from dsprep.units import format_some

_LOOKED_AT = 64
"""Samples that are read before the first block, to settle the schema."""

_MOST_BYTES = 16_000_000
"""Bytes of these."""

_STEM = "stream"
"""What keys of records without names begin with."""

_BLOCK = 1 << 20
"""Bytes handed on at once, unless a sample is larger: so much is held back at most."""


class Converted(Iterator[bytes]):
    """The bytes of a shard that is being converted: an iterator of blocks, or a file to read."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        """Take the blocks as they come."""
        self._blocks = blocks
        self._left = b""

    def __next__(self) -> bytes:
        """The next block."""
        left, self._left = self._left, b""
        return left or next(self._blocks)

    def read(self, count: int = -1) -> bytes:
        """Read so many bytes, or fewer at the end; all, if the count is negative."""
        parts = [self._left]
        size = len(self._left)
        while count < 0 or size < count:
            block = next(self._blocks, b"")
            if not block:
                break
            parts.append(block)
            size += len(block)
        data = b"".join(parts)
        self._left = b"" if count < 0 else data[count:]
        return data if count < 0 else data[:count]


class TooManyRejects(DsprepError):
    """A sample could not be converted, and that was not to be."""

    exit_code = 6


@public
def convert_stream(
    reader: Readable,
    *,
    source: AnyPath,
    to: str,
    image_field: str | None = None,
    label_field: str | None = None,
    label_type: str | None = None,
    only: Sequence[str] = (),
    drop: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    schema: Schema | AnyPath | None = None,
    no_image: bool = False,
    keep_fields: Sequence[str] = (),
    features: str | None = None,
    metadata: bool = False,
    key: str = "path",
    transform: Transform | None = None,
    check: str | None = None,
    max_pixels: int | None = None,
    on_reject: Callable[[Reject], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    name: str = "the shard",
    block: int = _BLOCK,
) -> Converted:
    """Convert one shard while it is being read.

    Memory holds a sample and a block, however long the shard is; the first block comes when the
    first samples, at most 64 or 16 MB, have been read, which settle the schema. Gzip in the input
    is recognized and decompressed.

    Args:
        reader: An object with ``read(count)``: a file, a pipe, the body of an HTTP response.
        source: The format of what it reads: ``webdataset``, ``tfrecord``, ``recordio``, ….
        to: The format of what comes out; one that is one sample after another.
        image_field: As for :func:`dsprep.pack`.
        label_field: As for :func:`dsprep.pack`.
        label_type: As for :func:`dsprep.pack`.
        only: As for :func:`dsprep.pack`.
        drop: As for :func:`dsprep.pack`.
        rename: As for :func:`dsprep.pack`.
        schema: As for :func:`dsprep.pack`.
        no_image: As for :func:`dsprep.pack`.
        keep_fields: As for :func:`dsprep.pack`.
        features: The preset of feature names for TFRecord.
        metadata: Whether to write class, filename, width and height into WebDataset samples.
        key: ``path`` keeps the samples' keys, ``index`` makes new ones from their numbers.
        transform: What to do to the images; None copies them.
        check: ``decode``, ``header`` or ``none``; by default ``decode`` for RecordIO, and ``none``
            for the others.
        max_pixels: Images with more are rejected; 178,956,970 by default.
        on_reject: Is called with each sample that cannot be converted; by default, that is an
            error.
        on_note: Is called at the end with what else there is to say: images that kept only their
            first frame, options that name fields which no sample has.
        name: What the shard is called, for messages.
        block: About how many bytes to yield at once.

    Returns:
        The bytes of the new shard, in order: an iterator of blocks that can also be read from. It
        raises DamagedShard where the input breaks its format, when all before has come out of it.

    Raises:
        OptionError: If the arguments make no sense.
        TooManyRejects: Out of what is returned, if a sample cannot be converted and ``on_reject``
            is not given.
    """
    given = given_options(locals())
    for option, value, choices in (
        ("source", source, tuple(CONCATENATIVE)),
        ("key", key, ("path", "index")),
        ("check", check, (*LEVELS, None)),
    ):
        if value not in choices:
            raise OptionError(f"{option} {value}: choose one of {', '.join(map(str, choices))}")
    layout = make_layout(to, features=features, metadata=metadata)
    if not layout.concatenative:
        raise OptionError(f"{to}: cannot be streamed; convert files instead")
    guarded = layout.readable_images is not None
    choice = make_choice(
        image_field=image_field,
        label_field=label_field,
        label_type=label_type,
        only=only,
        drop=drop,
        rename=rename,
        schema=schema,
        no_image=no_image,
    )
    source_layout = CONCATENATIVE[source]().with_options(preset=features if to != source else None)
    recipe = Recipe(
        reader=ShardReader((), source_layout),
        schema=Schema(()),
        layout=layout,
        transform=transform,
        check=check or ("decode" if guarded else "none"),
        readable=layout.readable_images if check != "none" else None,
        max_pixels=DEFAULT_MAX_PIXELS if max_pixels is None else max_pixels,
        classes=None,
        key=key,
        keep_fields=kept_fields(keep_fields),
    )
    require_effect("convert", given, format=to, tfrecords=source == "tfrecord")
    stream = _Stream(
        name, source_layout, recipe, choice, given, on_reject or _refuse, on_note or _ignore
    )
    return Converted(stream.blocks(reader, block))


class _Stream:
    """A shard that is converted while it is read."""

    def __init__(
        self,
        name: str,
        layout: Format,
        recipe: Recipe,
        choice: Choice,
        given: Mapping[str, object],
        on_reject: Callable[[Reject], None],
        on_note: Callable[[str], None],
    ) -> None:
        self._name, self._recipe, self._choice, self._given = name, recipe, choice, given
        self._layout = layout
        self._on_reject, self._on_note = on_reject, on_note

    def blocks(self, reader: Readable, block: int) -> Iterator[bytes]:
        """Convert all samples."""
        parts: list[bytes] = []
        pending = total = members = lost_frames = 0
        before = None
        with ShardStream(self._name, reader) as stream:
            entries = self._layout.read(stream)
            first, error = _take(entries)
            try:
                if first or error is None:
                    self._settle([replace(entry.sample) for entry in first], stream)
                read = self._recipe.reader.typed
                finish = sample_finisher(self._recipe)
                for entry in chain(first, _then(entries, error)):
                    members += len(entry.sample.fields)
                    raw = entry.sample
                    if not raw.key:
                        raw.key = f"{_STEM}-{raw.id:07d}"
                    path = raw.key
                    try:
                        typed = read(raw)
                        if isinstance(typed, BadSample):
                            raise typed
                        sample = _checked(finish(typed, path), self._recipe, before)
                        encoded = self._recipe.layout.encode(sample)
                    except BadSample as bad:
                        self._on_reject(Reject(path, str(bad)))
                        continue
                    before = sample.key
                    lost_frames += sample.lost_frames
                    parts += encoded
                    pending += sum(map(len, encoded))
                    if pending >= block:
                        yield b"".join(parts)
                        total += pending
                        parts, pending = [], 0
                if why := why_no_shard(stream.passed_over, members):
                    raise SourceError(f"{self._name}: {why}")
            except DsprepError:
                if parts:
                    yield b"".join(parts)
                raise
        yield b"".join((*parts, self._recipe.layout.trailer(total + pending)))
        if lost_frames:
            self._on_note(frames_note(lost_frames))

    def _settle(self, samples: Sequence[Sample], stream: ShardStream) -> None:
        """Settle the schema by the first samples."""
        recipe, choice = self._recipe, self._choice
        table = recipe.reader.table
        observed = observe(samples, table, choice)
        settled, idle = select(settle(observed, table, choice, self._name), choice)
        schema = settled.schema
        if samples and schema.image is None and not choice.no_image:
            if why := why_no_shard(stream.passed_over, sum(len(each.fields) for each in samples)):
                raise SourceError(f"{self._name}: {why}")
            raise SourceError(
                f"{self._name}: its samples have no image; fields are "
                f"{format_some(list(schema.by_name))}: give --image-field NAME, or --no-image if "
                "samples are to have none"
            )
        asked = ("--features", "--metadata", "--rename", "--label-field", "--label-type")
        raw = table.name == recipe.layout.name and not any(
            each in self._given for each in (*asked, "--schema")
        )
        notes: list[str] = []
        layout = recipe.layout
        if not raw:
            layout, notes = layout.arranged(schema)
            if LABEL in layout.required and schema.label is None and samples:
                raise OptionError(
                    f"{self._name}: its samples have no label, and {layout.name} needs one: a "
                    "manifest can say that there is none, a stream cannot"
                )
        written = layout.schema.by_name if layout.schema else {}
        looks = recipe.transform is not None or recipe.check != "none"
        looks = looks or not FACTS.isdisjoint(written)
        require_effect("convert", self._given, looks=looks)
        reading = Reading(schema, table, settled.ignored, raw)
        self._recipe = replace(
            recipe, layout=layout, schema=schema, reader=replace(recipe.reader, reading=reading)
        )
        unknown = [each for each in recipe.keep_fields or () if schema.named(each) is None]
        if unknown:
            idle.append(f"--keep-fields {','.join(unknown)}: no sample has it")
        for note in (*settled.notes, *notes, *idle):
            self._on_note(note)


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


def _then(entries: Iterator[Entry], error: DsprepError | None) -> Iterator[Entry]:
    if error is not None:
        raise error
    yield from entries


def _checked(sample: Sample | BadSample, recipe: Recipe, before: str | None) -> Sample:
    """The sample, if it can follow the one whose key is ``before``."""
    if isinstance(sample, BadSample):
        raise sample
    if sample.key == before and recipe.layout.equal_keys == "merged":
        raise BadSample(
            f"its key {before!r} is that of the sample before; --key index makes new keys"
        )
    return sample


def _refuse(reject: Reject) -> None:
    raise TooManyRejects(f"{reject.path}: {reject.reason}")


def _ignore(note: str) -> None:
    """Say nothing."""
