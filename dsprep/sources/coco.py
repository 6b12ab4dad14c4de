"""COCO's JSON: images, categories and annotations in one file, in any order.

The annotations of an image may lie anywhere in the file. Only where each begins is kept of them.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dsprep.annotations.coco import parse
from dsprep.annotations.objects import Objects
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.sources.annotated import Annotations, Scan, by_rows
from dsprep.sources.json_file import JsonText, Update
from dsprep.sources.prefetch import OpenFiles, Pieces, read_at
from dsprep.storage.files import OpenFile, open_file
from dsprep.storage.store import Facts
from dsprep.units import format_count, format_some, quoted_names

if TYPE_CHECKING:
    import polars as pl

_NEAR = 1 << 12  # bytes between two annotations that are read over
_CROWD = re.compile(rb'"iscrowd"\s{0,9}:\s{0,9}(?:[1-9]|true)')
_LONGEST_FLAG = 40  # bytes
_COMPRESSED = re.compile(rb'"counts"\s*:\s*"')
# An annotation as COCO's tools write it, whose ids are all that the scan needs: 5 times as fast as
# parsing it. What this does not match is parsed, and workers parse all of them.
_STRING = r'[^"\\]*+(?:\\.[^"\\]*+)*+"'  # from its second character on
_ID = r'"\s*+:\s*+(-?\d{1,18}+)(?=[\s,}])'
_ANNOTATION = re.compile(
    rf'(\{{\s*+(?:"(?:image_id{_ID}|category_id{_ID}|id{_ID}|{_STRING}\s*+:\s*+'
    rf'(?:[\w.+-]++|\[[\d.eE+\-,\s\[\]]*+|"{_STRING}|\{{[^{{}}"]*+(?:"{_STRING}[^{{}}"]*+)*+\}}))'
    r"\s*+,?+\s*+)*+\})\s*+,?+\s*+"
)

Place: TypeAlias = bytes
"""Numbers of 64 bits: file, width and height of an image; offset and size of each annotation."""
HeldPlace: TypeAlias = tuple[Any, ...]
"""Width and height of an image; the text of each annotation, of a file that is in memory."""


_LISTS = ("images", "annotations", "categories")


class _Digest:
    """The digest of what is read, and by how much it may grow: ``5`` becomes 5.0."""

    def __init__(self) -> None:
        self.sha, self.growth = hashlib.sha256(), 2
        self.flags, self._end = False, b""  # whether some are crowds; the end of the block before

    def update(self, block: bytes) -> None:
        self.sha.update(block)
        self.flags = self.flags or _CROWD.search(self._end + block) is not None
        self._end = block[-_LONGEST_FLAG:]
        if self.growth == 2 and _COMPRESSED.search(block):
            self.growth = 6  # a character of compressed runs is the difference of two numbers


class CocoFile(NamedTuple):
    """A file of COCO's."""

    path: str
    below: str = ""  # the directory below the root that its names start from, if images lie there
    side: str = ""  # the side that its images are, if that is known
    data: bytes | None = None  # its content, if it lies in an archive


@dataclass(frozen=True)
class CocoAnnotations(Annotations):
    """Annotations in files of COCO's."""

    files: tuple[str, ...]
    states: tuple[Facts | None, ...]  # of each file when it was scanned; None of a copy
    classes: Mapping[Any, int]  # numbers by category ids

    @property
    def is_copied(self) -> bool:
        return None in self.states

    @contextmanager
    def opened(self) -> Iterator[Callable[[Place | HeldPlace], Objects]]:
        with OpenFiles(self.files, self.states) as files:
            for number in range(len(self.files)):
                files.same(number)
            yield partial(self._objects, files)

    def _objects(self, files: OpenFiles, place: Place | HeldPlace) -> Objects:
        if isinstance(place, tuple):
            width, height, *texts = place
        else:
            number, width, height, *spans = memoryview(place).cast("q")
            texts = self._texts(files[number], spans) if spans else []
        extent = (float(width), float(height)) if width and height else None
        return Objects(parse(texts, self.classes) if texts else (), extent)

    def _texts(self, file: OpenFile, spans: Sequence[int]) -> list[bytes]:
        start, stop = spans[0], spans[-2] + spans[-1]
        pairs = zip(spans[::2], spans[1::2], strict=True)
        if stop - start >= sum(spans[1::2]) + _NEAR:
            return [read_at(file, size, at) for at, size in pairs]
        data = read_at(file, stop - start, start)  # what lies near is read at once
        return [data[at - start : at - start + size] for at, size in pairs]


