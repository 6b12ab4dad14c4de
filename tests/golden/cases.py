"""The data sets and the interrupted runs that lie in `data`, and the sources that they are made of.

`make.py` has made `data`, the tests read it.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
DATA = HERE / "data"
FOREIGN = HERE.parent / "foreign" / "data"
TIME = 1_700_000_000  # when all sources were changed, as `run.json` and `plan.zip` record it

# The data sets of `data/sets`, by name. OUT is the place of the data set.
SETS = {
    "webdataset": "pack photos OUT --to webdataset --shards 2",
    "tfrecord": "pack photos OUT --to tfrecord --shards 2",
    "recordio": "pack photos OUT --to recordio --shards 2",
    "recordio-protobuf": "pack table.csv OUT --to recordio-protobuf --label-field label",
    "parquet": "pack photos OUT --to parquet --shards 2",
    "folder": "convert photos OUT --to folder",
    "mds": "pack photos OUT --to mds --samples-per-shard 4 --split train=0.75,val=0.25",
    "csv": "pack table.csv OUT --to csv --label-field label",
    "apart": "pack photos OUT --to recordio --shards 2 --apart",
    "one-file": "pack photos OUT/train.rec",
    "sides": "pack photos OUT --to tfrecord --shards 2 --split train=0.75,val=0.25",
    "resized": "pack photos OUT --to tfrecord --resize 16 --encode png",
    "augmented": "augment photos OUT --to recordio --op hflip --per-image 1 --resize 16",
    "boxes": "convert detection OUT --to tfrecord",
    "more": "pack more OUT --to tfrecord --name day",
    "appended": "pack photos OUT --to tfrecord --shards 1; shard append more OUT",
    "joined": "join sets/tfrecord sets/more OUT",
}


@dataclass(frozen=True)
class Run:
    """A run that was killed.

    Attributes:
        command: The command; OUT is the place of the data set.
        kill: The call of the system before which all of its processes were killed, as
            `tests/kills.py` takes it.
        there: What was complete, as the next run says.
        before: What wrote to OUT before.
    """

    command: str
    kill: str
    there: str
    before: str = ""


_PARTS = "pack photos OUT --to recordio --samples-per-shard 2 -j 1 --part"

# The runs of `data/runs`, which wrote to a disk.
LOCAL = {
    "recordio": Run(
        "pack photos OUT --to recordio --samples-per-shard 2 -j 1",
        "name train-00002.rec",
        "2 of 5 shards complete, 5 samples left to write",
    ),
    "mds": Run(
        "pack photos OUT --to mds --samples-per-shard 2 -j 1",
        "name train-00002.mds",
        "2 of 5 shards complete, 5 samples left to write",
    ),
    "manifest": Run(
        "pack photos OUT --to tfrecord --samples-per-shard 4 -j 1",
        "name manifest.json",
        "3 of 3 shards complete, 0 samples left to write",
    ),
    "one-file": Run(
        "pack photos OUT/train.tfrecord -j 1",
        "name train.tfrecord.rejects.jsonl",
        "1 of 1 shard complete, 0 samples left to write",
    ),
    "apart": Run(
        "pack photos OUT --to tfrecord --shards 3 -j 1 --apart",
        "name train-00001-of-00003.tfrecord",
        "1 of 3 shards complete, 6 samples left to write",
    ),
    "folder": Run("convert sets/webdataset OUT --to folder -j 1", "name OUT", "(other units)"),
    "pieces": Run(
        "convert sets/tfrecord OUT --to recordio --shards 1 -j 2",
        "name train-00000.rec-4-6",
        "0 of 1 shard complete, 6 samples left to write",
    ),
    "append": Run(
        "shard append more OUT -j 1",
        "name manifest.json",
        "1 of 1 shard complete, 0 samples left to write",
        before="pack photos OUT --to tfrecord --shards 1",
    ),
    "join": Run(
        "join sets/tfrecord sets/more OUT",
        "name train-00001-of-00002.tfrecord",
        ": continued as tfrecord",
    ),
    "overwrite": Run(
        "pack photos OUT --to tfrecord --shards 3 --overwrite -j 1",
        "name train-00001-of-00003.tfrecord",
        "1 of 3 shards complete, 6 samples left to write",
        before="pack photos OUT --to recordio --shards 2",
    ),
    "published": Run(
        "pack photos OUT --to tfrecord --shards 3 -j 1", "remove run.json", "already packed"
    ),
    "part": Run(f"{_PARTS} 1/2", "name train-00003.rec", "", before=f"{_PARTS} 0/2"),
}

# The runs of `data/objects`, which wrote to S3.
REMOTE = {
    "recordio": Run(
        "pack photos OUT --to recordio --samples-per-shard 2 -j 1",
        "send train-00002.rec",
        "2 of 5 shards complete, 5 samples left to write",
    ),
    "overwrite": Run(
        "pack photos OUT --to tfrecord --shards 3 --overwrite -j 1",
        "send train-00002-of-00003.tfrecord",
        "2 of 3 shards complete, 3 samples left to write",
        before="pack photos OUT --to recordio --shards 2",
    ),
    "part": Run(f"{_PARTS} 1/2", "send train-00003.rec", "", before=f"{_PARTS} 0/2"),
}


def write_sources(root: Path) -> None:
    """Write the sources of all data sets to a directory, with the times that they had."""
    shutil.copytree(FOREIGN / "class-folder", root / "photos")
    (root / "photos" / "bee" / "damaged.jpg").write_bytes(b"\xff\xd8\xff no image")
    is_table = shutil.ignore_patterns("*.jsonl")
    shutil.copytree(FOREIGN / "hf-imagefolder-classes", root / "more", ignore=is_table)
    shutil.copytree(FOREIGN / "detection", root / "detection")
    rows = "".join(f"{n % 2},{n},{n * n / 4}\n" for n in range(6))
    (root / "table.csv").write_text(f"label,width,area\n{rows}", "utf-8")
    set_times(root)


def copy_sets(root: Path) -> None:
    """Copy the finished data sets, which are sources of some runs, with the times they had."""
    shutil.copytree(DATA / "sets", root / "sets")
    set_times(root / "sets")


def set_times(root: Path) -> None:
    for path in root.rglob("*"):
        os.utime(path, (TIME, TIME))
