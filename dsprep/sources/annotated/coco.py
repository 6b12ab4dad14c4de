"""COCO's JSON: images, categories and annotations in one file, in any order.

The annotations of an image may lie anywhere in the file. Only where each begins is kept of them.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from itertools import chain, groupby, pairwise, repeat
from typing import TYPE_CHECKING, Any, TypeAlias

from dsprep.annotations.coco import joined, parse, parse_boxes
from dsprep.annotations.objects import Extent, Objects, is_id
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.frozen import Frozen
from dsprep.numbering import number_ids
from dsprep.places.prefetch import OpenFiles, Pieces, read_at
from dsprep.sources.annotated.annotated import Annotations, Scan, by_rows
from dsprep.sources.annotated.coco_captions import (
    LOST,
    CocoCaptions,
    is_caption,
    values_of_captions,
)
from dsprep.sources.annotated.coco_segments import SEGMENTS, CocoPanoptic, segments_in
from dsprep.sources.annotated.image_values import MOST_FLAGS, ImageValues
from dsprep.sources.annotated.json_file import JsonText
from dsprep.storage.files import OpenFile, open_file
from dsprep.storage.pool import BlocksAhead, Update
from dsprep.storage.stored import Facts
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some, quoted_names

if TYPE_CHECKING:
    import polars as pl

_NEAR = 1 << 14  # bytes between annotations that are read with them, at most
_AT_MOST = 1 << 20  # bytes that are read at once; files begin at multiples of it
_AT_ONCE = 1 << 23  # bytes of annotations that are parsed at once
_MANY = 1024  # annotations that are worth loading polars for
_CROWD = re.compile(rb'"iscrowd"\s{0,9}:\s{0,9}(?:[1-9]|true)')
_DRAWN = frozenset(("bbox", "segmentation", "keypoints"))  # keys of objects, and of no labels
_LONGEST_FLAG = 40  # bytes kept of a block, so that a flag on its end is found
_IMAGE_ID = 32  # bytes that the id of an image takes as JSON, at most
_COMPRESSED = re.compile(rb'"counts"\s*:\s*"')
# The parts of an annotation. Others that a tool writes have the same keys and other values. At each
# character, one part alone can go on: regular expressions of polars are fast then.
_SPACE = r"[ \t\r\n]*"
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_NUMBERS = r"[0-9.eE+\-, \t\r\n]*"
_PARTS = {
    "key": f"{_STRING}{_SPACE}:{_SPACE}",
    "text": _STRING,
    "list": rf"\[{_NUMBERS}(?:\[{_NUMBERS}\]{_NUMBERS})*\]",
    "number": "-?[0-9][0-9.eE+-]*",
    "word": "true|false|null",
}
_PART = re.compile("|".join(f"(?P<{name}>{part})" for name, part in _PARTS.items()))
_ID = re.compile(r'"(image_id|category_id|id)"')
_IDS = {"image_id": "image", "category_id": "category", "id": "id"}  # columns by keys
_JOINT = re.compile(rf"{_SPACE},{_SPACE}\{{")  # from the end of an annotation into the next one
_MOST_FORMS = 16  # forms of annotations that are looked for
_LONGEST_FORM = 1 << 14  # characters
_SOME = 1 << 22  # characters of annotations that are matched at once

Place: TypeAlias = bytes
"""Numbers of 64 bits: id, file, width and height of an image; place and size of annotations.

