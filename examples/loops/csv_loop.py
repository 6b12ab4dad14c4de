"""Feed a training loop from CSV files, the label first: python csv_loop.py shards/*.csv."""

import json
import multiprocessing
import os
import random
import sys
import time
from functools import partial
from itertools import chain, islice, repeat

import numpy as np


def read_lines(files, header):
    """Yield the lines of each file, but not the names of columns."""
    for path in files:
        with open(path, "rb") as file:
            yield from islice(file, int(header), None)


def epochs(read, again):
    """Yield what an epoch reads, again and again if asked; an empty one would never end."""
    yield from chain([next(rows := read(), None) or sys.exit("no rows")], rows)
    yield from chain.from_iterable(read() for _ in (repeat(0) if again else ()))


def to_batch(lines, work):
    """Make a batch of lines: labels and features; and count the bytes of the lines."""
    batch, size = lines, sum(map(len, lines))
    if work != "bytes":
        cells = [[cell or b"nan" for cell in line.rstrip().split(b",")] for line in lines]
        batch = np.array(cells).astype(np.float32)
    if work == "train":
        batch = batch[:, 0], batch[:, 1:]
    return batch, len(lines), size


def main(
    data, work="train", batch=32, workers=2, shuffle=0, steps=0, compute=0.0, cached=False, header=0
):
    """Read, parse, batch, and print the time of each step."""
    print(json.dumps({"reader": "csv"}), flush=True)
    began = time.perf_counter()
    lines = source = epochs(partial(read_lines, data, header), steps > 0)
    if shuffle:  # a buffer at a time
        buffers = iter(lambda: list(islice(source, shuffle)), [])
        lines = chain.from_iterable(random.sample(each, len(each)) for each in buffers)
    todo = islice(iter(lambda: list(islice(lines, batch)), []), steps or None)
    make = partial(to_batch, work=work)
    loader = (multiprocessing.Pool(workers).imap if workers else map)(make, todo)
    loader = repeat(next(iter(loader))) if cached else loader  # the same batch again and again
    for _, rows, size in islice(loader, steps or None):
        if compute:  # milliseconds; here the model would learn
            time.sleep(compute / 1000)
        seconds = time.perf_counter() - began
        print(json.dumps({"seconds": seconds, "images": rows, "bytes": size}))
        began = time.perf_counter()


if __name__ == "__main__":
    main(sys.argv[1:], **json.loads(os.environ.get("LOOP_OPTIONS", "{}")))
