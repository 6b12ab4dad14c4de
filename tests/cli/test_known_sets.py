"""CIFAR and MNIST from any archive, one part or several; and tars that are no shards."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests import pixels
from tests.conftest import Finished
from tests.missing import framework

Run = Callable[..., Finished]

BATCHES = "cifar-10-batches-py"


def write_tar(path: Path, names: Sequence[str]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    return path


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sets")
    files = pixels.cifar10_python()
    pixels.write_directory(root / BATCHES, files)
    # As `tarfile` writes it: what comes first is a PAX header, and not the name of the directory.
    pixels.write_archive(root / "download.tar.gz", BATCHES, files, mtime=1.5)
    pixels.write_zip(root / "archive.zip", BATCHES, files)
    return root


@pytest.mark.parametrize(
    ("source", "samples"),
    [
        (f"{BATCHES}/train", 5),
        ("download.tar.gz/train", 5),
        (f"download.tar.gz/{BATCHES}/test_batch", 2),
        ("archive.zip/test", 2),
        (f"archive.zip/{BATCHES}/data_batch_1", 3),
        (f"{BATCHES}/data_batch_*", 5),
        (f"{BATCHES}/{{train,test}}", 7),
        ("archive.zip/{train,test}", 7),
    ],
)
def test_a_part_of_it(
    cifar: Path, source: str, samples: int, run_here: Run, tmp_path: Path
) -> None:
    args = (cifar / source, tmp_path / "out", "--format", "webdataset", "-q", "--json")
    report = json.loads(run_here("pack", *args).out)
    assert (report["samples"], report["skipped"], report["rejects"]) == (samples, [], [])
    assert report["classes"] == list(pixels.NAMES)
    done = run_here("verify", tmp_path / "out", "--against", cifar / source, "-q")
    assert (done.code, done.err) == (0, "")


def test_several_batches(cifar: Path, run_here: Run, tmp_path: Path) -> None:
    batches = [cifar / BATCHES / f"data_batch_{number}" for number in (1, 2)]
    for verb in ("convert", "pack", "shard"):
        option = "--format" if verb == "pack" else "--to"
        args = (*batches, tmp_path / verb, option, "tfrecord", "-q", "--json")
        assert json.loads(run_here(verb, *args).out)["samples"] == 5


@pytest.mark.parametrize("source", [BATCHES, "download.tar.gz", "archive.zip"])
@pytest.mark.parametrize("verb", ["pack", "convert", "shard", "split"])
def test_training_and_test_images_become_shards_of_their_own(
    cifar: Path, source: str, verb: str, run_here: Run, tmp_path: Path
) -> None:
    path, dest = cifar / source, tmp_path / "out"
    args = (path, dest) if verb != "split" else (path, "-o", dest)
    report = json.loads(run_here(verb, *args, "--to", "webdataset", "-q", "--json").out)
    report = report["written"] if verb == "split" else report
    assert report["sides"] == {"train": 5, "test": 2}
    shards = [(each["name"], each["samples"]) for each in report["shards"]]
    assert shards == [("train-000000.tar", 5), ("test-000000.tar", 2)]
    assert (dest / "classes.txt").read_text().split() == list(pixels.NAMES)
    assert run_here("verify", dest, "--against", path, "-q").code == 0
    done = run_here("pack", path, tmp_path / "out.tar")
    assert (done.code, "has the sides train, test, which become shards" in done.err) == (2, True)


class TestTarsThatAreNoShards:
    """Most members belong to no sample, as their names have no extension."""

    NAMES = ("d/a", "d/b", "d/c", "d/x", "d/1.txt", "d/2.txt")

    @pytest.mark.parametrize("verb", ["pack", "convert", "shard"])
    def test_they_are_refused(self, verb: str, run_here: Run, tmp_path: Path) -> None:
        path = write_tar(tmp_path / "x.tar", (*self.NAMES, "__meta__/y.xml"))
        option = "--format" if verb == "pack" else "--to"
        done = run_here(verb, path, tmp_path / "out", option, "tfrecord")
        assert done.code == 4
        assert (
            "x.tar: 5 of 7 members belong to no sample of a WebDataset "
            "(4 without extension, 1 .xml): unpack it, or give --from images"
        ) in done.err
        assert not (tmp_path / "out").exists()

    def test_one_among_shards(self, run_here: Run, tmp_path: Path) -> None:
        (tmp_path / "in").mkdir()
        write_tar(tmp_path / "in/a.tar", ["1.txt", "2.txt", "3.txt", "4.txt", "5.txt"])
        write_tar(tmp_path / "in/b.tar", self.NAMES)
        done = run_here("convert", tmp_path / "in", tmp_path / "out", "--to", "tfrecord")
        assert done.code == 4
        assert "b.tar: 4 of 6 members" in done.err

    def test_from_webdataset_takes_the_others(self, run_here: Run, tmp_path: Path) -> None:
        path = write_tar(tmp_path / "x.tar", self.NAMES)
        args = ("--to", "tfrecord", "--from", "webdataset", "--no-image", "-q", "--json")
        report = json.loads(run_here("convert", path, tmp_path / "out", *args).out)
        assert report["samples"] == 2
        skipped = {"kind": "keyless", "path": "x.tar", "detail": "4 members (4 without extension)"}
        assert report["skipped"] == [skipped]

    def test_half_of_the_members_is_a_note(self, run_here: Run, tmp_path: Path) -> None:
        path = write_tar(tmp_path / "x.tar", ["a", "b", "1.txt", "2.txt"])
        args = ("--to", "tfrecord", "--no-image")
        assert run_here("convert", path, tmp_path / "out", *args).code == 0

    def test_in_a_stream(self, run_here: Run, tmp_path: Path) -> None:
        path = write_tar(tmp_path / "x.tar", self.NAMES)
        done = run_here("convert", path, "-", "--to", "tfrecord")
        assert done.code == 4
        assert "4 of 6 members belong to no sample" in done.err


def test_a_part_of_a_directory_of_any_name(run_here: Run, tmp_path: Path) -> None:
    pixels.write_directory(tmp_path / "d", pixels.mnist())
    for part in ("train", "test"):
        source, dest = tmp_path / "d" / part, tmp_path / part
        assert run_here("pack", source, dest, "--format", "webdataset").code == 0


@pytest.fixture(scope="module", params=["python", "binary"])
def hundred(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hundred")
    files = {"python": pixels.cifar100_python, "binary": pixels.cifar100_binary}[request.param]()
    name = f"cifar-100-{request.param}"
    return pixels.write_archive(root / f"{name}.tar.gz", name, files)


FINE_AND_COARSE = [(label * 9, label % 20) for label, _ in pixels.TRAIN[0]]


class TestCoarseLabels:
    def test_they_are_a_field(self, hundred: Path, run_here: Run, tmp_path: Path) -> None:
        dest = tmp_path / "shards"
        assert run_here("pack", hundred, dest, "--to", "webdataset", "--no-shuffle", "-q").code == 0
        shard = framework("webdataset").WebDataset(
            str(dest / "train-000000.tar"), shardshuffle=False
        )
        found = [(int(each["cls"]), int(each["coarse_label.cls"])) for each in shard]
        assert found == FINE_AND_COARSE
        names = (dest / "coarse_label.classes.txt").read_text().splitlines()
        assert names == list(pixels.COARSE)
        assert (dest / "classes.txt").read_text().splitlines() == list(pixels.FINE)
        assert run_here("verify", dest, "--against", hundred, "-q") == (0, "", "")

    def test_they_are_the_label_of_who_says_so(
        self, hundred: Path, run_here: Run, tmp_path: Path
    ) -> None:
        dest, tf = tmp_path / "shards", framework("tensorflow")
        args = (hundred, dest, "--to", "tfrecord", "--label-field", "coarse_label", "-q")
        assert run_here("convert", *args) == (0, "", "")
        features = {
            name: tf.io.FixedLenFeature([], tf.int64)
            for name in ("image/class/label", "fine_label")
        }
        records = tf.data.TFRecordDataset(str(dest / "train-00000-of-00001.tfrecord"))
        parsed = (tf.io.parse_single_example(each, features) for each in records)
        found = [(int(each["fine_label"]), int(each["image/class/label"])) for each in parsed]
        assert found == FINE_AND_COARSE
        assert (dest / "classes.txt").read_text().splitlines() == list(pixels.COARSE)
        assert run_here("verify", dest, "--against", hundred, "-q") == (0, "", "")

    def test_a_list_of_the_images_leaves_them(
        self, hundred: Path, run_here: Run, tmp_path: Path
    ) -> None:
        lst, dest = tmp_path / "a.lst", tmp_path / "shards"
        assert run_here("lst", "create", hundred, "-o", lst, "-q").code == 0
        lst.write_text("".join(lst.read_text().splitlines(keepends=True)[:2]))
        args = (hundred, dest, "--list", lst, "--to", "tfrecord", "-q", "--json")
        assert json.loads(run_here("pack", *args).out)["samples"] == 2
        schema = json.loads((dest / "manifest.json").read_text())["schema"]
        assert {each["name"] for each in schema["fields"]} == {"image", "label", "coarse_label"}

    def test_where_they_have_no_place(self, hundred: Path, run_here: Run, tmp_path: Path) -> None:
        args = (hundred, tmp_path / "shards", "--to", "recordio", "-q")
        refused = run_here("pack", *args)
        assert refused.code == 2
        assert "give --drop coarse_label" in refused.err
        assert run_here("pack", *args, "--drop", "coarse_label").code == 0

    def test_a_label_that_is_none(self, hundred: Path, run_here: Run, tmp_path: Path) -> None:
        done = run_here("pack", hundred, tmp_path / "a", "--to", "webdataset", "--label-field", "x")
        assert done.code == 2
        assert "--label-field x: the label is 'label', from the files" in done.err
