"""The goals on S3, and how the results stand to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median

from ..goals import Race, Row, judge, seconds, share, show_seconds
from ..results import Result

_OURS = "dsprep"

_RACES = tuple(
    Race(work, contest, (peer,), bound, at_most, place="S3")
    for work, contest, peer, bound, at_most in (
        ("sync to S3", "s3-up/shards", "s5cmd", 1, False),
        ("sync to S3", "s3-up/files", "s5cmd", 1.1, False),
        ("sync from S3", "s3-down/shards", "s5cmd", 0.9, False),
        ("sync from S3", "s3-down/files", "s5cmd", 1, False),
        ("sync, nothing to do", "s3-again/files", "s5cmd", 1.5, True),
    )
)


def s3_rows(results: Iterable[Result]) -> Iterator[Row]:
    """Judge the results: a row for each goal whose contest was held."""
    found = {(r.contest, r.place, r.contender): r for r in results}
    held = {contest for contest, _, _ in found}
    yield from (judge(race, found) for race in _RACES if race.contest in held)
    if "s3-up/shards" in held:
        work = "sync to S3, the client's processor time"
        both = (found["s3-up/shards", "S3", name] for name in (_OURS, "aws"))
        yield share(work, "shards", "aws", map(cpu, both), 0.45, show_seconds)
    if {"s3-up/shards", "s3-resume/shards"} <= held:
        work = "sync to S3, resumed at half"
        both = (found[f"s3-{step}/shards", "S3", _OURS] for step in ("resume", "up"))
        times = map(seconds, both)
        yield share(work, "shards", "itself, all of it", times, 0.6, show_seconds)


def cpu(result: Result) -> float:
    """The median processor time; 0 if it failed."""
    return 0.0 if result.error else median(run.cpu for run in result.runs)
