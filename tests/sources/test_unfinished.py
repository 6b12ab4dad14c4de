"""What an unfinished run has written is not taken for the whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dsprep
import dsprep.run.write
from dsprep.errors import Interrupted, SourceError
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from tests.images import image_folder

Kill = Callable[..., None]


@pytest.fixture
def images(tmp_path: Path) -> str:
    image_folder(tmp_path / "images", ("cat", "dog"), 2, size=(16, 16))
    return str(tmp_path / "images")


@pytest.fixture
def stopped(images: str, monkeypatch: pytest.MonkeyPatch) -> Kill:
    """Packs, and is stopped after the shards, before the manifest."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    def run(dest: Path, **options: Any) -> None:
        with monkeypatch.context() as patch, pytest.raises(Interrupted):
            patch.setattr(dsprep.run.write, "commit", stop)
            dsprep.pack(images, str(dest), workers=1, **options)

    return run


@pytest.mark.parametrize(
    ("format_name", "suffix"),
    [
        ("webdataset", ".tar"),
        ("tfrecord", ".tfrecord"),
        ("recordio", ".rec"),
        ("parquet", ".parquet"),
    ],
)
def test_a_directory(
    format_name: str, suffix: str, images: str, stopped: Kill, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    stopped(out, format=format_name, shards=2)
    said = rf"{out}: .* unfinished run .* name the shards .*'{out}/\*{suffix}'"
    for convert in (dsprep.convert, dsprep.shard):
        with pytest.raises(SourceError, match=said):
            convert(str(out), str(tmp_path / "again"), to="tfrecord", workers=1)
    with pytest.raises(SourceError, match=said):
        read_source(make_source(str(out)))
    read_source(make_source(f"{out}/*{suffix}"))
    read_source(make_source(str(min(out.glob(f"*{suffix}")))))
    dsprep.pack(images, str(out), format=format_name, shards=2, workers=1)
    assert len(read_source(make_source(str(out)))[0]) == 4


def test_one_file_of_a_directory(images: str, stopped: Kill, tmp_path: Path) -> None:
    out = tmp_path / "out"
    dsprep.pack(images, str(out / "train.tar"), workers=1)
    stopped(out / "val.tar")
    (out / "val.tar").unlink()
    with pytest.raises(SourceError, match=r"unfinished run has left \.val\.tar\.dsprep there"):
        read_source(make_source(str(out)))
    assert len(read_source(make_source(str(out / "train.tar")))[0]) == 4


def test_a_run_that_writes_into_its_source_goes_on(
    images: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    dsprep.pack(images, str(out), format="webdataset", shards=2, workers=1)
    (out / "manifest.json").unlink()
    ours = out / ".all.tfrecord.dsprep"
    ours.mkdir()
    (ours / "run.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    report = dsprep.convert("out", str(out / "all.tfrecord"), workers=1, overwrite=True)
    assert report.samples == 4


def test_a_transfer_that_has_not_ended(images: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    dsprep.pack(images, str(out), format="webdataset", shards=2, workers=1)
    (out / ".dsprep").mkdir()
    (out / ".dsprep" / "train-000001.tar.partial").touch()
    read_source(make_source(str(out)))
    (out / "manifest.json").unlink()
    with pytest.raises(SourceError, match="unfinished run"):
        read_source(make_source(str(out)))
