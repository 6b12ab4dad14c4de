"""SA-1B's JSON, with the keys that its page names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsprep.errors import SourceError
from tests.sources.boxes import boxes, kinds, objects, read, write


def told(name: str, **changes: Any) -> str:
    """What a file says of its image: the left half of it is an object."""
    mask = {
        "id": 7,
        "segmentation": {"size": [20, 40], "counts": "0`<`<"},
        "bbox": [0.0, 0.0, 20.0, 20.0],
        "area": 400,
        "predicted_iou": 0.98,
        "stability_score": 0.97,
        "crop_box": [0.0, 0.0, 40.0, 20.0],
        "point_coords": [[5.0, 5.0]],
    }
    image = {"image_id": 1, "width": 40, "height": 20, "file_name": name}
    return json.dumps({"image": image, "annotations": [mask | changes]})


FLAT = {
    "sa_1.jpg": None,
    "sa_2.jpg": None,
    "sa_1.json": told("sa_1.jpg"),
    "sa_2.json": told("sa_2.jpg"),
}
SET = {f"{'images' if text is None else 'annotations'}/{path}": text for path, text in FLAT.items()}


def test_masks_of_one_class(tmp_path: Path) -> None:
    catalog, findings = read(write(tmp_path, FLAT))
    assert boxes(catalog)["sa_1.jpg"] == [("object", 0, 0, 20, 20)]
    (mask,) = objects(catalog)["sa_2.jpg"].items
    assert mask.rle is not None and mask.rle.counts == (0, 400, 400) and mask.id == 7
    assert mask.more["predicted_iou"] == 0.98 and mask.more["point_coords"] == [[5, 5]]
    assert not kinds(findings)


@pytest.mark.parametrize("text", ["[" * 9999, '{"annotations": [1]}', told("", bbox="a")])
def test_damaged(tmp_path: Path, text: str) -> None:
    with pytest.raises(SourceError, match="sa_2.json"):
        read(write(tmp_path, FLAT | {"sa_2.json": text}), annotations=str(tmp_path),
             annotation_format="segment-anything")  # fmt: skip
