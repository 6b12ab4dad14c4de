"""Label Studio's export as JSON: a list of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dsprep.annotations.label_studio import REFUSED, chosen, drawn
from dsprep.sample import image_kind_of
from dsprep.sources.annotated.spans import JsonSpans, ParsedImage, fields_in
from dsprep.units import quoted_names

_SHOWN = 3
_SEVERAL = "with several annotations; the one marked as ground truth is taken, or the first"


class LabelStudioTasks(JsonSpans):
    """The tasks of an export."""

    column: str | None = None  # what tasks call their images by, if the user said so
    noun: ClassVar[str] = "task"
    advice: ClassVar[Mapping[str, str]] = REFUSED

    def name_of(self, piece: Any) -> str:
        return _image_of(piece, self.column)

    def called(self, number: int, piece: Any) -> str:
        return f"task {piece.get('id', number) if isinstance(piece, dict) else number}"

    def parse(self, piece: Any) -> ParsedImage | None:
        annotation, count = chosen(piece)
        if annotation is None:
            return None
        found = drawn(annotation)
        return ParsedImage(
            found.shapes,
            found.extent,
            found.left_out,
            [_SEVERAL] if count > 1 else (),
            dict.fromkeys(found.refused),
            tags=found.choices,
        )


def _image_of(task: Mapping[str, Any], column: str | None) -> str:
    """Return what a task calls its image."""
    data = fields_in(task).get("data")
    if not isinstance(data, dict):
        is_coco = {"image_id", "category_id"} <= task.keys()
        raise ValueError(
            "is an annotation or a result of COCO: give the JSON with images and categories"
            if is_coco
            else "has no data, as tasks of Label Studio have: export as JSON, not as JSON-MIN"
        )
    texts = {name: value for name, value in data.items() if isinstance(value, str) and value}
    found = [name for name, value in texts.items() if image_kind_of(value.partition("?")[0])]
    name = column or ("image" if "image" in data else found[0] if len(found) == 1 else "")
    if name not in texts:
        raise ValueError(
            f"its data does not tell which text is the image: give --path-column with one of "
            f"{quoted_names(list(data), _SHOWN)}"
        )
    return texts[name]
