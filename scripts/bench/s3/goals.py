"""The goals on S3, and how the results stand to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from statistics import median

from ..goals import Race, Row, judge, seconds, show_seconds
from ..results import Result

_OURS = "dsprep"
_CPU_BOUND = 0.45
_RESUME_BOUND = 0.6

_RACES = tuple(
    Race(work, contest, (peer,), bound, at_most, place="S3")
    for work, contest, peer, bound, at_most in (
        ("sync to S3", "s3-up/shards", "s5cmd", 1, False),
        ("sync to S3", "s3-up/files", "s5cmd", 1.1, False),
        ("sync from S3", "s3-down/shards", "s5cmd", 0.9, False),
        ("sync from S3", "s3-down/files", "s5cmd", 1, False),
        ("sync, nothing to do", "s3-again/files", "s5cmd", 2, True),
    )
)


def s3_rows(results: Iterable[Result]) -> Iterator[Row]:
    """Judge the results: a row for each goal whose contest was held."""
    found = {(r.contest, r.place, r.contender): r for r in results}
    held = {contest for contest, _, _ in found}
    yield from (judge(race, found) for race in _RACES if race.contest in held)
    if "s3-up/shards" in held:
        ours, theirs = (found["s3-up/shards", "S3", name] for name in (_OURS, "aws"))
        work = "sync to S3, the client's processor time"
        yield _share(work, "aws", ours, theirs, _CPU_BOUND, cpu)
    if {"s3-up/shards", "s3-resume/shards"} <= held:
        resumed, whole = (found[f"s3-{work}/shards", "S3", _OURS] for work in ("resume", "up"))
        work = "sync to S3, resumed at half"
        yield _share(work, "itself, all of it", resumed, whole, _RESUME_BOUND, seconds)


def _share(
    work: str,
    against: str,
    ours: Result,
    theirs: Result,
    bound: float,
    measure: Callable[[Result], float],
) -> Row:
    compared = not (ours.error or theirs.error)
    one, other = (measure(each) if compared else 1.0 for each in (ours, theirs))
    return Row(
        work=work,
        data="shards",
        against=against,
        ours=show_seconds(one) if compared else "failed",
        theirs=show_seconds(other) if compared else "failed",
        result=f"{one / other:.2f} times" if compared else "–",
        goal=f"at most {bound:g} times",
        met=one / other <= bound if compared else None,
    )


def cpu(result: Result) -> float:
    """The median processor time."""
    return median(run.cpu for run in result.runs)