A place in several files has the number of its file above the offset.
"""
HeldPlace: TypeAlias = tuple[Any, ...]
"""Id, width and height of an image; the text of each annotation, of a file that is in memory."""


_LISTS = ("images", "annotations", "categories")
_OFFSET_BITS = 44
_OFFSET = (1 << _OFFSET_BITS) - 1


class _Digest:
    """The digest of what is read, and by how much it may grow: ``5`` becomes 5.0."""

    def __init__(self) -> None:
        self.sha, self.growth = hashlib.sha256(), 2
        self.flags, self._end = False, b""  # whether some are crowds; the end of the block before

    def update(self, block: bytes) -> None:
        self.sha.update(block)
        parts = self._end + block[:_LONGEST_FLAG], block
        self.flags = self.flags or any(map(_CROWD.search, parts))
        if self.growth == 2 and any(map(_COMPRESSED.search, parts)):
            self.growth = 6  # a character of compressed runs is the difference of two numbers
        self._end = block[-_LONGEST_FLAG:]


class CocoFile(NamedTuple):
    """A file of COCO's."""

    path: str
    below: str = ""  # the directory below the root that its names start from, if images lie there
    side: str = ""  # the side that its images are, if that is known
    data: bytes | None = None  # its content, if it lies in an archive
    pngs: str | None = None  # the directory of its PNGs, if it is panoptic
    joins: bool = False  # whether its annotations say more of those of other files, by their ids


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
        for number, own in groupby(pairs, key=lambda pair: pair[0] >> _OFFSET_BITS):
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
            data = read_at(files[first >> _OFFSET_BITS], last - first, first & _OFFSET)
            text, ends = data.decode("latin-1"), zip(starts, stops, strict=True)
            texts += [text[start - first : stop - first] for start, stop in ends]
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
            self.held[place >> _OFFSET_BITS][(start := place & _OFFSET) : start + size]
            for place, size in zip(spans[::2], spans[1::2], strict=True)
        )
        return (image[0], *image[2:], *texts)


