"""What a sync will ask of S3, in requests and in dollars."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

PAGE = 1000
"""Keys in a page of a listing."""

_WRITE = 0.005 / 1000
"""Dollars for a PUT, COPY, POST or LIST request in us-east-1 (aws.amazon.com/s3/pricing)."""

_READ = 0.0004 / 1000
"""Dollars for a GET or HEAD request there."""


@dataclass(frozen=True)
class Requests:
    """How many requests of each price."""

    writes: int = 0  # PUT, COPY, POST and LIST
    reads: int = 0  # GET and HEAD
    parts: int = 0  # parts of files, each of which is a write or a read as well

    def __add__(self, other: Requests) -> Requests:
        return Requests(
            self.writes + other.writes, self.reads + other.reads, self.parts + other.parts
        )

    @property
    def total(self) -> int:
        """All of them."""
        return self.writes + self.reads

    @property
    def dollars(self) -> float:
        """Their price. Storage, and what leaves a region, are not in it."""
        return self.writes * _WRITE + self.reads * _READ


def to_list(count: int) -> Requests:
    """A listing of so many keys."""
    return Requests(writes=max(1, -(-count // PAGE)))


def to_upload(parts: Iterable[int]) -> Requests:
    """Files of so many parts each; several take a look for parts, a beginning and an end."""
    counts = list(parts)
    several = sum(count > 1 for count in counts)
    return Requests(writes=sum(counts) + 3 * several, reads=several, parts=sum(counts))


def to_download(parts: Iterable[int]) -> Requests:
    """Files of so many ranges each."""
    counts = list(parts)
    several = sum(count > 1 for count in counts)
    return Requests(reads=sum(counts) + several, parts=sum(counts))


def to_copy(parts: Iterable[int]) -> Requests:
    """Objects that the server copies, in so many parts each; both are looked at."""
    counts = list(parts)
    several = sum(count > 1 for count in counts)
    return Requests(writes=sum(counts) + 3 * several, reads=2 * len(counts), parts=sum(counts))
