"""A run of samples as the plain lists that workers take, one for each column of a catalog."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any


@dataclass(slots=True)
class Rows:
    """A run of samples.

    Attributes:
        ids: Ids.
        paths: Paths below the root of the source; for samples of shards, their keys or places.
        sizes: Bytes of each image's file, or of each encoded sample.
        labels: Class numbers, tuples of numbers, or None for samples without labels.
        files: Where the bytes lie in files that hold many samples: the position of each one's file
            among those of the source's reader; None where each sample has a file of its own.
        offsets: Where in that file each begins.
        stored: How many bytes each takes there; None where that is its size.
        copies: Which copy of its sample each is, from 1; 0 for the sample itself.
    """

    ids: Sequence[int]
    paths: Sequence[str]
    sizes: Sequence[int]
    labels: Sequence[int] | Sequence[tuple[float, ...]] | None
    files: Sequence[int] | None = None
    offsets: Sequence[int] | None = None
    stored: Sequence[int] | None = None
    copies: Sequence[int] | None = None

    def without(self, rejected: Collection[int]) -> Rows:
        """The rows that are not at one of the positions."""
        if not rejected:
            return self
        kept = [position for position in range(len(self.ids)) if position not in rejected]

        def chosen(column: Sequence[Any] | None) -> list[Any] | None:
            return None if column is None else [column[position] for position in kept]

        return Rows(*(chosen(getattr(self, each.name)) for each in fields(self)))  # type: ignore[arg-type]
