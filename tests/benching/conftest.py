"""Small data sets of each format that a reader knows; nobody writes into them."""

from __future__ import annotations

from pathlib import Path

import pytest

import dsprep
from tests.images import image_folder

FORMATS = ("webdataset", "tfrecord", "recordio", "parquet")


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 24 images, and the same as 3 shards of each format."""
    root = tmp_path_factory.mktemp("bench")
    image_folder(root / "folder", ("cat", "dog"), 12, size=(320, 240))
    for name in FORMATS:
        dsprep.pack(root / "folder", root / name, to=name, shards=3, workers=1)
    return root
