"""COCO, as a kind of annotations: which files are read together, and which side each of them is."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.patterns import pattern
from dsprep.places.names import is_side_alone, side_name, told_sides
from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind, DirectoryAbove, NamedPath
from dsprep.sources.kind import HEAD, Claim, Sure
from dsprep.sources.unread import text_of
from dsprep.storage.files import entries, full_path
from dsprep.tuples import NamedTuple
from dsprep.units import format_count

if TYPE_CHECKING:
    from dsprep.places.files import Files
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.annotated.coco_items import CocoFile
    from dsprep.sources.source import Source

_ROBOFLOW = "_annotations.coco.json"
COCO = pattern(
    r"(?:^|/)(?:_annotations\.coco|(?:instances|person_keypoints)(?:_[^/]*)?)\.json$", re.IGNORECASE
)
JSON = pattern(r"\.json$", re.IGNORECASE)
_CAPTIONS = pattern(r"(?:^|/)captions(?:[-_.][^/]*)?\.json$", re.IGNORECASE)
PANOPTIC = pattern(r"(?:^|/)(?:[^/]*[-_.])?panoptic(?:[-_.][^/]*)?\.json$", re.IGNORECASE)
# What COCO has of the same images besides their instances and captions.
BESIDE = pattern(r"(?:^|/)(?:panoptic|stuff|image_info)(?:[-_.][^/]*)?\.json$", re.IGNORECASE)
_SEGMENTS, _CAPTION = "segments_info", "caption"  # keys of annotations
_TOKEN = pattern(r'"((?:[^"\\]|\\.)*+)"\s*(:?)|[{}\[\]]')
_NAMED = pattern(f"{COCO.pattern}|{_CAPTIONS.pattern}", re.IGNORECASE)
_MOST_FILES = 256  # files in the directories of those that are recognized
_OBJECTS = ("instances", "person_keypoints")
_PREFIX = pattern(
    r"^(?:instances|person_keypoints|captions|panoptic|annotations?|coco)[-_]", re.IGNORECASE
)


class _CocoFiles(NamedTuple):
    """The files of COCO's in a place."""

    objects: Sequence[str]
    captions: Sequence[str]
    others: Sequence[str]  # that are not read


class CocoKind(AnnotationKind):
    """COCO: images, categories and annotations in one JSON file, or in one for each side."""

    names: ClassVar = ("coco",)
    words: ClassVar = "COCO"
    help: ClassVar = "a JSON file of COCO"
    contents: ClassVar = (
        "boxes, polygons, runs, keypoints, crowd, ids of images and of objects; captions and "
        "labels of images, alone or beside these; a side from each file"
    )
    not_read: ClassVar = (
        "`panoptic`, `stuff` and `image_info` beside instances; ids of captions; what LVIS "
        "tells of classes that an image was not looked through for"
    )
    example: ClassVar = "dsprep pack coco shards --to webdataset"
    files: ClassVar = _NAMED
    texts: ClassVar = _NAMED
    takes_several: ClassVar = True
    takes_members: ClassVar = True

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.annotated.coco_places import CocoAnnotations, CocoPlaces

        return {"coco": CocoAnnotations, "coco-places": CocoPlaces}

    def is_own(self, path: str, head: bytes) -> bool:
        is_json = JSON.search(path) is not None and not is_panoptic(path, head)
        return is_json and _is_coco(head)

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        if named := place.first(COCO, "json", "JSON"):
            return Claim(Sure.MARKED, named)
        own = (path for path, head in place.heads(JSON).items() if self.is_own(path, head))
        found = min(own, default="") or min(_captions_in(place), default="")
        return Claim(Sure.MARKED, found) if found else None

    def read_in_archive(self, place: AnnotatedPlace) -> Sequence[str]:
        found = self._files(place)
        return [*found.objects, *found.captions]

    def _files(self, place: AnnotatedPlace) -> _CocoFiles:
        """Return the files to read, and others of COCO's about the same images."""
        jsons = list(filter(JSON.search, place.others))
        called = _captions_in(place)
        if named := list(filter(COCO.search, jsons)):
            return _CocoFiles(named, called, list(filter(BESIDE.search, jsons)))
        heads = place.heads(JSON)
        shown = [path for path, head in heads.items() if self.is_own(path, head)]
        directories = {posixpath.dirname(path) for path in shown}
        near = [path for path in jsons if posixpath.dirname(path) in directories]
        heads = {**heads, **place.heads_of(near[:_MOST_FILES])}
        own = {path for path, head in heads.items() if self.is_own(path, head)}
        captions = {*called, *(path for path in own if _has(heads[path], _CAPTION))}
        others = {path for path, head in heads.items() if _has(head, _SEGMENTS)}
        others.update(filter(BESIDE.search, jsons))
        objects = sorted(own.difference(captions, others))
        if not objects and not captions:
            objects = sorted(own)
        return _CocoFiles(objects, sorted(captions), sorted(others.difference(objects)))

    def looks_like(self, path: NamedPath) -> bool:
        if path.head:
            return path.head.startswith("{")
        names = [path.path] if path.member else path.names
        return any(name.lower().endswith(".json") for name in names)

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        root = source.root
        if place.named:
            named = [path for each in place.named for path in json_files(root, each, COCO)]
            captions = list(filter(_CAPTIONS.search, named))
            objects = [path for path in named if path not in captions]
            return _without_segments(_scan(source, place.files, objects, captions), place)
        found = self._files(place)
        objects, captions = (
            sorted(os.path.join(root, path) for path in own)
            for own in (found.objects, found.captions)
        )
        scan = _scan(source, place.files, objects, captions)
        if not any(map(_NAMED.search, [*found.objects, *found.captions])):
            require_most(scan, place, [*found.objects, *found.captions][0])
        return _without_segments(without_others(scan, found.others), place)

    def found_above(self, above: DirectoryAbove) -> str:
        inside = above.inside("annotations")
        jsons = sorted(entry.path for entry in inside if COCO.search(entry.name))
        jsons = jsons or sorted(entry.path for entry in inside if _CAPTIONS.search(entry.name))
        return of_side(jsons, above.name)


