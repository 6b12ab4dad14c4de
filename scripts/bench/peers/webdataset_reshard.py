"""Cut WebDataset shards again with webdataset's own reader and its ShardWriter.

Usage: webdataset_reshard.py SOURCE PATTERN MAXSIZE
"""

from __future__ import annotations

import sys
from pathlib import Path

import webdataset

source, pattern, maxsize = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
shards = [str(path) for path in sorted(source.glob("*.tar"))]

with webdataset.ShardWriter(pattern, maxsize=maxsize) as sink:
    for sample in webdataset.WebDataset(shards, shardshuffle=False):
        sink.write(sample)
