"""labelme's JSON: the numbers are what labelme's own reader makes of the same files."""

from __future__ import annotations

import base64
import json
import math
import struct
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import dsprep
from dsprep.annotations.labelme import parse
from dsprep.annotations.masks import mask_of
from dsprep.annotations.objects import area_of
from dsprep.errors import SourceError
from dsprep.images.transform import Transform
from tests.sources.boxes import SIZE, boxes, image, kinds, labelme, notes, objects, read, write

BOX = {"label": "cat", "points": [[30, 15], [10, 5]], "shape_type": "rectangle"}
PLACE = ("cat", 10, 5, 30, 15)


def shape(kind: str, *points: list[float], **values: Any) -> dict[str, Any]:
    return {"label": "cat", "points": [*points], "shape_type": kind, "group_id": None} | values


def huge_mask() -> str:
    out = BytesIO()
    Image.new("1", (1, 1)).save(out, "PNG")
    head = b"IHDR" + struct.pack(">2I", 14_000, 14_000) + out.getvalue()[24:29]
    data = out.getvalue()[:12] + head + struct.pack(">I", zlib.crc32(head)) + out.getvalue()[33:]
    return base64.b64encode(data).decode()


def mask(*rows: list[int]) -> str:
    picture, out = Image.new("1", (len(rows[0]), len(rows))), BytesIO()
    picture.putdata([value for row in rows for value in row])
    picture.save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


