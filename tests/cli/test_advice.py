"""What messages tell a newcomer to do is right, and leads on."""

from __future__ import annotations

import io
import json
import re
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.conftest import Finished
from tests.images import jpeg

Run = Callable[..., Finished]


def write_tar(path: Path, files: Mapping[str, bytes]) -> Path:
    """Write a tar, with its members in this order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def captioned(number: int) -> dict[str, bytes]:
    """A sample as img2dataset writes it, with the class in its JSON."""
    about = {"key": number, "class_id": number % 2, "other": (number + 1) % 2}
    data = jpeg(number, size=(8, 8))
    return {f"{number}.jpg": data, f"{number}.json": json.dumps(about).encode()}


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A shard that another tool wrote."""
    files: dict[str, bytes] = {}
    for number in range(4):
        files |= captioned(number)
    return write_tar(tmp_path / "foreign" / "a.tar", files)


@pytest.fixture
def dogs(tmp_path: Path) -> Path:
    """A zip with a table and two directories that are no classes."""
    rows = "".join(f"{name},{breed}\n" for name, breed in (("a", "pug"), ("b", "corgi")))
    with zipfile.ZipFile(tmp_path / "dogs.zip", "w") as archive:
        archive.writestr("labels.csv", f"id,breed\n{rows}")
        for number, path in enumerate(("train/a.jpg", "train/b.jpg", "test/c.jpg")):
            archive.writestr(path, jpeg(number, size=(8, 8)))
    return tmp_path / "dogs.zip"


def test_a_format_that_only_convert_writes(run_here: Run, tmp_path: Path) -> None:
    done = run_here("pack", tmp_path, tmp_path / "out", "--to", "folder")
    assert (done.code, "'folder' is not a format of shards; dsprep convert" in done.err) == (
        2,
        True,
    )


def test_members_that_are_apart(run_here: Run, tmp_path: Path) -> None:
    files = {f"{number}.jpg": jpeg(number, size=(8, 8)) for number in range(2)}
    files |= {f"{number}.cls": b"1" for number in range(2)}
    one = write_tar(tmp_path / "apart" / "a.tar", files)
    write_tar(tmp_path / "apart" / "b.tar", files)
    done = run_here("verify", one.parent)
    assert done.err.endswith("give --from parts, with one tar as SOURCE\n")
    done = run_here("convert", f"{one.parent}/{{a,b}}.tar", tmp_path / "x.pb", "--from", "parts")
    assert done.err.endswith(": --from parts takes one directory or one archive\n")
    done = run_here("pack", one.parent, tmp_path / "x.tar", "--from", "parts")
    assert done.err.endswith("archive; name one of the tars\n")
    assert run_here("convert", one, tmp_path / "x", "--to", "tfrecord", "--from", "parts").code == 0


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("json.nope", "; json has key, class_id, other"),
        ("class_id", "; did you mean json.class_id?"),
        ("data.class_id", "; did you mean json.class_id?"),
    ],
)
def test_a_label_field_that_is_not_there(
    run_here: Run, foreign: Path, tmp_path: Path, name: str, told: str
) -> None:
    done = run_here("convert", foreign, tmp_path / "out", "--to", "tfrecord", "--label-field", name)
    assert f"fields are image, json{told}\n" in done.err


def test_shards_without_labels(run_here: Run, foreign: Path, tmp_path: Path) -> None:
    note = "4 samples without labels; to have labels, give --label-field"
    done = run_here("convert", foreign, tmp_path / "out", "--to", "tfrecord")
    assert f"note      {note} json.KEY\n" in done.out
    files = {"a.jpg": jpeg(0, size=(8, 8)), "a.one.cls": b"7", "a.two.cls": b"8"}
    source = write_tar(tmp_path / "numbers" / "a.tar", files)
    done = run_here("convert", source, tmp_path / "numbered", "--to", "tfrecord")
    assert "give --label-field NAME, such as one" in done.out
    only = write_tar(tmp_path / "only" / "a.tar", {"a.jpg": files["a.jpg"], "b.jpg": jpeg(1)})
    done = run_here("convert", only, tmp_path / "bare", "--to", "tfrecord", "--from", "webdataset")
    assert "note      2 samples without labels\n" in done.out


