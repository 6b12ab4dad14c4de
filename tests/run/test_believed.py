"""A command says that its output is there already only if all files of its record are there.

Every command that writes a data set, every format, on a disk and on S3: all of the data gone, one
file deleted, one file cut.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dsprep.errors import DestinationError
from dsprep.formats import FORMATS, SHARDED, TABLES
from dsprep.run.begin import require_vacant
from tests.conftest import Finished
from tests.images import image_folder
from tests.run.conftest import Machine
from tests.servers.bucket import Bucket
from tests.sources.boxes import ROW, write

RunHere = Callable[..., Finished]
TREES = [name for name in FORMATS if name not in SHARDED]
WITH_BOXES = ("coco", "voc", "yolo")
OPS = "rotate=5"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of two classes with one that is broken, images with boxes, and shards of both."""
    root = tmp_path_factory.mktemp("sources")
    image_folder(root / "photos", ("a", "b"), 4)
    (root / "photos" / "a" / "broken.jpg").write_bytes(b"no image")
    image_folder(root / "more", ("a", "b"), 2)
    for path in (root / "more").rglob("*.jpg"):
        path.rename(path.with_name(f"new-{path.name}"))
    named = {f"{kind}/{at}": content for kind, content in KINDS.items() for at in range(4)}
    write(root / "boxes", {f"{name}{END[name[:6]]}": each for name, each in named.items()})
    (root / "boxes" / "classes.txt").write_text("cat\n")
    rows = [f"{at},{at / 7},{'ab'[at % 2]}\n" for at in range(8)]
    (root / "rows.csv").write_text("".join(["x,y,label\n", *rows, "1\n"]))
    return root


KINDS = {"images": None, "labels": ROW}
END = {"images": ".png", "labels": ".txt"}


def source_of(sources: Path, to: str) -> Path:
    if to in TABLES:
        return sources / "rows.csv"
    return sources / ("boxes" if to in WITH_BOXES else "photos")


class Place:
    """Where a data set lies: what users call it, and what is in it."""

    def __init__(self, dest: str, root: Path) -> None:
        self.dest, self.root = dest, root

    def files(self) -> dict[str, bytes]:
        """All files beside the manifest and below."""
        return {
            os.path.relpath(path, self.root): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
        }

    def put(self, name: str, data: bytes) -> None:
        (self.root / name).write_bytes(data)

    def delete(self, *names: str) -> None:
        for name in names:
            (self.root / name).unlink()


class OnS3(Place):
    """A data set on S3, and its prefix there."""

    def __init__(self, dest: str, bucket: Bucket, prefix: str) -> None:
        self.dest, self.bucket, self.prefix = dest, bucket, prefix

    def files(self) -> dict[str, bytes]:
        return self.bucket.contents(self.prefix)

    def put(self, name: str, data: bytes) -> None:
        self.bucket.s3.put_object(Bucket=self.bucket.name, Key=self.prefix + name, Body=data)

    def delete(self, *names: str) -> None:
        for name in names:
            self.bucket.s3.delete_object(Bucket=self.bucket.name, Key=self.prefix + name)


def data_files(place: Place) -> tuple[list[str], list[str]]:
    """The files of a data set that hold samples, and the others; the manifest is in neither."""
    files = place.files()
    (name,) = [name for name in files if name.endswith("manifest.json")]
    manifest = json.loads(files[name])
    shards = [shard["name"] for shard in manifest["shards"]]
    data = shards or [name for name in files if "/" in name]
    return data, [other for other in files if other != name and other not in data]


def check(run: RunHere, place: Place, *command: object, state: str) -> None:
    """Run a command, damage what it wrote, and run it again: nothing is believed by its record."""
    first = run(*command)
    assert first.code in (0, 3), first.err
    whole = place.files()
    again = run(*command)
    assert (again.code, f"already {state}" in again.out) == (first.code, True), again.err
    data, others = data_files(place)
    place.put("of-others.dat", b"not in the record")
    assert run(*command).code == first.code
    place.delete("of-others.dat")
    for name in (data[-1], *others[:1]):
        for left in (None, whole[name][:10]):
            if left == whole[name] or (left is None and [name] == data):
                continue  # it was not cut, or all is gone
            place.delete(name)
            if left is not None:
                place.put(name, left)
            damaged = place.files()
            refused = run(*command)
            what = f"{name}: was written" if left is None else f"{name}: has 10 bytes, and "
            assert (refused.code, refused.out) == (5, "")
            assert what in refused.err
            assert place.files() == damaged, "something was written"
            if name.endswith("files.jsonl"):  # which tells what --overwrite may replace
                place.put(name, whole[name])
                continue
            assert run(*command, "--overwrite").code == first.code
            assert place.files() == whole
    place.delete(*data)
    made = run(*command)
    assert made.code == first.code, made.err
    assert "already" not in made.out
    assert place.files() == whole


