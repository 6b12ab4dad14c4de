"""Samples of many parts, each of which is a file of its own.

Where the parts lie follows from the path of a sample's row, so a reader is a few words however many
samples there are, and one sample is in memory at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import ClassVar, NamedTuple, TypeAlias

from dsprep.errors import BadSample
from dsprep.formats.webdataset import WebDataset
from dsprep.images.header import sniff
from dsprep.readers.archive import ArchiveReader
from dsprep.readers.base import Reader
from dsprep.readers.files import read_file, require_there
from dsprep.readers.objects import read_one
from dsprep.rows import Rows
from dsprep.sample import Sample, image_kind_of, key_of
from dsprep.storage.ahead import ahead
from dsprep.storage.paths import facts
from dsprep.storage.urls import is_s3

Members: TypeAlias = dict[str, bytes]
"""The bytes of a sample's parts by field."""

_TABLE = WebDataset()
"""Files mean what the members of a WebDataset shard mean."""


@dataclass(frozen=True)
class PartReader(Reader):
    """Reads samples that are several files."""

    whole: ClassVar[bool] = True
    root: str  # the directory that the rows' paths start from

    @property
    def table(self) -> WebDataset:
        """What extensions mean."""
        return _TABLE

    @abstractmethod
    def members(self, path: str, size: int) -> Members:
        """Read the parts of a sample."""

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        """Read the samples, in the order of the rows."""
        places = zip(rows.paths, rows.sizes, strict=True)
        calls = ((size, partial(self._members, path, size)) for path, size in places)
        read = ahead(calls) if is_s3(self.root) else (call() for _, call in calls)
        for id, path, members in zip(rows.ids, rows.paths, read, strict=True):
            if isinstance(members, BadSample):
                require_there(self.root)
                yield members
            else:
                image = path if image_kind_of(path) else ""
                yield self.typed(Sample(key_of(path), dict(members), id, image))

    def _members(self, path: str, size: int) -> Members | BadSample:
        try:
            return self.members(path, size)
        except BadSample as error:
            return error


@dataclass(frozen=True)
class SharedStems(PartReader):
    """Reads samples whose parts share their names up to the first dot."""

    # every field that a sample may have, and what may follow the first dot in the name of its file;
    # the first of these that there is counts
    fields: tuple[tuple[str, tuple[str, ...]], ...]

    def members(self, path: str, size: int) -> Members:
        """Read the files that there are."""
        stem = f"{self.root}/{stem_of(path)}."
        found = {}
        for field, suffixes in self.fields:
            for suffix in suffixes:
                length = size_of_part(stem + suffix)
                if length is not None:
                    found[field] = (stem + suffix, length)
                    break
        if not found:
            raise BadSample("is not on the disk any more")
        if sum(length for _, length in found.values()) != size:
            raise BadSample(f"has changed: its parts had {size} bytes when they were listed")
        return {field: read_part(*place) for field, place in found.items()}


@dataclass(frozen=True)
class ArchivedParts(Reader):
    """Reads samples whose parts are members of an archive, wherever they lie in it.

    A row's offset is the number of the sample.
    """

    whole: ClassVar[bool] = True
    archive: ArchiveReader  # reads members
    names: tuple[str, ...]  # what members are called
    # the number of the first member of each sample, and the number of all members
    starts: array[int]
    kinds: array[int]  # which of the names each member has
    offsets: array[int]  # where each lies, as the archive's reader wants it
    sizes: array[int]  # the bytes of each
    stored: array[int]  # how many bytes each takes in the archive

    @property
    def table(self) -> WebDataset:
        """What extensions mean."""
        return _TABLE

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        """Read the samples, in the order of the rows."""
        assert rows.offsets is not None
        runs = [range(self.starts[each], self.starts[each + 1]) for each in rows.offsets]
        members = list(chain.from_iterable(runs))
        found = self.archive.read(
            Rows(
                ids=members,
                paths=[self.names[self.kinds[each]] for each in members],
                sizes=[self.sizes[each] for each in members],
                labels=None,
                files=[0] * len(members),
                offsets=[self.offsets[each] for each in members],
                stored=[self.stored[each] for each in members],
            )
        )
        for id, path, run in zip(rows.ids, rows.paths, runs, strict=True):
            parts = {self.names[self.kinds[each]]: next(found) for each in run}
            bad = next((part for part in parts.values() if isinstance(part, BadSample)), None)
            image = path if image_kind_of(path) else ""
            yield bad or self.typed(Sample(key_of(path), dict(parts), id, image))

    def spools(self) -> Sequence[int]:
        """The sizes of what the archive has to be laid out in."""
        return self.archive.spools()

    def write_spool(self, number: int, path: str) -> None:
        """Lay the archive out."""
        self.archive.write_spool(number, path)

    def spooled(self, directory: str) -> ArchivedParts:
        """The reader of the same rows that reads from spooled files."""
        archive = self.archive.spooled(directory)
        assert isinstance(archive, ArchiveReader)
        return replace(self, archive=archive)


class Pair(NamedTuple):
    """One part of samples whose parts lie in parallel folders."""

    field: str  # the field that it becomes; for the image, the one that its extension promises
    before: str  # the path of its file, up to the stem that all parts share
    after: str  # and after it
    is_image: bool = False  # whether it is the image, which gets its name from its bytes


@dataclass(frozen=True)
class ParallelFolders(PartReader):
    """Reads samples whose parts lie in parallel folders; the rows' paths are stem and extension."""

    pairs: tuple[Pair, ...]  # the parts
    extension: str  # what the rows' paths end in after the stem, with the dot

    def members(self, path: str, size: int) -> Members:
        """Read all the parts."""
        stem = path.removesuffix(self.extension)
        places = {}
        for pair in self.pairs:
            place = f"{self.root}/{pair.before}{stem}{pair.after}"
            length = size_of_part(place)
            if length is None:
                raise BadSample(f"its part {pair.field} is not on the disk any more")
            places[pair] = (place, length)
        if sum(length for _, length in places.values()) != size:
            raise BadSample(f"has changed: its parts had {size} bytes when they were listed")
        members: Members = {}
        others = {pair.field for pair in self.pairs if not pair.is_image}
        for pair, listed in places.items():
            data = read_part(*listed)
            kind = sniff(data) if pair.is_image else None
            members[pair.field if kind is None or kind in others else kind] = data
        return members


def stem_of(path: str) -> str:
    """A path up to the first dot of its base name, which is WebDataset's key."""
    directory, slash, name = path.rpartition("/")
    return directory + slash + name.partition(".")[0]


def size_of_part(place: str) -> int | None:
    """The size of a file in bytes; None if there is no such file, or it is something else."""
    try:
        return facts(place).size
    except OSError:
        return None


def read_part(place: str, size: int) -> bytes:
    """Read a file of a known size."""
    if not is_s3(place):
        return read_file(place, size)
    data = read_one(place, size)
    if isinstance(data, BadSample):
        raise data
    return data
