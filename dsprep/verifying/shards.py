"""Which shards a path names: those of a manifest, or those that somebody else wrote."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from dsprep.dataset.manifest import (
    MANIFEST,
    UNFINISHED,
    FileReceipt,
    Manifest,
    manifest_names,
    read_manifest,
    single_of,
)
from dsprep.dataset.recorded import Recorded, recorded_options
from dsprep.errors import OtherVersion, SourceError
from dsprep.formats import FORMATS, SUFFIXES, format_of_file, format_of_source
from dsprep.plan.destination import Destination
from dsprep.sources.names import expand, located
from dsprep.storage.files import absent
from dsprep.storage.local import is_scratch
from dsprep.units import format_count


@dataclass(frozen=True)
class Shards:
    """The shards of one data set."""

    made: Recorded  # how they were made; without a manifest, what their names tell
    names: Sequence[str]  # their file names, whether they are there or not
    manifest: Manifest | None  # what they should be; None if nothing tells
    destination: Destination  # where they are, and the names of their companions
    manifest_name: str = ""  # the file name of the manifest
    notes: tuple[str, ...] = ()  # remarks on the manifest, a line each
    is_part: bool = False  # whether these are only some of the shards there

    @property
    def directory(self) -> Path:
        """The directory of the shards."""
        return self.destination.directory

    @property
    def present(self) -> list[str]:
        """The file names of the shards that are there."""
        return [name for name in self.names if (self.directory / name).is_file()]


def find_shards(path: Path) -> list[Shards]:
    """Find the data sets of a manifest, a shard or a directory."""
    try:
        return _look(path)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from None


def find_sources(name: str) -> list[Shards]:
    """Find data sets also by a pattern, a repository or one of its sides, as ``convert`` does."""
    try:
        return find_shards(Path(name))
    except SourceError:
        is_pattern = any(mark in name for mark in "*?[{")
        if format_of_source(name) is not None and not is_pattern:
            raise  # a shard that is damaged or missing
        place = located(name)
        if place != name and os.path.isdir(place):
            return find_shards(Path(place))
        files = [place] if os.path.exists(place) else expand(place)
        if files == [name]:
            raise
    if missing := absent(files):
        raise SourceError(f"{missing[0]}: there is no such shard ({name})")
    directories: dict[str, list[str]] = {}
    for file in files:
        directories.setdefault(os.path.dirname(file), []).append(os.path.basename(file))
    return [_some_of(Path(directory), names) for directory, names in directories.items()]


def _look(path: Path) -> list[Shards]:
    if path.name.endswith(MANIFEST) and path.is_file():
        return [_with_manifest(path)]
    if path.is_file():
        known = Destination(path.parent, path.name).manifest
        if known.exists():
            found = _with_manifest(known)
            if found.manifest is None or found.manifest.has_shard(path.name):
                return [found]
        return [_one(path)]
    if not path.is_dir():
        if Destination(path.parent, path.name).scratch.is_dir():
            raise SourceError(f"{path}: is not finished; {UNFINISHED}")
        raise SourceError(f"{path}: does not exist; give a directory of shards, or a shard")
    beside = path.resolve().with_name(f"{path.resolve().name}.{MANIFEST}")
    own = manifest_names(os.listdir(path))
    if own == [MANIFEST]:
        return [_with_manifest(path / MANIFEST)]
    with suppress(OtherVersion):
        if beside.exists() and (found := _recorded(beside)).made.layout.is_tree:
            return [found]
    return [_with_manifest(path / name) for name in own] or [_without_manifest(path)]


def _some_of(directory: Path, names: Sequence[str]) -> Shards:
    """Return some of the shards of a directory, with its manifest if that names all of them."""
    if (directory / MANIFEST).exists():
        with suppress(SourceError):  # another program may have written a file of that name
            whole = _recorded(directory / MANIFEST)
            assert whole.manifest is not None
            wanted = set(names)
            shards = [shard for shard in whole.manifest.shards if shard.name in wanted]
            if len(shards) == len(names):
                manifest = replace(
                    whole.manifest,
                    shards=shards,
                    samples=sum(shard.samples for shard in shards),
                    bytes=sum(shard.bytes for shard in shards),
                )
                return replace(whole, names=names, manifest=manifest, is_part=True)
    layouts = {layout.name: layout for name in names if (layout := format_of_source(name))}
    odd = [name for name in names if format_of_source(name) is None]
    if odd:
        raise SourceError(f"{directory / odd[0]}: its name is not that of a shard ({SUFFIXES})")
    if len(layouts) > 1:
        kinds = " and ".join(sorted(layouts))
        raise SourceError(f"{directory}: shards of {kinds}; name those of one format")
    ((_, layout),) = layouts.items()
    made = Recorded(layout(), known=False)
    return Shards(made, names, None, Destination(directory), is_part=True)


def _with_manifest(path: Path) -> Shards:
    """Return the shards of a manifest; those beside it, if it is of another version."""
    try:
        return _recorded(path)
    except OtherVersion as error:
        single, note = single_of(path.name), f"{error}; it is taken for absent"
        try:
            others = _one(path.with_name(single)) if single else _without_manifest(path.parent)
        except SourceError as nothing:
            raise SourceError(f"{note}, but {nothing}") from None
        return replace(others, notes=(*others.notes, note))


def _recorded(path: Path) -> Shards:
    manifest = read_manifest(path)
    try:
        made = recorded_options(manifest)
    except SourceError as error:
        raise SourceError(f"{path}: {error}") from None
    destination = Destination(path.parent, single_of(path.name))
    names = [shard.name for shard in manifest.shards]
    return Shards(made, names, manifest, destination, path.name)


def _one(path: Path) -> Shards:
    """Return a shard that has no manifest."""
    layout = format_of_source(path.name)
    if layout is None:
        raise SourceError(f"{path}: its name is not that of a shard ({SUFFIXES})")
    made = Recorded(layout(), known=False)
    return Shards(made, [path.name], None, Destination(path.parent, path.name))


def _without_manifest(directory: Path) -> Shards:
    by_format: dict[str, list[str]] = {}
    for name in sorted(path.name for path in directory.iterdir() if path.is_file()):
        layout = format_of_source(name)
        if layout is not None and not name.startswith("."):
            by_format.setdefault(layout.name, []).append(name)
    if not by_format and any(is_scratch(path.name) for path in directory.iterdir()):
        raise SourceError(f"{directory}: holds no finished shard; {UNFINISHED}")
    if not by_format:
        raise SourceError(f"{directory}: holds no shards ({SUFFIXES})")
    notes: tuple[str, ...] = ()
    tables = {name for name in by_format if not FORMATS[name].concatenative}
    if tables and len(by_format) == len(tables) + 1:  # as img2dataset writes them
        for name in tables:
            count = format_count(len(by_format.pop(name)), "file")
            notes += (f"{count} of {name} beside the shards passed over",)
    if len(by_format) > 1:
        raise SourceError(
            f"{directory}: holds shards of {' and '.join(by_format)}; name them file by file"
        )
    ((format_name, names),) = by_format.items()
    made = Recorded(FORMATS[format_name](), known=False)
    return Shards(made, names, None, Destination(directory), notes=notes)


def shards_of_others(shards: Shards) -> Shards:
    """Return the shards that are there, whatever the manifest says."""
    if shards.destination.single is None:
        return _without_manifest(shards.directory)
    made = Recorded(type(shards.made.layout)(), known=False)
    return Shards(made, shards.present, None, shards.destination)


def strays(path: Path, found: Sequence[Shards]) -> Iterator[tuple[str, str]]:
    """Find the shards that no manifest names, and what unfinished runs have left."""
    directory = found[0].directory
    is_whole = path.is_dir() and path.samefile(directory)
    if found[0].is_part or (not is_whole and found[0].destination.single is not None):
        return  # the others there were not named
    names = [path.name for path in directory.iterdir()]
    if is_whole:
        yield from unfinished(names, {shards.destination.scratch.name for shards in found})
    manifests = [shards.manifest for shards in found if shards.manifest]
    formats = {shards.made.layout.name for shards in found}
    for name in unnamed(names, manifests, formats) if manifests else ():
        yield name, "is there, but not in the manifest"


# A file and a manifest, compared


def difference(receipt: FileReceipt, size: int, crc32c: int | None) -> str:
    """Say how a file differs from the one that was written; empty if it does not."""
    if size != receipt.bytes:
        return f"has {size:,} bytes, not {receipt.bytes:,}"
    if crc32c not in (None, receipt.crc32c):
        return f"its crc32c is {crc32c:08x}, not {receipt.crc32c:08x}: bytes have changed"
    return ""


def false_totals(manifest: Manifest) -> Iterator[str]:
    """Find where a manifest does not agree with itself."""
    for what in ("samples", "bytes"):
        says, sums = getattr(manifest, what), sum(getattr(shard, what) for shard in manifest.shards)
        if says != sums:
            yield f"says {says:,} {what}, but its shards {sums:,}"
    label = manifest.schema.label_field if manifest.schema else None
    if label is not None and label.names and label.names != (manifest.classes or label.names):
        yield f"names other classes than its field {label.name!r}"


def unnamed(
    names: Iterable[str], manifests: Sequence[Manifest], formats: set[str]
) -> Iterator[str]:
    """Find the files that look like shards of these formats, and that no manifest names."""
    known = {file.name for manifest in manifests for file in manifest.every_file()}
    single = any(manifest.options.get("single_file") for manifest in manifests)
    for name in sorted(names):
        layout = format_of_file(name)
        if name not in known and layout is not None and (single or layout.name in formats):
            yield name


def unfinished(names: Iterable[str], known: set[str]) -> Iterator[tuple[str, str]]:
    """Find what unfinished runs have left."""
    for name in sorted(names):
        if is_scratch(name) and name not in known:
            yield name, UNFINISHED