@pytest.mark.parametrize("to", FORMATS)
def test_convert(run_here: RunHere, sources: Path, tmp_path: Path, to: str) -> None:
    dest = tmp_path / "own" / "o"
    size = () if to in TREES else ("--shards", 3)
    is_alone = to in TREES or to in TABLES
    place = Place(str(dest), dest.parent if is_alone else dest)
    command = ("convert", source_of(sources, to), dest, "--to", to, *size, "-j", 1)
    check(run_here, place, *command, state="converted")


@pytest.mark.parametrize("to", TREES)
def test_a_folder_that_is_removed_is_made_again(
    run_here: RunHere, sources: Path, tmp_path: Path, to: str
) -> None:
    command = ("convert", source_of(sources, to), tmp_path / "o", "--to", to, "-j", 1)
    first = run_here(*command)
    before = Place("", tmp_path).files()
    shutil.rmtree(tmp_path / "o")
    made = run_here(*command)
    assert (made.code, "already" in made.out) == (first.code, False), made.err
    assert Place("", tmp_path).files() == before


@pytest.mark.parametrize("to", SHARDED)
def test_a_single_file(run_here: RunHere, sources: Path, tmp_path: Path, to: str) -> None:
    dest = tmp_path / "own" / f"b{SHARDED[to].suffix}"
    dest.parent.mkdir()
    command = ("pack", source_of(sources, to), dest, "-j", 1)
    check(run_here, Place(str(dest), dest.parent), *command, state="packed")


@pytest.mark.parametrize("to", ["webdataset", "folder"])
def test_augment(run_here: RunHere, sources: Path, tmp_path: Path, to: str) -> None:
    dest = tmp_path / "own" / "o"
    place = Place(str(dest), dest.parent if to in TREES else dest)
    ops = ("--op", OPS, "--per-image", 1, "-j", 1)
    command = ("augment", sources / "photos", dest, "--to", to, *ops)
    check(run_here, place, *command, state="augmented")


def test_augment_forgets_rejects_of_a_run_whose_output_is_gone(
    run_here: RunHere, sources: Path, tmp_path: Path
) -> None:
    images, dest = tmp_path / "photos", tmp_path / "o"
    shutil.copytree(sources / "photos", images)
    command = ("augment", images, dest, "--to", "folder", "--op", OPS, "--per-image", 1, "-j", 1)
    assert run_here(*command).code == 3
    shutil.rmtree(dest)
    (images / "a" / "broken.jpg").unlink()
    made = run_here(*command, "--json")
    assert (made.code, json.loads(made.out)["rejects"]) == (0, [])
    assert not (tmp_path / "o.rejects.jsonl").exists()


@pytest.fixture(scope="module")
def shards(run_here: RunHere, sources: Path) -> Path:
    dest = sources / "shards"
    assert run_here("pack", sources / "photos", dest, "--to", "webdataset", "-j", 1).code == 3
    return dest


def test_shard(run_here: RunHere, shards: Path, tmp_path: Path) -> None:
    place = Place("", tmp_path / "o")
    check(run_here, place, "shard", shards, tmp_path / "o", "--shards", 3, state="sharded")


def test_join(run_here: RunHere, sources: Path, shards: Path, tmp_path: Path) -> None:
    own = ("--to", "webdataset", "--name", "more", "-j", 1)
    assert run_here("pack", sources / "more", tmp_path / "more", *own).code == 0
    place = Place("", tmp_path / "o")
    check(run_here, place, "join", shards, tmp_path / "more", tmp_path / "o", state="joined")


def test_split(run_here: RunHere, sources: Path, tmp_path: Path) -> None:
    ratios = ("--ratio", "train=0.5,val=0.5", "--to", "webdataset", "-j", 1)
    place = Place("", tmp_path / "o")
    command = ("split", sources / "photos", "-o", tmp_path / "o", *ratios)
    check(run_here, place, *command, state="split")


def test_parts(run_here: RunHere, sources: Path, tmp_path: Path) -> None:
    """A part does not take --overwrite; without any of the shards, parts make them again."""
    place, command = Place("", tmp_path / "o"), ("pack", sources / "photos", tmp_path / "o")
    command = (*command, "--to", "webdataset", "--shards", 4, "-j", 1)

    def run() -> Finished:
        done = [run_here(*command, "--part", f"{part}/2") for part in range(2)]
        assert {each.code for each in done} <= {0, 3}, [each.err for each in done]
        return done[1]

    run()
    whole = place.files()
    assert "already packed" in run().out
    data, _ = data_files(place)
    place.delete(data[0])
    damaged = place.files()
    refused = run_here(*command, "--part", "0/2")
    assert (refused.code, f"{data[0]}: was written" in refused.err) == (5, True)
    assert place.files() == damaged
    place.delete(*data[1:])
    assert "already" not in run().out
    assert place.files() == whole


