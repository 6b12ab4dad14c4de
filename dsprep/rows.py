"""Rows of a catalog as plain lists, and the reader that makes samples of them in a worker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Protocol

from dsprep.errors import BadSample
from dsprep.sample import Sample
from dsprep.schema import Reading, Table


@dataclass(slots=True)
class Rows:
    """A run of samples: one list for each column of a catalog."""

    ids: Sequence[int]
    paths: Sequence[str]  # below the root of the source; for samples of shards, their keys or names
    sizes: Sequence[int]  # bytes of each image file, or of each encoded sample
    # class numbers, tuples of numbers, or None for samples without labels
    labels: Sequence[int] | Sequence[tuple[float, ...]] | None
    # for files of many samples: the position of each sample's file in the reader's `sources()`
    files: Sequence[int] | None = None
    offsets: Sequence[int] | None = None  # where each sample begins in that file
    stored: Sequence[int] | None = None  # bytes that each takes there; None where that is its size

    def without(self, rejected: Collection[int]) -> Rows:
        """Return the rows without some positions."""
        if not rejected:
            return self
        kept = [position for position in range(len(self.ids)) if position not in rejected]

        def chosen(column: Sequence[Any] | None) -> list[Any] | None:
            return None if column is None else [column[position] for position in kept]

        return Rows(*(chosen(getattr(self, each.name)) for each in fields(self)))  # type: ignore[arg-type]


class Pixels(Protocol):
    """Finds the image of a sample that has it as bare pixels."""

    def encoded(self, sample: Sample) -> Sample:
        """Return the sample with these pixels as a PNG."""


@dataclass(frozen=True)
class Reader(ABC):
    """Reads samples of one source. Plain data: it is pickled for the workers."""

    reads_samples: ClassVar[bool] = False
    """Whether it reads whole samples, with keys and labels, instead of images alone."""

    encodes: ClassVar[bool] = False
    """Whether it encodes images, so that their sizes are not known before."""

    reading: Reading | None = field(default=None, kw_only=True)
    """Converts whole samples to the schema; None leaves them raw."""

    pixels: Pixels | None = field(default=None, kw_only=True)
    """Where whole samples have bare pixels, which become a PNG; None if nowhere."""

    @property
    def table(self) -> Table:
        """The meaning of raw names, for whole samples."""
        raise NotImplementedError

    def typed(self, sample: Sample | BadSample) -> Sample | BadSample:
        """Convert a whole sample to the schema, or return the reason to reject it."""
        if isinstance(sample, BadSample):
            return sample
        try:
            if self.pixels is not None:
                sample = self.pixels.encoded(sample)
            return sample if self.reading is None else self.reading(sample)
        except BadSample as error:
            return error

    def sources(self) -> Sequence[str]:
        """The files that rows count in their column ``file``; none if each sample is a file."""
        return ()

    @abstractmethod
    def read(self, rows: Rows) -> Iterator[bytes | Sample | BadSample]:
        """Read some samples.

        Args:
            rows: Which ones.

        Yields:
            For each row, in order: the bytes of an encoded image, if the row has all the rest; or
            a whole sample; or the reason to reject it.

        Raises:
            SourceError: If the whole source is gone, which is no reason to reject its samples.
        """

    def spools(self) -> Sequence[int]:
        """List the files to unpack before samples can be read at random.

        Returns:
            An upper limit of the bytes of each such file; empty if the source is read in place.
        """
        return ()

    def write_spool(self, number: int, path: str) -> None:
        """Unpack one of them.

        Args:
            number: Its position among :meth:`spools`.
            path: The file to write.

        Raises:
            SourceError: If the source cannot be read, or has changed.
            OSError: If the file cannot be written.
        """
        raise NotImplementedError

    def spooled(self, directory: str) -> Reader:
        """Return the reader of the same rows that reads from the files ``{directory}/{number}``."""
        return self