@dataclass(frozen=True, eq=False)
class _Places(Sequence[Any]):
    """The places of the annotations of each image, in little memory."""

    images: array[int]  # file, width and height of each
    starts: array[int]  # the first span of each image, and at last the number of spans
    spans: array[int]  # offset and size of each
    held: Sequence[bytes]  # the files, if they are in memory

    def __len__(self) -> int:
        return len(self.images) // 3

    def __getitem__(self, number: Any) -> Any:
        spans = self.spans[2 * self.starts[number] : 2 * self.starts[number + 1]]
        image = self.images[3 * number : 3 * number + 3]
        if not self.held:
            return (image + spans).tobytes()
        pairs, data = zip(spans[::2], spans[1::2], strict=True), self.held[image[0]]
        return (*image[1:], *(data[start : start + size] for start, size in pairs))


class _Read:
    """What files of COCO's have told so far."""

    def __init__(self, known: Collection[str]) -> None:
        self.known = known  # the images below the root
        self.images: dict[tuple[int, int], int] = {}  # numbers by file and id
        self.names: list[str] = []
        self.places = array("q")
        self.categories: dict[Any, str] = {}
        self.spans = {name: array("q") for name in _SPANS}
        self._codes: dict[object, int] = {}  # numbers instead of ids that are none

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

    def image(self, at: int, file: CocoFile, item: Mapping[str, Any]) -> None:
        if "neg_category_ids" in item:
            raise SourceError(
                f"{file.path}: is LVIS's, which dsprep does not read: each of its images is "
                "annotated for some classes only. Convert it to COCO's JSON, with a file_name for "
                "each image"
            )
        number = len(self.names)
        if self.images.setdefault((at, self.code(item["id"])), number) != number:
            raise SourceError(f"{file.path}: several images have the id {item['id']!r:.60}")
        name = str(item.get("file_name") or item["coco_url"])
        below = posixpath.join(file.below, name) if file.below else name
        self.names.append(below if below in self.known else name)
        width, height = (item.get(side) or 0 for side in ("width", "height"))
        if int(width) < 0 or int(height) < 0:
            raise ValueError(f"its size is {width!r:.40} x {height!r:.40}")
        self.places.extend((at, int(width), int(height)))

    def category(self, file: CocoFile, item: Mapping[str, Any]) -> None:
        id, name = item["id"], str(item["name"])
        self.code(id)
        if self.categories.setdefault(id, name) != name:
            raise SourceError(
                f"{file.path}: the category {id!r:.60} is called {name!r:.60} and "
                f"{self.categories[id]!r:.60}: pack files of different classes apart"
            )

    def annotation(self, at: int, path: str, offset: int, size: int, item: Any) -> None:
        if "segments_info" in item:
            raise SourceError(
                f"{path}: is panoptic, which dsprep does not read: give the instances of the same "
                "images, as in instances_train2017.json"
            )
        if "caption" in item and "category_id" not in item:
            raise SourceError(f"{path}: has captions, which have no boxes: they are not read")
        id, category = item.get("id"), item["category_id"]
        known = id if type(id) is int and abs(id) < 2**61 else -1
        place = (at, self.code(item["image_id"]), self.code(category), known, offset, size)
        for column, number in zip(self.spans.values(), place, strict=True):
            column.append(number)


_SPANS = ("file", "image", "category", "id", "offset", "size")


