"""SA-1B's JSON: a file for each image, with the masks that Segment Anything found in it.

It has an ``image`` and ``annotations`` like those of COCO, without categories: runs, box and area,
and how sure the model was (github.com/facebookresearch/segment-anything, "Dataset").
"""

from __future__ import annotations

import json
from typing import Any

from dsprep.annotations.coco import parse_object
from dsprep.annotations.named import NamedObjects

_CLASS = "object"


def parse(data: bytes) -> NamedObjects:
    """Return the objects of an image, which are all of one class."""
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("is no JSON") from None
    found: Any = values.get("annotations") if isinstance(values, dict) else None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError("has no list of annotations")
    objects = (parse_object({**each, "category_id": 0}, {0: 0}) for each in found)
    return NamedObjects([(_CLASS, each._replace(number=-1)) for each in objects])
