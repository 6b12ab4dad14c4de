"""Write a folder of images with MosaicML Streaming's MDSWriter, in one process or several.

Usage: mds_writer.py ROOT DEST SIZE PROCESSES
"""

from __future__ import annotations

import os
import random
import sys
from functools import partial
from multiprocessing import Pool

import streaming_base  # noqa: F401
from streaming.base import MDSWriter
from streaming.base.util import merge_index

COLUMNS = {"__key__": "str", "image": "jpeg", "label": "int"}


def write(root: str, size: int, task: tuple[str, list[tuple[str, str, int]]]) -> None:
    """Write some images."""
    dest, samples = task
    with MDSWriter(columns=COLUMNS, out=dest, size_limit=size) as sink:
        for cls, file, label in samples:
            with open(f"{root}/{cls}/{file}", "rb") as stream:
                image = stream.read()
            key = f"{cls}/{os.path.splitext(file)[0]}"
            sink.write({"__key__": key, "image": image, "label": label})


if __name__ == "__main__":
    root, dest, size, processes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    classes = sorted(os.listdir(root))
    labels = {name: number for number, name in enumerate(classes)}
    samples = [(cls, file, labels[cls]) for cls in classes for file in os.listdir(f"{root}/{cls}")]
    random.seed(0)
    random.shuffle(samples)
    if processes == 1:
        write(root, size, (dest, samples))
    else:
        tasks = [(f"{dest}/{part}", samples[part::processes]) for part in range(processes)]
        with Pool(processes) as pool:
            pool.map(partial(write, root, size), tasks)
        merge_index(dest)
