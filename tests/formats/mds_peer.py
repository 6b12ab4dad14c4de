"""MDS as its documents describe it: a writer and a reader of their own, for columns of a few kinds.

`tests/formats/test_mds.py` compares them with what MosaicML Streaming wrote.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

SIZES = {"int": 8, "uint8": 1, "float32": 4, "float64": 8}


def _encoded(encoding: str, value: Any) -> bytes:
    if encoding == "int":
        return np.int64(value).tobytes()
    if encoding == "str":
        return str(value).encode()
    assert encoding in ("jpeg", "png", "pil", "bytes")
    return bytes(value)


def _decoded(encoding: str, data: bytes) -> Any:
    if encoding in SIZES:
        dtype = np.int64 if encoding == "int" else np.dtype(encoding)
        return np.frombuffer(data, dtype)[0].item()
    if encoding.startswith("ndarray:"):
        shape = np.frombuffer(data[1 : 1 + (1 << (data[0] & 3))], f"u{1 << (data[0] & 3)}")
        assert data[0] >> 2 == 1
        return np.frombuffer(data[1 + shape.nbytes :], encoding[8:]).reshape(shape).tolist()
    if encoding == "json":
        return json.loads(data)
    return data.decode() if encoding == "str" else data


def write_shard(
    path: Path, columns: Mapping[str, str], samples: Sequence[Mapping[str, Any]]
) -> Any:
    """Write a shard; return its entry of the index."""
    names = sorted(columns)
    encodings = [columns[name] for name in names]
    config = {"version": 2, "format": "mds", "compression": None, "hashes": [], "size_limit": None}
    config |= {"column_names": names, "column_encodings": encodings}
    config |= {"column_sizes": [SIZES.get(each) for each in encodings]}
    told, rows = json.dumps(config, sort_keys=True).encode(), []
    for sample in samples:
        data = [_encoded(columns[name], sample[name]) for name in names]
        sizes = [len(each) for each, kind in zip(data, encodings, strict=True) if kind not in SIZES]
        rows.append(np.array(sizes, "<u4").tobytes() + b"".join(data))
    start = 8 + 4 * len(rows) + len(told)
    offsets = start + np.cumsum([0, *map(len, rows)])
    head = struct.pack("<I", len(rows)) + offsets.astype("<u4").tobytes() + told
    path.write_bytes(head + b"".join(rows))
    raw = {"basename": path.name, "bytes": path.stat().st_size, "hashes": {}}
    return config | {"samples": len(rows), "raw_data": raw, "zip_data": None}


def write(
    where: Path, columns: Mapping[str, str], shards: Sequence[Sequence[Mapping[str, Any]]]
) -> None:
    """Write shards and their index."""
    where.mkdir(parents=True, exist_ok=True)
    entries = [
        write_shard(where / f"shard.{number:05}.mds", columns, samples)
        for number, samples in enumerate(shards)
    ]
    index = {"version": 2, "shards": entries}
    (where / "index.json").write_text(json.dumps(index, sort_keys=True))


def read(where: Path) -> list[dict[str, Any]]:
    """Read the samples of the shards that an index names, as `MDSReader` does."""
    found = []
    index = json.loads((where / "index.json").read_text())
    for shard in index["shards"]:
        data = (where / shard["raw_data"]["basename"]).read_bytes()
        assert len(data) == shard["raw_data"]["bytes"]
        for number in range(shard["samples"]):
            begin, end = np.frombuffer(data[4 + 4 * number : 12 + 4 * number], "<u4")
            found.append(_sample(shard, data[begin:end]))
    return found


def _sample(shard: Mapping[str, Any], data: bytes) -> dict[str, Any]:
    at, sizes = 0, []
    for size in shard["column_sizes"]:
        if not size:
            (size,) = np.frombuffer(data[at : at + 4], "<u4")
            at += 4
        sizes.append(int(size))
    found, columns = {}, zip(shard["column_names"], shard["column_encodings"], sizes, strict=True)
    for name, encoding, size in columns:
        found[name] = _decoded(encoding, data[at : at + size])
        at += size
    assert at == len(data)
    return found
