"""Feed a training loop from TFRecord shards: python tf_loop.py shards/*.tfrecord."""

import json
import os
import sys
import time
from functools import partial
from itertools import islice, repeat

import tensorflow as tf

CROP = {"area_range": (0.08, 1.0), "aspect_ratio_range": (3 / 4, 4 / 3)}


def prepare(record, name, work):
    """Return what training gets of an image, and the size of its file."""
    data = tf.io.parse_single_example(record, {name: tf.io.FixedLenFeature([], tf.string)})[name]
    size = tf.strings.length(data)
    if work == "bytes":
        return data, size
    image = tf.io.decode_image(data, channels=3, expand_animations=False)
    if work == "train":
        begin, cut, _ = tf.image.sample_distorted_bounding_box(
            tf.shape(image), tf.zeros((1, 0, 4)), use_image_if_no_bounding_boxes=True, **CROP
        )
        image = tf.image.resize(tf.slice(image, begin, cut), (224, 224))
        image = tf.cast(image, tf.uint8)
    return image, size


def main(data, work="train", batch=32, workers=2, shuffle=0, steps=0, compute=0.0, cached=False):
    """Read, decode, batch, and print the time of each step."""
    print(json.dumps({"reader": f"tensorflow {tf.__version__}"}), flush=True)
    began = time.perf_counter()
    threads, compression = workers or None, "GZIP" if data[0].endswith(".gz") else ""
    dataset = tf.data.Dataset.from_tensor_slices(data)
    if shuffle:
        dataset = dataset.shuffle(len(data))
    read = partial(tf.data.TFRecordDataset, compression_type=compression)
    name = "image/encoded" if b"image/encoded" in next(iter(read(data[0]))).numpy() else "image"
    dataset = dataset.interleave(read, workers or 1, num_parallel_calls=threads)
    if steps:
        dataset = dataset.repeat()
    if shuffle:
        dataset = dataset.shuffle(shuffle)
    dataset = dataset.map(lambda record: prepare(record, name, work), num_parallel_calls=threads)
    # Images that are only decoded have several sizes.
    dataset = dataset.ragged_batch(batch) if work == "decode" else dataset.batch(batch)
    options = tf.data.Options()
    options.threading.private_threadpool_size = workers or 1
    loader = dataset.prefetch(1 if workers else 0).with_options(options)
    if cached:  # the same batch again and again
        loader = repeat(next(iter(loader)))
    for _, sizes in islice(loader, steps or None):
        if compute:  # milliseconds; here the model would learn
            time.sleep(compute / 1000)
        seconds, size = time.perf_counter() - began, int(sizes.numpy().sum())
        print(json.dumps({"seconds": seconds, "images": len(sizes), "bytes": size}))
        began = time.perf_counter()


if __name__ == "__main__":
    main(sys.argv[1:], **json.loads(os.environ.get("LOOP_OPTIONS", "{}")))
