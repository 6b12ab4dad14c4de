"""Create ML's JSON: an item for each image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dsprep.annotations.create_ml import are_shares, image_of, parse_item
from dsprep.sources.annotated.spans import JsonSpans, ParsedImage, fields_in

_SHARES = "coordinates as shares of images"


class CreateMlImages(JsonSpans):
    """The images of a file."""

    advice: ClassVar[Mapping[str, str]] = {_SHARES: "write the coordinates in pixels"}

    def name_of(self, piece: Any) -> str:
        return image_of(fields_in(piece))

    def parse(self, piece: Any) -> ParsedImage:
        shapes = parse_item(piece)
        return ParsedImage(shapes, refused=[_SHARES] if are_shares(shapes) else ())
