"""Small images for tests and the demo: drawn, deterministic, of every kind that makes trouble.

A seed names a picture: the same seed, size and mode give the same pixels, two seeds two pictures.
"""

from __future__ import annotations

import io
import math
import random
import struct
import zlib
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

EXIF_ORIENTATION = 0x0112


def draw(
    seed: int = 0, size: tuple[int, int] = (64, 48), mode: str = "RGB", *, sides: int = 0
) -> Image.Image:
    """Draw a polygon on a color gradient.

    Args:
        seed: Chooses the colors, the place and the polygon.
        size: Width and height in pixels.
        mode: Pillow's name of the pixels' kind; `I;16` is 16-bit gray, over its whole range.
        sides: How many corners the polygon has; 0 lets the seed choose.

    Returns:
        The picture.
    """
    rng = random.Random(f"{seed} {size}")
    width, height = size
    across = Image.linear_gradient("L").resize(size)
    down = across.transpose(Image.Transpose.ROTATE_180)
    level = Image.new("L", size, rng.randrange(256))
    picture = Image.merge("RGB", rng.sample([across, down, level], 3))

    sides = sides or rng.randint(3, 8)
    radius = min(width, height) * rng.uniform(0.2, 0.45)
    center = (width * rng.uniform(0.4, 0.6), height * rng.uniform(0.4, 0.6))
    turn = rng.uniform(0, math.tau)
    corners = [
        (
            center[0] + radius * math.cos(turn + math.tau * i / sides),
            center[1] + radius * math.sin(turn + math.tau * i / sides),
        )
        for i in range(sides)
    ]
    ImageDraw.Draw(picture).polygon(corners, fill=tuple(rng.randbytes(3)))

    if mode == "I;16":
        gray = picture.convert("L").tobytes()
        return Image.frombytes(
            mode, size, b"".join(struct.pack("<H", level * 257) for level in gray)
        )
    if mode in ("RGBA", "LA"):
        picture.putalpha(across)
    return picture.convert(mode)


def encode(picture: Image.Image, kind: str, *, orientation: int = 0, **options: Any) -> bytes:
    """Write a picture as a file of Pillow's format `kind`, with an EXIF orientation of 1 to 8."""
    if orientation:
        exif = Image.Exif()
        exif[EXIF_ORIENTATION] = orientation
        options["exif"] = exif
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def jpeg(
    seed: int = 0, size: tuple[int, int] = (64, 48), mode: str = "RGB", **options: Any
) -> bytes:
    """Make a JPEG: `mode` is `RGB`, `L` (gray) or `CMYK`; see `encode` for the options."""
    return encode(draw(seed, size, mode), "JPEG", **options)


def png(
    seed: int = 0, size: tuple[int, int] = (64, 48), mode: str = "RGB", **options: Any
) -> bytes:
    """Make a PNG: `mode` is `RGB`, `RGBA`, `L`, `LA`, `P` (palette), `1` or `I;16` (16 bits)."""
    return encode(draw(seed, size, mode), "PNG", **options)


def webp(
    seed: int = 0, size: tuple[int, int] = (64, 48), mode: str = "RGB", **options: Any
) -> bytes:
    """Make a WebP: `mode` is `RGB` or `RGBA`."""
    return encode(draw(seed, size, mode), "WEBP", **options)


def gif(seed: int = 0, size: tuple[int, int] = (64, 48), *, frames: int = 1) -> bytes:
    """Make a GIF, animated if it has more than one frame."""
    first, *others = [draw(seed + i, size) for i in range(frames)]
    return encode(first, "GIF", save_all=True, append_images=others)


def bmp(seed: int = 0, size: tuple[int, int] = (64, 48), mode: str = "RGB") -> bytes:
    """Make a BMP: `mode` is `RGB`, `L` or `P`."""
    return encode(draw(seed, size, mode), "BMP")


def truncated(data: bytes, keep: float = 0.5) -> bytes:
    """Cut a file off after a share of its bytes."""
    return data[: int(len(data) * keep)]


def bomb(width: int = 60_000, height: int = 60_000) -> bytes:
    """Make a PNG of a hundred bytes that claims to hold `width` × `height` RGB pixels."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(1000)))
        + chunk(b"IEND", b"")
    )


def image_folder(
    root: Path,
    classes: tuple[str, ...] = ("cat", "dog"),
    per_class: int = 3,
    size: tuple[int, int] = (64, 48),
) -> dict[str, bytes]:
    """Write a folder of JPEGs, a directory for each class: `cat/000.jpg`, …

    Args:
        root: The folder; made if it is not there.
        classes: The directories; a name may be nested (`pets/cat`), or `.` for no class at all.
        per_class: How many images in each.
        size: Width and height in pixels.

    Returns:
        The files' contents by path: relative to `root`, with `/`, in plain sorted order.
    """
    files = {}
    for number, name in enumerate(classes):
        directory = root / name
        directory.mkdir(parents=True, exist_ok=True)
        for i in range(per_class):
            path = directory / f"{i:03}.jpg"
            data = jpeg(seed=number * per_class + i, size=size)
            path.write_bytes(data)
            files[path.relative_to(root).as_posix()] = data
    return dict(sorted(files.items()))
