"""Convert TFRecord shards with tf.data and webdataset's TarWriter.

Usage: tfrecord_to_webdataset.py SOURCE DEST
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import tensorflow as tf
import webdataset

source, dest = Path(sys.argv[1]), Path(sys.argv[2])
FEATURES = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/filename": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
}


def parse(record: tf.Tensor) -> dict[str, tf.Tensor]:
    """The features of one record."""
    features: dict[str, tf.Tensor] = tf.io.parse_single_example(record, FEATURES)
    return features


dest.mkdir()
for shard in sorted(source.glob("*.tfrecord")):
    records = tf.data.TFRecordDataset(str(shard))
    samples = records.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
    with webdataset.TarWriter(str(dest / f"{shard.stem}.tar")) as sink:
        for sample in samples.as_numpy_iterator():
            sink.write(
                {
                    "__key__": os.path.splitext(sample["image/filename"].decode())[0],
                    "jpg": sample["image/encoded"],
                    "cls": int(sample["image/class/label"]),
                }
            )
