"""Who is measured against whom: the commands of dsprep and its peers, as their users type them.

A contest is one piece of work on one data set, and its contenders take turns.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .commands import OUT, dsprep, judge, peer
from .data import DataSet
from .measure import Command
from .packed import Packed

# No further runs, by default: enough for three runs of dsprep, and two of most peers.
SECONDS = 8.0

# Target size of a shard: enough data for several shards.
TARGETS = {"small": 32_000_000, "photos": 200_000_000, "more": 200_000_000}


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
        copies: Whether the work is copying: at least the data set's bytes are written.
        places: Where the output goes: `disk`, or `memory` to see the time without the disk.
        psnr_images: Of how many images the fidelity is measured.
        rounds: How many times as often as others, because it is short.
        seconds: A contender whose timed runs took this long together has no further one.
        sources: What the data set is packed into before.
        on_ray: Whether a Ray cluster has to be there.
        tells: Whether the time that `--dry-run` tells is compared with that of the first contender.
    """

    work: str
    contenders: tuple[Contender, ...]
    data: DataSet | None = None
    copies: bool = False
    places: tuple[str, ...] = ("disk",)
    psnr_images: int = 0
    rounds: int = 1
    seconds: float = SECONDS
    sources: tuple[Packed, ...] = ()
    on_ray: bool = False
    tells: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """What its results are called."""
        return (self.name,)

    @property
    def name(self) -> str:
        """What the command line calls it."""
        return f"{self.work}/{self.data.name}" if self.data else self.work


def contests(data: Mapping[str, DataSet]) -> list[Contest]:
    """All contests, over the data sets of these names."""
    small, photos, more = (data[name] for name in ("small", "photos", "more"))
    resized = [(photos, 200), (data["large"], 50)]
    return [
        *(
            Contest(f"copy-{form}", contenders(d), d, copies=True, places=places, tells=d == photos)
            for form, contenders in _COPIES.items()
            for d in (small, photos)
            # Once is enough to see the time without the disk.
            for places in [_BOTH if (form, d) == ("webdataset", photos) else ("disk",)]
        ),
        Contest("copy-webdataset", _marginal(more), more, copies=True, places=("memory",)),
        *(
            Contest("resize", _resize(d), d, psnr_images=n, seconds=25, tells=True)
            for d, n in resized
        ),
        Contest("ray", _on_ray(photos), photos, seconds=200, on_ray=True),
        Contest("dry-run", (_dry_run(data["listed"]),), data["listed"], seconds=0),
        Contest("plan", (_plan(),), seconds=0),
        Contest("annotations", _annotated(data["boxes"]), data["boxes"], tells=True),
        *(
            Contest(form, _of_rows(packed), small, sources=(packed,), tells=True)
            for form in ("cifar", "csv")
            for packed in [Packed(small, form)]
        ),
        Contest("detect", _detected(data["boxes"]), data["boxes"]),
        *(
            Contest(f"detect-{packed.form}", _detected_in(packed), packed.data, sources=(packed,))
            for packed in (Packed(data["boxes"], "coco"), Packed(small, "webdataset"))
        ),
        Contest("inspect", _inspect(photos), photos, seconds=100),
        Contest("augment", _augmented(data["birds"]), data["birds"], seconds=300),
        Contest("help", _help(), rounds=4),
        Contest("start", _start(data["few"]), data["few"], rounds=4),
    ]


_BOTH = ("disk", "memory")


def _marginal(data: DataSet) -> tuple[Contender, ...]:
    return tuple(each for each in _webdataset(data) if each.name in ("dsprep", "GNU tar"))


def _webdataset(data: DataSet) -> tuple[Contender, ...]:
    target = TARGETS[data.name]
    options = ("--to", "webdataset", "--target-size", str(target))
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
    options = ("--to", "tfrecord", "--target-size", str(target))
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
    options = ("--to", "recordio", "--target-size", str(target))
    prefix = f"{OUT}/train"
    listing = peer("im2rec", "--list", "--recursive", prefix, str(data.root))
    packing = peer("im2rec", "--pass-through", prefix, str(data.root))
    return (
        *_copies(data, prefix, *options),
        Contender("im2rec, 1 thread", (listing, packing)),
        Contender("im2rec, 2 threads", (listing, (*packing, "--num-thread", "2"))),
    )


def _mds(data: DataSet) -> tuple[Contender, ...]:
    target, out = str(TARGETS[data.name]), f"{OUT}/train"
    writer = ("mds_writer", str(data.root), out, target)
    return (
        *_copies(data, out, "--to", "mds", "--target-size", target),
        Contender("MDSWriter", (judge(*writer, "1"),)),
        Contender("MDSWriter, 2 processes", (judge(*writer, "2"),)),
    )


def _copies(data: DataSet, *arguments: str) -> tuple[Contender, ...]:
    command = dsprep("pack", str(data.root), *arguments)
    return (
        Contender("dsprep", (command,)),
        Contender("dsprep --check none", ((*command, "--check", "none"),)),
    )