class _Read:
    """What files of COCO's have told so far."""

    def __init__(self, known: Collection[str]) -> None:
        self.known = known  # the images below the root
        self.images: dict[tuple[int, int], int] = {}  # numbers by file and id
        self.names: list[str] = []
        self.starts: dict[int, str] = {}  # the directories that names start from, by file
        self.places = array("q")
        self.categories: dict[Any, str] = {}
        self.spans = {name: array("q") for name in _SPANS}
        self._codes: dict[object, int] = {}  # numbers that stand for ids that are no numbers
        self.left_out = {of: set[str]() for of in ("", "images", "categories")}
        self.is_lvis = False
        self.captions, self.panoptic = CocoCaptions(), CocoPanoptic()
        self.odd_ids = 0  # annotations whose id no object can have

    def code(self, id: object) -> int:
        """Return an id as a number."""
        if type(id) is int and abs(id) < 2**61:
            return id
        if not isinstance(id, str | int | float):
            raise TypeError(f"its id {id!r:.40} is neither a number nor a text")
        return self._codes.setdefault(id, 2**62 + len(self._codes))

    def uncode(self, code: int) -> str:
        found = (id for id, other in self._codes.items() if other == code)
        return repr(next(found, code))

    def image(self, file_number: int, file: CocoFile, item: Mapping[str, Any]) -> None:
        if not item.keys() <= _OF_IMAGES:
            self.is_lvis = self.is_lvis or "neg_category_ids" in item
            self.left_out["images"].update(item.keys() - _OF_IMAGES)
        number = len(self.names)
        id = self.code(item["id"])
        if self.images.setdefault((file_number, id), number) != number:
            raise SourceError(
                f"{file.path}: several images have the id {item['id']!r:.60}: number each"
            )
        name = str(item.get("file_name") or item.get("coco_url") or item["file_name"])
        if file.below and (below := f"{file.below}/{name}") in self.known:
            self.starts[file_number] = file.below
            name = below
        self.names.append(name)
        told_width, told_height = item.get("width") or 0, item.get("height") or 0
        width, height = int(told_width), int(told_height)
        if width < 0 or height < 0:
            raise ValueError(f"its size is {told_width!r:.40} x {told_height!r:.40}")
        self.places.extend((id, file_number, width, height))

    def table_of_images(self) -> pl.DataFrame:
        """Return the number of each image, by the file that lists it and its id there."""
        import polars as pl

        columns = {
            "file": array("q", [file for file, _ in self.images]),
            "image": array("q", [id for _, id in self.images]),
            "number": array("q", self.images.values()),
        }
        return pl.DataFrame(columns, dict.fromkeys(columns, pl.Int64))

    def category(self, file: CocoFile, item: Mapping[str, Any]) -> None:
        self.left_out["categories"].update(item.keys() - _OF_CATEGORIES)
        id, name = item["id"], str(item["name"])
        if item["name"] is None:
            raise TypeError("its name is null")
        self.code(id)
        if self.categories.setdefault(id, name) != name:
            raise SourceError(
                f"{file.path}: the category {id!r:.60} is called {name!r:.60} and "
                f"{self.categories[id]!r:.60}: pack files of different classes apart"
            )

    def drop_repeated(self, used: Collection[int]) -> None:
        """Leave out a category without annotations whose name another one has."""
        # Roboflow's exports have one more for the data set, which may be called like its class.
        left = Counter(self.categories.values())
        for id, name in list(self.categories.items()):
            if left[name] > 1 and self.code(id) not in used:
                left[name] -= 1
                del self.categories[id]

    def annotation(
        self, file_number: int, file: CocoFile, offset: int, size: int, item: Any
    ) -> None:
        if file.pngs is not None:
            self.panoptic.add(file_number, file.pngs, self.code(item["image_id"]), item)
        elif SEGMENTS in item:
            raise SourceError(
                f"{file.path}: is panoptic: give it with --annotations and --annotation-format "
                "coco-panoptic, or the instances of the same images"
            )
        elif is_caption(item):
            self.captions.add(file_number, self.code(item["image_id"]), item)
        else:
            id = item.get("id")
            known = id if type(id) is int and abs(id) < 2**61 else -1
            self.odd_ids += id is not None and not is_id(id)
            self._object(file_number, known, offset, size, item)

    def segment(self, file_number: int, offset: int, size: int, item: Any) -> None:
        # ids tell the segments of one image
        self._object(file_number, -1, offset, size, {"bbox": (), **item})

    def _object(self, file_number: int, id: int, offset: int, size: int, item: Any) -> None:
        category, image = self.code(item["category_id"]), self.code(item["image_id"])
        place = (file_number, image, category, id, offset, size, _DRAWN.isdisjoint(item))
        for column, number in zip(self.spans.values(), place, strict=True):
            column.append(number)

    def move_images(
        self, files: int, drawn: Collection[int], others: Collection[int]
    ) -> tuple[bool, Sequence[Sequence[str] | None]]:
        """Let one file list each image; return whether there are captions alone, and these.

        Args:
            files: How many files there are.
            drawn: Those that have objects, and list the images.
            others: Those that have labels of images, or more of the same objects.
        """
        further = frozenset(others).difference(drawn) if drawn else frozenset[int]()
        if not self.captions.texts and not further:
            return False, ()
        apart = self.captions.files_of_these(drawn).union(further)
        is_alone = len(apart) == files
        moved = self.captions.move(self.images, self.names, () if is_alone else apart)
        self.images = dict(moved.numbers)
        self.names = [self.names[at] for at in moved.kept]
        places = (self.places[4 * at : 4 * at + 4] for at in moved.kept)
        self.places = array("q", chain.from_iterable(places))
        return is_alone, moved.captions if any(moved.captions) else ()

    def notes(self, where: str) -> Iterator[Finding]:
        """Say what nothing of is kept; annotations keep what else they tell."""
        for of, names in self.left_out.items():
            if names:
                said = quoted_names(sorted(names), 10) + (f" of {of}" if of else "")
                yield Finding("note", "", f"{where}: not kept: {said}")
        odd = [self.uncode(id) for id in self.places[::4] if not 0 <= id < 2**61]
        said = f"ids of images not kept, as some are not whole numbers from 0: {format_some(odd)}"
        notes = [said] if odd else []
        if self.is_lvis:
            notes.append(
                "is LVIS's: each image is annotated for some classes only, so that an object of "
                "another class may be in it"
            )
        if self.odd_ids:
            count = format_count(self.odd_ids, "id")
            notes.append(f"{count} of annotations not kept, not being whole numbers of 64 bits")
        yield from (Finding("note", "", f"{where}: {note}") for note in notes)
        yield from self.captions.notes(where)


_OF_IMAGES = frozenset(("id", "file_name", "width", "height"))
_OF_CATEGORIES = frozenset(("id", "name"))
_SPANS = ("file", "image", "category", "id", "offset", "size", "is_label")


