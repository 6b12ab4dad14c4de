"""The loops in ``examples/loops``, as a user runs them: on data that lacks what they look for."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from dsprep.benching.cells import loop_of
from tests.images import jpeg

# PyTorch is too large for what tests install: 700 MB.
ON_FOLDERS = ["raw", *(["torch"] if find_spec("torch") else [])]
ON_TARS = ["raw", "webdataset", *(["wids"] if find_spec("torch") else [])]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Nothing, a folder without images, tars without images, and one where a sample lacks one."""
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.txt").write_text("text")
    _write_tar(tmp_path / "none.tar", {})
    _write_tar(tmp_path / "labels.tar", {"a.cls": b"1", "b.cls": b"2"})
    _write_tar(tmp_path / "mixed.tar", {"a.jpg": jpeg(1), "b.cls": b"2", "c.jpg": jpeg(3)})
    return tmp_path


def _write_tar(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def run(reader: str, path: Path, **options: object) -> tuple[int, int, str]:
    """Run a loop; returns its exit code, the number of its images, and its last words."""
    done = subprocess.run(
        [sys.executable, loop_of(reader, "file"), path],
        env=os.environ | {"LOOP_OPTIONS": json.dumps({"work": "bytes", "batch": 2, **options})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]
    return (
        done.returncode,
        sum(line.get("images", 0) for line in lines),
        done.stderr.strip().rpartition("\n")[2],
    )


@pytest.mark.parametrize("reader", ON_FOLDERS)
def test_a_folder_without_images_ends_the_loop(place: Path, reader: str) -> None:
    """It would begin a new epoch for ever."""
    code, images, said = run(reader, place / "text", steps=3, workers=0)
    assert (code, images) == (1, 0)
    assert said == f"{place / 'text'}: no images"


@pytest.mark.parametrize("reader", ON_TARS)
@pytest.mark.parametrize("name", ["none", "labels"])
def test_a_tar_without_images_ends_the_loop(place: Path, reader: str, name: str) -> None:
    code, images, said = run(reader, place / f"{name}.tar", steps=3, workers=0)
    assert (code, images) == (1, 0), said


@pytest.mark.parametrize("reader", ON_TARS[1:])
@pytest.mark.parametrize("workers", [0, 2] if find_spec("torch") else [0])
def test_a_sample_without_an_image_does_not_end_the_epoch_in_silence(
    place: Path, reader: str, workers: int
) -> None:
    """An iterator that ends inside of another one ends both, without an error."""
    code, _, said = run(reader, place / "mixed.tar", workers=workers)
    assert (code, said.endswith(("b has no image", "raised StopIteration"))) == (1, True), said
