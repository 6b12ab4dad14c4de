"""What is measured on S3."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..contests import SECONDS
from .clients import CLIENTS, Client
from .files import Files, data_sets


@dataclass(frozen=True)
class S3Contest:
    """What clients do in turns, each in a bucket of its own.

    Attributes:
        data: The files.
        steps: What is timed, one after the other: everything is sent (`up`), the same command
            again has nothing to do (`again`), or goes on where it was killed (`resume`); everything
            is fetched (`down`).
        clients: Who does it, by name.
        seconds: A client whose timed runs took this long together has no further one.
    """

    data: Files
    steps: tuple[str, ...]
    clients: tuple[str, ...]
    seconds: float = 2 * SECONDS

    @property
    def names(self) -> tuple[str, ...]:
        """What its results are called."""
        return tuple(f"s3-{step}/{self.data.name}" for step in self.steps)

    @property
    def name(self) -> str:
        """What is reported as going on."""
        return ", ".join(self.names)

    @property
    def contenders(self) -> tuple[Client, ...]:
        """Who does it."""
        return tuple(client for client in CLIENTS if client.name in self.clients)


def s3_contests(cache: Path, quick: bool) -> list[S3Contest]:
    """All contests: rclone, the slowest with small files, sends and fetches only shards."""
    shards, files = data_sets(cache, quick)
    return [
        S3Contest(files, ("up", "again", "down"), ("dsprep", "aws", "s5cmd")),
        S3Contest(shards, ("up", "down"), ("dsprep", "aws", "s5cmd", "rclone")),
        S3Contest(shards, ("resume",), ("dsprep", "aws", "s5cmd"), seconds=0),
    ]
