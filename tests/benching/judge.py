"""Compare `dsprep bench` with loops written by hand, in alternating pairs; needs PyTorch.

python -m tests.benching.judge FOLDER [PAIRS [STEPS]]

FOLDER has JPEG images. It says how long a step takes by `dsprep bench`, as a share of the time that
the loop by hand tells: of all pairs, their median, and that of the best of each.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import dsprep

HERE = Path(__file__).parent / "by_hand"


def by_hand(script: str, *args: object) -> float:
    """The mean time of a step, as a loop of its own measures it."""
    command = [sys.executable, HERE / script, *map(str, args)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return float(done.stdout.split()[-1])


def by_bench(place: str, reader: str, workers: int, steps: int) -> float:
    """The same, as `dsprep bench` measures it."""
    report = dsprep.bench(
        place, readers=reader, work="bytes", workers=workers, steps=steps, warmup=99, rounds=1
    )
    (row,) = report.rows
    assert row.figures is not None, row.error
    return row.figures.step_mean


def main() -> None:
    folder = sys.argv[1]
    pairs, steps = (*map(int, sys.argv[2:]), *(5, 2000)[len(sys.argv) - 2 :])
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("tfrecord", "webdataset"):
            dsprep.pack(folder, Path(scratch, name), to=name, shards=8)
        judge(folder, Path(scratch, "tfrecord"), Path(scratch, "webdataset"), pairs, steps)


def judge(folder: str, tfrecords: Path, shards: Path, pairs: int, steps: int) -> None:
    records = sorted(map(str, tfrecords.glob("*.tfrecord")))
    tars = sorted(map(str, shards.glob("*.tar")))
    for workers in (0, 2):
        for place, reader, command in (
            (folder, "torch", ("files.py", folder, workers, steps)),
            (str(tfrecords), "tf", ("tfrecord.py", workers, steps, *records)),
            (str(shards), "webdataset", ("webdataset_shards.py", workers, steps, *tars)),
        ):
            ratios, best = [], [float("inf"), float("inf")]
            for number in range(pairs):
                if number % 2:  # neither is always the first
                    ours = by_bench(place, reader, workers, steps)
                    theirs = by_hand(*command)
                else:
                    theirs = by_hand(*command)
                    ours = by_bench(place, reader, workers, steps)
                ratios.append(ours / theirs)
                best = [min(pair) for pair in zip(best, (ours, theirs), strict=True)]
            each = " ".join(f"{ratio:.2f}" for ratio in ratios)
            said = f"{median(ratios):.3f} of by hand ({each}); best {best[0] / best[1]:.3f}"
            print(f"{reader}, {workers} workers: {said}", flush=True)


if __name__ == "__main__":
    main()
