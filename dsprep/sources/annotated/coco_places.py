"""The annotations in COCO's JSON, as workers get them: where those of each image lie."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby, repeat
from typing import TYPE_CHECKING, Any, TypeAlias

from dsprep.annotations.coco import joined, parse, parse_boxes
from dsprep.annotations.objects import Extent, Objects
from dsprep.frozen import Frozen
from dsprep.places.prefetch import OpenFiles, read_at
from dsprep.sources.annotated.annotated import Annotations
from dsprep.storage.files import OpenFile
from dsprep.storage.stored import Facts

if TYPE_CHECKING:
    import polars as pl

_NEAR = 1 << 14  # bytes between annotations that are read with them, at most
_AT_MOST = 1 << 20  # bytes that are read at once; files begin at multiples of it
_AT_ONCE = 1 << 23  # bytes of annotations that are parsed at once
_MANY = 1024  # annotations that are worth loading polars for
OFFSET_BITS = 44
_OFFSET = (1 << OFFSET_BITS) - 1

Place: TypeAlias = bytes
"""Numbers of 64 bits: id, file, width and height of an image; place and size of annotations.

A place in several files has the number of its file above the offset.
"""
HeldPlace: TypeAlias = tuple[Any, ...]
"""Id, width and height of an image; the text of each annotation, of a file that is in memory."""


def _extent(width: int, height: int) -> Extent | None:
    return (float(width), float(height)) if width and height else None


class CocoAnnotations(Annotations):
    """The annotations in COCO's JSON files, as workers get them."""

    files: tuple[str, ...]
    states: tuple[Facts | None, ...]  # of each file when it was scanned; None of a copy
    classes: Mapping[Any, int]  # numbers by category ids
    joins: bool = False  # whether annotations of one id are one object, told by two files

    @property
    def is_copied(self) -> bool:
        return None in self.states

    def image_id(self, place: Place | HeldPlace) -> int:
        return int(place[0] if isinstance(place, tuple) else memoryview(place).cast("q")[0])

    @contextmanager
    def opened(self, places: Sequence[Place | HeldPlace]) -> Iterator[Callable[[int], Objects]]:
        with OpenFiles(self.files, self.states) as files:
            for number in range(len(self.files)):
                files.same(number)
            ahead: dict[int, Objects] = {}
            stop = 0  # position up to which annotations were read ahead

            def objects(at: int) -> Objects:
                nonlocal ahead, stop
                if at >= stop and isinstance(places[at], bytes):
                    ahead, stop = self._ahead(files, places, at)
                found = ahead.get(at)
                return self._objects(files, places[at]) if found is None else found

            yield objects

    def _ahead(
        self, files: OpenFiles, places: Sequence[Any], first: int
    ) -> tuple[dict[int, Objects], int]:
        """Return objects by position, of images with boxes alone, and the position behind them."""
        images, counts = list[tuple[int, Extent | None]](), list[int]()
        found = dict[int, Objects]()
        stop, size, spans = first, 0, array("q")
        while stop < len(places) and size < _AT_ONCE:
            if places[stop] is not None:
                numbers = array("q", places[stop])
                _, _, width, height = numbers[:4]
                own = numbers[4:]
                if own:
                    images.append((stop, _extent(width, height)))
                    counts.append(len(own) // 2)
                    spans += own
                    size += sum(own[1::2])
                else:
                    found[stop] = Objects((), _extent(width, height))
            stop += 1
        if len(spans) < 2 * _MANY:
            return found, stop
        read = parse_boxes(_texts_of(files, spans), counts, self.classes)
        boxes = {
            at: Objects(items, extent)
            for (at, extent), items in zip(images, read, strict=True)
            if items is not None
        }
        # Where most have more than boxes, reading them ahead is in vain.
        is_in_vain = 2 * len(boxes) < len(images)
        return found | boxes, len(places) if is_in_vain else stop

    def _objects(self, files: OpenFiles, place: Place | HeldPlace) -> Objects:
        if isinstance(place, tuple):
            _, width, height, *texts = place
        else:
            _, _, width, height, *spans = memoryview(place).cast("q")
            texts = [*self._texts(files, spans)]
        items = parse(texts, self.classes) if texts else ()
        return Objects(joined(items) if self.joins else items, _extent(width, height))

    def _texts(self, files: OpenFiles, spans: Sequence[int]) -> Iterator[bytes]:
        pairs = zip(spans[::2], spans[1::2], strict=True)
        for number, own in groupby(pairs, key=lambda pair: pair[0] >> OFFSET_BITS):
            yield from _near(files[number], [(place & _OFFSET, size) for place, size in own])


def _texts_of(files: OpenFiles, spans: array[int]) -> pl.Series:
    """Return the texts of many annotations; null for those that cannot be read.

    They are read as Latin-1, which takes any bytes: a box alone has ASCII, and others are not used.
    """
    import polars as pl

    numbers, place, size = pl.Series(spans), pl.col("place"), pl.col("size")
    table = pl.DataFrame({"place": numbers.gather_every(2), "size": numbers.gather_every(2, 1)})
    table = table.with_row_index().sort("place").with_columns(stop=place + size)
    is_apart = place - pl.col("stop").shift() > _NEAR
    is_in_next = place // _AT_MOST != place.shift() // _AT_MOST
    run = (is_apart | is_in_next).fill_null(True).cum_sum().alias("run")
    runs = table.group_by(run, maintain_order=True).agg("place", "stop")
    texts = list[str | None]()
    with suppress(OSError):  # an error is reported for each image that the file concerns
        for _, starts, stops in runs.iter_rows():
            first, last = starts[0], stops[-1]
            data = read_at(files[first >> OFFSET_BITS], last - first, first & _OFFSET)
            ends = zip(starts, stops, strict=True)
            # each by itself, as most of what is read lies between them
            texts += [data[start - first : stop - first].decode("latin-1") for start, stop in ends]
    texts += repeat(None, table.height - len(texts))
    read = pl.Series(texts, dtype=pl.String)
    return read.gather(table["index"].arg_sort())


def _near(file: OpenFile, spans: Sequence[tuple[int, int]]) -> Iterator[bytes]:
    """Read spans of a file, which are sorted; what lies near one another is read at once."""
    start, stop = spans[0][0], sum(spans[-1])
    if stop - start >= sum(size for _, size in spans) + _NEAR:
        yield from (read_at(file, size, at) for at, size in spans)
    else:
        data = read_at(file, stop - start, start)
        yield from (data[at - start : at - start + size] for at, size in spans)


class CocoPlaces(Frozen, Sequence[Any], eq=False):
    """The places of the annotations of each image, in little memory."""

    images: array[int]  # id, file, width and height of each
    starts: array[int]  # the first span of each image, and at last the number of spans
    spans: array[int]  # place and size of each
    held: Sequence[bytes]  # the files, if they are in memory

    def __len__(self) -> int:
        return len(self.images) // 4

    def __getitem__(self, number: Any) -> Any:
        spans = self.spans[2 * self.starts[number] : 2 * self.starts[number + 1]]
        image = self.images[4 * number : 4 * number + 4]
        if not self.held:
            return (image + spans).tobytes()
        texts = (
            self.held[place >> OFFSET_BITS][(start := place & _OFFSET) : start + size]
            for place, size in zip(spans[::2], spans[1::2], strict=True)
        )
        return (image[0], *image[2:], *texts)
