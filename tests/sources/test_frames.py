"""Boxes on images of other sizes, and that are turned: packed, judged by painted pixels."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as PillowImage
from PIL import ImageDraw, ImageOps
from PIL.Image import Image, Transpose

import dsprep
from dsprep.annotations.masks import mask_of, runs_of
from dsprep.annotations.objects import Objects, box_of
from dsprep.errors import BadSample, OptionError, SourceError
from dsprep.images.transform import Encoded, Transform
from dsprep.moving import Frame, make_mover
from dsprep.sample import Sample
from tests.sources.boxes import box, coco, read, write

SIZE = (64, 32)  # upright
BOX = (8, 4, 40, 12)  # of the upright image
_TRANSPOSE = {
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_90,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_270,
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
}


def painted(
    orientation: int, scale: int = 1, form: str = "PNG"
) -> tuple[bytes, tuple[int, ...], tuple[int, int]]:
    """Paint a box; return the file, and the box and the size as they are stored."""
    size = SIZE[0] * scale, SIZE[1] * scale
    image = PillowImage.new("RGB", size, "black")
    corners = [each * scale for each in BOX]
    ImageDraw.Draw(image).rectangle((*corners[:2], corners[2] - 1, corners[3] - 1), "white")
    stored = image.transpose(_TRANSPOSE[orientation]) if orientation != 1 else image
    exif, out = PillowImage.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    stored.save(out, form, exif=exif, lossless=True)
    own = stored.convert("L").getbbox()
    assert own is not None
    assert ImageOps.exif_transpose(PillowImage.open(out)).convert("L").getbbox() == tuple(corners)
    return out.getvalue(), own, stored.size


def moved(tmp_path: Path, image: bytes, object: Any, size: Any, frame: Frame) -> tuple[Any, Image]:
    """Return the object of an image, whose annotations tell a size, and the image to write."""
    sizes = {} if size is None else {"width": size[0], "height": size[1]}
    listed = [{"id": 1, "file_name": "a.png"} | sizes]
    root = write(tmp_path / "set", {"a.png": image})
    file = write(tmp_path, {"a.json": coco([], [box(1, 1, **object)], images=listed)}) / "a.json"
    catalog, _ = read(root, annotations=[str(file)])
    (sample,) = catalog.reader.read(catalog.rows())
    assert isinstance(sample, Sample)
    move = make_mover(catalog.settled.schema, None, 1 << 20, frame=frame)
    assert move is not None
    with PillowImage.open(io.BytesIO(image)) as opened:
        kind = "webp" if opened.format == "WEBP" else "png"
        encoded = move(sample, image, Encoded(kind, image, *opened.size), None)
    written = PillowImage.open(io.BytesIO(encoded.data))
    assert written.getexif().get(0x0112, 1) == 1
    assert written.size == (encoded.width, encoded.height)
    value = sample.fields["objects"]
    assert isinstance(value, Objects)
    assert value.extent == written.size
    return value.items[0], written


def check(
    tmp_path: Path, image: bytes, sides: Any, size: Any, own: str | None, turn: str | None
) -> None:
    """Move a box and a polygon; they must be where the paint is."""
    x0, y0, x1, y1 = sides
    object = {"bbox": [x0, y0, x1 - x0, y1 - y0]}
    object["segmentation"] = [[x0, y0, x1, y0, x1, y1, x0, y1]]
    found, written = moved(tmp_path, image, object, size, Frame(own, turn))
    assert found.box == written.convert("L").getbbox()
    assert box_of(found.polygons) == found.box


@pytest.mark.parametrize("orientation", range(1, 9))
def test_frames(tmp_path: Path, orientation: int) -> None:
    image, own, stored = painted(orientation)
    check(tmp_path, image, BOX, SIZE, None, None)
    check(tmp_path, image, BOX, None, None, None)
    check(tmp_path, image, own, stored, None, "stored")
    check(tmp_path, image, own, None, None, "stored")
    check(tmp_path, image, BOX, stored, None, "displayed")
    if stored != SIZE:
        with pytest.raises(BadSample, match="--boxes-frame stored"):
            check(tmp_path, image, own, stored, None, None)


def test_a_webp_is_turned(tmp_path: Path) -> None:
    image, own, stored = painted(6, form="WEBP")
    check(tmp_path, image, BOX, SIZE, None, None)
    check(tmp_path, image, own, stored, None, "stored")
    _, written = moved(tmp_path, image, {"bbox": [0, 0, 9, 9]}, SIZE, Frame())
    assert written.format == "PNG"  # which loses nothing


def test_smaller_copies(tmp_path: Path) -> None:
    image, own, _ = painted(6, scale=2)
    half = tuple(each / 2 for each in own)
    check(tmp_path, image, BOX, None, "64x32", None)
    check(tmp_path, image, BOX, SIZE, "64x32", None)
    check(tmp_path, image, BOX, SIZE, "listed", None)
    check(tmp_path, image, half, SIZE[::-1], "listed", "stored")
    with pytest.raises(BadSample, match="64x32 pixels.*give --annotation-size listed"):
        check(tmp_path, image, BOX, SIZE, None, None)
    with pytest.raises(BadSample, match="not of --annotation-size 65x32"):
        check(tmp_path, image, BOX, SIZE, "65x32", None)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_mask_of_runs_turns_with_its_image(tmp_path: Path, orientation: int) -> None:
    image, own, stored = painted(orientation)
    with PillowImage.open(io.BytesIO(image)) as opened:
        runs = runs_of(opened.convert("L"))
    segmentation = {"size": [runs.height, runs.width], "counts": runs.counts}
    sides = [own[0], own[1], own[2] - own[0], own[3] - own[1]]
    object = {"bbox": sides, "segmentation": segmentation}
    found, written = moved(tmp_path, image, object, stored, Frame(turn="stored"))
    inside = written.convert("L").point(lambda level: level > 127)
    assert mask_of(found.rle).tobytes() == inside.tobytes()


def test_packed(tmp_path: Path) -> None:
    image, own, stored = painted(6, scale=2)
    half = [each / 2 for each in own]
    x0, y0, x1, y1 = half
    listed = [{"id": 1, "file_name": "a.png", "width": stored[0] // 2, "height": stored[1] // 2}]
    annotations = [box(1, 1, bbox=[x0, y0, x1 - x0, y1 - y0])]
    root = write(tmp_path / "set", {"a.png": image})
    file = write(tmp_path, {"a.json": coco([], annotations, images=listed)}) / "a.json"
    frame = {"annotation_size": "listed", "boxes_frame": "stored"}
    options: dict[str, Any] = {"to": "webdataset", "annotations": [file], "workers": 1}
    out = tmp_path / "out"
    report = dsprep.pack(root, out, transform=Transform(resize=(32, 16)), **options, **frame)
    with tarfile.open(out / report.shards[0].name) as tar:
        (name,) = (name for name in tar.getnames() if name.endswith("json"))
        values = json.loads((tar.extractfile(name) or io.BytesIO()).read())
    assert (values["width"], values["height"]) == (32, 16)
    assert values["objects"][0]["box"] == [each / 2 for each in BOX]
    for wrong in ("64", "0x5", "axb", "-1x5"):
        with pytest.raises(OptionError, match=f"--annotation-size {wrong}"):
            dsprep.pack(root, out, annotation_size=wrong, **options)


@pytest.mark.parametrize("check", ["header", "none"])
def test_a_mask_without_boxes_fits_its_image(tmp_path: Path, check: str) -> None:
    """The image is turned upright, and the palette becomes gray, although nothing is resized."""
    image, _, _ = painted(6)
    mask = PillowImage.new("P", SIZE)
    mask.putpalette([0, 0, 0, 128, 0, 0])
    ImageDraw.Draw(mask).rectangle((*BOX[:2], BOX[2] - 1, BOX[3] - 1), 1)
    out = io.BytesIO()
    mask.save(out, "PNG")
    root = write(tmp_path, {"images/a.png": image, "masks/a.png": out.getvalue()})
    options: dict[str, Any] = {"to": "webdataset", "check": check, "workers": 1}
    report = dsprep.pack(root / "images", tmp_path / "out", masks=root / "masks", **options)
    assert report.samples == 1
    with tarfile.open(tmp_path / "out" / report.shards[0].name) as tar:
        first, second = (PillowImage.open(tar.extractfile(each) or io.BytesIO()) for each in tar)
        assert first.convert("L").getbbox() == second.getbbox() == BOX
    assert (first.size, second.mode) == (SIZE, "L")
    dsprep.convert(tmp_path / "out", tmp_path / "voc", to="voc", workers=1)
    assert PillowImage.open(tmp_path / "voc" / "SegmentationClass" / "a.png").getbbox() == BOX


def runs_text(shape: Image) -> str:
    """The runs of a mask as Kaggle writes them: start and length, from 1, down the columns."""
    at, words = 1, list[int]()
    for number, count in enumerate(runs_of(shape).counts):
        words += [at, count] if number % 2 else []
        at += count
    return " ".join(map(str, words))


@pytest.mark.parametrize("orientation", [1, 2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("kind", ["runs", "files"])
def test_masks_are_for_the_frame_that_is_told(tmp_path: Path, orientation: int, kind: str) -> None:
    data, own, stored = painted(orientation)
    root = write(tmp_path, {"images/a.png": data})
    for turn, size, edges in (("displayed", SIZE, BOX), ("stored", stored, own)):
        shape, out = PillowImage.new("L", size), io.BytesIO()
        shape.paste(1, edges)
        shape.save(out, "PNG")
        table = f"ImageId,EncodedPixels\na.png,{runs_text(shape)}\n"
        write(root, {"runs.csv": table, "masks/a.png": out.getvalue()})
        told = {"annotations": [root / "runs.csv"]} if kind == "runs" else {"masks": root / "masks"}
        options: dict[str, Any] = {"to": "webdataset", "workers": 1, **told}
        where = tmp_path / turn
        report = dsprep.pack(root / "images", where, boxes_frame=turn, **options)
        with tarfile.open(where / report.shards[0].name) as tar:
            found = {each.name: PillowImage.open(tar.extractfile(each) or io.BytesIO())
                     for each in tar}  # fmt: skip
            assert found["a.png"].convert("L").getbbox() == BOX
            assert found["a.mask.png"].size == SIZE
            assert found["a.mask.png"].getbbox() == BOX
        source = dsprep.make_source(root / "images", **told)
        assert dsprep.verify(where, against=source, workers=1).problems == []


def test_masks_without_an_image_are_counted(tmp_path: Path) -> None:
    data, _, _ = painted(1)
    mask = io.BytesIO()
    PillowImage.new("L", SIZE).save(mask, "PNG")
    names = ("a_mask.png", "lost.png", "more/lost.png")
    files = {f"masks/{name}": mask.getvalue() for name in names}
    root = write(tmp_path, {"images/a.png": data, **files})
    _, findings = read(root / "images", masks=str(root / "masks"))
    found = [each.detail for each in findings if each.kind == "note"]
    assert found == [f"2 files in {root}/masks without an image: lost.png, more/lost.png"]


def test_a_mask_of_the_stored_image_is_refused_by_name(tmp_path: Path) -> None:
    data, own, stored = painted(6)
    shape, out = PillowImage.new("L", stored), io.BytesIO()
    shape.paste(1, own)
    shape.save(out, "PNG")
    root = write(tmp_path, {"images/a.png": data, "masks/a.png": out.getvalue()})
    options: dict[str, Any] = {"to": "webdataset", "workers": 1, "masks": root / "masks"}
    with pytest.raises(SourceError, match="image 64x32: give --boxes-frame stored"):
        dsprep.pack(root / "images", tmp_path / "out", **options)
    shape.transpose(Transpose.TRANSPOSE).save(root / "masks" / "a.png")
    with pytest.raises(SourceError, match="mask has 64x32 .* image 32x64 as it is stored"):
        dsprep.pack(root / "images", tmp_path / "out", boxes_frame="stored", **options)


def test_parts_of_a_run_have_the_frame_that_was_asked_for(tmp_path: Path) -> None:
    files, listed, annotations = {}, [], []
    for id, orientation in enumerate((6, 8, 3, 1), 1):
        data, own, size = painted(orientation)
        files[f"{id}.png"] = data
        listed.append({"id": id, "file_name": f"{id}.png", "width": size[0], "height": size[1]})
        sides = {"bbox": [own[0], own[1], own[2] - own[0], own[3] - own[1]]}
        annotations.append(box(id, id, **sides))
    root = write(tmp_path / "set", files)
    write(tmp_path, {"a.json": coco([], annotations, images=listed)})
    options: dict[str, Any] = {"annotations": [tmp_path / "a.json"], "to": "webdataset"}
    options |= {"boxes_frame": "stored", "shuffle": False, "workers": 1, "shards": 2}
    dsprep.pack(root, tmp_path / "whole", **options)
    for part in ("0/2", "1/2"):
        dsprep.pack(root, tmp_path / "parts", part=part, **options)
    for name in ("train-000000.tar", "train-000001.tar", "manifest.json"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
        if name.endswith(".tar"):
            with tarfile.open(tmp_path / "parts" / name) as tar:
                told = [json.load(tar.extractfile(each)) for each in tar if "json" in each.name]  # type: ignore[arg-type]
            assert [each["objects"][0]["box"] for each in told] == [[*map(float, BOX)]] * 2
