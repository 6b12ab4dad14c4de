"""Convert MDS with MosaicML Streaming's reader and webdataset's ShardWriter.

Usage: mds_to_webdataset.py SOURCE DEST
"""

from __future__ import annotations

import os
import sys
from typing import Any

import streaming_base  # noqa: F401
import webdataset
from streaming.base import LocalDataset

source, dest = sys.argv[1:]
os.mkdir(dest)
dataset: Any = LocalDataset(source)
with webdataset.ShardWriter(f"{dest}/train-%06d.tar", maxsize=124_000_000, verbose=0) as sink:
    for number in range(len(dataset)):
        sample = dataset[number]
        image = sample["image"].fp.getvalue()  # opened by Pillow, and not decoded
        sink.write({"__key__": sample["__key__"], "jpg": image, "cls": sample["label"]})
