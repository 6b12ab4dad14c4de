"""How workers read samples that are files: an image each, or several files that belong together."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, repeat
from os.path import join
from typing import ClassVar, TypeVar

from dsprep.errors import BadSample, SourceError
from dsprep.formats.folder import Folder
from dsprep.formats.webdataset import WebDataset
from dsprep.images.header import sniff
from dsprep.places.archive import ArchiveReader
from dsprep.places.names import is_left_out
from dsprep.places.prefetch import read_spans
from dsprep.rows import Input, Reader, Rows, Wrapper
from dsprep.sample import Sample, image_kind_of, key_of
from dsprep.schema import IMAGE
from dsprep.storage.files import facts, is_dir, results
from dsprep.storage.store import Store, store_of
from dsprep.storage.stored import Facts
from dsprep.tuples import NamedTuple

T = TypeVar("T")

_PARTS = WebDataset()  # files of a sample mean what the members of a WebDataset shard mean


class FileReader(Reader):
    """Reads images that are files of their own, or objects on S3."""

    root: str  # the directory that the rows' paths start from

    def inputs(self, samples: Iterable[tuple[str, int, int]]) -> Iterator[Input]:
        for path, size, mtime in samples:
            yield Input(join(self.root, path), size, mtime, is_sample=True)

    def read(self, rows: Rows) -> Iterator[bytes | BadSample]:
        store, start = store_of(self.root.rstrip("/") + "/")
        read_sized = store.read_sized

        def read_image(path: str, size: int) -> bytes | BadSample:
            try:
                data = read_sized(start + path, size)
            except OSError as error:
                return _rejected(self.root, _unreadable(error))
            return _rejected(self.root, _changed(size)) if data is None else data

        return results(self.root, read_image, rows.paths, rows.sizes, sizes=rows.sizes)


class SampleReader(Reader):
    """Reads samples that are several files, or files and a line of another file."""

    reads_samples: ClassVar[bool] = True
    root: str  # the directory that the rows' paths start from

    @abstractmethod
    def sample(self, path: str, size: int, file: int, line: bytes) -> Sample:
        """Read a sample, whose files have ``size`` bytes together."""

    def described_in(self) -> tuple[str, ...]:
        """Return the files with a line for each sample; none if names tell all."""
        return ()

    def inputs(self, samples: Iterable[tuple[str, int, int]]) -> Iterator[Input]:
        yield from map(Input, self.described_in())
        for path, size, mtime in samples:
            yield Input(join(self.root, path), size, mtime)

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        paths = self.described_in()
        lines = read_spans(paths, rows) if paths else repeat(b"", len(rows.ids))
        files = rows.files if paths else repeat(0, len(rows.ids))
        columns = (rows.paths, rows.sizes, files, lines, rows.ids)
        return map(self.typed, results(self.root, self._read_sample, *columns, sizes=rows.sizes))

    def _read_sample(
        self, path: str, size: int, file: int, line: bytes, id: int
    ) -> Sample | BadSample:
        try:
            sample = self.sample(path, size, file, line)
        except BadSample as error:
            return _rejected(self.root, error)
        sample.id = id
        return sample


class PartFiles(NamedTuple):
    """Where the files of a part lie, around the stem that all parts of a sample share."""

    field: str  # the field that it becomes; for the image, the one that its extension promises
    before: str  # the path of its file, up to the stem
    after: str  # and after it
    is_image: bool = False  # whether it is the image, which gets its name from its bytes


class PartReader(SampleReader):
    """Reads samples that are several files."""

    table: ClassVar = _PARTS
    in_class_directories: ClassVar[bool] = True
    # files of a sample; of several for one field, the first that exists is read
    parts: tuple[PartFiles, ...]
    # what the rows' paths end in after the stem, with the dot, if samples have all of the parts;
    # None if they have some, and stems end at the first dot of the names
    extension: str | None = None

    def sample(self, path: str, size: int, file: int, line: bytes) -> Sample:
        has_all = self.extension is not None
        stem = path.removesuffix(self.extension or "") if has_all else stem_of(path)
        files: dict[str, tuple[str, Facts]] = {}
        for field, before, after, _ in self.parts:
            name = f"{self.root}/{before}{stem}{after}"
            if field not in files and (found := facts_at(name)) is not None:
                files[field] = name, found
            elif has_all:
                raise BadSample(f"its part {field} is not on the disk any more")
        if not files:
            raise BadSample("is not on the disk any more")
        members = read_files(files, size)
        image = next((part.field for part in self.parts if part.is_image), None)
        if image is not None and (kind := sniff(members[image])) and kind not in members:
            members = {kind if field == image else field: members[field] for field in members}
        return _sample(path, members)


def _sample(path: str, members: Mapping[str, bytes], id: int = 0) -> Sample:
    return Sample(key_of(path), dict(members), id, path if image_kind_of(path) else "")


class ArchivedParts(Wrapper):
    """Reads samples of several members of an archive; a row's offset is the sample's number."""

    reads_samples: ClassVar[bool] = True
    table: ClassVar = _PARTS
    inner: ArchiveReader
    names: tuple[str, ...]  # what members are called
    starts: array[int]  # the number of the first member of each sample, and the number of members
    kinds: array[int]  # number of the name that each member has
    offsets: array[int]  # where each lies, as the archive's reader wants it
    sizes: array[int]  # the bytes of each
    stored: array[int]  # how many bytes each takes in the archive

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        runs = [range(self.starts[at], self.starts[at + 1]) for at in rows.offsets]
        members = list(chain.from_iterable(runs))
        columns = (self.offsets, self.stored, self.sizes)
        places = zip(*([column[at] for at in members] for column in columns), strict=True)
        found = self.inner.members(places)
        for id, path, run in zip(rows.ids, rows.paths, runs, strict=True):
            parts = {self.names[self.kinds[at]]: next(found) for at in run}
            bad = next((part for part in parts.values() if isinstance(part, BadSample)), None)
            yield bad or self.typed(_sample(path, parts, id))  # type: ignore[arg-type]


class FieldsReader(Wrapper):
    """Reads images with further values of a table, which rows bring."""

    reads_samples: ClassVar[bool] = True
    table: ClassVar = Folder()
    names: tuple[str, ...] = ()  # the fields that these values are

    @property
    def facts(self) -> Mapping[str, bool]:
        return {**super().facts, "image_files": True}

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        places = zip(rows.ids, rows.paths, rows.annotations, self.images(rows), strict=True)
        for id, path, (_, values), found in places:
            if not isinstance(found, bytes):
                yield found
                continue
            pairs = zip(self.names, values, strict=True)
            fields = {name: value for name, value in pairs if value is not None}
            yield self.typed(Sample(key_of(path), {IMAGE: found, **fields}, id, path, IMAGE))


class CaptionReader(SampleReader):
    """Reads images, each with the text beside it if it has one."""

    table: ClassVar = _PARTS
    in_class_directories: ClassVar[bool] = True
    ending: str = ".txt"  # of the names of texts
    leave_out: tuple[str, ...] = ()  # patterns of texts that are left out

    def sample(self, path: str, size: int, file: int, line: bytes) -> Sample:
        stem, _, suffix = path.rpartition(".")
        name = f"{self.root}/{path}"
        files = {image_kind_of(path) or suffix.lower(): (name, facts_at(name))}
        text = stem + self.ending
        if not is_left_out(text, self.leave_out) and (found := facts_at(f"{self.root}/{text}")):
            files["txt"] = f"{self.root}/{text}", found
        return _sample(path, read_files(files, size))

    @property
    def facts(self) -> Mapping[str, bool]:
        """What options need: they apply as they do to the images alone."""
        return {**super().facts, "image_files": True}


class ArchivedCaptions(ArchivedParts):
    """Reads images in an archive, each with the text beside it if it has one."""

    @property
    def facts(self) -> Mapping[str, bool]:
        """What options need: they apply as they do to the images alone."""
        return {**super().facts, "image_files": True}


def stem_of(path: str) -> str:
    """Return a path up to the first dot of its base name, which is WebDataset's key."""
    directory, slash, name = path.rpartition("/")
    return directory + slash + name.partition(".")[0]


