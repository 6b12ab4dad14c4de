"""YOLO's sets: images, a text for each of them, and ``data.yaml``, or a list of class names."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from dsprep.annotations.objects import Objects
from dsprep.annotations.yolo import (
    NAME_LISTS,
    OBJ_DATA,
    DataYaml,
    Pose,
    count_rows,
    may_be_rotated,
    parse,
    parse_data_yaml,
    parse_obj_data,
)
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.places.names import SPLITS, is_left_out, is_side_alone, usual_side
from dsprep.sources.annotated.annotated import Scan, some_lines
from dsprep.sources.annotated.texts import Texts, TextsSummary, ToldByFile, look_at
from dsprep.sources.heads import is_harmless
from dsprep.storage.files import full_path
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, lines_of

if TYPE_CHECKING:
    from dsprep.places.files import Files
    from dsprep.places.match import Matches, Spelling
    from dsprep.places.scan import RunAll
    from dsprep.sources.source import Source

_NUMBER = 20  # maximum size in JSON of a coordinate in pixels, in bytes
_MOST_YAML = 1 << 20  # maximum size of data.yaml, in bytes
_TRIED = 20  # maximum number of texts that are read to tell whether they have objects
_ROTATED, _EQUAL, _FILLED, _POLYGONS = "rotated", "equal", "filled", "polygons"


class YoloTexts(Texts):
    """The label texts of YOLO: a file for each image."""

    classes: int | None  # how many there are, if that is known
    pose: Pose | None

    def parse(self, data: bytes) -> Objects:
        return parse(data, self.classes, self.pose)

    def look(self, data: bytes) -> ToldByFile:
        objects = self.parse(data)
        numbers = {each.number for each in objects.items}
        facts = {_EQUAL: count_rows(data) - len(objects.items)}
        facts |= {_ROTATED: may_be_rotated(objects), _FILLED: bool(objects.items)}
        facts[_POLYGONS] = corners = sum(len(own) for e in objects.items for own in e.polygons)
        corners += sum(len(each.keypoints) for each in objects.items)
        return ToldByFile(len(objects.items), corners * _NUMBER, numbers, facts)


class _Set(NamedTuple):
    """The files of a YOLO data set, before the label texts are read."""

    root: str
    images: Sequence[str]  # below the root, sorted
    config: str | None  # data.yaml
    data_yaml: DataYaml
    below: str  # the directory of the texts
    texts: Mapping[str, int | bytes]  # their sizes or, in an archive, their contents

    @property
    def where(self) -> str:
        """What messages name."""
        return self.config or self.below


class _Listed(NamedTuple):
    """The images that a list names, and the names of those that are not there."""

    images: Sequence[str]
    lost: Sequence[str]


def scan_yolo(
    source: Source, files: Files, config: str | None, below: str, run_all: RunAll
) -> Scan:
    """Find the texts of images below a directory, the classes and the sides of ``data.yaml``."""
    images = sorted(files.table["path"].to_list())
    told = _read_config(source.root, files, config) if config else DataYaml("", {}, None, None)
    texts = dict(files.listed(below, "txt", run_all))
    left_out = set[str]()
    if source.leave_out and below == source.root:
        others = {*texts, *(found.path for found in files.findings)}
        left_out = {path for path in others if is_left_out(path, source.leave_out)}
        texts = {path: of for path, of in texts.items() if path not in left_out}
    found = _Set(source.root, images, config, told, below, texts)
    notes: list[Finding] = []
    sides, lists = _sides(found, files, notes)
    names, names_file = _known_names(found, source, files, notes)
    of_image = _texts_of(images, source.root, below, texts, names_file)
    if of_image:
        _refuse_other_texts(found, files, of_image, names_file)
    else:
        of_image = _texts_by_stem(found, images, texts)
    _require_texts(found, of_image)
    chosen = _chosen(images, sides, of_image, drops=source.unlisted == "drop")
    # an image whose text is left out is left out, too: its objects are not known
    unknown = _texts_of(chosen, source.root, below, left_out, names_file) if left_out else {}
    unknown = {path: text for path, text in unknown.items() if path not in of_image}
    chosen = [path for path in chosen if path not in unknown]
    notes += [Finding("left-out", path, f"as {text} is") for path, text in unknown.items()]
    used = sorted({of_image[path] for path in chosen if path in of_image})
    annotations = YoloTexts(below, None if names is None else len(names), told.pose)
    looked = look_at(annotations, [(path, texts[path]) for path in used], run_all)
    _note_rotated(found, looked, notes)
    names = _numbers_as_names(looked, notes) if names is None else names
    _note_equal_rows(looked, notes)
    lost = _lost_images(found, of_image)
    notes += [Finding("missing", path, f"annotated in {text}") for text, path in lost.items()]
    known = {*lost.values(), *(each.path for each in files.findings)}
    notes += _lost_of_lists(lists, known, source.leave_out)
    sizes = {"": (0, 0)} | dict(
        zip(used, zip(looked.counts, looked.texts, strict=True), strict=True)
    )
    own = [of_image.get(path, "") for path in chosen]
    beside = (names_file, posixpath.relpath(config, below) if config else "", *lists)
    return Scan(
        annotations,
        chosen,
        [sizes[path][0] for path in own],
        [sizes[path][1] for path in own],
        names,
        (),
        looked.digest,
        found.where,
        notes,
        flags=False,
        keeps_unlisted=source.unlisted != "drop" and not sides,
        places=[(path, texts[path]) if path else None for path in own],
        sides=[sides[path] for path in chosen] if sides else (),
        used={*used, *lost, *filter(None, beside)} if below == source.root else (),
        in_shares=True,
        boxes_alone=not looked.facts.get(_POLYGONS),
    )


# Classes


def _known_names(
    found: _Set, source: Source, files: Files, notes: list[Finding]
) -> tuple[tuple[str, ...] | None, str]:
    """Return the class names that a file tells, and which list of names it is; None if none does.

    They are those that the user gives, those of ``data.yaml``, or those of a list of Darknet's.
    """
    given, told = source.class_names(), found.data_yaml
    count = len(told.names) if told.names else told.nc
    if given and count and len(given) != count:
        own = source.classes_file or "--classes"
        raise SourceError(
            f"{found.config}: names {format_count(count, 'class')}, and {own} "
            f"{len(given)}: the texts have numbers of the former, so leave --classes out"
        )
    if (names := given or told.names) is not None:
        return names, ""
    names, names_file = _listed_names(found.below, found.texts, files)
    if names is None and told.nc:
        # names that ultralytics gives to classes without names
        names = tuple(f"class_{at}" for at in range(told.nc))
        said = f"{found.config} tells nc and no names, so classes are called {names[0]} and so on"
        notes.append(Finding("note", "", f"{said}: give --classes FILE"))
    return names, names_file


def _numbers_as_names(looked: TextsSummary, notes: list[Finding]) -> tuple[str, ...]:
    """Return the numbers of classes as their names, if no file tells these."""
    said = "no file tells the names of the classes, so their numbers are their names"
    notes.append(Finding("note", "", f"{said}: give --classes FILE"))
    return tuple(map(str, range(max(looked.classes, default=-1) + 1)))


# Texts


def _require_texts(found: _Set, of_image: Mapping[str, str]) -> None:
    """Refuse a set in which no image has a text, or several have one."""
    if not of_image:
        raise SourceError(
            f"{found.where}: not one of the {format_count(len(found.images), 'image')} has a text "
            "with its objects"
        )
    _require_apart(of_image, found.below)


def _chosen(
    images: Sequence[str], sides: Mapping[str, str], of_image: Mapping[str, str], drops: bool
) -> Sequence[str]:
    """Return the images on a side, if there are sides; without those that have no text, if told."""
    chosen = [path for path in images if path in sides] if sides else images
    return [path for path in chosen if path in of_image] if drops else chosen


def _note_rotated(found: _Set, looked: TextsSummary, notes: list[Finding]) -> None:
    """Say that rotated boxes, which have four corners as polygons may have, are polygons."""
    task, rotated = found.data_yaml.task, looked.facts.get(_ROTATED, 0)
    if task in ("", "obb") and rotated and rotated == looked.facts[_FILLED]:
        said = "each object has four corners, as rotated boxes (OBB) have: kept as polygons"
        notes.append(Finding("note", "", f"{said}, with the boxes around them"))


def _note_equal_rows(looked: TextsSummary, notes: list[Finding]) -> None:
    """Say how many rows were removed because they are equal to others."""
    if equal := looked.facts.get(_EQUAL):
        said = f"{format_count(equal, 'row')} equal to another one of the same image removed"
        notes.append(Finding("note", "", said))


def _lost_images(found: _Set, of_image: Mapping[str, str]) -> dict[str, str]:
    """Return the images that are not there, by the texts that are theirs."""
    lists = {text for text in found.texts if posixpath.basename(text) in NAME_LISTS}
    alone = sorted(found.texts.keys() - set(of_image.values()) - lists)
    alone = [text for text in alone if not is_harmless(text)]
    lost = {text: _lost_image(text, found.below, found.root) for text in alone}
    return {text: path for text, path in lost.items() if path}


def _lost_image(text: str, below: str, root: str) -> str:
    """Return what the image of a text should be called; empty if it need not be below the root."""
    start, top = full_path(below), full_path(root) + "/"
    before, mark, after = f"{start}/{text}".rpartition("/labels/")
    path = posixpath.splitext(f"{before}/images/{after}" if mark else text)[0]
    if path.startswith(top):
        return path.removeprefix(top)
    return posixpath.splitext(text)[0] if posixpath.basename(start) == "labels" else ""


def _read_config(root: str, files: Files, path: str) -> DataYaml:
    text = files.text(root, path, _MOST_YAML)
    if text is None:
        raise SourceError(f"{path}: is not a regular file")
    try:
        is_darknet = posixpath.basename(path) == OBJ_DATA
        return parse_obj_data(text) if is_darknet else parse_data_yaml(text)
    except ValueError as error:
        raise SourceError(f"{path}: {error}") from None


def _texts_of(
    images: Sequence[str], root: str, below: str, texts: Collection[str], names_file: str
) -> dict[str, str]:
    """Return the text of each image that has one: both below their roots."""
    import polars as pl

    from dsprep.places.match import NAME, PATH, Spelling, bare

    head, start = full_path(root) + "/", full_path(below) + "/"
    # `images/a.jpg` has `labels/a.txt`, or the text beside it if it lies in no such directory
    beside = (pl.lit(head) + bare(NAME)).str.replace("(?s)^(.*)/images/", "$1/labels/")
    forms = [beside.str.strip_prefix(start)]
    if start != head:
        forms += [bare(NAME), bare(NAME).str.replace("(?s)^.*images/", "")]
    own = [text for text in texts if text.endswith(".txt") and text != names_file]
    meant = _match(images, own, [Spelling(form, bare(PATH)) for form in forms])
    return _by_image(images, meant)


def _texts_by_stem(found: _Set, images: Sequence[str], texts: Collection[str]) -> dict[str, str]:
    """Return the text of each image by its name, in a set with directories of other names.

    Texts of one name are told apart by their directories.
    """
    meant = _by_stem(images, texts)
    meant.refuse_several(found.below, says="the text of {} may be")
    return _by_image(images, meant)


def _by_stem(images: Sequence[str], texts: Collection[str]) -> Matches:
    from dsprep.places.match import NAME, PATH, Spelling, stem

    return _match(images, texts, [Spelling(stem(NAME), stem(PATH))])


def _match(images: Sequence[str], texts: Collection[str], spellings: Sequence[Spelling]) -> Matches:
    import polars as pl

    from dsprep.places.match import match

    names, paths = (pl.Series(each, dtype=pl.String) for each in (images, list(texts)))
    return match(names, paths, spellings, nearest=True)


def _by_image(images: Sequence[str], meant: Matches) -> dict[str, str]:
    """Return the text of each image that has one."""
    pairs = zip(images, meant.paths, strict=True)
    return {image: text for image, text in pairs if text is not None}


def _refuse_other_texts(
    found: _Set, files: Files, of_image: Mapping[str, str], names_file: str
) -> None:
    """Refuse texts with objects of images that have no text where YOLO has it.

    These are images and texts of directories in which no image has its text.
    """
    images = _elsewhere(found.images, of_image)
    texts = _elsewhere(found.texts, of_image.values()) if images else []
    texts = [text for text in texts if not _lost_image(text, found.below, found.root)]
    texts = [text for text in texts if text.endswith(".txt") and text != names_file]
    if not texts:
        return
    pairs = zip(images, _by_stem(images, texts).first, strict=True)
    near = ((image, text) for image, text in pairs if text is not None)
    for image, text in islice(near, _TRIED):
        if _has_objects(files.text(found.below, posixpath.join(found.below, text))):
            raise SourceError(
                f"{found.below}: {image} has no text beside it or in a directory labels, and "
                f"{text} may be its: move such texts there"
            )


def _elsewhere(paths: Collection[str], used: Collection[str]) -> list[str]:
    """Return the paths in directories that have none of the used ones."""
    known = {posixpath.dirname(path) for path in used}
    return [path for path in paths if posixpath.dirname(path) not in known]


def _has_objects(text: str | None) -> bool:
    try:
        return bool(parse((text or "").encode(), None, None).items)
    except ValueError:
        return False


def _stem(path: str) -> str:
    return posixpath.splitext(posixpath.basename(path))[0]


def _require_apart(of_image: Mapping[str, str], below: str) -> None:
    """Refuse a text that is that of several images."""
    by_text: dict[str, list[str]] = {}
    for path, text in of_image.items():
        by_text.setdefault(text, []).append(path)
    shared = {text: paths for text, paths in by_text.items() if len(paths) > 1}
    if shared:
        said = (f"{text}: {', '.join(paths[:3])}" for text, paths in sorted(shared.items()))
        raise SourceError(
            f"{below}: {format_count(len(shared), 'file')} of annotations would be that of several "
            "images:",
            *some_lines(said, len(shared)),
        )


def _listed_names(
    below: str, texts: Collection[str], files: Files
) -> tuple[tuple[str, ...] | None, str]:
    """Return the class names that a list of Darknet's tells, and the list; None without one."""
    others = {found.path for found in files.findings if found.kind == "not-an-image"}
    places = sorted({*texts, *others}, key=lambda path: (path.count("/"), path))
    found: dict[tuple[str, ...], str] = {}
    for path in places:
        if posixpath.basename(path) not in NAME_LISTS:
            continue
        text = files.text(below, os.path.join(below, path), _MOST_YAML)
        if text is not None:
            names = tuple(line.strip() for line in lines_of(text) if line.strip())
            found.setdefault(names, path)
    if len(found) > 1:
        one, two = list(found.values())[:2]
        raise SourceError(f"{below}: {one} and {two} name other classes: give --classes FILE")
    return next(iter(found.items()), (None, ""))


