"""A loop of TensorFlow: bytes of images in batches of 4."""

import sys
import time
from itertools import islice

import tensorflow as tf

workers, steps, paths = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
threads = workers or None


def parse(record):
    features = {"image/encoded": tf.io.FixedLenFeature([], tf.string)}
    return tf.io.parse_single_example(record, features)["image/encoded"]


options = tf.data.Options()
options.threading.private_threadpool_size = workers or 1
data = tf.data.Dataset.from_tensor_slices(paths)
data = data.interleave(tf.data.TFRecordDataset, workers or 1, num_parallel_calls=threads).repeat()
data = data.map(parse, num_parallel_calls=threads).batch(4).prefetch(1 if workers else 0)
batches = iter(data.with_options(options))
for _ in islice(batches, 100):
    pass
began = time.perf_counter()
for batch in islice(batches, steps - 100):
    sum(map(len, batch.numpy()))
print((time.perf_counter() - began) / (steps - 100))
