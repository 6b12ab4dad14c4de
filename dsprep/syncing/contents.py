"""What manifests tell of the files beside them: their names and checksums."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from dsprep.dataset.manifest import FileReceipt, Manifest, parse_manifest
from dsprep.errors import SourceError
from dsprep.syncing.ranks import is_manifest


def manifests_in(paths: Iterable[str], read: Callable[[str], bytes]) -> dict[str, Manifest]:
    """Return the manifests among some files, by path; files that only have the name are skipped."""
    found = {}
    for path in filter(is_manifest, paths):
        data = read(path)
        with suppress(SourceError):
            found[path] = parse_manifest(data, path)
    return found


def told_in(path: str, manifest: Manifest) -> dict[str, FileReceipt]:
    """What a manifest tells of the files that it names, by their path."""
    directory, slash, _ = path.rpartition("/")
    return {f"{directory}{slash}{file.name}": file for file in manifest.every_file()}


def names_in(path: str, manifest: Manifest) -> frozenset[str]:
    """The paths of all files that a manifest names."""
    return frozenset(told_in(path, manifest))


def all_names_in(manifests: dict[str, Manifest]) -> frozenset[str]:
    """The paths of all files that manifests name."""
    return frozenset().union(*(names_in(path, each) for path, each in manifests.items()))


def checksums_in(manifests: dict[str, Manifest]) -> dict[str, int]:
    """The crc32c of every file that manifests name, by its path."""
    return {
        path: file.crc32c
        for beside, manifest in manifests.items()
        for path, file in told_in(beside, manifest).items()
    }
