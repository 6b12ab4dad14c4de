"""`verify` of objects and masks: what it counts, and that it finds what was changed."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image

import dsprep
from dsprep.images.transform import Transform
from dsprep.storage.stored import crc32c
from dsprep.verifying.report import VerifyReport
from tests.images import jpeg

SIZE = (40, 30)
CLASSES = [{"id": 3, "name": "cat"}, {"id": 7, "name": "dog"}]
Change = Callable[[str, bytes], bytes]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Four images: of two, one and no objects, and one with a box that reaches outside."""
    boxes = [[(1.25, 2, 10, 12.5), (3, 4, 5, 6)], [(7, 8, 9, 10)], [], [(30, 20, 15, 5)]]
    root = tmp_path / "images"
    root.mkdir()
    listed, annotations = list[Any](), list[Any]()
    for number, own in enumerate(boxes):
        Image.new("RGB", SIZE, (number * 50, 9, 90)).save(root / f"{number}.png")
        listed.append({"id": number, "file_name": f"{number}.png", "width": 40, "height": 30})
        for box in own:
            at = len(annotations)
            values = {"id": at + 1, "image_id": number, "category_id": 7 if at == 1 else 3}
            annotations.append(values | {"bbox": box, "area": 9.5, "iscrowd": 0})
    parts = {"images": listed, "annotations": annotations, "categories": CLASSES}
    (tmp_path / "a.json").write_text(json.dumps(parts))
    return root


def against(images: Path) -> Any:
    return dsprep.make_source(str(images), annotations=[str(images.parent / "a.json")])


def packed(images: Path, name: str = "out") -> Path:
    out = images.parent / name
    options = {"annotations": [str(images.parent / "a.json")], "format": "webdataset"}
    dsprep.pack(str(images), str(out), workers=1, **options)
    return out


def checked(where: Path, **options: Any) -> VerifyReport:
    return dsprep.verify(str(where), workers=1, **options)


def messages(report: VerifyReport) -> list[str]:
    return [f"{each.sample}: {each.message}" for each in report.problems]


def changed(shards: Path, change: Change) -> Path:
    """Change members of a shard, and its manifest as if the shard had been written so."""
    shard, data = shards / "train-000000.tar", io.BytesIO()
    with tarfile.open(shard) as old, tarfile.open(fileobj=data, mode="w") as new:
        for member in old:
            file = old.extractfile(member)
            assert file is not None
            content = change(member.name, file.read())
            member.size = len(content)
            new.addfile(member, io.BytesIO(content))
    shard.write_bytes(data.getvalue())
    manifest = shards / "manifest.json"
    values = json.loads(manifest.read_text())
    facts = {"bytes": len(data.getvalue()), "crc32c": f"{crc32c(data.getvalue()):08x}"}
    values["bytes"] = facts["bytes"]
    values["shards"][0] |= facts
    manifest.write_text(json.dumps(values))
    return shards


def with_objects(sample: str, change: Callable[[list[Any]], object]) -> Change:
    def change_json(name: str, data: bytes) -> bytes:
        if name != f"{sample}.json":
            return data
        values = json.loads(data)
        change(values["objects"])
        return json.dumps(values).encode()

    return change_json


def test_objects_are_counted_and_boxes_outside_are_noted(images: Path) -> None:
    report = checked(changed(packed(images), lambda _, data: data))
    assert report.problems == []
    assert report.objects is not None
    assert report.objects.objects == 4
    assert (report.objects.samples, report.objects.without) == (3, 1)
    assert report.objects.per_class == {"cat": 3, "dog": 1}
    assert "1 object reaches outside of the image: 30 20 45 25 in 3, 40x30" in report.notes


