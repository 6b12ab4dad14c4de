"""The goals, and how the results stand to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median

from .results import Result

MB = 1_000_000

# (contest, place, contender): how a result is found.
Results = dict[tuple[str, str, str], Result]


@dataclass(frozen=True)
class Race:
    """A goal for dsprep's time beside a peer's.

    Attributes:
        work: What is done, for the reader.
        contest: The contest's name.
        peers: The peer, by its contenders' names: the fastest counts.
        bound: At least so many times its speed; if `at_most`, at most so many times its time.
        ours: dsprep's contender.
        unchecked: dsprep's contender that checks no image, where `ours` does.
        against: What the peer is called, if not by its contender's name.
        place: Where the output goes.
    """

    work: str
    contest: str
    peers: tuple[str, ...]
    bound: float
    at_most: bool = False
    ours: str = "dsprep"
    unchecked: str | None = None
    against: str | None = None
    place: str = "disk"


@dataclass(frozen=True)
class Row:
    """A line of the table of goals, ready to be printed."""

    work: str
    data: str
    against: str
    ours: str
    theirs: str
    result: str
    goal: str
    met: bool | None
    unchecked: str = "–"

    @property
    def speed(self) -> float | None:
        """Speed of dsprep beside a peer's; None for a row that compares something else."""
        number, _, unit = self.result.partition(" ")
        if (
            unit != "times"
            or self.data == "–"
            or self.against == "itself"
            or " its " not in f" {self.goal}"
        ):
            return None
        return 1 / float(number) if self.goal.endswith("its time") else float(number)


_IM2REC = ("im2rec, 1 thread", "im2rec, 2 threads")
_RESIZE = "resize 256, JPEG q90, recordio"

_LIST_WORK = (
    ("list of a folder", "lst-create", "small"),
    ("difference of two lists", "lst-diff", "listed"),
    ("three-way merge", "lst-merge", "listed"),
    ("relabel", "lst-relabel", "listed"),
    ("stats", "lst-stats", "listed"),
    ("split by class", "split", "listed"),
)

_CONVERSIONS = (
    ("webdataset → tfrecord", "convert-wds-tfrecord", "webdataset and tensorflow"),
    ("tfrecord → webdataset", "convert-tfrecord-wds", "tensorflow and webdataset"),
    ("recordio → webdataset", "convert-recordio-wds", "mxnet and webdataset"),
)
_RESHARD = "webdataset, cut again"
_SHARDED = ("photos", "small")

_COPIES = (
    ("webdataset", ("ShardWriter",), None, {"small": 6, "photos": 3}),
    ("tfrecord", ("TFRecordWriter",), None, {"small": 4.5, "photos": 4.5}),
    ("recordio", _IM2REC, "im2rec, the best", {"small": 4.5, "photos": 2.7}),
)
_NONE = "dsprep --check none"

RACES = (
    *(
        Race(
            f"folder → {form}, copy",
            f"copy-{form}/{data}",
            peers,
            bound,
            unchecked=_NONE,
            against=against,
        )
        for form, peers, against, bounds in _COPIES
        for data, bound in bounds.items()
    ),
    *(
        Race(
            "folder → webdataset, copy",
            f"copy-webdataset/{data}",
            ("GNU tar",),
            bound,
            at_most=True,
            unchecked=_NONE,
        )
        for data, bound in (("small", 2.7), ("photos", 1.1))
    ),
    *(
        Race(_RESIZE, contest, ("im2rec, 2 threads",), bound, ours=ours)
        for contest, bound, ours in (
            ("resize/photos", 0.75, "dsprep, 2 workers"),
            ("resize/large", 2, "dsprep, 2 workers"),
        )
    ),
    *(
        Race(
            "the same, 1 → 2 workers",
            contest,
            ("dsprep, 1 worker",),
            1.8,
            ours="dsprep, 2 workers",
            against="itself",
        )
        for contest in ("resize/photos", "resize/large")
    ),
    Race("list of a folder", "lst-create/small", ("im2rec --list",), 5),
    *(Race(work, f"{contest}/{data}", ("pandas",), 2) for work, contest, data in _LIST_WORK),
    *(
        Race(work, f"{contest}/{data}", ("script",), 6, against=against)
        for work, contest, against in _CONVERSIONS
        for data in _SHARDED
    ),
    *(
        Race(_RESHARD, f"shard-resize/{data}", ("GNU tar, sync",), 2.5, at_most=True)
        for data in _SHARDED
    ),
    *(
        Race(
            _RESHARD,
            f"shard-resize/{data}",
            ("webdataset",),
            5,
            against="webdataset, reader into writer",
        )
        for data in _SHARDED
    ),
    Race("verify", "verify/photos", ("sha256sum",), 1, ours="dsprep, 1 worker"),
    Race(
        "zip of 50,000 files → webdataset",
        "zip-pack/small",
        ("unzip, pack",),
        2,
        against="`unzip`, then `dsprep pack`",
    ),
    Race(
        "pack of 600 small images",
        "start/few",
        ("import polars",),
        2,
        at_most=True,
        against='`python -c "import polars"`',
    ),
    Race(
        "`dsprep --help`",
        "help",
        ("import click",),
        1.5,
        at_most=True,
        ours="dsprep --help",
        against='`python -c "import click"`',
    ),
)

_FIDELITY = ("resize/photos", "resize/large")
_DRY_RUN_MEMORY = 500 * MB
_WORKER_MEMORY = 60 * MB
_LIST_MEMORY = 1000 * MB
_STREAM_MEMORY = 150 * MB
_SHARD_MEMORY_RATIO = 1.25


