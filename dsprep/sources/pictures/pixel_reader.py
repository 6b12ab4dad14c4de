"""Images that are bare pixels, as CIFAR and MNIST have them: how a worker reads them, as PNG.

A file of images is read whole, unless it is a plain one on a disk. For a run in random order the
workers first write the pixels of the others to spool files.

The batches of CIFAR's Python version are pickled dictionaries that hold a NumPy array. A pickle is
a program: unpickling it would run it, so here only its instructions are read, and any name that
CIFAR's files do not load is refused.
"""

from __future__ import annotations

import io
import os
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from types import SimpleNamespace
from typing import Any, BinaryIO, ClassVar

from dsprep.errors import BadSample, DamagedShard, SourceError, source_errors
from dsprep.formats.folder import Folder
from dsprep.formats.stream import Decompressor, Readable, compression_of
from dsprep.frozen import Frozen
from dsprep.images.pixels import Shape, encode_raw
from dsprep.places.archive import ArchiveReader, Place
from dsprep.places.prefetch import OpenFiles, read_at
from dsprep.rows import Reader, Rows, Wrapper
from dsprep.sample import Sample, key_of
from dsprep.schema import IMAGE
from dsprep.sources.raw_pixels import CIFAR
from dsprep.storage.files import OpenFile, open_file
from dsprep.tuples import NamedTuple

_BLOCK = 1 << 20


class BatchFile(NamedTuple):
    """A file of a known data set: a file of its own, or a member of an archive."""

    name: str  # without a directory
    directory: str  # the directory in the archive; empty for a file of its own
    path: str  # the file, or the archive
    size: int
    mtime: int  # when the file or the archive was last changed, in nanoseconds since 1970
    archive: ArchiveReader | None = None
    place: Place = (0, 0, 0)  # in the archive

    @property
    def is_streamed(self) -> bool:
        """Whether it is in an archive that can only be read from front to back."""
        return self.archive is not None and bool(self.archive.spools())

    def __str__(self) -> str:
        return self.path if self.path.endswith(self.name) else f"{self.path}: {self.name}"

    def blocks(self, *, raw: bool = False, content: bytes | None = None) -> Iterator[bytes]:
        """Read the file, or what was read of it, decompressed if it is compressed itself."""
        try:
            with source_errors(self), self._open(content) as file:
                block = file.read(_BLOCK)
                stream: Readable = file
                if not raw and block and compression_of(block):
                    stream = Decompressor(str(self), stream, block)
                    block = stream.read(_BLOCK)
                while block:
                    yield block
                    block = stream.read(_BLOCK)
        except DamagedShard as damage:
            raise SourceError(f"{damage}; download it again") from None

    def _open(self, content: bytes | None) -> BinaryIO | OpenFile:
        if self.archive is not None:
            return io.BytesIO(next(read_members([self])) if content is None else content)
        file = open_file(self.path)
        if file.facts() != (self.size, self.mtime):
            file.close()
            raise self.changed()
        return file

    def changed(self) -> SourceError:
        """Return the error for a file that is another one than when it was listed."""
        return SourceError(f"{self.path}: has changed since it was listed; give the command again")


def _contents(together: Sequence[Batch]) -> Iterator[bytes | None]:
    """Read the batches of an archive in one pass; None for each if they are read by themselves."""
    if together[0].file.is_streamed:
        yield from read_members([batch.file for batch in together])
    else:
        yield from repeat(None, len(together))


def read_members(files: Sequence[BatchFile]) -> Iterator[bytes]:
    """Read files of one archive."""
    archive = files[0].archive
    assert archive is not None
    for data in archive.members(file.place for file in files):
        if isinstance(data, BadSample):
            raise SourceError(f"{archive.path}: a file in it cannot be read: {data}")
        yield data


class Batch(Frozen):
    """A file of images, all of one size. Plain data: it is pickled for the workers."""

    file: BatchFile
    images: int
    width: int
    height: int
    channels: int = 1
    start: int = 0  # where the pixels of the first image begin in the decompressed file
    between: int = 0  # bytes between the pixels of an image and those of the next
    pickled: bool = False  # whether it is a pickle, which is read whole
    in_place: bool = False  # whether it is a plain file, whose images can be read one by one

    @property
    def size(self) -> int:
        return self.width * self.height * self.channels

    def offset(self, image: int) -> int:
        return self.start + image * (self.size + self.between)

    def pick(self, images: Iterable[int], content: bytes | None = None) -> Iterator[bytes]:
        """Read the pixels of some images, in ascending order, without keeping others."""
        # Some files have more images than fit the memory.
        blocks = self.file.blocks(content=content)
        if self.pickled:
            blocks = iter([read_batch(b"".join(blocks), str(self.file), ())[0]])
        block, passed = b"", 0
        for image in images:
            start = self.offset(image) - passed
            while len(block) < start + self.size:
                more = next(blocks, b"")
                if not more:
                    raise self.file.changed()
                cut = min(start, len(block))
                block, start, passed = block[cut:] + more, start - cut, passed + cut
            yield block[start : start + self.size]


