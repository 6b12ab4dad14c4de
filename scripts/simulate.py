"""Plan synthetic samples, and print the time and the memory of the process that plans.

python -m scripts.simulate 1e6 1e7                     a folder like ImageNet's, shuffled
python -m scripts.simulate 1e7 --source shards         WebDataset shards that are cut again

Nothing is read or written: the catalog is made up, and planned by the code of every run.
Each number of samples has a process of its own. `B/sample` is how much more memory it takes at its
peak than one with 100,000 samples, for each further sample.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from dsprep.cli.main import ALLOCATOR
from dsprep.places.scan import RunAll

_FEW = 100_000  # samples whose peak is that of the program itself
_CHUNK = 1 << 18
_PER_CLASS, _CLASSES, _PER_SHARD = 1_300, 1_000, 10_000
_MEAN = 110_000  # bytes of an image
_TASKS = 20  # shards whose tasks are measured
_HEAD = "samples", "shards", "seconds", "CPU s", "peak MB", "B/sample", "plan MB", "task B/sample"


def main() -> int:
    """Run the simulation; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m scripts.simulate", description=__doc__)
    parser.add_argument("samples", type=float, nargs="+")
    parser.add_argument("--source", choices=("folder", "shards"), default="folder")
    parser.add_argument("--to", default="webdataset")
    parser.add_argument("--in-order", action="store_true", help="do not shuffle")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        os.environ.setdefault(*ALLOCATOR)
        print(json.dumps(_simulate(int(args.samples[0]), args.source, args.to, args.in_order)))
        return 0
    given = ["--source", args.source, "--to", args.to, *(["--in-order"] if args.in_order else [])]
    few = _one(_FEW, given)
    print(f"{' '.join(given)}\n| {' | '.join(_HEAD)} |\n|{' --: |' * len(_HEAD)}", flush=True)
    for count in map(int, args.samples):
        found = _one(count, given)
        each = (found["peak"] - few["peak"]) / max(1, count - _FEW)
        cells = (
            *(f"{count:,}", f"{found['shards']:,}", f"{found['seconds']:.1f}"),
            *(f"{found['cpu']:.1f}", f"{found['peak'] / 1e6:,.0f}", f"{each:.0f}"),
            *(f"{found['plan'] / 1e6:,.0f}", f"{found['task']:.0f}"),
        )
        print(f"| {' | '.join(cells)} |", flush=True)
    return 0


def _one(count: int, given: list[str]) -> dict[str, float]:
    words = [sys.executable, "-m", "scripts.simulate", str(count), "--one", *given]
    found: dict[str, float] = json.loads(subprocess.run(words, stdout=-1, check=True).stdout)
    return found


def _simulate(count: int, source: str, layout: str, in_order: bool) -> dict[str, float]:
    """Plan samples in this process."""
    from dsprep.plan import plan as planning
    from dsprep.plan.options import PackOptions
    from dsprep.plan.saved import save_plan
    from dsprep.progress import Progress
    from dsprep.run.identity import identity_of
    from dsprep.run.write import new_job
    from dsprep.workers.engine import open_executor

    options = PackOptions(sources="/data/train", dest="/data/shards", to=layout)
    job = replace(new_job("pack", options), seed=None if in_order else 0, copies=source == "shards")
    read = _folder(count) if source == "folder" else _shards(count, layout)
    setattr(planning, "read_source", read)  # noqa: B010 (mypy knows it as a function of its own)
    before, began = time.process_time(), time.perf_counter()
    with open_executor(1) as pool:
        plan = planning.make_plan(job, pool, Progress())
    identity_of(plan)
    took = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - before}
    tasks = [plan.rows(each.start, each.stop) for each in plan.shards[:_TASKS]]
    rows = sum(each.stop - each.start for each in plan.shards[:_TASKS])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return took | {
        "shards": len(plan.shards),
        "peak": peak,
        "task": len(pickle.dumps(tasks)) / rows,
        "plan": len(save_plan(plan, 2)) if source == "folder" else 0,
    }


def _folder(count: int) -> Callable[..., object]:
    """Return what reads a folder of images with names like ImageNet's."""
    import polars as pl

    from dsprep.catalog import Catalog, compact
    from dsprep.schema import Choice
    from dsprep.sources.infer import with_schema
    from dsprep.sources.readers import FileReader

    def rows(start: int) -> pl.DataFrame:
        number = pl.int_range(start, min(start + _CHUNK, count), eager=True)
        folder = "n" + (number // _PER_CLASS).cast(pl.String).str.zfill(8)
        name = (number % _PER_CLASS).cast(pl.String).str.zfill(5)
        path = (folder + "/" + folder + "_" + name + ".JPEG").alias("path")
        size = (number.hash(1) % (2 * _MEAN)).cast(pl.Int64).alias("size")
        mtime = (number.hash(2) % 10**15 + 17 * 10**17).cast(pl.Int64).alias("mtime")
        cls = (number // _PER_CLASS % _CLASSES).alias("cls")
        return compact([number.alias("index"), path, size, mtime, cls])

    def read(source: object, run_all: RunAll, compact: bool, tells_kind: bool) -> object:
        table = pl.concat(map(rows, range(0, count, _CHUNK)), how="vertical_relaxed")
        classes = tuple(f"n{number:08d}" for number in range(_CLASSES))
        catalog = Catalog(table, "/data/train", classes, FileReader("/data/train"))
        return with_schema(catalog, Choice(), False, run_all)

    return read


def _shards(count: int, layout: str) -> Callable[..., object]:
    """Return what reads shards of numbered samples, after their headers were indexed."""
    import polars as pl

    from dsprep.catalog import Catalog, compact
    from dsprep.formats import FORMATS
    from dsprep.schema import Field, Schema, SettledSchema
    from dsprep.sources.shards.shards import ShardReader

    def rows(start: int) -> pl.DataFrame:
        number = pl.int_range(start, min(start + _CHUNK, count), eager=True)
        size = (number.hash(1) % (2 * _MEAN)).cast(pl.Int64).alias("size")
        mtime = pl.Series("mtime", [17 * 10**17], pl.Int64).new_from_index(0, len(number))
        columns = [
            *(number.alias("index"), number.cast(pl.String).str.zfill(9).alias("path")),
            *(size, mtime, (number // _PER_SHARD).alias("file")),
            (number % _PER_SHARD * 2 * _MEAN).alias("offset"),
        ]
        return compact(columns)

    def read(source: object, run_all: RunAll, compact: bool, tells_kind: bool) -> object:
        table = pl.concat(map(rows, range(0, count, _CHUNK)), how="vertical_relaxed")
        files = tuple(f"/data/train/{number:06d}" for number in range(-(-count // _PER_SHARD)))
        reader = ShardReader(files, FORMATS[layout]())
        schema = Schema((Field("image", "image", places=(("jpg",),)),), "image")
        catalog = Catalog(table, "/data/train", None, reader)
        return catalog.with_settled(SettledSchema(schema)), []

    return read


if __name__ == "__main__":
    sys.exit(main())
