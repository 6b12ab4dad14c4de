"""Feed a training loop from TFRecord shards: python tf_loop.py shards/*.tfrecord.

Each step prints a line of JSON.
"""

import argparse
import json
import time
from itertools import islice, repeat

import tensorflow as tf

FEATURES = {name: tf.io.FixedLenFeature([], tf.string, "") for name in ("image/encoded", "image")}


def prepare(record, work):
    """Return what training gets of an image, and the size of its file."""
    sample = tf.io.parse_single_example(record, FEATURES)
    data = sample["image/encoded"] + sample["image"]  # one of them is empty
    size = tf.strings.length(data)
    if work == "bytes":
        return data, size
    image = tf.io.decode_image(data, channels=3, expand_animations=False)
    if work == "decode":
        return image, size
    begin, cut, _ = tf.image.sample_distorted_bounding_box(
        tf.shape(image),
        tf.zeros((1, 0, 4)),
        area_range=(0.08, 1.0),
        aspect_ratio_range=(3 / 4, 4 / 3),
        use_image_if_no_bounding_boxes=True,
    )
    image = tf.image.resize(tf.slice(image, begin, cut), (224, 224))
    return tf.cast(image, tf.uint8), size


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

    print(json.dumps({"reader": f"tensorflow {tf.__version__}"}), flush=True)
    began = time.perf_counter()
    threads = args.workers or None
    compression = "GZIP" if args.data[0].endswith(".gz") else ""
    dataset = tf.data.Dataset.from_tensor_slices(args.data)
    if args.shuffle:
        dataset = dataset.shuffle(len(args.data))
    dataset = dataset.interleave(
        lambda path: tf.data.TFRecordDataset(path, compression),
        cycle_length=args.workers or 1,
        num_parallel_calls=threads,
    )
    if args.steps:
        dataset = dataset.repeat()
    if args.shuffle:
        dataset = dataset.shuffle(args.shuffle)
    dataset = dataset.map(lambda record: prepare(record, args.work), num_parallel_calls=threads)
    if args.work == "decode":  # images of several sizes
        dataset = dataset.ragged_batch(args.batch)
    else:
        dataset = dataset.batch(args.batch)
    options = tf.data.Options()
    options.threading.private_threadpool_size = args.workers or 1
    loader = dataset.prefetch(1 if args.workers else 0).with_options(options)
    if args.cached:
        loader = repeat(next(iter(loader)))
    for _, sizes in islice(loader, args.steps or None):
        if args.compute:  # here the model would learn
            time.sleep(args.compute / 1000)
        seconds = time.perf_counter() - began
        size = int(tf.reduce_sum(sizes))
        print(json.dumps({"seconds": seconds, "images": len(sizes), "bytes": size}))
        began = time.perf_counter()


if __name__ == "__main__":
    main()
