"""YOLO, as a kind of annotations."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.annotations.yolo import NAME_LISTS, OBJ_DATA
from dsprep.errors import SourceError
from dsprep.patterns import pattern
from dsprep.sources.annotation_kind import (
    LOOKED_AT,
    AnnotatedPlace,
    AnnotationKind,
    DirectoryAbove,
    NamedPath,
)
from dsprep.sources.kind import HEAD, Claim, Sure
from dsprep.storage.files import entries, exists, full_path

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

CONFIGS = ("data.yaml", "data.yml", "dataset.yaml", OBJ_DATA)

_LABEL = pattern(r"(?:^|/)labels/(?:.*/)?[^/]+\.txt$")
_OF_DOTA = pattern(r"(?:^|/)labelTxt[^/]*/")
_TEXT = pattern(r"(?i)\.txt$")
_ROW = pattern(rb"\d+(?:\.0*)?(?:[ \t]+[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?){4,}")
_ROWS = 5  # rows that are looked at
_CONFIGS_READ = 3  # files such as data.yaml that are read
_OF_CONFIG = pattern(rb"(?m)^(?:names|nc)[ \t]*:|^(?:classes|names)[ \t]*=")

_OF_DATA = (pattern(rb"(?m)^names[ \t]*:"), pattern(rb"(?m)^(?:train|val|test)[ \t]*:"))


class YoloKind(AnnotationKind):
    """YOLO: a text for each image, and ``data.yaml`` or a list of class names."""

    names: ClassVar = ("yolo",)
    words: ClassVar = "YOLO"
    help: ClassVar = "data.yaml or the directory of labels of YOLO"
    contents: ClassVar = (
        "boxes, rotated boxes (as polygons of four corners), polygons or poses; sides"
    )
    not_read: ClassVar = "confidences: refused"
    example: ClassVar = "dsprep pack coco128 shards --to webdataset"
    extensions: ClassVar = (".yaml", ".yml")
    files: ClassVar = pattern(
        rf"^(?:{'|'.join(map(re.escape, (*CONFIGS, *NAME_LISTS)))})$|{_LABEL.pattern}"
    )
    texts: ClassVar = pattern(r"(?i)\.(?:txt|ya?ml|names|labels|data)$")
    directories: ClassVar = ("images",)

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.annotated.yolo import YoloTexts

        return {"yolo": YoloTexts}

    def is_own(self, path: str, head: bytes) -> bool:
        return _TEXT.search(path) is not None and _are_rows(head)

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        is_dota = place.first(_OF_DOTA, "txt")  # as Roboflow has it, beside data.yaml
        if not is_dota and (config := next(iter(_configs(place)), "")):
            return Claim(Sure.MARKED, config)
        heads = place.heads(_TEXT)
        texts = {*filter(_LABEL.search, heads), *place.named_as_images(heads)}
        if found := min((path for path in texts if self.is_own(path, heads[path])), default=""):
            return Claim(Sure.MARKED, found)
        # Images without objects have empty texts, which only a list of classes explains.
        are_empty = texts and not any(heads[path].strip() for path in texts)
        lists = filter(_is_list_of_names, place.with_extension("names", "labels", "txt"))
        found = min(lists, default="") if are_empty else ""
        return Claim(Sure.SHAPED, found) if found else None

    def looks_like(self, path: NamedPath) -> bool:
        is_config = not path.is_dir and os.path.basename(path.path) in CONFIGS
        return is_config or any(name.endswith(".txt") or name in CONFIGS for name in path.names)

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.yolo import scan_yolo

        config, below = _named(source.root, *place.named) if place.named else _recognized(place)
        return scan_yolo(source, place.files, config, below, run_all)

    def found_above(self, above: DirectoryAbove) -> str:
        labels = above.directory("labels") if above.name == "images" else ""
        if not (labels and _has_texts(labels)):
            return ""
        return next((above.entries[name].path for name in CONFIGS if name in above.entries), labels)


def _configs(place: AnnotatedPlace) -> list[str]:
    """Return the files that tell classes and sides, the one that counts first."""
    known = [*place.with_extension("yaml", "yml", "data")]
    own = [path for path in known if os.path.basename(path) in CONFIGS]
    own.sort(key=lambda path: (path.count("/"), CONFIGS.index(os.path.basename(path)), path))
    if own:
        return [path for path in own[:_CONFIGS_READ] if _OF_CONFIG.search(place.head(path))]
    # `coco8.yaml`: Ultralytics calls the file like the data set.
    others = sorted(path for path in known if "/" not in path)[:_CONFIGS_READ]
    heads = {path: place.head(path) for path in others}
    own = [path for path, head in heads.items() if all(each.search(head) for each in _OF_DATA)]
    return own if len(own) == 1 else []


def _is_list_of_names(path: str) -> bool:
    return os.path.basename(path) in NAME_LISTS


def _are_rows(head: bytes) -> bool:
    """Return whether each of the first lines has the number of a class and at least 4 others."""
    lines = head.removeprefix(codecs.BOM_UTF8).splitlines()
    lines = lines[:-1] if len(head) == HEAD else lines
    rows = [line.strip() for line in lines if line.strip()][:_ROWS]
    # Whole numbers alone may be anything, such as attributes; shares of an image have a point.
    return any(b"." in row for row in rows) and all(map(_ROW.fullmatch, rows))


def _recognized(place: AnnotatedPlace) -> tuple[str | None, str]:
    """Return ``data.yaml``, if there is one, and the directory of the texts, of a whole set."""
    root = place.root
    found = _configs(place)
    own = [os.path.join(root, name) for name in found]
    beside = [name for name in found if name.count("/") == found[0].count("/")]
    if len({os.path.dirname(name) for name in beside}) > 1:
        raise SourceError(
            f"{root}: has {' and '.join(beside[:2])}, each with a data set of its own: pack the "
            "directory of each"
        )
    if place.files.archive is None:
        above = os.path.dirname(full_path(root))
        own += [path for name in CONFIGS if exists(path := os.path.join(above, name))]
    return (own[0] if own else None), root


def _named(root: str, named: NamedPath) -> tuple[str | None, str]:
    """Return ``data.yaml``, if there is one, and the directory of the texts, by a path."""
    path = named.path
    if not named.is_dir:
        return path, _labels_root(root, path)
    configs = (os.path.join(path, name) for name in CONFIGS)
    return next(filter(exists, configs), None), path


def _labels_root(root: str, config: str) -> str:
    """Return the directory that the texts of images are in, or below."""
    beside = os.path.dirname(config) or "."
    if f"{full_path(root)}/".startswith(f"{full_path(beside)}/"):
        return beside
    before, mark, _ = f"{root.rstrip('/')}/".rpartition("/images/")
    return before if mark else root


def _has_texts(directory: str, depth: int = 1) -> bool:
    """Return whether texts lie in a directory or right below, judged by the first names there."""
    found: Iterator[Any] = islice(entries(directory), LOOKED_AT)
    return any(
        entry.name.endswith(".txt")
        or (depth > 0 and entry.is_dir() and _has_texts(entry.path, depth - 1))
        for entry in found
    )