def _is_coco(head: bytes) -> bool:
    """Return whether JSON that begins so has lists of images, annotations or categories."""
    lists = lists_in(text_of(head))
    images, annotations = lists.get("images", set()), lists.get("annotations", set())
    if annotations:
        is_other = _SEGMENTS in annotations or "joint_valid" in annotations  # of InterHand2.6M
        return "image_id" in annotations and not is_other
    if images:  # OCHuman has annotations in its images, and InterHand2.6M frames of a sequence
        is_other = "annotations" in images or {"seq_name", "frame_idx"} <= images
        return not is_other and not images.isdisjoint(("file_name", "coco_url"))
    is_cut = len(head) == HEAD  # the rest may have images
    return is_cut and {"id", "name"} <= lists.get("categories", set())


def is_panoptic(path: str, head: bytes) -> bool:
    """Return whether JSON is panoptic: by its first annotation or, behind its head, by its name."""
    lists = lists_in(text_of(head))
    if "annotations" in lists:
        return _SEGMENTS in lists["annotations"]
    return PANOPTIC.search(path) is not None


def _has(head: bytes, key: str) -> bool:
    """Return whether the first annotation of JSON that begins so has a key."""
    return key in lists_in(text_of(head)).get("annotations", set())


def _captions_in(place: AnnotatedPlace) -> Sequence[str]:
    """Return the files with the name of COCO's captions, unless their heads are none of COCO's."""
    named = filter(_CAPTIONS.search, place.with_extension("json", "JSON"))
    found = ((path, place.head(path)) for path in sorted(named))
    return [path for path, head in found if not head or _is_coco(head)]


def lists_in(text: str) -> Mapping[str, set[str]]:
    """Return the lists of objects at the top of JSON, with the keys of the first object of each."""
    lists: dict[str, set[str]] = {}
    if not text.lstrip().startswith("{"):
        return lists
    opened, key, count = "", "", 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in ("{", "["):
            opened += mark
            count += opened == "{[{"
            if opened == "{[{" and count == 1:
                lists[key] = set()
        elif mark in ("}", "]"):
            opened = opened[:-1]
        elif token[2] and opened == "{":
            key, count = token[1], 0
        elif token[2] and opened == "{[{" and count == 1:
            lists[key].add(token[1])
    return lists


def without_others(scan: Scan, paths: Sequence[str]) -> Scan:
    """Return a scan that names further files about the same images, which are not read."""
    said = "is not read: the annotations of the images are others"
    not_read = [Finding("not-read", path, f"{path} {said}") for path in paths]
    return scan._replace(findings=[*scan.findings, *not_read], used=(*scan.used, *paths))


def _without_segments(scan: Scan, place: AnnotatedPlace) -> Scan:
    """Return a scan that names the PNGs of panoptic segmentation, which are not read.

    They lie in a directory beside the JSON of its name, and are called like their images.
    """
    tops = tuple(f"{path[:-5]}/" for path in place.others if PANOPTIC.search(path))
    images = place.images.to_list() if tops else []
    stems = {_stem(path) for path in images if not path.startswith(tops)}
    inside = [path for path in images if path.startswith(tops)]
    pngs = [path for path in inside if path.lower().endswith(".png") and _stem(path) in stems]
    if not pngs:
        return scan
    said = f"{format_count(len(pngs), 'PNG')} of panoptic segmentation not read, such as {pngs[0]}"
    not_read = [Finding("not-read", path) for path in pngs]
    return scan._replace(findings=[*scan.findings, Finding("note", "", said), *not_read])


def _stem(path: str) -> str:
    return posixpath.splitext(posixpath.basename(path))[0]


