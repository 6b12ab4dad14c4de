"""Reading bytes at places in files."""

from __future__ import annotations

import os
from pathlib import Path

from dsprep.readers.places import Descriptors


def test_more_files_than_may_be_open(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(400)]
    for path in paths:
        path.write_text(path.name)
    before = len(os.listdir("/proc/self/fd"))
    with Descriptors(tuple(map(str, paths))) as descriptors:
        for number in (*range(400), 0, 399, 200, 0):
            assert os.pread(descriptors[number], 9, 0) == b"%d" % number
        assert 1 < len(os.listdir("/proc/self/fd")) - before <= 256
    assert len(os.listdir("/proc/self/fd")) == before
