"""Annotations of many images in one file, or in one for each side: a span of it for each image.

A kind of such files says how a file is divided into pieces (`Spans.pieces`), and what a piece tells
(`Spans.name_of` and `Spans.parse`). The same functions scan a file and, in workers, read what a
piece tells.
"""

from __future__ import annotations

import json
import os
import posixpath
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from dsprep.annotations.elements import root_of
from dsprep.annotations.objects import APART, Extent, Object, Objects, to_json
from dsprep.errors import OptionError, SourceError
from dsprep.findings import Finding
from dsprep.numbering import not_given, number_classes, numbers_of
from dsprep.places.names import told_side, told_sides
from dsprep.places.prefetch import OpenFiles, Pieces, read_at
from dsprep.sources.annotated.annotated import Annotations, Scan, some_lines
from dsprep.sources.annotated.image_values import ImageValues, class_of_images, tags_of_images
from dsprep.sources.annotated.json_file import JsonText, items_in
from dsprep.sources.annotated.xml_file import children_of
from dsprep.storage.files import full_path, open_file
from dsprep.storage.pool import BlocksAhead, Update
from dsprep.storage.stored import Facts
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some, quoted_names

if TYPE_CHECKING:
    from dsprep.places.files import Files
    from dsprep.sources.source import Source

S = TypeVar("S", bound="Spans")

_BLOCK = 1 << 20
_LONGEST = 1 << 26  # bytes of lines that are one piece
_NUMBER = 8  # bytes that the number of a class may take as JSON


class ParsedImage(NamedTuple):
    """What a piece tells of an image.

    Attributes:
        shapes: The objects without their numbers, each with the name of its class.
        extent: The size of the image, if it is told.
        left_out: What is there besides and has no place, as nouns with counts: ``polyline``.
        remarks: What a user should know of it, as ends of ``3 images …``.
        refused: What dsprep does not read and no note could make good, as keys of `Spans.advice`.
        side: The side of the image; empty if it tells none.
        directories: The directories that its name may start from, below those of the file.
        tags: The labels of the image itself, by what they are about, such as the weather; of
            several images with one each, its class.
    """

    shapes: Sequence[tuple[str, Object]] = ()
    extent: Extent | None = None
    left_out: Mapping[str, int] = {}
    remarks: Collection[str] = ()
    refused: Collection[str] = ()
    side: str = ""
    directories: Sequence[str] = ("",)
    tags: Mapping[str, Collection[str]] = {}


class Spans(Annotations):
    """Annotations in spans of files: a place is a file, an offset and a size, or the span itself.

    Attributes:
        files: The files, or temporary copies of them.
        states: Those of the files when they were scanned; None of a copy.
        classes: The numbers of classes by name.
        noun: What a piece is, for messages.
        advice: What to do about what is refused or not read, by what that is called.
    """

    files: tuple[str, ...] = ()
    states: tuple[Facts | None, ...] = ()
    classes: Mapping[str, int] = field(default_factory=dict)
    noun: ClassVar[str] = "image"
    advice: ClassVar[Mapping[str, str]] = {}

    @property
    def is_copied(self) -> bool:
        return None in self.states

    @abstractmethod
    def pieces(self, file: Any, path: str) -> Iterator[tuple[int, int, Any]]:
        """Yield where each piece of an open file begins, its size, and what it holds."""

    @abstractmethod
    def piece(self, data: bytes) -> Any:
        """Return what a piece holds, given its bytes."""

    @abstractmethod
    def name_of(self, piece: Any) -> str:
        """Return what a piece calls its image; empty if it is of none, such as a header."""

    @abstractmethod
    def parse(self, piece: Any) -> ParsedImage | None:
        """Return what a piece tells of its image; None if it tells nothing, so that it is none."""

    def called(self, number: int, piece: Any) -> str:
        """Return what messages call a piece, given its number from 1."""
        try:
            return self.name_of(piece) or f"{self.noun} {number:,}"
        except (ValueError, TypeError, AttributeError):
            return f"{self.noun} {number:,}"

    def classes_in(self, piece: Any) -> Collection[str]:
        """Return the classes that a piece names which tells nothing of an image."""
        return ()

    @contextmanager
    def opened(self, places: Sequence[Any]) -> Iterator[Callable[[int], Objects]]:
        with OpenFiles(self.files, self.states) as files:

            def objects(at: int) -> Objects:
                place = places[at]
                if isinstance(place, bytes):
                    return self.objects(place)
                number, offset, size = place
                return self.objects(read_at(files.same(number), size, offset))

            yield objects

    def objects(self, data: bytes) -> Objects:
        """Return the objects that a piece tells, with the numbers of their classes."""
        told = self.parse(self.piece(data)) or ParsedImage()
        items = (each._replace(number=self.classes[name]) for name, each in told.shapes)
        return Objects(tuple(items), told.extent)


