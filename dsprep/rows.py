"""Rows of a catalog as plain lists, and the reader that makes samples of them in a worker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from dsprep.errors import BadSample
from dsprep.frozen import Frozen
from dsprep.sample import Sample, original_name
from dsprep.schema import Reading, SettledSchema, Table
from dsprep.tuples import NamedTuple


@runtime_checkable
class Pixels(Protocol):
    """Where raw samples have their image as bare pixels."""

    @property
    def beside(self) -> Mapping[str, str]:
        """The raw names of what stands beside them and tells their shape, each with its type."""

    def __call__(self, sample: Sample, quickly: bool) -> Sample:
        """Make an image of them that tells its shape: a PNG, or one that is quickly decoded."""


@dataclass(slots=True)
class Rows:
    """A run of samples: one list for each column of a catalog."""

    ids: Sequence[int]
    paths: Sequence[str]  # below the root of the source; for samples of shards, their keys or names
    sizes: Sequence[int]  # bytes of each image file, or of each encoded sample
    # class numbers, tuples of numbers, or None for samples without labels
    labels: Sequence[int] | Sequence[tuple[float, ...]] | None
    # for files of many samples: the position of each sample's file in the reader's `sources()`
    files: Sequence[int] = ()
    offsets: Sequence[int] = ()  # where each sample begins in that file
    stored: Sequence[int] = ()  # bytes that each takes there; empty where that is its size
    # for images with annotations: the number of each, and where its objects lie, as the reader has
    # it; None without any
    annotations: Sequence[tuple[int, Any]] = ()
    # if samples have copies: the number of each copy, 0 for the sample itself; and the number of
    # the sample that it is of
    copies: Sequence[int] = ()
    origins: Sequence[int] = ()

    def originals(self) -> tuple[Rows, Sequence[bool]]:
        """Return the samples to read for neighboring copies, and which rows begin another one.

        Paths are those of the samples; ids stay.
        """
        starts = [
            at == 0 or origin != self.origins[at - 1] for at, origin in enumerate(self.origins)
        ]
        rows = self.without({at for at, is_start in enumerate(starts) if not is_start})
        paths = [
            original_name(path) if copy else path
            for path, copy in zip(rows.paths, rows.copies, strict=True)
        ]
        return replace(rows, paths=paths, copies=(), origins=()), starts

    def without(self, rejected: Collection[int]) -> Rows:
        """Return the rows without some positions."""
        if not rejected:
            return self
        kept = [position for position in range(len(self.ids)) if position not in rejected]
        columns: list[Any] = [getattr(self, each.name) for each in fields(self)]
        return Rows(*(column and [column[position] for position in kept] for column in columns))


class Input(NamedTuple):
    """A file that samples are read from.

    Attributes:
        path: The path of the file.
        size: Its bytes when it was listed; 0 if the file holds many samples.
        mtime: When it was last changed, in ns since 1970; 0 if the file holds many samples.
        is_sample: Whether it is the whole of a sample. If not, the size is that of all files of the
            sample, and the time that of the newest.
    """

    path: str
    size: int = 0
    mtime: int = 0
    is_sample: bool = False


class Reader(Frozen, ABC):
    """Reads samples of one source. Plain data: it is pickled for the workers."""

    # whether it reads whole samples, with keys and labels, instead of images alone
    reads_samples: ClassVar[bool] = False
    # whether encoded samples can be copied, by `copy`
    can_copy: ClassVar[bool] = False
    # whether directories name the classes, unless a table has the labels
    in_class_directories: ClassVar[bool] = False
    # whether its samples have images, so that those without one are an error
    has_images: ClassVar[bool] = True
    # converts whole samples to the schema; None leaves them raw
    reading: Reading | None = field(default=None, kw_only=True)
    # if whole samples have bare pixels as their image
    pixels: Pixels | None = field(default=None, kw_only=True)
    # whether images of bare pixels will be encoded again, so that no PNG has to be made of them
    quickly: bool = field(default=False, kw_only=True)

    @property
    def encodes(self) -> bool:
        """Whether it encodes images, so that their sizes are not known before."""
        return False

    @property
    def table(self) -> Table:
        """The meaning of raw names, for whole samples."""
        raise NotImplementedError

    def reads_format(self, name: str) -> bool:
        """Return whether its samples have the names and values that shards of a format have."""
        return self.reads_samples and self.table.name == name

    @property
    def reads_files(self) -> bool:
        """Whether each sample is an image whose bytes and size are those of the source."""
        return not (self.reads_samples or self.encodes)

    @property
    def keys_are_ids(self) -> bool:
        """Whether samples have no names, so that numbers are their keys."""
        return False

    @property
    def facts(self) -> Mapping[str, bool]:
        """What options depend on, by the names in ``FACTS`` of `dsprep.options`."""
        return {
            "samples": self.reads_samples,
            "image_files": not self.reads_samples,
            "parquet": self.reads_format("parquet"),
            "tfrecords": self.reads_format("tfrecord"),
        }

    def converting(self, settled: SettledSchema) -> Self:
        """Return the reader that converts whole samples to a schema."""
        if not self.reads_samples:
            return self
        fields = tuple(each for each in settled.schema.fields if each.places)
        # The rows may tell the label.
        own = {each.name for each in fields}
        label = settled.schema.label if settled.schema.label in own else None
        schema = replace(settled.schema, fields=fields, label=label)
        return replace(self, reading=Reading(schema, self.table, settled.ignored, box=settled.box))

    def typed(self, sample: Sample | BadSample) -> Sample | BadSample:
        """Convert a whole sample to the schema, or return the reason to reject it."""
        if isinstance(sample, BadSample):
            return sample
        try:
            if self.pixels is not None:
                sample = self.pixels(sample, self.quickly)
            return sample if self.reading is None else self.reading(sample)
        except BadSample as error:
            return error

    def in_frame(self, turn: str | None) -> Reader:
        """Return what reads annotations of images as they are ``stored``, or as displayed."""
        return self

    def sources(self) -> Sequence[str]:
        """The files that rows count in their column ``file``; none if each sample is a file."""
        return ()

    def inputs(self, samples: Iterable[tuple[str, int, int]]) -> Iterator[Input]:
        """Yield the files that some samples are read from.

        Args:
            samples: The path, the size and the time of last change of each, as the catalog has
                them.
        """
        yield from map(Input, self.sources())

    def largest_key(self) -> int | None:
        """Return the largest key of a sparse row, whose items `stored` counts; None for others."""
        return None

    @abstractmethod
    def read(self, rows: Rows) -> Iterator[bytes | Sample | BadSample]:
        """Read the samples of some rows, in their order.

        Yields the bytes of an encoded image, if the row has all the rest; or a whole sample; or the
        reason to reject it. If the whole source is gone, SourceError is raised instead.
        """

    def copy(self, rows: Rows) -> Iterator[tuple[bytes | BadSample, int]]:
        """Read encoded samples as they are, in blocks, each with the number of its samples."""
        raise NotImplementedError

    def spools(self) -> Sequence[int]:
        """Return upper limits of the bytes of files to unpack before samples are read at random."""
        return ()

    def write_spool(self, number: int, path: str) -> None:
        """Unpack one of these files, by its position, to a path."""
        raise NotImplementedError

    def spooled(self, directory: str) -> Reader:
        """Return the reader of the same rows that reads from the files ``{directory}/{number}``."""
        return self


class Wrapper(Reader):
    """Reads samples whose files another reader reads."""

    inner: Reader

    @property
    def encodes(self) -> bool:
        return self.inner.encodes

    def inputs(self, samples: Iterable[tuple[str, int, int]]) -> Iterator[Input]:
        return self.inner.inputs(samples)

    def images(self, rows: Rows) -> Iterator[bytes | Sample | BadSample]:
        """Read what the other reader reads."""
        return replace(self.inner, quickly=self.quickly).read(rows)

    def spools(self) -> Sequence[int]:
        return self.inner.spools()

    def write_spool(self, number: int, path: str) -> None:
        self.inner.write_spool(number, path)

    def spooled(self, directory: str) -> Self:
        return replace(self, inner=self.inner.spooled(directory))
