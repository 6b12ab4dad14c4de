"""Feed a training loop with litdata, from chunks or MDS: python litdata_loop.py chunks/*.bin."""

import io
import json
import os
import random
import sys
import tempfile
import time
from functools import partial
from importlib.metadata import version
from itertools import chain, islice, repeat

import numpy as np
from litdata import StreamingDataLoader, StreamingDataset
from litdata.streaming.serializers import BytesSerializer
from PIL import Image

# Files of images stay bytes, which Pillow decodes below; litdata would need torchvision.
FILES = dict.fromkeys(("image", "jpeg", "png", "tiff"), BytesSerializer())


def random_resized_crop(image):
    """Cut a random part out of an image, and resize it to 224 x 224."""
    area = random.uniform(0.08, 1) * image.width * image.height
    ratio = 0.75 ** random.uniform(-1, 1)
    w, h = min((area * ratio) ** 0.5, image.width), min((area / ratio) ** 0.5, image.height)
    x, y = random.uniform(0, image.width - w), random.uniform(0, image.height - h)
    return image.resize((224, 224), Image.Resampling.BILINEAR, (x, y, x + w, y + h))


def value_at(sample, path):
    """Return a value of a tree of dicts and tuples, such as `image`, `info/photo` or `0`."""
    for key in path.split("/") if isinstance(sample, dict | list | tuple) else ():
        sample = sample[key] if isinstance(sample, dict) else sample[int(key)]
    return sample


def to_batch(samples, work, name):
    """Make a batch of images, and count the bytes of their files."""
    images = [bytes(value_at(sample, name)) for sample in samples]  # not views of a mapped file
    size = sum(map(len, images))
    if work != "bytes":
        images = [Image.open(io.BytesIO(data)).convert("RGB") for data in images]
    if work == "train":
        images = np.stack([random_resized_crop(image) for image in images])
    return images, size


def main(
    data, work="train", batch=32, workers=2, shuffle=0, steps=0, compute=0.0, cached=False, image=()
):
    """Read, decode, batch, and print the time of each step."""
    print(json.dumps({"reader": f"litdata {version('litdata')}"}), flush=True)
    began = time.perf_counter()
    place, name = os.path.dirname(data[0]), image[0] if image else "image"
    with tempfile.TemporaryDirectory() as copies:
        # It would unpack compressed files where they lie, and remove them: let it copy them before.
        is_packed = data[0].endswith((".zstd", ".zstd.bin"))
        where = [f"local:{place}", copies] if is_packed else [place]
        dataset = StreamingDataset(*where, shuffle=shuffle > 0, serializers=FILES)
        collate = partial(to_batch, work=work, name=name)
        how = {"batch_size": batch, "num_workers": workers, "collate_fn": collate}
        loader = StreamingDataLoader(dataset, **how)
        epochs = chain.from_iterable(loader for _ in (repeat(0) if steps else range(1)))
        if cached:  # the same batch again and again
            epochs = repeat(next(iter(loader)))
        for images, size in islice(epochs, steps or None):
            if compute:  # milliseconds; here the model would learn
                time.sleep(compute / 1000)
            seconds = time.perf_counter() - began
            print(json.dumps({"seconds": seconds, "images": len(images), "bytes": size}))
            del images  # so that the next batch can take its memory
            began = time.perf_counter()


if __name__ == "__main__":
    main(sys.argv[1:], **json.loads(os.environ.get("LOOP_OPTIONS", "{}")))
