"""Which shards a path names: those of a manifest, or those that somebody else wrote."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from dsprep.dataset.manifest import Manifest, read_manifest
from dsprep.dataset.recorded import Recorded, recorded_options
from dsprep.errors import OtherVersion, SourceError
from dsprep.formats import FORMATS, SUFFIXES, format_of_file
from dsprep.plan.destination import Destination
from dsprep.storage.local import is_scratch
from dsprep.units import format_count
from dsprep.verifying.receipts import UNFINISHED, unfinished, unnamed


@dataclass(frozen=True)
class Shards:
    """The shards of one data set."""

    made: Recorded  # how they were made, or else what their names tell of that
    names: Sequence[str]  # their file names: those that should be there
    manifest: Manifest | None  # what they should be; None if nothing tells
    destination: Destination  # where they are, and what their companions are called
    manifest_name: str = ""  # the file name of the manifest
    notes: tuple[str, ...] = ()  # what there is to say of the manifest, a line each

    @property
    def directory(self) -> Path:
        """Where they are."""
        return self.destination.directory

    @property
    def present(self) -> list[str]:
        """The file names of those that are there."""
        return [name for name in self.names if (self.directory / name).is_file()]


def find_shards(path: Path) -> list[Shards]:
    """Tell what a path names: a manifest, data sets, or shards that somebody else wrote."""
    try:
        return _look(path)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from None


def _look(path: Path) -> list[Shards]:
    if path.name.endswith("manifest.json") and path.is_file():
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
    beside = path.resolve().with_name(f"{path.resolve().name}.manifest.json")
    if (path / "manifest.json").exists():
        return [_with_manifest(path / "manifest.json")]
    with suppress(OtherVersion):
        if beside.exists() and (found := _recorded(beside)).made.layout.is_tree:
            return [found]
    singles = sorted(path.glob("[!.]*.manifest.json"))
    return [_with_manifest(each) for each in singles] or [_without_manifest(path)]


def _with_manifest(path: Path) -> Shards:
    """The shards of a manifest; those beside it, if it is of another version."""
    try:
        return _recorded(path)
    except OtherVersion as error:
        single, said = _single(path), f"{error}; it is taken for absent"
        try:
            others = _one(path.with_name(single)) if single else _without_manifest(path.parent)
        except SourceError as nothing:
            raise SourceError(f"{said}, but {nothing}") from None
        return replace(others, notes=(*others.notes, said))


def _recorded(path: Path) -> Shards:
    manifest = read_manifest(path)
    try:
        made = recorded_options(manifest)
    except SourceError as error:
        raise SourceError(f"{path}: {error}") from None
    destination = Destination(path.parent, _single(path) or None)
    names = [shard.name for shard in manifest.shards]
    return Shards(made, names, manifest, destination, path.name)


def _single(manifest: Path) -> str:
    """The one file that a manifest is of; empty if it is that of a directory."""
    return manifest.name.removesuffix("manifest.json").removesuffix(".")


def _one(path: Path) -> Shards:
    """A shard that has no manifest."""
    layout = format_of_file(path.name)
    if layout is None:
        raise SourceError(f"{path}: its name is not that of a shard ({SUFFIXES})")
    made = Recorded(layout(), known=False)
    return Shards(made, [path.name], None, Destination(path.parent, path.name))


def _without_manifest(directory: Path) -> Shards:
    by_format: dict[str, list[str]] = {}
    for name in sorted(each.name for each in directory.iterdir() if each.is_file()):
        layout = format_of_file(name)
        if layout is not None and not name.startswith("."):
            by_format.setdefault(layout.name, []).append(name)
    if not by_format and any(is_scratch(each.name) for each in directory.iterdir()):
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


def strays(path: Path, found: Sequence[Shards]) -> Iterable[tuple[str, str]]:
    """The shards that no manifest names, and what runs have left that are not finished."""
    directory = found[0].directory
    is_whole = path.is_dir() and path.samefile(directory)
    if not is_whole and found[0].destination.single is not None:
        return  # what lies beside it is not meant
    names = [each.name for each in directory.iterdir()]
    if is_whole:
        yield from unfinished(names, {shards.destination.scratch.name for shards in found})
    manifests = [shards.manifest for shards in found if shards.manifest]
    formats = {shards.made.layout.name for shards in found}
    for name in unnamed(names, manifests, formats) if manifests else ():
        yield name, "is there, but not in the manifest"


def shards_of_others(shards: Shards) -> Shards:
    """What lies in the place of a data set, whatever its manifest says."""
    if shards.destination.single is None:
        return _without_manifest(shards.directory)
    made = Recorded(type(shards.made.layout)(), known=False)
    return Shards(made, shards.present, None, shards.destination)
