"""What a sync did, or would do: the report and what it consists of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dsprep.printable import json_values
from dsprep.tuples import NamedTuple


class Requests(NamedTuple):
    """Estimated number of S3 requests of a sync, by price class."""

    writes: int = 0  # PUT, COPY, POST and LIST
    reads: int = 0  # GET and HEAD requests, which cost less than writes
    parts: int = 0  # parts of files, each of them also counted as a write or a read

    def to_json(self) -> dict[str, Any]:
        return json_values({"writes": self.writes, "reads": self.reads, "parts": self.parts})


class Failure(NamedTuple):
    """A file that could not be sent, deleted or proven."""

    path: str  # relative to both sides
    message: str  # what went wrong, and what to do

    def to_json(self) -> dict[str, Any]:
        return json_values({"path": self.path, "message": self.message})


class LeftOutFile(NamedTuple):
    """A file that is left out."""

    path: str  # relative to its side
    why: str  # the reason

    def to_json(self) -> dict[str, Any]:
        return json_values({"path": self.path, "why": self.why})


class Send(NamedTuple):
    """A file that was sent or, for a dry run, would be."""

    path: str  # relative to both sides
    size: int  # in bytes
    by: str  # what decided that; see `dsprep.syncing.compare`
    parts: int  # of how many parts it consists; 1 for a single request

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {"path": self.path, "size": self.size, "by": self.by, "parts": self.parts}
        )


@dataclass
class SyncReport:
    """What a sync did or, for a dry run, would do."""

    source: str
    destination: str
    state: str = "planned"  # `synced`, `already there`, `incomplete` or `planned`
    sent: Sequence[Send] = ()  # the files that were sent
    bytes: int = 0  # their size
    resumed: int = 0  # bytes that an earlier run had sent
    # number of files that were there already, by what decided
    same: Counter[str] = field(default_factory=Counter)
    deleted: Sequence[str] = ()  # paths that were deleted at the destination
    # number of files that `verify` has proven, by what
    verified: Counter[str] = field(default_factory=Counter)
    left: Sequence[LeftOutFile] = ()  # files that were left out, and why
    failures: list[Failure] = field(default_factory=list)  # what failed
    requests: Requests = Requests()  # an estimate of the requests
    notes: list[str] = field(default_factory=list)  # further remarks
    seconds: float = 0.0  # how long it took

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "source": self.source,
                "destination": self.destination,
                "state": self.state,
                "sent": self.sent,
                "bytes": self.bytes,
                "resumed": self.resumed,
                "same": self.same,
                "deleted": self.deleted,
                "verified": self.verified,
                "left": self.left,
                "failures": self.failures,
                "requests": self.requests,
                "notes": self.notes,
                "seconds": self.seconds,
            }
        )
