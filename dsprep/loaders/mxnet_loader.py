"""MXNet's readers: MXIndexedRecordIO, and ImageRecordIter where all records have as many labels."""

from __future__ import annotations

from pathlib import Path

import numpy

# MXNet 1.9.1 uses names that NumPy dropped in 1.24.
for _alias in (bool, int, float, object, str, complex):
    if _alias.__name__ not in vars(numpy):
        setattr(numpy, _alias.__name__, _alias)

import mxnet  # noqa: E402

_EDGE = 32
_BATCH = 16


def count_samples(path: str) -> int:
    """Read and decode all records of a ``.rec``."""
    index = Path(path).with_suffix(".idx")
    if index.exists():
        records = mxnet.recordio.MXIndexedRecordIO(str(index), path, "r")
        headers = [mxnet.recordio.unpack(records.read_idx(key))[0] for key in records.keys]
    else:
        records = mxnet.recordio.MXRecordIO(path, "r")
        headers = [mxnet.recordio.unpack(record)[0] for record in iter(records.read, None)]
    widths = {header.flag or 1 for header in headers}
    if len(widths) != 1:
        return len(headers)  # ImageRecordIter takes labels of one width only
    batches = mxnet.io.ImageRecordIter(
        path_imgrec=path,
        data_shape=(3, _EDGE, _EDGE),
        resize=_EDGE,
        label_width=widths.pop(),
        batch_size=min(_BATCH, len(headers)),
        preprocess_threads=1,
        verbose=False,
    )
    return sum(batch.data[0].shape[0] - batch.pad for batch in batches)
