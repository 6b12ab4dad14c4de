"""Measure how well, and how fast, images that look alike are found.

python -m scripts.copies photos/                 recall and false pairs, by distance
python -m scripts.copies --hashes 1e6            the time and the memory that comparing hashes takes

Of each image in a directory, and of each of its parts in a grid, two copies are made: a JPEG of
quality 50, and one of half the size. Parts of one image are other images: they do not overlap.
Random hashes have no copies. In `near`, four at a time are alike; in `video`, each of a thousand is
like the one before; in `blob`, a fiftieth of all is like one.
"""

from __future__ import annotations

import argparse
import io
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from PIL import Image

from dsprep.images.phash import perceptual_hash
from dsprep.inspecting.copies import find_copies, order_to_keep
from dsprep.splits.leaks import close_pairs

_DISTANCES = range(0, 13, 2)  # half of the bits of a hash are set, so that all distances are even
_KINDS = ("random", "near", "video", "blob")


def main() -> int:
    """Run the measurement; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m scripts.copies", description=__doc__)
    parser.add_argument("images", nargs="*", help="directories of images")
    parser.add_argument("--grid", type=int, default=4, help="parts along each edge; 1 for none")
    parser.add_argument("--hashes", type=float, help="compare that many hashes instead")
    parser.add_argument("--distance", type=int, default=4)
    parser.add_argument("--kind", choices=_KINDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.kind:
        print(_compare(int(args.hashes), args.kind, args.distance))
    elif args.hashes:
        print(
            "| hashes | kind | distance | copies | seconds | peak MB |\n|--:|:--|--:|--:|--:|--:|"
        )
        for kind in _KINDS:
            own = ("--hashes", str(args.hashes), "--distance", str(args.distance), "--kind", kind)
            subprocess.run([sys.executable, "-m", "scripts.copies", *own], check=True)
    else:
        for line in _find([*map(Path, args.images)], args.grid):
            print(line)
    return 0


def _find(roots: list[Path], grid: int) -> Iterator[str]:
    hashes: list[list[int | None]] = []
    for root in roots:
        for path in sorted(root.rglob("*.*")):
            with Image.open(path) as image:
                pictures = _parts(image.convert("RGB"), grid)
                hashes.extend([*map(_hash, _copies(each))] for each in pictures)
    flat = sum(each[0] is None for each in hashes)
    yield f"{len(hashes):,} images, {flat:,} of them flat, and two copies of each\n"
    yield "| distance | quality 50 | half the size | false pairs | for 1,000 images |"
    yield "| --: | --: | --: | --: | --: |"
    for distance in _DISTANCES:
        found = [sum(_alike(own[0], own[n], distance) for own in hashes) for n in (1, 2)]
        shares = " | ".join(f"{each / len(hashes):.2%}" for each in found)
        false = _false_pairs(hashes, distance)
        yield f"| {distance} | {shares} | {false:,} | {1000 * false / len(hashes):.2f} |"


def _parts(image: Image.Image, grid: int) -> Iterator[Image.Image]:
    """Yield an image, and its parts."""
    yield image
    width, height = image.size
    if grid > 1:
        across = [width * at // grid for at in range(grid + 1)]
        down = [height * at // grid for at in range(grid + 1)]
        for left, right in zip(across, across[1:], strict=False):
            for top, bottom in zip(down, down[1:], strict=False):
                yield image.crop((left, top, right, bottom))


def _copies(image: Image.Image) -> Iterator[Image.Image]:
    yield image
    half = image.resize(
        (max(1, image.width // 2), max(1, image.height // 2)), Image.Resampling.LANCZOS
    )
    for copy, quality in ((image, 50), (half, 90)):
        data = io.BytesIO()
        copy.save(data, "JPEG", quality=quality)
        yield Image.open(data)


def _hash(image: Image.Image) -> int | None:
    return perceptual_hash(image.convert("L"), 1)


def _alike(one: int | None, other: int | None, distance: int) -> bool:
    return one is not None and other is not None and (one ^ other).bit_count() <= distance


def _false_pairs(hashes: list[list[int | None]], distance: int) -> int:
    """Count pairs of different images if a copy of one is alike to a copy of the other."""
    known = [(each, at) for at, own in enumerate(hashes) for each in own if each is not None]
    images = pl.Series([at for _, at in known])
    found = set()
    for pairs in close_pairs(pl.Series([each for each, _ in known], dtype=pl.UInt64), distance):
        ends = (images.gather(pairs[name]).to_list() for name in ("left", "right"))
        found |= {(min(pair), max(pair)) for pair in zip(*ends, strict=True)}
    return sum(left != right for left, right in found)


def _compare(count: int, kind: str, distance: int) -> str:
    random = np.random.default_rng(0)

    def flips(size: int) -> Any:
        return np.uint64(1) << random.integers(0, 64, size, dtype=np.uint64)

    hashes = random.integers(0, 2**64, count, dtype=np.uint64)
    if kind == "near":
        hashes = np.repeat(hashes[: -(-count // 4)], 4)[:count] ^ flips(count) ^ flips(count)
    elif kind == "video":
        for start in range(0, count, 1000):
            shot = slice(start + 1, start + 1000)
            walk = np.bitwise_xor.accumulate(flips(len(hashes[shot])))
            hashes[shot] = hashes[start] ^ walk
    elif kind == "blob":
        some = count // 50
        hashes[:some] = hashes[0] ^ flips(some) ^ flips(some) ^ flips(some)
    rows = pl.int_range(count, eager=True)
    names = pl.select(pl.format("train/{}.jpg", rows)).to_series()
    table = pl.DataFrame({"path": names, "hash": hashes, "digest": names.cast(pl.Binary)})
    table = table.with_columns(
        *(pl.lit(1).alias(name) for name in ("width", "height", "bytes")),
        side=pl.lit(""),
        labels=pl.lit(["cat"]),
        objects=pl.lit(None, pl.List(pl.String)),
    )
    began = time.perf_counter()
    found = find_copies(table, order_to_keep(table, True), distance)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    copies = int((~found["keep"]).sum())
    return f"| {count:,} | {kind} | {distance} | {copies:,} | {seconds:.1f} | {peak:,.0f} |"


if __name__ == "__main__":
    sys.exit(main())
