"""CelebA's tables, in the layout of its authors and in that of Kaggle's copy."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

import dsprep
from dsprep import Transform
from dsprep.errors import SourceError
from tests.sources.boxes import image, notes, objects, read, sides, told, write

ATTRIBUTES = "3\nBald  Male Young \n000001.jpg -1  1 -1\n000002.jpg -1 -1 -1\n000003.jpg  1  1  1\n"
BOXES = "3\nimage_id x_1 y_1 width height\n000001.jpg    10  5  20 10\n000002.jpg 1 2 3 4\n"
BOXES += "000003.jpg 0 0 0 0\n"
HEADER = "lefteye_x lefteye_y righteye_x righteye_y nose_x nose_y "
HEADER += "leftmouth_x leftmouth_y rightmouth_x rightmouth_y"
POINTS = f"3\n{HEADER}\n" + "".join(
    f"00000{n}.jpg 12 6 18 6 15 9 13  12 17 13\n" for n in (1, 2, 3)
)
SIDES = "000001.jpg 0\n000002.jpg 1\n000003.jpg 2\n"
IDENTITIES = "000001.jpg 2880\n000002.jpg 2937\n000003.jpg 8692\n"
WILD: Mapping[str, str | None] = {
    **{f"Img/img_celeba/00000{n}.jpg": None for n in (1, 2, 3)},
    "Anno/list_attr_celeba.txt": ATTRIBUTES,
    "Anno/list_bbox_celeba.txt": BOXES,
    "Anno/list_landmarks_celeba.txt": POINTS,
    "Anno/identity_CelebA.txt": IDENTITIES,
    "Eval/list_eval_partition.txt": SIDES,
}
KEYPOINTS = (12, 6, 2, 18, 6, 2, 15, 9, 2, 13, 12, 2, 17, 13, 2)


def test_the_layout_of_its_authors(tmp_path: Path) -> None:
    catalog, findings = read(write(tmp_path, WILD))
    assert told(catalog) == {
        "Img/img_celeba/000001.jpg": {
            "label": ("Male",),
            "identity": 2880,
            "objects": [("face", 10, 5, 30, 15)],
        },
        "Img/img_celeba/000002.jpg": {
            "label": (),
            "identity": 2937,
            "objects": [("face", 1, 2, 4, 6)],
        },
        "Img/img_celeba/000003.jpg": {
            "label": ("Bald", "Male", "Young"),
            "identity": 8692,
            "objects": [("face", 0, 0, 0, 0)],
        },
    }
    assert catalog.classes == ("Bald", "Male", "Young")
    assert [*sides(catalog).values()] == ["train", "val", "test"]
    found = objects(catalog)["Img/img_celeba/000001.jpg"]
    assert (found.extent, found.items[0].keypoints) == (None, KEYPOINTS)
    assert not notes(findings)


def kaggle(size: tuple[int, int] = (40, 20)) -> dict[str, str | bytes | None]:
    """Return the layout of Kaggle's copy: CSV, and a directory in another of its name."""
    tables = {
        "list_attr_celeba": ATTRIBUTES.replace("Bald ", "image_id Bald "),
        "list_bbox_celeba": BOXES,
        "list_landmarks_align_celeba": POINTS.replace("lefteye_x", "image_id lefteye_x", 1),
        "list_eval_partition": f"3\nimage_id partition\n{SIDES}",
    }
    lines = {name: text.split("\n")[1:] for name, text in tables.items()}
    top = "img_align_celeba/img_align_celeba"
    return {
        **{f"{top}/00000{n}.jpg": image(size, seed=n) for n in (1, 2, 3)},
        **{f"{name}.csv": "\n".join(",".join(line.split()) for line in own)
           for name, own in lines.items()},
    }  # fmt: skip


def test_kaggles_copy_has_aligned_images_and_boxes_of_others(tmp_path: Path) -> None:
    catalog, findings = read(write(tmp_path, kaggle()))
    found = objects(catalog)["img_align_celeba/img_align_celeba/000001.jpg"]
    # The landmarks are measured on 178 x 218, also if the images are smaller copies.
    assert (found.extent, found.items[0].keypoints) == ((178, 218), KEYPOINTS)
    assert found.items[0].box == (12, 6, 18, 13)
    assert "list_bbox_celeba.csv is not kept: it is about the images before" in notes(findings)
    assert "the smallest around its landmarks" in notes(findings)
    assert [*sides(catalog).values()] == ["train", "val", "test"]
    assert catalog.classes == ("Bald", "Male", "Young")


