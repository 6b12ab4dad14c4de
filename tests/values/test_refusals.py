"""What converting and sharding refuse says what is wrong, of what, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

import dsprep
from dsprep.run.identity import differences
from tests.images import image_folder


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("refusals")
    image_folder(root / "images", ("cat", "dog"), 2, size=(16, 16))
    dsprep.pack(str(root / "images"), str(root / "shards"), format="webdataset", workers=1)
    return str(root / "shards")


@pytest.mark.parametrize(
    ("call", "options", "said"),
    [
        (dsprep.convert, {}, "its name has no format"),
        (
            dsprep.convert,
            {"to": "tfrecord", "prefix": "s3://b/"},
            "--prefix s3://b/ has no effect: it goes with augmented-man",
        ),
        (dsprep.convert, {"to": "folder", "shards": 2}, "--shards 2 has no effect: .*out is"),
        (
            dsprep.convert,
            {"to": "tfrecord", "parts": True, "list_file": "x.manifest"},
            "x.manifest: is a manifest, which goes with images, not --parts",
        ),
        (dsprep.shard, {"shards": 9}, "there are 4 samples to put into them"),
    ],
)
def test_options(
    call: Callable[..., Any], options: dict[str, Any], said: str, shards: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(dsprep.DsprepError, match=said):
        call(shards, str(out), workers=1, **options)
    assert not out.exists()


def test_nothing_that_is_kept(shards: str, tmp_path: Path) -> None:
    with pytest.raises(dsprep.DsprepError, match="--only mask: no sample has this field"):
        dsprep.convert(shards, str(tmp_path / "out"), to="tfrecord", only=("mask",), workers=1)


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        (["gone"], "gone: does not exist; give a directory or an archive of images, or shards"),
        (["{shards}/train-000000.tar", "gone.tar"], "gone.tar: does not exist"),
        (["{shards}/none-*.tar"], "none-[*].tar: there are no such files"),
        (["{shards}/train-{{000000..000001}}.tar"], "train-000001.tar: there is no such shard"),
        (["{empty}"], "holds no images, nor anything else"),
        (["{lmdb}"], "holds no images that dsprep reads, but 1 .mdb: this is LMDB, which dsprep"),
        (["{videos}"], "but 1 .mp4: these are videos, which .* ffmpeg"),
        (["{arrays}"], "but 1 .h5: to read arrays .*: dsprep pack '.*/arrays/a b'$"),
        (["{bare}"], "but 1 .npy: none has an array of bytes that are images, N x H x W"),
        (["{norb}"], "but 1 .mat: this is smallNORB, which dsprep does not read"),
        (["{tables}"], "1 .zip: to read a table .* as the source: dsprep pack .*/a b.csv'$"),
    ],
)
def test_sources(sources: list[str], said: str, shards: str, tmp_path: Path) -> None:
    places = {name: tmp_path / name for name in ("empty", "lmdb", "tables", "videos", "arrays")}
    places |= {name: tmp_path / name for name in ("bare", "norb")}
    for each in places.values():
        each.mkdir()
    (tmp_path / "arrays/a b").mkdir()
    names = ["lmdb/data.mdb", "tables/a b.csv", "tables/b.zip", "videos/a.mp4"]
    for name in (*names, "arrays/a b/x.h5", "norb/smallnorb-5x-training-dat.mat"):
        (tmp_path / name).write_text("x")
    numpy.save(tmp_path / "bare/a.npy", numpy.zeros((2, 2, 9, 9, 9), "u1"))
    named = [each.format(shards=shards, **places) for each in sources]
    with pytest.raises(dsprep.DsprepError, match=said):
        dsprep.convert(named, str(tmp_path / "out"), to="tfrecord", workers=1)


@pytest.mark.parametrize("options", [{"parts": True}, {"list_file": "x.manifest"}])
def test_a_second_source_that_would_not_be_read(
    options: dict[str, Any], shards: str, tmp_path: Path
) -> None:
    sources = [str(Path(shards).with_name("images")), shards]
    with pytest.raises(dsprep.DsprepError, match=f"{shards}: several sources must be shards"):
        dsprep.convert(sources, str(tmp_path / "out"), to="tfrecord", workers=1, **options)


def test_a_pattern_that_the_shell_has_expanded(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        (tmp_path / name).touch()
    sources = [str(tmp_path), str(tmp_path / "a.png")]
    with pytest.raises(dsprep.DsprepError, match=r"a\.png: several sources .* put quotes around"):
        dsprep.pack(sources, str(tmp_path / "out"), to="tfrecord", workers=1)


def test_nothing_to_leave_out(tmp_path: Path) -> None:
    with pytest.raises(dsprep.DsprepError, match="holds no images"):
        dsprep.pack(str(tmp_path), str(tmp_path / "out"), to="mds", leave_out=["*"], workers=1)


def test_how_commands_differ() -> None:
    assert differences({"size": 1}, {"size": 1}) == ""
    assert differences({"size": 1}, {"size": 2, "seed": 0}) == "other size, seed"
    assert differences({"size": 1, "fields": {}}, {"size": 1}) == "other fields"
