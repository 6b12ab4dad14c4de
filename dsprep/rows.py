"""A run of samples as plain lists, one per column of a catalog: what workers get."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any


@dataclass(slots=True)
class Rows:
    """A run of samples."""

    ids: Sequence[int]
    # paths below the root of the source; for samples of shards, their keys or places
    paths: Sequence[str]
    sizes: Sequence[int]  # bytes of each image's file, or of each encoded sample
    # class numbers, tuples of numbers, or None for samples without labels
    labels: Sequence[int] | Sequence[tuple[float, ...]] | None
    # in files of many samples, the number of the sample's file among those of the source's reader;
    # None if each sample has a file of its own
    files: Sequence[int] | None = None
    offsets: Sequence[int] | None = None  # where in that file the sample begins
    stored: Sequence[int] | None = None  # how many bytes it takes there; None if that is its size
    # which copy of its sample it is, from 1; 0 for the sample itself
    copies: Sequence[int] | None = None

    def without(self, rejected: Collection[int]) -> Rows:
        """Return the rows without those at some positions."""
        if not rejected:
            return self
        kept = [position for position in range(len(self.ids)) if position not in rejected]

        def chosen(column: Sequence[Any] | None) -> list[Any] | None:
            return None if column is None else [column[position] for position in kept]

        return Rows(*(chosen(getattr(self, column.name)) for column in fields(self)))  # type: ignore[arg-type]
