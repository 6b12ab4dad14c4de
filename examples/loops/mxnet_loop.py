"""Feed a training loop from RecordIO files: python mxnet_loop.py shards/*.rec."""

import json
import os
import random
import sys
import time
from itertools import count, islice, repeat

import numpy as np

for kind in (bool, int, float, object, str, complex):  # MXNet 1.9 uses names that NumPy 1.24 lacks
    if kind.__name__ not in vars(np):
        setattr(np, kind.__name__, kind)
import mxnet as mx  # noqa: E402

CROP = {"min_random_area": 0.08, "min_aspect_ratio": 3 / 4, "max_aspect_ratio": 4 / 3}


def load(path, work, batch, workers, shuffle):
    """Return an iterator over a file; it always decodes, and always cuts out 224 x 224."""
    index = os.path.splitext(path)[0] + ".idx"
    first, _ = mx.recordio.unpack(mx.recordio.MXRecordIO(path, "r").read())
    return mx.io.ImageRecordIter(
        path_imgrec=path,
        path_imgidx=index if os.path.exists(index) else "",
        data_shape=(3, 224, 224),
        label_width=np.size(first.label),
        batch_size=batch,
        shuffle=shuffle > 0,
        preprocess_threads=max(workers, 1),
        **({"random_resized_crop": True, **CROP} if work == "train" else {"resize": 224}),
        dtype="uint8",
        verbose=False,
    )


def batches(paths, shuffle, steps, **options):
    """Yield batches: an iterator reads one file, so that there is one for each."""
    for _ in count() if steps else range(1):
        for path in random.sample(paths, len(paths)) if shuffle else paths:
            for batch in load(path, shuffle=shuffle, **options):
                batch.data[0].wait_to_read()
                yield batch.data[0][: options["batch"] - batch.pad], None


def main(data, work="train", batch=32, workers=2, shuffle=0, steps=0, compute=0.0, cached=False):
    """Read, decode, batch, and print the time of each step."""
    print(json.dumps({"reader": f"mxnet {mx.__version__}"}), flush=True)
    began = time.perf_counter()
    loader = batches(data, shuffle, steps, work=work, batch=batch, workers=workers)
    if cached:  # the same batch again and again
        loader = repeat(next(iter(loader)))
    for images, size in islice(loader, steps or None):
        if compute:  # milliseconds; here the model would learn
            time.sleep(compute / 1000)
        seconds = time.perf_counter() - began
        print(json.dumps({"seconds": seconds, "images": len(images), "bytes": size}))
        del images  # so that the next batch can take its memory
        began = time.perf_counter()


if __name__ == "__main__":
    main(sys.argv[1:], **json.loads(os.environ.get("LOOP_OPTIONS", "{}")))
