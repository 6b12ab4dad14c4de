"""Write a folder of images with webdataset's ShardWriter.

Usage: webdataset_writer.py ROOT PATTERN MAXSIZE
"""

from __future__ import annotations

import os
import random
import sys

import webdataset

root, pattern, maxsize = sys.argv[1], sys.argv[2], float(sys.argv[3])
classes = sorted(os.listdir(root))
samples = [(cls, file) for cls in classes for file in os.listdir(f"{root}/{cls}")]
labels = {name: number for number, name in enumerate(classes)}
random.seed(0)
random.shuffle(samples)

with webdataset.ShardWriter(pattern, maxsize=maxsize) as sink:
    for cls, file in samples:
        with open(f"{root}/{cls}/{file}", "rb") as stream:
            image = stream.read()
        key = f"{cls}/{os.path.splitext(file)[0]}"
        sink.write({"__key__": key, "jpg": image, "cls": labels[cls]})
