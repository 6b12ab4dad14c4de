"""Files of one stem stand beside each other, each with its own companions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Finished
from tests.images import image_folder

RunHere = Callable[..., Finished]

FILES = ("train.tar", "train.tfrecord", "train.tfrecord.gz", "train.rec", "train.parquet")


@pytest.fixture
def beside(run_here: RunHere, tmp_path: Path) -> Path:
    """One data set in a file of each format, all made of the first one."""
    image_folder(tmp_path / "in", ("cat", "dog"), per_class=2)
    place = tmp_path / "out"
    assert run_here("pack", tmp_path / "in", place / FILES[0], "-qj1").code == 0
    for name in FILES[1:]:
        assert run_here("convert", place / FILES[0], place / name, "-qj1").code == 0
    return place


def test_each_is_whole_and_known(run_here: RunHere, beside: Path) -> None:
    for name in FILES:
        (beside / f"{name}.manifest.json").stat()
        (beside / f"{name}.classes.txt").stat()
        assert run_here("verify", beside / name, "-j1").code == 0
    whole = run_here("verify", beside, "-j1")
    assert (whole.code, "20 samples" in whole.out.replace("samples   20", "20 samples")) == (
        0,
        True,
    )
    again = run_here("convert", beside / FILES[0], beside / FILES[1], "-j1")
    assert (again.code, "already converted" in again.out) == (0, True)


def test_a_folder_beside_them(run_here: RunHere, beside: Path) -> None:
    for path in beside.glob("train.rec*"):
        path.unlink()
    (beside / "train.idx").unlink()
    (beside / "train.lst").unlink()
    done = run_here("convert", beside / "train.tar", beside / "train", "--to", "folder", "-j1")
    assert done.code == 0, done.err
    assert run_here("verify", beside / "train", "-j1").code == 0
    assert run_here("verify", beside, "-j1").code == 0


def test_overwriting_one_leaves_the_others(run_here: RunHere, beside: Path) -> None:
    before = {path.name: path.read_bytes() for path in beside.iterdir()}
    for name in FILES[1:]:
        done = run_here(
            *("convert", beside / "train.tar", beside / name, "--drop", "cls"),
            *("--overwrite", "-j1"),
        )
        assert done.code == 0, done.err
        assert run_here("verify", beside / name, "-j1").code == 0
        after = {path.name: path.read_bytes() for path in beside.iterdir()}
        changed = {each for each in before if before[each] != after.get(each)}
        assert {each for each in changed if not each.startswith(f"{name}.")} <= {
            *(name, "train.idx", "train.lst")
        }
        before = after


def test_a_manifest_that_was_renamed_is_of_no_other_file(run_here: RunHere, beside: Path) -> None:
    copied = (beside / "train.tar.manifest.json").read_bytes()
    (beside / "train.tfrecord.manifest.json").write_bytes(copied)
    for option in ((), ("--overwrite",)):
        done = run_here("convert", beside / "train.rec", beside / "train.tfrecord", "-qj1", *option)
        assert (done.code, "belongs to train.tar" in done.err) == (5, True)
    assert (beside / "train.tar").exists()


def test_class_names_of_something_else(run_here: RunHere, beside: Path, tmp_path: Path) -> None:
    """A list that is made beside a shard brings a classes.txt, whose names are not the shard's."""
    foreign = tmp_path / "foreign.tar"
    foreign.write_bytes((beside / "train.tar").read_bytes())
    (tmp_path / "classes.txt").write_text("ant\nbee\ncow\n")
    done = run_here("convert", foreign, tmp_path / "a.tfrecord", "-j1")
    assert (done.code, "give --classes" in done.out) == (0, True)
    assert not (tmp_path / "a.tfrecord.classes.txt").exists()
    named = ("--classes", tmp_path / "classes.txt")
    assert run_here("convert", foreign, tmp_path / "b.tfrecord", *named, "-j1").code == 0
    assert (tmp_path / "b.tfrecord.classes.txt").read_text() == "ant\nbee\ncow\n"


def test_a_manifest_that_cannot_be_read_is_not_ignored(run_here: RunHere, beside: Path) -> None:
    (beside / "train.rec.manifest.json").unlink()
    (beside / "train.rec.manifest.json").mkdir()
    done = run_here("convert", beside / "train.rec", beside / "b.tar", "-j1")
    assert (done.code, "train.rec.manifest.json" in done.err) == (4, True)
