"""Contests whose work begins with shards or an archive: convert, shard, verify, pack a zip."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable

from .commands import OUT, dsprep, judge, peer
from .contests import SECONDS, Contender, Contest
from .data import DataSet
from .measure import Command
from .packed import Packed

# Target size of a new shard: other cuts than those of the eight shards that are read.
TARGETS = {"small": 30_000_000, "photos": 100_000_000}

_TRAIN = f"{OUT}/train"


def shard_contests(small: DataSet, photos: DataSet) -> list[Contest]:
    """Contests over these data sets, packed."""
    both = (small, photos)
    return [
        *(_convert("convert-wds-tfrecord", "webdataset", "tfrecord", d) for d in both),
        _convert("convert-tfrecord-wds", "tfrecord", "webdataset", photos),
        *(_convert("convert-recordio-wds", "recordio", "webdataset", d) for d in both),
        *(_convert("convert-mds-wds", "mds", "webdataset", d) for d in both),
        *(_of(d, "webdataset", "shard-resize", _resize, copies=True) for d in both),
        *(_of(d, "webdataset", "verify", _verify) for d in both),
        _of(small, "zip", "zip-pack", _zip),
        # One run each, as only their memory is judged.
        _of(photos, "twice", "convert-one-shard", _convert_one, copies=True, seconds=0),
        _of(photos, "twice", "stream-convert", _stream, seconds=0),
    ]


def _of(
    data: DataSet,
    form: str,
    work: str,
    contenders: Callable[[Packed], tuple[Contender, ...]],
    copies: bool = False,
    seconds: float = SECONDS,
) -> Contest:
    packed = Packed(data, form)
    return Contest(
        work, contenders(packed), data, copies=copies, seconds=seconds, sources=(packed,)
    )


def _convert(work: str, source: str, target: str, data: DataSet) -> Contest:
    def contenders(packed: Packed) -> tuple[Contender, ...]:
        path = str(packed.path)
        run = judge if source == "mds" else peer
        script = run(f"{source}_to_{target}", path, _TRAIN)
        return (
            Contender("dsprep", (dsprep("convert", path, _TRAIN, "--to", target),)),
            Contender("script", (script,)),
        )

    return _of(data, source, work, contenders, copies=True)


def _resize(packed: Packed) -> tuple[Contender, ...]:
    path, target = str(packed.path), str(TARGETS[packed.data.name])
    tar = f"{OUT}/train.tar"
    return (
        Contender("dsprep", (dsprep("shard", path, _TRAIN, "--target-size", target),)),
        Contender("GNU tar, sync", (("tar", "-cf", tar, "-C", path, "."), ("sync", tar))),
        Contender(
            "webdataset", (peer("webdataset_reshard", path, f"{OUT}/train-%06d.tar", target),)
        ),
    )


def _verify(packed: Packed) -> tuple[Contender, ...]:
    """Reading all bytes for a checksum, and all headers for a list of the members."""
    path = str(packed.path)
    each = 'for shard in "$0"/*.tar; do tar tf "$shard"; done'
    return (
        Contender("dsprep", (dsprep("verify", path),)),
        Contender("dsprep, 1 worker", (dsprep("verify", path, "-j", "1"),)),
        Contender("sha256sum", (("sh", "-c", 'sha256sum "$0"/*.tar', path),)),
        Contender("tar tf", (("sh", "-ec", each, path),)),
    )


def _zip(packed: Packed) -> tuple[Contender, ...]:
    path, files = str(packed.path), f"{OUT}/files"
    return (
        Contender("dsprep", (_pack(path),)),
        Contender("unzip, pack", (_unzip(path, files), _pack(files))),
    )


def _pack(source: str, *options: str) -> Command:
    return dsprep("pack", source, _TRAIN, "--to", "webdataset", *options)


def _unzip(path: str, files: str) -> Command:
    if shutil.which("unzip"):
        return ("unzip", "-q", path, "-d", files)
    return (sys.executable, "-m", "zipfile", "-e", path, files)


def _convert_one(packed: Packed) -> tuple[Contender, ...]:
    """Not through a pipe: with a catalog, a plan, and workers that share the shard."""
    path = str(packed.path)
    return (Contender("dsprep", (dsprep("convert", path, f"{OUT}/train.tfrecord"),)),)


def _stream(packed: Packed) -> tuple[Contender, ...]:
    """Through pipes on both sides, as beside `aws s3 cp`."""
    converting = dsprep("convert", "--from", "webdataset", "--to", "tfrecord", "-", "-")
    line = f"cat {shlex.quote(str(packed.path))} | {shlex.join(converting)} | cat > {OUT}/train"
    return (Contender("dsprep", (("bash", "-c", f"set -o pipefail; {line}"),)),)
