"""``index.json`` of MDS and litdata: which shards a directory holds, and what their files are.

``StreamingDataset`` of MosaicML Streaming 0.13.0 takes the shards in the order of this file, the
compressed file (``zip_data``) if the other (``raw_data``) is not there. Names are paths below the
directory: those of ``merge_index`` lead into directories of parts.

litdata 0.2.76 has ``chunks``, and one ``config`` that tells how their samples are written. The size
of a chunk (``chunk_bytes``) is the one before the whole file is compressed. Its index of a
directory of Parquet (``ParquetLoader``) tells nothing that the files do not.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dsprep.errors import SourceError, source_errors
from dsprep.storage.files import is_file, open_file, read_bytes
from dsprep.tuples import NamedTuple
from dsprep.units import quoted

INDEX = "index.json"
_LARGEST = 1 << 27  # bytes of an index: those of 100,000 shards with some columns
_BLOCK = 1 << 20
ROWS = b"LDARW01\0"  # ends a chunk of litdata that has rows of Arrow


class ListedShard(NamedTuple):
    """A shard as an index names it."""

    path: str
    samples: int
    bytes: int | None  # None if the index does not tell the size of the file
    hashes: Mapping[str, str] = {}  # digests in hex, by the names of algorithms


class ShardIndex(NamedTuple):
    """What an index tells."""

    format: str  # the name that `--from` has: `mds`, `litdata`, or `arrow` for chunks of rows
    shards: Sequence[ListedShard]
    config: Mapping[str, Any] = {}  # what litdata says of all chunks


def read_index(directory: str) -> ShardIndex | None:
    """Return what the index in a directory tells; None if there is none of MDS or litdata.

    Raises:
        SourceError: The index cannot be read, is too large, names files twice or elsewhere, or
            lists shards that dsprep does not read.
    """
    path = os.path.join(directory, INDEX)
    if not is_file(path):
        return None
    with source_errors(path):
        data = read_bytes(path, _LARGEST)
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    for name, read in (("MDS", _index_of_mds), ("litdata", _index_of_litdata)):
        try:
            if found := read(path, values):
                _require_different(path, found.shards)
                return found
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
            raise SourceError(f"{path}: is not an index of {name}: {error!s:.200}") from None
    return None


def refuse_unread(files: Iterable[str]) -> None:
    """Refuse shards that an index should list if the one beside them is damaged, or none.

    Raises:
        SourceError: An `index.json` is there, and lists no shards.
    """
    for directory in dict.fromkeys(map(os.path.dirname, files)):
        path = os.path.join(directory, INDEX)
        if is_file(path) and read_index(directory) is None:
            raise SourceError(
                f"{path}: does not list the shards beside it: write it again, or name the shards "
                "themselves"
            )


def _require_different(path: str, shards: Sequence[ListedShard]) -> None:
    """Refuse an index that lists a shard twice, whose samples would all be there twice."""
    for shard, count in Counter(each.path for each in shards).items():
        if count > 1:
            name = shard.removeprefix(f"{os.path.dirname(path)}/")
            raise SourceError(f"{path}: lists {name} {count} times: list each shard once")


def _index_of_mds(path: str, values: Mapping[str, Any]) -> ShardIndex | None:
    shards = values.get("shards")
    if not isinstance(shards, list) or not all(isinstance(each, dict) for each in shards):
        return None
    formats = {str(each.get("format")) for each in shards}
    if formats == {"mds"}:
        return ShardIndex("mds", [_shard(os.path.dirname(path), each) for each in shards])
    if formats and formats <= {"csv", "json", "tsv", "xsv"} and values.get("version") == 2:
        raise SourceError(f"{path}: lists shards of {' and '.join(sorted(formats))}, not of MDS")
    return None


def _shard(directory: str, entry: Mapping[str, Any]) -> ListedShard:
    packed, raw = entry.get("zip_data"), entry["raw_data"]
    if packed and not is_file(_path(directory, packed["basename"])):
        packed = None  # it was unpacked, and only the other is kept
    file = packed or raw
    hashes = file.get("hashes") or {}
    known = {str(name): str(digest) for name, digest in hashes.items()}
    return _listed(_path(directory, file["basename"]), entry["samples"], file["bytes"], known)


def _index_of_litdata(path: str, values: Mapping[str, Any]) -> ShardIndex | None:
    chunks, config = values.get("chunks"), values.get("config")
    if not isinstance(chunks, list) or not isinstance(config, dict) or "data_format" not in config:
        return None
    if config.get("item_loader") == "ParquetLoader":
        return None
    _require_read(path, config, chunks)
    # of chunks that are compressed as a whole, the index has the sizes before
    compression = config.get("compression")
    is_packed = compression and config.get("compression_level") in (None, "chunk")
    directory, shards = os.path.dirname(path), list[ListedShard]()
    for each in chunks:
        file = _path(directory, each["filename"])
        if is_packed and not is_file(file):  # its reader leaves the unpacked chunk in its place
            file = _path(directory, each["filename"].replace(f".{compression}", ""))
        found = _listed(file, each["chunk_size"], each["chunk_bytes"])
        shards.append(found._replace(bytes=None) if is_packed else found)
    if not shards:
        raise ValueError("it lists no chunks")
    return ShardIndex("arrow" if _has_rows(shards[0].path) else "litdata", shards, config)


def _require_read(path: str, config: Mapping[str, Any], chunks: Sequence[Any]) -> None:
    """Refuse chunks of litdata that are encrypted, or whose samples are no trees of values."""
    if config.get("encryption"):
        raise SourceError(f"{path}: its chunks are encrypted: write them without encryption")
    loader = config.get("item_loader") or "PyTreeLoader"
    if loader == "TokensLoader" or any(each.get("dim") for each in chunks):
        raise SourceError(
            f"{path}: its chunks are runs of tokens (TokensLoader), which are no samples: write "
            "them with PyTreeLoader"
        )
    if loader != "PyTreeLoader":
        raise SourceError(
            f"{path}: its chunks are for {quoted(loader)}: write them with PyTreeLoader"
        )


def _has_rows(path: str) -> bool:
    """Return whether a chunk of litdata has rows of Arrow."""
    if not is_file(path):
        return False
    with source_errors(path), open_file(path) as file:
        return file.pread(len(ROWS), max(0, file.facts().size - len(ROWS))) == ROWS


def _listed(path: str, samples: Any, size: Any, hashes: Mapping[str, str] = {}) -> ListedShard:
    samples, size = int(samples), int(size)
    if not (0 <= samples < 1 << 32 and 0 <= size < 1 << 63):
        raise ValueError(f"{samples} samples in {size} bytes")
    return ListedShard(path, samples, size, hashes)


def _path(directory: str, name: object) -> str:
    parts = str(name).split("/")
    str(name).encode()  # half a surrogate pair is no name
    if not {"", ".", ".."}.isdisjoint(parts) or "\0" in str(name):
        raise ValueError(f"{name!r:.100} names no file below its directory")
    return os.path.join(directory, *parts)


def differences(shard: ListedShard) -> Iterator[str]:
    """Compare a shard with what its index says: its size, and the digests that dsprep computes."""
    import hashlib  # slow to load

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
    if shard.bytes not in (None, size):
        yield f"has {size:,} bytes, not {shard.bytes:,} as {INDEX} says"
        return
    for name, found in hashes.items():
        if found.hexdigest() != shard.hashes[name].lower():
            yield f"its {name} is not the one in {INDEX}: bytes have changed"
