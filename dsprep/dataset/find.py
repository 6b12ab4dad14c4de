"""Which data sets lie at a place: in a directory on a disk, or below a prefix on S3.

A data set is found by its manifest. That lies in its directory (``manifest.json``), beside its
directory if this holds shards or samples alone (``DIR.manifest.json``), or beside its one file
(``train.rec.manifest.json``). A place is listed at most once, and only where a look at single names
does not do. Names and manifests alone decide the rest, in pure functions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

from dsprep.dataset.manifest import MANIFEST, Manifest, read_manifest, scratch_of, single_of
from dsprep.errors import OtherVersion, SourceError
from dsprep.formats import FORMATS, format_of_file
from dsprep.opening import opened
from dsprep.storage.files import entries, exists, is_file
from dsprep.storage.local import is_scratch
from dsprep.storage.location import is_s3, parse_url

ReadManifest: TypeAlias = Callable[[str], Manifest]
"""Reads the manifest at a path; raises SourceError if it is not one of this version."""


class Names(NamedTuple):
    """The names that lie directly in a directory, or below a prefix."""

    files: frozenset[str]  # of everything that is no directory
    directories: frozenset[str]

    @property
    def every(self) -> frozenset[str]:
        return self.files | self.directories


class Place:
    """A directory on a disk, or a prefix on S3."""

    def __init__(self, path: str) -> None:
        self.path = path

    @cached_property
    def names(self) -> Names:
        """What lies there, listed when this is asked for the first time."""
        files, directories = set[str](), set[str]()
        for entry in entries(self.path or "."):
            (directories if entry.is_dir() else files).add(entry.name)
        return Names(frozenset(files), frozenset(directories))

    def join(self, name: str) -> str:
        """Return the path of a file there."""
        return os.path.join(self.path, name)


@dataclass(frozen=True)
class DataSet:
    """A data set that has a manifest."""

    place: Place  # where its manifest lies; the names of its files start there
    file: str  # the name of its manifest
    manifest: Manifest | None  # None if it cannot be read
    error: SourceError | None = None  # why it cannot be read

    @property
    def path(self) -> str:
        """The path of its manifest."""
        return self.place.join(self.file)

    @property
    def own_name(self) -> str | None:
        """Its one file, or its directory, by which its companions are named; None without one."""
        return single_of(self.file)

    @property
    def is_of_other_version(self) -> bool:
        """Whether its manifest is of another version, which may be taken for absent."""
        return isinstance(self.error, OtherVersion)

    @property
    def required(self) -> Manifest:
        """Its manifest; raises SourceError if it cannot be read."""
        if self.manifest is None:
            raise self.error or SourceError(f"{self.path}: cannot be read")
        return self.manifest


# What names and manifests tell


def manifest_names(names: Collection[str]) -> list[str]:
    """Return which of the names in a directory are the manifests of the data sets there."""
    # The manifest of the directory counts; without one, those of single files count.
    single = [name for name in names if name.endswith(f".{MANIFEST}") and name[0] != "."]
    return [MANIFEST] if MANIFEST in names else sorted(single)


def is_beside(manifest: Manifest, directory: str | None) -> bool:
    """Return whether a manifest beside a directory is that of what the directory holds."""
    is_tree = manifest.format in FORMATS and FORMATS[manifest.format].is_tree
    return is_tree or manifest.directory == directory


def unfinished(directories: Iterable[str], own: Collection[str] = ()) -> list[str]:
    """Return which directories hold notes of unfinished runs, apart from those of known ones."""
    return sorted(name for name in directories if is_scratch(name) and name not in own)


def unnamed(
    files: Iterable[str], manifests: Sequence[Manifest], formats: Collection[str]
) -> list[str]:
    """Return which files no manifest names, although they seem to be shards of its data set.

    All files in a directory that holds shards alone seem to be; it is part of their names.
    """
    known = set[str]().union(*(manifest.names() for manifest in manifests))
    is_mixed = any(manifest.options.get("single_file") for manifest in manifests)

    def is_shard(name: str) -> bool:
        layout = format_of_file(name)
        return layout is not None and (is_mixed or layout.name in formats)

    is_alone = any(manifest.directory for manifest in manifests)
    others = sorted(name for name in files if name not in known) if manifests else []
    return [name for name in others if is_shard(name) or (is_alone and not is_scratch(name))]


# Looking at places


def data_sets(place: Place, read: ReadManifest = read_manifest) -> list[DataSet]:
    """Return the data sets in a directory: the one that fills it, or those of single files.

    A manifest beside the directory decides, unless it is of another version: then it comes first.
    """
    names, found = manifest_names(place.names.every), list[DataSet]()
    if names != [MANIFEST] and (beside := data_set_beside(place, read)) is not None:
        found.append(beside)
        if not beside.is_of_other_version:
            return found
    return found + [data_set_in(place, name, read) for name in names]


def without_absent(place: Place, found: Iterable[DataSet]) -> list[DataSet]:
    """Return the data sets of a place but one beside it whose manifest is of another version."""
    return [each for each in found if each.place is place or not each.is_of_other_version]


def data_set_beside(place: Place, read: ReadManifest = read_manifest) -> DataSet | None:
    """Return the data set whose manifest lies beside a directory; None if there is none."""
    path = manifest_beside(place.path)
    if not path or not is_file(path):
        return None
    found = data_set_at(path, read)
    is_own = found.manifest is None or is_beside(found.manifest, found.own_name)
    return found if is_own else None


def data_set_at(path: str, read: ReadManifest = read_manifest) -> DataSet:
    """Return the data set of the manifest at a path."""
    above, slash, name = path.rpartition("/")
    return data_set_in(Place(above + slash), name, read)


def data_set_in(place: Place, name: str, read: ReadManifest = read_manifest) -> DataSet:
    """Return the data set of the manifest of this name in a directory."""
    try:
        return DataSet(place, name, read(place.join(name)))
    except SourceError as error:
        return DataSet(place, name, None, error)


def data_set_of(
    files: Sequence[str],
    single: bool = True,
    format_name: str | None = None,
    on_error: Callable[[DataSet], None] = lambda found: None,
) -> DataSet | None:
    """Return the data set that all of some files of a directory are of; None if there is none."""
    # Its manifest is the first one's own, if that may be a single file, or that of the directory,
    # in it or beside it.
    above = os.path.dirname(files[0])
    own = [f"{files[0]}.{MANIFEST}"] if single else []
    beside = manifest_beside(above or ".")
    for path in (*own, os.path.join(above, MANIFEST), beside):
        if not path or not exists(path):
            continue
        found = data_set_at(path)
        manifest = found.manifest
        if manifest is None:
            on_error(found)
            continue
        if manifest.directory != (found.own_name if path == beside else None):
            continue
        named = {os.path.basename(shard.name) for shard in manifest.shards}
        is_same = format_name in (None, manifest.format)
        if is_same and named.issuperset(map(os.path.basename, files)):
            return found
    return None


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
    return os.path.join(above, scratch_of(name))


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
