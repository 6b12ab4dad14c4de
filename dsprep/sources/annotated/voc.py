"""Pascal VOC's sets: an XML file for each image, and lists of the images of each side."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dsprep.annotations.objects import Objects
from dsprep.annotations.voc import VocImage, counts_from_0, objects_of, parse
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.numbering import not_given, number_classes, numbers_of
from dsprep.places.names import is_left_out, is_side_alone, usual_side
from dsprep.sources.annotated.annotated import Scan
from dsprep.sources.annotated.image_values import class_of_images
from dsprep.sources.annotated.texts import Texts, ToldByFile, look_at
from dsprep.sources.annotated.voc_masks import masks_of
from dsprep.units import format_count, format_some

if TYPE_CHECKING:
    from dsprep.places.files import Files
    from dsprep.places.scan import RunAll
    from dsprep.sources.source import Source

_LIST = re.compile(r"(?:^|/)ImageSets/(?:Main/)?([^/]+)\.txt$")
_BESIDE = ("JPEGImages", "images")  # directories of images, beside that of XML files
_FROM_0, _UNREAD = "from 0", "unread "


class VocTexts(Texts):
    """XML files of VOC's."""

    numbers: Mapping[str, int]  # of classes, by name
    origin: int

    def parse(self, data: bytes) -> Objects:
        return objects_of(parse(data), self.numbers, self.origin)

    def look(self, data: bytes) -> ToldByFile:
        voc: VocImage = parse(data)
        facts = {_UNREAD + tag: count for tag, count in voc.unread.items()}
        facts[_FROM_0] = counts_from_0(voc)
        classes = {each.name for each in voc.named}
        sole = next(iter(classes)) if len(classes) == 1 else ""
        return ToldByFile(len(voc.named), len(data), classes, facts, sole)


def scan_voc(
    source: Source, files: Files, below: str, run_all: RunAll, only: Collection[str] | None = None
) -> Scan:
    """Find the XML files of images below a directory, the classes, the sides and the masks.

    Args:
        source: What the user named, with the options.
        files: The images, and the files beside them.
        below: The directory of the XML files.
        run_all: A ``map`` over worker processes.
        only: The XML files; if None, all with the extension.
    """
    places = files.listed(below, "xml", run_all)
    if only is not None:
        bare = any(not posixpath.splitext(path)[1] for path in only)
        places = [*places, *(files.listed(below, "", run_all) if bare else ())]
        places = sorted(place for place in places if place[0] in only)
    if not places:
        raise SourceError(f"{below}: there is no XML file")
    annotations = VocTexts(below, {}, 0)
    looked = look_at(annotations, places, run_all)
    names = number_classes(looked.classes, source.known_classes(), below, not_given)
    origin = int(not looked.facts.get(_FROM_0)) if source.voc_origin is None else source.voc_origin
    notes: list[Finding] = []
    if source.voc_origin is None:
        why = "one of them is below 1" if origin == 0 else "not one of them is 0"
        said = f"the coordinates of boxes count from {origin}, as {why}"
        notes.append(Finding("note", "", f"{said}: give --voc-origin {1 - origin} if they do not"))
    for tag, count in sorted(looked.facts.items()):
        if tag.startswith(_UNREAD) and count:
            said = f"{format_count(count, f'<{tag.removeprefix(_UNREAD)}>')} of objects left out"
            notes.append(Finding("note", "", said))
    known = {path.rpartition(".")[0] for path in files.table["path"].to_list()}
    called = _names([path for path, _ in places], known)
    is_whole = below == source.root
    others = [found.path for found in files.findings if found.kind == "not-an-image"]
    others = [path for path in others if not is_left_out(path, source.leave_out)]
    lists = _lists_of_sides(others)
    texts = {path: files.text(source.root, posixpath.join(source.root, path)) for path in lists}
    sides = _sides(lists, texts, called, known, notes) if is_whole else []
    masks, beside = None, list[str]()
    if is_whole:
        beside = _other_lists(others, lists, notes)
        masks, used = masks_of(source, files, called, others, notes)
        beside += used
    scan = Scan(
        replace(annotations, numbers=numbers_of(names), origin=origin),
        called,
        looked.counts,
        looked.texts,
        names,
        (),
        looked.digest,
        below,
        notes,
        places=places,
        sides=sides,
        used=[*lists, *beside, *(path for path, _ in places)] if is_whole else (),
        masks=masks,
        boxes_alone=True,
    )
    if not is_whole or masks is not None or len({*looked.images}) == 1:
        return scan
    return _with_classes_of_directories(scan, looked.images, source, files)


def _with_classes_of_directories(
    scan: Scan, soles: Sequence[str], source: Source, files: Files
) -> Scan:
    """Return a scan with a label for each image and images without XML, if directories are classes.

    ``soles`` has the class that all objects of an XML file have; empty if they have several.
    """
    from dsprep.places.match import find_elsewhere
    from dsprep.sources.likely_masks import likely_masks

    paths = files.table["path"]
    images = find_elsewhere(scan.names, paths).paths.fill_null("").to_list()
    class_of = classes_of_directories(images, soles)
    if not class_of:
        return scan
    annotated = {posixpath.dirname(path) for path in images if _directory(path) in class_of}
    others = {path for path in paths.to_list() if posixpath.dirname(path) in annotated}
    others = set() if source.unlisted == "drop" else others.difference(images)
    bare = sorted(others.difference(likely_masks(source.root, files) if others else ()))
    own = zip([*images, *bare], [*soles, *[""] * len(bare)], strict=True)
    labels = [class_of.get(_directory(path), sole) or None for path, sole in own]
    nothing = [0] * len(bare)
    return scan._replace(
        names=[*scan.names, *bare],
        counts=[*scan.counts, *nothing],
        texts=[*scan.texts, *nothing],
        places=[*scan.places, *[None] * len(bare)],
        sides=[*scan.sides, *[""] * len(bare)] if scan.sides else (),
        values=class_of_images(labels, source, scan.where),
        findings=[*scan.findings, *_notes_on_classes(class_of, bare)],
    )


