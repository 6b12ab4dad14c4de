"""Feed a training loop from WebDataset shards: python webdataset_loop.py shards/*.tar.

Each step prints a line of JSON.
"""

import argparse
import io
import json
import math
import random
import time
from functools import cache, partial
from itertools import islice, repeat

import numpy as np
import webdataset as wds
from PIL import Image

IMAGES = ("jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff")


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


def image_of(sample):
    """Return the bytes of the image in a sample."""
    return next(sample[name] for name in IMAGES if name in sample)


@cache  # one for each process
def s3_client():
    """Return a client of S3."""
    import boto3

    return boto3.client("s3")


def open_with_boto3(url, mode, bufsize):
    """Open an object on S3 as a stream."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return s3_client().get_object(Bucket=bucket, Key=key)["Body"]


def open_with_s3fs(url, mode, bufsize):
    """Open an object on S3 as a file."""
    import fsspec

    return fsspec.open(url, "rb").open()


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

    wds.gopen_schemes["s3"] = open_with_s3fs if args.access == "s3fs" else open_with_boto3
    print(json.dumps({"reader": f"webdataset {wds.__version__}"}), flush=True)
    began = time.perf_counter()
    dataset = wds.WebDataset(args.data, shardshuffle=len(args.data) if args.shuffle else False)
    if args.steps:
        dataset = dataset.repeat()
    if args.shuffle:
        dataset = dataset.shuffle(args.shuffle)
    loader = dataset.map(image_of).batched(args.batch, partial(to_batch, work=args.work))
    if args.workers:
        loader = wds.WebLoader(loader, batch_size=None, num_workers=args.workers)
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
