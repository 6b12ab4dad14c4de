"""MOT's sequences: directories of frames, each with a text of the objects in all of them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from dsprep.annotations.mot import CLASSES, line_of, parse, read_row
from dsprep.annotations.named import most_json
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.numbering import not_given, number_classes, numbers_of
from dsprep.sources.annotated.annotated import Scan
from dsprep.sources.annotated.image_tables import data_of, paths_below, used_below
from dsprep.sources.annotated.image_texts import NamedTexts
from dsprep.storage.files import full_path
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, lines_of

if TYPE_CHECKING:
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source

_TRUTH = re.compile(r"(?:^|/)gt/gt\.txt$")
_NOT_READ = re.compile(r"(?:^|/)(?:gt|det)/[^/]+\.txt$")
_DIRECTORY = re.compile(r"(?im)^\s*imDir\s*=\s*([^\s/\\]+)\s*$")
_FRAMES = "img1"  # the directory of frames, if seqinfo.ini tells no other
_MOST_BYTES = 1 << 30  # of all texts, whose rows are held in memory


class _Sequence(NamedTuple):
    """A sequence: its text, and its frames."""

    path: str  # the text
    directory: str  # that of the frames
    lines: Mapping[int, Sequence[str]]  # of each frame, as `parse` reads them
    names: frozenset[str]  # of classes


def scan_mot(source: Source, place: AnnotatedPlace) -> Scan:
    """Find the frames of all sequences, and the objects in each."""
    paths = paths_below(place)
    truths = [path for path in paths if _TRUTH.search(full_path(path))]
    if not truths:
        raise SourceError(f"{place.root}: has no gt/gt.txt, as a sequence of MOT has")
    data = {path: data_of(source, place.files, path) for path in truths}
    if sum(map(len, data.values())) > _MOST_BYTES:
        raise SourceError(f"{place.root}: its texts have more than {_MOST_BYTES:,} bytes")
    beside = _texts_beside(source, place, truths)
    sequences = [_sequence(path, data[path], beside) for path in truths]
    names, places, lost = list[str](), list[tuple[str, bytes]](), list[Finding]()
    frames = _frames(place)
    for each in sequences:
        own = frames.get(each.directory, {})
        for number, image in sorted(own.items()):
            names.append(image)
            places.append((image, "\n".join(each.lines.get(number, ())).encode()))
        missing = sorted(each.lines.keys() - own.keys())
        top = posixpath.relpath(each.directory, full_path(place.root))
        told = f"named in {posixpath.relpath(full_path(each.path), full_path(place.root))}"
        lost += [Finding("missing", f"{top}/{number:06d}", told) for number in missing]
    if not names:
        raise SourceError(
            f"{truths[0]}: there are no frames in {sequences[0].directory}, such as 000001.jpg"
        )
    classes = number_classes(
        frozenset[str]().union(*(each.names for each in sequences)),
        *(source.known_classes(), truths[0], not_given),
    )
    found = [parse(rows) for _, rows in places]
    others = [path for path in place.others if _NOT_READ.search(path)]
    used = frozenset(used_below(source, [*truths, *beside]))
    others = [path for path in others if path not in used]
    ignored = sum("difficult" in each.flags for one in found for _, each in one.items)
    return Scan(
        NamedTexts(place.root, parse, numbers_of(classes)),
        names,
        [len(each.items) for each in found],
        list(map(most_json, found)),
        classes,
        (),
        sha256(b"\0".join([*data.values(), *beside.values()])).hexdigest(),
        posixpath.dirname(truths[0]),
        [*lost, *_notes(others, ignored), *(Finding("not-read", path) for path in others)],
        flags=ignored > 0,
        places=places,
        used=[*used, *others],
        boxes_alone=True,
    )


def _notes(others: Sequence[str], ignored: int) -> Iterator[Finding]:
    yield Finding(
        "note",
        "",
        "coordinates of boxes are kept as they are: those of MOT's own sets count from 1, and lie "
        "a pixel to the right and below",
    )
    if ignored:
        said = f"{format_count(ignored, 'object')} that evaluation ignores marked difficult"
        yield Finding("note", "", said)
    if others:
        said = f"{format_count(len(others), 'further text')} of MOT not read, such as {others[0]}"
        yield Finding("note", "", said)


def _texts_beside(
    source: Source, place: AnnotatedPlace, truths: Sequence[str]
) -> Mapping[str, bytes]:
    """Return the contents of `labels.txt` and `seqinfo.ini` of sequences that have them."""
    from dsprep.storage.files import exists

    found = {}
    for path in truths:
        gt = posixpath.dirname(path)
        for beside in (f"{gt}/labels.txt", f"{posixpath.dirname(gt)}/seqinfo.ini"):
            below = full_path(beside).removeprefix(f"{full_path(place.root)}/")
            is_there = below in place.others or (place.files.archive is None and exists(beside))
            if is_there:
                found[beside] = data_of(source, place.files, beside)
    return found


def _sequence(path: str, data: bytes, beside: Mapping[str, bytes]) -> _Sequence:
    """Read the text of a sequence."""
    gt = posixpath.dirname(path)
    top = posixpath.dirname(full_path(gt))
    labels = beside.get(f"{gt}/labels.txt", b"").decode("utf-8-sig", "replace")
    names = [line.strip() for line in lines_of(labels)]
    named = {number: name for number, name in enumerate(names, 1) if name}
    classes = named or CLASSES
    info = beside.get(f"{posixpath.dirname(gt)}/seqinfo.ini", b"").decode("utf-8-sig", "replace")
    directory = _DIRECTORY.search(info)
    lines: dict[int, list[str]] = {}
    used = set[str]()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SourceError(f"{path}: is not UTF-8: save the file as UTF-8") from None
    for number, line in enumerate(lines_of(text), 1):
        if not line.strip():
            continue
        try:
            row = read_row(line.split(","), classes)
        except ValueError as error:
            raise SourceError(f"{path}: line {number}: {error}") from None
        lines.setdefault(row.frame, []).append(line_of(row))
        used.add(row.name)
    frames = directory[1] if directory and directory[1] not in (".", "..") else _FRAMES
    return _Sequence(path, f"{top}/{frames}", lines, frozenset(used))


def _frames(place: AnnotatedPlace) -> dict[str, dict[int, str]]:
    """Return the images whose names are numbers, by their directory and number."""
    found: dict[str, dict[int, str]] = {}
    top = full_path(place.root)
    for path in place.files.table["path"].to_list():
        directory, name = posixpath.split(f"{top}/{path}")
        stem = posixpath.splitext(name)[0]
        if stem.isascii() and stem.isdecimal() and len(stem) < 12:
            own = found.setdefault(directory, {})
            if (other := own.setdefault(int(stem), path)) != path:
                raise SourceError(f"{place.root}: {other} and {path} are one frame: remove one")
    return found
