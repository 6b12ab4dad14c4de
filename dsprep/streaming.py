"""Converting one shard as it comes: from anything that can be read, to blocks of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dsprep.arguments import AnyPath, public
from dsprep.errors import BadSample, DsprepError, OptionError, SourceError
from dsprep.findings import Reject, frames_note
from dsprep.formats import CONCATENATIVE
from dsprep.formats.base import Format
from dsprep.formats.stream import Readable, ShardStream, why_no_shard
from dsprep.images.check import DEFAULT_MAX_PIXELS, LEVELS
from dsprep.images.transform import Transform
from dsprep.options import given_options, require_effect
from dsprep.planning.fields import (
    choose_fields,
    kept_fields,
    named_fields,
    say_unmatched,
    with_derived,
)
from dsprep.planning.layouts import make_layout, split_names
from dsprep.planning.recipe import Recipe, sample_finisher
from dsprep.readers.shards import ShardReader
from dsprep.sample import Sample

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


@dataclass
class _Seen:
    """What has come so far: the fields of samples, and images that are a first frame only."""

    fields: set[str] = field(default_factory=set)
    lost_frames: int = 0


class TooManyRejects(DsprepError):
    """A sample could not be converted, and that was not to be."""

    exit_code = 6


@public
def convert_stream(
    reader: Readable,
    *,
    source: AnyPath,
    to: str,
    only: Sequence[str] = (),
    drop: Sequence[str] = (),
    keep_fields: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
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
    first samples have been read. Gzip in the input is recognized and decompressed.

    Args:
        reader: An object with ``read(count)``: a file, a pipe, the body of an HTTP response.
        source: The format of what it reads: ``webdataset``, ``tfrecord``, ``recordio``, ….
        to: The format of what comes out; one that is one sample after another.
        only: The fields to keep; none means all. ``image`` is the image, whatever its kind.
        drop: The fields to leave out.
        keep_fields: As for :func:`dsprep.pack`.
        rename: New names of fields.
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
    layout, recipe = _recipe(
        source,
        to,
        only,
        drop,
        rename or {},
        features,
        metadata,
        key,
        transform,
        check,
        DEFAULT_MAX_PIXELS if max_pixels is None else max_pixels,
    )
    looks = transform is not None or recipe.check != "none" or "width" in recipe.layout.wants
    require_effect("convert", given, format=to, looks=looks)
    recipe = replace(recipe, keep_fields=kept_fields(keep_fields))
    named = named_fields(recipe.fields, frozenset(rename or ()), keep_fields)
    seen = _Seen()

    def blocks() -> Iterator[bytes]:
        yield from _convert(reader, name, layout, recipe, on_reject or _refuse, block, seen)
        notes = say_unmatched(named, with_derived(seen.fields, recipe.layout))
        lost = [frames_note(seen.lost_frames)] if seen.lost_frames else []
        for note in (*lost, *notes):
            if on_note is not None:
                on_note(note)

    return Converted(blocks())


def _recipe(
    source: str,
    to: str,
    only: Sequence[str],
    drop: Sequence[str],
    rename: Mapping[str, str],
    features: str | None,
    metadata: bool,
    key: str,
    transform: Transform | None,
    check: str | None,
    max_pixels: int,
) -> tuple[Format, Recipe]:
    """The format to read, and what is done to its samples."""
    for option, value, choices in (
        ("source", source, tuple(CONCATENATIVE)),
        ("key", key, ("path", "index")),
        ("check", check, (*LEVELS, None)),
    ):
        if value not in choices:
            raise OptionError(f"{option} {value}: choose one of {', '.join(map(str, choices))}")
    own, other = split_names(to, rename)
    layout = make_layout(to, features=features, rename=own, metadata=metadata, whole=True)
    if not layout.concatenative:
        raise OptionError(f"{to}: cannot be streamed; convert files instead")
    guarded = layout.readable_images is not None
    recipe = Recipe(
        reader=ShardReader((), CONCATENATIVE[source]()),
        layout=layout,
        transform=transform,
        check=check or ("decode" if guarded else "none"),
        readable=layout.readable_images if check != "none" else None,
        max_pixels=max_pixels,
        classes=None,
        key=key,
        fields=choose_fields(only, drop, other),
    )
    return CONCATENATIVE[source]().exact(), recipe


def _convert(
    reader: Readable,
    name: str,
    layout: Format,
    recipe: Recipe,
    on_reject: Callable[[Reject], None],
    block: int,
    seen: _Seen,
) -> Iterator[bytes]:
    finish = sample_finisher(recipe)
    parts: list[bytes] = []
    pending = total = kept = 0
    before = None
    with ShardStream(name, reader) as stream:
        try:
            for entry in layout.read(stream):
                key = entry.sample.key
                seen.fields.update(entry.sample.fields)
                try:
                    sample = _checked(finish(entry.sample, key), recipe, before)
                    encoded = recipe.layout.encode(sample)
                except BadSample as error:
                    on_reject(Reject(key, str(error)))
                    continue
                before = sample.key
                seen.lost_frames += sample.lost_frames
                kept += len(entry.sample.fields)
                parts += encoded
                pending += sum(map(len, encoded))
                if pending >= block:
                    yield b"".join(parts)
                    total += pending
                    parts, pending = [], 0
            if why := why_no_shard(stream.passed_over, kept):
                raise SourceError(f"{name}: {why}")
        except DsprepError:
            if parts:
                yield b"".join(parts)
            raise
    yield b"".join((*parts, recipe.layout.trailer(total + pending)))


def _checked(sample: Sample | BadSample, recipe: Recipe, before: str | None) -> Sample:
    """The sample, if it can follow the one whose key is ``before``.

    Raises:
        BadSample: If it cannot, or cannot be converted at all.
    """
    if isinstance(sample, BadSample):
        raise sample
    if sample.key == before and recipe.layout.keys_must_differ:
        raise BadSample(
            f"its key {before!r} is that of the sample before; --key index makes new keys"
        )
    unheld = recipe.layout.unheld({name: type(value) for name, value in sample.fields.items()})
    if unheld:
        names = ",".join(unheld)
        raise BadSample(f"{recipe.layout.name} cannot hold {names}; --drop {names} leaves that out")
    return sample


def _refuse(reject: Reject) -> None:
    raise TooManyRejects(f"{reject.path}: {reject.reason}")