def _rejected(root: str, reason: BadSample) -> BadSample:
    """Return why a sample below a root is rejected; raise an error if all of the source is gone."""
    if not is_dir(root):
        raise SourceError(f"{root}: is gone; give the same command again when it is back")
    return reason


def facts_at(path: str) -> Facts | None:
    """Return the facts of a file; None if it is not there, or is something else."""
    try:
        return facts(path)
    except OSError:
        return None


def _read_whole(store: Store, key: str, size: int) -> bytes:
    try:
        data = store.read_sized(key, size)
    except OSError as error:
        raise _unreadable(error) from None
    if data is None:
        raise _changed(size)
    return data


def _unreadable(error: OSError) -> BadSample:
    return BadSample(f"cannot be read ({error.strerror})")


def _changed(size: int) -> BadSample:
    return BadSample(f"has changed: it had {size} bytes when it was listed")


def read_files(files: Mapping[T, tuple[str, Facts | None]], size: int) -> dict[T, bytes]:
    """Read files by their paths and present facts, which had ``size`` bytes together."""
    sizes = {name: own.size for name, (_, own) in files.items() if own is not None}
    if len(sizes) != len(files) or sum(sizes.values()) != size:
        raise BadSample(f"has changed: its files had {size} bytes when they were listed")
    return {name: _read_whole(*store_of(path), sizes[name]) for name, (path, _) in files.items()}
