"""A pipe that a shell names, ``<(command)``, is taken where an option takes a file."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import dsprep
from dsprep.errors import SourceError
from dsprep.storage.local import keep_stream
from tests.attack.trees import contents
from tests.conftest import Finished

RunCli = Callable[..., Finished]


def pipe(text: str) -> str:
    """Return the name of a pipe that holds a text, as a shell gives it."""
    read, write = os.pipe()
    os.write(write, text.encode())
    os.close(write)
    return f"/dev/fd/{read}"


OPTIONS = {
    "--keep-classes": "dog\ncat\n",
    "--classes": "dog\ncat\npets/ねこ\n",
    "--list": "1\t0\tdog/000.jpg\n0\t1\tcat/000.jpg\n",
    "--labels": "path,label\ncat/000.jpg,b\ndog/001.jpg,a\n",
    "--filter-table": "path,keep\ncat/000.jpg,true\ndog/001.jpg,false\n",
    "--annotations": "path,xmin,ymin,xmax,ymax,label\ncat/000.jpg,0,0,10,10,x\n",
}


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_reads_a_pipe_as_the_file_that_it_would_be(
    run_here: RunCli, photos: Path, tmp_path: Path, option: str
) -> None:
    more = ("--annotation-format", "csv") if option == "--annotations" else ()
    (tmp_path / "given.csv").write_text(OPTIONS[option])
    made = []
    for given in (tmp_path / "given.csv", pipe(OPTIONS[option])):
        words = ("--to", "webdataset", option, given, *more, "--overwrite")
        done = run_here("pack", photos, tmp_path / "out", *words)
        assert done.code == 0, done.err
        made.append(contents(tmp_path / "out"))
    assert made[0] == made[1]


def test_a_pipe_of_a_shell(command: Path, photos: Path, tmp_path: Path) -> None:
    """Workers read it, too: that of a file of COCO."""
    image = {"id": 1, "file_name": "cat/000.jpg", "width": 64, "height": 48}
    box = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 9, 9]}
    told = {"images": [image], "annotations": [box], "categories": [{"id": 1, "name": "x"}]}
    (tmp_path / "coco.json").write_text(json.dumps(told))
    for option, file, what in (
        ("--annotations", "coco.json", "1 of 1 class in 1 image"),
        ("--keep-classes", "/dev/stdin", "1, of 4 samples"),
    ):
        line = f'"{command}" pack "{photos}" out{option} --to webdataset {option} <(cat {file})'
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=tmp_path,
            input="cat\n",
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, what in done.stdout) == (0, True), done


def test_what_is_no_pipe_of_a_shell_is_refused_by_name(
    run_here: RunCli, photos: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name in (str(tmp_path / "fifo"), "/dev/fd/9999"):
        for option in OPTIONS:
            done = run_here("pack", photos, tmp_path / "out", "--to", "recordio", option, name)
            assert (done.code, name in done.err) == (4, True), done


def test_a_pipe_to_write_to_is_not_read() -> None:
    read, write = os.pipe()
    keep_stream(f"/dev/fd/{write}")
    os.write(write, b"written")
    assert os.read(read, 9) == b"written"
    for each in (read, write):
        os.close(each)


def test_a_pipe_without_an_end_is_refused(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsprep.storage.local.LARGEST_TABLE", 10)
    monkeypatch.setattr("dsprep.storage.local.read_stream.__defaults__", (10,))
    with pytest.raises(SourceError, match="does not end after 10 B"):
        dsprep.pack(photos, tmp_path / "out", to="webdataset", labels=pipe("x" * 100))
