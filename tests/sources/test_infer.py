"""The fields that commands find in what dsprep, or a schema file, says of a source."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import Finished
from tests.images import jpeg, png

RunHere = Callable[..., Finished]


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    """A shard of samples that are an image, a mask, a label in text, JSON, text and bytes."""
    path = tmp_path / "shard.tar"
    with tarfile.open(path, "w") as tar:
        for number in range(12):
            parts = {
                "jpg": jpeg(number),
                "cls": f"{number}\n".encode(),
                "json": json.dumps({"number": number}).encode(),
                "txt": f"text {number}".encode(),
                "mask.png": png(number),
                "more.npy": bytes([number]),
            }
            for extension, data in parts.items():
                member = tarfile.TarInfo(f"{number}/s.{extension}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return path


def test_a_folder_that_dsprep_wrote_has_its_fields(
    run_here: RunHere, shard: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    assert run_here("convert", shard, folder, "--to", "folder", "-j1").code == 0
    done = run_here("convert", folder, tmp_path / "again.tar", "--to", "webdataset", "-j1")
    assert done.code == 0, done.err
    expected = members(shard)
    for number in range(12):
        expected[f"{number}/s.cls"] = str(number).encode()
    assert members(tmp_path / "again.tar") == expected
    shuffled = run_here("pack", folder, tmp_path / "out", "--format", "webdataset", "-j2")
    assert shuffled.code == 0, shuffled.err
    assert members(tmp_path / "out/train-000000.tar") == expected


def test_an_edited_folder_is_read_as_files(run_here: RunHere, shard: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    assert run_here("convert", shard, folder, "--to", "folder", "-j1").code == 0
    shutil.copy(folder / "0/s.jpg", folder / "0/new.jpg")
    told = ("--from", "images", "--dry-run", "--json")
    done = run_here("pack", folder, tmp_path / "out", "--format", "webdataset", *told)
    assert json.loads(done.out)["samples"] == 25
    (folder / "0/s.jpg").unlink()
    done = run_here("pack", folder, tmp_path / "out", "--format", "webdataset", "--dry-run")
    assert "the manifest" not in done.out


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """A shard whose labels are names that end in a line break."""
    path = tmp_path / "named.tar"
    with tarfile.open(path, "w") as tar:
        for number in range(4):
            parts = {"jpg": jpeg(number), "cls": (b"cat\n", b"dog\n")[number % 2]}
            for extension, data in parts.items():
                member = tarfile.TarInfo(f"{number}.{extension}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return path


def test_the_text_of_a_label_has_no_line_break(
    run_here: RunHere, named: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.parquet"
    told = ("--to", "parquet", "--label-type", "text", "-j1")
    assert run_here("convert", named, out, *told).code == 0
    assert pl.read_parquet(out)["label"].to_list() == ["cat", "dog", "cat", "dog"]
    done = run_here("pack", named, tmp_path / "out", "--format", "tfrecord", "-j1")
    assert done.code == 0, done.err
    assert (tmp_path / "out/classes.txt").read_text() == "cat\ndog\n"


def test_a_schema_without_a_label(run_here: RunHere, shard: Path, tmp_path: Path) -> None:
    fields = [
        {"name": "image", "type": "image", "places": [["*"]]},
        {"name": "label", "type": "int", "places": [["cls"]]},
    ]
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"fields": fields, "image": "image", "label": None}))
    out = tmp_path / "out.parquet"
    done = run_here("convert", shard, out, "--to", "parquet", "--schema", schema, "-j1")
    assert done.code == 0, done.err
    manifest = json.loads((tmp_path / "out.parquet.manifest.json").read_text())
    assert manifest["schema"]["label"] is None
    assert pl.read_parquet(out)["label"].to_list() == list(range(12))
