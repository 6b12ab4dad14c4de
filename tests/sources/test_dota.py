"""DOTA's labels, as its page has them and as datumaro and Roboflow write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.annotations.dota import parse
from dsprep.errors import SourceError
from dsprep.images.transform import Transform
from tests.sources.boxes import boxes, kinds, notes, objects, read, sides, write

HEAD = "imagesource:GoogleEarth\ngsd:0.146343590398\n"
CORNERS = (20, 5, 30, 10, 20, 15, 10.5, 10)
ROWS = f"{' '.join(map(str, CORNERS))} large-vehicle 1\n1 2 3 2 3 4 1 4 ship 0\n"
PLACES = [("large-vehicle", 10.5, 5, 30, 15), ("ship", 1, 2, 3, 4)]


SET = {
    "images/P0000.jpg": None,
    "images/P0001.jpg": None,
    "labelTxt/P0000.txt": HEAD + ROWS,
    "labelTxt/P0001.txt": HEAD,
}


def test_rows() -> None:
    found = parse((HEAD + ROWS + "0 0 0 2 2 2 2 0 ship\n").encode())
    assert [name for name, _ in found.items] == ["large-vehicle", "ship", "ship"]
    first, second, third = (each for _, each in found.items)
    assert first.polygons == (CORNERS,)
    assert [each.flags for each in (first, second, third)] == [{"difficult"}, set(), set()]
    assert found.left_out == {"imagesource line": 1, "gsd line": 1}


def test_roboflows_directories_with_data_yaml(tmp_path: Path) -> None:
    files: dict[str, Any] = {"data.yaml": "train: ../train/images\nnc: 1\nnames: ['ship']\n"}
    for side, count in (("train", 3), ("valid", 2)):
        files |= {f"{side}/images/{side}{at}.jpg": None for at in range(count)}
        files |= {f"{side}/labelTxt/{side}{at}.txt": ROWS for at in range(count)}
    catalog, findings = read(write(tmp_path, files))
    assert [*sides(catalog).values()] == ["train"] * 3 + ["valid"] * 2
    assert [*boxes(catalog).values()] == [PLACES] * 5
    assert kinds(findings) == {"data.yaml": "left-over"}


def test_what_is_not_kept_is_counted_and_corners_move(tmp_path: Path) -> None:
    files = {"images/a.png": None, "labelTxt-v1.0/a.txt": HEAD + ROWS, "images/test.png": None}
    root = write(tmp_path / "set", files)
    catalog, findings = read(root)
    assert "1 gsd line not kept\n1 imagesource line not kept" in notes(findings)
    assert kinds(findings) == {"images/test.png": "unlisted"}
    assert objects(catalog)["images/a.png"].items[0].flags == {"difficult"}
    transform = Transform(resize=(20, 10))
    dsprep.pack(root, tmp_path / "out", to="webdataset", workers=1, transform=transform)
    (moved,) = objects(read(tmp_path / "out" / "train-000000.tar")[0]).values()
    assert moved.items[0].polygons == (tuple(value / 2 for value in CORNERS),)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ("1 2 3 4 5 6 7 ship 0\n", "line 1: '1 2 3 4 5 6 7 ship' are not numbers"),
        ("1 2 3 4 5 6 7 ship\n", "line 1: has 8 columns: a row of DOTA has 8 numbers"),
        (HEAD + "1 2 3 4 5 6 7 inf ship 0\n", "line 3: "),
    ],
)
def test_refused(tmp_path: Path, rows: str, why: str) -> None:
    files = {"images/a.png": None, "images/b.png": None, "labelTxt/a.txt": rows}
    with pytest.raises(SourceError) as refused:
        read(write(tmp_path, {**files, "labelTxt/b.txt": ROWS}))
    assert why in str(refused.value)
