"""Measure what docs/guides/which-format.md says, and write its tables; needs PyTorch and Ceph.

python -m scripts.which_format [--steps N] photos=FOLDER small=FOLDER

It also needs the loaders of MDS and litdata (`pip install mosaicml-streaming litdata`). With
``--steps``, it prints the tables and writes none: to try it.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dsprep
from dsprep.units import parse_size
from scripts.bench.data import PHOTOS, SMALL, DataSet, ensure, of_images, of_size
from tests.servers.fixtures import ENVIRONMENT
from tests.servers.proxy import Proxy
from tests.servers.start import start_ceph, stop

GUIDE = Path(__file__).parents[1] / "docs" / "guides" / "which-format.md"
SETS = {
    "photos": (PHOTOS, 200_000_000, ("1MB", "10MB", "100MB")),
    "small": (SMALL, 15_000_000, ("200KB", "2MB", "10MB")),
}
FORMATS = ("tfrecord", "recordio", "parquet", "mds")
LITDATA = "litdata"
LATENCY = 0.02
COMMON: dict[str, Any] = {"batch": 4, "steps": 100, "rounds": 3, "workers": (2,)}


def measured(places: Sequence[str], **options: Any) -> dict[str, str]:
    """Return the speed of each data set, with its limit and noise."""
    report = dsprep.bench(places, **{**COMMON, **options})
    cells = {}
    for row in report.rows:
        assert row.figures is not None, row.error
        speed = f"{row.figures.images_per_second:,.0f}"
        cells[row.data] = f"{speed} ± {row.noise / 2:.0%}, {row.limit}"
    return cells


def sample_of(path: str) -> dict[str, Any]:
    """Return a sample as litdata takes it; the class is the name of the directory."""
    from litdata.types import Image

    place = Path(path)
    return {"image": Image(bytes=place.read_bytes(), path=place.name), "class": place.parent.name}


def write_litdata(root: Path, dest: str, size: str) -> None:
    """Write images as litdata does, in chunks of a size."""
    os.environ["LITDATA_DISABLE_VERSION_CHECK"] = "1"  # it asks PyPI
    from litdata import optimize

    files = sorted(str(path) for path in root.rglob("*") if path.is_file())
    how = {"num_workers": 2, "start_method": "fork", "mode": "overwrite"}
    optimize(sample_of, files, dest, chunk_bytes=parse_size(size), **how)


def table(name: str, images: str, cache: Path, proxy: Proxy) -> Iterator[str]:
    """Measure one set of images in all formats; yield the lines of its table."""
    import boto3

    recipe, size, shards = SETS[name]
    data = DataSet(of_size(of_images(recipe, Path(images)), size), cache)
    total = ensure(data)
    places = {"files": str(data.root)}
    for shard in shards:
        places[f"WebDataset, {shard} shards"] = str(cache / f"{name}-{shard}")
        dsprep.pack(
            data.root, cache / f"{name}-{shard}", to="webdataset", target_size=shard, overwrite=True
        )
    for kind in FORMATS:
        places[kind] = str(cache / f"{name}-{kind}")
        dsprep.pack(
            data.root, cache / f"{name}-{kind}", to=kind, target_size=shards[1], overwrite=True
        )
    places[LITDATA] = str(cache / f"{name}-{LITDATA}")
    write_litdata(data.root, places[LITDATA], shards[1])
    local = [*places.values()]
    bytes_only = measured(local, work="bytes", cache="warm")
    trained = measured(local, work="train", cache="warm")
    boto3.client("s3").create_bucket(Bucket=f"bench-{name}")
    remote = {}
    for what, place in places.items():
        if what not in (*FORMATS, LITDATA):
            remote[place] = f"s3://bench-{name}/{Path(place).name}"
            dsprep.sync(place, remote[place])
    proxy.add("wait", method="GET", times=1_000_000_000, seconds=LATENCY)
    os.environ["AWS_ENDPOINT_URL"] = proxy.endpoint
    far = measured([*remote.values()], work="train", access=("boto3",))
    yield f"{data.recipe.files:,} images, {total / 1e6:,.0f} MB:"
    yield ""
    yield "| data | bytes, disk | train, disk | train, S3, 20 ms |"
    yield "|---|---|---|---|"
    for what, place in places.items():
        on_s3 = far.get(remote.get(place, ""), "–")
        yield f"| {what} | {bytes_only[place]} | {trained[place]} | {on_s3} |"


def main() -> None:
    """Measure, and write the tables."""
    words = sys.argv[1:]
    if is_trial := words[:1] == ["--steps"]:
        COMMON.update(steps=int(words[1]), rounds=1)
        words = words[2:]
    given = dict(each.split("=", 1) for each in words)
    with tempfile.TemporaryDirectory() as scratch:
        for name, images in given.items():
            server = Path(scratch, f"ceph-{name}")
            endpoint = start_ceph(server)["http"]
            os.environ.update(ENVIRONMENT, AWS_ENDPOINT_URL=endpoint)
            try:
                with Proxy(endpoint).running() as proxy:
                    lines = "\n".join(table(name, images, Path(scratch), proxy))
            finally:
                stop(server)
            print(lines, flush=True)
            if is_trial:
                continue
            marks = rf"(?<=<!-- {name} -->\n).*?(?=<!-- end -->)"
            text = re.sub(marks, f"{lines}\n", GUIDE.read_text("utf-8"), count=1, flags=re.S)
            GUIDE.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
