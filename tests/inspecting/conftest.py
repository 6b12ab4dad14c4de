"""A folder of images that differ in every way that is measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFilter

TURNED = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
"""EXIF's orientation 6: the image lies on its side."""


def texture(seed: int, size: tuple[int, int] = (160, 120)) -> Image.Image:
    """Return an image of soft colored shapes, which is like no other."""
    drawn = np.random.default_rng(seed).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    return Image.fromarray(drawn).resize(size, Image.Resampling.BICUBIC)


@pytest.fixture(scope="session")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes, images of many kinds, copies, and some that cannot be read."""
    root = tmp_path_factory.mktemp("odd")
    (root / "cat").mkdir()
    (root / "dog").mkdir()
    for seed in range(4):
        texture(seed).save(root / "cat" / f"{seed}.jpg", quality=90)
        texture(seed + 10, (90, 200)).save(root / "dog" / f"{seed}.png")
    texture(20).save(root / "cat" / "turned.jpg", exif=TURNED)
    texture(21).convert("L").save(root / "cat" / "gray.jpg")
    texture(22).convert("CMYK").save(root / "cat" / "cmyk.jpg")
    texture(23).convert("P").save(root / "dog" / "palette.gif")
    texture(24).filter(ImageFilter.GaussianBlur(9)).save(root / "dog" / "blurred.webp")
    alpha = texture(25)
    alpha.putalpha(Image.linear_gradient("L").resize(alpha.size))
    alpha.save(root / "dog" / "alpha.png")
    Image.new("RGB", (300, 20), "white").save(root / "dog" / "white.png")
    (root / "dog" / "copy.jpg").write_bytes((root / "cat" / "0.jpg").read_bytes())
    with Image.open(root / "cat" / "1.jpg") as image:
        image.resize((80, 60)).save(root / "cat" / "1-small.jpg", quality=50)
    (root / "cat" / "cut.jpg").write_bytes((root / "cat" / "2.jpg").read_bytes()[:900])
    (root / "cat" / "empty.jpg").touch()
    (root / "notes.txt").write_text("not an image")
    return root