def json_files(root: str, named: NamedPath, usual: re.Pattern[str]) -> Iterable[str]:
    """Return the files that a user names: one, or those of a directory, of the usual names."""
    if named.member:
        return [posixpath.join(root, named.member)]
    if not named.is_dir:
        return [named.path]
    inside = [entry.path for entry in entries(named.path) if entry.name.lower().endswith(".json")]
    return sorted(each for each in inside if usual.search(each)) or sorted(inside)


def _keypoints_among(named: Sequence[str]) -> Sequence[str]:
    """Return COCO's files of persons beside those of all instances, which have these as well."""
    parts = [[p for p in named if f"{kind}_" in posixpath.basename(p)] for kind in _OBJECTS]
    return parts[1] if all(parts) else ()


def require_most(
    scan: Scan, place: AnnotatedPlace, path: str, others: Collection[str] = ()
) -> None:
    """Refuse files of any name that name few of the images, as the others would be left out.

    ``others`` are images that are none of the samples, such as masks.
    """
    from dsprep.sources.annotated.annotated import matched
    from dsprep.sources.mask_names import without

    images = without(place.files.table["path"], others)
    count = sum(number >= 0 for number in matched(scan, images)[0])
    if 0 < 2 * count < len(images):
        given = path if place.files.archive else os.path.join(place.root, path)
        raise SourceError(
            f"{scan.where}: names {count:,} of {len(images):,} images: give --annotations "
            f"{shlex.quote(given)} to pack these alone, or --leave-out {shlex.quote(path)} to pack "
            "all images without it"
        )


def _scan(source: Source, files: Files, objects: Sequence[str], captions: Sequence[str]) -> Scan:
    """Scan files of COCO's, whose images may lie beside them, or in directories of their names.

    Captions beside objects are read if the output has a place for texts.
    """
    from dsprep.sources.annotated.coco import scan_coco

    top = full_path(source.root)
    not_read = captions if objects and not source.takes_texts else ()
    joining = _keypoints_among(objects)
    listing = [path for path in objects if path not in joining] or captions
    found = files_with_sides(source, files, listing)
    found += [each._replace(joins=True) for each in files_with_sides(source, files, joining)]
    if objects and not not_read:
        found += [file._replace(side="") for file in files_with_sides(source, files, captions)]
    paths = frozenset(files.table["path"].to_list())
    scan = scan_coco(found, paths, source.class_names())
    said = "is not read: the output has no place for texts"
    notes = [Finding("not-read", below(top, path), f"{path} {said}") for path in not_read]
    used = [below(top, path) for path in (*objects, *captions)]
    return scan._replace(used=used, findings=[*scan.findings, *notes])


def files_with_sides(source: Source, files: Files, jsons: Sequence[str]) -> list[CocoFile]:
    """Return files as they are scanned: with the directories of their images, and their sides."""
    from dsprep.sources.annotated.coco_items import CocoFile

    if not jsons:
        return []
    by_name: dict[str, list[str]] = {}
    for directory in {path.rpartition("/")[0] for path in files.table["path"].to_list()}:
        by_name.setdefault(directory.rpartition("/")[2], []).append(directory)
    top, found = full_path(source.root), []
    for path, side in zip(jsons, _sides_of(jsons), strict=True):
        directory, within = full_path(os.path.dirname(path) or "."), f"{top.rstrip('/')}/"
        beside = directory.removeprefix(within) if directory.startswith(within) else ""
        own = by_name.get(_side_of(path), []) if not path.endswith(_ROBOFLOW) else [beside]
        data = None if files.texts is None else files.texts[below(top, path)]
        found.append(CocoFile(path, own[0] if len(own) == 1 else beside, side, data))
    return found


def below(top: str, path: str) -> str:
    """Return a path below a directory; a path elsewhere stays as it is."""
    return full_path(path).removeprefix(f"{top}/")


def _sides_of(named: Sequence[str]) -> Sequence[str]:
    """Return the side that the images of each file are; empty if the files are not of sides."""
    sides = [_side_of(path) for path in named]
    if len(sides) == 1:  # shards are called train, unless the name of the file says otherwise
        told = side_name(sides[0])
        if told is None or told.side == "train":
            return [""]
        return sides if is_side_alone(sides[0]) else [told.side]
    if not all(map(is_side_alone, sides)):
        # `bbox_train.json`, `train_annotations.json`, `train/annotations.json`
        return told_sides(named, sides) or [""] * len(sides)
    is_divided = len(set(sides)) == len(sides)
    return sides if is_divided else [""] * len(sides)


def of_side(paths: Sequence[str], name: str) -> str:
    """Return the file of a side that a directory is called like, else the first; empty if none."""
    own = (path for path in paths if _side_of(path).lower() == name)
    return next(own, paths[0] if paths else "")


def _side_of(path: str) -> str:
    """Return what a file of COCO's is for, by its name or, for Roboflow's, its directory's."""
    directory, name = os.path.split(path)
    if name == _ROBOFLOW:
        return os.path.basename(directory)
    return _PREFIX.sub("", os.path.splitext(name)[0])
