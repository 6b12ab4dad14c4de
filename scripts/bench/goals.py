"""The goals, and how the results stand to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
        charted: Whether it is in the chart: images are read or written, and so does the peer.
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
    charted: bool = True


@dataclass(frozen=True)
class Limit:
    """A goal for dsprep's peak memory.

    Attributes:
        work: What is done, for the reader.
        data: On what, for the reader.
        contests: Whose peaks count: what their names begin or end with.
        most: In bytes.
        worker: Whether it is that of a worker; else that of all processes together.
    """

    work: str
    data: str
    contests: tuple[str, ...]
    most: int
    worker: bool = False


@dataclass(frozen=True)
class Row:
    """A line of the table of goals, ready to be printed; for the chart, the speed beside a peer."""

    work: str
    data: str
    against: str
    ours: str
    theirs: str
    result: str
    goal: str
    met: bool | None
    unchecked: str = "–"
    speed: float | None = None


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
    ("mds → webdataset", "convert-mds-wds", "streaming and webdataset"),
)
_RESHARD = "webdataset, cut again"
_SHARDED = ("small", "photos")

_COPIES = (
    ("webdataset", ("ShardWriter",), None, {"small": 4.5, "photos": 2.5}),
    ("tfrecord", ("TFRecordWriter",), None, {"small": 4.5, "photos": 4.5}),
    ("recordio", _IM2REC, "im2rec, the best", {"small": 4.5, "photos": 3}),
    ("mds", ("MDSWriter",), "MDSWriter, 1 process", {"small": 3, "photos": 3}),
    ("mds", ("MDSWriter, 2 processes",), "MDSWriter, 2 processes", {"small": 1.5, "photos": 1.5}),
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
        for data, bound in (("small", 2.2), ("photos", 1))
    ),
    *(
        Race(work, contest, ("im2rec, 2 threads",), bound, ours=ours)
        for work, contest, bound, ours in (
            (_RESIZE, "resize/photos", 0.75, "dsprep, 2 workers"),
            (f"{_RESIZE}, bilinear", "resize/photos", 1, "dsprep, bilinear, 2 workers"),
            (_RESIZE, "resize/large", 2, "dsprep, 2 workers"),
        )
    ),
    Race("list of a folder", "lst-create/small", ("im2rec --list",), 5, charted=False),
    *(
        Race(work, f"{contest}/{data}", ("pandas",), 2, charted=False)
        for work, contest, data in _LIST_WORK
    ),
    *(
        Race(work, f"{contest}/{data}", ("script",), 4 if "mds" in work else 6, against=against)
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
    Race(
        "verify, 1 worker",
        "verify/photos",
        ("sha256sum",),
        1,
        ours="dsprep, 1 worker",
        charted=False,
    ),
    Race(
        "zip of small files → webdataset",
        "zip-pack/small",
        ("unzip, pack",),
        2,
        charted=False,
        against="`unzip`, then `dsprep pack`",
    ),
    Race(
        "pack of 600 small images",
        "start/few",
        ("import polars",),
        1.6,
        at_most=True,
        against='`python -c "import polars"`',
        charted=False,
    ),
    Race(
        "pack of 100,000 images with 800,000 boxes",
        "annotations/boxes",
        ("dsprep, without boxes",),
        2,
        at_most=True,
        charted=False,
        against="the same without boxes",
    ),
    *(
        Race(
            f"finding out what {what} is",
            contest,
            ("dsprep, which is told what it is",),
            1.2,
            at_most=True,
            charted=False,
            against="the same, told by an option",
        )
        for what, contest in (
            ("a folder of 100,000 images", "detect/boxes"),
            ("a folder of COCO", "detect-coco/boxes"),
            ("a directory of shards", "detect-webdataset/small"),
        )
    ),
    Race(
        "pack on Ray: 2 workers on one machine",
        "ray/photos",
        ("dsprep",),
        1.1,
        at_most=True,
        ours="dsprep --engine ray",
        charted=False,
        against="2 workers without Ray",
    ),
    *(
        Race(
            "an augmented copy of each image",
            "augment/birds",
            (peer,),
            bound,
            ours="dsprep, 2 workers",
            against=against,
        )
        for peer, bound, against in (
            ("Pillow, 2 processes", 0.8, "a Pillow script, 2 processes"),
            ("Keras", 3, "Keras' ImageDataGenerator"),
        )
    ),
    Race(
        "inspect of 10,000 photographs",
        "inspect/photos",
        ("Pillow, decoding alone",),
        1.3,
        at_most=True,
        charted=False,
        against="Pillow decodes them once, on all cores",
    ),
    Race(
        "`dsprep --help`",
        "help",
        ("import click",),
        1.5,
        at_most=True,
        ours="dsprep --help",
        against='`python -c "import click"`',
        charted=False,
    ),
)

# (contest, dsprep's contender, its least PSNR, how far it may be below im2rec's), in decibels.
_FIDELITY = (
    ("resize/photos", "dsprep, 2 workers", 34.5, 0),
    ("resize/photos", "dsprep, bilinear, 2 workers", 0, 0.1),
    ("resize/large", "dsprep, 2 workers", 0, 0),
)
LIMITS = (
    Limit("plan of a `.lst` (dry run)", "listed", ("dry-run/",), 450 * MB),
    # what dsprep takes for any plan, and 70 bytes a sample
    Limit("plan of 10,000,000 synthetic samples", "–", ("plan",), 800 * MB),
    Limit("whatever is done to lists", "listed", ("lst-", "split/"), 1000 * MB),
    Limit("stream of one shard, webdataset → tfrecord", "photos", ("stream-convert/",), 150 * MB),
    *(
        Limit("a worker, whatever it does", data, (f"/{data}",), 60 * MB, worker=True)
        for data in ("small", "photos", "large", "more")
    ),
)


def rows(results: Iterable[Result]) -> Iterator[Row]:
    """Judge the results: a row for each goal whose contest was held."""
    found = {(r.contest, r.place, r.contender): r for r in results}
    held = {contest for contest, _, _ in found}
    yield from (judge(race, found) for race in RACES if race.contest in held)
    if "copy-webdataset/more" in held and ("copy-webdataset/photos", "memory", "dsprep") in found:
        yield _marginal(found)
    yield from (_fidelity(goal, found) for goal in _FIDELITY if goal[0] in held)
    yield from (row for limit in LIMITS if (row := _memory(limit, found.values())))
    shards = ("convert-one-shard/photos", "convert-wds-tfrecord/photos")
    if held.issuperset(shards):
        peaks = (found[contest, "disk", "dsprep"].worker for contest in shards)
        work = "convert a shard of 2 GB: a worker's peak memory"
        yield share(work, "photos", "itself, shards of 124 MB", peaks, 1.25, show_bytes)


def seconds(result: Result) -> float:
    """The median time until the last command exits; 0 if it failed."""
    return 0.0 if result.error else median(run.wall for run in result.runs)


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
        speed=1 / times if compared and race.charted else None,
    )


def share(
    work: str,
    data: str,
    against: str,
    values: Iterable[float],
    bound: float,
    show: Callable[[float], str],
) -> Row:
    """Judge a goal for a value of dsprep beside another; 0 is one that could not be measured."""
    ours, theirs = values
    compared = ours > 0 and theirs > 0
    return Row(
        work=work,
        data=data,
        against=against,
        ours=show(ours) if ours > 0 else "failed",
        theirs=show(theirs) if theirs > 0 else "failed",
        result=f"{ours / theirs:.2f} times" if compared else "–",
        goal=f"at most {bound:g} times",
        met=ours / theirs <= bound if compared else None,
    )


def _marginal(found: Results) -> Row:
    """Judge what each gigabyte takes beyond the data set `photos`, without the disk."""

    def further(contender: str) -> float:
        more, less = (
            found[f"copy-webdataset/{data}", "memory", contender] for data in ("more", "photos")
        )
        if more.error or less.error:
            return 0.0
        return (seconds(more) - seconds(less)) / ((more.written - less.written) / 1e9)

    work = "folder → webdataset, each further GB, output in memory"
    times = (further("dsprep"), further("GNU tar"))
    return share(work, "more", "GNU tar", times, 0.65, show_seconds)


def _time(result: Result) -> str:
    return "failed" if result.error else show_seconds(seconds(result))


def _fidelity(goal: tuple[str, str, float, float], found: Results) -> Row:
    contest, contender, least, below = goal
    under = f"at most {below:g} dB below" if below else "not below"
    ours = found[contest, "disk", contender].psnr
    theirs = found[contest, "disk", "im2rec, 2 threads"].psnr
    measured = ours is not None and theirs is not None
    gain = (ours or 0) - (theirs or 0)
    return Row(
        work=f"{contender}: PSNR against a full decode and Lanczos",
        data=contest.partition("/")[2],
        against="im2rec, 2 threads",
        ours=f"{ours:.2f} dB" if ours else "failed",
        theirs=f"{theirs:.2f} dB" if theirs else "failed",
        result=f"{gain:+.2f} dB" if measured else "–",
        goal=f"at least {least:g} dB, {under}" if least else under,
        met=(ours or 0) >= least and gain >= -below if measured else None,
    )


def _memory(limit: Limit, results: Iterable[Result]) -> Row | None:
    """Judge a peak of memory, if a contest that shows it was held."""
    ours = [
        result
        for result in results
        if result.contender.startswith("dsprep")
        and (result.contest.startswith(limit.contests) or result.contest.endswith(limit.contests))
    ]
    if not ours:
        return None
    failed = any(result.error for result in ours)
    peak = max(result.worker if limit.worker else result.memory for result in ours)
    return Row(
        work=f"{limit.work}: peak memory",
        data=limit.data,
        against="–",
        ours="–",
        theirs="–",
        result="failed" if failed else show_bytes(peak),
        goal=f"at most {show_bytes(limit.most)}",
        met=None if failed else peak <= limit.most,
    )
