"""What is measured on S3."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .files import Files, data_sets


@dataclass(frozen=True)
class S3Contest:
    """One piece of work, done by all clients in turns, each in a bucket of its own.

    Attributes:
        work: What is done.
        data: The files.
        before: What the client has done before, untimed: nothing, its upload (``up``), or
            that until it was killed at half of the bytes (``killed``).
        down: Whether the files are fetched; else they are sent.
    """

    work: str
    data: Files
    before: str = ""
    down: bool = False

    @property
    def name(self) -> str:
        """What the command line calls it."""
        return f"{self.work}/{self.data.name}"


def s3_contests(cache: Path, quick: bool) -> list[S3Contest]:
    """All contests."""
    return [
        contest
        for data in data_sets(cache, quick)
        for contest in (
            S3Contest("s3-up", data),
            S3Contest("s3-again", data, before="up"),
            S3Contest("s3-resume", data, before="killed"),
            S3Contest("s3-down", data, before="up", down=True),
        )
    ]
