"""``index.json`` of MDS: which shards a directory holds, and what their files are.

``StreamingDataset`` of MosaicML Streaming 0.13.0 takes the shards in the order of this file, the
compressed file (``zip_data``) if the other (``raw_data``) is not there. Names are paths below the
directory: those of ``merge_index`` lead into directories of parts.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from dsprep.errors import SourceError, source_errors
from dsprep.storage.files import is_file, open_file, read_bytes

INDEX = "index.json"
_BLOCK = 1 << 20


class ListedShard(NamedTuple):
    """A shard as an index names it."""

    path: str
    samples: int
    bytes: int
    hashes: Mapping[str, str]  # digests in hex, by the names of algorithms


def read_index(directory: str) -> list[ListedShard] | None:
    """Return the shards that the index in a directory names; None if there is none of MDS.

    Raises:
        SourceError: The index cannot be read, names files elsewhere, or shards of another format.
    """
    path = os.path.join(directory, INDEX)
    if not is_file(path):
        return None
    with source_errors(path):
        data = read_bytes(path)
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        return None
    shards = values.get("shards") if isinstance(values, dict) else None
    if not isinstance(shards, list) or not all(isinstance(each, dict) for each in shards):
        return None
    formats = {str(each.get("format")) for each in shards}
    if formats != {"mds"}:
        if formats <= {"csv", "json", "tsv", "xsv"} and values.get("version") == 2 and formats:
            raise SourceError(
                f"{path}: lists shards of {' and '.join(sorted(formats))}, not of MDS"
            )
        return None
    try:
        return [_shard(directory, each) for each in shards]
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise SourceError(f"{path}: is not an index of MDS: {error!s:.200}") from None


def _shard(directory: str, entry: Mapping[str, Any]) -> ListedShard:
    packed, raw = entry.get("zip_data"), entry["raw_data"]
    if packed and not is_file(_path(directory, packed["basename"])):
        packed = None  # it was unpacked, and only the other is kept
    file = packed or raw
    hashes = file.get("hashes") or {}
    known = {str(name): str(digest) for name, digest in hashes.items()}
    path = _path(directory, file["basename"])
    samples, size = int(entry["samples"]), int(file["bytes"])
    if not (0 <= samples < 1 << 32 and 0 <= size < 1 << 63):
        raise ValueError(f"{samples} samples in {size} bytes")
    return ListedShard(path, samples, size, known)


def _path(directory: str, name: object) -> str:
    parts = str(name).split("/")
    if not {"", ".", ".."}.isdisjoint(parts) or "\0" in str(name):
        raise ValueError(f"{name!r:.100} names no file below its directory")
    return os.path.join(directory, *parts)


def differences(shard: ListedShard) -> Iterator[str]:
    """Compare a shard with what its index says: its size, and the digests that dsprep computes."""
    hashes = {
        name: hashlib.new(name)
        for name in shard.hashes
        if name in hashlib.algorithms_available and not name.startswith("shake_")
    }
    with open_file(shard.path) as file:
        size = file.facts().size
        while hashes and (data := file.read(_BLOCK)):
            for each in hashes.values():
                each.update(data)
    if size != shard.bytes:
        yield f"has {size:,} bytes, not {shard.bytes:,} as {INDEX} says"
        return
    for name, found in hashes.items():
        if found.hexdigest() != shard.hashes[name].lower():
            yield f"its {name} is not the one in {INDEX}: bytes have changed"
