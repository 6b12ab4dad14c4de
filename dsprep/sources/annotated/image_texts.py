"""Annotations in a file for each image, whose classes have names: what all kinds of them share."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dsprep.annotations.named import NamedObjects, most_json, numbered
from dsprep.annotations.objects import APART, Objects
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.numbering import not_given, number_classes, numbers_of
from dsprep.places.names import are_of_other_sides
from dsprep.sources.annotated.annotated import Scan, some_lines
from dsprep.sources.annotated.image_values import ImageValues, class_of_images, tags_of_images
from dsprep.sources.annotated.texts import Texts, TextsSummary, ToldByFile, look_at
from dsprep.storage.files import full_path
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_size, format_some

if TYPE_CHECKING:
    import polars as pl

    from dsprep.places.match import Spelling
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source

_LEFT_OUT, _REMARK, _SHAPES, _FLAGS = "not kept ", "kept as ", "shapes", "flags"  # facts
_LARGEST = 1 << 28  # bytes of a file, which is read whole
_DEPTHS = (1, 2, 3)  # directories above a file that may be called otherwise than its image's


class OfImage(NamedTuple):
    """What a file tells of its whole image."""

    path: str  # what it calls the image
    flags: Mapping[str, bool]  # whether the image has each of these tags
    is_held: bool  # whether the file holds the image itself
    facts: Mapping[str, int]  # what else is there, and how often


class NamedTexts(Texts):
    """Files that tell the objects of an image and the names of their classes."""

    read: Callable[[bytes], NamedObjects]
    numbers: Mapping[str, int]  # of classes, by name

    def parse(self, data: bytes) -> Objects:
        return numbered(self.read(data), self.numbers)

    def look(self, data: bytes) -> ToldByFile:
        found = self.read(data)
        facts = {_LEFT_OUT + what: count for what, count in found.left_out.items()}
        facts |= {_REMARK + what: count for what, count in found.remarks.items()}
        known = {
            _SHAPES: sum(bool(each.polygons or each.rle) for _, each in found.items),
            _FLAGS: sum(bool(each.flags & APART) for _, each in found.items),
        }
        classes = {name for name, _ in found.items}
        told = OfImage(found.image, found.flags, found.holds_image, facts)
        return ToldByFile(len(found.items), most_json(found), classes, known, told)


class KindOfTexts(NamedTuple):
    """What a kind says of its files: attributes of `ImageTextsKind`, and what reads a file."""

    words: str
    read: Callable[[bytes], NamedObjects]
    extension: str
    beside: Sequence[tuple[str, str]]
    other_files: re.Pattern[str] | None


def scan_texts(
    kind: KindOfTexts,
    source: Source,
    place: AnnotatedPlace,
    below: str,
    only: Collection[str] | None,
    run_all: RunAll,
) -> Scan:
    """Find the files of images below a directory, the classes, and the sides that lists tell.

    Args:
        kind: What the files are, and what reads them.
        source: What the user named, with the options.
        place: The images, and the files beside them.
        below: The directory of the files.
        only: The files; if None, all with the extension.
        run_all: A ``map`` over worker processes.
    """
    texts = dict(place.files.listed(below, kind.extension, run_all))
    if only is not None:
        texts = {path: size for path, size in texts.items() if path in only}
    large = next((path for path, size in texts.items() if _size(size) > _LARGEST), "")
    if large:
        raise SourceError(
            f"{below}: {large} has {format_size(_size(texts[large]))}; at most "
            f"{format_size(_LARGEST)} are read"
        )
    annotations = NamedTexts(below, kind.read, {})
    looked = look_at(annotations, [*texts.items()], run_all)
    prefix = _prefix(source.root, below)
    told = dict(zip(texts, looked.images, strict=True))
    images = sorted(place.files.table["path"].to_list())
    of_text = _images_told(told, images, prefix or "")
    left = [path for path in texts if path not in of_text]
    free = sorted(set(images).difference(of_text.values()))
    of_text |= images_of(left, free, kind.beside, below, prefix or "")
    _require_one_text(of_text, below)
    _require_objects(kind, of_text, told, looked, below)
    lost = sorted(texts.keys() - of_text.keys())
    notes = [_lost(path, told[path]) for path in lost]
    notes += _notes(told[path] for path in of_text)
    names = number_classes(looked.classes, source.known_classes(), below, not_given)
    own = sorted(of_text, key=of_text.__getitem__)
    called = [of_text[path] for path in own]
    used = [] if prefix is None else [prefix + path for path in texts]
    from dsprep.sources.side_lists import sides_of_lists

    sides, lists = sides_of_lists(source.root, place, called, used, notes)
    used += [*lists, *_not_read(kind, place, notes)]
    sizes = dict(zip(texts, zip(looked.counts, looked.texts, strict=True), strict=True))
    values = _labels([told[path] for path in own], source, below, notes)
    has_objects = any(looked.counts) or values.label is None
    return Scan(
        replace(annotations, numbers=numbers_of(names)) if has_objects else None,
        called,
        [sizes[path][0] for path in own],
        [sizes[path][1] for path in own],
        names,
        (),
        looked.digest,
        below,
        notes,
        flags=bool(looked.facts.get(_FLAGS)),
        places=[(path, texts[path]) for path in own],
        sides=sides,
        used=used,
        boxes_alone=not looked.facts.get(_SHAPES),
        values=values,
    )


def _require_objects(
    kind: KindOfTexts,
    of_text: Mapping[str, str],
    told: Mapping[str, OfImage],
    looked: TextsSummary,
    below: str,
) -> None:
    """Refuse files if none is for an image, or none tells what is read."""
    if not of_text:
        held = next((path for path, each in told.items() if each.is_held), "")
        why = f": {held} holds its image itself: write that into a file beside it" if held else ""
        count = format_count(len(told), "file")
        raise SourceError(f"{below}: not one of the {count} of annotations has an image{why}")
    left = [finding.detail for finding in _notes(told.values())]
    if left and not any(looked.counts):
        raise SourceError(
            f"{below}: dsprep reads none of the objects of these files of {kind.words}: "
            f"{', '.join(left)}"
        )


def _lost(path: str, told: OfImage) -> Finding:
    why = ", which holds the image itself: write that into a file beside it" if told.is_held else ""
    return Finding("missing", _bare(path), f"annotated in {path}{why}")


def _size(size: int | bytes) -> int:
    return len(size) if isinstance(size, bytes) else size


def _labels(
    told: Sequence[OfImage], source: Source, below: str, notes: list[Finding]
) -> ImageValues:
    """Return what flags tell of images: a class if each has one flag, else tags, if any is set."""
    known = {name for each in told for name in each.flags}
    own = [[name for name, is_set in each.flags.items() if is_set] for each in told]
    if any(own) and all(len(names) == 1 for names in own):
        return class_of_images([name for (name,) in own], source, below)
    if any(own):
        return tags_of_images(own, source, below, known)
    if known:
        said = f"no image has any of the flags {format_some(sorted(known))}, which are not kept"
        notes.append(Finding("note", "", said))
    return ImageValues()


def _prefix(root: str, below: str) -> str | None:
    """Return how paths below a directory begin that lies in the root; None if it does not."""
    top, start = full_path(root) + "/", full_path(below) + "/"
    return start.removeprefix(top) if start.startswith(top) else None


def _bare(path: str) -> str:
    return posixpath.splitext(path)[0]


def _notes(told: Iterable[OfImage]) -> Iterator[Finding]:
    """Say what files hold that is not kept, or is kept in another form."""
    facts = Counter[str]()
    for each in told:
        facts.update(each.facts)
    for fact, count in sorted(facts.items()):
        kept = "kept as a polygon" if count == 1 else "kept as polygons"
        for mark, says in ((_LEFT_OUT, "not kept"), (_REMARK, kept)):
            if fact.startswith(mark) and count:
                said = f"{format_count(count, fact.removeprefix(mark))} {says}"
                yield Finding("note", "", said)


def _not_read(kind: KindOfTexts, place: AnnotatedPlace, notes: list[Finding]) -> list[str]:
    """Return the files that belong to a kind and are not read, and say so."""
    own = [] if kind.other_files is None else list(filter(kind.other_files.search, place.others))
    if own:
        said = f"{format_count(len(own), 'further file')} of {kind.words} not read"
        notes.append(Finding("note", "", f"{said}, such as {own[0]}"))
    notes += [Finding("not-read", path) for path in own]
    return own


# Which image a file is for


def _images_told(told: Mapping[str, OfImage], images: Sequence[str], prefix: str) -> dict[str, str]:
    """Return the image of each file that says where it lies, from the directory of the file."""
    known, found = frozenset(images), dict[str, str]()
    for path, each in told.items():
        if each.path:
            beside = posixpath.join(posixpath.dirname(prefix + path), each.path.replace("\\", "/"))
            if (image := posixpath.normpath(beside)) in known:
                found[path] = image
    return found


def images_of(
    texts: Sequence[str],
    images: Sequence[str],
    beside: Sequence[tuple[str, str]],
    below: str,
    prefix: str = "",
) -> dict[str, str]:
    """Return the image of each file that has one.

    It has the path of the file, without extensions; or that path with another directory, the
    usual ones first; or the name alone. What finds an image of one file of a
    directory is what finds those of the others there.

    Args:
        texts: The files, by their paths below a directory.
        images: The images, by their paths below the root.
        beside: Directories of files, and what those of their images are called instead of them.
        below: The directory of the files, for messages.
        prefix: How paths below the root begin that are those of files.
    """
    import polars as pl

    from dsprep.places.match import match

    found: dict[str, str] = {}
    left, free = [prefix + path for path in texts], list(images)
    for spelling, is_sure in _spellings(beside):
        names, paths = (pl.Series(each, dtype=pl.String) for each in (left, free))
        meant = match(names, paths, [spelling], nearest=True)
        meant.refuse_several(
            below,
            lambda one, other: (
                ": give the directory of the images as SOURCE, and that of the files with "
                "--annotations"
            ),
            says="the image of {} may be",
        )
        pairs = [pair for pair in zip(left, meant.first, strict=True) if pair[1] is not None]
        own = dict(pair for pair in pairs if is_sure or not are_of_other_sides(*pair))
        found |= own
        known = {posixpath.dirname(path) for path in own}
        left = [path for path in left if posixpath.dirname(path) not in known]
        free = sorted(set(free).difference(own.values()))
        if not left:
            break
    return {path.removeprefix(prefix): image for path, image in found.items()}


def _spellings(beside: Sequence[tuple[str, str]]) -> Iterator[tuple[Spelling, bool]]:
    """Yield how the paths of files and images are compared, and whether that is sure."""
    from dsprep.places.match import NAME, PATH, Spelling, bare, stem

    yield Spelling(bare(NAME), bare(PATH)), True
    for own, of_images in beside:
        there = f"${{1}}{of_images}/" if of_images else "${1}"
        yield Spelling(bare(NAME).str.replace(f"(?s)^(.*/|){own}/", there), bare(PATH)), True

    def without(path: pl.Expr, depth: int) -> pl.Expr:
        pattern = f"(?s)^(.*/|)[^/]+/((?:[^/]+/){{{depth - 1}}}[^/]+)$"
        return bare(path).str.replace(pattern, "${1}*/${2}")

    for depth in _DEPTHS:
        yield Spelling(without(NAME, depth), without(PATH, depth)), False
    yield Spelling(stem(NAME), stem(PATH)), False


def _require_one_text(of_text: Mapping[str, str], below: str) -> None:
    """Refuse an image of several files."""
    files: dict[str, list[str]] = {}
    for path, image in of_text.items():
        files.setdefault(image, []).append(path)
    shared = {image: paths for image, paths in files.items() if len(paths) > 1}
    if shared:
        said = (f"{image}: {', '.join(paths[:3])}" for image, paths in sorted(shared.items()))
        raise SourceError(
            f"{below}: {format_count(len(shared), 'image')} with several files of annotations:",
            *some_lines(said, len(shared)),
        )
