"""Label Studio's exports."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.errors import OptionError, SourceError
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from tests.images import jpeg

SIZE = 200, 100


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("images")
    for number, name in enumerate(["a.jpg", "b.jpg", "deep/ü c.jpg"]):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(jpeg(number, SIZE))
    return root


def region(kind: str, value: dict[str, Any], **others: Any) -> dict[str, Any]:
    """One result, as an export of Label Studio 1.x has it."""
    return {
        "original_width": SIZE[0],
        "original_height": SIZE[1],
        "image_rotation": 0,
        "value": value,
        "id": "x7y",
        "from_name": "label",
        "to_name": "image",
        "type": kind,
        "origin": "manual",
    } | others


def box(name: str, *sides: float, **others: Any) -> dict[str, Any]:
    x, y, width, height = sides or (10, 20, 30, 40)
    value = {"x": x, "y": y, "width": width, "height": height, "rotation": 0}
    return region("rectanglelabels", value | {"rectanglelabels": [name]} | others)


def task(image: str, *results: Any, id: int = 1, **others: Any) -> dict[str, Any]:
    annotation = {"id": 5, "completed_by": 1, "was_cancelled": False, "ground_truth": False}
    return {
        "id": id,
        "annotations": [annotation | {"result": list(results)}],
        "file_upload": image.rpartition("/")[2],
        "drafts": [],
        "predictions": [],
        "data": {"image": image},
        "meta": {},
    } | others


def pack(images: Path, out: Path, tasks: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Pack, and return the report and the objects of each sample."""
    path = out.with_suffix(".json")
    path.write_text(tasks if isinstance(tasks, str) else json.dumps(tasks, ensure_ascii=False))
    options = {"to": "webdataset", "annotations": [path], "shuffle": False} | options
    report = dsprep.pack(images, out, **options)
    with tarfile.open(out / "train-000000.tar") as tar:
        members = {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore[union-attr]
    return report, {
        name.removesuffix(".json"): json.loads(data)["objects"]
        for name, data in members.items()
        if name.endswith(".json")
    }


def refusal(images: Path, out: Path, tasks: Any, **options: Any) -> str:
    with pytest.raises(SourceError) as caught:
        pack(images, out, tasks, **options)
    text = str(caught.value)
    assert text.count("\n") < 20
    return text.removeprefix(f"{out.with_suffix('.json')}: ")


def test_boxes_and_polygons_become_pixels(images: Path, tmp_path: Path) -> None:
    points = {"points": [[0, 0], [50, 0], [50, 50.5]], "closed": True, "polygonlabels": ["ant"]}
    tasks = [
        task("/data/upload/1/5d1f8b0c-a.jpg", box("Zebra"), region("polygonlabels", points)),
        task("/data/local-files/?d=x/deep/%C3%BC%20c.jpg", id=2),
        task("s3://bucket/x/b.jpg", box("ant", 0, 0, 100, 100), id=3),
    ]
    report, found = pack(images, tmp_path / "out", tasks)
    assert found == {
        "a": [
            {"box": [20, 20, 80, 60], "class": 0},
            {"box": [0, 0, 100, 50.5], "class": 1, "polygons": [[0, 0, 100, 0, 100, 50.5]]},
        ],
        "b": [{"box": [0, 0, 200, 100], "class": 1}],
        "deep/ü c": [],
    }
    assert (tmp_path / "out" / "objects.classes.txt").read_text() == "Zebra\nant\n"
    assert not report.rejects


def test_what_is_not_annotated_is_left_out_and_counted(images: Path, tmp_path: Path) -> None:
    skipped = task("b.jpg", box("a"), id=2)
    skipped["annotations"][0]["was_cancelled"] = True
    none = task("c.jpg", id=3, annotations=[])
    report, found = pack(images, tmp_path / "out", [task("a.jpg", box("a")), skipped, none])
    assert found.keys() == {"a"}
    assert any("2 tasks skipped or not annotated" in note for note in report.notes)


def test_several_annotators(images: Path, tmp_path: Path) -> None:
    def two(*truth: bool) -> Any:
        given = [{"result": [box(name)], "ground_truth": is_true}
                 for name, is_true in zip(("first", "second"), truth, strict=True)]  # fmt: skip
        return task("a.jpg", annotations=given)

    for number, (truth, name) in enumerate([((False, False), "first"), ((False, True), "second")]):
        out = tmp_path / str(number)
        report, found = pack(images, out, [two(*truth)])
        assert len(found["a"]) == 1
        assert (out / "objects.classes.txt").read_text() == f"{name}\n"
        assert any("1 task with several annotations" in note for note in report.notes)


def test_labels_and_rectangles_apart_are_one_region(images: Path, tmp_path: Path) -> None:
    sides = {"x": 0, "y": 0, "width": 50, "height": 50, "rotation": 0}
    results = [
        region("rectangle", sides, id="1"),
        region("labels", sides | {"labels": ["cat"]}, id="1"),
        region("rectangle", sides, id="2"),
        region("choices", sides | {"choices": ["old"]}, id="1"),
        *(region("rating", {"rating": 3}, id=id) for id in "45"),
    ]
    report, found = pack(images, tmp_path / "out", [task("a.jpg", *results)])
    assert found["a"] == [{"box": [0, 0, 100, 50], "class": 0}]
    notes = "\n".join(report.notes)
    assert "1 unlabeled region, not read" in notes
    assert "1 choice for a single region, not read" in notes
    assert "2 'rating' results, not read" in notes


def choice(*names: str, of: str = "choice") -> dict[str, Any]:
    """What an annotator chose for a whole image."""
    return {"value": {"choices": names}, "id": of, "from_name": of, "type": "choices"}


def read(images: Path, tasks: Any, **options: Any) -> tuple[Any, list[str]]:
    path = images.parent / f"{images.name}.json"
    path.write_text(json.dumps(tasks))
    source = make_source(str(images), annotations=[str(path)], **options)
    catalog, findings = read_source(source)
    return catalog, [each.detail for each in findings if each.kind == "note"]


def test_choices_are_labels_of_images(images: Path) -> None:
    one = [task("a.jpg", choice("old")), task("b.jpg", choice("new"))]
    catalog, _ = read(images, one)
    assert (catalog.classes, catalog.table["cls"].to_list()) == (("new", "old"), [1, 0])
    assert "objects" not in catalog.settled.schema.by_name
    several = [task("a.jpg", choice("old", "red")), task("b.jpg", choice("old"))]
    catalog, _ = read(images, several)
    assert catalog.table["label"].to_list() == [[1, 1], [1, 0]]
    with_boxes = [task("a.jpg", choice("old"), box("cat")), task("b.jpg", choice("new"))]
    catalog, _ = read(images, with_boxes, classes=["dog", "cat"])
    assert (catalog.classes, catalog.table["cls"].to_list()) == (("new", "old"), [1, 0])
    assert catalog.settled.schema.by_name["objects"].names == ("dog", "cat")


def test_choices_of_several_questions_are_asked_for(images: Path) -> None:
    tasks = [task("a.jpg", choice("old"), choice("bad", of="quality")), task("b.jpg", choice("x"))]
    with pytest.raises(SourceError, match="give --label-column with one of 'choice', 'quality'"):
        read(images, tasks)
    catalog, notes = read(images, tasks, label_columns=["choice"])
    assert catalog.classes == ("old", "x")
    assert "labels of images not read: 'quality'" in notes
    with pytest.raises(OptionError, match="--label-column age: .* no such labels .*'quality'"):
        read(images, tasks, label_columns=["age"])
    catalog, notes = read(images, [*tasks, task("deep/ü c.jpg", box("cat"))])
    assert catalog.classes is None
    assert any("NAME takes one of these" in note for note in notes)


def test_what_is_not_read_is_named_with_its_tasks(images: Path, tmp_path: Path) -> None:
    ellipse = {"x": 1, "y": 2, "radiusX": 3, "radiusY": 4, "ellipselabels": ["a"]}
    brush = {"format": "rle", "rle": [0, 1, 2], "brushlabels": ["a"]}
    tasks = [task("a.jpg", box("a", 1, 2, 3, 4, rotation=7.5), id=id) for id in range(4)]
    tasks += [
        task("b.jpg", region("ellipselabels", ellipse), region("brushlabels", brush), id=9),
        task("b.jpg", region("keypointlabels", {"x": 1, "y": 2, "width": 1}), id=10),
        task("b.jpg", region("rectanglelabels", {"x": 1}, image_rotation=90), id=11),
        task("b.jpg", box("a", rectanglelabels=["a", "b"]), id=12),
        task("b.jpg", box("a") | {"item_index": 1}, id=13),
    ]
    told = refusal(images, tmp_path / "out", tasks)
    assert told.startswith("dsprep does not read brush strokes or bitmasks and ellipses and ")
    assert (
        "\n  rotated boxes in 4 tasks (task 0, task 1, task 2, …): draw a polygon instead" in told
    )
    assert '\n  brush strokes or bitmasks in 1 task (task 9): export as "Brush labels' in told


@pytest.mark.parametrize(
    ("tasks", "why"),
    [
        ("[", "is no list of tasks, or ends early: byte 1"),
        ("[]", "names no images"),
        ("[" + json.dumps(task("a.jpg")), "is no list of tasks, or ends early"),
        ("[" + json.dumps(task("a.jpg")) + "]x", "is no list of tasks, or ends early"),
        ('[{"a": ' + "[" * 200_000, "is no list of tasks, or ends early"),
        ([{"image_id": 1, "category_id": 1}], "task 1: is an annotation or a result of COCO"),
        ([{}], "1 task cannot be read:\n  task 1: has no data, as tasks of Label Studio"),
        ([{"data": {"image": "a.jpg"}}], "task 1: has no list of annotations"),
        ([{"data": {"x": "a.jpg", "y": "b.jpg"}}], "give --path-column with one of 'x', 'y'"),
        ([task("a.jpg", annotations=[{}])], "has no list of results"),
        ([task("a.jpg", annotations=3)], "has no list of annotations"),
        ([task("a.jpg", None)], "has no list of results"),
        ([task("a.jpg", box("a", float("nan"), 1, 2, 3))], "is not a number"),
        ([task("a.jpg", box("a", 1, 1, -2, 3))], "a box is -2 wide and 3 high"),
        ([task("a.jpg", box("a", rectanglelabels=[3]))], "the labels of a region are [3]"),
        ([task("a.jpg", box("a", rectanglelabels=[[]]))], "the labels of a region are [[]]"),
        ([task("a.jpg", box("a") | {"original_width": "x"})], "is not a number"),
        ([task("a.jpg", box("a") | {"original_width": 7}, box("a"))], "images of 2 sizes"),
        (
            [task("a.jpg", region("polygonlabels", {"points": [[1, 2], [3, 4]],
                                                    "polygonlabels": ["a"]}))],
            "is no polygon",
        ),
        (
            [task("a.jpg", region("polygonlabels", {"points": [1], "polygonlabels": ["a"]}))],
            "the points of a polygon are [1]",
        ),
        ([task("a.jpg", None, id=id) for id in range(9)], "and 6 more"),
        (json.dumps([task("a.jpg", choice("\ud800"))]), "choices of 'choice' are ['\\ud800']"),
        ([task("a.jpg"), task("a.jpg")], "1 image named by several entries"),
        ([task("../../x.jpg")], "not one of the 1 image"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(images: Path, tmp_path: Path, tasks: Any, why: str) -> None:
    assert why in refusal(images, tmp_path / "out", tasks)


def test_the_size_of_the_image_is_checked(images: Path, tmp_path: Path) -> None:
    small = box("a") | {"original_width": 400, "original_height": 200}
    report = pack(images, tmp_path / "out", [task("a.jpg", small), task("b.jpg", box("a"))])[0]
    (reject,) = report.rejects
    assert "400x200 pixels" in reject.reason


def test_classes_are_given(images: Path, tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("b\na\n")
    classes = {"classes": tmp_path / "classes.txt"}
    _, found = pack(images, tmp_path / "out", [task("a.jpg", box("a"))], **classes)
    assert found["a"][0]["class"] == 1
    told = refusal(images, tmp_path / "no", [task("a.jpg", box("c"))], **classes)
    assert told == "no class of --classes: 'c'"
