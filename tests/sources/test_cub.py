"""CUB-200-2011's texts, as its README describes them."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

import dsprep
from dsprep import Transform
from dsprep.errors import SourceError
from tests.sources.boxes import SIZE, boxes, kinds, notes, objects, read, sides, write

ALBATROSS, AUKLET = "001.Black_footed_Albatross", "006.Least_Auklet"
TOP = "CUB_200_2011"
PARTS = "1 back\n2 left eye\n"
SET = {
    f"{TOP}/images/{ALBATROSS}/a_0001.jpg": None,
    f"{TOP}/images/{ALBATROSS}/a_0002.jpg": None,
    f"{TOP}/images/{AUKLET}/b_0001.jpg": None,
    f"{TOP}/images.txt": f"1 {ALBATROSS}/a_0001.jpg\n2 {ALBATROSS}/a_0002.jpg\n"
    f"3 {AUKLET}/b_0001.jpg\n",
    f"{TOP}/classes.txt": f"1 {ALBATROSS}\n2 002.Laysan_Albatross\n3 {AUKLET}\n",
    f"{TOP}/image_class_labels.txt": "1 1\n2 1\n3 3\n",
    f"{TOP}/bounding_boxes.txt": "1 10.0 5.0 20.0 10.0\n2 1.0 2.0 3.0 4.0\n3 0.0 0.0 40.0 20.0\n",
    f"{TOP}/train_test_split.txt": "1 0\n2 1\n3 1\n",
    f"{TOP}/parts/parts.txt": PARTS,
    f"{TOP}/parts/part_locs.txt": "1 1 12.0 6.0 1\n1 2 0.0 0.0 0\n2 1 2.0 3.0 1\n2 2 2.0 4.0 1\n"
    "3 1 0.0 0.0 0\n3 2 1.0 1.0 1\n",
}
MORE = {
    f"{TOP}/README": "The Caltech-UCSD Birds-200-2011 Dataset\n",
    f"{TOP}/parts/part_click_locs.txt": "1 1 12.0 6.0 1 2.5\n",
    f"{TOP}/attributes/image_attribute_labels.txt": "1 1 0 3 27.7\n",
    f"{TOP}/attributes/certainties.txt": "1 not visible\n",
    "attributes.txt": "1 has_bill_shape::curved\n",
    f"segmentations/{ALBATROSS}/a_0001.png": None,
}


def test_all_that_is_read_and_what_is_not(tmp_path: Path) -> None:
    catalog, findings = read(write(tmp_path, SET | MORE))
    paths = [path for path in SET if path.endswith(".jpg")]
    assert boxes(catalog) == {
        paths[0]: [(ALBATROSS, 10, 5, 30, 15)],
        paths[1]: [(ALBATROSS, 1, 2, 4, 6)],
        paths[2]: [(AUKLET, 0, 0, 40, 20)],
    }
    assert sides(catalog) == dict(zip(paths, ("test", "train", "train"), strict=True))
    assert catalog.classes == (ALBATROSS, "002.Laysan_Albatross", AUKLET)
    assert catalog.table["cls"].to_list() == [0, 0, 2]
    found = [each.items[0].keypoints for each in objects(catalog).values()]
    assert found == [(12, 6, 2, 0, 0, 0), (2, 3, 2, 2, 4, 2), (0, 0, 0, 1, 1, 2)]
    assert "keypoints are parts, in this order: back, left eye" in notes(findings)
    assert "4 files of attributes and clicks not read" in notes(findings)
    told = kinds(findings)
    assert told.pop(f"segmentations/{ALBATROSS}/a_0001.png") == "unlisted"  # no mask by its pixels
    assert told.pop(f"{TOP}/README") == "harmless"
    assert {*told.values()} == {"not-read"}


def test_without_boxes_and_names(tmp_path: Path) -> None:
    few = ("images.txt", "image_class_labels.txt", "jpg")
    catalog, _ = read(write(tmp_path, {name: SET[name] for name in SET if name.endswith(few)}))
    assert catalog.classes == ("1", "3")
    assert [*catalog.settled.schema.by_name] == ["image", "label"]
    assert not catalog.sides


def test_boxes_and_parts_move(tmp_path: Path) -> None:
    root = write(tmp_path / "set", SET)
    options = {"to": "webdataset", "transform": Transform(resize=(20, 10)), "workers": 1}
    report = dsprep.pack(root, tmp_path / "out", **options)
    assert (report.samples, report.rejects) == (3, [])
    found = objects(read(tmp_path / "out" / "test-000000.tar")[0])
    (each,) = (value.items[0] for value in found.values())
    assert (each.box, each.keypoints) == ((5, 2.5, 15, 7.5), (6, 3, 2, 0, 0, 0))


def test_masks_that_nothing_reads_stop_the_command(tmp_path: Path) -> None:
    mask = BytesIO()
    Image.new("L", SIZE).save(mask, "PNG")
    name = f"segmentations/{ALBATROSS}/a_000%d.png"
    root = write(tmp_path / "set", SET | {name % at: mask.getvalue() for at in (1, 2)})
    with pytest.raises(SourceError, match=f"to take it in: --masks {root}/segmentations"):
        dsprep.pack(root, tmp_path / "out", to="webdataset", workers=1)
    catalog, findings = read(root, masks=f"{root}/segmentations")
    assert {"image", "objects", "label", "mask"} <= {*catalog.settled.schema.by_name}
    assert "without a mask" in notes(findings)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("images.txt", "1\n", "images.txt: line 1: has an id and nothing else"),
        ("images.txt", "1 a.jpg\n1 b.jpg\n", "images.txt: line 2: has the id 1 again"),
        ("image_class_labels.txt", "9 1\n", "image_class_labels.txt: 1 id of no image in"),
        ("image_class_labels.txt", "1 9\n", "image_class_labels.txt: 9 is no class of"),
        ("classes.txt", "1 a\n3 a\n", "classes.txt: has the name of a class twice"),
        ("bounding_boxes.txt", "1 2 3 -4 5\n", "the image 1: bbox is "),
        ("bounding_boxes.txt", "1 2 3 nan 5\n", "the image 1: "),
        ("bounding_boxes.txt", "1 2 3 4\n", "the image 1: bbox is "),
        ("train_test_split.txt", "1 2\n", "'2' of the image 1 is no 0 or 1"),
        ("parts/part_locs.txt", "1 7 1 1 1\n", "line 1: is no image, part, x, y and a 0 or a 1"),
        ("parts/part_locs.txt", "1\n", "part_locs.txt: line 1: "),
    ],
)
def test_refused(tmp_path: Path, name: str, text: str, why: str) -> None:
    with pytest.raises(SourceError) as refused:
        read(write(tmp_path, SET | {f"{TOP}/{name}": text}))
    assert why in str(refused.value)
