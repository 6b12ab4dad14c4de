"""What a reader is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from dsprep.errors import BadSample
from dsprep.rows import Rows
from dsprep.sample import Sample


@dataclass(frozen=True)
class Reader(ABC):
    """Reads samples of one source. Plain data: it is pickled for the workers."""

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
