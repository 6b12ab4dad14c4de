"""The pictures of the page of ``inspect``: boxes and masks lie where their images have them."""

from __future__ import annotations

import base64
import io
import json
import re
from html import unescape
from pathlib import Path
from typing import Any

from PIL import Image, ImageChops

import dsprep
from tests.images import encode, jpeg, png

RED, GRAY = (220, 30, 30), (120, 120, 120)


def drawn(page: Path) -> dict[str, tuple[str, str]]:
    """Return the drawing of each sample on a page, and the caption of its first tile."""
    text = page.read_text("utf-8")
    symbols = dict(re.findall(r'<symbol id="(p\d+)"(.*?)</symbol>', text, re.S))
    tiles = re.findall(
        r'aria-label="([^"]*)"><use href="#(p\d+)"/></svg>\s*(<figcaption>.*?</figcaption>)',
        text,
        re.S,
    )
    return {unescape(path): (symbols[number], caption) for path, number, caption in tiles[::-1]}


def images_in(symbol: str) -> list[Image.Image]:
    data = re.findall(r"data:image/(?:jpeg|png);base64,([^\"]*)", symbol)
    return [Image.open(io.BytesIO(base64.b64decode(each))) for each in data]


def is_red(image: Image.Image, x: float, y: float) -> bool:
    color: Any = image.convert("RGB").getpixel((round(x), round(y)))
    return bool(color[0] > 170 and color[1] < 80)


def painted(size: tuple[int, int], box: tuple[int, int, int, int]) -> Image.Image:
    image = Image.new("RGB", size, GRAY)
    image.paste(RED, box)
    return image


def write_coco(root: Path, images: dict[str, Any], boxes: list[tuple[int, Any, Any]]) -> None:
    """Write images, as their files and sizes, and objects of two classes."""
    (root / "images").mkdir(parents=True)
    rows, objects = [], []
    for id, (name, (data, size)) in enumerate(images.items()):
        (root / "images" / name).write_bytes(data)
        rows.append({"id": id, "file_name": name, "width": size[0], "height": size[1]})
    for id, (image, (x0, y0, x1, y1), polygons) in enumerate(boxes, 1):
        place = {"bbox": [x0, y0, x1 - x0, y1 - y0], "area": 1, "iscrowd": 0}
        own = {"id": id, "image_id": image, "category_id": id % 2, "segmentation": polygons}
        objects.append(own | place)
    names = [{"id": 0, "name": "cat"}, {"id": 1, "name": "<script>"}]
    values = {"images": rows, "annotations": objects, "categories": names}
    (root / "instances.json").write_text(json.dumps(values))


def test_boxes_are_around_what_they_were_around(tmp_path: Path) -> None:
    wide, box = (640, 480), (160, 120, 400, 240)
    upright = painted(wide, box)
    turned = upright.transpose(Image.Transpose.ROTATE_90)  # orientation 6 turns it back
    files = {
        "plain.jpg": (encode(upright, "JPEG", quality=95), wide),
        "turned.jpg": (encode(turned, "JPEG", quality=95, orientation=6), wide),
        "small.png": (encode(painted((40, 30), (10, 5, 30, 20)), "PNG"), (40, 30)),
    }
    polygon = [160, 120, 400, 120, 400, 240]
    boxes = [(0, box, [polygon]), (1, box, []), (2, (10, 5, 30, 20), [])]
    write_coco(tmp_path / "coco", files, boxes)
    page = tmp_path / "report.html"

    report = dsprep.inspect(tmp_path / "coco", workers=1, output=page)

    assert report.rejects == []
    found = {path.rpartition("/")[2]: each for path, each in drawn(page).items()}
    assert found.keys() == files.keys()
    for name, size in (
        ("plain.jpg", (160, 120)),
        ("turned.jpg", (160, 120)),
        ("small.png", (40, 30)),
    ):
        symbol = found[name][0]
        (image,) = images_in(symbol)
        assert (image.format, image.size, len(image.getexif())) == ("JPEG", size, 0)
        assert f'viewBox="0 0 {size[0]} {size[1]}"' in symbol
        edges: Any = re.search(
            r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', symbol
        )
        x, y, width, height = map(float, edges.groups())
        for across, down in ((0, 0), (1, 0), (0, 1), (1, 1)):
            inward, down_in = 3 - 6 * across, 3 - 6 * down
            corner = x + across * width, y + down * height
            assert is_red(image, corner[0] + inward, corner[1] + down_in)
            assert not is_red(image, corner[0] - inward, corner[1] - down_in)
    assert '<polygon points="40.0 30.0 100.0 30.0 100.0 60.0"' in found["plain.jpg"][0]
    assert "<title>&lt;script&gt;</title>" in found["plain.jpg"][0]
    assert "<title>cat</title>" in found["turned.jpg"][0]


