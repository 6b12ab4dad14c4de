"""The files that stand beside each shard, as their readers expect them."""

from __future__ import annotations

from pathlib import Path

import pytest

import dsprep
from dsprep.formats import SHARDED, TABLES
from tests.images import image_folder

BESIDE = {"recordio": [".idx", ".lst", ".rec"]}


@pytest.mark.parametrize("name", sorted({*SHARDED} - {*TABLES}))  # which hold no images
def test_every_shard_has_its_files(tmp_path: Path, name: str) -> None:
    image_folder(tmp_path / "images", ("cat", "dog"), 2)
    dsprep.pack(tmp_path / "images", tmp_path / "out", to=name, shards=1, workers=1)
    found = sorted(path.suffix for path in (tmp_path / "out").glob("train-0*"))
    assert found == BESIDE.get(name, [SHARDED[name].suffix])