@pytest.mark.parametrize("kind", ["coco", "voc", "yolo"])
def test_objects_of_folders_are_counted(images: Path, kind: str) -> None:
    out = images.parent / kind
    dsprep.convert(str(packed(images)), str(out), to=kind, workers=1)
    report = checked(out, decode=True)
    assert report.problems == []
    assert report.objects is not None
    assert report.objects.per_class == {"cat": 3, "dog": 1}
    assert checked(out, against=against(images)).problems == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda own: own[1].update(box=[5, 5, 5, 9]), "the box of object 2 is empty: 5 5 5 9"),
        (lambda own: own[0].update(box=[5, 5, 1, 9]), "the box of object 1 is inverted: 5 5 1 9"),
        (
            lambda own: own[0].update({"class": 2}),
            "its objects: the class 2 is none of the classes",
        ),
        (
            lambda own: own[0].update({"class": -1}),
            "its objects: the class -1 is none of the classes",
        ),
    ],
    ids=["empty", "inverted", "class", "negative"],
)
def test_objects_that_are_none_are_problems(
    images: Path, change: Callable[[list[Any]], object], message: str
) -> None:
    (found,) = messages(checked(changed(packed(images), with_objects("0", change))))
    assert found.startswith(f"0: {message}")


@pytest.mark.parametrize(
    "change",
    [
        lambda own: own.reverse(),
        lambda own: own[0].update(box=own[1]["box"]),
        lambda own: own[0]["box"].__setitem__(2, own[0]["box"][2] + 0.001),
        lambda own: own[0].update({"class": 1}),
        lambda own: own[0].update(crowd=True),
        lambda own: own[0].update(area=9),
        lambda own: own.pop(),
    ],
    ids=["swapped", "same", "moved", "class", "flag", "area", "removed"],
)
def test_changed_objects_differ_from_the_source(
    images: Path, change: Callable[[list[Any]], object]
) -> None:
    shards = packed(images)
    assert checked(shards, against=against(images)).problems == []
    report = checked(changed(shards, with_objects("0", change)), against=against(images))
    assert messages(report) == ["0: its field 'objects' is not that of 0.png"]


def test_objects_swapped_between_images_differ_from_the_source(images: Path) -> None:
    members: dict[str, bytes] = {}
    shards = changed(packed(images), lambda name, data: members.setdefault(name, data))
    swaps = {"0.json": members["1.json"], "1.json": members["0.json"]}
    changed(shards, lambda name, data: swaps.get(name, data))
    assert len(checked(shards, against=against(images)).problems) == 2


def test_a_manifest_tells_that_a_shard_was_edited(images: Path) -> None:
    shards = packed(images)
    shard = shards / "train-000000.tar"
    data = shard.read_bytes()
    assert data.count(b'"class":1') == 1
    shard.write_bytes(data.replace(b'"class":1', b'"class":0'))
    assert any("bytes have changed" in each for each in messages(checked(shards)))


def mask(values: list[int], size: tuple[int, int] = SIZE, mode: str = "L") -> bytes:
    image, out = Image.new(mode, size), io.BytesIO()
    image.putdata([values[at % len(values)] for at in range(size[0] * size[1])])  # type: ignore[arg-type]
    image.save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def masked(images: Path, tmp_path: Path) -> dict[str, str]:
    """Options that give masks to three of the four images."""
    for number in range(3):
        path = tmp_path / "masks" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(mask([0, 1, 255]))
    (tmp_path / "classes.txt").write_text("ground\nroad\n")
    return {"masks": str(tmp_path / "masks"), "mask_classes": str(tmp_path / "classes.txt")}


