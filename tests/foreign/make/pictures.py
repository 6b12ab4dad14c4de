"""Draws the pictures of the sets, and writes down what a reader of each set has to find.

The scripts beside this one made `tests/foreign/data` with other people's tools. The tests read only
what they left. Run one as `python -m tests.foreign.make.NAME`, in an environment with its tool.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

DATA = Path(__file__).parent.parent / "data"
CLASSES = ("ant", "bee", "cow")
SIZES = ((24, 16), (16, 24), (20, 20), (32, 24))
CAPTIONS = (
    "a red ant on a leaf",
    "eine Biene, größer als üblich",
    'a "cow"; two\ttabs',
    "蟻",
    "an ant, a bee",
    "bee",
    "the cow  by the river",
    "l'abeille",
)


def picture(seed: int, mode: str = "RGB", size: tuple[int, int] | None = None) -> Image.Image:
    """Shapes in colors; no two seeds give the same."""
    rng = random.Random(seed)
    width, height = size or SIZES[seed % len(SIZES)]
    image = Image.new("RGB", (width, height), tuple(rng.randrange(256) for _ in range(3)))
    draw = ImageDraw.Draw(image)
    for _ in range(5):
        x, y = rng.randrange(width), rng.randrange(height)
        color = tuple(rng.randrange(256) for _ in range(3))
        draw.ellipse((x - 6, y - 4, x + 5, y + 7), fill=color)
    return image.convert(mode)


def encoded(image: Image.Image, kind: str = "JPEG") -> bytes:
    """Encode an image."""
    file = io.BytesIO()
    image.save(file, kind, **({"quality": 85} if kind == "JPEG" else {}))
    return file.getvalue()


def jpeg(seed: int) -> bytes:
    return encoded(picture(seed))


def png(seed: int) -> bytes:
    return encoded(picture(seed), "PNG")


def mask(seed: int) -> bytes:
    """A gray PNG of the picture's size; its values are class numbers and 255."""
    image = Image.new("L", SIZES[seed % len(SIZES)], 0)
    draw = ImageDraw.Draw(image)
    draw.rectangle((2, 2, 9, 9), fill=1 + seed % 3)
    draw.rectangle((11, 4, 13, 4 + seed % 8), fill=255)
    return encoded(image, "PNG")


def boxes(seed: int) -> list[list[float]]:
    """One to three boxes as fractions: x0 y0 x1 y1; the first picture has one."""
    return [[0.125 * n, 0.25, 0.125 * n + 0.25, 0.5 + 0.0625 * n] for n in range(1, 2 + seed % 3)]


def seen(data: bytes) -> dict[str, object]:
    """What a reader may compare of an encoded image."""
    with Image.open(io.BytesIO(data)) as image:
        return {
            "bytes": hashlib.sha256(data).hexdigest(),
            "pixels": hashlib.sha256(image.convert("RGB").tobytes()).hexdigest(),
            "size": list(image.size),
        }


def seen_pixels(image: Image.Image) -> dict[str, object]:
    """The same of an image that is stored without an encoding."""
    pixels = hashlib.sha256(image.convert("RGB").tobytes()).hexdigest()
    return {"bytes": None, "pixels": pixels, "size": list(image.size)}


def place(name: str) -> Path:
    """Make an empty directory for a set."""
    path = DATA / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def truth(
    name: str,
    tool: str,
    samples: Iterable[dict[str, Any]],
    types: dict[str, str],
    classes: dict[str, list[str]] | None = None,
) -> None:
    """Write what is in a set.

    Args:
        name: That of the set.
        tool: What wrote it, with its version.
        samples: In the order of the source: key (null if the source has none) and fields.
        types: The type of each field; the image is `image`, the label `label`.
        classes: The names of the classes of a field.
    """
    values = {"tool": tool, "types": types, "classes": classes or {}, "samples": list(samples)}
    text = json.dumps(values, ensure_ascii=False, indent=1)
    (DATA / f"{name}.json").write_text(text + "\n", encoding="utf-8")
