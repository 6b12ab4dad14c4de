"""Samples of many parts, each of which is a file of its own.

Where the parts lie follows from the path of a sample's row, so a reader is a few words however many
samples there are, and one sample is in memory at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar, NamedTuple, TypeAlias

from dsprep.errors import BadSample
from dsprep.formats.webdataset import WebDataset
from dsprep.images.header import sniff
from dsprep.readers.base import Reader
from dsprep.readers.files import read_file, require_there
from dsprep.readers.objects import read_one
from dsprep.rows import Rows
from dsprep.sample import IMAGE_EXTENSIONS, UNKNOWN_IMAGE, Sample, Value, key_of
from dsprep.stores.ahead import ahead
from dsprep.stores.paths import facts
from dsprep.stores.urls import is_s3

Members: TypeAlias = dict[str, bytes]
"""The bytes of a sample's parts by field."""

_LAYOUT = WebDataset()
"""Files are read as the members of a WebDataset shard are."""

_IMAGES = (*dict.fromkeys(IMAGE_EXTENSIONS.values()), UNKNOWN_IMAGE)
"""The fields that may be the image; of several, the first is."""


@dataclass(frozen=True)
class PartReader(Reader):
    """Reads samples that are several files.

    Attributes:
        root: The directory that the rows' paths start from.
    """

    whole: ClassVar[bool] = True
    root: str

    @abstractmethod
    def members(self, path: str, size: int) -> Members:
        """Read the parts of a sample.

        Args:
            path: That of its row.
            size: The bytes of all its parts together.

        Raises:
            BadSample: If they cannot be read, or are not as they were when they were listed.
        """

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        """Read the samples, in the order of the rows."""
        labels = rows.labels if rows.labels is not None else [None] * len(rows.ids)
        places = zip(rows.paths, rows.sizes, strict=True)
        calls = ((size, partial(self._members, path, size)) for path, size in places)
        read = ahead(calls) if is_s3(self.root) else (call() for _, call in calls)
        for id, path, label, members in zip(rows.ids, rows.paths, labels, read, strict=True):
            if isinstance(members, BadSample):
                require_there(self.root)
                yield members
            else:
                yield Sample(key_of(path), _fields(members, label), id)

    def _members(self, path: str, size: int) -> Members | BadSample:
        try:
            return self.members(path, size)
        except BadSample as error:
            return error


@dataclass(frozen=True)
class SharedStems(PartReader):
    """Reads samples whose parts share their names up to the first dot.

    Attributes:
        fields: Every field that a sample may have, and what may follow the first dot in the name of
            its file; the first of these that there is counts.
    """

    fields: tuple[tuple[str, tuple[str, ...]], ...]

    def members(self, path: str, size: int) -> Members:
        """Read the files that there are."""
        stem = f"{self.root}/{stem_of(path)}."
        found = {}
        for field, suffixes in self.fields:
            for suffix in suffixes:
                length = _size_of(stem + suffix)
                if length is not None:
                    found[field] = (stem + suffix, length)
                    break
        if not found:
            raise BadSample("is not on the disk any more")
        if sum(length for _, length in found.values()) != size:
            raise BadSample(f"has changed: its parts had {size} bytes when they were listed")
        return {field: _read(*place) for field, place in found.items()}


class Pair(NamedTuple):
    """One part of samples whose parts lie in parallel folders.

    Attributes:
        field: The field that it becomes; for the image, the one that its extension promises.
        before: The path of its file, up to the stem that all parts share.
        after: And after it.
        is_image: Whether it is the image, which gets its name from its bytes.
    """

    field: str
    before: str
    after: str
    is_image: bool = False


@dataclass(frozen=True)
class ParallelFolders(PartReader):
    """Reads samples whose parts lie in parallel folders; the rows' paths are stem and extension.

    Attributes:
        pairs: The parts.
        extension: What the rows' paths end in after the stem, with the dot.
    """

    pairs: tuple[Pair, ...]
    extension: str

    def members(self, path: str, size: int) -> Members:
        """Read all the parts."""
        stem = path.removesuffix(self.extension)
        places = {}
        for pair in self.pairs:
            place = f"{self.root}/{pair.before}{stem}{pair.after}"
            length = _size_of(place)
            if length is None:
                raise BadSample(f"its part {pair.field} is not on the disk any more")
            places[pair] = (place, length)
        if sum(length for _, length in places.values()) != size:
            raise BadSample(f"has changed: its parts had {size} bytes when they were listed")
        members: Members = {}
        others = {pair.field for pair in self.pairs if not pair.is_image}
        for pair, listed in places.items():
            data = _read(*listed)
            kind = sniff(data) if pair.is_image else None
            members[pair.field if kind is None or kind in others else kind] = data
        return members


def read_facts(
    task: tuple[PartReader, Rows],
) -> tuple[Counter[tuple[str, str]], list[int | tuple[float, ...] | None]]:
    """Read some samples for their fields and labels.

    Returns:
        How many have each field, by its name and the name of its value's type; and the label of
        each, None where it has none.
    """
    reader, rows = task
    counts: Counter[tuple[str, str]] = Counter()
    labels: list[int | tuple[float, ...] | None] = []
    for sample in reader.read(rows):
        labels.append(sample.label() if isinstance(sample, Sample) else None)
        if isinstance(sample, Sample):
            counts.update((name, type(value).__name__) for name, value in sample.fields.items())
    return counts, labels


def stem_of(path: str) -> str:
    """A path up to the first dot of its base name, which is WebDataset's key."""
    directory, slash, name = path.rpartition("/")
    return directory + slash + name.partition(".")[0]


def _size_of(place: str) -> int | None:
    """The size of a file in bytes; None if there is no such file, or it is something else."""
    try:
        return facts(place).size
    except OSError:
        return None


def _read(place: str, size: int) -> bytes:
    """Read a file of a known size.

    Raises:
        BadSample: If it cannot be read, or has another size.
    """
    if not is_s3(place):
        return read_file(place, size)
    data = read_one(place, size)
    if isinstance(data, BadSample):
        raise data
    return data


def _fields(members: Members, label: int | Sequence[float] | None) -> dict[str, Value]:
    """What the parts say, with the label that the row tells after the image."""
    order = _order(tuple(members))
    fields = _LAYOUT.fields_of({name: members[name] for name in order})
    if label is None:
        return fields
    labels: dict[str, Value] = {"cls": label} if isinstance(label, int) else {"label": tuple(label)}
    first = {name: fields[name] for name in order[:1] if name in _IMAGES}
    return first | labels | fields


@lru_cache(maxsize=4096)
def _order(names: tuple[str, ...]) -> tuple[str, ...]:
    """The order of parts: the image, cls, label, others by name, and what has metadata in it."""
    image = next((kind for kind in _IMAGES if kind in names), None)
    first = [name for name in (image, "cls", "label.json") if name in names]
    last = [name for name in ("json",) if name in names]
    return (*first, *sorted(set(names).difference(first, last)), *last)