def test_masks_are_checked(images: Path, masked: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "out"
    dsprep.pack(str(images), str(out), format="webdataset", workers=1, **masked)
    report = checked(out, decode=True, against=dsprep.make_source(str(images), **masked))
    assert report.problems == []
    assert "1 sample without the mask 'mask' that others have" in report.notes
    counted = "pixels of the mask 'mask' by class: ground (1,200), road (1,200), ignored (1,200)"
    assert counted in report.notes
    changed(out, lambda name, own: mask([0, 7]) if name == "1.mask.png" else own)
    report = checked(out, decode=True)
    assert any("its mask has the class numbers 7" in each for each in messages(report))
    counted = "pixels of the mask 'mask' by class: ground (800), road (800), ignored (800)"
    assert counted in report.notes  # those of masks without such numbers


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (mask([0, 2]), "its mask has the class numbers 2, and there are 2 classes"),
        (mask([0, 1], (20, 30)), "its mask has 20x30 pixels, and its image 40x30"),
        (mask([(1, 2, 3)], mode="RGB"), "its mask has colors"),  # type: ignore[list-item]
        (
            mask([0, 700], mode="I;16"),
            "its mask has the values 700, and class numbers are 0 to 255",
        ),
        (mask([0, 1])[:-30], "cannot decode its mask"),
        (b"nothing", "its mask: not an image of a known kind"),
    ],
    ids=["values", "size", "colors", "bits", "cut", "none"],
)
def test_masks_that_were_replaced_are_found(
    images: Path, masked: dict[str, Any], tmp_path: Path, data: bytes, message: str
) -> None:
    out = tmp_path / "out"
    dsprep.pack(str(images), str(out), format="webdataset", workers=1, **masked)
    changed(out, lambda name, own: data if name == "1.mask.png" else own)
    found = messages(checked(out, decode=True))
    assert any(each.startswith(f"1: {message}") for each in found), found
    assert "1: its field 'mask' is not that of 1.png" in messages(
        checked(out, against=dsprep.make_source(str(images), **masked))
    )


# After a transform


@pytest.fixture
def turned(tmp_path: Path) -> dict[str, Any]:
    """40 images of all orientations, with odd boxes, a crowd, masks, and some without objects."""
    random, listed, annotations = Random(3), list[Any](), list[Any]()
    for name in ("in", "masked"):
        (tmp_path / name).mkdir()
    for number in range(40):
        size = (random.randrange(20, 90), random.randrange(20, 90))
        orientation = number % 9 if number % 3 else 1
        data = jpeg(number, size, orientation=orientation)
        size = size[::-1] if orientation > 4 else size
        (tmp_path / "in" / f"{number:02}.jpg").write_bytes(data)
        (tmp_path / "masked" / f"{number:02}.png").write_bytes(mask([0, 1, 1, 255], size))
        listed.append({"id": number, "file_name": f"{number:02}.jpg"})
        for _ in range(number % 4):
            x0, y0 = random.uniform(0, size[0] * 0.7), random.uniform(0, size[1] * 0.7)
            x1, y1 = random.uniform(x0 + 4, size[0]), random.uniform(y0 + 4, size[1])
            values = {"id": len(annotations) + 1, "image_id": number, "category_id": 3}
            values |= {"bbox": [x0, y0, x1 - x0, y1 - y0], "area": 9.5, "iscrowd": number % 7 == 0}
            annotations.append(values)
    parts = {"images": listed, "annotations": annotations, "categories": CLASSES}
    (tmp_path / "b.json").write_text(json.dumps(parts))
    (tmp_path / "names.txt").write_text("ground\nroad\n")
    return {"annotations": [str(tmp_path / "b.json")]}


