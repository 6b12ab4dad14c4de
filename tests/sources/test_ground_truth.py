"""Boxes and masks of Ground Truth's output manifests."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import dsprep
from dsprep.errors import SourceError
from tests.images import jpeg

SIZE = 200, 100
URL = "s3://bucket/data/"
IDS = {"3": "zebra", "7": "ant"}


@pytest.fixture
def images(tmp_path: Path) -> Path:
    root = tmp_path / "images"
    (root / "deep").mkdir(parents=True)
    for number, name in enumerate(["a.jpg", "b.jpg", "deep/c.jpg"]):
        (root / name).write_bytes(jpeg(number, SIZE))
    return root


def boxes(image: str, *rows: tuple[float, ...], **others: Any) -> dict[str, Any]:
    """A line as a job of Ground Truth writes it: rows of class, left, top, width and height."""
    names = ("class_id", "left", "top", "width", "height")
    return {
        "source-ref": URL + image,
        "job": {
            "image_size": [{"width": SIZE[0], "height": SIZE[1], "depth": 3}],
            "annotations": [dict(zip(names, row, strict=True)) for row in rows],
        },
        "job-metadata": {
            "objects": [{"confidence": 0.09} for _ in rows],
            "class-map": {id: IDS[id] for id in IDS if any(row[0] == int(id) for row in rows)},
            "type": "groundtruth/object-detection",
            "human-annotated": "yes",
            "creation-date": "2018-10-18T22:18:13.527256",
            "job-name": "my job",
        },
    } | others


def mask(image: str, name: str, colors: Any = None) -> dict[str, Any]:
    shown = {
        "0": {"class-name": "BACKGROUND", "confidence": 0.9, "hex-color": "#ffffff"},
        "1": {"class-name": "road", "confidence": 0.9, "hex-color": "#2acf59"},
        "2": {"class-name": "car", "confidence": 0.9, "hex-color": "#f28333"},
    }
    metadata = {"internal-color-map": shown if colors is None else colors,
                "type": "groundtruth/semantic-segmentation"}  # fmt: skip
    return {
        "source-ref": URL + image,
        "job-ref": f"s3://bucket/out/annotations/consolidated-annotation/output/{name}",
        "job-ref-metadata": metadata,
    }


def write(images: Path, *lines: Any) -> Path:
    path = images.parent / "output.manifest"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def pack(source: Path, out: Path, **options: Any) -> tuple[Any, dict[str, bytes]]:
    report = dsprep.pack(source, out, to="webdataset", shuffle=False, **options)
    with tarfile.open(out / "train-000000.tar") as tar:
        return report, {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore[union-attr]


def refusal(images: Path, *lines: Any, **options: Any) -> str:
    path = write(images, *lines)
    with pytest.raises(SourceError) as caught:
        pack(images, images.parent / "out", annotations=[path], **options)
    text = str(caught.value)
    assert text.count("\n") < 20
    return text.removeprefix(str(path))


def objects(members: dict[str, bytes]) -> dict[str, Any]:
    return {
        name.removesuffix(".json"): json.loads(data)["objects"]
        for name, data in members.items()
        if name.endswith(".json")
    }


@pytest.mark.parametrize("given_as", ["annotations", "list", "source"])
def test_boxes_keep_their_pixels_and_ids(images: Path, tmp_path: Path, given_as: str) -> None:
    path = write(
        images, boxes("a.jpg", (7, 104, 13, 33, 41), (3, 0, 0, 200, 100)), boxes("deep/c.jpg")
    )
    options: dict[str, Any] = {"annotations": [path]} if given_as == "annotations" else {}
    options |= {"list_file": path} if given_as == "list" else {}
    source = path.rename(tmp_path / "images.manifest") if given_as == "source" else images
    report, members = pack(source, tmp_path / "out", **options)
    assert any("that is not kept: confidence, creation-date" in each for each in report.notes)
    assert objects(members) == {
        "a": [{"box": [104, 13, 137, 54], "class": 1}, {"box": [0, 0, 200, 100], "class": 0}],
        "deep/c": [],
    }
    (field,) = (
        each
        for each in json.loads((tmp_path / "out/manifest.json").read_text())["schema"]["fields"]
        if each["type"] == "objects"
    )
    assert (field["names"], field["ids"]) == (["zebra", "ant"], [3, 7])


def test_classes_are_given(images: Path, tmp_path: Path) -> None:
    path = write(images, boxes("a.jpg", (7, 1, 2, 3, 4)))
    (tmp_path / "classes.txt").write_text("owl\nant\n")
    classes = {"classes": tmp_path / "classes.txt"}
    _, members = pack(images, tmp_path / "out", annotations=[path], **classes)
    assert objects(members)["a"][0]["class"] == 1
    told = refusal(images, boxes("a.jpg", (3, 1, 2, 3, 4)), **classes)
    assert told == ": no class of --classes: 'zebra'"


def test_masks_get_the_class_numbers_of_their_colors(images: Path, tmp_path: Path) -> None:
    picture = Image.new("RGB", SIZE, "#ffffff")
    picture.paste("#2acf59", (0, 0, 10, 10))
    picture.paste("#f28333", (10, 0, 20, 10))
    for below in ("images/0_x.png", "masks/output/1_x.png"):
        (tmp_path / below).parent.mkdir(parents=True, exist_ok=True)
        picture.save(tmp_path / below)
    for name, options in (("0_x.png", {}), ("1_x.png", {"masks": tmp_path / "masks"})):
        path = write(images, mask("a.jpg", name))
        out = tmp_path / name
        _, members = pack(images, out, annotations=[path], **options)
        assert members.keys() == {"a.jpg", "a.mask.png"}
        with Image.open(io.BytesIO(members["a.mask.png"])) as found:
            assert found.mode == "L"
            assert [found.getpixel(at) for at in ((5, 5), (15, 5), (25, 5))] == [1, 2, 0]
        assert (out / "mask.classes.txt").read_text() == "BACKGROUND\nroad\ncar\n"


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], ": is empty"),
        ([[]], ":1: is no JSON object"),
        ([{"source-ref": "a.jpg"}], ": has neither boxes nor masks: for labels of images, give"),
        ([boxes("a.jpg", (3, 1, 2, float("nan"), 4))], ":1: nan is no number"),
        ([boxes("a.jpg", (3, 1, 2, -3, 4))], ":1: an annotation is no box of a class"),
        ([boxes("a.jpg", (3, 1, 2, 3, "x"))], ":1: 'x' is no number"),
        ([boxes("a.jpg", (5, 1, 2, 3, 4)), boxes("b.jpg", (3, 1, 2, 3, 4))],
         ": 1 class without a name in any class-map: 5"),
        ([boxes("a.jpg"), {"source-ref": "b.jpg"}], ":2: has no label 'job'"),
        ([boxes("a.jpg", job={"annotations": []})], ":1: the label is an object without"),
        ([boxes("a.jpg"), boxes("a.jpg")], "a.jpg"),
        ([boxes("../../x.jpg")], ": not one of the 1 image"),
        (
            [boxes("a.jpg", **{"job-metadata": {"class-map": {"1": "x"}}}),
             boxes("b.jpg", **{"job-metadata": {"class-map": {"1": "y"}}})],
            ":2: the class 1 is called 'y', and 'x' elsewhere",
        ),
        (
            [boxes("a.jpg", **{"job-metadata": {"class-map": {"1": "x", "2": "x"}}})],
            ": several classes have one name: 'x', 'x'",
        ),
        ([mask("a.jpg", "gone.png"), mask("b.jpg", "gone.png")],
         ": 2 masks that it names not below"),
        ([mask("a.jpg", "../../../etc/passwd")], ": 1 mask that it names not below"),
        ([mask("a.jpg", "x", {"0": {"class-name": "x"}})], ":1: internal-color-map has {"),
        ([mask("a.jpg", "x", {"0": {"class-name": "x", "hex-color": "red"}})],
         ":1: internal-color-map has {"),
        ([mask("a.jpg", "x", {str(at): {"class-name": str(at), "hex-color": "#000000"}
                              for at in range(2)})], ": several classes have the color of '1'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(images: Path, lines: list[Any], why: str) -> None:
    assert why in refusal(images, *lines)
