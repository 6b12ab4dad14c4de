"""Feed a training loop from RecordIO files: python mxnet_loop.py shards/*.rec.

Each step prints a line of JSON. ImageRecordIter always decodes, and always cuts out 224 x 224.
"""

import argparse
import json
import os
import random
import time
from itertools import islice, repeat

import numpy as np

for kind in (bool, int, float, object, str, complex):  # MXNet 1.9 uses names that NumPy 1.24 lacks
    if kind.__name__ not in vars(np):
        setattr(np, kind.__name__, kind)
import mxnet as mx  # noqa: E402


def batches(paths, args):
    """Yield batches: ImageRecordIter reads one file, so that there is one for each."""
    while True:
        for path in random.sample(paths, len(paths)) if args.shuffle else paths:
            index = os.path.splitext(path)[0] + ".idx"
            loader = mx.io.ImageRecordIter(
                path_imgrec=path,
                path_imgidx=index if os.path.exists(index) else "",
                data_shape=(3, 224, 224),
                batch_size=args.batch,
                shuffle=args.shuffle > 0,
                preprocess_threads=max(args.workers, 1),
                random_resized_crop=args.work == "train",
                min_random_area=0.08 if args.work == "train" else 1.0,
                min_aspect_ratio=3 / 4 if args.work == "train" else None,
                max_aspect_ratio=4 / 3 if args.work == "train" else 0,
                resize=-1 if args.work == "train" else 224,
                dtype="uint8",
                verbose=False,
            )
            for batch in loader:
                batch.data[0].wait_to_read()
                yield batch.data[0][: args.batch - batch.pad], None
        if not args.steps:
            return


def main():
    """Read, decode, batch, and time each step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", nargs="+")
    parser.add_argument("--access", default="file")
    parser.add_argument("--work", default="train", choices=("bytes", "decode", "train"))
    for name, value in {
        "workers": 2,
        "batch": 32,
        "shuffle": 0,
        "steps": 0,
        "compute": 0.0,
    }.items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    parser.add_argument("--cached", action="store_true", help="repeat the first batch")
    args = parser.parse_args()

    print(json.dumps({"reader": f"mxnet {mx.__version__}"}), flush=True)
    began = time.perf_counter()
    loader = batches(args.data, args)
    if args.cached:
        loader = repeat(next(iter(loader)))
    for images, size in islice(loader, args.steps or None):
        if args.compute:  # here the model would learn
            time.sleep(args.compute / 1000)
        seconds = time.perf_counter() - began
        step = {"seconds": seconds, "images": len(images), "bytes": size}
        print(json.dumps(step))
        began = time.perf_counter()


if __name__ == "__main__":
    main()
