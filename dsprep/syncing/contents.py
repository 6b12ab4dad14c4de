"""What manifests tell of the files beside them: their names and checksums."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from dsprep.errors import DsprepError
from dsprep.manifests.manifest import Manifest, parse_manifest
from dsprep.syncing.ranks import is_manifest


def manifests_in(paths: Iterable[str], read: Callable[[str], bytes]) -> dict[str, Manifest]:
    """The manifests among some files, by their path; what only has the name of one is passed over.

    Args:
        paths: The files.
        read: Reads one.
    """
    found = {}
    for path in filter(is_manifest, paths):
        with suppress(DsprepError, OSError):
            found[path] = parse_manifest(read(path), path)
    return found


def names_in(path: str, manifest: Manifest) -> frozenset[str]:
    """The paths of all files that a manifest names."""
    return frozenset(_beside(path, file.name) for file in manifest.every_file())


def all_names_in(manifests: dict[str, Manifest]) -> frozenset[str]:
    """The paths of all files that manifests name."""
    return frozenset().union(*(names_in(path, each) for path, each in manifests.items()))


def checksums_in(manifests: dict[str, Manifest]) -> dict[str, int]:
    """The crc32c of every file that manifests name, by its path."""
    return {
        _beside(path, file.name): file.crc32c
        for path, manifest in manifests.items()
        for file in manifest.every_file()
    }


def _beside(path: str, name: str) -> str:
    directory, slash, _ = path.rpartition("/")
    return f"{directory}{slash}{name}"
