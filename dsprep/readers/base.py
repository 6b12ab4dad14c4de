"""What a reader is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from dsprep.errors import BadSample
from dsprep.rows import Rows
from dsprep.sample import Sample
from dsprep.schema import Reading, Table

if TYPE_CHECKING:
    from dsprep.readers.pixels import RawPixels


@dataclass(frozen=True)
class Reader(ABC):
    """Reads samples of one source. Plain data: it is pickled for the workers."""

    whole: ClassVar[bool] = False
    """Whether it reads whole samples, with keys and labels, and not images alone."""

    encodes: ClassVar[bool] = False
    """Whether it encodes images, so that nobody knows their sizes before."""

    reading: Reading | None = field(default=None, kw_only=True)
    """Makes samples of the schema of whole samples; None to leave them raw."""

    pixels: RawPixels | None = field(default=None, kw_only=True)
    """Where whole samples have their image as bare pixels, which become a PNG; None if nowhere."""

    @property
    def table(self) -> Table:
        """What the format of whole samples says of raw names."""
        raise NotImplementedError

    def typed(self, sample: Sample | BadSample) -> Sample | BadSample:
        """Return a whole sample as the schema has it, or the reason why there is none."""
        if isinstance(sample, BadSample):
            return sample
        try:
            if self.pixels is not None:
                sample = self.pixels.encoded(sample)
            return sample if self.reading is None else self.reading(sample)
        except BadSample as error:
            return error

    def sources(self) -> Sequence[str]:
        """The files that rows count in their column ``file``: none, where each has its own."""
        return ()

    @abstractmethod
    def read(self, rows: Rows) -> Iterator[bytes | Sample | BadSample]:
        """Read some samples.

        Args:
            rows: Which ones.

        Yields:
            For each of the rows, in their order: the bytes of an encoded image, if the rows tell
            all the rest; or a whole sample; or the reason why it cannot be had.

        Raises:
            SourceError: If the whole source is gone, which is no reason to reject what was in it.
        """

    def spools(self) -> Sequence[int]:
        """What must be laid out anew, in files of their own, before samples can be read at random.

        Returns:
            The size of each such file in bytes, or more; none for what can be read as it is.
        """
        return ()

    def write_spool(self, number: int, path: str) -> None:
        """Lay one of them out.

        Args:
            number: Its position among :meth:`spools`.
            path: The file to write.

        Raises:
            SourceError: If the source cannot be read, or has changed.
            OSError: If the file cannot be written.
        """
        raise NotImplementedError

    def spooled(self, directory: str) -> Reader:
        """The reader of the same rows that reads from the files ``{directory}/{number}``."""
        return self
