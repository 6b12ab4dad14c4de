"""Write a folder of images with a loop over TensorFlow's TFRecordWriter.

Usage: tfrecord_writer.py ROOT DEST SHARDS
"""

from __future__ import annotations

import os
import random
import sys

import tensorflow as tf

root, dest, shards = sys.argv[1], sys.argv[2], int(sys.argv[3])
classes = sorted(os.listdir(root))
samples = [(cls, file) for cls in classes for file in os.listdir(f"{root}/{cls}")]
labels = {name: number for number, name in enumerate(classes)}
random.seed(0)
random.shuffle(samples)


def bytes_feature(value: bytes) -> tf.train.Feature:
    """A feature of one byte string."""
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def int64_feature(value: int) -> tf.train.Feature:
    """A feature of one integer."""
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


os.makedirs(dest, exist_ok=True)
for shard in range(shards):
    with tf.io.TFRecordWriter(f"{dest}/train-{shard:05d}-of-{shards:05d}.tfrecord") as writer:
        for cls, file in samples[shard::shards]:
            with open(f"{root}/{cls}/{file}", "rb") as stream:
                image = stream.read()
            feature = {
                "image/encoded": bytes_feature(image),
                "image/format": bytes_feature(b"jpeg"),
                "image/filename": bytes_feature(f"{cls}/{file}".encode()),
                "image/class/label": int64_feature(labels[cls]),
                "image/class/text": bytes_feature(cls.encode()),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