def test_many_objects_and_boxes_of_another_size_are_told(tmp_path: Path) -> None:
    data = encode(painted((200, 100), (0, 0, 9, 9)), "PNG")
    files = {"many.png": (data, (200, 100)), "other.png": (data, (100, 70))}
    boxes: list[tuple[int, Any, Any]] = [(0, (at, 5, at + 50, 60), []) for at in range(80)]
    write_coco(tmp_path / "coco", files, [*boxes, (1, (5, 5, 50, 60), [])])
    page = tmp_path / "report.html"

    dsprep.inspect(tmp_path / "coco", workers=1, output=page)

    found = {path.rpartition("/")[2]: each for path, each in drawn(page).items()}
    assert found["many.png"][0].count("<rect") == 50
    assert "50 of 80 objects painted" in found["many.png"][1]
    assert "<rect" not in found["other.png"][0]
    assert "not painted: its annotations are for an image of 100x70" in found["other.png"][1]


def test_masks_lie_over_their_images(tmp_path: Path) -> None:
    for name in ("images", "masks"):
        (tmp_path / name).mkdir()
    painted((320, 240), (80, 60, 240, 120)).save(tmp_path / "images" / "a.jpg", quality=95)
    mask = Image.new("L", (320, 240))
    mask.paste(1, (80, 60, 240, 120))
    mask.paste(255, (0, 200, 320, 240))
    mask.save(tmp_path / "masks" / "a.png")
    (tmp_path / "classes.txt").write_text("background\n<b>cat\ndog\n")
    page = tmp_path / "report.html"

    dsprep.inspect(
        tmp_path / "images",
        masks=tmp_path / "masks",
        mask_classes=tmp_path / "classes.txt",
        workers=1,
        output=page,
    )

    symbol, caption = drawn(page)["a.jpg"]
    image, overlay = images_in(symbol)
    opacity = overlay.convert("RGBA").getchannel("A")
    expected = Image.new("L", (160, 120))
    expected.paste(140, (40, 30, 120, 60))
    assert (image.size, overlay.format, overlay.size) == ((160, 120), "PNG", (160, 120))
    assert ImageChops.difference(opacity, expected).getbbox() is None
    assert "mask: &lt;b&gt;cat</span>" in caption


def test_images_of_any_mode_have_a_picture_without_their_metadata(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for mode in ("RGBA", "LA", "P", "1", "I;16"):
        name = f"{mode.replace(';', '')}.png"
        (tmp_path / "images" / name).write_bytes(png(3, (1000, 2), mode))
    (tmp_path / "images" / "noted.jpg").write_bytes(
        jpeg(3, (1000, 2), orientation=3, comment=b"secret", icc_profile=b"secret")
    )
    page = tmp_path / "report.html"

    dsprep.inspect(tmp_path / "images", workers=1, output=page)

    found = drawn(page)
    assert len(found) == 6
    for symbol, _ in found.values():
        (image,) = images_in(symbol)
        assert (image.format, image.size) == ("JPEG", (160, 1))
        assert not {"exif", "comment", "icc_profile"} & image.info.keys()
