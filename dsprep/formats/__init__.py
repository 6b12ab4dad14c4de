"""The formats, and which one a file's name tells."""

from __future__ import annotations

import os
import re

from dsprep.formats.base import Entry, Format
from dsprep.formats.folder import AugmentedFolder, Folder
from dsprep.formats.parquet import Parquet
from dsprep.formats.recordio import RecordIO
from dsprep.formats.recordio_protobuf import RecordIOProtobuf
from dsprep.formats.tfrecord import TFRecord
from dsprep.formats.webdataset import WebDataset

__all__ = [
    "CONCATENATIVE",
    "FORMATS",
    "SUFFIXES",
    "Entry",
    "Format",
    "format_of_file",
    "format_of_source",
    "shard_stem",
]

_SHARD_OF = re.compile(r"-\d{5}-of-\d{5}$")

FORMATS: dict[str, type[Format]] = {
    each.name: each
    for each in (WebDataset, TFRecord, RecordIO, RecordIOProtobuf, Parquet, Folder, AugmentedFolder)
}
"""Every format by name. A new format is a new file beside these, and a word in this line."""

CONCATENATIVE = {name: each for name, each in FORMATS.items() if each.concatenative}
"""The formats whose shards are one encoded sample after another."""

_FILES = tuple(each for each in FORMATS.values() if each.suffix)
"""The formats whose files have a suffix of their own."""

SUFFIXES = ", ".join(each.suffix for each in _FILES)
"""What names of shards end with, for messages."""

_IN_THE_WILD: dict[str, type[Format]] = {
    ".tgz": WebDataset,
    ".tfrecords": TFRecord,  # older tutorials of TensorFlow
    ".tfrec": TFRecord,  # Kaggle
    ".record": TFRecord,  # the Object Detection API
}
"""What names of shards that others wrote end with besides."""


def shard_stem(path: str) -> str:
    """A shard's file name without what tells its format: ``train-00000-of-00008``."""
    name = os.path.basename(path).removesuffix(".gz")
    for suffix in _IN_THE_WILD:
        name = name.removesuffix(suffix).replace(f"{suffix}-", "-")
    for each in _FILES:
        if name.endswith(each.suffix):
            return name[: -len(each.suffix)]
        name = name.replace(f"{each.suffix}-", "-")  # tfds: train.tfrecord-00000-of-00008
    return name


def format_of_file(path: str) -> type[Format] | None:
    """The format whose shards have names like this one, or None."""
    plain = path.removesuffix(".gz")
    for each in _FILES:
        if plain.endswith(each.suffix):
            return each
    # tfds: train.tfrecord-00000-of-00008; Inception: train-00000-of-01024
    if _SHARD_OF.search(plain):
        return TFRecord
    return None


def format_of_source(path: str) -> type[Format] | None:
    """The format of shards with names like this one, which others may have given; or None."""
    plain = path.removesuffix(".gz")
    others = (each for suffix, each in _IN_THE_WILD.items() if plain.endswith(suffix))
    return format_of_file(path) or next(others, None)
