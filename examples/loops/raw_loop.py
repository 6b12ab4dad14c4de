"""Feed a loop from files, or members of tars, with Python alone: python raw_loop.py FOLDER.

Each step prints a line of JSON.
"""

import argparse
import io
import json
import math
import multiprocessing
import os
import random
import tarfile
import time
from functools import partial
from itertools import chain, islice, repeat

import numpy as np
from PIL import Image

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


def find(place):
    """Yield the file of each image, and where in the file it begins and how long it is."""
    if os.path.isdir(place):
        for top, _, names in os.walk(place):
            yield from ((os.path.join(top, name), 0, -1) for name in names)
        return
    with tarfile.open(place) as tar:
        yield from ((place, member.offset_data, member.size, member.name) for member in tar)


def read_batch(found, work):
    """Read images, and make a batch of them."""
    files = []
    for path, start, size, *_ in found:
        with open(path, "rb") as file:
            file.seek(start)
            files.append(file.read(size))
    return to_batch(files, work)


def orders(found, args):
    """Yield lists of images to read, epoch after epoch."""
    while True:
        order = random.sample(found, len(found)) if args.shuffle else found
        yield from (order[at : at + args.batch] for at in range(0, len(order), args.batch))
        if not args.steps:
            return


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

    print(json.dumps({"reader": "Python alone"}), flush=True)
    began = time.perf_counter()
    found = sorted(chain.from_iterable(map(find, args.data)))
    found = [each for each in found if each[-1 if len(each) > 3 else 0].lower().endswith(IMAGES)]
    make = partial(read_batch, work=args.work)
    todo = islice(orders(found, args), args.steps or None)
    if args.workers:
        pool = multiprocessing.Pool(args.workers)
        loader = pool.imap(make, todo)
    else:
        loader = map(make, todo)
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
