"""COCO's panoptic segmentation, as a kind of annotations."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.sources.annotated.coco_kind import (
    BESIDE,
    COCO,
    JSON,
    PANOPTIC,
    CocoKind,
    below,
    files_with_sides,
    is_panoptic,
    json_files,
    lists_in,
    of_side,
    require_most,
    without_others,
)
from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind, DirectoryAbove, NamedPath
from dsprep.sources.kind import Claim, Sure
from dsprep.sources.unread import text_of
from dsprep.storage.files import full_path

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source


class CocoPanopticKind(AnnotationKind):
    """COCO's panoptic segmentation: a JSON file, and a directory of PNGs of the segments."""

    names: ClassVar = ("coco-panoptic",)
    words: ClassVar = "COCO panoptic"
    contents: ClassVar = (
        "masks of the numbers that classes of objects have, 255 where no segment is; segments as "
        "boxes with their areas, crowd and ids; ids of images; a side from each file"
    )
    not_read: ClassVar = (
        "`isthing`, colors of categories; which pixels of one class belong to which segment; "
        "panoptic files beside instances"
    )
    example: ClassVar = "dsprep pack coco shards --to webdataset"
    files: ClassVar = PANOPTIC
    texts: ClassVar = JSON
    takes_several: ClassVar = True
    takes_members: ClassVar = True
    gives_masks: ClassVar = True
    surest: ClassVar = Sure.SHAPED  # other annotations of the same images win

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        return CocoKind.saved()

    def is_own(self, path: str, head: bytes) -> bool:
        lists = lists_in(text_of(head))
        has_lists = "annotations" in lists or "images" in lists
        return JSON.search(path) is not None and has_lists and is_panoptic(path, head)

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        if place.first(COCO, "json", "JSON"):  # instances win, without a look into these
            return None
        own = self._files(place)
        return Claim(self.surest, own[0]) if own else None

    def read_in_archive(self, place: AnnotatedPlace) -> Sequence[str]:
        return self._files(place)

    def _files(self, place: AnnotatedPlace) -> Sequence[str]:
        """Return the panoptic files: by their heads or, if these are not known, by their names."""
        named = list(filter(PANOPTIC.search, place.with_extension("json", "JSON")))
        heads = {**place.heads(JSON), **place.heads_of(named)}
        own = {path for path, head in heads.items() if self.is_own(path, head)}
        return sorted(own.union(path for path in named if not heads.get(path)))

    def looks_like(self, path: NamedPath) -> bool:
        names = [path.path] if path.member or not path.is_dir else path.names
        return any(map(PANOPTIC.search, names))

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.coco_panoptic import scan_panoptic

        root, top = source.root, full_path(source.root)
        if place.named:
            paths = [path for each in place.named for path in json_files(root, each, PANOPTIC)]
        else:
            paths = [os.path.join(root, path) for path in self._files(place)]
        jsons = files_with_sides(source, place.files, paths)
        scan, pngs = scan_panoptic(source, place.files, jsons, run_all)
        used = [below(top, path) for path in paths]
        scan = scan._replace(used=used)
        if place.named:
            return scan
        if not any(map(PANOPTIC.search, used)):
            require_most(scan, place, used[0], pngs)
        return without_others(scan, sorted({*filter(BESIDE.search, place.others)}.difference(used)))

    def found_above(self, above: DirectoryAbove) -> str:
        inside = above.inside("annotations")
        own = sorted(entry.path for entry in inside if PANOPTIC.search(entry.name))
        return of_side(own, above.name)