def scan_coco(
    files: Sequence[CocoFile], known: Collection[str] = (), classes: tuple[str, ...] | None = None
) -> Scan:
    """Find the images, categories and annotations in files, of which all or none are in memory."""
    import polars as pl

    digest = _Digest()
    paths = tuple(file.path for file in files)
    held = [file.data for file in files if file.data is not None]
    copies = [] if held else [*map(Pieces, paths)]
    read = _Read(known)
    for at, file in enumerate(files):
        updates = digest.update, *(each.add for each in copies[at : at + 1])
        for section, offset, size, item in _items(file, updates, partial(_fast, read.spans, at)):
            try:
                if section == "annotations":
                    read.annotation(at, file.path, offset, size, item)
                elif section == "images":
                    read.image(at, file, item)
                elif section == "categories":
                    read.category(file, item)
            except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
                lacks = "lacks" if isinstance(error, KeyError) else "cannot be read:"
                raise SourceError(
                    f"{file.path}: an item of {section} {lacks} {error}: correct it"
                ) from None
    where = format_some(list(paths))
    numbers, names, ids = _classes(read.categories, classes, where)
    table = pl.DataFrame(read.spans, schema=dict.fromkeys(_SPANS, pl.Int64))
    images = pl.DataFrame(
        [(*key, number) for key, number in read.images.items()],
        schema=dict.fromkeys(("file", "image", "number"), pl.Int64),
        orient="row",
    )
    table = table.join(images, on=["file", "image"], how="left", maintain_order="left")
    _require_known(table, read, where)
    repeated = table.filter(pl.col("id") >= 0).select("file", "id")
    twice = repeated.filter(repeated.is_duplicated())["id"].unique().sort().cast(str).to_list()
    findings = []
    if twice:
        said = f"{format_count(len(twice), 'id')} of several annotations: {format_some(twice)}"
        findings.append(Finding("note", "", f"{where}: {said}; all of these are kept"))
    table = table.sort("number", "file", maintain_order=True)
    sizes = table.group_by("number").agg(pl.len(), pl.col("size").sum())
    of_image = images.sort("number").select("number").join(
        sizes, on="number", how="left", maintain_order="left"
    ).fill_null(0)  # fmt: skip
    starts = array("q", [0, *of_image["len"].cum_sum().to_list()])
    sides = [files[at].side for at in read.places[::3]]
    spans = by_rows(table.select("offset", "size"), "q")
    own, states = (tuple(getattr(each, name) for each in copies) for name in ("path", "state"))
    annotations = CocoAnnotations(own, states, numbers)
    for each in copies:
        each.belong_to(annotations)
    return Scan(
        annotations,
        read.names,
        of_image["len"].to_list(),
        (of_image["size"] * digest.growth).to_list(),
        names,
        ids,
        digest.sha.hexdigest(),
        where,
        findings,
        places=_Places(read.places, starts, spans, held),
        flags=digest.flags,
        sides=sides if all(sides) else (),
    )


def _classes(
    categories: Mapping[Any, str], classes: tuple[str, ...] | None, where: str
) -> tuple[Mapping[Any, int], tuple[str, ...], tuple[int, ...]]:
    """Return class numbers by category ids, class names, and ids by class numbers."""
    if classes is not None:
        if unknown := sorted({*categories.values()}.difference(classes)):
            raise SourceError(f"{where}: no class of --classes: {quoted_names(unknown, 3)}")
        return {id: classes.index(name) for id, name in categories.items()}, classes, ()
    has_numbers = all(type(id) is int for id in categories)
    ids = sorted(categories) if has_numbers else sorted(categories, key=str)
    numbers = {id: number for number, id in enumerate(ids)}
    return numbers, tuple(categories[id] for id in ids), tuple(ids) if has_numbers else ()


def _require_known(table: pl.DataFrame, read: _Read, where: str) -> None:
    """Refuse annotations of images, or of categories, that the files do not list."""
    import polars as pl

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
                f"{where}: {format_count(lost.height, 'annotation')} of {of} that are not in "
                f"{of}: {format_some(ids)}"
            )


def _fast(spans: Mapping[str, array[int]], file: int, text: str, at: int, start: int) -> int:
    """Take annotations from a position of the text on; return where the first other item is."""
    _, images, categories, ids, offsets, sizes = spans.values()
    before = len(offsets)
    # A scanner's matches follow one another, as those of `finditer` may not.
    for found in iter(_ANNOTATION.scanner(text, at).match, None):  # type: ignore[attr-defined]
        body, image, category, id = found.groups()
        if image is None or category is None or id is None:
            break
        images.append(int(image))
        categories.append(int(category))
        ids.append(int(id))
        offsets.append(start + at)
        sizes.append(len(body))
        at = found.end()
    spans["file"].extend([file] * (len(offsets) - before))
    return at


def _items(
    of: CocoFile, updates: Sequence[Update], fast: Callable[[str, int, int], int]
) -> Iterator[tuple[str, int, int, Any]]:
    """Return the items of each list in a file, with its name; ``fast`` is :func:`_fast`."""
    with open_file(of.path) if of.data is None else BytesIO(of.data) as file:
        held = JsonText(file, of.path, "JSON of COCO's", *updates)
        held.take("{")
        while held.expect('"}') != "}":
            *_, name = held.value()
            held.take(":")
            if (follows := held.following()) != "[":
                if name in _LISTS and follows != "n":  # null
                    raise SourceError(f"{of.path}: {name} is no list: correct it")
                held.value()
            else:
                held.at += 1
                while (mark := held.expect('{[]"0123456789-tfn,')) != "]":
                    after = held.at + (mark == ",")
                    if mark != "," and name == "annotations":
                        after = fast(held.text, held.at, held.start)
                    if after > held.at:
                        held.at = after
                        held.drop()
                    elif name == "annotations":
                        yield name, *held.value(decodes=False)
                    else:
                        yield from ((name, 0, 0, item) for item in held.some())
                held.at += 1
            if held.expect(",}") == ",":
                held.at += 1
        held.at += 1
        held.end()
