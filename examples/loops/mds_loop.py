"""Feed a training loop from MDS with MosaicML Streaming: python mds_loop.py shards/*.mds."""

import json
import os
import random
import sys
import tempfile
import time
from functools import partial
from importlib.metadata import version
from itertools import chain, islice, repeat

import numpy as np
from streaming.base import StreamingDataset
from torch.utils.data import DataLoader


def random_resized_crop(image):
    """Cut a random part out of an image, and resize it to 224 x 224."""
    area = random.uniform(0.08, 1) * image.width * image.height
    ratio = 0.75 ** random.uniform(-1, 1)
    w, h = min((area * ratio) ** 0.5, image.width), min((area / ratio) ** 0.5, image.height)
    x, y = random.uniform(0, image.width - w), random.uniform(0, image.height - h)
    return image.resize((224, 224), 2, (x, y, x + w, y + h))  # bilinear


def to_batch(samples, work, name):
    """Make a batch of images, and count the bytes of their files."""
    images = [sample[name] for sample in samples]  # opened by Pillow, and not decoded yet
    size = sum(image.fp.getbuffer().nbytes for image in images)
    if work == "bytes":
        return [image.fp.getvalue() for image in images], size
    images = [image.convert("RGB") for image in images]
    if work == "train":
        images = np.stack([random_resized_crop(image) for image in images])
    return images, size


def main(
    data, work="train", batch=32, workers=2, shuffle=0, steps=0, compute=0.0, cached=False, image=()
):
    """Read, decode, batch, and print the time of each step."""
    print(json.dumps({"reader": f"streaming {version('mosaicml-streaming')}"}), flush=True)
    began = time.perf_counter()
    place, name = os.path.dirname(data[0]), image[0] if image else "image"
    with tempfile.TemporaryDirectory() as copies:
        # It would unpack compressed shards where they lie: let it copy them before.
        is_packed = data[0].endswith((".gz", ".zstd"))
        where = {"remote": place, "local": copies} if is_packed else {"local": place}
        # The shards of a directory that its index lists; each epoch has another order.
        dataset = StreamingDataset(**where, shuffle=shuffle > 0, batch_size=batch)
        collate = partial(to_batch, work=work, name=name)
        loader = DataLoader(dataset, batch, num_workers=workers, collate_fn=collate)
        epochs = chain.from_iterable(loader for _ in (repeat(0) if steps else range(1)))
        if cached:  # the same batch again and again
            epochs = repeat(next(iter(loader)))
        for images, size in islice(epochs, steps or None):
            if compute:  # milliseconds; here the model would learn
                time.sleep(compute / 1000)
            seconds = time.perf_counter() - began
            print(json.dumps({"seconds": seconds, "images": len(images), "bytes": size}))
            del images  # so that the next batch can take its memory
            began = time.perf_counter()


if __name__ == "__main__":
    main(sys.argv[1:], **json.loads(os.environ.get("LOOP_OPTIONS", "{}")))
