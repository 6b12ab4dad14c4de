"""Which shards a path names: those of a manifest, or those that somebody else wrote."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from dsprep.dataset.find import (
    DataSet,
    Place,
    data_set_at,
    data_set_of,
    data_sets,
    unfinished,
    unnamed,
    without_absent,
)
from dsprep.dataset.manifest import FileEntry, Manifest, Recorded
from dsprep.dataset.names import MANIFEST, UNFINISHED
from dsprep.errors import SourceError, source_errors
from dsprep.formats import ALL_FORMATS, format_of_source, suffixes
from dsprep.formats.listed_shards import INDEX, read_index, refuse_unread
from dsprep.frozen import Frozen
from dsprep.places.names import by_directory, expand, located, require_there
from dsprep.plan.destination import Destination, place_of
from dsprep.storage.files import absent, system_path
from dsprep.storage.local import is_scratch
from dsprep.storage.store import store_below
from dsprep.units import format_count

_TOTALS = ("samples", "bytes")


class Shards(Frozen):
    """The shards of one data set."""

    # options that the shards were made with; without a manifest, those that the names show
    made: Recorded
    names: Sequence[str]  # file names of the shards, whether they exist or not
    manifest: Manifest | None  # the manifest that describes the shards; None without one
    destination: Destination  # where the shards are, and the names of their companions
    notes: tuple[str, ...] = ()  # remarks on the manifest, a line each
    is_part: bool = False  # whether these are only some of the shards there

    @property
    def directory(self) -> Path:
        return self.destination.directory

    @property
    def place(self) -> Place:
        """The directory, on a disk or S3, that the shards lie in."""
        return Place(self.destination.url(self.destination.apart or ""))

    @property
    def hold_tree(self) -> bool:
        """Whether they are a tree of files that a listing describes, and no shards."""
        return self.made.layout.is_tree

    def shown(self, name: str) -> str:
        """Return the name of a file in the directory of the shards, or beside it."""
        return name.removeprefix(self.destination.shard(""))

    @property
    def present(self) -> list[str]:
        lost = set(absent([self.destination.url(name) for name in self.names]))
        return [name for name in self.names if self.destination.url(name) not in lost]


def find_shards(name: str) -> list[Shards]:
    """Find the data sets of a manifest, a shard or a directory."""
    path = Path(name)
    with source_errors(path):
        if path.is_dir():
            return _in_directory(path)
        if path.name.endswith(MANIFEST) and path.is_file():
            return [_shards_of(data_set_at(str(path)))]
        where = Destination(path.parent, path.name)
        if path.is_file():
            # A manifest of that name may be of another file that only has the same stem.
            own = [data_set_at(str(where.manifest))] if where.manifest.exists() else []
            known = [it for it in map(_shards_of, own) if path.name in it.names]
            return known or [_part_of_data_set([name]) or without_manifest(where)]
    if where.scratch.is_dir():
        raise SourceError(f"{path}: is not finished; {UNFINISHED}")
    raise SourceError(f"{path}: does not exist; give a directory of shards, or a shard")


def find_sources(name: str) -> list[Shards]:
    """Find data sets also by a pattern, a repository or one of its sides, as ``convert`` does."""
    try:
        return find_shards(name)
    except SourceError:
        is_pattern = any(mark in name for mark in "*?[{")
        if format_of_source(name) is not None and not is_pattern:
            raise  # the error is about a damaged or missing shard
        place = located(name)
        if place != name and os.path.isdir(place):
            return find_shards(place)
        files = [place] if os.path.exists(place) else expand(place)
        if files == [name]:
            raise
    require_there(files, name)
    return [_some_of(own) for own in by_directory(files)]


def _in_directory(path: Path) -> list[Shards]:
    place = Place(str(path))
    own = [_shards_of(each) for each in without_absent(place, data_sets(place))]
    return own or [without_manifest(place_of(str(path)))]


def _some_of(files: Sequence[str]) -> Shards:
    """Return some of the shards of a directory, with its manifest if that names all of them."""
    if (known := _part_of_data_set(files)) is not None:
        return known
    names = [os.path.basename(path) for path in files]
    where = Destination(Path(files[0]).parent)
    return replace(without_manifest(where, names), is_part=True)


def _part_of_data_set(files: Sequence[str]) -> Shards | None:
    """Return some of the shards of the data set of a directory; None if it does not name them."""
    with suppress(SourceError):  # a file of the same name may be that of another program
        if found := data_set_of(files, single=False):
            whole, manifest = of_data_set(found), found.manifest
            wanted = set(map(os.path.basename, files))
            shards = [each for each in manifest.shards if os.path.basename(each.name) in wanted]
            names = [shard.name for shard in shards]
            samples, size = (sum(getattr(it, what) for it in shards) for what in _TOTALS)
            manifest = replace(manifest, shards=shards, samples=samples, bytes=size)
            return replace(whole, names=names, manifest=manifest, is_part=True)
    return None


def of_data_set(found: DataSet) -> Shards:
    """Return the shards of a data set, as its manifest has them."""
    manifest, path = found.manifest, found.place.path
    own = None if manifest.directory else found.own_name
    if system_path(path) is not None:
        where = Destination(Path(path), own, apart=manifest.directory)
    else:
        store, prefix = store_below(path)
        where = Destination(Path(), own, store.url(prefix), manifest.directory)
    names = [shard.name for shard in manifest.shards]
    count, file = format_count(manifest.rejected, "sample"), where.companion("rejects.jsonl").name
    notes = (f"{count} of the source not in the shards: {file} says why",) * (manifest.rejected > 0)
    return Shards(found.recorded, names, manifest, where, notes)


def _shards_of(found: DataSet) -> Shards:
    """Return the shards of a data set; those that are there if its manifest has another version."""
    if not found.is_of_other_version:
        return of_data_set(found)
    note = f"{found.error}; it is taken for absent"
    try:
        others = without_manifest(Destination(Path(found.place.path), found.own_name))
    except SourceError as nothing:
        raise SourceError(f"{note}, but {nothing}") from None
    return replace(others, notes=(*others.notes, note))


def without_manifest(where: Destination, names: Sequence[str] = ()) -> Shards:
    """Return shards that have no manifest: those of these names, or all in the directory."""
    directory, by_format = where.directory, dict[str, list[str]]()
    indexed = None if names or where.single else read_index(str(where.place))
    names = [where.single] if where.single else names
    if indexed:
        names = [os.path.relpath(each.path, directory) for each in indexed.shards]
    there = names or sorted(map(where.shard, os.listdir(where.place)))
    for name in there:
        layout = ALL_FORMATS[indexed.format] if indexed else format_of_source(name)
        if names and layout is None:
            raise SourceError(f"{directory / name}: its name is not that of a shard ({suffixes()})")
        if layout and (names or (name[0] != "." and (directory / name).is_file())):
            by_format.setdefault(layout.name, []).append(name)
    if not by_format:
        is_begun = any(map(is_scratch, there)) or (where.apart and where.scratch.is_dir())
        what = f"finished shard; {UNFINISHED}" if is_begun else ""
        raise SourceError(f"{where.place}: holds no {what or f'shards ({suffixes()})'}")
    tables = {name for name in by_format if not ALL_FORMATS[name].in_spans}
    # img2dataset writes a Parquet file beside each shard
    if tables and not names and len(by_format) == len(tables) + 1:
        for name in tables:
            del by_format[name]
    if len(by_format) > 1:
        raise SourceError(
            f"{where.place}: shards of {' and '.join(sorted(by_format))}; name those of one format"
            if names
            else f"{where.place}: holds shards of {' and '.join(by_format)}; name them file by file"
        )
    ((kind, found),) = by_format.items()
    paths = [where.url(each) for each in found]
    made_as = ALL_FORMATS[kind]()
    if not names and INDEX in made_as.dataset_index("", ()):
        refuse_unread(paths)
    made = Recorded(made_as.told_by(paths), known=False)
    return Shards(made, found, None, where)


def strays(path: str, found: Sequence[Shards]) -> Iterator[tuple[str, str]]:
    """Find the shards that no manifest names, and what unfinished runs have left."""
    places = {str(shards.destination.place): shards.destination for shards in found}
    for where in () if found[0].is_part else places.values():
        if not os.path.isdir(where.place):  # the directory beside a manifest may be gone
            continue
        is_whole = os.path.isdir(path) and os.path.samefile(path, where.place)
        if is_whole or where.single is None:
            # single shards that the user names leave nothing over
            names = [*map(where.shard, os.listdir(where.place))]
            names += _in_sides(where.place, found)
            yield from left_over(names, names if is_whole else (), found, where.apart)


def _in_sides(place: Path, found: Sequence[Shards]) -> Iterator[str]:
    """Return the names of what lies in the directories of sides."""
    manifests = (shards.manifest for shards in found if shards.manifest)
    for side in {side for each in manifests if each.is_divided for side in each.sides.values()}:
        if (place / side).is_dir():
            yield from (f"{side}/{name}" for name in os.listdir(place / side))


def left_over(
    files: Collection[str],
    directories: Collection[str],
    found: Sequence[Shards],
    apart: str | None = None,
) -> Iterator[tuple[str, str]]:
    """Find unfinished runs among directories, and shards that no manifest names among files.

    A directory that holds shards alone, ``apart``, has no other files.
    """
    place = f"{apart}/" if apart else ""
    for name in unfinished(directories, {shards.destination.scratch.name for shards in found}):
        yield name.removeprefix(place), UNFINISHED
    manifests = [shards.manifest for shards in found if shards.manifest]
    for name in unnamed(files, manifests, {shards.made.layout.name for shards in found}):
        yield name.removeprefix(place), "is there, but not in the manifest"


# A file and a manifest, compared


def difference(receipt: FileEntry, size: int, crc32c: int | None) -> str:
    """Say how a file differs from the one that was written; empty if it does not."""
    if size != receipt.bytes:
        return f"has {size:,} bytes, not {receipt.bytes:,}"
    if crc32c not in (None, receipt.crc32c):
        return f"its crc32c is {crc32c:08x}, not {receipt.crc32c:08x}: bytes have changed"
    return ""


def false_totals(manifest: Manifest) -> Iterator[str]:
    """Find where a manifest does not agree with itself."""
    for what in _TOTALS:
        says, sums = getattr(manifest, what), sum(getattr(shard, what) for shard in manifest.shards)
        if says != sums:
            yield f"says {says:,} {what}, but its shards {sums:,}"
    label = manifest.schema.label_field if manifest.schema else None
    if label is not None and label.names and label.names != (manifest.classes or label.names):
        yield f"names other classes than its field {label.name!r}"
