"""Images without labels: said by every command, and the same again after a way through RecordIO."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Finished
from tests.images import image_folder, jpeg

Run = Callable[..., Finished]

ADVICE = "--labels FILE, --list FILE or --label-regex REGEX"


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Five images that lie in no directory."""
    image_folder(tmp_path / "few", (".",), per_class=5, size=(8, 8))
    return tmp_path / "few"


@pytest.fixture
def labeled(tmp_path: Path) -> Path:
    image_folder(tmp_path / "labeled", ("cat", "dog"), per_class=2, size=(8, 8))
    return tmp_path / "labeled"


def members(shard: Path) -> set[str]:
    """The extensions of a shard's members."""
    with tarfile.open(shard) as tar:
        return {name.partition(".")[2] for name in tar.getnames()}


def label(manifest: Path) -> str | None:
    """The field that a manifest calls the label."""
    found: str | None = json.loads(manifest.read_text())["schema"]["label"]
    return found


# It is said


@pytest.mark.parametrize("extra", [(), ("--dry-run",)])
def test_pack_says_it(run_here: Run, few: Path, tmp_path: Path, extra: tuple[str, ...]) -> None:
    done = run_here("pack", few, tmp_path / "out", "--format", "tfrecord", *extra)
    assert done.code == 0
    assert "note      5 samples without labels; to have labels, give " + ADVICE in done.out


def test_pack_says_nothing_of_labels(run_here: Run, labeled: Path, tmp_path: Path) -> None:
    done = run_here("pack", labeled, tmp_path / "out", "--format", "webdataset", "--json")
    assert json.loads(done.out)["notes"] == []


def test_lists_say_it(run_here: Run, few: Path, tmp_path: Path) -> None:
    said = "note      5 samples have no label, and get the label 0, as each row of a list needs one"
    path = tmp_path / "all.lst"
    assert said in run_here("lst", "create", few, "-o", path).out
    streamed = run_here("lst", "create", few, "-o", "-")
    assert said in streamed.err
    assert "note" not in streamed.out
    done = run_here("split", few, "-o", tmp_path / "lists", "--ratio", "train=0.6,val=0.4")
    assert f"{said}; give {ADVICE}" in done.out
    (few / "new.jpg").write_bytes(jpeg())
    assert "note      6 samples have no label" in run_here("lst", "append", path, few).out
    (few / "newer.jpg").write_bytes(jpeg())
    assert "no label" not in run_here("lst", "append", path, few, "--label", "3").out


# RecordIO


@pytest.fixture
def nolab(run_here: Run, few: Path, tmp_path: Path) -> Path:
    """A single file of records whose labels are placeholders."""
    done = run_here("pack", few, tmp_path / "nolab.rec")
    assert done.code == 0
    assert "note      5 samples without labels: recordio cannot hold that" in done.out
    assert "only nolab.rec.manifest.json says that it is none; to have labels" in done.out
    return tmp_path / "nolab.rec"


def test_the_manifest_says_it(nolab: Path) -> None:
    assert label(nolab.with_name("nolab.rec.manifest.json")) is None


def test_it_comes_back_without_labels(
    run_here: Run, nolab: Path, few: Path, tmp_path: Path
) -> None:
    assert run_here("verify", nolab, "--against", few).code == 0
    again = tmp_path / "again.rec"
    for source, dest in ((nolab, "a.tar"), (nolab, again.name), (again, "b.tar"), (again, "c.pb")):
        assert run_here("convert", source, tmp_path / dest).code == 0
    assert run_here("shard", again, tmp_path / "cut", "--shards", 2).code == 0
    assert run_here("convert", tmp_path / "c.pb", tmp_path / "d.tar").code == 0
    pattern = tmp_path / "cut" / "train-0000{0..1}.rec"
    assert run_here("convert", pattern, tmp_path / "e", "--to", "webdataset").code == 0
    assert run_here("convert", nolab, tmp_path / "f.tar", "--from", "recordio").code == 0
    for shard in ("a.tar", "b.tar", "d.tar", "e/train-00000.tar", "f.tar"):
        assert not members(tmp_path / shard) & {"cls", "label.json", "irheader"}
    assert run_here("verify", tmp_path / "a.tar", "--against", few).code == 0


