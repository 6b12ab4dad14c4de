"""Which data sets lie somewhere: what their manifests name, and what no manifest names."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from dsprep.dataset.manifest import MANIFEST, Manifest, read_manifest, single_of
from dsprep.errors import OtherVersion, SourceError
from dsprep.formats import FORMATS
from dsprep.opening import opened
from dsprep.storage.files import entries, exists, is_file
from dsprep.storage.local import SCRATCH
from dsprep.storage.location import is_s3, parse_url


def manifest_names(names: Collection[str], file: str | None = None) -> list[str]:
    """Return which of the files of a directory are the manifests of the data sets there."""
    # That is the manifest of the directory or, without one, those of single files. For one file,
    # they are its own manifest and that of the directory; the first one that names it counts.
    if file is not None:
        return [name for name in (f"{file}.{MANIFEST}", MANIFEST) if name in names]
    beside = [name for name in names if name.endswith(f".{MANIFEST}") and name[0] != "."]
    return [MANIFEST] if MANIFEST in names else sorted(beside)


def manifest_beside(directory: str) -> str:
    """Return the path of the manifest of a directory that holds shards, or samples, alone.

    It is empty if nothing can lie beside the directory.
    """
    plain = directory.rstrip("/")
    if is_s3(directory):
        return f"{plain}.{MANIFEST}" if parse_url(plain + "/").key else ""
    if os.path.basename(plain) in ("", ".", "..") or os.path.islink(opened(plain)):
        plain = os.path.realpath(opened(directory))
    return f"{plain}.{MANIFEST}" if os.path.basename(plain) else ""


def scratch_beside(directory: str) -> str:
    """Return where an unfinished run has its notes that writes shards alone to a directory."""
    if not (manifest := manifest_beside(directory)):
        return ""
    above, name = os.path.split(manifest.removesuffix(f".{MANIFEST}"))
    return os.path.join(above, f".{name}{SCRATCH}")


def read_beside(directory: str) -> tuple[str, Manifest] | None:
    """Return the manifest beside a directory, and its path; None if it has no such manifest."""
    path = manifest_beside(directory)
    if not path or not is_file(path):
        return None
    manifest = read_manifest(path)
    is_own = manifest.directory == single_of(os.path.basename(path))
    is_tree = manifest.format in FORMATS and FORMATS[manifest.format].is_tree
    return (path, manifest) if is_own or is_tree else None


def manifests_in(directory: str) -> list[str]:
    """Return the paths of the manifests of the data sets in a directory."""
    names = manifest_names([entry.name for entry in entries(directory)])
    if names != [MANIFEST]:
        with suppress(OtherVersion):
            if (beside := read_beside(directory)) is not None:
                return [beside[0]]
    return [os.path.join(directory, name) for name in names]


def manifest_of(
    files: Sequence[str],
    single: bool = True,
    format_name: str | None = None,
    on_error: Callable[[str, SourceError], None] = lambda path, error: None,
) -> tuple[str, Manifest] | None:
    """Return the manifest that names all of some files of a directory, and its path."""
    # It is the first one's own, if that may be a single file, or that of the directory, in it or
    # beside it.
    own, above = [f"{files[0]}.{MANIFEST}"] if single else [], os.path.dirname(files[0])
    beside = manifest_beside(above or ".")
    for path in (*own, os.path.join(above, MANIFEST), beside):
        if not path or not exists(path):
            continue
        try:
            manifest = read_manifest(path)
        except SourceError as error:
            on_error(path, error)
            continue
        directory = single_of(os.path.basename(path)) if path == beside else None
        if manifest.directory != directory:
            continue
        named = {os.path.basename(shard.name) for shard in manifest.shards}
        is_same = format_name in (None, manifest.format)
        if is_same and named.issuperset(map(os.path.basename, files)):
            return path, manifest
    return None
