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
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from dsprep.annotations.objects import is_id
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.numbering import number_ids
from dsprep.places.prefetch import Pieces
from dsprep.sources.annotated.annotated import Scan, by_rows
from dsprep.sources.annotated.coco_captions import (
    LOST,
    CocoCaptions,
    is_caption,
    values_of_captions,
)
from dsprep.sources.annotated.coco_items import (
    DRAWN,
    LISTS,
    SPANS,
    CocoFile,
    WrittenAlike,
    items_of,
)
from dsprep.sources.annotated.coco_places import OFFSET_BITS, CocoAnnotations, CocoPlaces
from dsprep.sources.annotated.coco_segments import SEGMENTS, CocoPanoptic
from dsprep.sources.annotated.image_values import MOST_FLAGS, ImageValues
from dsprep.units import format_count, format_some, quoted_names

if TYPE_CHECKING:
    import polars as pl

_CROWD = re.compile(rb'"iscrowd"\s{0,9}:\s{0,9}(?:[1-9]|true)')
_LONGEST_FLAG = 40  # bytes kept of a block, so that a flag on its end is found
_IMAGE_ID = 32  # bytes that the id of an image takes as JSON, at most
_COMPRESSED = re.compile(rb'"counts"\s*:\s*"')


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


class _Read:
    """What files of COCO's have told so far."""

    def __init__(self, known: Collection[str]) -> None:
        self.known = known  # the images below the root
        self.images: dict[tuple[int, int], int] = {}  # numbers by file and id
        self.names: list[str] = []
        self.starts: dict[int, str] = {}  # the directories that names start from, by file
        self.places = array("q")
        self.categories: dict[Any, str] = {}
        self.spans = {name: array("q") for name in SPANS}
        self._codes: dict[object, int] = {}  # numbers that stand for ids that are no numbers
        self.left_out = {of: set[str]() for of in ("", "images", "categories")}
        self.is_lvis = False
        self.captions, self.panoptic = CocoCaptions(), CocoPanoptic()
        self.odd_ids = 0  # annotations whose id no object can have
        self.annotated: set[int] = set()  # the files that have annotations

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
        self.annotated.add(file_number)
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
        place = (file_number, image, category, id, offset, size, DRAWN.isdisjoint(item))
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
                if section in LISTS and not isinstance(item, dict):
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
                which = f"an item of {section}{_called(item)}"
                raise SourceError(f"{file.path}: {which} {lacks} {error}: correct it") from None
        tables += alike.tables
    where = format_some(list(paths))
    table = pl.concat([pl.DataFrame(read.spans, dict.fromkeys(SPANS, pl.Int64)), *tables])
    place = pl.col("offset") + pl.col("file") * (1 << OFFSET_BITS)
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
    for at, path in enumerate(paths):
        if at not in read.annotated:
            said = f"{path}: has no annotations, so that its images are packed without any"
            findings.append(Finding("note", "", said))
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


def _called(item: Any) -> str:
    """Return what messages call an item: its id, or else its first characters."""
    if not isinstance(item, dict):
        return ""
    return f" (id {item['id']!r:.40})" if "id" in item else f" ({item!r:.80})"


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
