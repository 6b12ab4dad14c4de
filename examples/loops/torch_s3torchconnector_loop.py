"""Feed a training loop from S3 with Amazon's connector: give s3://BUCKET/PREFIX/."""

import io
import json
import os
import random
import sys
import time
from functools import partial
from itertools import chain, islice, repeat

import numpy as np
import torch
from PIL import Image
from s3torchconnector import S3ClientConfig, S3MapDataset
from torch.utils.data import DataLoader


def read(found):
    """Read an object that the connector opened."""
    return found.read()


def random_resized_crop(image):
    """Cut a random part out of an image, and resize it to 224 x 224."""
    area = random.uniform(0.08, 1) * image.width * image.height
    ratio = 0.75 ** random.uniform(-1, 1)
    w, h = min((area * ratio) ** 0.5, image.width), min((area / ratio) ** 0.5, image.height)
    x, y = random.uniform(0, image.width - w), random.uniform(0, image.height - h)
    return image.resize((224, 224), Image.Resampling.BILINEAR, (x, y, x + w, y + h))


def to_batch(files, work):
    """Make a batch of images, and count the bytes of their files."""
    images, size = files, sum(map(len, files))
    if work != "bytes":
        images = [Image.open(io.BytesIO(data)).convert("RGB") for data in files]
    if work == "train":
        images = np.stack([random_resized_crop(image) for image in images])
    return images, size


def main(data, work="train", batch=32, workers=2, shuffle=0, steps=0, compute=0.0, cached=False):
    """Read, decode, batch, and print the time of each step."""
    print(json.dumps({"reader": f"torch {torch.__version__}"}), flush=True)
    began = time.perf_counter()
    endpoint, region = os.environ.get("AWS_ENDPOINT_URL"), os.environ.get("AWS_REGION", "us-east-1")
    config = S3ClientConfig(force_path_style=endpoint is not None)
    common = {"region": region, "endpoint": endpoint, "s3client_config": config}
    dataset = S3MapDataset.from_prefix(f"{data[0].rstrip('/')}/", transform=read, **common)
    if not len(dataset):
        sys.exit(f"{data[0]}: no objects")
    options = {"num_workers": workers, "persistent_workers": workers > 0}
    collate = partial(to_batch, work=work)
    loader = DataLoader(dataset, batch, shuffle=shuffle > 0, collate_fn=collate, **options)
    if steps:
        loader = chain.from_iterable(repeat(loader))
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
