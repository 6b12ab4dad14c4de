"""Images that a file names and does not hold, which lie beside it."""

from __future__ import annotations

import os
import stat

from dsprep.errors import BadSample
from dsprep.storage.local import read_whole
from dsprep.storage.paths import facts, read_bytes
from dsprep.storage.urls import is_s3


def find_beside(folder: str, path: str) -> tuple[str, int]:
    """Find an image that a file names and does not hold; returns its place and its bytes."""
    if is_s3(folder):
        return _find_object(folder, path)
    root = os.path.realpath(folder)
    try:
        full = os.path.realpath(os.path.join(root, path))
        found = os.stat(full)
    except (OSError, ValueError):
        raise BadSample(f"the file only names its image, and {path[:500]!r} is not there") from None
    if not full.startswith(root.rstrip("/") + "/") or not stat.S_ISREG(found.st_mode):
        raise BadSample(
            f"the file only names its image, and {path[:500]!r} is no file in its folder"
        )
    return full, found.st_size


def _find_object(folder: str, path: str) -> tuple[str, int]:
    parts = [part for part in path.split("/") if part != "."]
    try:
        if ".." in parts or not all(parts):
            raise FileNotFoundError
        full = "/".join((folder.rstrip("/"), *parts))
        return full, facts(full).size
    except OSError:
        raise BadSample(f"the file only names its image, and {path[:500]!r} is not there") from None


def read_beside(folder: str, path: str) -> bytes:
    """Read an image that a file names and does not hold."""
    full, size = find_beside(folder, path)
    if is_s3(full):
        return read_bytes(full, size)
    try:
        return read_whole(full, size)
    except OSError as error:
        raise BadSample(f"{path!r} cannot be read ({error.strerror})") from None