def test_append(run_here: RunHere, sources: Path, tmp_path: Path) -> None:
    """Append adds to whole data sets only, and says "already appended" of such only."""
    place = Place("", tmp_path / "o")
    own = ("--to", "recordio", "--shards", 2, "-j", 1)
    run_here("pack", sources / "photos", tmp_path / "o", *own)
    command = ("shard", "append", sources / "more", tmp_path / "o", "-j", 1)
    assert run_here(*command).code == 0
    assert "already appended" in run_here(*command).out
    whole = place.files()
    for name in [name for name in whole if name != "manifest.json"]:
        for left in (None, whole[name][:10]):
            place.delete(name)
            if left is not None and left != whole[name]:
                place.put(name, left)
            refused = run_here(*command)
            assert refused.code == 5, (name, refused.out)
            assert name in refused.err
            place.put(name, whole[name])


def lists_written(root: Path) -> Iterator[tuple[str, tuple[object, ...]]]:
    photos = root / "photos"
    yield "already split", ("split", photos, "-o", root / "lists", "--ratio", "train=0.5,val=0.5")
    yield "already done", ("lst", "create", photos, "-o", root / "lists" / "all.lst")


def test_lists_are_compared_byte_by_byte(run_here: RunHere, sources: Path, tmp_path: Path) -> None:
    image_folder(tmp_path / "photos", ("a", "b"), 4)
    (tmp_path / "lists").mkdir()
    for state, command in lists_written(tmp_path):
        before = set(tmp_path.glob("lists/*"))
        assert run_here(*command).code == 0
        assert state in run_here(*command).out
        path = min(set(tmp_path.glob("lists/*.lst")) - before)
        data = path.read_bytes()
        path.write_bytes(data[:10])
        refused = run_here(*command)
        assert (refused.code, path.name in refused.err) == (5, True), refused.out
        assert path.read_bytes() == data[:10]
        path.unlink()
        done = run_here(*command)
        assert (done.code, state in done.out, path.read_bytes()) == (0, False, data)


@pytest.mark.parametrize("to", ["webdataset", "parquet"])  # concatenated, and not
def test_on_s3(on_ceph: Callable[[str], Machine], ceph: Bucket, sources: Path, to: str) -> None:
    machine = on_ceph("machine")

    def run(*command: object) -> Finished:
        return machine._run(*command, env=machine.env)

    dest = f"{ceph.url}/set/"
    command = ("convert", sources / "photos", dest, "--to", to, "--shards", 3, "-j", 1)
    check(run, OnS3(dest, ceph, "set/"), *command, state="converted")
    assert machine.left() == []


def test_a_single_file_on_s3(
    on_ceph: Callable[[str], Machine], ceph: Bucket, sources: Path
) -> None:
    machine = on_ceph("machine")

    def run(*command: object) -> Finished:
        return machine._run(*command, env=machine.env)

    place = OnS3("", ceph, "set/")
    command = ("pack", sources / "photos", f"{ceph.url}/set/b.rec", "-j", 1)
    check(run, place, *command, state="packed")


def test_a_companion_that_was_changed_is_never_replaced(
    run_here: RunHere, sources: Path, tmp_path: Path
) -> None:
    place, command = Place("", tmp_path), ("pack", sources / "photos", tmp_path / "b.rec", "-j", 1)
    assert run_here(*command).code == 3
    place.delete("b.rec")
    place.put("b.rec.classes.txt", b"names of my own\n")
    refused = run_here(*command)
    assert (refused.code, "b.rec.classes.txt: is there already" in refused.err) == (5, True)
    assert place.files()["b.rec.classes.txt"] == b"names of my own\n"


def test_images_that_changed_since_a_run_began_are_told() -> None:
    target = SimpleNamespace(destination="out", part=None)
    state: Any = SimpleNamespace(other="other source, file times", target=target)
    with pytest.raises(DestinationError, match=r"have changed since, .* go on: give --overwrite"):
        require_vacant(state, overwrite=False)


def test_an_unfinished_run_beside_a_bare_manifest_stays(
    run_here: RunHere, sources: Path, tmp_path: Path
) -> None:
    place, command = Place("", tmp_path / "o"), ("pack", sources / "photos", tmp_path / "o")
    command = (*command, "--to", "webdataset", "-j", 1)
    assert run_here(*command).code == 3
    place.delete(*data_files(place)[0])
    (tmp_path / "o" / ".dsprep").mkdir()
    place.put(".dsprep/run.json", b'{"identity": {"source": "another"}, "files": []}')
    refused = run_here(*command)
    assert (refused.code, "an unfinished run of another command" in refused.err) == (5, True)
    assert (tmp_path / "o" / "manifest.json").exists()