def classes_of_directories(images: Sequence[str], soles: Sequence[str]) -> dict[str, str]:
    """Return the class of each directory, if directories are the classes that objects have.

    ImageNet has them so, and boxes for half of its images. Each directory has objects of one class,
    is called like it, as `n02085620-Chihuahua` is, and no two are of the same. Those called like
    sides may hold images of all classes.

    Args:
        images: The images that have an XML file; empty for one that is missing.
        soles: The class that all objects of each have; empty if there are none, or several.
    """
    found: dict[str, str] = {}
    for path, sole in zip(images, soles, strict=False):
        directory = _directory(path)
        if not path or is_side_alone(directory):
            continue
        if not sole or found.setdefault(directory, sole) != sole:
            return {}
    are_called_so = all(_is_called_like(*each) for each in found.items())
    return found if are_called_so and 1 < len(found) == len({*found.values()}) else {}


def _is_called_like(directory: str, name: str) -> bool:
    """Return whether the name of a directory contains that of a class, or the other way."""
    own, other = (re.sub(r"[\W_]+", "", each.casefold()) for each in (directory, name))
    return bool(own and other) and (own in other or other in own)


def _directory(path: str) -> str:
    """Return the name of the directory that an image lies in."""
    return posixpath.basename(posixpath.dirname(path))


def _notes_on_classes(class_of: Mapping[str, str], bare: Sequence[str]) -> Iterator[Finding]:
    shown = format_some(sorted(class_of))
    yield Finding("note", "", f"directories have the classes of their objects: {shown}")
    if bare:
        said = f"{format_count(len(bare), 'image')} without an XML file, and so without objects"
        drops = "--unlisted drop leaves these out"
        yield Finding("note", "", f"{said}: {format_some(bare)}; {drops}")


def _lists_of_sides(paths: Sequence[str]) -> dict[str, str]:
    """Return the lists of ``ImageSets/Main`` that tell sides, with the side that each tells.

    These are also `Validation.txt` of CVAT's, and `trainval.txt` beside a list for tests alone.
    """
    found: dict[str, str] = {}
    both: list[str] = []
    for path in paths:
        named = _LIST.search(path)
        if named and is_side_alone(named[1]):
            found[path] = usual_side(named[1])
        elif named and named[1] == "trainval":
            both.append(path)
    for path in both:
        beside = {side for each, side in found.items() if _top_of(each) == _top_of(path)}
        if beside == {"test"}:
            found[path] = "trainval"
    return found


def _top_of(path: str) -> str:
    """Return the directory that ``ImageSets`` lies in, with a slash."""
    return path.rpartition("ImageSets")[0]


def _other_lists(others: Sequence[str], lists: Collection[str], notes: list[Finding]) -> list[str]:
    """Return the lists of ``ImageSets`` that are not read, and say so."""
    found = [path for path in others if "/ImageSets/" in f"/{path}" and path not in lists]
    if found:
        said = f"{format_count(len(found), 'file')} of ImageSets not read, such as {found[0]}"
        notes.append(Finding("note", "", f"{said}: they tell no sides"))
    notes += [Finding("not-read", path) for path in found]
    return found


def _names(paths: Sequence[str], known: Collection[str]) -> list[str]:
    """Return what XML files call their images: paths without extension or, if unknown, less."""
    import polars as pl

    from dsprep.places.match import NAME, PATH, Spelling, bare, beside, match, stem

    names = pl.Series("name", paths, dtype=pl.String)
    forms = (*(beside(bare(NAME), directory) for directory in _BESIDE), bare(NAME))
    images = pl.Series(sorted(known), dtype=pl.String)
    meant = match(names, images, [Spelling(form, PATH) for form in forms])
    return meant.paths.fill_null(names.to_frame().select(stem(NAME)).to_series()).to_list()


def _sides(
    lists: Mapping[str, str],
    texts: Mapping[str, str | None],
    called: Sequence[str],
    known: Collection[str],
    notes: list[Finding],
) -> Sequence[str]:
    """Return the side of each image by the lists of ``ImageSets/Main``; empty without lists."""
    sides: dict[str, str] = {}
    twice: dict[tuple[str, str, str], str] = {}
    lost: dict[str, str] = {}  # images that lists name and that are not there, with their list
    bare: dict[str, str] = {}  # images without an XML file, with a list that names each
    annotated = frozenset(called)
    for path in sorted(lists, key=lambda path: (_top_of(path), path)):
        top, side = _top_of(path), lists[path]
        for line in filter(None, map(str.strip, (texts[path] or "").split("\n"))):
            if line.startswith("#"):  # a comment of datumaro's
                continue
            tried = [f"{top}{beside}/{line}" for beside in _BESIDE]
            name = next((name for name in tried if name in known), tried[0])
            if (other := sides.setdefault(name, side)) != side:
                twice.setdefault((path, side, other), name)
            if name not in annotated and (name in known or line not in annotated):
                (bare if name in known else lost)[name] = path
    for (path, side, other), name in twice.items():
        said = f"{path}: {side} has images of {other}, which stay there, such as {name}"
        notes.append(Finding("note", "", said))
    if bare:
        said = f"{format_count(len(bare), 'image')} without an XML file, and so left out, although"
        said += f" ImageSets lists them: {format_some(list(bare))}"
        notes.append(Finding("note", "", said))
    notes += [Finding("missing", name, f"named in {path}") for name, path in lost.items()]
    return [sides.get(name, "") for name in called] if sides else []