def fields_in(piece: Any) -> Mapping[str, Any]:
    """Return a piece of JSON, which has to be an object."""
    if not isinstance(piece, dict):
        raise ValueError(f"{piece!r:.40} is no object of JSON")
    return piece


class JsonSpans(Spans):
    """Spans of JSON: items of a list or of an object."""

    within: ClassVar[Collection[str]] = ()  # names of items whose items are those of images

    def pieces(self, file: Any, path: str) -> Iterator[tuple[int, int, Any]]:
        items = items_in(JsonText(file, path, f"list of {self.noun}s"), self.within)
        return ((offset, size, item) for _, offset, size, item in items)

    def piece(self, data: bytes) -> Any:
        return json.loads(data)


class XmlSpans(Spans):
    """Spans of XML: elements below the root."""

    root: ClassVar[str]  # the tag of the root

    def pieces(self, file: Any, path: str) -> Iterator[tuple[int, int, Any]]:
        return children_of(file, path, self.root)

    def piece(self, data: bytes) -> Any:
        return root_of(data)


class LineSpans(Spans):
    """Spans of text: lines that follow one another."""

    @abstractmethod
    def belongs(self, lines: Sequence[str], line: str) -> bool:
        """Return whether a line belongs to the lines before it, which are one piece."""

    def pieces(self, file: Any, path: str) -> Iterator[tuple[int, int, Any]]:
        begins, ends, lines = 0, 0, list[str]()
        for offset, size, line in _lines_of(file, path):
            if lines and not self.belongs(lines, line):
                yield begins, ends - begins, lines
                lines = []
            begins, ends = begins if lines else offset, offset + size
            lines.append(line)
            if ends - begins > _LONGEST:
                raise SourceError(f"{path}: has a piece of more than {_LONGEST:,} bytes")
        if lines:
            yield begins, ends - begins, lines

    def piece(self, data: bytes) -> Any:
        lines = data.decode("utf-8-sig").split("\n")
        return [line.rstrip("\r") for line in lines if line.strip()]


def _lines_of(file: Any, path: str) -> Iterator[tuple[int, int, str]]:
    """Yield where each line begins that is not blank, its size, and its text without its end."""
    held, at, is_last = b"", 0, False
    while not is_last:
        block: bytes = file.read(_BLOCK)
        is_last = not block
        *lines, held = (held + block).split(b"\n")
        if len(held) > _LONGEST:
            raise SourceError(f"{path}: has a line of more than {_LONGEST:,} bytes")
        for line in [*lines, held] if is_last else lines:
            try:
                text = line.decode("utf-8" if at else "utf-8-sig").rstrip("\r")
            except UnicodeDecodeError:
                said = f"{path}: is not UTF-8, at byte {at:,}: save the file as UTF-8"
                raise SourceError(said) from None
            if text.strip():
                yield at, len(line), text
            at += len(line) + 1


