"""Feed a training loop from WebDataset shards at random: python wids_loop.py shards/*.tar.

Each step prints a line of JSON.
"""

import argparse
import io
import json
import math
import random
import time
from functools import partial
from itertools import chain, islice, repeat

import numpy as np
import wids
from PIL import Image
from torch.utils.data import DataLoader
from wids.wids import compute_num_samples

IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")


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


def of_samples(samples, work):
    """Make a batch of samples."""
    streams = (next(sample[name] for name in IMAGES if name in sample) for sample in samples)
    return to_batch([stream.read() for stream in streams], work)


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

    shards = [{"url": path, "nsamples": compute_num_samples(path)} for path in args.data]
    print(json.dumps({"reader": f"wids {wids.__version__}"}), flush=True)
    began = time.perf_counter()
    # Shards on a disk are read where they lie.
    dataset = wids.ShardListDataset(shards, keep=True, localname=str, transformations=[])
    sampler = None
    if args.shuffle:
        sampler = wids.ChunkedSampler(dataset, chunksize=args.shuffle, shufflefirst=True)
    loader = DataLoader(
        dataset,
        args.batch,
        sampler=sampler,
        num_workers=args.workers,
        collate_fn=partial(of_samples, work=args.work),
    )
    if args.steps:
        loader = chain.from_iterable(repeat(loader))
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
