"""What a format is: how samples are laid out in a shard.

Most formats are concatenative: a shard is its encoded samples one after another, then a trailer
that depends on nothing but their total size. Naming, writing, checksums, commit and resume are
therefore written once, for all of them, elsewhere; a format only encodes a sample, says what it
will weigh, and reads a shard back. The others bring a writer of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

from dsprep.rows import Rows
from dsprep.sample import Sample

if TYPE_CHECKING:
    import polars as pl

    from dsprep.formats.stream import ShardStream


class Entry(NamedTuple):
    """One sample as it lies in a shard.

    Attributes:
        offset: First byte of the encoded sample in the (decompressed) shard.
        size: Bytes of the encoded sample, headers and padding included.
        sample: What it says.
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
        label: Its label, if a header tells it.
        fields: The names of its fields, if headers tell them.
    """

    offset: int
    size: int
    key: str
    id: int
    label: int | tuple[float, ...] | None = None
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
    """Whether an encoded sample always has a label; see :meth:`with_labels`."""
    needs_objects: ClassVar[bool] = False
    """Whether its readers for detection stop at an image without objects."""
    max_class: ClassVar[int | None] = None
    """The largest class number that it holds exactly; None for any."""

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """The format that has the options which ``dataclasses.asdict`` made of one.

        Raises:
            OptionError: If they make no sense, which nobody has made sure of.
        """
        return cls(**options)

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

    @property
    def tells_labels(self) -> bool:
        """Whether a sample that is read back has its label."""
        return True

    @property
    def wants(self) -> frozenset[str]:
        """Which of the fields class, filename, width and height this format will write."""
        return frozenset()

    @abstractmethod
    def encode(self, sample: Sample) -> list[bytes]:
        """Lay one sample out.

        Returns:
            Its bytes, in pieces to be written one after another.

        Raises:
            BadSample: If this format cannot hold the sample.
        """

    def open_writer(self, path: str) -> SampleWriter:
        """Begin a file, in a format that is not concatenative.

        Raises:
            OSError: If it cannot be written.
        """
        raise NotImplementedError

    def exact(self) -> Self:
        """The same layout, with which samples come back as they were, keys included."""
        return self

    def with_labels(self, labeled: bool) -> Self:
        """Return this layout for samples that all have labels, or that all have none.

        A format that needs labels writes placeholders for the latter, and reads them as no labels.
        """
        return self

    @property
    def holds_anything(self) -> bool:
        """Whether a sample's fields may have any names and values."""
        return not self.unheld({"any.field": bytes})

    def unheld(self, fields: Mapping[str, type]) -> list[str]:
        """Which fields this format cannot hold.

        Args:
            fields: The types of values by field name.
        """
        return []

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
        """Read a shard from its first byte to its last, checking its structure.

        Raises:
            DamagedShard: Where the bytes break the format; everything before has been yielded.
        """

    def spans(self, stream: ShardStream) -> Iterator[Span]:
        """Find the samples of a shard, reading no more than headers where the format has such.

        Raises:
            DamagedShard: Where the bytes break the format; everything before has been yielded.
        """
        for offset, size, sample in self.read(stream):
            yield Span(offset, size, sample.key, sample.id, sample.label(), tuple(sample.fields))

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