# Sides


def _sides(
    found: _Set, files: Files, notes: list[Finding]
) -> tuple[dict[str, str], dict[str, _Listed]]:
    """Return the side of each image that ``data.yaml`` names, and the lists.

    Both are empty if it names no sides.
    """
    config, told, sides = found.config, found.data_yaml, dict[str, str]()
    lists: dict[str, _Listed] = {}
    if config is None or not told.sides:
        return _sides_of_lists(found, files, notes)
    for side, entries in told.sides.items():
        for entry in entries:
            own = _entry(found.root, found.images, files, config, told.path, entry, lists)
            if own is None:
                notes.append(Finding("note", "", f"{config}: {side}: there is no {entry}"))
                continue
            other = next((sides[path] for path in own if path in sides), side)
            if other != side:
                said = f"{config}: {side} has images of {other}, which stay there"
                notes.append(Finding("note", "", said))
            for path in own:
                sides.setdefault(path, side)
    if not sides:
        tried = ", ".join(entry for entries in told.sides.values() for entry in entries)
        raise SourceError(
            f"{config}: not one of the images that it names is below {found.root}: {tried}"
        )
    return sides, lists


def _sides_of_lists(
    found: _Set, files: Files, notes: list[Finding]
) -> tuple[dict[str, str], dict[str, _Listed]]:
    """Return the side of each image that lists such as ``train.txt`` and ``val.txt`` name.

    Both are empty if these are no lists of images, or if there is only one. An image for tests or
    validation is none for training.
    """
    near = (text for text in found.texts if text.count("/") <= 1)
    side_of = {text: usual_side(_stem(text)) for text in near if is_side_alone(_stem(text))}
    if found.below != found.root or len(set(side_of.values())) < 2:
        return {}, {}
    top = full_path(found.root)
    lists: dict[str, _Listed] = {}
    for text in sorted(side_of):
        full = posixpath.join(top, text)
        own = _list(files.text(found.root, full) or "", posixpath.dirname(full), top, found.images)
        if not own.images:
            return {}, {}
        lists[text] = own
    sides: dict[str, str] = {}
    last = [*SPLITS.values()]  # training is the first
    for text in sorted(lists, key=lambda text: (-last.index(side_of[text]), text)):
        twice: dict[str, str] = {}  # an image of each other side
        for path in lists[text].images:
            if (other := sides.setdefault(path, side_of[text])) != side_of[text]:
                twice.setdefault(other, path)
        for other, path in twice.items():
            said = f"{text}: {side_of[text]} has images of {other}, which stay there"
            notes.append(Finding("note", "", f"{said}, such as {path}"))
    return sides, lists


