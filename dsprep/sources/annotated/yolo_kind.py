"""YOLO, as a kind of annotations."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.annotations.yolo import NAME_LISTS
from dsprep.sources.annotation_kind import (
    LOOKED_AT,
    AnnotatedPlace,
    AnnotationKind,
    DirectoryAbove,
    NamedPath,
)
from dsprep.sources.kind import Claim, Sure
from dsprep.storage.files import entries, exists, full_path

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

CONFIGS = ("data.yaml", "data.yml", "dataset.yaml")

_LABEL = re.compile(r"(?:^|/)labels/(?:.*/)?[^/]+\.txt$")
_ROW = re.compile(rb"\s*\d+(?:\.0*)?(?:[ \t]+-?\d[\d.eE+-]*){4,}[ \t]*(?:\r?\n|$)")


class YoloKind(AnnotationKind):
    """YOLO: a text for each image, and ``data.yaml`` or a list of class names."""

    names: ClassVar = ("yolo",)
    words: ClassVar = "YOLO"
    help: ClassVar = "data.yaml or the directory of labels of YOLO"
    extensions: ClassVar = (".yaml", ".yml")
    files: ClassVar = re.compile(
        rf"^(?:{'|'.join(map(re.escape, (*CONFIGS, *NAME_LISTS)))})$|{_LABEL.pattern}"
    )
    texts: ClassVar = re.compile(r"(?i)\.(?:txt|ya?ml|names|labels)$")
    directories: ClassVar = ("images",)

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.annotated.yolo import YoloTexts

        return {"yolo": YoloTexts}

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        own = [place.first(_LABEL, "txt"), *_configs(place)]
        if found := min(filter(None, own), default=""):
            return Claim(Sure.MARKED, found)
        beside = place.beside_an_image("txt")
        is_own = beside and _ROW.match(place.head(beside))
        return Claim(Sure.MARKED, beside) if is_own else None

    def looks_like(self, path: NamedPath) -> bool:
        return any(name.endswith(".txt") or name in CONFIGS for name in path.names)

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
    """Return the files beside the images that tell classes and sides; the first one counts."""
    known = {*place.with_extension("yaml", "yml")}
    return [name for name in CONFIGS if name in known]


def _recognized(place: AnnotatedPlace) -> tuple[str | None, str]:
    """Return ``data.yaml``, if there is one, and the directory of the texts, of a whole set."""
    root = place.root
    own = [os.path.join(root, name) for name in _configs(place)]
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
