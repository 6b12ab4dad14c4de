"""TensorFlow's readers: TFRecordDataset, parse_single_example and decode_image."""

from __future__ import annotations

import os

from dsprep.storage.local import open_regular

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf  # noqa: E402

from dsprep.formats.stream import is_gzip, is_zlib  # noqa: E402

_IMAGES = ("image/encoded", "image")


def count_samples(path: str) -> int:
    """Read all records, and decode the images of those that TensorFlow can decode."""
    with open(path, "rb", opener=open_regular) as file:
        head = file.read(512)
    compression = "GZIP" if is_gzip(head) else "ZLIB" if is_zlib(head) else ""
    image = {name: tf.io.FixedLenFeature([], tf.string, "") for name in _IMAGES}
    count = 0
    for record in tf.data.TFRecordDataset(path, compression):
        parsed = tf.io.parse_single_example(record, image)
        data = next((parsed[name] for name in _IMAGES if parsed[name] != b""), None)
        # decode_image reads neither WebP nor TIFF.
        if data is not None and data.numpy()[:4] not in (b"RIFF", b"II*\0", b"MM\0*"):
            tf.io.decode_image(data, expand_animations=False)
        count += 1
    return count
