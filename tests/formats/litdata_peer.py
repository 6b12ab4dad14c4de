"""Chunks of litdata as its documents describe them: a writer, for columns of a few serializers.

`tests/formats/test_litdata.py` compares it with what litdata wrote.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def _encoded(serializer: str, value: Any) -> bytes:
    if serializer == "int":
        return np.int64(value).tobytes()
    return value.encode() if serializer == "str" else bytes(value)


def chunk(columns: Mapping[str, str], samples: Sequence[Mapping[str, Any]]) -> bytes:
    """Return a chunk of samples that are not compressed."""
    rows = []
    for sample in samples:
        data = [_encoded(kind, sample[name]) for name, kind in columns.items()]
        rows.append(np.array([*map(len, data)], "<u4").tobytes() + b"".join(data))
    offsets = 4 * (len(rows) + 2) + np.cumsum([0, *map(len, rows)])
    head = np.array([len(rows), *offsets], "<u4")
    return head.tobytes() + b"".join(rows)


def write(
    where: Path, columns: Mapping[str, str], chunks: Sequence[Sequence[Mapping[str, Any]]]
) -> None:
    """Write chunks and their index."""
    where.mkdir(parents=True, exist_ok=True)
    listed = []
    for number, samples in enumerate(chunks):
        path = where / f"chunk-0-{number}.bin"
        path.write_bytes(chunk(columns, samples))
        size = path.stat().st_size
        own = {"chunk_bytes": size, "chunk_size": len(samples), "dim": None, "filename": path.name}
        listed.append(own)
    leaf = {"type": None, "context": None, "children_spec": []}
    spec = {"type": "builtins.dict", "context": json.dumps([*columns])}
    config = {
        "chunk_bytes": None,
        "chunk_size": len(chunks[0]),
        "compression": None,
        "data_format": [*columns.values()],
        "data_spec": json.dumps([1, spec | {"children_spec": [leaf for _ in columns]}]),
        "encryption": None,
        "item_loader": "PyTreeLoader",
    }
    index = {"chunks": listed, "config": config, "updated_at": "1795926698.819222"}
    (where / "index.json").write_text(json.dumps(index, sort_keys=True))
