"""The formats by name, and the format of a file by its file name.

Entry: `FORMATS` and `format_of_file`; `base.Format` is what a format can do.
Always: the bytes of a sample follow from it and the schema, and no weight is too small.
Tests: tests/formats; test_contract.py and test_sizes.py run for each format.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from dsprep.patterns import pattern

if TYPE_CHECKING:
    from dsprep.formats.base import Format


class _Formats(Mapping[str, "type[Format]"]):
    """Formats by name; the module of each is loaded when it is asked for."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places  # module and class of each format, by the format's name

    def __getitem__(self, name: str) -> type[Format]:
        module, _, kind = self._places[name].partition(".")
        found: type[Format] = getattr(import_module(f"dsprep.formats.{module}"), kind)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


# A new format is a module and a line here, with the name that users give.
_CONCATENATIVE = {
    "webdataset": "webdataset.WebDataset",
    "tfrecord": "tfrecord.TFRecord",
    "recordio": "recordio.RecordIO",
    "recordio-protobuf": "recordio_protobuf.RecordIOProtobuf",
}
# A table of the samples is at the beginning of their shards.
_INDEXED = {"mds": "mds.Mds"}
# They are read, and not written.
_READ_ONLY = {"litdata": "litdata.LitData"}
_READ_ONLY_TABLES = {"arrow": "parquet.Arrow"}
# Their files have names that others have as well, such as tables of labels: a manifest tells them.
_TABLES = {"csv": "csv_lines.Csv"}
_SHARDED = _CONCATENATIVE | _INDEXED | {"parquet": "parquet.Parquet"} | _TABLES
_TREES = {
    "folder": "folder.Folder",
    "augmented-manifest": "folder.AugmentedFolder",
    "coco": "annotated.Coco",
    "voc": "annotated.Voc",
    "yolo": "annotated.Yolo",
}

FORMATS = _Formats(_SHARDED | _TREES)  # every format that is written: what `convert --to` takes
# the formats whose files are shards: what `--to` of pack and shard takes
SHARDED = _Formats(_SHARDED)
# the formats whose shards are one encoded sample after another: what streams are
CONCATENATIVE = _Formats(_CONCATENATIVE)
# every format, also those that are read and not written
ALL_FORMATS = _Formats(_SHARDED | _TREES | _READ_ONLY | _READ_ONLY_TABLES)
# the formats whose samples are runs of bytes of their shards: what `--from` takes
IN_SPANS = _Formats(_CONCATENATIVE | _INDEXED | _READ_ONLY)
# the formats whose files are tables; their readers take all files of a directory
TABLES = _Formats(_TABLES)

ARROW = (".arrow", ".feather")
"""The ends of names of Arrow's files, which are read as those of Parquet and not written."""

_NUMBERED = pattern(r"-\d{5}-of-\d{5}$")
_CHUNK = pattern(r"chunk-\d+-\d+(?:\.zstd(?::\d+)?)?\.bin$")  # litdata, writer.py


def suffixes() -> str:
    """Return what names of shards end with, for messages."""
    known = [each.suffix for name, each in SHARDED.items() if name not in TABLES]
    tables = [each.suffix for each in TABLES.values()]
    return f"{', '.join(known)} or, with a manifest, {', '.join(tables)}"


@cache
def _other_suffixes() -> dict[str, type[Format]]:
    return {end: each for each in SHARDED.values() for end in each.other_suffixes}


def shard_stem(path: str) -> str:
    """Return a shard's file name without what tells its format: ``train-00000-of-00008``."""
    name = _unpacked(os.path.basename(path))
    if _CHUNK.fullmatch(name):
        return name.partition(".")[0]
    for suffix in (*_other_suffixes(), *ARROW):
        name = name.removesuffix(suffix).replace(f"{suffix}-", "-")
    for each in SHARDED.values():
        if name.endswith(each.suffix):
            return name[: -len(each.suffix)]
        name = name.replace(f"{each.suffix}-", "-")  # tfds: train.tfrecord-00000-of-00008
    return name


def _has_dot(path: str) -> bool:
    """Return whether a file may have a suffix: no format is loaded for one without."""
    return "." in os.path.basename(path)


def _unpacked(path: str) -> str:
    """Return the name that a shard has without its compression."""
    return path.removesuffix(".gz").removesuffix(".zstd")


AUGMENT_FILE = "augment.parquet"
"""The table beside a manifest that tells the origin and the parameters of augmented copies."""


def format_of_file(path: str) -> type[Format] | None:
    """Return the format whose shards have names like this one; None if none has."""
    plain = _unpacked(path)
    if is_table_of_copies(path):
        return None
    for each in SHARDED.values() if _has_dot(plain) else ():
        if plain.endswith(each.suffix):
            return each
    # tfds: train.tfrecord-00000-of-00008; Inception: train-00000-of-01024
    return FORMATS["tfrecord"] if _NUMBERED.search(plain) else None


def writes_tree(name: str | None) -> bool:
    """Return whether data sets of a format are one tree of files; False for no format."""
    return name is not None and name in FORMATS and FORMATS[name].is_tree


def divides(name: str) -> bool:
    """Return whether each side of data sets of a format has a directory, or a list, of its own."""
    return name in FORMATS and FORMATS[name].divides


def lies_with_side(path: str) -> bool:
    """Return whether a file has the name of a shard, or of an index, in such a directory."""
    layout = format_of_file(path)
    own = (each for name, each in SHARDED.items() if divides(name))
    return (layout is not None and layout.divides) or any(
        path in each().dataset_index("", ()) for each in own
    )


def is_table_of_copies(path: str) -> bool:
    """Return whether a file has the name of the table that ``dsprep augment`` writes."""
    return f".{os.path.basename(path)}".endswith(f".{AUGMENT_FILE}")


def format_of_source(path: str) -> type[Format] | None:
    """Return the format of shards with names like this one, which others may have given."""
    plain = _unpacked(path)
    if _CHUNK.fullmatch(os.path.basename(path)):
        return ALL_FORMATS["litdata"]
    ends = _other_suffixes() if _has_dot(plain) else {}
    others = (each for suffix, each in ends.items() if plain.endswith(suffix))
    found = format_of_file(path) or next(others, None)
    return None if found is not None and found.name in TABLES else found
