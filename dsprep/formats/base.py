"""What a format is: how samples are laid out in a shard.

Most formats are concatenative: a shard is its encoded samples one after another, then a trailer
that depends on nothing but their total size. Naming, writing, checksums, commit and resume are
therefore written once, for all of them, elsewhere; a format only encodes a sample, says what it
will weigh, and reads a shard back. The others bring a writer of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

from dsprep.images.header import sniff
from dsprep.rows import Rows
from dsprep.sample import UNKNOWN_IMAGE, Sample
from dsprep.schema import FACTS, LABEL, Meaning, Schema, Table

if TYPE_CHECKING:
    import polars as pl

    from dsprep.formats.stream import ShardStream


class Entry(NamedTuple):
    """One sample as it lies in a shard.

    Attributes:
        offset: First byte of the encoded sample in the (decompressed) shard.
        size: Bytes of the encoded sample, headers and padding included.
        sample: The raw sample; its key is empty if the shard does not tell it.
    """

    offset: int
    size: int
    sample: Sample


class Span(NamedTuple):
    """Where one sample lies in a shard, and what its headers tell without its payload.

    Attributes:
        offset: First byte of the encoded sample in the (decompressed) shard.
        size: Bytes of the encoded sample, headers and padding included.
        key: Its key, or the empty string where that is not in a header.
        id: Its id.
        label: Its label as numbers, if a header tells it.
        fields: The raw names of its fields, if headers tell them.
    """

    offset: int
    size: int
    key: str
    id: int
    label: tuple[float, ...] | None = None
    fields: tuple[str, ...] | None = None


class ShardFacts(NamedTuple):
    """What an index over a whole data set says of one shard."""

    name: str
    samples: int
    bytes: int


class SampleWriter(Protocol):
    """Writes samples to a file whose layout is not one sample after another.

    Attributes:
        bytes: The file's size on disk, once it is finished.
        crc32c: Of its bytes, once it is finished.
    """

    bytes: int
    crc32c: int

    def add(self, sample: Sample) -> int:
        """Take a sample; returns about how many bytes it will take.

        Raises:
            BadSample: If the format cannot hold it; nothing of it is written.
        """

    def finish(self) -> None:
        """Write everything."""

    def close(self) -> None:
        """Close what is open; the file is whole only if :meth:`finish` was called."""


def path_of(sample: Sample) -> str:
    """Return the name of a sample's image: that of its file, or one of key and kind."""
    if sample.path or sample.image is None:
        return sample.path or sample.key
    return f"{sample.key}.{sniff(sample.fields[sample.image]) or UNKNOWN_IMAGE}"