def test_shapes() -> None:
    bits = mask([0, 1], [1, 1])
    shapes = [
        BOX,
        shape("polygon", [1, 2], [3, 2], [3, 5.5]),
        {"label": "cat", "points": [[1, 2], [3, 2], [3, 4]]},  # as old versions have it
        shape("oriented_rectangle", [5, 0], [10, 5], [5, 10], [0, 5]),
        shape("circle", [20, 10], [20, 18]),
        shape("mask", [38, 18], [39, 19], mask=bits),
        shape("point", [1, 2]),
        shape("points", [1, 2], [3, 4]),
        shape("line", [1, 2], [3, 4]),
        shape("linestrip", [1, 2], [3, 4], [5, 6]),
        shape("polygon", [1, 2], [3, 4]),
    ]
    found = parse(labelme(*shapes).encode())
    own = [each for _, each in found.items]
    assert [each.box for each in own] == [
        (10, 5, 30, 15),
        (1, 2, 3, 5.5),
        (1, 2, 3, 4),
        (0, 0, 10, 10),
        (12, 2, 28, 18),
        (38, 18, 40, 20),
    ]
    assert own[3].polygons == ((5, 0, 10, 5, 5, 10, 0, 5),)
    assert math.pi * 7.5**2 < area_of(own[4].polygons[0]) < math.pi * 8**2
    assert own[5].rle is not None
    pixels = mask_of(own[5].rle)
    inside = [at for at in range(SIZE[0] * SIZE[1]) if pixels.getpixel((at % 40, at // 40))]
    assert inside == [18 * 40 + 39, 19 * 40 + 38, 19 * 40 + 39]
    assert found.left_out == {
        "point": 1,
        "set of points": 1,
        "line": 2,
        "polygon of fewer than 3 corners": 1,
    }
    assert found.remarks == {"circle": 1}
    assert found.extent == SIZE


def test_notes_count_what_is_in_images_that_are_there(tmp_path: Path) -> None:
    shapes = shape("circle", [20, 10], [20, 17.5]), shape("point", [3, 4])
    names = ("a", "b", "lost")
    files: dict[str, Any] = {
        f"{name}.json": labelme(*shapes, imagePath=f"{name}.jpg") for name in names
    }
    _, findings = read(write(tmp_path, files | {"a.jpg": None, "b.jpg": None}))
    said = notes(findings)
    assert "2 circles kept as polygons" in said
    assert "2 points not kept" in said


def test_attributes() -> None:
    values = {"group_id": 3, "description": "half", "flags": {"wet": True, "dry": False}}
    values |= {"difficult": True, "line_color": None, "attributes": {"make": "x"}, "score": None}
    ((_, found),) = parse(labelme(BOX | values).encode()).items
    assert found.flags == {"difficult"}
    assert found.more == {
        "group_id": 3,
        "description": "half",
        "flags": ["wet"],
        "attributes": {"make": "x"},
    }


def test_the_image_is_the_one_that_a_file_names(tmp_path: Path) -> None:
    files: dict[str, Any] = {"images/a.jpg": None, "images/b.jpg": None, "images/c.jpg": None}
    files |= {"json/1.json": labelme(BOX, imagePath="../images/a.jpg")}
    files |= {"json/2.json": labelme(BOX, imagePath="..\\images\\b.jpg")}
    files |= {"json/c.json": labelme(imagePath="C:\\data\\c.jpg")}
    files |= {"json/d.json": labelme(BOX, imagePath="d.jpg", imageData="/9j/4AAQ")}
    files |= {"json/config.json": '{"labels": ["cat"]}'}
    catalog, findings = read(write(tmp_path, files))
    assert boxes(catalog) == {"images/a.jpg": [PLACE], "images/b.jpg": [PLACE], "images/c.jpg": []}
    assert kinds(findings) == {"json/d": "missing", "json/config.json": "left-over"}
    why = next(found.detail for found in findings if found.path == "json/d")
    assert "json/d.json, which holds the image itself" in why


def test_a_file_with_the_image_before_the_shapes_is_known(tmp_path: Path) -> None:
    data = base64.b64encode(image() * 300).decode()
    text = json.dumps({"fillColor": [1], "imageData": data, "imagePath": "a.jpg", "shapes": [BOX]})
    catalog, _ = read(write(tmp_path, {"a.jpg": None, "a.json": text}))
    assert boxes(catalog) == {"a.jpg": [PLACE]}


def test_flags_of_images(tmp_path: Path) -> None:
    flags = [{"cat": True, "dog": False}, {"cat": False, "dog": True}, {"cat": True, "dog": True}]
    files: dict[str, Any] = {f"{at}.jpg": None for at in range(3)}
    files |= {f"{at}.json": labelme(imagePath="", flags=own) for at, own in enumerate(flags)}
    catalog, _ = read(write(tmp_path, files))
    assert catalog.classes == ("cat", "dog")
    assert catalog.table["label"].to_list() == [[1, 0], [0, 1], [1, 1]]
    assert "objects" not in catalog.settled.schema.by_name
    write(tmp_path, {"2.json": labelme(imagePath="", flags=flags[0])})
    assert read(tmp_path)[0].table["cls"].to_list() == [0, 1, 0]
    nothing = labelme(BOX, imagePath="", flags={"dog": False})
    catalog, findings = read(write(tmp_path, {f"{at}.json": nothing for at in range(3)}))
    assert [*catalog.settled.schema.by_name] == ["image", "objects"]
    assert "no image has any of the flags dog, which are not kept" in notes(findings)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (labelme(BOX)[:-9], "is no JSON"),
        (labelme(BOX | {"label": None}), "shape 0: its label is None, not the name of a class"),
        (labelme(BOX | {"points": [[1, 2], [3]]}), "shape 0: its points are"),
        (labelme(BOX | {"points": [[1, 2], [3, math.inf]]}), "is beyond any image"),
        (labelme(BOX | {"points": [[1, 2], [3, "4"]]}), "is not a number"),
        (labelme(BOX | {"points": [[1, 2]]}), "a rectangle has 1 points, not 2"),
        (labelme(BOX | {"shape_type": "cube"}), "dsprep knows no shape of the type 'cube'"),
        (labelme(BOX | {"shape_type": ["x"]}), "dsprep knows no shape of the type"),
        (labelme(shape("mask", [1, 2], [3, 4], mask="AAAA")), "its mask is no PNG"),
        (labelme(shape("mask", [1, 2], [3, 4], mask=mask([1])), imageWidth=0), "the size of the"),
        (
            labelme(shape("mask", [1, 2], [3, 4], mask=huge_mask())),
            "its mask is no PNG that dsprep",
        ),
        (labelme(shape("circle", [1, 2])), "a circle has 1 points, not 2"),
        (labelme(BOX, imageWidth="x"), "is not a number"),
        (labelme(BOX | {"more": math.nan}), "is NaN or infinite"),
        ('{"imagePath": "0.jpg", "shapes": [' + "[" * 99_999, "has too many lists in one another"),
    ],
)
def test_refused(tmp_path: Path, text: str, why: str) -> None:
    files: dict[str, Any] = {f"{at}.jpg": None for at in range(2)}
    with pytest.raises(SourceError) as refused:
        read(write(tmp_path, files | {"0.json": text, "1.json": labelme(BOX)}))
    assert why in str(refused.value)
    assert "0.json" in str(refused.value)


def test_sets_of_points_and_of_images_inside_are_refused(tmp_path: Path) -> None:
    text = labelme(shape("point", [1, 2]), imagePath="a.jpg")
    with pytest.raises(SourceError, match=r"none of the objects of .* labelme: 1 point not kept"):
        read(write(tmp_path / "points", {"a.jpg": None, "a.json": text}))
    inside = labelme(BOX, imageData=base64.b64encode(image()).decode())
    with pytest.raises(SourceError, match=r"has an image: a.json holds its image itself: write"):
        read(write(tmp_path / "inside", {"a.json": inside}))


def test_shapes_move_with_the_image(tmp_path: Path) -> None:
    bits = mask([1, 1], [1, 1])
    shapes = (
        shape("mask", [20, 10], [21, 11], mask=bits),
        shape("polygon", [0, 0], [8, 0], [8, 8]),
    )
    root = write(tmp_path / "set", {"a.jpg": None, "a.json": labelme(*shapes)})
    transform = Transform(resize=(20, 10))
    dsprep.pack(str(root), str(tmp_path / "out"), to="webdataset", workers=1, transform=transform)
    found = objects(read(tmp_path / "out" / "train-000000.tar")[0])
    (moved,) = found.values()
    assert moved.items[0].box == (10, 5, 11, 6)
    assert moved.items[1].polygons == ((0, 0, 4, 0, 4, 4),)
