"""What manifests are called, and where they lie: what is known without reading any."""

from __future__ import annotations

import os

from dsprep.opening import opened
from dsprep.storage.store import scheme_of, store_of

MANIFEST = "manifest.json"
"""The file name of the manifest of a directory; that of a single file ends with it."""

UNFINISHED = (
    "a run is writing there, or was stopped: wait for it, or give its command again, which "
    "dsprep status shows"
)
"""What to say of a directory that a run keeps its notes in."""


def is_manifest(path: str) -> bool:
    """Return whether a file has the name of a manifest."""
    name = path.rpartition("/")[2]
    return name == MANIFEST or name.endswith(f".{MANIFEST}")


def manifest_beside(directory: str) -> str:
    """Return the path of the manifest of a directory that holds shards, or samples, alone.

    It is empty if nothing can lie beside the directory.
    """
    plain = directory.rstrip("/")
    if scheme_of(directory):
        return f"{plain}.{MANIFEST}" if store_of(f"{plain}/")[1] else ""
    if os.path.basename(plain) in ("", ".", "..") or os.path.islink(opened(plain)):
        plain = os.path.realpath(opened(directory))
    return f"{plain}.{MANIFEST}" if os.path.basename(plain) else ""