def _lost_of_lists(
    lists: Mapping[str, _Listed], told: set[str], leave_out: Sequence[str]
) -> Iterator[Finding]:
    """Yield the images that lists name and that are not there, each once.

    Those that other findings tell, perhaps without their extensions, are left out.
    """
    for text, listed in lists.items():
        for path in listed.lost:
            bare = posixpath.splitext(path)[0]
            if path not in told and bare not in told and not is_left_out(path, leave_out):
                told.add(path)
                yield Finding("missing", path, f"named in {text}")


def _entry(
    root: str,
    images: Sequence[str],
    files: Files,
    config: str,
    path: str,
    name: str,
    lists: dict[str, _Listed],
) -> Sequence[str] | None:
    """Return the images of a directory or a list that ``data.yaml`` names; add it to ``lists``.

    The file may come from anybody, so it names only what lies below the root, or beside itself.
    """
    top, beside = full_path(root), full_path(posixpath.dirname(config) or ".")
    name = name.replace("\\", "/")
    bare = "/".join(part for part in name.split("/") if part not in ("..", "."))
    tried = [posixpath.join(beside, path, name), posixpath.join(beside, name)]
    tried += (posixpath.join(beside, each) for each in (bare, *_synonyms(bare)))
    parts = [part for part in posixpath.join(path, name).split("/") if part not in ("", "..", ".")]
    # its `path` is that of another machine, or of a directory above
    tried += (posixpath.join(beside, *parts[at:]) for at in range(len(parts)))
    if posixpath.basename(config) == OBJ_DATA:  # whose `data/` is the directory that it lies in
        tried.append(posixpath.join(beside, posixpath.basename(name)))
    for full in map(full_path, tried):
        if name.endswith(".txt"):
            if not full.startswith((f"{top}/", f"{beside}/")):
                continue
            if (text := files.text(root, full)) is not None:
                own = _list(text, posixpath.dirname(full), top, images)
                is_below = full.startswith(f"{top}/")  # others may name images beside the root
                lists[full.removeprefix(f"{top}/")] = own if is_below else own._replace(lost=())
                return own.images
        elif f"{full}/".startswith(f"{top}/"):
            below = full[len(top) + 1 :]
            found = [each for each in images if not below or each.startswith(f"{below}/")]
            if found or not below:
                return found
    return None


def _synonyms(path: str) -> Iterator[str]:
    """Yield a path with other words for its side: `val/images` for `valid/images`."""
    parts = path.split("/")
    for at, part in enumerate(parts):
        for word, usual in SPLITS.items():
            if usual == SPLITS.get(part) and word != part:
                yield "/".join((*parts[:at], word, *parts[at + 1 :]))


def _list(text: str, directory: str, top: str, images: Sequence[str]) -> _Listed:
    """Return the images that a list names, a path a line."""
    from dsprep.places.match import find_elsewhere  # imported late: workers do not need it

    known = frozenset(images)
    lines = list(filter(None, map(str.strip, lines_of(text))))
    full = [full_path(posixpath.join(directory, line)) for line in lines]
    below = [path.removeprefix(f"{top}/") for path in full]
    pairs = zip(below, lines, strict=True)
    meant = find_elsewhere((path if path in known else line for path, line in pairs), images)
    meant.refuse_several(directory)
    own = zip(below, full, lines, meant.first, strict=True)
    lost = [line if path == where else path for path, where, line, hit in own if hit is None]
    return _Listed(meant.paths.drop_nulls().to_list(), lost)
