"""The frameworks' own readers, as judges of shards.

Each is an extra, imported only when it is asked for. It reads a shard as a training job would, with
its images decoded, in a process of its own: MXNet ends the process at a record that it cannot
decode.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from dsprep.errors import OptionError
from dsprep.extras import pip_install
from dsprep.formats.listed_shards import INDEX
from dsprep.formats.stream import compression_of_shard
from dsprep.storage.local import open_regular

_EDGE = 32
_BATCH = 16
_FILES = ("raw_data", "zip_data")
_IMAGES = ("image/encoded", "image")


def count_mxnet(path: str) -> int:
    """Read a ``.rec`` with MXIndexedRecordIO, and ImageRecordIter if labels have one width."""
    import numpy

    # MXNet 1.9.1 uses names that NumPy dropped in 1.24.
    for alias in (bool, int, float, object, str, complex):
        if alias.__name__ not in vars(numpy):
            setattr(numpy, alias.__name__, alias)
    import mxnet

    index = Path(path).with_suffix(".idx")
    if index.exists():
        records = mxnet.recordio.MXIndexedRecordIO(str(index), path, "r")
        headers = [mxnet.recordio.unpack(records.read_idx(key))[0] for key in records.keys]
    else:
        records = mxnet.recordio.MXRecordIO(path, "r")
        headers = [mxnet.recordio.unpack(record)[0] for record in iter(records.read, None)]
    widths = {header.flag or 1 for header in headers}
    if len(widths) != 1:
        return len(headers)  # ImageRecordIter takes labels of one width only
    batches = mxnet.io.ImageRecordIter(
        path_imgrec=path,
        data_shape=(3, _EDGE, _EDGE),
        resize=_EDGE,
        label_width=widths.pop(),
        batch_size=min(_BATCH, len(headers)),
        preprocess_threads=1,
        verbose=False,
    )
    return sum(batch.data[0].shape[0] - batch.pad for batch in batches)


def count_tensorflow(path: str) -> int:
    """Read a TFRecord file with TFRecordDataset, parse_single_example and decode_image."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    with open(path, "rb", opener=open_regular) as file:
        head = file.read(512)
    compression = (compression_of_shard(head) or "").upper()
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


def count_webdataset(path: str) -> int:
    """Read a shard with webdataset and its decoder."""
    import webdataset

    samples = webdataset.WebDataset([path], shardshuffle=False, empty_check=False)
    return sum(1 for _ in samples.decode("pil"))


def count_streaming(path: str) -> int:
    """Read a shard with MosaicML Streaming's reader, by what the index beside it says."""
    from streaming.base.compression import decompress
    from streaming.base.format import reader_from_json

    directory, name = os.path.split(path)
    with open(os.path.join(directory, INDEX), "rb", opener=open_regular) as file:
        shards = json.load(file)["shards"]
    own = (each for each in shards if name in [(each[key] or {}).get("basename") for key in _FILES])
    shard = next(own)
    with tempfile.TemporaryDirectory() as scratch:
        if shard["zip_data"]:  # it reads shards that are unpacked
            with open(path, "rb", opener=open_regular) as file:
                data = decompress(shard["compression"], file.read())
            raw = Path(scratch, shard["raw_data"]["basename"])
            raw.write_bytes(data)
            directory = scratch
        reader, count = reader_from_json(directory, "", shard), 0
        for sample in reader:
            for value in sample.values():
                if callable(load := getattr(value, "load", None)):
                    load()  # an image of Pillow
            count += 1
    return count


LOADERS = {
    "mxnet": ("recordio", count_mxnet),
    "tensorflow": ("tfrecord", count_tensorflow),
    "webdataset": ("webdataset", count_webdataset),
    "streaming": ("mds", count_streaming),
}
"""The format that each framework reads, and how."""


def require_loader(name: str, format_name: str) -> None:
    """Refuse a framework that is not installed, or does not read the format."""
    format_read, _ = LOADERS[name]
    if format_read != format_name:
        raise OptionError(
            f"--loader {name}: reads {format_read}, but these shards are {format_name}"
        )
    if find_spec(name) is None:
        if name == "mxnet" and sys.version_info >= (3, 12):
            raise OptionError(
                "--loader mxnet: MXNet has no release for Python 3.12 and later; use Python 3.11"
            )
        raise OptionError(f"--loader {name}: is not installed; {pip_install(name)}")


def count_samples(task: tuple[str, str]) -> int | str:
    """Read a shard with a framework; return the number of samples, or what it raised."""
    name, path = task
    try:
        return LOADERS[name][1](path)
    except Exception as error:  # any exception of a framework counts as a refusal of the shard
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
