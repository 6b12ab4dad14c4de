"""What tests of syncing share: folders of files, and what is in them."""

from __future__ import annotations

import json
from pathlib import Path

import google_crc32c

from tests.transfers import PART, file_of

LARGE = PART + 200_000
"""The size of a file that goes in two parts."""


def tree(root: Path) -> dict[str, bytes]:
    """Every file below a directory, but for what an unfinished run keeps there."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".dsprep" not in path.parts
    }


def data_set(root: Path, large: int = 1, small: int = 2, seed: int = 0) -> dict[str, bytes]:
    """Write a directory of shards with a manifest; returns its files."""
    root.mkdir(parents=True, exist_ok=True)
    sizes = [LARGE] * large + [10_000 + number for number in range(small)]
    shards = []
    for number, size in enumerate(sizes):
        name = f"set-{number:02}.tar"
        data = file_of(root / name, size, seed + number)
        crc32c = f"{google_crc32c.value(data):08x}"
        shards.append({"name": name, "bytes": size, "crc32c": crc32c, "samples": 1, "sidecars": []})
    manifest = {
        "dsprep_manifest": 2,
        "format": "webdataset",
        "name": "set",
        "classes": None,
        "samples": len(shards),
        "rejected": 0,
        "bytes": sum(sizes),
        "source": "",
        "options": {},
        "shards": shards,
        "files": [],
        "schema": None,
        "enforced": False,
    }
    (root / "manifest.json").write_text(json.dumps(manifest))
    return tree(root)
