"""Images that lie in arrays, as a worker reads them: slices of an array, made PNGs.

An array that is not compressed is read at the offset of an image. One that is compressed is
unpacked from front to back, and kept as far as it is unpacked. For a run in random order the
workers first write its pixels to spool files.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from dsprep.errors import BadSample
from dsprep.images.pixels import Shape, encode_raw
from dsprep.places.prefetch import AdjacentRows, OpenFiles, asked_ahead, runs
from dsprep.places.zip import Packed
from dsprep.rows import Reader, Rows
from dsprep.sources.tables.arrays import Bytes, Plain, Unpacked
from dsprep.sources.tables.hdf5 import H5Bytes
from dsprep.storage.files import OpenFile
from dsprep.storage.stored import Facts
from dsprep.tuples import NamedTuple

_BLOCK = 1 << 20


class Stack(NamedTuple):
    """An array of images of one size. Plain data: it is pickled for the workers."""

    path: str  # the file that it lies in
    state: Facts | None  # the state of the file when it was listed; None for spool files
    images: int
    shape: Shape
    start: int  # where the first image begins in the file, or in the unpacked array
    packed: Packed | None = None  # the deflated bytes that it is in
    data_set: str = ""  # its name in a file of HDF5, which h5py unpacks
    is_by_row: bool = True  # whether HDF5 unpacks each image without others
    is_turned: bool = False  # whether its pixels are C x W x H, as MATLAB has them

    @property
    def size(self) -> int:
        """The bytes of an image."""
        return self.shape.bytes

    @property
    def is_plain(self) -> bool:
        """Whether the bytes of each image lie in the file as they are."""
        return self.packed is None and not self.data_set

    @property
    def is_front_to_back(self) -> bool:
        """Whether images are unpacked together with others."""
        return self.packed is not None or not self.is_by_row

    @property
    def key(self) -> Hashable:
        return self.path, self.state, self.packed

    def opened(self, file: OpenFile) -> Bytes:
        """Return the bytes of the array, in an open file."""
        if self.packed is not None:
            return Unpacked.resumed(file, self.packed, self.key)
        if self.data_set:
            return H5Bytes(self.path, file, self.data_set, self.size)
        return Plain(file)


class StackReader(Reader):
    """Reads images of stacks; the offset of a row counts in the pixels of its stack."""

    stacks: tuple[Stack, ...]
    label_files: tuple[str, ...] = ()  # files of labels alone, which only the driver reads

    @property
    def encodes(self) -> bool:
        return True

    @property
    def facts(self) -> dict[str, bool]:
        # options of fields name arrays
        return {**super().facts, "image_files": False}

    def sources(self) -> Sequence[str]:
        return [*(stack.path for stack in self.stacks), *self.label_files]

    def _to_spool(self) -> list[int]:
        return [at for at, stack in enumerate(self.stacks) if stack.is_front_to_back]

    def spools(self) -> Sequence[int]:
        found = (self.stacks[at] for at in self._to_spool())
        return [stack.images * stack.size for stack in found]

    def write_spool(self, number: int, path: str) -> None:
        stack = self.stacks[self._to_spool()[number]]
        total = stack.images * stack.size
        with OpenFiles((stack.path,), (stack.state,)) as files, open(path, "wb") as spool:
            file = stack.opened(files.same(0))
            for at in range(0, total, _BLOCK):
                spool.write(file.read(stack.start + at, min(_BLOCK, total - at)))

    def spooled(self, directory: str) -> StackReader:
        stacks = list(self.stacks)
        for number, at in enumerate(self._to_spool()):
            path = os.path.join(directory, str(number))
            images, shape = stacks[at].images, stacks[at].shape
            stacks[at] = Stack(path, None, images, shape, 0, is_turned=stacks[at].is_turned)
        return replace(self, stacks=tuple(stacks))

    def read(self, rows: Rows) -> Iterator[bytes | BadSample]:
        paths, states = zip(*((stack.path, stack.state) for stack in self.stacks), strict=True)
        with OpenFiles(paths, states) as files:
            opened: dict[int, tuple[OpenFile, Bytes]] = {}

            def ask(run: AdjacentRows) -> int:
                stack = self.stacks[run.file]
                if stack.is_plain:
                    files[run.file].ahead(stack.start + run.start, run.stop - run.start)
                return run.stop - run.start

            for run in asked_ahead(runs(rows, _BLOCK), ask):
                file, stack = files.same(run.file), self.stacks[run.file]
                before, found = opened.get(run.file, (None, None))
                if found is None or before is not file:  # many files are closed and opened again
                    _leave(found, stack)
                    found = stack.opened(file)
                    opened[run.file] = file, found
                yield from self._read_run(found, stack, rows, run)
            for number, (_, found) in opened.items():
                _leave(found, self.stacks[number])

    def _read_run(
        self, file: Bytes, stack: Stack, rows: Rows, run: AdjacentRows
    ) -> Iterator[bytes | BadSample]:
        try:
            data = file.read(stack.start + run.start, run.stop - run.start)
        except BadSample as error:
            for _ in range(run.first, run.last):
                yield error
            return
        for row in range(run.first, run.last):
            at = rows.offsets[row] - run.start
            pixels = data[at : at + stack.size]
            if stack.is_turned:
                pixels = _upright(pixels, stack.shape)
            yield encode_raw(pixels, stack.shape, self.quickly)


def _upright(pixels: bytes, shape: Shape) -> bytes:
    """Return pixels row by row that lie column by column, in a plane for each channel."""
    height, width, channels, _ = shape
    found = bytearray(len(pixels))
    for plane in range(channels):
        for column in range(width):
            at = (plane * width + column) * height
            found[column * channels + plane :: width * channels] = pixels[at : at + height]
    return bytes(found)


def _leave(file: Bytes | None, stack: Stack) -> None:
    """Keep how far a compressed stack is unpacked, for the next rows."""
    if isinstance(file, Unpacked):
        file.leave(stack.key)
