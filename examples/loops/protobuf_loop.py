"""Feed a loop from RecordIO-protobuf with Python alone: python protobuf_loop.py shards/*.pb."""

import json
import os
import random
import sys
import time
from functools import partial
from itertools import chain, islice, repeat
from multiprocessing import Pool

import numpy as np


def read_records(files):
    """Yield the records of each file, which are messages of protobuf."""
    for path in files:
        with open(path, "rb") as file:
            while head := file.read(8):
                yield file.read((size := int.from_bytes(head[4:], "little")) + -size % 4)[:size]


def epochs(read, again):
    """Yield what an epoch reads, again and again if asked; an empty one would never end."""
    yield from chain([next(rows := read(), None) or sys.exit("no records")], rows)
    yield from chain.from_iterable(read() for _ in (repeat(0) if again else ()))


def numbers(data):
    """Yield the numbers of seven bits each that protobuf packs."""
    value = shift = 0
    for byte in data:
        value, shift = value | (byte & 127) << shift, shift + 7
        if byte < 128:
            yield value
            value = shift = 0


def fields(data):
    """Return the last bytes of each field of a message, by number; all of them have a length."""
    found, at = {}, 0
    while at < len(data):
        head, size = islice(numbers(data[at : at + 11]), 2)
        at += 1 + max(1, -(-size.bit_length() // 7))
        found[head >> 3], at = data[at : at + size], at + size
    return found


def to_row(record):
    """Return the label of a record, its floats, and the keys of those that are sparse."""
    entries = [fields(fields(record).get(entry, b"")) for entry in (1, 2)]
    tensors = [fields(fields(entry.get(2, b"")).get(2, b"")) for entry in entries]  # of floats
    (values, keys), (label, _) = ([each.get(n, b"") for n in (1, 2)] for each in tensors)
    return np.frombuffer(label, np.float32), np.frombuffer(values, np.float32), [*numbers(keys)]


def to_batch(batch, work):
    """Make a batch of records: labels, values, keys and counts; and count their bytes."""
    made = batch if work == "bytes" else [to_row(record) for record in batch]
    if work == "train":
        labels, values, keys = zip(*made, strict=True)
        made = np.stack(labels), np.concatenate(values), sum(keys, []), [*map(len, values)]
    return made, len(batch), sum(map(len, batch))


def main(data, work="train", batch=32, workers=2, shuffle=0, steps=0, compute=0.0, cached=False):
    """Read, parse, batch, and print the time of each step."""
    print(json.dumps({"reader": "protobuf"}), flush=True)
    began = time.perf_counter()
    records = source = epochs(partial(read_records, data), steps > 0)
    if shuffle:  # a buffer at a time
        buffers = iter(lambda: list(islice(source, shuffle)), [])
        records = chain.from_iterable(random.sample(each, len(each)) for each in buffers)
    todo = islice(iter(lambda: list(islice(records, batch)), []), steps or None)
    loader = (Pool(workers).imap if workers else map)(partial(to_batch, work=work), todo)
    loader = repeat(next(iter(loader))) if cached else loader  # the same batch again and again
    for _, rows, size in islice(loader, steps or None):
        if compute:  # milliseconds; here the model would learn
            time.sleep(compute / 1000)
        seconds = time.perf_counter() - began
        print(json.dumps({"seconds": seconds, "images": rows, "bytes": size}))
        began = time.perf_counter()


if __name__ == "__main__":
    main(sys.argv[1:], **json.loads(os.environ.get("LOOP_OPTIONS", "{}")))
