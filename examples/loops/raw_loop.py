"""Feed a loop from files, or members of tars, with Python alone: python raw_loop.py FOLDER."""

import io
import json
import multiprocessing
import os
import random
import sys
import tarfile
import time
from functools import partial
from itertools import islice, repeat

import numpy as np
from PIL import Image

IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")


def find(place):
    """Yield each image: its name, its file, where it begins there, and its size."""
    if os.path.isdir(place):
        for top, _, names in os.walk(place):
            yield from ((name, os.path.join(top, name), 0, -1) for name in names)
    else:
        with tarfile.open(place) as tar:
            yield from ((member.name, place, member.offset_data, member.size) for member in tar)


def read(path, start, size):
    """Read an image."""
    with open(path, "rb") as file:
        file.seek(start)
        return file.read(size)


def random_resized_crop(image):
    """Cut a random part out of an image, and resize it to 224 x 224."""
    area = random.uniform(0.08, 1) * image.width * image.height
    ratio = 0.75 ** random.uniform(-1, 1)
    w, h = min((area * ratio) ** 0.5, image.width), min((area / ratio) ** 0.5, image.height)
    x, y = random.uniform(0, image.width - w), random.uniform(0, image.height - h)
    return image.resize((224, 224), Image.Resampling.BILINEAR, (x, y, x + w, y + h))


def to_batch(found, work):
    """Make a batch of images, and count the bytes of their files."""
    images = files = [read(*each) for each in found]
    if work != "bytes":
        images = [Image.open(io.BytesIO(data)).convert("RGB") for data in files]
    if work == "train":
        images = np.stack([random_resized_crop(image) for image in images])
    return images, sum(map(len, files))


def main(
    data, work="train", batch=32, workers=2, shuffle=0, steps=0, compute=0.0, cached=False, image=()
):
    """Read, decode, batch, and print the time of each step."""
    print(json.dumps({"reader": "raw"}), flush=True)
    began = time.perf_counter()
    ends = tuple(f".{name}" for name in image) or IMAGES
    found = [at for place in data for name, *at in find(place) if name.lower().endswith(ends)]
    found = sorted(found) or sys.exit(f"{' '.join(data)}: no images")
    epochs = repeat(found) if steps else [found]
    orders = (random.sample(each, len(each)) if shuffle else each for each in epochs)
    todo = (each[at : at + batch] for each in orders for at in range(0, len(each), batch))
    todo, make = islice(todo, steps or None), partial(to_batch, work=work)
    loader = (multiprocessing.Pool(workers).imap if workers else map)(make, todo)
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
