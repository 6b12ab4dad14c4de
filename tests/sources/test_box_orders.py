"""Four numbers of a box whose order no name tells."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

import dsprep
from dsprep.annotations.objects import SHARES, Objects
from dsprep.errors import OptionError, SourceError
from tests.sources.boxes import SIZE, image, notes, read, write
from tests.sources.boxes import objects as read_objects

# In images of 40 x 20: two boxes, each a corner of the image.
CORNERS = ((20, 5, 38, 18), (1, 1, 9, 19))


def numbers(kind: str) -> list[list[float]]:
    """Write the boxes in an order."""
    kind, _, unit = kind.partition(":")
    found: list[list[float]] = []
    for x0, y0, x1, y1 in CORNERS:
        width, height = x1 - x0, y1 - y0
        own = {
            "xyxy": [x0, y0, x1, y1],
            "xywh": [x0, y0, width, height],
            "cxcywh": [x0 + width / 2, y0 + height / 2, width, height],
        }[kind]
        sizes = SIZE * 2 if unit else (1, 1, 1, 1)
        found.append([value / size for value, size in zip(own, sizes, strict=True)])
    return found


def table(kind: str) -> str:
    rows = (f'{at},"{own}"\n' for at, own in enumerate(numbers(kind)))
    return "image_id,bbox\n" + "".join(rows)


def boxes_in_pixels(objects: Iterable[Objects]) -> list[tuple[float, ...]]:
    """Return the box of each image, whatever it is measured on."""
    found = []
    for each in objects:
        sizes = SIZE * 2 if each.extent == SHARES else (1, 1, 1, 1)
        (item,) = each.items
        found.append(tuple(side * size for side, size in zip(item.box, sizes, strict=True)))
    return found


@pytest.mark.parametrize("kind", ["xywh", "xyxy", "cxcywh:normalized", "xyxy:normalized"])
def test_the_sizes_of_images_tell_the_order(tmp_path: Path, kind: str) -> None:
    root = write(tmp_path / "a", {"0.jpg": None, "1.jpg": None})
    path = tmp_path / "boxes.csv"
    path.write_text(table(kind))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("0.jpg", "1.jpg"):
            archive.write(root / name, f"images/{name}")
    for source in (root, tmp_path / "a.zip"):
        catalog, findings = read(source, annotations=[str(path)])
        found = boxes_in_pixels(read_objects(catalog).values())
        assert found == [pytest.approx(box) for box in CORNERS]
        assert f"boxes are {kind.partition(':')[0]}" in notes(findings)
        assert ": bbox, by the size of 2 images" in notes(findings)
        assert catalog.inferred == (("box", kind, "by the size of 2 images"),)  # for a layout


@pytest.mark.parametrize(
    ("files", "row", "why", "ways"),
    [
        ({"0.jpg": None}, [10, 5, 30, 15], "1 box lies in its image", ["xywh", "xyxy"]),
        ({"0.jpg": None}, [0.3, 0.4, 0.4, 0.6], "1 box lies in its image", [
            "xywh:normalized", "xyxy:normalized", "cxcywh:normalized"]),
        ({"0.jpg": None}, [30, 5, 30, 40], "lie in their images in no order:",
         ["xywh", "xyxy", "cxcywh"]),
        ({"0.jpg": b"\xff\xd8\xffabc"}, [5, 5, 9, 9], "the sizes of the images are not known",
         ["xywh", "xyxy", "cxcywh"]),
    ],
    ids=["two", "shares", "none", "no-size"],
)  # fmt: skip
def test_an_order_that_is_not_clear_is_asked_for(
    tmp_path: Path, files: dict[str, bytes | None], row: list[float], why: str, ways: list[str]
) -> None:
    root = write(tmp_path, {**files, "boxes.csv": f'image,bbox\n0.jpg,"{row}"\n'})
    named = [str(root / "boxes.csv")]
    with pytest.raises(SourceError) as error:
        read(root, annotations=named)
    assert why in str(error.value)
    assert re.findall(r"--box ([\w:]+)", str(error.value)) == ways
    for way in ways:  # each is enough by itself
        catalog, _ = read(root, annotations=named, box=way)
        assert len(read_objects(catalog) if files["0.jpg"] is None else [1]) == 1


def test_an_order_is_out_if_one_box_in_a_hundred_is_wrong(tmp_path: Path) -> None:
    def read_rows(*rows: str) -> str:
        lines = [f'0.jpg,"{row}"\n' for row in rows]
        root = write(tmp_path, {"0.jpg": None, "boxes.csv": "image,bbox\n" + "".join(lines)})
        _, findings = read(root, annotations=[str(root / "boxes.csv")])
        return notes(findings)

    good = ["[20, 5, 18, 13]"] * 99
    assert "boxes are xywh" in read_rows(*good, "[30, 5, 20, 5]")
    assert "boxes are xywh" in read_rows(*good, "[20, 5, 21, 13]", "[19.5, -1, 20, 13]")  # a pixel
    with pytest.raises(SourceError, match=r"2 of 101 boxes .* such as 30, 5, 20, 5 in line 101"):
        read_rows(*good, "[30, 5, 20, 5]", "[30, 5, 0, 5]")


def test_columns_tell_sizes_and_a_turned_image_may_be_measured_as_it_is_shown(
    tmp_path: Path,
) -> None:
    root = write(tmp_path, {"0.jpg": b"\xff\xd8\xffabc", "1.jpg": image((40, 20), 6)})
    (root / "a.csv").write_text('image,width,height,bbox\n0.jpg,40,20,"[20, 5, 18, 13]"\n')
    _, findings = read(root, annotations=[str(root / "a.csv")])
    assert "boxes are xywh: bbox" in notes(findings)
    (root / "b.csv").write_text('image,bbox\n1.jpg,"[2, 30, 15, 8]"\n')
    _, findings = read(root, annotations=[str(root / "b.csv")])
    assert "boxes are xywh: bbox" in notes(findings)


# Objects as Hugging Face has them: documented as x, y, width and height


def described(root: Path, kind: str) -> Path:
    """Write a folder with metadata.jsonl, whose boxes are in an order."""
    lines = (
        json.dumps({"file_name": f"{at}.jpg", "objects": {"bbox": [own], "categories": [0]}})
        for at, own in enumerate(numbers(kind))
    )
    files: dict[str, str | bytes | None] = {"0.jpg": None, "1.jpg": None}
    return write(root, {**files, "metadata.jsonl": "\n".join(lines)})


def parquet(root: Path, kind: str) -> Path:
    """Write a table of Parquet whose boxes are in an order."""
    root.mkdir()
    rows = [
        {
            "image": {"bytes": image(), "path": f"{at}.jpg"},
            "objects": {"bbox": [own], "category": [0]},
        }
        for at, own in enumerate(numbers(kind))
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), root / "train.parquet")
    return root


@pytest.mark.parametrize("make", [described, parquet])
def test_objects_in_another_order_than_the_documented_one(
    tmp_path: Path, make: Callable[[Path, str], Path]
) -> None:
    catalog, _ = read(make(tmp_path / "xywh", "xywh"))
    assert [each.items[0].box for each in read_objects(catalog).values()] == [*CORNERS]
    for kind in ("xyxy", "cxcywh", "xyxy:normalized"):
        root = make(tmp_path / kind, kind)
        with pytest.raises(SourceError, match="as Hugging Face documents them:") as error:
            read(root)
        assert f"--box {kind} (" in str(error.value)
        catalog, _ = read(root, box=kind)
        found = boxes_in_pixels(read_objects(catalog).values())
        assert found == [pytest.approx(box) for box in CORNERS]
        # Parquet to Parquet copies no boxes as they are
        report = dsprep.pack(root, tmp_path / f"{kind}-out", to="parquet", box=kind, workers=1)
        assert not report.rejects
        checked = dsprep.verify(tmp_path / f"{kind}-out", against=root, workers=1)
        assert not checked.problems  # with the order that the manifest records
        catalog, _ = read(tmp_path / f"{kind}-out")
        found = boxes_in_pixels(read_objects(catalog).values())
        assert sorted(found) == [pytest.approx(box) for box in sorted(CORNERS)]


def test_objects_that_may_be_in_another_order_are_noted(tmp_path: Path) -> None:
    metadata = {"file_name": "0.jpg", "objects": {"bbox": [[10, 5, 30, 15]], "categories": [0]}}
    root = write(tmp_path, {"0.jpg": None, "metadata.jsonl": json.dumps(metadata)})
    _, findings = read(root)
    assert "they may be two corners as well: --box names another order" in notes(findings)
    _, findings = read(root, box="xywh")
    assert "--box" not in notes(findings)


def test_an_order_of_no_boxes_is_refused(tmp_path: Path) -> None:
    root = write(tmp_path, {"a/0.jpg": None, "b/0.jpg": None})
    with pytest.raises(OptionError, match="--box xyxy has no effect"):
        read(root, box="xyxy")
