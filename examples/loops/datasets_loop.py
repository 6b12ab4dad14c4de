"""Feed a training loop from Parquet with datasets: python datasets_loop.py shards/*.parquet."""

import io
import json
import os
import random
import sys
import time
from functools import partial
from itertools import islice, repeat

import datasets
import numpy as np
from PIL import Image


def random_resized_crop(image):
    """Cut a random part out of an image, and resize it to 224 x 224."""
    area = random.uniform(0.08, 1) * image.width * image.height
    ratio = 0.75 ** random.uniform(-1, 1)
    w, h = min((area * ratio) ** 0.5, image.width), min((area / ratio) ** 0.5, image.height)
    x, y = random.uniform(0, image.width - w), random.uniform(0, image.height - h)
    return image.resize((224, 224), Image.Resampling.BILINEAR, (x, y, x + w, y + h))


def to_batch(samples, work, column):
    """Make a batch of images, and count the bytes of their files."""
    files = [sample[column]["bytes"] for sample in samples if sample[column]]
    images, size = files, sum(map(len, files))
    if work != "bytes":
        images = [Image.open(io.BytesIO(data)).convert("RGB") for data in files]
    if work == "train":
        images = np.stack([random_resized_crop(image) for image in images])
    return images, size


def main(
    data, work="train", batch=32, workers=2, shuffle=0, steps=0, compute=0.0, cached=False, image=()
):
    """Read, decode, batch, and print the time of each step."""
    print(json.dumps({"reader": f"datasets {datasets.__version__}"}), flush=True)
    began = time.perf_counter()
    dataset = datasets.load_dataset("parquet", data_files=data, split="train", streaming=True)
    column = image[0] if image else "image"
    dataset = dataset.select_columns(column).cast_column(column, datasets.Image(decode=False))
    if shuffle:
        dataset = dataset.shuffle(buffer_size=shuffle)
    if steps:
        dataset = dataset.repeat(None)
    make = partial(to_batch, work=work, column=column)
    if workers:
        from torch.utils.data import DataLoader

        loader = DataLoader(dataset, batch, num_workers=workers, collate_fn=make)
    else:
        samples = iter(dataset)
        loader = map(make, iter(lambda: list(islice(samples, batch)), []))
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
