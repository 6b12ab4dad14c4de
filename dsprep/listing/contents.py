"""What the files of two lists hold: told by their bytes, of which as few are read as will do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG

import polars as pl

from dsprep.storage.local import open_regular

_DIGEST_BYTES = 16
_THREADS = 16


def tell_contents(
    paths: pl.Series, other_paths: pl.Series, root: str, other_root: str
) -> tuple[pl.Series, pl.Series]:
    """Tell what files hold. Only files of a size that both lists have are read."""
    files = [
        [Path(root, path) for path in paths.to_list()],
        [Path(other_root, path) for path in other_paths.to_list()],
    ]
    with ThreadPoolExecutor(_THREADS) as threads:
        sizes = [list(threads.map(_size, each)) for each in files]
        common = set(sizes[0]) & set(sizes[1]) - {None}
        told = [
            list(threads.map(lambda file, size: _tell(file, size, size in common), *each))
            for each in zip(files, sizes, strict=True)
        ]
    return pl.Series(told[0], dtype=pl.String), pl.Series(told[1], dtype=pl.String)


def _size(path: Path) -> int | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size if S_ISREG(status.st_mode) and status.st_size else None


def _tell(path: Path, size: int | None, read: bool) -> str | None:
    if size is None or not read:
        return None if size is None else str(size)
    hashed = blake2b(digest_size=_DIGEST_BYTES)
    try:
        with open(path, "rb", opener=open_regular) as file:
            while block := file.read(1 << 20):
                hashed.update(block)
    except OSError:
        return None
    return f"{size} {hashed.hexdigest()}"