def test_another_label_field_is_another_command(
    run_here: Run, foreign: Path, tmp_path: Path
) -> None:
    command = ("convert", foreign, tmp_path / "out", "--to", "tfrecord")
    assert run_here(*command, "--label-field", "json.class_id").code == 0
    assert "already" in run_here(*command, "--label-field", "json.class_id").out
    for other in ((), ("--label-field", "json.other")):
        done = run_here(*command, *other)
        assert done.code == 5
        assert "that another command wrote (other label (--label-field)" in done.err


def test_a_table_that_nobody_named(run_here: Run, dogs: Path, tmp_path: Path) -> None:
    command = ("pack", dogs, tmp_path / "out", "--to", "webdataset", "--dry-run")
    done = run_here(*command)
    assert done.code == 4
    assert "  labels.csv: names " in done.err
    taken = "    to take it in, for 2 of 3 images: --labels"
    assert f"{taken} labels.csv\n" in done.err
    done = run_here(*command, "--leave-out", "*.csv")
    assert "  skipped   1 left out: 1 .csv (labels.csv)\n" in done.out
    assert re.search("  time      (under a second|about .*)\n", done.out)
    with zipfile.ZipFile(dogs) as archive:
        archive.extractall(tmp_path / "dogs")
    place = tmp_path / "dogs"
    done = run_here("pack", place, tmp_path / "out", "--to", "webdataset", "--dry-run")
    assert f"{taken} {place}/labels.csv\n" in done.err
    (place / "sample_submission.csv").touch()
    done = run_here("pack", place, tmp_path / "out", "--to", "webdataset", "--dry-run")
    assert "is not read" not in done.out


def test_the_table_that_labels_came_from(run_here: Run, dogs: Path, tmp_path: Path) -> None:
    told = ("--labels", "labels.csv")
    assert run_here("pack", dogs, tmp_path / "out", "--to", "webdataset", *told).code == 0
    assert run_here("verify", tmp_path / "out", "--against", dogs).code == 0
    manifest = tmp_path / "out" / "manifest.json"
    values = json.loads(manifest.read_text())
    del values["layout"]  # as manifests of before are
    manifest.write_text(json.dumps(values))
    done = run_here("verify", tmp_path / "out", "--against", dogs)
    assert done.code == 3
    hint = "all labels differ: pass the --labels, --list or --label-field that they came from"
    assert f"note      {hint}\n" in done.out
    assert run_here("verify", tmp_path / "out", "--against", dogs, *told).code == 0


def test_an_image_that_the_zip_lacks(run_here: Run, dogs: Path, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("id,breed\na,pug\nnothere,pug\n")
    told = ("--labels", tmp_path / "more.csv")
    done = run_here("pack", dogs, tmp_path / "out", "--to", "webdataset", *told)
    assert done.code == 3
    assert "nothere: is not in the source (more.csv:3)" in done.out


@pytest.mark.parametrize("size", [700, 1200])
def test_a_cut_tar(run_here: Run, tmp_path: Path, size: int) -> None:
    files = {f"{number}.jpg": jpeg(number, size=(200, 200)) for number in range(3)}
    whole = write_tar(tmp_path / "whole.tar", files).read_bytes()
    ends = [len(data) + -len(data) % 512 + 512 for data in files.values()]
    cut = tmp_path / "cut" / "a.tar"
    cut.parent.mkdir()
    cut.write_bytes(whole[: ends[0] + ends[1] + size])
    place = f"the file ends after {size - 512} of them"
    verified = run_here("verify", cut, "--json")
    [problem] = json.loads(verified.out)["problems"]
    done = run_here("convert", cut, tmp_path / "out", "--to", "tfrecord", "--from", "webdataset")
    assert problem["message"].endswith(place)
    said = f"at byte {problem['offset']}: {problem['message']}; samples after this byte are lost"
    assert said in done.out
