"""Lists of sources with boxes: MXNet's labels for detection."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

import dsprep
from tests.conftest import Finished

Cli = Callable[..., Finished]
SIZE = (40, 20)
HEAD = "class,image,xmin,ymin,xmax,ymax\n"
ROWS = ["dog,1.jpg,10,5,30,15\n", "cat,1.jpg,0,0,40,20\n", "dog,2.jpg,4,2,8,4\n"]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Three images, the third without objects; the second is stored on its side."""
    root = tmp_path / "images"
    root.mkdir()
    for number in (1, 2, 3):
        exif = Image.Exif()
        exif[0x0112] = 6 if number == 2 else 1
        size = SIZE[::-1] if number == 2 else SIZE
        Image.new("RGB", size, (number * 60, 9, 90)).save(root / f"{number}.jpg", exif=exif)
    (tmp_path / "boxes.csv").write_text(HEAD + "".join(ROWS))
    return root


def rows_of(path: Path) -> dict[str, list[float]]:
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    return {line[-1]: [float(value) for value in line[1:-1]] for line in lines}


LABELS = {
    "1.jpg": [4, 5, 40, 20, 1, 0.25, 0.25, 0.75, 0.75, 0, 0, 0, 1, 1],
    "2.jpg": [4, 5, 40, 20, 1, 0.1, 0.1, 0.2, 0.2],
    "3.jpg": [4, 5, 40, 20],
}


def test_a_list_has_boxes_as_shares(run_here: Cli, images: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.lst"
    done = run_here("lst", "create", images, "-o", out, "--annotations", tmp_path / "boxes.csv")
    assert done.code == 0, done.err
    assert rows_of(out) == LABELS
    assert (tmp_path / "classes.txt").read_text() == "cat\ndog\n"
    done = run_here("lst", "stats", out)
    assert "objects for detection" in done.out


def test_numbers_of_a_list_are_those_that_mxnet_can_hold(
    run_here: Cli, images: Path, tmp_path: Path
) -> None:
    for number in (1, 2, 3):
        Image.new("RGB", (30, 70), (number * 60, 9, 90)).save(images / f"{number}.jpg")
    (tmp_path / "boxes.csv").write_text(HEAD + "dog,1.jpg,10,10,20,30\n")
    out = tmp_path / "a.lst"
    own = ("--annotations", tmp_path / "boxes.csv", "--no-shuffle")
    assert run_here("lst", "create", images, "-o", out, *own).code == 0
    line = out.read_text().splitlines()[0]
    assert line.endswith("0.333333333\t0.142857143\t0.666666667\t0.428571429\t1.jpg")


def test_what_needs_files_says_what_boxes_need(run_here: Cli, images: Path, tmp_path: Path) -> None:
    own = ("--annotations", tmp_path / "boxes.csv", "--ratio", "train=0.5,val=0.5")
    done = run_here("split", images, "-o", tmp_path / "x", *own, "--materialize", "copy")
    assert (done.code, "--materialize is for images alone" in done.err) == (2, True), done.err
    assert "--split train=0.8,val=0.2" in done.err
    given = ("--masks", images, "--mask-values", "1")
    done = run_here("pack", images, tmp_path / "y", "--to", "webdataset", *given)
    assert "write it as --mask-values VALUE=NUMBER" in done.err


def test_lists_of_a_split_have_boxes(images: Path, tmp_path: Path) -> None:
    report = dsprep.split(
        images,
        tmp_path / "lists",
        annotations=[tmp_path / "boxes.csv"],
        ratios={"train": 0.5, "val": 0.5},
    )
    found = rows_of(tmp_path / "lists/train.lst") | rows_of(tmp_path / "lists/val.lst")
    assert found == LABELS
    assert not any("no label" in note for note in report.notes)


def test_flags_are_the_sixth_value_of_all_objects(tmp_path: Path, images: Path) -> None:
    path = tmp_path / "boxes.csv"
    path.write_text(
        HEAD.replace("\n", ",IsGroupOf\n")
        + "".join(f"{row.rstrip()},{int(row == ROWS[2])}\n" for row in ROWS)
    )
    dsprep.split(images, tmp_path / "lists", annotations=[path], ratios={"train": 1.0})
    found = rows_of(tmp_path / "lists/train.lst")
    assert found["1.jpg"][:10] == [4, 6, 40, 20, 1, 0.25, 0.25, 0.75, 0.75, 0]
    assert found["2.jpg"] == [4, 6, 40, 20, 1, 0.1, 0.1, 0.2, 0.2, 1]
    assert found["3.jpg"] == [4, 6, 40, 20]