_COPIES = {"webdataset": _webdataset, "tfrecord": _tfrecord, "recordio": _recordio, "mds": _mds}


def _resize(data: DataSet) -> tuple[Contender, ...]:
    """All begin with the same list, so that nobody's search for files is measured."""
    packing = dsprep("pack", str(data.root), f"{OUT}/train.rec", "--list", str(data.lst))
    packing += ("--to", "recordio", "--resize", "256", "--encode", "jpeg", "--quality", "90")
    im2rec = peer("im2rec", "--resize", "256", "--quality", "90", "--num-thread", "2")
    return (
        Contender("dsprep, 2 workers", ((*packing, "-j", "2"),)),
        Contender("dsprep, bilinear, 2 workers", ((*packing, "--filter", "bilinear", "-j", "2"),)),
        Contender(
            "im2rec, 2 threads",
            (("cp", str(data.lst), f"{OUT}/train.lst"), (*im2rec, f"{OUT}/train", str(data.root))),
        ),
    )


def _on_ray(data: DataSet) -> tuple[Contender, ...]:
    packing = dsprep("pack", str(data.root), f"{OUT}/train", "--to", "webdataset", "-j", "2")
    packing += ("--resize", "512", "--encode", "jpeg", "--shards", "40")
    return (
        Contender("dsprep --engine ray", ((*packing, "--engine", "ray"),)),
        Contender("dsprep", (packing,)),
    )


def _dry_run(data: DataSet) -> Contender:
    """For WebDataset, whose plan is the most work: it must also see that keys do not collide."""
    planning = dsprep("pack", str(data.root), f"{OUT}/train", "--to", "webdataset")
    return Contender("dsprep", ((*planning, "--list", str(data.lst), "--dry-run"),))


def _plan() -> Contender:
    """Plan as many samples as a folder on this disk would take too long to make."""
    simulate = str(Path(__file__).parents[1] / "simulate.py")
    return Contender("dsprep", ((sys.executable, simulate, "10000000", "--one"),))


def _annotated(data: DataSet) -> tuple[Contender, ...]:
    packing = dsprep("pack", str(data.root), f"{OUT}/train", "--to", "webdataset")
    return (
        Contender("dsprep", ((*packing, "--annotations", str(data.annotations)),)),
        Contender("dsprep, without boxes", (packing,)),
    )


_LISTING = (f"{OUT}/all.lst", "--no-shuffle")
_NAMED = "dsprep, which is told what it is"


def _listing(source: Path, *options: str) -> Command:
    return dsprep("lst", "create", str(source), "-o", *_LISTING, *options)


def _detected(data: DataSet) -> tuple[Contender, ...]:
    """What a list of a folder in classes takes, and without looking at what else may be there."""
    named = _listing(data.root, "--from", "images")
    return Contender("dsprep", (_listing(data.root),)), Contender(_NAMED, (named,))


def _detected_in(packed: Packed) -> tuple[Contender, ...]:
    """The same of a whole set of COCO, and of shards."""
    told = ("--from", packed.form)
    if packed.form == "coco":
        told = ("--annotations", str(packed.path / "annotations" / "instances_train.json"))
    named = _listing(packed.path, *told)
    return Contender("dsprep", (_listing(packed.path),)), Contender(_NAMED, (named,))


def _of_rows(packed: Packed) -> tuple[Contender, ...]:
    packing = dsprep("pack", str(packed.path), f"{OUT}/train", "--target-size", "8MB")
    to = "webdataset" if packed.form == "cifar" else "recordio-protobuf"
    return (Contender("dsprep", ((*packing, "--to", to),)),)


def _inspect(data: DataSet) -> tuple[Contender, ...]:
    return (
        Contender("dsprep", (dsprep("inspect", str(data.root)),)),
        Contender("Pillow, decoding alone", (peer("decode_all", str(data.root)),)),
    )


def _augmented(data: DataSet) -> tuple[Contender, ...]:
    """One copy of each image, in the same size; JPEG of quality 90, which Keras cannot say."""
    ops = "rotate=20,shift=0.1,zoom=0.2,hflip,brightness=0.2"
    root, out, edges = str(data.root), f"{OUT}/train", (data.recipe.width, data.recipe.height)
    command = dsprep("augment", root, out, "--to", "folder", "--op", ops, "--per-image", "1")
    return (
        Contender("dsprep, 2 workers", ((*command, "--no-keep-originals", "-j", "2"),)),
        Contender("Pillow, 2 processes", (peer("pillow_augment", root, out),)),
        Contender("Keras", (peer("keras_augment", root, out, *map(str, edges)),)),
    )


def _help() -> tuple[Contender, ...]:
    return (
        Contender("dsprep --help", (dsprep("--help"),)),
        Contender("import click", ((sys.executable, "-c", "import click"),)),
    )


def _start(data: DataSet) -> tuple[Contender, ...]:
    packing = dsprep("pack", str(data.root), f"{OUT}/train", "--to", "webdataset")
    return (
        Contender("dsprep", (packing,)),
        Contender("import polars", ((sys.executable, "-c", "import polars"),)),
    )