def rows(results: Iterable[Result]) -> Iterator[Row]:
    """Judge the results: a row for each goal whose contest was held."""
    found = {(r.contest, r.place, r.contender): r for r in results}
    held = {contest for contest, _, _ in found}
    yield from (judge(race, found) for race in RACES if race.contest in held)
    yield from (_fidelity(contest, found) for contest in _FIDELITY if contest in held)
    if "dry-run/listed" in held:
        dry_run = found["dry-run/listed", "disk", "dsprep"]
        yield _memory("dry run of a `.lst`", "listed", dry_run, _DRY_RUN_MEMORY)
    lists = [found[name, "disk", "dsprep"] for name in _list_contests() if name in held]
    if lists:
        yield _list_memory(lists)
    if "stream-convert/photos" in held:
        stream = found["stream-convert/photos", "disk", "dsprep"]
        work = "stream of one shard, webdataset → tfrecord"
        yield _memory(work, "photos, twice", stream, _STREAM_MEMORY)
    shards = ("convert-one-shard/photos", "convert-wds-tfrecord/photos")
    if held.issuperset(shards):
        yield _shard_memory(*(found[contest, "disk", "dsprep"] for contest in shards))
    for data in ("small", "photos", "large"):
        ours = [r for r in found.values() if _is_ours(r) and r.contest.endswith(f"/{data}")]
        if ours:
            yield _worker_memory(data, ours)


def seconds(result: Result) -> float:
    """The median time until the last command exits."""
    return median(run.wall for run in result.runs)


def show_seconds(value: float) -> str:
    """A time with three figures, in seconds."""
    return f"{value:.3f} s" if value < 1 else f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


def show_bytes(value: float) -> str:
    """A size in megabytes of a million bytes."""
    return f"{value / MB:.0f} MB"


def judge(race: Race, found: Results) -> Row:
    """Judge a race whose contest was held."""
    ours = found[race.contest, race.place, race.ours]
    peers = [found[race.contest, race.place, peer] for peer in race.peers]
    ran = [peer for peer in peers if not peer.error]
    best = min(ran, key=seconds) if ran else peers[0]
    compared = not ours.error and ran
    times = seconds(ours) / seconds(best) if compared else 0.0
    ratio = times if race.at_most else 1 / times if times else 0.0
    return Row(
        work=race.work,
        data=race.contest.partition("/")[2] or "–",
        against=race.against or race.peers[0],
        ours=_time(ours),
        theirs=_time(best),
        result=f"{ratio:.2f} times" if compared else "–",
        goal=f"at most {race.bound:g} times its time"
        if race.at_most
        else f"{race.bound:g} times its speed",
        met=(ratio <= race.bound if race.at_most else ratio >= race.bound) if compared else None,
        unchecked=_time(found[race.contest, race.place, race.unchecked]) if race.unchecked else "–",
    )


def _time(result: Result) -> str:
    return "failed" if result.error else show_seconds(seconds(result))


def _fidelity(contest: str, found: Results) -> Row:
    ours = found[contest, "disk", "dsprep, 2 workers"].psnr
    theirs = found[contest, "disk", "im2rec, 2 threads"].psnr
    measured = ours is not None and theirs is not None
    gain = (ours or 0) - (theirs or 0)
    return Row(
        work="the same, PSNR against a full decode and Lanczos",
        data=contest.partition("/")[2],
        against="im2rec, 2 threads",
        ours=f"{ours:.2f} dB" if ours else "failed",
        theirs=f"{theirs:.2f} dB" if theirs else "failed",
        result=f"{gain:+.2f} dB" if measured else "–",
        goal="not below",
        met=gain >= 0 if measured else None,
    )


def _memory(work: str, data: str, result: Result, limit: int) -> Row:
    return Row(
        work=f"{work}, peak memory",
        data=data,
        against="–",
        ours=_time(result),
        theirs="–",
        result="–" if result.error else show_bytes(result.memory),
        goal=f"under {show_bytes(limit)}",
        met=None if result.error else result.memory < limit,
    )


def _shard_memory(one: Result, several: Result) -> Row:
    ratio = one.worker / several.worker if one.worker and several.worker else None
    return Row(
        work="convert, peak memory of a worker: a shard of 2 GB",
        data="photos",
        against="itself, shards of 124 MB",
        ours=show_bytes(one.worker),
        theirs=show_bytes(several.worker),
        result="–" if ratio is None else f"{ratio:.2f} times",
        goal=f"at most {_SHARD_MEMORY_RATIO:g} times",
        met=None if ratio is None else ratio <= _SHARD_MEMORY_RATIO,
    )


def _list_contests() -> Iterator[str]:
    return (f"{contest}/{data}" for _, contest, data in _LIST_WORK)


def _list_memory(ours: list[Result]) -> Row:
    peak = 0 if any(result.error for result in ours) else max(result.memory for result in ours)
    return Row(
        work="peak memory of what is done to lists",
        data="listed",
        against="–",
        ours="–",
        theirs="–",
        result=show_bytes(peak) if peak else "failed",
        goal=f"under {show_bytes(_LIST_MEMORY)}",
        met=peak < _LIST_MEMORY if peak else None,
    )


def _worker_memory(data: str, ours: list[Result]) -> Row:
    peak = 0 if any(result.error for result in ours) else max(result.worker for result in ours)
    return Row(
        work="peak memory of a worker, whatever it does",
        data=data,
        against="–",
        ours="–",
        theirs="–",
        result=show_bytes(peak) if peak else "failed",
        goal=f"at most {show_bytes(_WORKER_MEMORY)}",
        met=peak <= _WORKER_MEMORY if peak else None,
    )


def _is_ours(result: Result) -> bool:
    return result.contender.startswith("dsprep")
