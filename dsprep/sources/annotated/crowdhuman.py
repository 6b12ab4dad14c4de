"""CrowdHuman's `.odgt`: a line of JSON for each image."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dsprep.annotations.crowdhuman import parse_boxes
from dsprep.sources.annotated.spans import LineSpans, ParsedImage, fields_in


class CrowdHumanImages(LineSpans):
    """The images of a file."""

    def belongs(self, lines: Sequence[str], line: str) -> bool:
        return False

    def name_of(self, piece: Any) -> str:
        name = fields_in(json.loads(piece[0])).get("ID")
        if not isinstance(name, str) or not name:
            raise ValueError("has no ID, which names the image")
        return f"{name}.jpg"

    def parse(self, piece: Any) -> ParsedImage:
        shapes, left_out = parse_boxes(json.loads(piece[0]).get("gtboxes"))
        return ParsedImage(shapes, left_out=left_out)
