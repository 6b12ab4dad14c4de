"""Shards that are cut again without being parsed: damage does not travel with what is copied."""

from __future__ import annotations

from pathlib import Path

import pytest

import dsprep
from dsprep.errors import RunStopped
from tests.images import image_folder


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Nine samples as TFRecord, the payload of the fifth with a flipped bit."""
    image_folder(tmp_path / "images", ("a",), 9)
    shard = tmp_path / "train.tfrecord"
    dsprep.pack(str(tmp_path / "images"), str(shard), shuffle=False, workers=1)
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    return shard


def test_a_wrong_checksum_is_a_reject(shards: Path, tmp_path: Path) -> None:
    report = dsprep.shard(str(shards), str(tmp_path / "out"), shards=3, workers=1)
    assert report.samples == 8
    (reject,) = report.rejects
    assert reject.path == "train-0000004"
    assert "checksum" in reject.reason and "at byte " in reject.reason
    assert not dsprep.verify(str(tmp_path / "out"), workers=1).problems


def test_a_wrong_checksum_ends_a_run_that_is_to_fail(shards: Path, tmp_path: Path) -> None:
    with pytest.raises(RunStopped, match="checksum"):
        dsprep.shard(str(shards), str(tmp_path / "out"), shards=3, workers=1, on_error="fail")
