"""Feed a training loop from Parquet with datasets: python datasets_loop.py shards/*.parquet.

Each step prints a line of JSON.
"""

import argparse
import io
import json
import math
import random
import time
from functools import partial
from itertools import islice, repeat

import datasets
import numpy as np
from PIL import Image


def random_resized_crop(image):
    """Cut a random part out of an image, and resize it to 224 x 224."""
    area = image.width * image.height * random.uniform(0.08, 1)
    ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
    width = min(round(math.sqrt(area * ratio)), image.width)
    height = min(round(math.sqrt(area / ratio)), image.height)
    x, y = random.randint(0, image.width - width), random.randint(0, image.height - height)
    return image.resize((224, 224), Image.Resampling.BILINEAR, (x, y, x + width, y + height))


def to_batch(files, work):
    """Make a batch of the bytes of images, and count these bytes."""
    size = sum(map(len, files))
    if work == "bytes":
        return files, size
    images = [Image.open(io.BytesIO(data)).convert("RGB") for data in files]
    if work == "train":
        images = np.stack([random_resized_crop(image) for image in images])
    return images, size


def batches(dataset, size):
    """Yield lists of samples: a DataLoader without workers, and without PyTorch."""
    samples = iter(dataset)
    while batch := list(islice(samples, size)):
        yield batch


def of_samples(samples, work):
    """Make a batch of samples."""
    return to_batch([sample["image"]["bytes"] for sample in samples], work)


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

    print(json.dumps({"reader": f"datasets {datasets.__version__}"}), flush=True)
    began = time.perf_counter()
    dataset = datasets.load_dataset("parquet", data_files=args.data, split="train", streaming=True)
    dataset = dataset.select_columns("image").cast_column("image", datasets.Image(decode=False))
    if args.shuffle:
        dataset = dataset.shuffle(buffer_size=args.shuffle)
    if args.steps:
        dataset = dataset.repeat(None)
    if args.workers:
        from torch.utils.data import DataLoader

        make = partial(of_samples, work=args.work)
        loader = DataLoader(dataset, args.batch, num_workers=args.workers, collate_fn=make)
    else:
        loader = (of_samples(samples, args.work) for samples in batches(dataset, args.batch))
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