@pytest.mark.parametrize(
    "transform",
    [Transform(resize=19, encode="png"), Transform(resize=(31, 23), crop=(20, 20), enlarge=True)],
    ids=["resize", "crop"],
)
@pytest.mark.parametrize(
    ("format", "options"),
    [
        ("webdataset", {}),
        ("parquet", {}),
        ("tfrecord", {}),
        ("recordio", {"empty": "drop"}),
        ("recordio", {"empty": "mark"}),
        ("coco", {}),
        ("voc", {}),
        ("yolo", {}),
        ("augmented-manifest", {}),
    ],
)
def test_objects_that_moved_are_compared(
    turned: dict[str, Any],
    tmp_path: Path,
    format: str,
    options: dict[str, str],
    transform: Transform,
) -> None:
    has_masks = format in ("webdataset", "parquet", "tfrecord", "voc")
    if has_masks:
        names = {"masks": str(tmp_path / "masked"), "mask_classes": str(tmp_path / "names.txt")}
        turned |= names
    out, source = str(tmp_path / "out"), dsprep.make_source(str(tmp_path / "in"), **turned)
    if format in ("coco", "voc", "yolo", "augmented-manifest"):
        shards = str(tmp_path / "shards")
        dsprep.pack(str(tmp_path / "in"), shards, format="webdataset", workers=1, **turned)
        how: dict[str, Any] = {"to": format, "transform": transform}
        how |= {"prefix": "s3://bucket/"} if format == "augmented-manifest" else {}
        done = dsprep.convert(shards, out, workers=1, **how, **options)
        source = dsprep.make_source(shards)
    else:
        how = {"format": format, "transform": transform}
        done = dsprep.pack(str(tmp_path / "in"), out, workers=1, **how, **turned, **options)
    assert done.rejects == []
    report = checked(Path(out), against=source, decode=True)
    assert report.problems == []
    assert "images not compared, because they were transformed" in report.notes
    if format not in ("coco", "voc", "yolo", "augmented-manifest"):
        values = json.loads((tmp_path / "b.json").read_text())
        x, y, width, height = values["annotations"][30]["bbox"]
        values["annotations"][30]["bbox"] = [x + 1, y + 1, width - 2, height - 2]
        (tmp_path / "b.json").write_text(json.dumps(values))
        for each in (tmp_path / "masked").iterdir():
            with Image.open(each) as image:
                each.write_bytes(mask([1], image.size))
        report = checked(Path(out), against=dsprep.make_source(str(tmp_path / "in"), **turned))
        assert len(report.problems) == (40 if has_masks else 1)


def test_what_was_annotated_at_another_size_is_compared(images: Path) -> None:
    text = (images.parent / "a.json").read_text()
    (images.parent / "a.json").write_text(
        text.replace('"width": 40', '"width": 80').replace('"height": 30', '"height": 60')
    )
    out, source = images.parent / "out", {"annotations": [str(images.parent / "a.json")]}
    how: dict[str, Any] = {"format": "webdataset", "annotation_size": "80x60", "workers": 1}
    for transform in (None, Transform(resize=15)):
        dsprep.pack(str(images), str(out), transform=transform, overwrite=True, **how, **source)
        report = checked(out, against=against(images))
        assert report.problems == []


# Without a manifest


@pytest.fixture
def odd_boxes(images: Path) -> Any:
    """Annotations with a box that is empty and one that is inverted, which no check refuses."""
    values = json.loads((images.parent / "a.json").read_text())
    values["annotations"][0]["bbox"] = [5, 5, 0, 4]
    (images.parent / "a.json").write_text(json.dumps(values))
    return {"annotations": [str(images.parent / "a.json")]}


@pytest.mark.parametrize("format", ["webdataset", "parquet", "tfrecord", "recordio"])
@pytest.mark.parametrize("bare", [False, True])
def test_shards_without_a_manifest_are_checked_as_well(
    images: Path, odd_boxes: dict[str, Any], format: str, bare: bool
) -> None:
    out = images.parent / "out"
    how = {"empty": "mark"} if format == "recordio" else {}
    done = dsprep.pack(str(images), str(out), format=format, workers=1, **odd_boxes, **how)
    assert done.rejects == []
    for each in out.iterdir():
        is_shard = each.suffix in (".tar", ".parquet", ".tfrecord", ".rec")
        if each.name == "manifest.json" or (bare and not is_shard):
            each.unlink()
    # Only the files beside them tell which class has which id in TFRecords.
    report = checked(out, decode=True, against=None if bare else against(images))
    assert not report.manifest
    assert report.objects is not None
    assert (report.objects.objects, report.objects.samples, report.objects.without) == (4, 3, 1)
    assert [*report.objects.per_class.values()] == [3, 1]
    has_names = format == "parquet" or (format == "tfrecord" and not bare)
    assert ([*report.objects.per_class] == ["cat", "dog"]) is has_names
    (problem,) = messages(report)
    assert problem.startswith("0: the box of object 1 is empty: ")
    (outside,) = (note for note in report.notes if "outside" in note)
    assert outside.startswith("1 object reaches outside of the image: 30 20 45 25 in 3")
