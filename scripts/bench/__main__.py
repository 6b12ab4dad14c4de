"""Measure dsprep against its peers: `python -m scripts.bench`."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from . import machine, report
from .contests import Contest, contests
from .data import FEW, LARGE, LISTED, PHOTOS, SMALL, DataSet, ensure, reduced
from .lists import ensure_edits, list_contests
from .measure import adopt_orphans
from .packed import ensure_packed
from .reshards import shard_contests
from .results import Figures, Result, load, save
from .run import hold
from .s3.contests import S3Contest, s3_contests
from .s3.run import hold_on_s3

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "benchmarks.md"

# In bytes, with room to spare: a copy of the photographs.
_LARGEST_OUTPUT = 2_000_000_000


def main() -> int:
    """Run the benchmark; returns the exit code."""
    args = _arguments()
    # Whoever stops it wants its servers to end, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    whole = not (args.only or args.quick)
    figures = load(args.load) if args.load else _measure(args)
    if args.json:
        save(figures, args.json)
    page = report.markdown(figures, report.notes_of(args.page or _PAGE))
    if args.page or whole:
        (args.page or _PAGE).write_text(page)
    else:
        print(page)
    return 1 if any(result.error for result in figures.results) else 0


def _measure(args: argparse.Namespace) -> Figures:
    cache = args.cache / "quick" if args.quick else args.cache
    cache.mkdir(parents=True, exist_ok=True)
    on_s3 = _chosen(s3_contests(cache, args.quick), args.only)
    recipes = (FEW, SMALL, PHOTOS, LARGE, LISTED)
    data = {r.name: DataSet(reduced(r) if args.quick else r, cache) for r in recipes}
    every = [
        *contests(data),
        *list_contests(data["small"], data["listed"]),
        *shard_contests(data["small"], data["photos"]),
    ]
    chosen = _chosen(every, args.only)
    if not (chosen or on_s3):
        names = [c.name for c in every] + [c.name for c in s3_contests(cache, args.quick)]
        sys.exit(f"No such contest. There are: {', '.join(names)}")

    adopt_orphans()
    used = {c.data.name: c.data for c in chosen if c.data}
    sizes = {name: ensure(each) for name, each in used.items()}
    if "listed" in used:
        ensure_edits(used["listed"])
    for packed in {packed for contest in chosen for packed in contest.sources}:
        ensure_packed(packed)
    with ExitStack() as stack:
        directories = {
            "disk": args.output_dir or cache,
            "memory": None if args.disk_only else args.memory_dir,
        }
        places = {
            place: Path(stack.enter_context(TemporaryDirectory(prefix="out-", dir=directory)))
            for place, directory in directories.items()
            if directory
        }
        return Figures(
            machine.describe(places),
            {name: (used[name].recipe.files, size) for name, size in sizes.items()}
            | {c.data.name: (c.data.count, c.data.total) for c in on_s3},
            args.runs,
            _hold_all(chosen, sizes, places, args.runs)
            + _hold_all_on_s3(on_s3, places["disk"], args.runs),
        )


C = TypeVar("C", Contest, S3Contest)


def _chosen(every: Sequence[C], only: Sequence[str]) -> list[C]:
    return [c for c in every if not only or any(part in c.name for part in only)]


def _hold_all(
    chosen: Sequence[Contest], sizes: dict[str, int], places: dict[str, Path], runs: int
) -> list[Result]:
    results = []
    for contest in chosen:
        for place, directory in places.items():
            if place == "disk" or contest.in_memory:
                print(f"{contest.name} ({place}) …", file=sys.stderr, flush=True)
                size = sizes[contest.data.name] if contest.data else 0
                results += hold(contest, size, place, directory, runs)
    return results


def _hold_all_on_s3(chosen: Sequence[S3Contest], directory: Path, runs: int) -> list[Result]:
    results = []
    for contest in chosen:
        print(f"{contest.name} …", file=sys.stderr, flush=True)
        results += hold_on_s3(contest, directory, runs)
    return results


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.bench", description=__doc__)
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        default=[],
        help="only contests whose name holds this, such as `resize` or `small`; may be repeated",
    )
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each contender")
    parser.add_argument("--quick", action="store_true", help="tiny data sets: try the benchmark")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all figures to this file")
    parser.add_argument(
        "--load",
        metavar="FILE",
        type=Path,
        action="append",
        help="measure nothing: report what --json wrote; may be repeated, and what a later file "
        "measured counts",
    )
    parser.add_argument(
        "--page",
        metavar="FILE",
        type=Path,
        help="write the page to this file; by default a whole benchmark writes docs/benchmarks.md, "
        "and a part of it prints its page",
    )
    parser.add_argument(
        "--cache",
        metavar="DIR",
        type=Path,
        default=Path(os.environ.get("DSPREP_BENCH_DIR", _ROOT / "build" / "bench")),
        help="where data sets are kept (default: $DSPREP_BENCH_DIR, or build/bench)",
    )
    parser.add_argument(
        "--output-dir", metavar="DIR", type=Path, help="where outputs go (default: the cache)"
    )
    parser.add_argument(
        "--memory-dir",
        metavar="DIR",
        type=Path,
        default=_memory_dir(),
        help="a directory in memory, where the copies are measured once more "
        "(default: /dev/shm, if it has room)",
    )
    parser.add_argument("--disk-only", action="store_true", help="no second measurement in memory")
    return parser.parse_args()


def _memory_dir() -> Path | None:
    shared = Path("/dev/shm")
    roomy = shared.is_dir() and shutil.disk_usage(shared).free >= _LARGEST_OUTPUT
    return shared if roomy else None


if __name__ == "__main__":
    sys.exit(main())
