"""BDD100K's JSON: a list of images with their labels."""

from __future__ import annotations

from typing import Any

from dsprep.annotations.bdd100k import attributes_of, parse_labels
from dsprep.sources.annotated.spans import JsonSpans, ParsedImage, fields_in


class Bdd100kImages(JsonSpans):
    """The images of a file."""

    def name_of(self, piece: Any) -> str:
        name = fields_in(piece).get("name")
        if not isinstance(name, str) or not name:
            raise ValueError("names no image")
        return name

    def parse(self, piece: Any) -> ParsedImage:
        shapes, left_out = parse_labels(piece.get("labels"))
        return ParsedImage(shapes, left_out=left_out, tags=attributes_of(piece))