def scan_coco(
    files: Sequence[CocoFile], known: Collection[str] = (), classes: tuple[str, ...] | None = None
) -> Scan:
    """Find the images, categories and annotations in files.

    Either all of the files are in memory, or none.
    """
    import polars as pl

    digest = _Digest()
    paths = tuple(file.path for file in files)
    held = [file.data for file in files if file.data is not None]
    copies = [] if held else [*map(Pieces, paths)]
    read, tables = _Read(known), list[pl.DataFrame]()
    for at, file in enumerate(files):
        updates = digest.update, *(each.add for each in copies[at : at + 1])
        alike = WrittenAlike(at)
        for section, offset, size, item in items_of(file, updates, alike):
            try:
                if section in _LISTS and not isinstance(item, dict):
                    raise TypeError(f"{item!r:.40} is not an object")
                if section == "annotations":
                    read.annotation(at, file, offset, size, item)
                elif section == SEGMENTS:
                    read.segment(at, offset, size, item)
                elif section == "images":
                    read.image(at, file, item)
                elif section == "categories":
                    read.category(file, item)
                else:
                    read.left_out[""].add(section)
            except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
                lacks = "lacks" if isinstance(error, KeyError) else "cannot be read:"
                raise SourceError(
                    f"{file.path}: an item of {section} {lacks} {error}: correct it"
                ) from None
        tables += alike.tables
    where = format_some(list(paths))
    table = pl.concat([pl.DataFrame(read.spans, dict.fromkeys(_SPANS, pl.Int64)), *tables])
    place = pl.col("offset") + pl.col("file") * (1 << _OFFSET_BITS)
    table = table.with_columns(place=place).sort("place")
    read.drop_repeated({*table["category"].unique()})
    is_label = pl.col("is_label") == 1
    if 10 * table.filter(is_label).select("file", "image").n_unique() < len(read.names):
        is_label = pl.lit(False)  # objects that lack their box, whose images are rejects
    kinds = ~is_label, is_label
    of_objects, of_labels = ({*table.filter(each)["file"].unique()} for each in kinds)
    joining = {at for at, file in enumerate(files) if file.joins}
    is_alone, captions = read.move_images(len(files), of_objects - joining, of_labels | joining)
    names, ids, numbers = _classes(read.categories, classes, where)
    images = read.table_of_images()
    # one column is joined in a fourth of the time that two take
    keys = ["image"] if len(files) == 1 else ["file", "image"]
    table = table.join(images.select(*keys, "number"), on=keys, how="left", maintain_order="left")
    _require_known(table, read, where)
    labels = table.filter(is_label & (pl.col("number") != LOST)).select("number", "category")
    table, notes_on_joined = _with_joined(table.filter(~is_label), files)
    twice = _shared_ids(table)
    findings = [*read.notes(where), *notes_on_joined]
    if twice:
        said = f"{format_count(len(twice), 'id')} of several annotations: {format_some(twice)}"
        findings.append(Finding("note", "", f"{where}: {said}; all of these are kept"))
    table = table.select("number", "size", "is_more", "place")
    table = table.sort("number", maintain_order=True)
    own = (~pl.col("is_more")).sum().alias("objects")
    sizes = table.group_by("number").agg(pl.len(), pl.col("size").sum(), own)
    kept = images.select("number").filter(pl.col("number") != LOST).unique().sort("number")
    of_image = kept.join(sizes, on="number", how="left", maintain_order="left").fill_null(0)
    starts = array("q", [0, *of_image["len"].cum_sum().to_list()])
    sides = [files[at].side for at in read.places[1::4]]
    sides = sides if all(sides) else []
    told = digest.sha.hexdigest(), where, findings
    starting = [(file.path, read.starts.get(at, "")) for at, file in enumerate(files)]
    named_in = [starting[at] for at in read.places[1::4]]
    values = values_of_captions(captions) if captions else ImageValues()
    masks = read.panoptic.masks(read.images, names, where)
    if labels.height:  # as those of iNaturalist, or beside objects
        codes = {read.code(id): number for id, number in numbers.items()}
        label = _labels(labels, codes, len(read.names), len(names))
        values = values._replace(label=label, classes=names)
        are_alone = not table.height and masks is None
        is_alone = is_alone or are_alone
        few = format_count(labels.height, "annotation")
        said = "annotations have no boxes" if are_alone else f"{few} without a box or a polygon"
        said += ", so that their categories are classes of images"
        findings.append(Finding("note", "", f"{where}: {said}"))
    if is_alone:  # without a field of objects, which nothing tells
        findings.append(Finding("note", "", f"{where}: ids of images not kept"))
        scan = Scan(None, read.names, (), (), (), (), *told, sides=sides, values=values)
        return scan._replace(named_in=named_in)
    spans = by_rows(table.select("place", "size"), "q")
    copied, states = (tuple(getattr(each, name) for each in copies) for name in ("path", "state"))
    annotations = CocoAnnotations(copied, states, numbers, bool(table["is_more"].any()))
    for each in copies:
        each.belong_to(annotations)
    return Scan(
        annotations,
        read.names,
        of_image["objects"].to_list(),
        (of_image["size"] * digest.growth + _IMAGE_ID).to_list(),
        names,
        ids,
        *told,
        places=CocoPlaces(read.places, starts, spans, held),
        flags=digest.flags,
        masks=masks,
        sides=sides,
        values=values,
        named_in=named_in,
        has_image_ids=all(0 <= id < 2**61 for id in read.places[::4]),
    )


