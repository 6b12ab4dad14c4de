"""Convert WebDataset shards with webdataset's reader and TensorFlow's TFRecordWriter.

Usage: webdataset_to_tfrecord.py SOURCE DEST
"""

from __future__ import annotations

import sys
from pathlib import Path

import tensorflow as tf
import webdataset

source, dest = Path(sys.argv[1]), Path(sys.argv[2])


def bytes_feature(value: bytes) -> tf.train.Feature:
    """A feature of one byte string."""
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def int64_feature(value: int) -> tf.train.Feature:
    """A feature of one integer."""
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


dest.mkdir()
for shard in sorted(source.glob("*.tar")):
    with tf.io.TFRecordWriter(str(dest / f"{shard.stem}.tfrecord")) as writer:
        for sample in webdataset.WebDataset(str(shard), shardshuffle=False):
            feature = {
                "image/encoded": bytes_feature(sample["jpg"]),
                "image/format": bytes_feature(b"jpeg"),
                "image/filename": bytes_feature(f"{sample['__key__']}.jpg".encode()),
                "image/class/label": int64_feature(int(sample["cls"])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
