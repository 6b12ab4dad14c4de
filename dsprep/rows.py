"""A run of samples as the plain lists that workers take, one for each column of a catalog."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any


@dataclass(slots=True)
class Rows:
    """A run of samples."""

    ids: Sequence[int]  # ids
    # paths below the root of the source; for samples of shards, their keys or places
    paths: Sequence[str]
    sizes: Sequence[int]  # bytes of each image's file, or of each encoded sample
    # class numbers, tuples of numbers, or None for samples without labels
    labels: Sequence[int] | Sequence[tuple[float, ...]] | None
    # where the bytes lie in files that hold many samples: the position of each one's file among
    # those of the source's reader; None where each sample has a file of its own
    files: Sequence[int] | None = None
    offsets: Sequence[int] | None = None  # where in that file each begins
    # how many bytes each takes there; None where that is its size
    stored: Sequence[int] | None = None

    def without(self, rejected: Collection[int]) -> Rows:
        """The rows that are not at one of the positions."""
        if not rejected:
            return self
        kept = [position for position in range(len(self.ids)) if position not in rejected]

        def chosen(column: Sequence[Any] | None) -> list[Any] | None:
            return None if column is None else [column[position] for position in kept]

        return Rows(*(chosen(getattr(self, each.name)) for each in fields(self)))  # type: ignore[arg-type]
