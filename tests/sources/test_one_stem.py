"""A file beside the manifest of another, which only has the same stem, is read by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import dsprep
from dsprep.sources.shards.shardset import find_shards
from tests.images import image_folder


@pytest.fixture
def tars(tmp_path: Path) -> Path:
    """`a.tar` without a manifest, and `a.tfrecord`, which has one, of an image less."""
    image_folder(tmp_path / "images", ("cat", "dog"), 2, size=(16, 16))
    made = tmp_path / "made"
    dsprep.pack(str(tmp_path / "images"), str(made), format="webdataset", workers=1)
    (made / "train-000000.tar").rename(tmp_path / "a.tar")
    (tmp_path / "images" / "cat" / "000.jpg").unlink()
    dsprep.pack(str(tmp_path / "images"), str(tmp_path / "a.tfrecord"), workers=1)
    return tmp_path


def test_is_what_is_converted(tars: Path) -> None:
    found = find_shards(str(tars / "a.tar"))
    assert found is not None
    assert (found.layout.name, found.files) == ("webdataset", (str(tars / "a.tar"),))
    report = dsprep.convert(str(tars / "a.tar"), str(tars / "b.rec"), workers=1)
    assert report.samples == 4


def test_is_what_is_verified(tars: Path) -> None:
    alone = dsprep.verify(str(tars / "a.tar"), workers=1)
    assert (alone.format, alone.samples, alone.manifest) == ("webdataset", 4, False)
    known = dsprep.verify(str(tars / "a.tfrecord"), workers=1)
    assert (known.format, known.samples, known.manifest) == ("tfrecord", 3, True)


def test_is_what_is_verified_of_a_directory(tars: Path) -> None:
    (tars / "made").rename(tars / "a")
    (tars / "a" / "manifest.json").unlink()
    (tars / "a.tar").rename(tars / "a" / "x.tar")
    report = dsprep.verify(str(tars / "a"), workers=1)
    assert (report.format, report.samples, report.manifest) == ("webdataset", 4, False)
