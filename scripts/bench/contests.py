"""Who is measured against whom: the commands of dsprep and its peers, as their users type them.

A contest is one piece of work on one data set, and its contenders take turns.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from .commands import OUT, dsprep, peer
from .data import DataSet
from .measure import Command
from .packed import Packed

# Target size of a shard: enough data for several shards.
TARGETS = {"small": 32_000_000, "photos": 200_000_000}


@dataclass(frozen=True)
class Contender:
    """One way to do the work: commands that run one after the other."""

    name: str
    commands: tuple[Command, ...]


@dataclass(frozen=True)
class Contest:
    """One piece of work.

    Attributes:
        work: What is done.
        contenders: Who does it; the first is dsprep.
        data: On what data set.
        copies: Whether the work is copying: at least the data set's bytes are written, and what
            the disk does to the time is worth knowing.
        psnr_images: Of how many images the fidelity is measured.
        rounds: How many times as often as others, because it is short.
        sources: What the data set is packed into before.
        cold: Whether these are read from the disk, and not from the page cache.
    """

    work: str
    contenders: tuple[Contender, ...]
    data: DataSet | None = None
    copies: bool = False
    psnr_images: int = 0
    rounds: int = 1
    sources: tuple[Packed, ...] = ()
    cold: bool = False

    @property
    def name(self) -> str:
        """What the command line calls it."""
        return f"{self.work}/{self.data.name}" if self.data else self.work


def contests(data: Mapping[str, DataSet]) -> list[Contest]:
    """All contests, over the data sets of these names."""
    copied = [data["small"], data["photos"]]
    resized = [(data["photos"], 200), (data["large"], 50)]
    return [
        *(Contest("webdataset", _webdataset(d), d, copies=True) for d in copied),
        *(Contest("tfrecord", _tfrecord(d), d, copies=True) for d in copied),
        *(Contest("recordio", _recordio(d), d, copies=True) for d in copied),
        *(Contest("resize", _resize(d), d, psnr_images=images) for d, images in resized),
        Contest("dry-run", (_dry_run(data["listed"]),), data["listed"]),
        Contest("help", _help(), rounds=4),
    ]


def _webdataset(data: DataSet) -> tuple[Contender, ...]:
    target = TARGETS[data.name]
    options = ("--format", "webdataset", "--target-size", str(target))
    pattern = f"{OUT}/train-%06d.tar"
    tar = ("tar", "--hard-dereference", "-cf", f"{OUT}/train.tar", "-C", str(data.root), ".")
    return (
        *_copies(data, f"{OUT}/train", *options),
        Contender(
            "ShardWriter", (peer("webdataset_writer", str(data.root), pattern, str(target)),)
        ),
        Contender("GNU tar", (tar,)),
    )


def _tfrecord(data: DataSet) -> tuple[Contender, ...]:
    target = TARGETS[data.name]
    shards = math.ceil(data.recipe.files * data.recipe.size / target)
    options = ("--format", "tfrecord", "--target-size", str(target))
    return (
        *_copies(data, f"{OUT}/train", *options),
        Contender(
            "TFRecordWriter",
            (peer("tfrecord_writer", str(data.root), f"{OUT}/train", str(shards)),),
        ),
    )


def _recordio(data: DataSet) -> tuple[Contender, ...]:
    """Shards for dsprep, as in the other formats; im2rec writes one file."""
    target = TARGETS[data.name]
    options = ("--format", "recordio", "--target-size", str(target))
    prefix = f"{OUT}/train"
    listing = peer("im2rec", "--list", "--recursive", prefix, str(data.root))
    packing = peer("im2rec", "--pass-through", prefix, str(data.root))
    return (
        *_copies(data, prefix, *options),
        Contender("im2rec, 1 thread", (listing, packing)),
        Contender("im2rec, 2 threads", (listing, (*packing, "--num-thread", "2"))),
    )


def _copies(data: DataSet, *arguments: str) -> tuple[Contender, ...]:
    command = dsprep("pack", str(data.root), *arguments)
    return (
        Contender("dsprep --check none", ((*command, "--check", "none"),)),
        Contender("dsprep", (command,)),
    )


def _resize(data: DataSet) -> tuple[Contender, ...]:
    """Both begin with the same list, so that nobody's search for files is measured."""
    packing = dsprep("pack", str(data.root), f"{OUT}/train.rec", "--list", str(data.lst))
    packing += ("--format", "recordio", "--resize", "256", "--encode", "jpeg", "--quality", "90")
    im2rec = peer("im2rec", "--resize", "256", "--quality", "90", "--num-thread", "2")
    return (
        Contender("dsprep, 2 workers", ((*packing, "-j", "2"),)),
        Contender("dsprep, 1 worker", ((*packing, "-j", "1"),)),
        Contender(
            "im2rec, 2 threads",
            (("cp", str(data.lst), f"{OUT}/train.lst"), (*im2rec, f"{OUT}/train", str(data.root))),
        ),
    )


def _dry_run(data: DataSet) -> Contender:
    """For WebDataset, whose plan is the most work: it must also see that keys do not collide."""
    planning = dsprep("pack", str(data.root), f"{OUT}/train", "--format", "webdataset")
    return Contender("dsprep", ((*planning, "--list", str(data.lst), "--dry-run"),))


def _help() -> tuple[Contender, ...]:
    return (
        Contender("dsprep --help", (dsprep("--help"),)),
        Contender("import click", ((sys.executable, "-c", "import click"),)),
    )
