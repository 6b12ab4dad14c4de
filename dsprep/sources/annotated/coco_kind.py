"""COCO, as a kind of annotations: which files are read together, and which side each of them is."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.errors import SourceError
from dsprep.places.names import is_side_alone, side_name
from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind, DirectoryAbove, NamedPath
from dsprep.sources.kind import Claim, Sure
from dsprep.storage.files import entries, full_path

if TYPE_CHECKING:
    from dsprep.places.files import Files
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

_ROBOFLOW = "_annotations.coco.json"
_COCO = re.compile(
    r"(?:^|/)(?:_annotations\.coco|(?:instances|person_keypoints)(?:_[^/]*)?)\.json$", re.IGNORECASE
)
_OBJECTS = ("instances", "person_keypoints")
_PREFIX = re.compile(r"^(?:instances|person_keypoints|annotations?|coco)[-_]", re.IGNORECASE)


class CocoKind(AnnotationKind):
    """COCO: images, categories and annotations in one JSON file, or in one for each side."""

    names: ClassVar = ("coco",)
    words: ClassVar = "COCO"
    help: ClassVar = "a JSON file of COCO"
    files: ClassVar = _COCO
    texts: ClassVar = _COCO
    takes_several: ClassVar = True
    takes_members: ClassVar = True

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.annotated.coco import CocoAnnotations, CocoPlaces

        return {"coco": CocoAnnotations, "coco-places": CocoPlaces}

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        found = place.first(_COCO, "json", "JSON")
        return Claim(Sure.MARKED, found) if found else None

    def looks_like(self, path: NamedPath) -> bool:
        names = [path.path] if path.member else path.names
        is_own = any(name.lower().endswith(".json") for name in names)
        return is_own or path.head.startswith("{")

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        root = source.root
        if place.named:
            named = [found for path in place.named for found in _json_files(root, path)]
        else:
            own = sorted(filter(_COCO.search, place.others))
            named = sorted(os.path.join(root, path) for path in own)
            _require_one_kind(root, named)
        return _scan(source, place.files, named)

    def found_above(self, above: DirectoryAbove) -> str:
        inside = above.inside("annotations")
        jsons = sorted(entry.path for entry in inside if _COCO.search(entry.name))
        own = (path for path in jsons if _side_of(path).lower() == above.name)
        return next(own, jsons[0]) if jsons else ""


def _json_files(root: str, named: NamedPath) -> Iterable[str]:
    """Return the files that a user names: one, or those of a directory."""
    if named.member:
        return [posixpath.join(root, named.member)]
    if not named.is_dir:
        return [named.path]
    inside = [entry.path for entry in entries(named.path) if entry.name.lower().endswith(".json")]
    return sorted(each for each in inside if _COCO.search(each)) or sorted(inside)


def _require_one_kind(root: str, named: Sequence[str]) -> None:
    """Refuse COCO's own annotations, which have the persons of an image in two files."""
    parts = {kind: [p for p in named if f"{kind}_" in posixpath.basename(p)] for kind in _OBJECTS}
    if all(parts.values()):
        given = (" ".join(f"--annotations {path}" for path in paths) for paths in parts.values())
        raise SourceError(
            f"{root}: has files of instances and of person_keypoints for the same images: give "
            f"those to take: {', or '.join(given)}"
        )


def _scan(source: Source, files: Files, named: Sequence[str]) -> Scan:
    """Scan files of COCO's, whose images may lie beside them, or in directories of their names."""
    from dsprep.sources.annotated.coco import CocoFile, scan_coco

    paths = files.table["path"].to_list()
    by_name: dict[str, list[str]] = {}
    for directory in {path.rpartition("/")[0] for path in paths}:
        by_name.setdefault(directory.rpartition("/")[2], []).append(directory)
    top = full_path(source.root)
    found = []
    for path in named:
        side = _side_of(path)
        beside = full_path(os.path.dirname(path) or ".").removeprefix(top).lstrip("/")
        own = by_name.get(side, []) if not path.endswith(_ROBOFLOW) else [beside]
        below = full_path(path).removeprefix(f"{top}/")
        data = None if files.texts is None else files.texts[below]
        found.append(CocoFile(path, own[0] if len(own) == 1 else beside, side, data))
    sides = _sides_of(named)
    found = [file._replace(side=side) for file, side in zip(found, sides, strict=True)]
    used = [full_path(path).removeprefix(f"{top}/") for path in named]
    scan = scan_coco(found, frozenset(paths), source.class_names())
    return scan._replace(used=used)


def _sides_of(named: Sequence[str]) -> Sequence[str]:
    """Return the side that the images of each file are; empty if the files are not of sides."""
    sides = [_side_of(path) for path in named]
    if not all(map(is_side_alone, sides)):
        # `bbox_train.json`, `train_annotations.json`, `train/annotations.json`
        above = (os.path.basename(os.path.dirname(path)) for path in named)
        found = [
            side_name(side) or side_name(name) for side, name in zip(sides, above, strict=True)
        ]
        sides = [side.side if side else "" for side in found]
    is_divided = "" not in sides and len(set(sides)) == len(sides) > 1
    return sides if is_divided else [""] * len(sides)


def _side_of(path: str) -> str:
    """Return what a file of COCO's is for, by its name or, for Roboflow's, its directory's."""
    directory, name = os.path.split(path)
    if name == _ROBOFLOW:
        return os.path.basename(directory)
    return _PREFIX.sub("", os.path.splitext(name)[0])
