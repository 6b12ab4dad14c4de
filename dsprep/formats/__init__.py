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
    "SHARDED",
    "SUFFIXES",
    "Entry",
    "Format",
    "format_of_file",
    "format_of_source",
    "shard_stem",
]

FORMATS: dict[str, type[Format]] = {
    each.name: each
    for each in (WebDataset, TFRecord, RecordIO, RecordIOProtobuf, Parquet, Folder, AugmentedFolder)
}
"""Every format by name: what ``convert --to`` takes. A new one is a module and a word here."""

SHARDED = {name: each for name, each in FORMATS.items() if not each.is_tree}
"""The formats whose files are shards: what ``--to`` of pack and shard takes."""

CONCATENATIVE = {name: each for name, each in FORMATS.items() if each.concatenative}
"""The formats whose shards are one encoded sample after another: what ``--from`` takes."""

SUFFIXES = ", ".join(each.suffix for each in SHARDED.values())
"""What names of shards end with, for messages."""

_OTHER_SUFFIXES = {end: each for each in SHARDED.values() for end in each.other_suffixes}
_NUMBERED = re.compile(r"-\d{5}-of-\d{5}$")


def shard_stem(path: str) -> str:
    """Return a shard's file name without what tells its format: ``train-00000-of-00008``."""
    name = os.path.basename(path).removesuffix(".gz")
    for suffix in _OTHER_SUFFIXES:
        name = name.removesuffix(suffix).replace(f"{suffix}-", "-")
    for each in SHARDED.values():
        if name.endswith(each.suffix):
            return name[: -len(each.suffix)]
        name = name.replace(f"{each.suffix}-", "-")  # tfds: train.tfrecord-00000-of-00008
    return name


def format_of_file(path: str) -> type[Format] | None:
    """Return the format whose shards have names like this one; None if none has."""
    plain = path.removesuffix(".gz")
    for each in SHARDED.values():
        if plain.endswith(each.suffix):
            return each
    # tfds: train.tfrecord-00000-of-00008; Inception: train-00000-of-01024
    return TFRecord if _NUMBERED.search(plain) else None


def format_of_source(path: str) -> type[Format] | None:
    """Return the format of shards with names like this one, which others may have given."""
    plain = path.removesuffix(".gz")
    others = (each for suffix, each in _OTHER_SUFFIXES.items() if plain.endswith(suffix))
    return format_of_file(path) or next(others, None)
