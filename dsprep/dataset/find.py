"""Which data sets lie at a place: in a directory on a disk, or below a prefix on S3.

A data set is found by its manifest. That lies in its directory (``manifest.json``), beside its
directory if this holds shards or samples alone (``DIR.manifest.json``), or beside its one file
(``train.rec.manifest.json``). A place is listed at most once, and only where a look at single names
does not do. Names and manifests alone decide the rest, in pure functions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TypeAlias

from dsprep.dataset.manifest import (
    FileEntry,
    Manifest,
    Recorded,
    parse_manifest,
    read_manifest,
    recorded_options,
    scratch_of,
    single_of,
)
from dsprep.dataset.names import MANIFEST, is_manifest, manifest_beside
from dsprep.errors import OtherVersion, SourceError
from dsprep.formats import format_of_file, writes_tree
from dsprep.frozen import Frozen
from dsprep.storage.files import entries, is_file, is_taken
from dsprep.storage.local import is_scratch
from dsprep.tuples import NamedTuple

ReadManifest: TypeAlias = Callable[[str], Manifest]
"""Reads the manifest at a path; raises SourceError if it is not one of this version."""


class Names(NamedTuple):
    """The names of files and directories directly in a place."""

    files: frozenset[str]  # names of everything that is no directory
    directories: frozenset[str]

    @property
    def every(self) -> frozenset[str]:
        return self.files | self.directories


class Place:
    """A place where data sets may lie: a directory on a disk, or a prefix on S3."""

    def __init__(self, path: str) -> None:
        self.path = path

    @cached_property
    def names(self) -> Names:
        """The names at this place, which are listed on first use."""
        files, directories = set[str](), set[str]()
        for entry in entries(self.path or "."):
            (directories if entry.is_dir() else files).add(entry.name)
        return Names(frozenset(files), frozenset(directories))

    def join(self, name: str) -> str:
        """Return the path of a file there."""
        return os.path.join(self.path, name)


class DataSet(Frozen):
    """A data set that has a manifest."""

    name: str  # what users call it: its directory, or its manifest
    place: Place  # where its manifest lies; the names of its files start there
    file: str  # the name of its manifest
    answer: Manifest | SourceError  # what reading it gave

    @property
    def path(self) -> str:
        """The path of its manifest."""
        return self.place.join(self.file)

    @property
    def own_name(self) -> str | None:
        """Its one file, or its directory, by which its companions are named; None without one."""
        return single_of(self.file)

    @property
    def manifest(self) -> Manifest:
        """Its manifest; raises SourceError if it cannot be read."""
        if isinstance(self.answer, SourceError):
            raise self.answer
        return self.answer

    @property
    def error(self) -> SourceError | None:
        """Why its manifest cannot be read; None if it can."""
        return self.answer if isinstance(self.answer, SourceError) else None

    @property
    def is_of_other_version(self) -> bool:
        """Whether its manifest is of another version, which may be taken for absent."""
        return isinstance(self.answer, OtherVersion)

    @property
    def recorded(self) -> Recorded:
        """How it was made; raises SourceError if the manifest does not say it."""
        return recorded_options(self.manifest, self.path)


# What names and manifests tell


def manifest_names(names: Collection[str]) -> list[str]:
    """Return which of the names in a directory are the manifests of the data sets there."""
    # The manifest of the directory counts; without one, those of single files count.
    single = [name for name in names if is_manifest(name) and name[0] != "."]
    return [MANIFEST] if MANIFEST in names else sorted(single)


def files_named(
    paths: Iterable[str], read: Callable[[str], bytes]
) -> dict[str, dict[str, FileEntry]]:
    """Return the files that each manifest among some files names, all by path."""
    # Files that only have the name of a manifest are skipped.
    found = {}
    for path in filter(is_manifest, paths):
        data, beside = read(path), "".join(path.rpartition("/")[:2])
        with suppress(SourceError):
            files = parse_manifest(data, path).every_file()
            found[path] = {beside + file.name: file for file in files}
    return found


def is_of(manifest: Manifest, own_name: str | None) -> bool:
    """Return whether a manifest that is named after a file or a directory is the one of that."""
    is_tree = writes_tree(manifest.format)
    is_file = any(shard.name == own_name for shard in manifest.shards)
    return is_tree or is_file or manifest.directory == own_name


def unfinished(directories: Iterable[str], known: Collection[str] = ()) -> list[str]:
    """Return which directories hold notes of unfinished runs, apart from those of known ones."""
    return sorted(name for name in directories if is_scratch(name) and name not in known)


def unnamed(
    files: Iterable[str], manifests: Sequence[Manifest], formats: Collection[str]
) -> list[str]:
    """Return which files no manifest names, although they seem to be shards of its data set.

    All files in a directory that holds shards alone seem to be; it is the beginning of their names.
    """
    known = set[str]().union(*(manifest.names() for manifest in manifests))
    is_mixed = any(manifest.options.get("single_file") for manifest in manifests)

    def is_shard(name: str) -> bool:
        layout = format_of_file(name)
        return layout is not None and (is_mixed or layout.name in formats)

    alone = tuple(f"{manifest.directory}/" for manifest in manifests if manifest.directory)
    others = sorted(name for name in files if name not in known) if manifests else []
    return [
        name
        for name in others
        if is_shard(name) or (name.startswith(alone) and not is_scratch(name))
    ]


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
    for name in names:
        each = data_set_in(place, name, read)
        found.append(replace(each, name=place.path) if len(names) == 1 else each)
    return found


def without_absent(place: Place, found: Iterable[DataSet]) -> list[DataSet]:
    """Return the data sets of a place but one beside it whose manifest is of another version."""
    return [each for each in found if each.place is place or not each.is_of_other_version]


def data_set_inside(place: Place, read: ReadManifest = read_manifest) -> DataSet | None:
    """Return the data set whose manifest lies in a directory and has a plain name."""
    if not is_taken(place.join(MANIFEST)):
        return None
    return replace(data_set_in(place, MANIFEST, read), name=place.path)


def data_set_beside(place: Place, read: ReadManifest = read_manifest) -> DataSet | None:
    """Return the data set whose manifest lies beside a directory, or a file, and is named after it.

    It is None if no such manifest is there, or if it is about other files.
    """
    path = manifest_beside(place.path or ".")
    if not path or not is_file(path):
        return None
    found = replace(data_set_at(path, read), name=place.path)
    return found if found.error is not None or is_of(found.manifest, found.own_name) else None


def data_set_at(path: str, read: ReadManifest = read_manifest) -> DataSet:
    """Return the data set of the manifest at a path."""
    above, slash, name = path.rpartition("/")
    return data_set_in(Place(above + slash), name, read)


def data_set_in(place: Place, name: str, read: ReadManifest = read_manifest) -> DataSet:
    """Return the data set of the manifest of this name in a directory."""
    path = place.join(name)
    try:
        return DataSet(path, place, name, read(path))
    except SourceError as error:
        return DataSet(path, place, name, error)


def data_sets_of(
    file: str, single: bool = True, read: ReadManifest = read_manifest
) -> Iterator[DataSet]:
    """Yield the data sets that a file may be of, the surest first.

    Its manifest is its own, if it may be a data set of one file, or that of its directory, in it or
    beside it.
    """
    own = f"{file}.{MANIFEST}"
    if single and is_taken(own):
        yield data_set_at(own, read)
    place = Place(os.path.dirname(file))
    for look in (data_set_inside, data_set_beside):
        if (found := look(place, read)) is not None:
            yield found
    layout = format_of_file(file)
    if layout is not None and layout.divides:  # the file may be one of a side
        above = Place(os.path.dirname(place.path) if place.path else os.pardir)
        if (found := data_set_inside(above, read)) is not None and _holds_side(found, file):
            yield found


def _holds_side(found: DataSet, file: str) -> bool:
    """Return whether a file lies in the directory of a side of a data set that is above it."""
    above = os.path.basename(os.path.dirname(os.path.abspath(file)))
    return found.error is None and any(
        shard.name == f"{above}/{os.path.basename(file)}" for shard in found.manifest.shards
    )


def data_set_of(
    files: Sequence[str],
    single: bool = True,
    format_name: str | None = None,
    on_error: Callable[[DataSet], None] = lambda found: None,
) -> DataSet | None:
    """Return the data set that all of some files of a directory are of; None if there is none."""
    base_names = {os.path.basename(path) for path in files}
    for found in data_sets_of(files[0], single):
        if found.error is not None:
            on_error(found)
            continue
        named = {os.path.basename(shard.name) for shard in found.manifest.shards}
        if format_name in (None, found.manifest.format) and named.issuperset(base_names):
            return found
    return None


def scratch_beside(directory: str) -> str:
    """Return where an unfinished run has its notes that writes shards alone to a directory."""
    if not (manifest := manifest_beside(directory)):
        return ""
    above, name = os.path.split(manifest.removesuffix(f".{MANIFEST}"))
    return os.path.join(above, scratch_of(name))
