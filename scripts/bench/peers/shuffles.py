"""Shuffle WebDataset shards as a whole, in either of two ways, with two processes.

`spans` reads each sample where it lies, in the order in which it is written. `buckets` reads the
shards from front to back and appends each sample to the bucket that its place in the new order is
in; then each bucket, which fits into memory, is put in order. Both wait for the disk.

Usage: shuffles.py spans|buckets SOURCE OUT TARGET_SIZE
"""

from __future__ import annotations

import os
import random
import sys
from contextlib import ExitStack
from itertools import groupby
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

BLOCK = 512
BUFFER = 1 << 20
END = bytes(2 * BLOCK)


class Span(NamedTuple):
    """Where a sample lies: the position of its file, and bytes in it."""

    file: int
    start: int
    size: int


def spans_of(file: int, path: Path) -> list[Span]:
    """Find the samples of a shard by the headers of its members."""
    starts: list[tuple[bytes, int]] = []
    with path.open("rb") as stream:
        offset = 0
        while (header := os.pread(stream.fileno(), BLOCK, offset))[0]:
            starts.append((header[:100].partition(b".")[0], offset))
            offset += BLOCK + -int(header[124:135], 8) // BLOCK * -BLOCK
    firsts = [next(members)[1] for _, members in groupby(starts, key=lambda start: start[0])]
    ends = [*firsts[1:], offset]
    return [Span(file, start, end - start) for start, end in zip(firsts, ends, strict=True)]


def write(path: str, parts: list[bytes]) -> None:
    """Write a shard, which is on the disk when this returns."""
    with open(path, "wb", buffering=BUFFER) as file:
        file.writelines((*parts, END))
        file.flush()
        os.fsync(file.fileno())


def copy_spans(path: str, files: list[Path], spans: list[Span]) -> None:
    """Write a shard of samples, each read from where it lies."""
    descriptors = [os.open(file, os.O_RDONLY) for file in files]
    ahead = 64
    with open(path, "wb", buffering=BUFFER) as out:
        for number, span in enumerate(spans):
            later = spans[number + ahead] if number + ahead < len(spans) else span
            os.posix_fadvise(
                descriptors[later.file], later.start, later.size, os.POSIX_FADV_WILLNEED
            )
            out.write(os.pread(descriptors[span.file], span.size, span.start))
        out.write(END)
        out.flush()
        os.fsync(out.fileno())
    for descriptor in descriptors:
        os.close(descriptor)


def distribute(path: Path, prefix: str, placed: list[tuple[int, Span]]) -> None:
    """Read a shard from front to back, and append each sample to the bucket that is its."""
    with ExitStack() as stack:
        buckets = [
            stack.enter_context(open(f"{prefix}.{bucket}", "wb", BUFFER))
            for bucket in range(shards)
        ]
        file = stack.enter_context(path.open("rb", buffering=BUFFER))
        for bucket, span in placed:
            buckets[bucket].write(file.read(span.size))


def put_in_order(path: str, parts: list[str], sizes: list[int], places: list[int]) -> None:
    """Read a bucket whole, and write its samples in order."""
    data = b"".join(Path(part).read_bytes() for part in parts)
    samples, start = [], 0
    for size in sizes:
        samples.append(data[start : start + size])
        start += size
    write(path, [samples[place] for place in places])
    for part in parts:
        os.unlink(part)


way, source, out, target = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
files = sorted(source.glob("*.tar"))
with Pool(2) as pool:
    found = pool.starmap(spans_of, enumerate(files))
    order = [span for each in found for span in each]
    random.seed(0)
    random.shuffle(order)
    shards = -sum(span.size for span in order) // target * -1
    cuts = [len(order) * shard // shards for shard in range(shards + 1)]
    runs = [order[low:high] for low, high in zip(cuts, cuts[1:], strict=False)]
    names = [f"{out}/train-{shard:06d}.tar" for shard in range(shards)]
    if way == "spans":
        pool.starmap(
            copy_spans, [(name, files, run) for name, run in zip(names, runs, strict=True)], 1
        )

if way == "buckets":
    bucket_of = {span: bucket for bucket, run in enumerate(runs) for span in run}
    with Pool(2) as pool:
        pool.starmap(
            distribute,
            [
                (path, f"{out}/part-{file}", [(bucket_of[span], span) for span in found[file]])
                for file, path in enumerate(files)
            ],
            1,
        )
        tasks = []
        for bucket, run in enumerate(runs):
            stored = {span: at for at, span in enumerate(sorted(run))}
            parts = [f"{out}/part-{file}.{bucket}" for file in range(len(files))]
            tasks.append(
                (names[bucket], parts, [s.size for s in stored], [stored[span] for span in run])
            )
        pool.starmap(put_in_order, tasks, 1)
