"""Which data sets a URL names: those of the manifests that are there on S3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import NamedTuple

from dsprep.dataset.manifest import FileReceipt, Manifest, parse_manifest
from dsprep.dataset.recorded import recorded_options
from dsprep.errors import SourceError
from dsprep.formats import Format, format_of_file
from dsprep.storage.bucket import S3Store
from dsprep.storage.connected import store_of
from dsprep.storage.crc import is_whole
from dsprep.storage.local import scratch_name
from dsprep.storage.readback import read_small
from dsprep.storage.urls import parse_url
from dsprep.verifying.inspection import Problem
from dsprep.verifying.receipts import unfinished, unnamed

_MANIFEST = "manifest.json"


class Claim(NamedTuple):
    """A file that should be there."""

    file: FileReceipt  # what it should be; its name goes on where the keys of the data set begin
    samples: int = 0  # how many samples it stands for
    is_data: bool = False  # whether it holds samples, rather than belongs to what does


@dataclass(frozen=True)
class Place:
    """What lies right below a prefix on S3."""

    store: S3Store  # the bucket
    prefix: str  # what keys begin with: nothing, or up to a slash
    names: frozenset[str] = frozenset()  # of the objects
    deeper: frozenset[str] = frozenset()  # of what would be directories

    def key(self, name: str) -> str:
        """The key of an object."""
        return self.prefix + name

    def url(self, name: str = "") -> str:
        """What users call an object."""
        return self.store.url(self.key(name))


@dataclass(frozen=True)
class Published:
    """A data set on S3, or one shard of it."""

    place: Place  # where it is
    manifest: Manifest  # what it consists of
    manifest_name: str  # the name of the manifest
    layout: Format  # the format
    shard: str = ""  # the one shard that is meant; empty for the whole

    @property
    def single(self) -> str:
        """The one file or folder that it is; empty if it has the place for itself."""
        return self.manifest_name.removesuffix(_MANIFEST).removesuffix(".")

    @property
    def scratch(self) -> str:
        """Below what a run keeps its notes that is not finished."""
        return scratch_name(self.single)

    def claims(self) -> Iterator[Claim]:
        """The files that the manifest names."""
        for shard in self.manifest.shards:
            if self.shard in ("", shard.name):
                yield Claim(shard, shard.samples, True)
                yield from map(Claim, shard.sidecars)
        if not self.shard:
            yield from map(Claim, self.manifest.files)


class Named(NamedTuple):
    """What a URL names."""

    sets: Sequence[Published]  # the data sets
    problems: Sequence[Problem]  # manifests that cannot be read, and shards that no manifest names


def find_published(url: str) -> Named:
    """Tell what a URL names: a manifest, a shard, or a prefix."""
    bucket, key = parse_url(url)
    above, slash, name = key.rpartition("/")
    layout = format_of_file(name)
    is_manifest = name.endswith(_MANIFEST)
    is_file = is_manifest or layout is not None
    prefix = above + slash if is_file or not name else key + "/"
    place = _look_at(store_of(bucket), prefix)
    if is_manifest:
        found = [_read(place, name)] if name in place.names else []
    elif layout is not None:
        found = _of_shard(place, name)
    else:
        found = _of_prefix(place)
    if not found:
        nothing = layout is not None and name not in place.names
        raise SourceError(f"{url}: {_nothing(key) if nothing else _without_manifest(place, key)}")
    sets = [each for each in found if isinstance(each, Published)]
    problems = [each for each in found if isinstance(each, Problem)]
    if not is_file or name == _MANIFEST:
        problems += _strays(place, [each for each in sets if each.place is place])
    return Named(sets, problems)


def _look_at(store: S3Store, prefix: str) -> Place:
    names: list[str] = []
    deeper: list[str] = []
    for level in store.levels(prefix):
        names += [stored.key.removeprefix(prefix) for stored in level.files]
        deeper += [each.removeprefix(prefix).rstrip("/") for each in level.deeper]
    return Place(store, prefix, frozenset(names), frozenset(deeper))


def _of_prefix(place: Place) -> list[Published | Problem]:
    if _MANIFEST in place.names:
        return [_read(place, _MANIFEST)]
    above, slash, name = place.prefix.rstrip("/").rpartition("/")
    beside = f"{name}.{_MANIFEST}"
    if name and place.store.stat(above + slash + beside) is not None:
        folder = _read(_look_at(place.store, above + slash), beside)
        if isinstance(folder, Problem) or folder.layout.is_tree:
            return [folder]
    singles = [each for each in place.names if each.endswith(f".{_MANIFEST}") and each[0] != "."]
    return [_read(place, each) for each in sorted(singles)]


def _of_shard(place: Place, shard: str) -> list[Published | Problem]:
    """A data set in one file, or the one that this is a shard of."""
    for name in (f"{shard}.{_MANIFEST}", _MANIFEST):
        if name in place.names:
            found = _read(place, name, shard if name == _MANIFEST else "")
            if isinstance(found, Problem) or found.manifest.has_shard(shard):
                return [found]
    return []


def _read(place: Place, name: str, shard: str = "") -> Published | Problem:
    """Read a manifest, or say what is wrong with it."""
    url = place.url(name)
    data, stored = read_small(place.store, place.key(name))
    if not is_whole(data, stored):
        return Problem(url, None, "", "its bytes are not those of its checksum")
    try:
        manifest = parse_manifest(data, url)
        made = recorded_options(manifest)
    except SourceError as error:
        return Problem(url, None, "", str(error).removeprefix(f"{url}: "))
    return Published(place, manifest, name, made.layout, shard)


def _strays(place: Place, sets: Sequence[Published]) -> Iterator[Problem]:
    for name, message in unfinished(place.deeper, {each.scratch for each in sets}):
        yield Problem(place.url(name + "/"), None, "", message)
    formats = {each.layout.name for each in sets}
    for name in unnamed(place.names, [each.manifest for each in sets], formats):
        yield Problem(place.url(name), None, "", "is there, but not in the manifest")


def _nothing(key: str) -> str:
    if any(mark in key for mark in "*?[{"):
        return "nothing is there; verify takes a prefix, a manifest or a shard, and no pattern"
    return "nothing is there; look at the spelling of its name"


def _without_manifest(place: Place, key: str) -> str:
    if not place.names and not place.deeper:
        return _nothing(key)
    return (
        "no manifest there tells what it should be; fetch all and look into it: dsprep sync "
        f"{quote(place.url())} DIR, then dsprep verify DIR"
    )
