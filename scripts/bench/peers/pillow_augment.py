"""Write an augmented copy of each image of a folder with Pillow, in two processes.

Usage: pillow_augment.py ROOT DEST
"""

from __future__ import annotations

import math
import os
import random
import sys
from multiprocessing import Pool

from PIL import Image, ImageEnhance

root, dest = sys.argv[1], sys.argv[2]


def augment(name: str) -> None:
    """Write a copy that is turned, moved, enlarged, mirrored and made brighter by chance."""
    draw = random.Random(name).uniform
    with Image.open(f"{root}/{name}") as opened:
        image = opened.convert("RGB")
    width, height = image.size
    angle, zoom = math.radians(draw(-20, 20)), 1 / draw(0.8, 1.2)
    mirror = -1 if draw(0, 1) < 0.5 else 1
    a, b = zoom * mirror * math.cos(angle), -zoom * math.sin(angle)
    d, e = zoom * mirror * math.sin(angle), zoom * math.cos(angle)
    x, y = width * (0.5 + draw(-0.1, 0.1)), height * (0.5 + draw(-0.1, 0.1))
    c, f = x - a * width / 2 - b * height / 2, y - d * width / 2 - e * height / 2
    affine = (a, b, c, d, e, f)
    image = image.transform(image.size, Image.Transform.AFFINE, affine, Image.Resampling.BILINEAR)
    image = ImageEnhance.Brightness(image).enhance(draw(0.8, 1.2))
    image.save(f"{dest}/{name}", quality=90)


if __name__ == "__main__":
    for folder in os.listdir(root):
        os.makedirs(f"{dest}/{folder}")
    names = [
        f"{folder}/{file}" for folder in os.listdir(root) for file in os.listdir(f"{root}/{folder}")
    ]
    with Pool(2) as pool:
        pool.map(augment, names)
