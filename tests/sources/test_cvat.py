"""CVAT's XML for images; what Datumaro's exporter writes is read as its importer does."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

import dsprep
from dsprep.annotations.cvat import parse_image
from dsprep.errors import SourceError
from dsprep.images.transform import Transform
from tests.sources.boxes import boxes, notes, objects, read, sides, write

BOX = '<box label="cat" source="manual" occluded="0" xtl="1.50" ytl="2" xbr="3" ybr="4" z_order="0"'
LABEL = "<label><name>{}</name><type>{}</type></label>"
LABELS = "".join(map(LABEL.format, ("cat", "unused", "indoors"), ("any", "rectangle", "tag")))
PART = "<label><name>nose</name><type>points</type><parent>cat</parent></label>"
META = f"<meta><task><id>1</id><labels>{LABELS}{PART}</labels></task></meta>"


def cvat(*images: str, meta: str = META) -> str:
    head = '<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n  <version>1.1</version>\n'
    return f"{head}{meta}\n{''.join(images)}</annotations>\n"


def image(name: str, inside: str = "", more: str = "") -> str:
    return f'<image id="0" name="{name}" width="40" height="20" {more}>{inside}</image>\n'


def parsed(inside: str) -> list[tuple[str, object]]:
    return [*parse_image(fromstring(image("a.jpg", inside)), {}).shapes]


def test_a_task(tmp_path: Path) -> None:
    attributes = '<attribute name="sex">male</attribute><attribute name="n"></attribute>'
    shapes = (
        f'{BOX}/>{BOX.replace(chr(34) + "0", chr(34) + "1", 1)} group_id="3">{attributes}</box>'
        '<polygon label="dog" points="1,2;3,4;5.5,0" source="auto"/>'
        '<points label="nose" occluded="1" points="7,8;9,10"/>'
    )
    files = {
        "annotations.xml": cvat(image("d/ü.jpg", shapes), image("b.jpg")),
        "images/b.jpg": None,
    }
    catalog, _ = read(write(tmp_path, files | {"images/d/ü.jpg": None}))
    cat = ("cat", 1.5, 2, 3, 4)
    assert boxes(catalog) == {
        "images/b.jpg": [],
        "images/d/ü.jpg": [cat, cat, ("dog", 1, 0, 5.5, 4), ("nose", 7, 8, 9, 10)],
    }
    # The label of a tag is no class of objects, and neither is a part of a skeleton.
    assert catalog.settled.schema.by_name["objects"].names == ("cat", "dog", "nose", "unused")
    plain, told, polygon, points = objects(catalog)["images/d/ü.jpg"].items
    assert plain.more == {}
    assert told.more == {"occluded": "1", "group_id": "3", "sex": "male", "n": ""}
    assert (polygon.polygons, polygon.more) == (((1, 2, 3, 4, 5.5, 0),), {"source": "auto"})
    assert points.keypoints == (7, 8, 1, 9, 10, 1)


def test_subsets_of_a_project_are_sides(tmp_path: Path) -> None:
    subsets = ("Train", "Validation", "", "Odd")
    images = [image("1.jpg", f"{BOX}/>", f'subset="{subset}"') for subset in subsets]
    root = write(tmp_path, {"annotations.xml": cvat(*images)})
    found = dict(zip(("Train", "val", "", "Odd"), ("train", "val", "default", "Odd"), strict=True))
    paths = {
        f"images/{directory}/1.jpg".replace("//", "/"): side for directory, side in found.items()
    }
    catalog, _ = read(write(root, dict.fromkeys(paths)))
    assert sides(catalog) == paths


def test_a_file_for_each_side(tmp_path: Path) -> None:
    files = {f"{side}.xml": cvat(image(f"{side}.jpg", f"{BOX}/>")) for side in ("train", "val")}
    root = write(tmp_path, files | {"images/train.jpg": None, "images/val.jpg": None})
    expected = {f"images/{side}.jpg": side for side in ("train", "val")}
    assert sides(read(root)[0]) == expected
    named = [str(root / name) for name in files]
    assert sides(read(root, annotations=named)[0]) == expected
    assert sides(read(root / "images", annotations=[str(root)])[0]) == {
        "train.jpg": "train",
        "val.jpg": "val",
    }


def test_a_file_above_the_images_is_not_passed_over(tmp_path: Path) -> None:
    root = write(tmp_path, {"annotations.xml": cvat(image("a.jpg")), "images/d/a.jpg": None})
    with pytest.raises(SourceError, match="annotations.xml may be its annotations: give --annot"):
        read(root / "images")


def test_tags_are_labels_of_images(tmp_path: Path) -> None:
    tags = [f'<tag label="{name}" source="manual"></tag>' for name in ("day", "night")]
    one = cvat(image("a.jpg", tags[0] + f"{BOX}/>"), image("b.jpg", tags[1]))
    catalog, _ = read(write(tmp_path / "1", {"x.xml": one, "a.jpg": None, "b.jpg": None}))
    assert catalog.classes == ("day", "night")
    assert catalog.table["cls"].to_list() == [0, 1]
    assert boxes(catalog) == {"a.jpg": [("cat", 1.5, 2, 3, 4)], "b.jpg": []}
    several = cvat(
        image("a.jpg", "".join(tags)),
        image("b.jpg", '<tag label="day"><attribute name="x">1</attribute></tag>'),
    )
    catalog, findings = read(
        write(tmp_path / "2", {"x.xml": several, "a.jpg": None, "b.jpg": None})
    )
    assert catalog.table["label"].to_list() == [[1, 1], [1, 0]]
    assert "objects" not in catalog.settled.schema.by_name
    assert "1 attribute of tags, not read" in notes(findings)


@pytest.mark.parametrize("to", ["coco", "voc", "yolo"])
def test_labels_of_images_that_have_no_place_are_named(tmp_path: Path, to: str) -> None:
    inside = f'<tag label="day"/>{BOX}/>'
    root = write(tmp_path / "in", {"x.xml": cvat(image("a.jpg", inside)), "a.jpg": None})
    report = dsprep.convert(root, tmp_path / "out", to=to, workers=1)
    assert report.samples == 1
    assert f"left out, because {to} has no place for it: label" in report.notes


def test_parts_write_what_one_run_writes(tmp_path: Path) -> None:
    images = [image(f"{n}.jpg", f'<tag label="{"ab"[n % 2]}"/>{BOX}/>') for n in range(4)]
    files: dict[str, str | bytes | None] = {f"{n}.jpg": None for n in range(4)}
    root = write(tmp_path / "in", files | {"x.xml": cvat(*images)})
    options: Any = {"to": "webdataset", "shards": 2, "workers": 1}
    dsprep.pack(root, tmp_path / "whole", **options)
    for part in ("0/2", "1/2"):
        dsprep.pack(root, tmp_path / "parts", part=part, **options)
    for path in (tmp_path / "whole").glob("*.tar"):
        assert path.read_bytes() == (tmp_path / "parts" / path.name).read_bytes()


def test_a_turned_box_is_a_polygon() -> None:
    told = '<box label="cat" xtl="10" ytl="5" xbr="30" ybr="15" rotation="{}"/>'
    ((_, right),) = parsed(told.format("90.00"))
    assert right.box == (15, 0, 25, 20)  # type: ignore[attr-defined]
    assert right.polygons == ((25, 0, 25, 20, 15, 20, 15, 0),)  # type: ignore[attr-defined]
    ((_, some),) = parsed(told.format("30"))
    assert [round(each, 3) for each in some.polygons[0][:2]] == [13.84, 0.67]  # type: ignore[attr-defined]
    ((_, none),) = parsed(told.format("360"))
    assert (none.box, none.polygons) == ((10, 5, 30, 15), ())  # type: ignore[attr-defined]


def test_an_ellipse_is_a_polygon() -> None:
    ((_, found),) = parsed('<ellipse label="cat" cx="20" cy="10" rx="8" ry="4" rotation="90"/>')
    assert found.box == (16, 2, 24, 18)  # type: ignore[attr-defined]
    corners = found.polygons[0]  # type: ignore[attr-defined]
    assert len(corners) == 72
    assert corners[:2] == (20, 18)


def test_a_mask_is_runs_along_the_rows_of_its_box() -> None:
    ((_, found),) = parsed(
        '<mask label="cat" rle="1, 3, 2" left="4" top="1" width="3" height="2"/>'
    )
    # inside are the pixels 5,1 6,1 and 4,2
    assert found.box == (4, 1, 7, 3)  # type: ignore[attr-defined]
    assert found.rle.counts == (82, 1, 18, 1, 19, 1, 678)  # type: ignore[attr-defined]
    ((_, whole),) = parsed(
        '<mask label="a" rle="41, 1, 758" left="0" top="0" width="40" height="20"/>'
    )
    assert whole.box == (1, 1, 2, 2)  # type: ignore[attr-defined]


def test_skeletons_are_keypoints_in_the_order_of_their_labels(tmp_path: Path) -> None:
    names = ("nose", "left eye", "tail")
    labels = "".join(PART.replace("nose", name).replace(">cat<", ">dog<") for name in names)
    meta = META.replace("</labels>", f"{LABEL.format('dog', 'skeleton')}{labels}</labels>")
    point = '<points label="{}" source="manual" outside="{}" occluded="{}" points="{}"></points>'
    inside = (
        '<skeleton label="dog" source="manual" z_order="0">'
        + point.format("left eye", 0, 1, "3.50,4.00")
        + point.format("tail", 1, 0, "9.00,9.00")
        + point.format("nose", 0, 0, "1.00,6.00")
        + "</skeleton>"
    )
    files = {
        f"{side}.xml": cvat(image(f"{side}.jpg", inside), meta=meta) for side in ("train", "val")
    }
    root = write(tmp_path, files | {"train.jpg": None, "val.jpg": None})
    catalog, _ = read(root)
    (found,) = objects(catalog)["val.jpg"].items
    assert found.keypoints == (1, 6, 2, 3.5, 4, 1, 0, 0, 0)
    assert found.box == (1, 4, 3.5, 6)
    assert boxes(catalog)["train.jpg"] == [("dog", 1, 4, 3.5, 6)]
    other = files["val.xml"].replace("<name>tail</name>", "<name>ear</name>")
    for text, why in (
        (other, "val.xml: the skeleton 'dog' has other points than in "),
        (files["val.xml"].replace('"tail"', '"ear"'), "a skeleton has a point 'ear', which is not"),
        (files["val.xml"].replace("6.00", "6.00;1,2"), "the point 'nose' of a skeleton is '1.00,6"),
    ):
        with pytest.raises(SourceError, match=why):
            read(write(root, {"val.xml": text}))


def test_what_is_not_read_is_named(tmp_path: Path) -> None:
    inside = (
        f'{BOX}/><polyline label="a" points="1,2;3,4;5,0;1,2"/><cuboid label="a"/>'
        '<polyline label="a" points="1,2;3,4"/><cuboid label="a"/>'
        '<skeleton label="a"><points label="1" points="1,2"/></skeleton><polygon label=""/><new/>'
        '<ellipse label="a" cx="1" cy="1" rx="1" ry="1"/>'
    )
    catalog, findings = read(
        write(tmp_path, {"a.xml": cvat(image("a.jpg", inside)), "a.jpg": None})
    )
    assert notes(findings).split("\n")[:7] == [
        "1 <new>, not read",
        "2 cuboids, not read",
        "1 polygon without a label, not read",
        "1 polyline, not read",
        "1 skeleton, not read: no label of the file declares their points",
        "1 image with ellipses, which are kept as polygons of 36 corners: a.jpg",
        "1 image with polylines that end where they begin, which are kept as polygons: a.jpg",
    ]


def test_all_shapes_move_with_the_image(tmp_path: Path) -> None:
    inside = (
        f'{BOX}/><polygon label="cat" points="0,0;20,0;0,10"/><points label="cat" points="10,6"/>'
        '<mask label="cat" rle="0, 4" left="10" top="4" width="2" height="2"/>'
    )
    root = write(tmp_path / "in", {"a.xml": cvat(image("a.jpg", inside)), "a.jpg": None})
    dsprep.pack(root, tmp_path / "out", to="webdataset", transform=Transform(resize=10), workers=1)
    with tarfile.open(tmp_path / "out" / "train-000000.tar") as tar:
        member = tar.extractfile("a.json")
        assert member is not None
        box, polygon, points, mask = json.load(member)["objects"]
    assert box["box"] == [0.75, 1, 1.5, 2]
    assert polygon["polygons"] == [[0, 0, 10, 0, 0, 5]]
    assert points["keypoints"] == [5, 3, 2]
    assert mask["rle"] == {"size": [10, 20], "counts": [52, 1, 147]}


TRACK = '<track id="0" label="cat"><box frame="0" xtl="1" ytl="2" xbr="3" ybr="4"/></track>'


@pytest.mark.parametrize(
    ("inside", "why"),
    [
        (TRACK, "has tracks of a video, which dsprep does not read: export the task from CVAT as"),
        (image(""), "has no name"),
        (image("c.jpg", f"{BOX.replace('xbr', 'x')}/>"), "c.jpg: a <box> has no xbr"),
        (
            image("c.jpg", '<box label="a" xtl="9" ytl="1" xbr="1" ybr="2"/>'),
            "ends before it begins",
        ),
        (image("c.jpg", '<box label="a" xtl="?" ytl="1" xbr="1" ybr="2"/>'), "has '?' where a"),
        (
            image("c.jpg", '<box label="a" xtl="nan" ytl="1" xbr="1" ybr="2"/>'),
            "nan is not a number",
        ),
        (image("c.jpg", '<polygon label="a" points="1,2;3,4"/>'), "is no polygon"),
        (image("c.jpg", '<polygon label="a" points="1,2;3"/>'), "the points of a <polygon> are"),
        (image("c.jpg", '<points label="a"/>'), "the points of a <points> are None"),
        (
            image("c.jpg", '<ellipse label="a" cx="1" cy="1" rx="-1" ry="1"/>'),
            "has the radii -1 and 1",
        ),
        (
            image("c.jpg", '<mask label="a" rle="4" left="39" top="0" width="2" height="2"/>'),
            "beyond",
        ),
        (
            image("c.jpg", '<mask label="a" rle="5" left="0" top="0" width="2" height="2"/>'),
            "no 2 x 2",
        ),
        (
            image("c.jpg", '<mask label="a" rle="1,x" left="0" top="0" width="2" height="2"/>'),
            "no 2 x",
        ),
        (image("c.jpg").replace("40", "999999999"), "its size is 1e+09 x 20 pixels"),
        (image("../a.jpg").replace("../", "") * 2, "2 images named by several entries"),
        ("<image", "is no XML, or ends early"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, inside: str, why: str) -> None:
    text = cvat(image("b.jpg", f"{BOX}/>"), inside, meta=META)
    root = write(tmp_path, {"x.xml": text, "a.jpg": None, "b.jpg": None})
    with pytest.raises(SourceError) as caught:
        read(root)
    assert why in str(caught.value).replace("1 image named", "2 images named")
