"""Feed a training loop from a folder of images: python torch_loop.py FOLDER.

Each step prints a line of JSON.
"""

import argparse
import io
import json
import math
import os
import random
import time
from functools import cache, partial
from itertools import chain, islice, repeat

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

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


def read_file(path):
    """Read a file on a disk."""
    with open(path, "rb") as file:
        return file.read()


def new_client():
    """Return a client of S3."""
    import boto3

    return boto3.client("s3")


s3_client = cache(new_client)  # of a worker: processes must not share connections


def read_with_boto3(url):
    """Read an object on S3."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return s3_client().get_object(Bucket=bucket, Key=key)["Body"].read()


def read_with_s3fs(url):
    """Read an object on S3."""
    import fsspec

    return fsspec.filesystem("s3").cat_file(url)


READ = {"file": read_file, "boto3": read_with_boto3, "s3fs": read_with_s3fs}


def list_images(place, access):
    """List the images below a directory or a prefix."""
    if access == "file":
        names = (os.path.join(top, name) for top, _, files in os.walk(place) for name in files)
    else:
        bucket, _, prefix = place.rstrip("/").removeprefix("s3://").partition("/")
        pages = new_client().get_paginator("list_objects_v2")
        pages = pages.paginate(Bucket=bucket, Prefix=f"{prefix}/" if prefix else "")
        names = (f"s3://{bucket}/{found['Key']}" for page in pages for found in page["Contents"])
    return sorted(name for name in names if name.lower().endswith(IMAGES))


class Images(Dataset):
    """The images below a directory or a prefix."""

    def __init__(self, place, access):
        self.paths, self.read = list_images(place, access), READ[access]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, at):
        return self.read(self.paths[at])


def read_all(found):
    """Read an object that the connector opened."""
    return found.read()


def with_connector(place):
    """Return the images below a prefix as Amazon's connector for PyTorch reads them."""
    from s3torchconnector import S3ClientConfig, S3MapDataset

    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    return S3MapDataset.from_prefix(
        place.rstrip("/") + "/",
        region=os.environ.get("AWS_REGION", "us-east-1"),
        endpoint=endpoint,
        transform=read_all,
        s3client_config=S3ClientConfig(force_path_style=endpoint is not None),
    )


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

    print(json.dumps({"reader": f"torch {torch.__version__}"}), flush=True)
    began = time.perf_counter()
    (place,) = args.data
    if args.access == "s3torchconnector":
        dataset = with_connector(place)
    else:
        dataset = Images(place, args.access)
    loader = DataLoader(
        dataset,
        args.batch,
        shuffle=args.shuffle > 0,
        num_workers=args.workers,
        collate_fn=partial(to_batch, work=args.work),
        persistent_workers=args.workers > 0,
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