def _shared_ids(table: pl.DataFrame) -> list[str]:
    """Return the ids that several annotations of a file have."""
    import polars as pl

    own = table.filter(pl.col("id") >= 0).select("file", "id")
    if own["id"].n_unique() == own.height:  # fast, where ids follow one another
        return []
    return own.filter(own.is_duplicated())["id"].unique().sort().cast(str).to_list()


def _with_joined(
    table: pl.DataFrame, files: Sequence[CocoFile]
) -> tuple[pl.DataFrame, Sequence[Finding]]:
    """Return annotations, with those that say `is_more` of one of the same id, and a note.

    Those of images that no file of instances lists are left out.
    """
    import polars as pl

    joining = [at for at, file in enumerate(files) if file.joins]
    is_joining = pl.col("file").is_in(joining)
    for at in joining:
        own = table.filter(pl.col("file") == at)
        if own.height and (own["number"] == LOST).all():
            said = "has keypoints of images that no file of instances lists"
            raise _apart(files, f"{files[at].path}: {said}")
    table = table.filter(pl.col("number") != LOST)
    persons = table.filter(is_joining & (pl.col("id") >= 0))
    if persons.is_empty():
        return table.with_columns(is_more=False), ()
    same = ["number", "id"]
    own = table.filter(~is_joining).select(*same, first="category").unique(same, keep="first")
    found = persons.join(own, on=same)
    said = f"{os.path.dirname(files[0].path)}: has files of instances and of person_keypoints"
    if found.is_empty():
        raise _apart(files, f"{said} for the same images, and no ids in common")
    differ = found.filter(pl.col("category") != pl.col("first"))
    if not differ.is_empty():
        ids = format_some(differ["id"].cast(str).to_list())
        raise _apart(files, f"{said} that give the same ids different categories, {ids}")
    more = found.select(*same, is_more=is_joining)
    whole = table.join(more, on=same, how="left", maintain_order="left")
    whole = whole.with_columns(is_more=pl.col("is_more").fill_null(False) & is_joining)
    whole = whole.sort("number", "place")
    count = table.filter(~is_joining).height
    lost = table.height - count - found.height
    said = f"{found.height:,} of {count:,} objects have keypoints of another file"
    said += f", which has {format_count(lost, 'further object')}" if lost else ""
    where = format_some([files[at].path for at in joining])
    return whole, [Finding("note", "", f"{where}: {said}")]


def _apart(files: Sequence[CocoFile], said: str) -> SourceError:
    """Return the error about files of persons that do not go with those of instances."""
    parts = ([each.path for each in files if each.joins is joins] for joins in (False, True))
    given = (" ".join(f"--annotations {shlex.quote(path)}" for path in own) for own in parts)
    return SourceError(f"{said}: give those to take: {', or '.join(given)}")


def _labels(table: pl.DataFrame, codes: Mapping[int, int], images: int, classes: int) -> pl.Series:
    """Return the class of each image or, if some have several, a 0 or a 1 for each class."""
    import polars as pl

    numbers = table["category"].replace_strict(codes, return_dtype=pl.Int64)
    own = table.select("number", cls=numbers).unique(maintain_order=True)
    every = pl.DataFrame({"number": range(images)}, {"number": own.schema["number"]})
    if own["number"].is_unique().all():
        return every.join(own, on="number", how="left", maintain_order="left")["cls"]
    if images * classes > MOST_FLAGS:
        raise SourceError(
            f"some images have several categories, and {classes:,} classes of {images:,} images "
            "are too many for a 0 or a 1 for each"
        )
    flags: list[list[float] | None] = [None] * images
    for number, of_class in own.iter_rows():
        row = flags[number] = flags[number] or [0.0] * classes
        row[of_class] = 1.0
    return pl.Series("label", flags, dtype=pl.List(pl.Float64))


