"""Feed a training loop from WebDataset shards at random: python wids_loop.py shards/*.tar."""

import io
import json
import os
import random
import sys
import time
from functools import partial
from itertools import chain, islice, repeat

import numpy as np
import wids
from PIL import Image
from torch.utils.data import DataLoader
from wids.wids import compute_num_samples

IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")


def image_of(sample, names):
    """Return the image of a sample, which has one of several names."""
    for name in names:
        if name in sample:
            return sample[name]
    raise ValueError(f"{sample['__key__']} has no image")  # next() would end the epoch


def random_resized_crop(image):
    """Cut a random part out of an image, and resize it to 224 x 224."""
    area = random.uniform(0.08, 1) * image.width * image.height
    ratio = 0.75 ** random.uniform(-1, 1)
    w, h = min((area * ratio) ** 0.5, image.width), min((area / ratio) ** 0.5, image.height)
    x, y = random.uniform(0, image.width - w), random.uniform(0, image.height - h)
    return image.resize((224, 224), Image.Resampling.BILINEAR, (x, y, x + w, y + h))


def to_batch(samples, work, names):
    """Make a batch of images, and count the bytes of their files."""
    files = [image_of(sample, names).read() for sample in samples]
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
    print(json.dumps({"reader": f"wids {wids.__version__}"}), flush=True)
    began = time.perf_counter()
    # Shards on a disk are read where they lie.
    shards = [{"url": path, "nsamples": compute_num_samples(path)} for path in data]
    dataset = wids.ShardListDataset(shards, keep=True, localname=str, transformations=[])
    if not len(dataset):
        sys.exit(f"{' '.join(data)}: no samples")
    sampler = None
    if shuffle:
        sampler = wids.ChunkedSampler(dataset, chunksize=shuffle, shufflefirst=True)
    collate = partial(to_batch, work=work, names=[f".{name}" for name in image] or IMAGES)
    loader = DataLoader(dataset, batch, sampler=sampler, num_workers=workers, collate_fn=collate)
    if steps:
        loader = chain.from_iterable(repeat(loader))
    loader = repeat(next(iter(loader))) if cached else loader  # the same batch again and again
    for images, size in islice(loader, steps or None):
        if compute:  # milliseconds; here the model would learn
            time.sleep(compute / 1000)
        seconds = time.perf_counter() - began
        print(json.dumps({"seconds": seconds, "images": len(images), "bytes": size}))
        del images  # so that the next batch can take its memory
        began = time.perf_counter()


if __name__ == "__main__":
    main(sys.argv[1:], **json.loads(os.environ.get("LOOP_OPTIONS", "{}")))
