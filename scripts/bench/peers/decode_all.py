"""Decode all images of a folder once, on all cores, and do nothing with them.

Usage: decode_all.py ROOT
"""

from __future__ import annotations

import os
import sys
from multiprocessing import Pool
from pathlib import Path

from PIL import Image


def decode(path: Path) -> int:
    """Return the number of pixels."""
    with Image.open(path) as image:
        colors = image.convert("RGB")
    return colors.width * colors.height


if __name__ == "__main__":
    paths = sorted(Path(sys.argv[1]).glob("*/*"))
    with Pool(len(os.sched_getaffinity(0))) as pool:
        print(sum(pool.imap_unordered(decode, paths, chunksize=64)))
