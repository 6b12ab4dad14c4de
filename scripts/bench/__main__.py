"""Measure dsprep against its peers: `python -m scripts.bench`."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from dsprep.units import format_duration, format_size, parse_size

from . import data, machine, report
from .contests import Contest, contests
from .data import DataSet
from .lists import ensure_edits, list_contests
from .measure import adopt_orphans, disowned
from .packed import ensure_packed
from .reshards import shard_contests
from .results import Figures, Result, load, merge, save
from .run import hold
from .s3.contests import S3Contest, s3_contests
from .s3.files import ensure as ensure_files
from .s3.run import hold_on_s3

_ROOT = Path(__file__).parents[2]
_RESULTS = _ROOT / "docs" / "benchmarks.json"

# Where copies are measured without the disk, and the free bytes that this takes.
_MEMORY = Path("/dev/shm")
_MEMORY_NEEDED = 6_000_000_000

# Starts a cluster, and ends it at a signal.
_CLUSTER = """
import os, signal
from ray.cluster_utils import Cluster
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
node = {"num_cpus": 2, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=node)
print("ready", flush=True)
os.close(1)
signal.sigwait({signal.SIGTERM})
cluster.shutdown()
"""

# What waiting for the disk and deleting outputs take in each run, for the estimate.
_OVERHEAD_SECONDS = 1.0


def main() -> int:
    """Run the benchmark; returns the exit code."""
    args = _arguments()
    # Whoever stops it wants its servers to end, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    figures = load(args.report) if args.report else _measure(args)
    if not figures.results:
        return 0
    if args.quick or args.size or args.data:
        print(report.markdown(figures, ""))
    else:
        _publish(figures, whole=not (args.only or args.report))
    return 1 if any(result.error for result in figures.results) else 0


def _publish(figures: Figures, whole: bool) -> None:
    """Write the docs; what was measured in part replaces earlier figures of the same contests."""
    if not whole:
        before = load(_RESULTS)
        if before.machine != figures.machine:
            print(report.markdown(figures, ""))
            sys.exit("docs/ is not changed: its figures are of another machine or other versions")
        figures = merge(before, figures)
    save(figures, _RESULTS)
    for path, text in report.documents(load(_RESULTS), _ROOT).items():
        path.write_text(text, "utf-8")


def _measure(args: argparse.Namespace) -> Figures:
    """Hold the contests; what was measured so far is in the cache after each one."""
    cache: Path = args.cache / "quick" if args.quick else args.cache
    cache.mkdir(parents=True, exist_ok=True)
    sets = {name: DataSet(recipe, cache) for name, recipe in _recipes(args).items()}
    every: list[Contest | S3Contest] = [
        *contests(sets),
        *list_contests(sets["small"], sets["listed"]),
        *shard_contests(sets["small"], sets["photos"]),
        *s3_contests(cache, args.quick),
    ]
    chosen = [
        contest
        for contest in every
        if not args.only or any(part in name for part in args.only for name in contest.names)
        # Memory may not hold the larger photographs.
        if not (args.size and isinstance(contest, Contest) and contest.places == ("memory",))
    ]
    if not chosen:
        sys.exit(f"No such contest. There are: {', '.join(n for c in every for n in c.names)}")
    local = [contest for contest in chosen if isinstance(contest, Contest)]
    on_s3 = [contest for contest in chosen if isinstance(contest, S3Contest)]
    if args.size:
        _check_room(local, cache)
    if args.runs and not args.quick:
        _announce(chosen, args.runs)
    started = time.monotonic()
    files = _prepare(local, on_s3)
    adopt_orphans()
    with _places(cache, in_memory=not args.size) as places:
        figures = Figures(machine.describe(places), files, args.runs, [])
        commit = machine.commit()
        for contest in chosen if args.runs else ():
            print(f"{contest.name} …", file=sys.stderr, flush=True)
            results = _hold(contest, places, args.runs)
            figures.results.extend(replace(result, commit=commit) for result in results)
            save(figures, cache / "results.json")
    print(f"took {format_duration(time.monotonic() - started)}", file=sys.stderr)
    return figures


def _recipes(args: argparse.Namespace) -> dict[str, data.Recipe]:
    recipes = {each.name: each for each in data.RECIPES}
    for name, folder in args.data:
        if name not in ("small", "photos", "large"):
            sys.exit(f"--data {name}: the sets are small, photos and large")
        try:
            recipes[name] = data.of_images(recipes[name], folder)
        except ValueError as error:
            sys.exit(str(error))
    if args.size:
        recipes["photos"] = data.of_size(recipes["photos"], args.size)
    if args.quick:
        return {name: data.reduced(recipe) for name, recipe in recipes.items()}
    return recipes


def _check_room(chosen: Sequence[Contest], cache: Path) -> None:
    """Exit if the data sets, what they are packed into and an output may not fit on the disk."""
    sets = {contest.data for contest in chosen if contest.data}
    packed = {packed for contest in chosen for packed in contest.sources}
    twice = any(each.form == "twice" for each in packed)
    largest = max(each.recipe.size * each.recipe.files for each in sets) if sets else 0
    need = sum(each.recipe.bytes_on_disk for each in sets)
    need += sum(each.data.recipe.size * each.data.recipe.files for each in packed)
    need = (need + largest * (3 if twice else 1)) * 11 // 10
    free = shutil.disk_usage(cache).free
    print(f"needs {format_size(need)} of the {format_size(free)} free", file=sys.stderr)
    if need > free:
        sys.exit(f"{cache}: not enough space; choose fewer contests (ONLY=copy) or a smaller SIZE")


def _announce(chosen: Sequence[Contest | S3Contest], runs: int) -> None:
    """Say how long it will take, by the figures of docs/benchmarks.json."""
    wanted = {name for contest in chosen for name in contest.names}
    known = [r for r in load(_RESULTS).results if r.contest in wanted and r.runs]
    timed = sum(
        (result.spent / len(result.runs) + _OVERHEAD_SECONDS) * (1 + min(runs, len(result.runs)))
        for result in known
    )
    unknown = len(wanted - {result.contest for result in known})
    more = f", and {unknown} contests that were not measured before" if unknown else ""
    print(f"about {format_duration(timed)}{more}", file=sys.stderr, flush=True)


def _prepare(chosen: Sequence[Contest], on_s3: Sequence[S3Contest]) -> dict[str, tuple[int, int]]:
    """Make what is not there; returns the number of files, and of bytes, of each data set."""
    sets = {contest.data.name: contest.data for contest in chosen if contest.data}
    files = {each.title: (each.recipe.files, data.ensure(each)) for each in sets.values()}
    if "listed" in sets:
        ensure_edits(sets["listed"])
    for packed in {packed for contest in chosen for packed in contest.sources}:
        ensure_packed(packed)
    for remote in on_s3:
        ensure_files(remote.data)
        files[remote.data.name] = (remote.data.count, remote.data.total)
    return files


@contextmanager
def _places(cache: Path, in_memory: bool) -> Iterator[dict[str, Path]]:
    """New directories for outputs, by where they are."""
    with (
        TemporaryDirectory(prefix="out-", dir=cache) as disk,
        TemporaryDirectory(prefix="bench-", dir=_MEMORY if _MEMORY.is_dir() else cache) as memory,
    ):
        places = {"disk": Path(disk)}
        if in_memory and _MEMORY.is_dir() and shutil.disk_usage(memory).free >= _MEMORY_NEEDED:
            places["memory"] = Path(memory)
        yield places


def _hold(contest: Contest | S3Contest, places: dict[str, Path], runs: int) -> list[Result]:
    if isinstance(contest, S3Contest):
        return hold_on_s3(contest, places["disk"], runs)
    with _cluster() if contest.on_ray else nullcontext():
        return [
            result
            for place in contest.places
            if place in places
            for result in hold(contest, place, places[place], runs)
        ]


@contextmanager
def _cluster() -> Iterator[None]:
    """A Ray cluster of one node on this machine, whose start and end is not measured."""
    with disowned():  # through a shell, whose end makes it nobody's child
        start = [*("sh", "-c", '"$0" -c "$1" & echo $!'), sys.executable, _CLUSTER]
        with subprocess.Popen(start, stdout=subprocess.PIPE, text=True) as shell:
            assert shell.stdout is not None
            process = int(shell.stdout.readline())
            shell.stdout.readline()  # it is there
    try:
        yield
    finally:
        os.kill(process, signal.SIGTERM)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.bench", description=__doc__)
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        default=[],
        help="only contests whose name holds this, such as `resize` or `small`; may be repeated",
    )
    parser.add_argument(
        "--runs",
        metavar="N",
        type=int,
        default=3,
        help="maximum number of timed runs of each contender; 0 only makes the data sets",
    )
    parser.add_argument(
        "--size",
        type=parse_size,
        help="bytes of the data set `photos`, such as 20GB, by hard links; writes no docs",
    )
    parser.add_argument(
        "--data",
        metavar="NAME=FOLDER",
        type=_data,
        action="append",
        default=[],
        help="make the data set `small`, `photos` or `large` of the JPEG files in a folder, "
        "repeated up to the same number of files; writes no docs",
    )
    parser.add_argument(
        "--quick", action="store_true", help="tiny data sets: try the benchmark; writes no docs"
    )
    parser.add_argument(
        "--report",
        metavar="FILE",
        type=Path,
        nargs="?",
        const=_RESULTS,
        help="measure nothing: write the docs of the results in a file, such as the `results.json` "
        "that an interrupted benchmark left in the cache (default: docs/benchmarks.json)",
    )
    parser.add_argument(
        "--cache",
        metavar="DIR",
        type=Path,
        default=Path(os.environ.get("DSPREP_BENCH_DIR", _ROOT / "build" / "bench")),
        help="where data sets, outputs and results are (default: $DSPREP_BENCH_DIR, or "
        "build/bench)",
    )
    return parser.parse_args()


def _data(text: str) -> tuple[str, Path]:
    name, _, folder = text.partition("=")
    return name, Path(folder)


if __name__ == "__main__":
    sys.exit(main())