@dataclass(frozen=True)
class Format(ABC):
    """How samples are laid out in a shard, options included."""

    name: ClassVar[str]
    suffix: ClassVar[str]
    concatenative: ClassVar[bool] = True
    """Whether a shard is its encoded samples one after another; if not, see :meth:`open_writer`."""
    has_sidecars: ClassVar[bool] = False
    """Whether files stand beside each shard."""
    keys_must_differ: ClassVar[bool] = False
    """Whether two samples with one key would become one."""
    known_by: ClassVar[str] = "key"
    """What tells samples of a shard apart: ``key``, ``path`` or ``id``."""
    readable_images: ClassVar[frozenset[str] | None] = None
    """The kinds of image that its readers decode, if others end them; None if all are harmless."""
    sealed: ClassVar[bool] = False
    """Whether an encoded sample holds a checksum of its payload; see :meth:`is_intact`."""
    needs_labels: ClassVar[bool] = False
    """Whether an encoded sample always has a label: a placeholder if the schema has none."""
    needs_objects: ClassVar[bool] = False
    """Whether its readers for detection stop at an image without objects."""
    max_class: ClassVar[int | None] = None
    """The largest class number that it holds exactly; None for any."""
    float_bits: ClassVar[int] = 64
    """The bits of floats; those of 64 bits are rounded to fewer."""
    label_bits: ClassVar[int] = 64
    """The bits of floats that are labels."""
    needs_names: ClassVar[bool] = False
    """Whether the names of classes have to be known before the first sample is written."""
    schema: Schema | None = field(default=None, kw_only=True)
    """The schema of the samples to write, its places being those of this format; None for raw
    samples, which have been read from the same format. See :meth:`arranged`."""

    def __getstate__(self) -> dict[str, Any]:
        """Travel to workers without what is compiled."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Return the format that has the options which :meth:`options` made of one.

        Raises:
            OptionError: If they make no sense.
        """
        return cls(**options)

    def options(self) -> dict[str, Any]:
        """Return the options as a manifest records them: all but the schema."""
        options = asdict(replace(self, schema=None))
        del options["schema"]
        return options

    def shard_name(self, name: str, number: int, count: int) -> str:
        """The file name of shard ``number`` (from 0) of ``count``, as its users write it."""
        return f"{name}-{number:05d}{self.file_suffix}"

    @property
    def file_suffix(self) -> str:
        """The end of a shard's file name, that of its compression included."""
        return self.suffix

    @property
    def compressed(self) -> bool:
        """Whether the whole shard is wrapped in gzip."""
        return False

    def place_of(self, raw: str) -> str:
        """Return the place that a raw name stands for: several names may be one place."""
        return raw

    @abstractmethod
    def meaning(self, place: str) -> Meaning:
        """Return what a place means in this format."""

    @abstractmethod
    def arranged(self, schema: Schema) -> tuple[Self, list[str]]:
        """Return this format with a schema of samples to write.

        Args:
            schema: The fields, with the places of the source. Where :attr:`Schema.format` is this
                format, each field keeps its place; a name that the user gave (:attr:`Field.given`)
                is kept, too.

        Returns:
            The format, its schema having the places of this format; and what is left out or
            changed, a line each: facts that do not fit, floats that are rounded.

        Raises:
            OptionError: If it cannot hold a field; the message names the option that leaves it out.
        """

    def placeholders(self, schema: Schema) -> frozenset[str]:
        """Return the raw names of labels that mean nothing: those of samples without labels."""
        if schema.label is not None or not self.needs_labels:
            return frozenset()
        return frozenset(name for name in (LABEL,) if self.meaning(name).role == LABEL)

    def fact_of(self, raw: str) -> str:
        """Return the fact of an image that a raw name tells; the empty string if it is none."""
        name = self.meaning(self.place_of(raw)).field
        return name if name in FACTS else ""

    def like(self, other: Table) -> Self:
        """Return this format for raw samples of another of its kind, which may bring details."""
        return self

    def renamed_image(self, raw: str, kind: str) -> str:
        """Return the raw name of an image that has become one of another kind."""
        return raw

    @abstractmethod
    def encode(self, sample: Sample) -> list[bytes]:
        """Lay one sample out.

        Args:
            sample: A sample of the schema, or a raw one if there is no schema.

        Returns:
            Its bytes, in pieces to be written one after another.

        Raises:
            BadSample: If this format cannot hold the sample.
        """

    def open_writer(self, path: str, tree: str) -> SampleWriter:
        """Begin a file, in a format that is not concatenative.

        Args:
            path: The file.
            tree: The directory for the files of a format that is many files.

        Raises:
            OSError: If it cannot be written.
        """
        raise NotImplementedError

    def trailer(self, size: int) -> bytes:
        """What follows ``size`` bytes of encoded samples at the end of a shard."""
        return b""

    def capacity(self, target: int) -> int:
        """How many bytes of encoded samples fit into a shard of at most ``target`` bytes."""
        return target

    @abstractmethod
    def weights(self, rows: pl.DataFrame) -> pl.Series:
        """What each row of a catalog will weigh in a shard, in bytes.

        Args:
            rows: The catalog's table, with two more columns: ``image``, the bytes of the encoded
                image, and, where classes have names, ``class``.

        Returns:
            The size of each encoded sample: exact where the catalog tells all that is written, and
            never less than the truth.
        """

    @abstractmethod
    def read(self, stream: ShardStream) -> Iterator[Entry]:
        """Read the raw samples of a shard from its first byte to its last, checking its structure.

        Raises:
            DamagedShard: Where the bytes break the format; everything before has been yielded.
        """

    def spans(self, stream: ShardStream) -> Iterator[Span]:
        """Find the samples of a shard, reading no more than headers where the format has such.

        Raises:
            DamagedShard: Where the bytes break the format; everything before has been yielded.
        """
        for offset, size, sample in self.read(stream):
            yield Span(offset, size, sample.key, sample.id, fields=tuple(sample.fields))

    def class_names(self, path: str) -> Mapping[str, tuple[str, ...]]:
        """Return the class names that a shard itself tells, by the raw name of the field.

        Raises:
            OSError: If it cannot be read.
            SourceError: If it is damaged.
        """
        return {}

    def is_intact(self, encoded: bytes) -> bool:
        """Whether an encoded sample has the payload that its checksum tells of."""
        return True

    def sidecars(self, rows: Rows, sizes: Sequence[int]) -> dict[str, bytes]:
        """The files that stand beside a shard, by the suffix that replaces the shard's own.

        Args:
            rows: The shard's samples, in order.
            sizes: The size of each encoded sample, in bytes.
        """
        return {}

    def dataset_index(self, name: str, shards: Sequence[ShardFacts]) -> dict[str, bytes]:
        """The files that index a whole data set, by file name."""
        return {}
