"""Mapillary Vistas, as a kind of annotations."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.errors import SourceError
from dsprep.patterns import pattern
from dsprep.sources.annotated.mask_set_kind import MaskSetKind
from dsprep.sources.annotated.parallel_masks import TOP, Directories, MaskMeaning

if TYPE_CHECKING:
    from dsprep.sources.annotated.parallel_masks import Parallel
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source

_VERSIONS = ("v2.0", "v1.2")
_SIDE = "(?P<side>training|validation|testing|train|val|test)"


class MapillaryKind(MaskSetKind):
    """Mapillary Vistas: images by side, and for each version of the classes masks of its numbers.

    Those of version 2.0 are read, or of 1.2 where there are none of these.
    """

    names: ClassVar = ("mapillary",)
    words: ClassVar = "Mapillary Vistas"
    contents: ClassVar = (
        "masks of `labels`, of version 2.0 or else 1.2, with the names in `config_v2.0.json`; sides"
    )
    not_read: ClassVar = "`instances`, `panoptic` and `polygons`; the other version"
    example: ClassVar = "dsprep pack mapillary-vistas shards --to webdataset"
    files: ClassVar = pattern(r"(?:^|/)config_v\d\.\d\.json$")
    texts: ClassVar = files
    directories_of_masks: ClassVar = tuple(
        Directories(
            f"/{version}/labels/",
            rf"{TOP}{_SIDE}/images/(?P<key>[^/]+)\.jpg$",
            rf"{TOP}{_SIDE}/{re.escape(version)}/labels/(?P<key>[^/]+)\.png$",
        )
        for version in _VERSIONS
    )
    others: ClassVar = pattern(
        rf"(?:^|/)(?:v1\.2|v2\.0)/(?:labels|instances|panoptic|polygons)/|{files.pattern}"
    )

    def meaning(self, source: Source, place: AnnotatedPlace, found: Parallel) -> MaskMeaning:
        from dsprep.sources.annotated.mask_sets import text_beside

        mask = next(filter(None, found.masks))
        version = next(each for each in _VERSIONS if f"/{each}/" in f"/{mask}")
        path, text = text_beside(place, f"config_{version}.json")
        return MaskMeaning(_names_in(text, path), used=(path,)) if path else MaskMeaning()


def _names_in(text: str, path: str) -> tuple[str, ...]:
    """Return the names of the classes, by number."""
    try:
        config: Any = json.loads(text)
        found = tuple(each["readable"] for each in config["labels"])
        if not all(isinstance(name, str) for name in found):
            raise TypeError
    except (ValueError, TypeError, KeyError, RecursionError):
        raise SourceError(f"{path}: does not name the classes of Mapillary Vistas") from None
    return found
