"""Feed a training loop from WebDataset shards on S3: give s3://BUCKET/KEY of each."""

import io
import json
import os
import random
import sys
import time
from functools import cache, partial
from itertools import islice, repeat

import boto3
import numpy as np
import webdataset as wds
from PIL import Image

IMAGES = ("jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff")


@cache  # one for each worker: processes must not share connections
def client():
    """Return a client of S3."""
    return boto3.client("s3")


def open_object(url, mode, bufsize):
    """Open an object on S3 as a stream."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return client().get_object(Bucket=bucket, Key=key)["Body"]


def random_resized_crop(image):
    """Cut a random part out of an image, and resize it to 224 x 224."""
    area = random.uniform(0.08, 1) * image.width * image.height
    ratio = 0.75 ** random.uniform(-1, 1)
    w, h = min((area * ratio) ** 0.5, image.width), min((area / ratio) ** 0.5, image.height)
    x, y = random.uniform(0, image.width - w), random.uniform(0, image.height - h)
    return image.resize((224, 224), Image.Resampling.BILINEAR, (x, y, x + w, y + h))


def to_batch(samples, work, names):
    """Make a batch of images, and count the bytes of their files."""
    files = [next(sample[name] for name in names if name in sample) for sample in samples]
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
    print(json.dumps({"reader": f"webdataset {wds.__version__}"}), flush=True)
    began = time.perf_counter()
    wds.gopen_schemes["s3"] = open_object
    dataset = wds.WebDataset(data, shardshuffle=len(data) if shuffle else False)
    if steps:
        dataset = dataset.repeat()
    if shuffle:
        dataset = dataset.shuffle(shuffle)
    # Samples without an image are passed over if it has a name that was given.
    dataset = dataset.select(frozenset(image).intersection) if image else dataset
    loader = dataset.batched(batch, partial(to_batch, work=work, names=image or IMAGES))
    if workers:
        loader = wds.WebLoader(loader, batch_size=None, num_workers=workers)
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