def test_images_of_the_size_of_aligned_ones_are_these(tmp_path: Path) -> None:
    files = {name.replace("img_align_celeba", "faces"): data for name, data in kaggle().items()}
    for size, extent in (((178, 218), (178, 218)), ((40, 20), None)):
        own = {name: image(size) if name.endswith("jpg") else data for name, data in files.items()}
        catalog, findings = read(write(tmp_path / str(size), own))
        assert {each.extent for each in objects(catalog).values()} == {extent}
        assert ("list_landmarks_align_celeba.csv is not kept" in notes(findings)) == (not extent)


def test_resized_with_all_that_is_on_the_images(tmp_path: Path) -> None:
    root = write(tmp_path / "set", WILD)
    smaller = Transform(resize=10)
    report = dsprep.pack(root, tmp_path / "out", to="webdataset", transform=smaller, workers=1)
    assert (report.samples, report.rejects) == (3, [])
    with tarfile.open(tmp_path / "out/train-000000.tar") as tar:
        found = json.loads(tar.extractfile("Img/img_celeba/000001.json").read())  # type: ignore[union-attr]
    assert found["objects"][0]["box"] == [5, 2.5, 15, 7.5]
    assert found["objects"][0]["keypoints"][:6] == [6, 3, 2, 9, 3, 2]
    assert found["identity"] == 2880


def test_what_is_wrong_is_named_by_its_line(tmp_path: Path) -> None:
    wrong = {
        "Anno/list_attr_celeba.txt": (
            ATTRIBUTES.replace("000001.jpg -1", "000001.jpg 7"),
            ":3: '7'",
        ),
        "./Anno/list_attr_celeba.txt": (
            "9\nBald Male Young\n000001.jpg 1 1 -1\n",
            "has no columns of tags",
        ),
        "Anno/list_bbox_celeba.txt": (BOXES.replace("20 10", "20 x"), ":3: 'x' in the column"),
        "Anno/list_landmarks_celeba.txt": (
            POINTS.replace(" rightmouth_y", "").replace(" 13\n", "\n"),
            "has 9 columns of numbers, and CelebA's 10",
        ),
        "Eval/list_eval_partition.txt": (SIDES.replace(" 2", " 3"), ":3: '3' is no side"),
        "Anno/identity_CelebA.txt": (IDENTITIES * 2, ":4: names '000001.jpg' again (2 more like"),
    }
    for number, (name, (text, message)) in enumerate(wrong.items()):
        root = write(tmp_path / str(number), {**WILD, name: text})
        with pytest.raises(SourceError) as caught:
            read(root)
        assert f"{Path(name).name}" in str(caught.value) and message in str(caught.value)
    negative = BOXES.replace("20 10", "20 -10")
    root = write(tmp_path / "negative", {**WILD, "Anno/list_bbox_celeba.txt": negative})
    with pytest.raises(SourceError, match=":3: the width or the height of a box is negative"):
        read(root)


def test_a_table_of_some_images_and_images_that_no_table_names(tmp_path: Path) -> None:
    few = ATTRIBUTES.replace("000002.jpg -1 -1 -1\n", "").replace("3\n", "2\n", 1)
    root = write(
        tmp_path, {**WILD, "Anno/list_attr_celeba.txt": few, "Img/img_celeba/000009.jpg": None}
    )
    catalog, findings = read(root)
    assert "label" not in told(catalog)["Img/img_celeba/000002.jpg"]
    assert "1 image without a label" in notes(findings)
    assert [each.path for each in findings if each.kind == "unlisted"] == [
        "Img/img_celeba/000009.jpg"
    ]


def test_named_in_another_directory(tmp_path: Path) -> None:
    root = write(tmp_path, WILD)
    images = root / "Img/img_celeba"
    expected = [*told(read(root)[0]).values()]
    for named in (root, root / "Anno/list_attr_celeba.txt"):
        catalog, _ = read(images, annotations=(str(named),))
        assert [*told(catalog).values()] == expected