@dataclass
class _ReadSpans:
    """What the pieces of all files have told so far."""

    file: str = ""  # the one that is read, as messages begin with it if there are several
    names: list[str] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    texts: list[int] = field(default_factory=list)
    places: list[Any] = field(default_factory=list)
    sides: list[str] = field(default_factory=list)
    tags: list[Mapping[str, Collection[str]]] = field(default_factory=list)
    classes: set[str] = field(default_factory=set)
    left_out: Counter[str] = field(default_factory=Counter)
    remarks: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[str, list[str]] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)  # images that are told nothing of
    damaged: list[str] = field(default_factory=list)
    has_flags: bool = False
    has_more_than_boxes: bool = False

    def taken(self, spans: Spans, number: int, piece: Any) -> tuple[str, ParsedImage | None]:
        """Take what a piece tells, and return it with what it calls its image.

        Nothing is returned of a piece that is damaged, or that is of no image, or tells nothing.
        """
        name, told, why = "", None, ""
        try:
            name = spans.name_of(piece)
            told = spans.parse(piece) if name else None
            self.classes.update(() if told else spans.classes_in(piece))
        except KeyError as error:
            why = f"lacks {error}"
        except (ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
            why = str(error)
        if why:
            self.damaged.append(f"{self.file}{spans.called(number, piece)}: {why}")
            return "", None
        if told is None:
            self.silent += [name] * bool(name)
            return name, None
        objects = [each for _, each in told.shapes]
        self.counts.append(len(objects))
        self.classes.update(name for name, _ in told.shapes)
        self.left_out.update(told.left_out)
        for own, known in ((told.remarks, self.remarks), (told.refused, self.refused)):
            for what in own:
                known.setdefault(what, []).append(spans.called(number, piece))
        self.has_flags = self.has_flags or any(each.flags & APART for each in objects)
        self.has_more_than_boxes |= any(each.polygons or each.rle for each in objects)
        return name, told


def opened_at(path: str, source: Source, files: Files) -> AbstractContextManager[Any]:
    """Open a file on the disk or, if the images lie in an archive that has it, in this."""
    data = _data_of(path, source, files)
    return open_file(path) if data is None else BytesIO(data)


def _data_of(path: str, source: Source, files: Files) -> bytes | None:
    if files.texts is None:
        return None
    return files.texts[full_path(path).removeprefix(f"{full_path(source.root)}/")]


class _SpansFile(NamedTuple):
    """A file of annotations."""

    path: str  # as the user names it, or below the root
    inside: str  # below the root, if it lies there
    data: bytes | None  # its content, if it lies in an archive
    side: str  # the side of its images, if its name tells that
    tops: Sequence[str]  # the directories below the root that images may lie in, the best first


def _files_of(
    paths: Sequence[str], source: Source, files: Files, below: Sequence[str]
) -> Sequence[_SpansFile]:
    found, top = [], f"{full_path(source.root)}/"
    own = [full_path(path).removeprefix(top) for path in paths]
    for path, inside, side in zip(paths, own, _sides_of(paths, own), strict=True):
        data = _data_of(path, source, files)
        found.append(_SpansFile(path, inside, data, side, _tops(inside, below)))
    return found


def _read_file(
    read: _ReadSpans,
    spans: Spans,
    number: int,
    of: _SpansFile,
    known: Collection[str],
    updates: Sequence[Update],
) -> None:
    """Take what a file tells, given its number and the paths of the images."""
    data = of.data
    with (
        open_file(of.path) if data is None else BytesIO(data) as file,
        BlocksAhead(file, *updates) as blocks,
    ):
        for at, (offset, size, piece) in enumerate(spans.pieces(blocks, of.path), 1):
            name, told = read.taken(spans, at, piece)
            if told is None:
                continue
            place = (number, offset, size) if data is None else data[offset : offset + size]
            read.places.append(place)
            read.names.append(_placed(name, of.tops, told.directories, known))
            read.sides.append(told.side or of.side)
            read.tags.append(told.tags)
            read.texts.append(max(size, _as_json(told)))


def _as_json(told: ParsedImage) -> int:
    """Return how many bytes the objects of an image take as JSON, at most."""
    objects = [each for _, each in told.shapes]
    return len(to_json(Objects(tuple(objects)))) + _NUMBER * len(objects)


def scan_spans(
    spans: S, paths: Sequence[str], source: Source, files: Files, below: Sequence[str] = ("",)
) -> Scan:
    """Find the images, objects, classes and sides that files of annotations tell.

    Args:
        spans: The kind of the files, with what else it takes to read them.
        paths: The files: below the root, if they lie in an archive; else as users name them.
        source: What the user named, with the options.
        files: The images, and the files beside them.
        below: The directories, from that of a file, in which its images may lie, the best first;
            ``{side}`` stands for the side that the name of the file tells.
    """
    own = _files_of(paths, source, files, below)
    known = frozenset(files.table["path"].to_list())
    read, digest, copies = _ReadSpans(), sha256(), list[Pieces]()
    for number, each in enumerate(own):
        read.file = f"{each.inside}: " if len(own) > 1 else ""
        copies += [Pieces(each.path)] if each.data is None else []
        updates = digest.update, *(copy.add for copy in copies[number : number + 1])
        _read_file(read, spans, number, each, known, updates)
    where = paths[0] if len(paths) == 1 else source.root
    _require_read(where, spans, read)
    _require_some(where, spans, read)
    values, unasked = _values_of_tags(read, source, where)
    scan = Scan(None, read.names, read.counts, read.texts, (), (), digest.hexdigest(), where)
    scan = scan._replace(
        findings=[Finding("note", "", note) for note in (*_notes(spans, read), *unasked)],
        sides=_all_sides(read.sides),
        used=[each.inside for each in own if each.inside != full_path(each.path)],
        values=values,
        flags=False,
    )
    if scan.values.label is not None and not any(read.counts):  # no objects, but labels of images
        return scan._replace(texts=[0] * len(read.names))
    classes = number_classes(read.classes, source.known_classes(), where, not_given)
    open_files = tuple(copy.path for copy in copies)
    states = tuple(copy.state for copy in copies)
    spans = replace(spans, files=open_files, states=states, classes=numbers_of(classes))
    for copy in copies:
        copy.belong_to(spans)
    return scan._replace(
        annotations=spans,
        classes=classes,
        flags=read.has_flags,
        places=read.places,
        boxes_alone=not read.has_more_than_boxes,
    )


def _values_of_tags(
    read: _ReadSpans, source: Source, where: str
) -> tuple[ImageValues, Sequence[str]]:
    """Return the labels of images, a class of each or several tags, and notes about others."""
    has_objects = any(read.counts)
    about, notes = _labels_to_take(read, source, where, has_objects)
    tags = [own.get(about, ()) for own in read.tags]
    most = max(map(len, tags), default=0)
    if has_objects:  # --classes names the classes of objects
        source = source.replace(classes=None)
    if most > 1:
        return tags_of_images(tags, source, where), notes
    classes = [next(iter(own), None) for own in tags]
    return class_of_images(classes, source, where) if most else ImageValues(), notes


def _labels_to_take(
    read: _ReadSpans, source: Source, where: str, has_objects: bool
) -> tuple[str, Sequence[str]]:
    """Return what the labels to take are about, and a note about others.

    Beside objects, labels are not needed: if there are several, none are taken unasked.
    """
    asked = next(iter(source.label_columns), "")
    known = sorted({each for own in read.tags for each in own})
    others = [each for each in known if each != asked]
    named = quoted_names(others)
    if asked and len(others) == len(known) > 0:
        raise OptionError(
            f"--label-column {asked}: {where} has no such labels of images; it has {named}"
        )
    if len(known) < 2:
        return next(iter(known), ""), ()
    if not asked and not has_objects:
        raise SourceError(
            f"{where}: has several labels of an image: give --label-column with one of {named}"
        )
    ways = "" if asked else "; --annotations PATH --label-column NAME takes one of these"
    return asked, [f"labels of images not read: {named}{ways}"]


def _tops(path: str, below: Sequence[str]) -> Sequence[str]:
    """Return the directories below the root that the images of a file may lie in."""
    directory = "" if posixpath.isabs(path) or "://" in path else posixpath.dirname(path)
    told = told_side(_stem(path))
    own = (each.format(side=told.side if told else "") for each in below)
    return [posixpath.normpath(posixpath.join(directory, each or ".")) for each in own]


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _placed(
    name: str, tops: Sequence[str], directories: Sequence[str], known: Collection[str]
) -> str:
    """Return the path of an image that lies in one of some directories, or its name."""
    tried = [
        posixpath.normpath(posixpath.join(top, each, name)) for top in tops for each in directories
    ]
    return next((path for path in tried if path in known), posixpath.join(directories[0], name))


def _sides_of(paths: Sequence[str], inside: Sequence[str]) -> Sequence[str]:
    """Return the side of each file by its name or its directory's; empty if not all tell one.

    The names of a single file and of directories above SOURCE say less: shards are called train,
    unless a name says otherwise.
    """
    if len(paths) > 1:
        return told_sides(paths, list(map(_stem, paths))) or [""] * len(paths)
    directory = "" if inside[0] == full_path(paths[0]) else posixpath.dirname(inside[0])
    found = told_side(_stem(paths[0])) or told_side(posixpath.basename(directory))
    return [found.side if found is not None and "train" not in found.side else ""]


def _all_sides(sides: Sequence[str]) -> Sequence[str]:
    """Return the sides of images; those without one are of the side `default`."""
    return [side or "default" for side in sides] if any(sides) else ()


def _notes(spans: Spans, read: _ReadSpans) -> Iterator[str]:
    """Say what is not kept, and what a user should know."""
    for what, count in sorted(read.left_out.items()):
        advice = f": {spans.advice[what]}" if what in spans.advice else ""
        yield f"{format_count(count, what)}, not read{advice}"
    for what, names in sorted(read.remarks.items()):
        yield f"{format_count(len(names), spans.noun)} {what}: {format_some(names)}"
    if read.silent:
        said = f"{format_count(len(read.silent), spans.noun)} skipped or not annotated"
        yield f"{said}, so that their images are left out: {format_some(read.silent)}"


def _require_some(where: str, spans: Spans, read: _ReadSpans) -> None:
    """Refuse files that tell nothing of any image."""
    if read.left_out and not any(read.counts) and not any(read.tags):
        found = (format_count(count, what) for what, count in sorted(read.left_out.items()))
        raise SourceError(f"{where}: has no objects that dsprep reads, but {', '.join(found)}")
    if not read.names:
        why = f"no {spans.noun} is annotated" if read.silent else "names no images"
        raise SourceError(f"{where}: {why}")


def _require_read(where: str, spans: Spans, read: _ReadSpans) -> None:
    """Refuse files with damaged pieces, or with what dsprep does not read."""
    count = len(read.damaged)
    told = [f"{format_count(count, spans.noun)} cannot be read"] if count else []
    if read.refused:
        told.append(f"dsprep does not read {' and '.join(sorted(read.refused))}")
    lines = [
        f"  {what} in {format_count(len(names), spans.noun)} ({format_some(names)}): "
        f"{spans.advice[what]}"
        for what, names in sorted(read.refused.items())
    ]
    if told:
        raise SourceError(f"{where}: {'; '.join(told)}:", *some_lines(read.damaged, count), *lines)
