"""A finished data set is believed if all of its files are there, whatever its manifest says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.conftest import Finished
from tests.images import image_folder
from tests.run.conftest import Machine, files
from tests.servers.bucket import Bucket

RunHere = Callable[..., Finished]

# The command and its options, where it writes, and the files that it writes samples to.
SHARDS = {
    "webdataset": (("pack", "--to", "webdataset", "--shards", 3), "out", "out/*.tar"),
    "tfrecord": (("convert", "--to", "tfrecord", "--shards", 3), "out", "out/*.tfrecord"),
    "recordio": (("shard", "--to", "recordio", "--shards", 3), "out", "out/*.rec"),
    "parquet": (("pack", "--to", "parquet", "--shards", 2), "out", "out/*.parquet"),
    "augment": (
        ("augment", "--to", "tfrecord", "--op", "hflip", "--per-image", 1, "--shards", 2),
        "out",
        "out/*.tf*",
    ),
    "one file": (("pack",), "out.rec", "out.rec"),
}
FOLDERS = {
    "folder": (("convert", "--to", "folder"), "out", "out/*/*"),
    "augmented-manifest": (("convert", "--to", "augmented-manifest"), "out", "out/*/*"),
    "augmented folder": (
        ("augment", "--to", "folder", "--op", "hflip", "--per-image", 1),
        "out",
        "out/*/*",
    ),
}
EVERY = {**SHARDS, **FOLDERS}


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def flawed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images in two classes, and one file that is no image."""
    root = tmp_path_factory.mktemp("flawed") / "photos"
    image_folder(root, ("a", "b"), 3)
    (root / "a/broken.jpg").write_bytes(b"no image")
    return root


def written(
    run: RunHere, name: str, source: Path, place: Path
) -> tuple[Sequence[object], dict[str, bytes], list[Path]]:
    """Write a data set; return the command, all that it wrote, and the files with samples."""
    (verb, *options), dest, pattern = EVERY[name]
    place.mkdir()
    command = (verb, source, place / dest, *options)
    done = run(*command)
    assert done.code == 3, done.err  # one image was rejected
    assert run(*command).out.startswith(f"{place / dest}: already")
    return command, contents(place), sorted(place.glob(pattern))


@pytest.mark.parametrize("name", EVERY)
class TestOnADisk:
    def test_without_any_file_it_is_made_as_if_for_the_first_time(
        self, run_here: RunHere, flawed: Path, tmp_path: Path, name: str
    ) -> None:
        place = tmp_path / "place"
        command, before, samples = written(run_here, name, flawed, place)
        if name in FOLDERS:
            shutil.rmtree(place / "out")
        else:
            for path in samples:
                path.unlink()

        again = run_here(*command)

        assert (again.code, "already" in again.out) == (3, False), again.err
        assert contents(place) == before

    def test_without_one_file_it_is_refused(
        self, run_here: RunHere, flawed: Path, tmp_path: Path, name: str
    ) -> None:
        if name == "one file":
            return  # it is the only one
        place = tmp_path / "place"
        command, before, samples = written(run_here, name, flawed, place)
        samples[-1].unlink()
        left = contents(place)

        again = run_here(*command)

        assert again.code == 5, again.out
        assert f"{samples[-1]}: was written, and is not there any more" in again.err
        assert contents(place) == left
        assert run_here(*command, "--overwrite").code == 3
        assert contents(place) == before

    def test_with_a_file_that_was_cut_it_is_refused(
        self, run_here: RunHere, flawed: Path, tmp_path: Path, name: str
    ) -> None:
        place = tmp_path / "place"
        command, before, samples = written(run_here, name, flawed, place)
        size = samples[0].stat().st_size
        samples[0].write_bytes(samples[0].read_bytes()[:10])
        left = contents(place)

        again = run_here(*command)

        assert again.code == 5, again.out
        assert f"{samples[0]}: has 10 bytes, and {size:,} were written" in again.err
        assert contents(place) == left
        assert run_here(*command, "--overwrite").code == 3
        assert contents(place) == before

    def test_other_files_are_ignored(
        self, run_here: RunHere, flawed: Path, tmp_path: Path, name: str
    ) -> None:
        place = tmp_path / "place"
        command, _, samples = written(run_here, name, flawed, place)
        samples[0].with_name("notes.txt").write_text("of somebody else")
        assert "already" in run_here(*command).out


@pytest.mark.parametrize("name", ["yolo", "voc", "coco"])
def test_folders_of_annotations(run_here: RunHere, tmp_path: Path, name: str) -> None:
    source, dest = tmp_path / "source", tmp_path / "out"
    image_folder(source / "images", (".",), 3)
    names = sorted(path.name for path in (source / "images").iterdir())
    boxes = [
        {"id": at, "image_id": at, "category_id": 1, "bbox": [1, 1, 4, 4], "area": 16, "iscrowd": 0}
        for at in range(3)
    ]
    images = [
        {"id": at, "file_name": file, "width": 64, "height": 48} for at, file in enumerate(names)
    ]
    told = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "cat"}]}
    (source / "boxes.json").write_text(json.dumps(told))
    command = ("convert", source / "images", dest, "--annotations", source / "boxes.json")
    command = (*command, "--to", name)
    first = run_here(*command)
    assert first.code == 0, first.err
    before = contents(tmp_path)

    shutil.rmtree(dest)
    again = run_here(*command)

    assert (again.code, "already" in again.out) == (0, False), again.err
    assert contents(tmp_path) == before
    image = next(path for path in sorted(dest.rglob("*")) if path.name == names[0])
    image.unlink()
    refused = run_here(*command)
    assert (refused.code, str(image) in refused.err) == (5, True)