def test_a_labeled_source_is_another(
    run_here: Run, few: Path, labeled: Path, tmp_path: Path
) -> None:
    """Labels that only one side has are a problem, whichever that is."""
    (tmp_path / "t.csv").write_text("path,label\n" + "".join(f"00{n}.jpg,0\n" for n in range(5)))
    labels = ("--labels", tmp_path / "t.csv")
    assert run_here("pack", few, tmp_path / "none.rec").code == 0
    found = run_here("verify", tmp_path / "none.rec", "--against", few, *labels)
    assert found.code == 3
    assert "has no field 'label', and the source has" in found.out
    assert run_here("pack", few, tmp_path / "some.rec", *labels).code == 0
    assert label(tmp_path / "some.rec.manifest.json") == "label"
    assert run_here("verify", tmp_path / "some.rec", "--against", few, *labels).code == 0
    found = run_here("verify", tmp_path / "some.rec", "--against", few)
    assert found.code == 3
    assert "has a label, and 000.jpg has none" in found.out


def test_labels_and_none_are_not_mixed(
    run_here: Run, few: Path, labeled: Path, tmp_path: Path
) -> None:
    shutil.copytree(few, tmp_path / "more")
    for source in (few, labeled):
        assert (
            run_here("pack", source, tmp_path / source.name / "r", "--format", "recordio").code == 0
        )
    none, some = few / "r", labeled / "r"
    assert run_here("shard", "append", tmp_path / "more", none).code == 0
    done = run_here("shard", "append", labeled / "cat", some)
    assert done.code == 4
    done = run_here("shard", "append", labeled, none)
    assert done.code == 4
    assert "label" in done.err, done.err
    first = "train-00000.rec"
    done = run_here("convert", none / first, some / first, tmp_path / "x", "--to", "webdataset")
    assert done.code == 4, done.err
    assert "label" in done.err


def test_samples_of_which_some_have_labels(run_here: Run, few: Path, tmp_path: Path) -> None:
    """They are refused where a label would be made up, and packed elsewhere."""
    for number in (0, 3):
        (few / f"00{number}.cls").write_text("7")
    shard = tmp_path / "some.tar"
    assert run_here("pack", few, shard, "--parts").code == 0
    done = run_here("convert", shard, tmp_path / "some.rec")
    assert done.code == 4
    assert "3 of 5 samples looked at have no label, and recordio holds none without" in done.err
    assert run_here("lst", "create", shard, "-o", tmp_path / "some.lst").code == 4
    assert run_here("convert", shard, tmp_path / "none.rec", "--drop", "cls").code == 0
    assert label(tmp_path / "none.rec.manifest.json") is None
    assert run_here("convert", shard, tmp_path / "pq", "--to", "parquet").code == 0


def test_sides_with_and_without_labels(run_here: Run, tmp_path: Path) -> None:
    """RecordIO takes each side by itself, as the message says."""
    root = tmp_path / "my set"
    image_folder(root / "train", ("cat", "dog"), per_class=2, size=(8, 8))
    image_folder(root / "test", (".",), per_class=3, size=(8, 8))
    done = run_here("pack", root, tmp_path / "out", "--to", "recordio")
    assert done.code == 4
    said = re.search(r"each side by itself, dsprep (.*), and likewise ('.*'); or label", done.err)
    assert said is not None
    first, second = shlex.split(said[1]), shlex.split(said[2])
    for side, command, count in ("train", first, 4), ("test", [first[0], *second, *first[2:]], 3):
        words = [str(tmp_path / side) if word == "DEST" else word for word in command]
        assert run_here(*words).code == 0
        manifest = json.loads((tmp_path / side / "manifest.json").read_text())
        assert (manifest["samples"], manifest["schema"]["label"]) == (
            count,
            "label" if side == "train" else None,
        )


def test_streams(run_cli: Run, nolab: Path, few: Path, tmp_path: Path) -> None:
    """A stream has no manifest, whether it is read or written."""
    done = run_cli("convert", nolab, "-", "--to", "webdataset", "--drop", "label")
    assert (done.code, ".jpg" in done.out, ".cls" in done.out) == (0, True, False)
    shard = tmp_path / "few.tar"
    assert run_cli("pack", few, shard).code == 0
    done = run_cli("convert", shard, "-", "--to", "recordio")
    assert (done.code, done.out) == (2, "")
    assert "its samples have no label, and recordio needs one" in done.err
