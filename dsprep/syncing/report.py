"""What a sync did or, for a dry run, would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Requests(NamedTuple):
    """An estimate of the requests that a sync takes, by what they cost."""

    writes: int = 0  # PUT, COPY, POST and LIST
    reads: int = 0  # GET and HEAD
    parts: int = 0  # parts of files, each of which is a write or a read as well


class Failure(NamedTuple):
    """A file that could not be sent, deleted or proven."""

    path: str  # relative to both sides
    message: str  # what went wrong, and what to do


class Left(NamedTuple):
    """A file that is left out."""

    path: str  # relative to its side
    why: str  # the reason


class Send(NamedTuple):
    """A file that was sent or, for a dry run, would be."""

    path: str  # relative to both sides
    size: int  # in bytes
    by: str  # what decided that; see :mod:`dsprep.syncing.compare`
    parts: int  # of how many parts it consists; 1 for a single request


@dataclass
class SyncReport:
    """What a sync did or, for a dry run, would do.

    Attributes:
        source: As it was given.
        destination: As it was given.
        state: ``synced``, ``already there``, ``incomplete`` or ``planned``.
        sent: The files that were sent.
        bytes: Their size.
        resumed: Bytes of them that an earlier run had sent.
        same: Number of files that were there already, by what decided.
        deleted: Paths that were deleted at the destination.
        verified: Number of files that `verify` has proven, by what.
        left: Files that were left out, and why.
        failures: What failed.
        requests: An estimate of the requests.
        notes: Further remarks.
        seconds: How long it took.
    """

    source: str
    destination: str
    state: str = "planned"
    sent: Sequence[Send] = ()
    bytes: int = 0
    resumed: int = 0
    same: Counter[str] = field(default_factory=Counter)
    deleted: Sequence[str] = ()
    verified: Counter[str] = field(default_factory=Counter)
    left: Sequence[Left] = ()
    failures: list[Failure] = field(default_factory=list)
    requests: Requests = Requests()
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
