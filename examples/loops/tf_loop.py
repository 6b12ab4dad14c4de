"""Feed a training loop from TFRecord shards: python tf_loop.py shards/*.tfrecord."""

import json
import os
import sys
import time
from functools import partial
from itertools import islice, repeat

import tensorflow as tf

CROP = {"area_range": (0.08, 1.0), "aspect_ratio_range": (3 / 4, 4 / 3)}


def prepare(record, work, name, planes=False, *shape):
    """Return what training gets of an image, and the size of its file.

    The shape is that of bare pixels, as numbers or names of features; planes are channels first.
    """
    features = {each: tf.io.FixedLenFeature([], tf.int64) for each in shape if type(each) is str}
    features[name] = tf.io.FixedLenFeature([], tf.string)
    found = tf.io.parse_single_example(record, features)
    data, size = found[name], tf.strings.length(found[name])
    if work == "bytes":
        return data, size
    if shape:
        image = tf.reshape(tf.io.decode_raw(data, tf.uint8), [found.get(at, at) for at in shape])
        image = tf.transpose(image, (1, 2, 0)) if planes else image
    else:
        image = tf.io.decode_image(data, channels=3, expand_animations=False)
    if work == "train":
        begin, cut, _ = tf.image.sample_distorted_bounding_box(
            tf.shape(image), tf.zeros((1, 0, 4)), use_image_if_no_bounding_boxes=True, **CROP
        )
        image = tf.image.resize(tf.slice(image, begin, cut), (224, 224))
        image = tf.cast(image, tf.uint8)
    return image, size


def main(
    data, work="train", batch=32, workers=2, shuffle=0, steps=0, compute=0.0, cached=False, image=()
):
    """Read, decode, batch, and print the time of each step."""
    print(json.dumps({"reader": f"tensorflow {tf.__version__}"}), flush=True)
    began = time.perf_counter()
    threads, head = workers or None, tf.io.gfile.GFile(data[0], "rb").read(2)
    compression = {b"\x1f\x8b": "GZIP", b"\x78\x9c": "ZLIB"}.get(head, "")
    dataset = tf.data.Dataset.from_tensor_slices(data)
    if shuffle:
        dataset = dataset.shuffle(len(data))
    read = partial(tf.data.TFRecordDataset, compression_type=compression)
    first = next(iter(read(data[0]))).numpy()
    image = image or ["image/encoded" if b"image/encoded" in first else "image"]
    dataset = dataset.interleave(read, workers or 1, num_parallel_calls=threads)
    dataset = dataset.repeat(None if steps else 1)
    if shuffle:
        dataset = dataset.shuffle(shuffle)
    dataset = dataset.map(lambda each: prepare(each, work, *image), num_parallel_calls=threads)
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
