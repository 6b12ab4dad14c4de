"""Archives as sources: each gives the very shards that the folder in it does."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attack.trees import contents, manifest, names
from tests.conftest import Finished
from tests.images import image_folder

CLASSES = ("cat", "dög", "pets/owl")

Run = Callable[..., Finished]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which `photos` lies: three classes of six images, and what is none."""
    root = tmp_path_factory.mktemp("data")
    image_folder(root / "photos", CLASSES, per_class=6)
    (root / "photos" / "notes.txt").write_text("of no class")
    (root / "photos" / "cat" / ".hidden.jpg").write_bytes(b"x")
    return root


@pytest.fixture(scope="module")
def shards(data: Path, run_here: Run) -> dict[str, bytes]:
    """The files that packing the folder makes."""
    return packed(run_here, data / "photos", data / "of-folder")


def packed(run_here: Run, source: Path, dest: Path, *options: object) -> dict[str, bytes]:
    done = run_here("pack", source, dest, "--format", "webdataset", "-q", *options)
    assert (done.code, done.err) == (0, "")
    return contents(dest)


def zip_folder(folder: Path, out: Path, top: str, method: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(out, "w", method) as file:
        for path in sorted(folder.rglob("*"), reverse=True):
            file.write(path, f"{top}{path.relative_to(folder)}")


@pytest.mark.parametrize(
    ("name", "script"),
    [
        ("zip.zip", "zip -qr OUT photos"),
        ("stored.zip", "zip -q0r OUT photos"),
        ("within.zip", "cd photos && zip -qr OUT ."),
        ("streamed.zip", "zip -qr - photos > OUT"),
        ("zip64.zip", "zip -qr -fz OUT photos"),
        ("exe.zip", "(echo program; zip -qr - photos) > OUT"),
        ("other-name", "zip -qr - photos > OUT"),
        ("tar.tar", "tar cf OUT photos"),
        ("within.tar", "tar cf OUT -C photos ."),
        ("pax.tar", "tar --format=pax -cf OUT photos"),
        ("ustar.tar", "tar --format=ustar -cf OUT photos"),
        ("v7.tar", "tar --format=v7 -cf OUT photos"),
        ("tar.tar.gz", "tar czf OUT photos"),
        ("tar.tgz", "tar czf OUT photos"),
        ("tar.tar.bz2", "tar cjf OUT photos"),
        ("tar.tar.xz", "tar cJf OUT photos"),
        (
            "two.tar.gz",
            "tar c photos > t && (head -c 9999 t | gzip; tail -c +10000 t | gzip) > OUT",
        ),
    ],
)
def test_an_archive_is_packed_like_its_folder(
    data: Path, shards: dict[str, bytes], run_here: Run, tmp_path: Path, name: str, script: str
) -> None:
    archive = tmp_path / name
    subprocess.run(["bash", "-ec", script.replace("OUT", str(archive))], cwd=data, check=True)
    assert packed(run_here, archive, tmp_path / "shards") == shards
    assert packed(run_here, archive, tmp_path / "one", "-j", 1) == shards
    done = run_here("verify", data / "of-folder", "--against", archive, "-q")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert names(tmp_path / "shards") == names(data / "of-folder")


@pytest.mark.parametrize("suffix", [".zip", ".tar", ".tar.gz"])
def test_a_directory_in_an_archive(
    data: Path, shards: dict[str, bytes], run_here: Run, tmp_path: Path, suffix: str
) -> None:
    archive = tmp_path / f"data{suffix}"
    if suffix == ".zip":
        zip_folder(data / "photos", archive, "all/train/")
        with zipfile.ZipFile(archive, "a") as file:
            file.writestr("all/val/cat/x.jpg", b"x")
    else:
        with tarfile.open(archive, f"w:{suffix[5:]}") as tar:
            tar.add(data / "photos", "all/train")
            tar.add(data / "photos/cat/000.jpg", "all/val/cat/x.jpg")
    assert packed(run_here, archive / "all" / "train", tmp_path / "shards") == shards
    done = run_here("pack", archive / "none", tmp_path / "no", "--format", "webdataset")
    assert (done.code, done.err) == (4, f"dsprep: {archive}: has no directory 'none'\n")


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_a_tar_of_tars(data: Path, run_here: Run, tmp_path: Path, suffix: str) -> None:
    flat = tmp_path / "flat"
    with tarfile.open(tmp_path / f"train.tar{suffix}", f"w:{suffix[1:]}") as outer:
        for number, name in enumerate(("n01", "n02")):
            files = image_folder(flat / name, (".",), per_class=5 + number)
            inner = io.BytesIO()
            with tarfile.open(fileobj=inner, mode="w") as tar:
                for path in files:
                    tar.add(flat / name / path, path)
            member = tarfile.TarInfo(f"{name}.tar")
            member.size = inner.tell()
            inner.seek(0)
            outer.addfile(member, inner)
    expected = packed(run_here, flat, tmp_path / "of-folder")
    assert packed(run_here, tmp_path / f"train.tar{suffix}", tmp_path / "of-tar") == expected
    assert manifest(tmp_path / "of-tar")["classes"] == ["n01", "n02"]


def test_one_tar_in_a_tar_is_a_class(data: Path, run_here: Run, tmp_path: Path) -> None:
    script = "tar cf n01.tar -C photos/cat 000.jpg 001.jpg && tar cf OUT n01.tar && rm n01.tar"
    archive = tmp_path / "train.tar"
    subprocess.run(["bash", "-ec", script.replace("OUT", str(archive))], cwd=data, check=True)
    packed(run_here, archive, tmp_path / "shards")
    assert manifest(tmp_path / "shards")["classes"] == ["n01"]


@pytest.mark.parametrize("labels", ["labels.csv", "sub/labels.csv", "photos/sub/labels.csv"])
@pytest.mark.parametrize("suffix", [".zip", ".tar", ".tar.gz"])
def test_a_download_of_kaggle(
    data: Path, run_here: Run, tmp_path: Path, suffix: str, labels: str
) -> None:
    table = tmp_path / "labels.csv"
    table.write_text("id,breed\n000,pug\n001,corgi\n002,pug\n")
    beside = tmp_path / "beside.csv"
    beside.write_bytes(table.read_bytes())
    archive = tmp_path / f"dogs{suffix}"
    cat = data / "photos" / "cat"
    if suffix == ".zip":
        with zipfile.ZipFile(archive, "w") as file:
            file.write(table, "photos/sub/labels.csv")
            for path in sorted(cat.iterdir()):
                file.write(path, f"photos/train/{path.name}")
    else:
        with tarfile.open(archive, f"w:{suffix[5:]}") as tar:
            tar.add(table, "photos/sub/labels.csv")
            tar.add(cat, "photos/train")
    table.unlink()
    options = ("--format", "recordio", "--labels")
    done = run_here("pack", archive, tmp_path / "inside", *options, labels, "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert (report["samples"], report["classes"]) == (3, ["corgi", "pug"])
    done = run_here("pack", archive, tmp_path / "outside", *options, beside)
    assert done.code == 0, done.err
    assert contents(tmp_path / "inside") != {}
    shard = "train-00000.rec"
    assert contents(tmp_path / "inside")[shard] == contents(tmp_path / "outside")[shard]


def test_labels_that_are_nowhere(data: Path, run_here: Run, tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    zip_folder(data / "photos", archive, "")
    done = run_here("pack", archive, tmp_path / "o", "--format", "recordio", "--labels", "x.csv")
    problem = f"x.csv: does not exist, neither on the disk nor in {archive}"
    assert (done.code, done.err) == (4, f"dsprep: {problem}\n")


@pytest.mark.parametrize("top", ["", "photos/"])
def test_lists_of_an_archive(data: Path, run_here: Run, tmp_path: Path, top: str) -> None:
    archive = tmp_path / "a.zip"
    zip_folder(data / "photos", archive, top)
    for source, out in ((archive, "a.lst"), (data / "photos", "b.lst")):
        done = run_here("lst", "create", source, "-o", tmp_path / out, "-q", "--overwrite")
        assert done.code == 0, done.err
    assert (tmp_path / "a.lst").read_bytes() == (tmp_path / "b.lst").read_bytes()
    for source, out in ((archive, "of-zip"), (data / "photos", "of-folder")):
        done = run_here(
            "pack",
            source,
            tmp_path / out,
            "--format",
            "recordio",
            "-q",
            "--list",
            tmp_path / "a.lst",
        )
        assert done.code == 0, done.err
    shards = contents(tmp_path / "of-zip")
    assert shards["train-00000.rec"] == contents(tmp_path / "of-folder")["train-00000.rec"]


@pytest.mark.parametrize("suffix", [".zip", ".tar.gz"])
def test_splits_of_an_archive(data: Path, run_here: Run, tmp_path: Path, suffix: str) -> None:
    archive = tmp_path / f"a{suffix}"
    if suffix == ".zip":
        zip_folder(data / "photos", archive, "photos/")
    else:
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(data / "photos", "photos")
    for source, out in ((archive, "of-archive"), (data / "photos", "of-folder")):
        done = run_here("split", source, "-o", tmp_path / out, "-q")
        assert (done.code, done.err) == (0, "")
    assert contents(tmp_path / "of-archive") == contents(tmp_path / "of-folder")
    for option in (("--materialize", "copy"), ("--leaks", "report")):
        done = run_here("split", archive, "-o", tmp_path / "no", *option)
        problem = f"{option[0]} needs the images as files: unpack {archive}, and give the directory"
        assert (done.code, done.err) == (2, f"dsprep: {problem}\n")
    assert not (tmp_path / "no").exists()


def test_groups_of_a_table_in_an_archive(data: Path, run_here: Run, tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    zip_folder(data / "photos" / "cat", archive, "train/")
    with zipfile.ZipFile(archive, "a") as file:
        rows = "".join(f"00{i},{i % 2},p{i // 2}\n" for i in range(6))
        file.writestr("train.csv", f"id,label,patient\n{rows}")
    done = run_here(
        "split", archive, "-o", tmp_path / "lists", "--labels", "train.csv", "--group", "patient",
        "--ratio", "train=0.6,val=0.4", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert json.loads(done.out)["groups"] == 3


def test_transforms_and_dry_runs(data: Path, run_here: Run, tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.xz"
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(data / "photos", "photos")
    options = ("--format", "webdataset", "--resize", 24, "--encode", "jpeg", "--json")
    for source in (archive, data / "photos"):
        dry = run_here("pack", source, tmp_path / "dry", *options, "--dry-run")
        assert dry.code == 0, dry.err
        assert not (tmp_path / "dry").exists()
        done = run_here("pack", source, tmp_path / f"of-{source.name}", *options)
        assert json.loads(dry.out)["samples"] == json.loads(done.out)["samples"] == 18
    assert contents(tmp_path / "of-a.tar.xz") == contents(tmp_path / "of-photos")


def test_an_archive_is_never_replaced(data: Path, run_here: Run, tmp_path: Path) -> None:
    archive = tmp_path / "train.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(data / "photos", "photos")
    before = archive.read_bytes()
    for dest in (archive, tmp_path / "x/../train.tar"):
        done = run_here("pack", archive, dest, "--overwrite")
        assert done.code in (2, 5), done
    assert archive.read_bytes() == before


@pytest.mark.parametrize("name", ["list.lst", "x.zip", "x.7z", "empty.zip"])
def test_files_of_other_kinds(run_here: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"" if name == "empty.zip" else b"0\t0\tx.jpg\n" * 99)
    done = run_here("pack", tmp_path / name, tmp_path / "o", "--format", "webdataset")
    assert done.code == 4
    assert done.err == (
        f"dsprep: {tmp_path / name}: is not a directory, nor an archive that dsprep knows "
        "(zip, tar, tar.gz, tar.bz2, tar.xz); give a directory or an archive of images, shards, "
        "or, with --from csv, a table whose rows are samples\n"
    )
