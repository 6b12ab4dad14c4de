"""What a sync did, or would do: the report and what it consists of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Requests(NamedTuple):
    """An estimate of the requests that a sync takes, by what they cost."""

    writes: int = 0  # PUT, COPY, POST and LIST
    reads: int = 0  # GET and HEAD
    parts: int = 0  # parts of files, each of them also counted as a write or a read


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
    by: str  # what decided that; see `dsprep.syncing.compare`
    parts: int  # of how many parts it consists; 1 for a single request


@dataclass
class SyncReport:
    """What a sync did or, for a dry run, would do."""

    source: str
    destination: str
    state: str = "planned"  # `synced`, `already there`, `incomplete` or `planned`
    sent: Sequence[Send] = ()  # the files that were sent
    bytes: int = 0  # their size
    resumed: int = 0  # bytes of them that an earlier run had sent
    # number of files that were there already, by what decided
    same: Counter[str] = field(default_factory=Counter)
    deleted: Sequence[str] = ()  # paths that were deleted at the destination
    # number of files that `verify` has proven, by what
    verified: Counter[str] = field(default_factory=Counter)
    left: Sequence[Left] = ()  # files that were left out, and why
    failures: list[Failure] = field(default_factory=list)  # what failed
    requests: Requests = Requests()  # an estimate of the requests
    notes: list[str] = field(default_factory=list)  # further remarks
    seconds: float = 0.0  # how long it took