@pytest.mark.parametrize("name", SHARDS)
def test_on_s3(on_ceph: Callable[[str], Machine], ceph: Bucket, flawed: Path, name: str) -> None:
    (verb, *options), dest, pattern = SHARDS[name]
    machine = on_ceph("machine")
    command = (verb, flawed, f"{ceph.url}/{dest}", *options)
    machine(*command, code=3)
    before = ceph.contents()
    samples = sorted(each for each in before if Path(each).match(pattern))
    for key in samples:
        ceph.s3.delete_object(Bucket=ceph.name, Key=key)
    assert "already" not in machine(*command, code=3).out
    assert ceph.contents() == before

    ceph.put(samples[-1], b"0123456789")
    refused = machine(*command, code=5)
    assert f"{ceph.url}/{samples[-1]}: has 10 bytes" in refused.err
    if len(samples) > 1:
        ceph.s3.delete_object(Bucket=ceph.name, Key=samples[-1])
        refused = machine(*command, code=5)
        assert f"{ceph.url}/{samples[-1]}: was written, and is not there any more" in refused.err
    machine(*command, "--overwrite", code=3)
    assert ceph.contents() == before


def test_parts_make_again_what_is_gone(run_here: RunHere, flawed: Path, tmp_path: Path) -> None:
    command = ("pack", flawed, tmp_path / "out", "--to", "webdataset", "--shards", 4)
    for number in range(2):
        assert run_here(*command, "--part", f"{number}/2").code in (0, 3)
    before = files(tmp_path / "out")
    for path in (tmp_path / "out").glob("*.tar"):
        path.unlink()
    for number in range(2):
        assert run_here(*command, "--part", f"{number}/2").code in (0, 3)
    assert files(tmp_path / "out") == before
    (tmp_path / "out/train-000001.tar").unlink()
    refused = run_here(*command, "--part", "0/2")
    assert (refused.code, "remove the whole data set" in refused.err) == (5, True)


def test_join_makes_again_what_is_gone(run_here: RunHere, tmp_path: Path) -> None:
    for count, node in enumerate(("one", "two"), 2):
        image_folder(tmp_path / node, ("a",), count)
        command = ("pack", tmp_path / node, tmp_path / f"{node}-shards", "--to", "tfrecord")
        assert run_here(*command, "--name", node).code == 0
    command = ("join", tmp_path / "one-shards", tmp_path / "two-shards", tmp_path / "all")
    assert run_here(*command).code == 0
    before = files(tmp_path / "all")
    for path in (tmp_path / "all").glob("*.tfrecord"):
        path.unlink()
    again = run_here(*command)
    assert (again.code, "already" in again.out) == (0, False), again.err
    assert files(tmp_path / "all") == before


class TestManifestsOfStrangers:
    def test_one_shard_named_twice_is_refused(self, run_here: RunHere, tmp_path: Path) -> None:
        image_folder(tmp_path / "photos")
        for name in ("one", "two"):
            command = ("pack", tmp_path / "photos", tmp_path / name, "--to", "recordio")
            assert run_here(*command, "--name", name, "--shards", 2).code == 0
        path = tmp_path / "two/manifest.json"
        values = json.loads(path.read_text())
        values["shards"].append(values["shards"][0])
        path.write_text(json.dumps(values))

        joined = run_here("join", tmp_path / "one", tmp_path / "two", tmp_path / "all")
        verified = run_here("verify", tmp_path / "two")

        assert (joined.code, (tmp_path / "all").exists()) == (4, False)
        assert "it names the file 'two-00000.rec' 2 times" in joined.err
        assert (verified.code, "names the file" in verified.err) == (4, True)

    @pytest.mark.parametrize("verb", ["verify", "convert"])
    def test_more_samples_than_bytes_are_refused(
        self, run_here: RunHere, tmp_path: Path, verb: str
    ) -> None:
        image_folder(tmp_path / "photos")
        shards = tmp_path / "shards"
        assert run_here("pack", tmp_path / "photos", shards, "--to", "tfrecord").code == 0
        path = shards / "manifest.json"
        values = json.loads(path.read_text())
        values["shards"][0]["samples"] = values["samples"] = 10**15
        path.write_text(json.dumps(values))

        more = (tmp_path / "out", "--to", "recordio") if verb == "convert" else ()
        done = run_here(verb, shards, *more)

        assert done.code == 4, done.out
        assert "do not hold 1,000,000,000,000,000 samples" in done.err


class TestStatus:
    @pytest.mark.parametrize("name", EVERY)
    def test_lists_what_is_there(
        self, run_here: RunHere, flawed: Path, tmp_path: Path, name: str
    ) -> None:
        place = tmp_path / "place"
        (_, _, dest, *_), _, samples = written(run_here, name, flawed, place)
        whole = run_here("status", dest, "--json")
        report = json.loads(whole.out)
        assert (whole.code, report["state"]) == (0, "complete")
        if name not in FOLDERS:
            assert report["bytes"] == sum(path.stat().st_size for path in samples)
            assert report["done"] == report["shards"] == len(samples)
        size = samples[0].stat().st_size
        samples[0].write_bytes(b"0123456789")
        if len(samples) > 1:
            samples[-1].unlink()

        damaged = run_here("status", dest, "--json")

        report = json.loads(damaged.out)
        assert (damaged.code, report["state"]) == (3, "damaged")
        if name not in FOLDERS:
            assert (report["shards"], report["done"]) == (len(samples), max(0, len(samples) - 2))
        wrong = {Path(each["file"]).name: each["message"] for each in report["problems"]}
        assert wrong[samples[0].name] == f"has 10 bytes, and {size:,} were written"
        if len(samples) > 1:
            assert wrong[samples[-1].name] == "was written, and is not there any more"
        shown = run_here("status", dest).out
        assert f"{samples[0].name}: has 10 bytes" in shown
