"""A list or a table gives images with annotations their labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsprep.rows import Rows
from dsprep.sample import Sample
from tests.images import png
from tests.sources.boxes import box, coco, read, write

NAMES = ("a", "b", "c", "d")
TABLE = "id,kind\n" + "".join(f"{name},{'xy'[at % 2]}\n" for at, name in enumerate(NAMES))
LIST = "".join(f"{at}\t{at % 2}\t{name}.jpg\n" for at, name in enumerate(NAMES))
MASKS = {f"masks/{name}.png": png(0, (40, 20), "P") for name in NAMES}
BOXES = {"boxes.json": coco([f"{name}.jpg" for name in NAMES], [box(1, 1)])}


@pytest.mark.parametrize("option", ["labels", "list_file"])
@pytest.mark.parametrize("kind", ["masks", "annotations"])
def test_labels_beside_masks_and_boxes(tmp_path: Path, kind: str, option: str) -> None:
    """They were dropped, although the report named the classes."""
    write(tmp_path, {**MASKS, **BOXES, "labels.csv": TABLE, "all.lst": LIST})
    root = write(tmp_path / "images", {f"{name}.jpg": None for name in NAMES})
    given = {"masks": tmp_path / "masks", "annotations": [tmp_path / "boxes.json"]}
    chosen = {"labels": tmp_path / "labels.csv", "list_file": tmp_path / "all.lst"}
    options = {kind: given[kind], option: str(chosen[option])}
    catalog, _ = read(root, **options)
    rows: Rows = catalog.rows()
    samples = [each for each in catalog.reader.read(rows) if isinstance(each, Sample)]
    assert catalog.settled.schema.label == "label"
    assert catalog.table["cls"].to_list() == [0, 1, 0, 1]
    own = "mask" if kind == "masks" else "objects"
    assert all(own in each.fields for each in samples)
    assert len(samples) == len(NAMES)
