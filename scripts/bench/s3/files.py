"""What is synced: files of random bytes, made once into the cache directory."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Files:
    """A directory of files of one size."""

    name: str
    count: int
    size: int
    cache: Path

    @property
    def root(self) -> Path:
        """The directory."""
        return self.cache / f"s3-{self.name}"

    @property
    def total(self) -> int:
        """Bytes of all files."""
        return self.count * self.size


def data_sets(cache: Path, quick: bool) -> tuple[Files, Files]:
    """The shards and the small files; few of them to try the benchmark itself."""
    shards = Files("shards", 4, 256 << 20, cache)
    small = Files("files", 2_000, 50_000, cache)
    if quick:
        return replace(shards, size=64 << 20), replace(small, count=400)
    return shards, small


def ensure(files: Files) -> None:
    """Find the files in the cache, or make them."""
    stamp = files.root.with_suffix(".json")
    recipe = [files.count, files.size]
    if stamp.exists() and json.loads(stamp.read_text()) == recipe:
        return
    stamp.unlink(missing_ok=True)
    shutil.rmtree(files.root, ignore_errors=True)
    files.root.mkdir(parents=True)
    bits = random.Random(0)
    for number in range(files.count):
        with (files.root / f"{files.name}-{number:06d}.bin").open("wb") as file:
            for start in range(0, files.size, _AT_ONCE):
                file.write(bits.randbytes(min(_AT_ONCE, files.size - start)))
    stamp.write_text(json.dumps(recipe))
