"""Convert RecordIO shards with MXNet's reader and webdataset's TarWriter.

MXNet 1.9.1 uses names that NumPy has removed since; they are put back first.

Usage: recordio_to_webdataset.py SOURCE DEST
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy
import webdataset

for builtin in (bool, int, float, complex, object, str):
    setattr(numpy, builtin.__name__, builtin)

from mxnet import recordio  # noqa: E402

source, dest = Path(sys.argv[1]), Path(sys.argv[2])

dest.mkdir()
for shard in sorted(source.glob("*.rec")):
    reader = recordio.MXRecordIO(str(shard), "r")
    with webdataset.TarWriter(str(dest / f"{shard.stem}.tar")) as sink:
        while (record := reader.read()) is not None:
            header, image = recordio.unpack(record)
            sink.write({"__key__": str(header.id), "jpg": image, "cls": int(header.label)})
    reader.close()
