"""Tell how true resized images in a RecordIO file are to their originals; print JSON.

Each image of a seeded sample is compared with a reference: its original decoded in full and resized
by Lanczos to the same width and height. The mean of the images' PSNR is printed, in decibels.

Usage: psnr.py ROOT REC COUNT
"""

from __future__ import annotations

import builtins
import io
import json
import random
import sys
from pathlib import Path

import numpy as np
from PIL import Image

for name in ("bool", "int", "float", "complex", "object", "str"):
    setattr(np, name, getattr(builtins, name))

import mxnet as mx  # noqa: E402  (after the names that it needs are back in NumPy)


def psnr(image: Image.Image, original: Image.Image) -> float:
    """Peak signal-to-noise ratio of an RGB image against its reference, in decibels."""
    reference = original.convert("RGB").resize(image.size, Image.Resampling.LANCZOS)
    error = np.asarray(image.convert("RGB"), float) - np.asarray(reference, float)
    return float(10 * np.log10(255**2 / np.mean(error**2)))


def main(root: Path, rec: Path, count: int) -> None:
    """Compare a sample of `count` images of `rec` with the files under `root`."""
    lines = [line.split("\t") for line in rec.with_suffix(".lst").read_text().splitlines()]
    paths = {int(line[0]): root / line[-1] for line in lines}
    records = mx.recordio.MXIndexedRecordIO(str(rec.with_suffix(".idx")), str(rec), "r")
    values = []
    for index in random.Random(0).sample(sorted(paths), min(count, len(paths))):
        _, encoded = mx.recordio.unpack(records.read_idx(index))
        values.append(psnr(Image.open(io.BytesIO(encoded)), Image.open(paths[index])))
    print(json.dumps({"psnr": sum(values) / len(values), "images": len(values)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