class PixelReader(Reader):
    """Reads the images of batches; the offset of a row counts in the pixels of its batch."""

    batches: tuple[Batch, ...]

    @property
    def encodes(self) -> bool:
        return True

    def sources(self) -> Sequence[str]:
        return [batch.file.path for batch in self.batches]

    def _to_spool(self) -> list[list[int]]:
        """Return the batches to unpack, those together that one pass over an archive reads."""
        found: dict[str | int, list[int]] = {}
        for at, batch in enumerate(self.batches):
            if not batch.in_place:
                found.setdefault(batch.file.path if batch.file.is_streamed else at, []).append(at)
        places = [batch.file.place for batch in self.batches]
        return [sorted(together, key=places.__getitem__) for together in found.values()]

    def spools(self) -> Sequence[int]:
        """The bytes of pixels of each batch whose images cannot be read one by one."""
        return [
            sum(self.batches[at].images * self.batches[at].size for at in together)
            for together in self._to_spool()
        ]

    def write_spool(self, number: int, path: str) -> None:
        together = [self.batches[at] for at in self._to_spool()[number]]
        with open(path, "wb") as spool:
            for batch, content in zip(together, _contents(together), strict=True):
                spool.writelines(batch.pick(range(batch.images), content))

    def spooled(self, directory: str) -> PixelReader:
        batches = list(self.batches)
        for number, together in enumerate(self._to_spool()):
            start = 0
            for at in together:
                own = batches[at]
                file = own.file._replace(path=os.path.join(directory, str(number)))
                batches[at] = replace(
                    own, file=file, start=start, between=0, pickled=False, in_place=True
                )
                start += own.images * own.size
        return replace(self, batches=tuple(batches))

    def read(self, rows: Rows) -> Iterator[bytes | BadSample]:
        places = [
            (number, offset // self.batches[number].size)
            for number, offset in zip(rows.files, rows.offsets, strict=True)
        ]
        last = {number: at for at, (number, _) in enumerate(places)}
        streams: dict[str, list[Batch]] = {}  # the batches that one pass over an archive reads
        for number in last:
            if self.batches[number].file.is_streamed:
                streams.setdefault(self.batches[number].file.path, []).append(self.batches[number])
        contents = {path: _contents(together) for path, together in streams.items()}
        picked: dict[int, dict[int, bytes]] = {}  # images of the batches that were read whole
        with OpenFiles(tuple(self.sources())) as files:
            for at, (number, image) in enumerate(places):
                batch = self.batches[number]
                if batch.in_place:
                    pixels = read_at(files[number], batch.size, batch.offset(image))
                else:
                    if number not in picked:
                        wanted = sorted({image for other, image in places if other == number})
                        content = (
                            next(contents[batch.file.path]) if batch.file.is_streamed else None
                        )
                        picked[number] = dict(zip(wanted, batch.pick(wanted, content), strict=True))
                    pixels = picked[number][image]
                    if at == last[number]:
                        del picked[number]
                if len(pixels) == batch.size:
                    shape = Shape(batch.height, batch.width, batch.channels, True)
                    yield encode_raw(pixels, shape, self.quickly)
                else:
                    yield BadSample("has changed: its file is shorter than when it was listed")


class LabeledPixelReader(Wrapper):
    """Reads the images of batches with a label besides that of the rows."""

    reads_samples: ClassVar[bool] = True
    table: ClassVar = Folder()
    inner: PixelReader
    name: str  # name of the field of the label
    labels: tuple[array[int], ...]  # labels of the images of each batch

    def sources(self) -> Sequence[str]:
        return self.inner.sources()

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        found = zip(rows.ids, rows.paths, rows.files, rows.offsets, self.images(rows), strict=True)
        for id, path, number, offset, image in found:
            if not isinstance(image, bytes):
                yield image
                continue
            label = self.labels[number][offset // self.inner.batches[number].size]
            yield self.typed(
                Sample(key_of(path), {IMAGE: image, self.name: label}, id, path, IMAGE)
            )


# The pickles of CIFAR

# All that a file of CIFAR loads, whichever Python and NumPy wrote it.
_GLOBALS = frozenset(
    {
        "numpy.core.multiarray _reconstruct",
        "numpy._core.multiarray _reconstruct",
        "numpy ndarray",
        "numpy dtype",
        "_codecs encode",
    }
)

# Names of instructions are those of the documentation of pickletools.
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_STRING = re.compile("(?:SHORT_)?BIN(STRING|BYTES|UNICODE)8?")
# Instructions that leave the first of the values that they read where it is.
_ON_TOP = frozenset({"APPEND", "SETITEM", "BUILD", "MEMOIZE", "STOP"})


def read_pickle(data: bytes, source: str) -> dict[str, Any]:
    """Read a pickled dictionary without unpickling it."""
    import pickletools  # imported late: most workers do not need pickletools

    # What it loads by a name, or what a call of that would return, is a namespace here: of a
    # `function`, of its `arguments` if it is called, and of a `state` that is set.
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[Any, Any] = {}
    try:
        for code, value, _ in pickletools.genops(data):
            name, first = code.name, len(stack) - len(code.stack_before)
            if pickletools.markobject in code.stack_before:
                first = marks.pop()
            first += name in _ON_TOP
            if not 0 <= first <= len(stack):
                raise IndexError
            taken = stack[first:]
            del stack[first:]
            if string := _STRING.fullmatch(name):
                # The strings of Python 2, which may be text, are bytes here.
                stack.append(str(value).encode("latin-1") if string[1] == "STRING" else value)
            elif name.startswith("BININT") or name == "LONG1":
                stack.append(value)
            elif name in _CONSTANTS:
                stack.append(_CONSTANTS[name])
            elif name in ("EMPTY_LIST", "EMPTY_DICT"):
                stack.append([] if name == "EMPTY_LIST" else {})
            elif "PUT" in name or name == "MEMOIZE":
                memo[len(memo) if value is None else value] = stack[-1]
            elif "GET" in name:
                stack.append(memo[value])
            elif name == "MARK":
                marks.append(len(stack))
            elif "TUPLE" in name:
                stack.append(tuple(taken))
            elif "APPEND" in name:
                stack[-1].extend(taken)
            elif "SETITEM" in name:
                if not all(isinstance(key, str | bytes) for key in taken[::2]):
                    raise TypeError  # only text keys: hashing a nested key may never end
                stack[-1].update(zip(taken[::2], taken[1::2], strict=True))
            elif "GLOBAL" in name:
                loaded = str(value) if value is not None else " ".join(taken)
                if loaded not in _GLOBALS:
                    raise SourceError(
                        f"{source}: is a pickle that loads {loaded.replace(' ', '.')}, which no "
                        "file of CIFAR does; dsprep does not open it"
                    )
                stack.append(SimpleNamespace(function=loaded))
            elif name == "REDUCE":
                called, arguments = taken
                if called.function != "_codecs encode":
                    stack.append(SimpleNamespace(function=called.function, arguments=arguments))
                elif arguments[1:] == ("latin1",):
                    stack.append(arguments[0].encode("latin-1"))
                else:
                    raise ValueError
            elif name == "BUILD":
                stack[-1].state = taken[0]
            elif name not in ("PROTO", "FRAME", "STOP"):
                raise ValueError
        (found,) = stack
        return {
            key.decode("latin-1") if isinstance(key, bytes) else key: value
            for key, value in found.items()
        }
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise SourceError(f"{source}: is not a complete pickle of CIFAR") from None


def read_batch(
    data: bytes, source: str, keys: Sequence[str]
) -> tuple[bytes, list[list[int]], list[str] | None]:
    """Return the pixels of a batch, one image after another, the labels and the file names.

    CIFAR-10 and CIFAR-100 have other keys of labels.
    """
    fields = read_pickle(data, source)
    try:
        array = fields["data"]
        _, (count, width), dtype, by_column, pixels = array.state
        code = text_of(dtype.arguments[0])
        known = array.function.endswith("_reconstruct") and dtype.function == "numpy dtype"
        if not known or width != CIFAR.bytes or code.lstrip("|=<>") not in ("u1", "uint8", "B"):
            raise ValueError
        length = len(memoryview(pixels))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        what = f"no array 'data' of {CIFAR.bytes} bytes an image"
        raise SourceError(f"{source}: has {what}") from None
    found = []
    for key in keys:
        labels = fields.get(key)
        if not isinstance(labels, list) or any(type(label) is not int for label in labels):
            raise SourceError(f"{source}: has no list {key!r} of numbers")
        if len(labels) != count:
            raise SourceError(f"{source}: has {len(labels)} labels, but {count} images")
        if any(not 0 <= label < 1 << 31 for label in labels):
            raise SourceError(f"{source}: has labels that are not class numbers")
        found.append(labels)
    if length != count * CIFAR.bytes:
        raise SourceError(
            f"{source}: says it has {count} images, but holds {length} bytes of pixels"
        )
    if by_column:  # the first bytes of all images, then the second bytes, and so on
        pixels = b"".join(pixels[number::count] for number in range(count))
    names = fields.get("filenames")
    if not isinstance(names, list) or len(names) != count:
        return pixels, found, None
    return pixels, found, [text_of(name) for name in names]


def text_of(value: Any) -> str:
    """Return a text of a pickle, which Python 2 wrote as bytes; empty if it is something else."""
    if isinstance(value, bytes):
        return value.decode(errors="replace").strip()
    return value.strip() if isinstance(value, str) else ""
