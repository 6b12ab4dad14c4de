"""The section on S3 of the page."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ..goals import seconds, show_bytes, show_seconds
from ..results import Result
from ..tables import table
from .goals import cpu

_METHOD = """\
`dsprep sync` and other clients with their default settings, in turns, each in a bucket of its own
on the same server: Ceph with its store in memory, over http on loopback, fresh for each round. It
shares the machine's cores with the client, so what a client needs of the processor slows the server
down, too. The files are of random bytes, all in the page cache. Times are those of whole processes,
the medians of up to {runs} runs.

- s3-up: everything is sent. s3-again: the same command again, which finds nothing to do.
- s3-resume: the client was killed (SIGKILL) when half of the bytes had arrived; what is timed is
  the same command again, once, and all its processes.
- s3-down: what the client has sent is fetched into an empty directory. dsprep waits for the disk.
- Stored: bytes that the server wrote for the timed command, in a round of its own. Uploads left:
  those that are unfinished after it, whose parts are kept and billed until somebody aborts them.

In brackets: times that of dsprep."""


def s3_section(results: Sequence[Result]) -> str:
    """Write the section; nothing if nothing was measured on S3."""
    ours = [result for result in results if result.place == "S3"]
    if not ours:
        return ""
    lines = []
    for _, group in groupby(ours, key=lambda result: result.contest):
        contest = list(group)
        lines += [_line(result, contest[0]) for result in contest]
    heads = ("time >", "processor >", "memory >", "stored >", "uploads left >", "commit")
    return "\n\n".join(
        (
            "## S3",
            _METHOD.format(runs=max(len(result.runs) for result in ours)),
            table(("work", "client", *heads), lines),
        )
    )


def _line(result: Result, unit: Result) -> tuple[str, ...]:
    name = (result.contest, result.contender)
    if result.error or not result.runs:
        return (*name, *["failed"] * 5, result.commit)
    count, size = result.left
    fetched = result.contest.startswith("s3-down")
    return (
        *name,
        _times(seconds(result), seconds(unit) if unit.runs else 0),
        _times(cpu(result), cpu(unit) if unit.runs else 0),
        show_bytes(result.memory),
        "–" if fetched else show_bytes(result.sent),
        f"{count} ({show_bytes(size)})" if count else "–" if fetched else "none",
        result.commit,
    )


def _times(value: float, unit: float) -> str:
    return f"{show_seconds(value)} ({value / unit:.2f})" if unit else show_seconds(value)