def _classes(
    categories: Mapping[Any, str], classes: tuple[str, ...] | None, where: str
) -> tuple[tuple[str, ...], tuple[int, ...], Mapping[Any, int]]:
    """Return class names and category ids by class number, and class numbers by category id."""
    twice = sorted(name for name, count in Counter(categories.values()).items() if count > 1)
    if twice and classes is None:
        raise SourceError(
            f"{where}: several categories have one name: {quoted_names(twice, 3)}: give each its "
            "own, or make them one class with --classes FILE, which names each class once"
        )
    return number_ids(categories, classes, where)


def _require_known(table: pl.DataFrame, read: _Read, where: str) -> None:
    """Refuse annotations of images, or of categories, that the files do not list."""
    import polars as pl

    if lost_ids := sorted({read.uncode(code) for _, code in read.captions.texts}):
        count = format_count(sum(map(len, read.captions.texts.values())), "caption")
        raise SourceError(
            f"{where}: {count} with image_id that the list of images lacks: {format_some(lost_ids)}"
        )
    categories = [read.code(id) for id in read.categories]
    for column, unknown in (
        ("image", pl.col("number").is_null()),
        ("category", ~pl.col("category").is_in(categories)),
    ):
        lost = table.filter(unknown)
        if not lost.is_empty():
            ids = [read.uncode(code) for code in lost[column].unique().sort().to_list()]
            of = "images" if column == "image" else "categories"
            raise SourceError(
                f"{where}: {format_count(lost.height, 'annotation')} with {column}_id that the "
                f"list of {of} lacks: {format_some(ids)}"
            )


def _form(text: str, item: Any) -> str | None:
    """Return what matches annotations that are written as this one is, and takes their ids.

    It is a regular expression of polars, for what lies between the outer braces.
    """
    import polars as pl

    body = text[1:-1]
    parts, end, key = ["^"], 0, ""
    for part in _PART.finditer(body):
        parts.append(pl.escape_regex(body[end : part.start()]))
        kind, end = str(part.lastgroup), part.end()
        if kind == "key":
            found = _ID.match(part[0])
            key = found[1] if found else ""
            parts.append(pl.escape_regex(part[0]))
        elif kind == "number" and key:
            parts.append(f"(?P<{key}>-?[0-9]{{1,18}})")
        else:
            parts.append(f"(?:{_PARTS[kind]})")
    form = "".join((*parts, pl.escape_regex(body[end:]), "$"))
    if len(form) > _LONGEST_FORM:
        return None
    try:
        ids = {name: str(item[name]) for name in _IDS}
        is_own = pl.Series([body]).str.extract_groups(form).to_list() == [ids]
    except (pl.exceptions.ComputeError, LookupError, TypeError):
        return None
    return form if is_own else None


def _ids_of(bodies: pl.Series, form: str) -> pl.DataFrame:
    """Return the ids in annotations, on all cores; they are null where the form does not match."""
    import polars as pl

    ids = pl.col("body").str.extract_groups(form).struct.unnest().cast(pl.Int64)
    cores = pl.thread_pool_size()
    size = bodies.len() // cores + 1
    parts = (bodies.slice(core * size, size).to_frame().lazy() for core in range(cores))
    found = pl.concat(pl.collect_all([part.select(ids) for part in parts]))
    # the groups of a form are in the order of its keys, which others may have otherwise
    return found.select(pl.col(key).alias(column) for key, column in _IDS.items())


class WrittenAlike:
    """Takes annotations of a file that are written as others before them, without parsing them.

    Their ids are all that the scan needs: 20 times as fast as parsing them. Workers parse them all.
    """

    def __init__(self, file: int) -> None:
        self.tables: list[pl.DataFrame] = []  # what was taken, with the columns of `_SPANS`
        self._file = file
        self._forms: dict[str, bool] = {}  # and whether these annotations are labels of images
        self._tries = _MOST_FORMS
        self._joint = ""  # from within an annotation into the next one
        self._runs: list[pl.DataFrame] = []  # what was found and not taken, in reverse
        self._stop = 0  # where in the file the first annotation begins that was not looked at

    def learn(self, text: str, position: int, stop: int, item: Any) -> None:
        """From now on, take annotations that are written as the one in this part of a text."""
        joint = _JOINT.match(text, stop)
        if joint is None or not self._tries:
            return
        self._tries -= 1
        form = _form(text[position:stop], item)
        if form is not None and form not in self._forms:
            self._forms[form] = _DRAWN.isdisjoint(item)
            self._joint, self._stop = "}" + joint[0], 0

    def take(self, text: str, position: int, start: int) -> int:
        """Take annotations from a position of the text on; return where they end.

        The text begins at ``start`` in the file.
        """
        if not self._forms:
            return position
        if start + position >= self._stop:
            self._look(text[position : position + _SOME], start + position)
        while self._runs and (first := self._runs[-1]["offset"][0] - start) <= position:
            run = self._runs.pop()
            if first == position:
                self.tables.append(run)
                return int(run["offset"][-1] + run["size"][-1]) - start
        return position

    def _look(self, text: str, start: int) -> None:
        """Find annotations in a text that begins with one, at ``start`` in the file."""
        import polars as pl

        bodies = pl.Series([text[1:]]).str.split(self._joint).explode()
        size = bodies.str.len_chars().cast(pl.Int64) + len("{}")
        following = start + (size + len(self._joint) - len("}{")).cum_sum()
        offset = following.shift(1, fill_value=start)
        # What looks like a joint, and is none, leaves parts of no form. The last part may be cut.
        rest = pl.DataFrame({"body": bodies, "offset": offset, "size": size})[:-1]
        rest, self._stop = rest.with_row_index("row"), offset[-1]
        found = []
        for form, is_label in self._forms.items():
            ids = _ids_of(rest["body"], form)
            own = rest.with_columns(ids, is_label=pl.lit(int(is_label), pl.Int64))
            found.append(own.drop_nulls())
            rest = rest.filter(ids["id"].is_null())
        table = pl.concat(found).sort("row").with_columns(file=pl.lit(self._file, pl.Int64))
        begins = (table["row"].diff() != 1).fill_null(True).arg_true()
        bounds = pairwise([*begins, table.height])
        self._runs = [table[begin:end].select(_SPANS) for begin, end in bounds][::-1]


def items_of(
    of: CocoFile,
    updates: Sequence[Update],
    alike: WrittenAlike | None = None,
    what: str = "JSON of COCO's",
) -> Iterator[tuple[str, int, int, Any]]:
    """Yield the items of each list in a file, with its name, but for what ``alike`` takes."""
    with (
        open_file(of.path) if of.data is None else BytesIO(of.data) as file,
        BlocksAhead(file, *updates) as blocks,
    ):
        held = JsonText(blocks, of.path, what)
        held.take("{")
        goes_on = not held.is_empty("}")
        while goes_on:
            held.expect('"')
            *_, name = held.value()
            held.take(":")
            if (follows := held.following()) != "[":
                if name in _LISTS and follows != "n":  # the list is null
                    raise SourceError(f"{of.path}: {name} is no list: correct it")
                if held.value()[-1] and name not in _LISTS:
                    yield name, 0, 0, None
            else:
                held.position += 1
                has_more = not held.is_empty("]")
                while has_more:
                    mark = held.following()
                    after = held.position
                    if alike is not None and mark == "{" and name == "annotations":
                        after = alike.take(held.text, held.position, held.start)
                    if after > held.position:
                        held.position = after
                        held.drop()
                    elif name == "annotations":
                        text, at = held.text, held.position
                        offset, size, item = held.value(decodes=of.pngs is not None)
                        is_object = isinstance(item, dict) and not is_caption(item)
                        if alike is not None and is_object and of.pngs is None:
                            alike.learn(text, at, at + size, item)
                        yield name, offset, size, item
                        if of.pngs is not None:
                            yield from segments_in(held.last, offset, item, of.path)
                    else:
                        yield from ((name, 0, 0, item) for item in held.some())
                    has_more = held.goes_on("]")
            goes_on = held.goes_on("}")
        held.end()
