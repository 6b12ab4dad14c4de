"""A source that changes between the plan and the reading: what is noticed, as the docs tell it."""

from __future__ import annotations

import json
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.run import write
from tests.conftest import Finished
from tests.images import image_folder, jpeg

RunHere = Callable[..., Finished]


def folder(root: Path) -> tuple[Path, Path]:
    image_folder(root / "photos", ("a", "b"), 3)
    return root / "photos", next((root / "photos" / "a").iterdir())


def tar(root: Path) -> tuple[Path, Path]:
    photos, _ = folder(root)
    with tarfile.open(root / "photos.tar", "w") as archive:
        archive.add(photos, "photos")
    return root / "photos.tar", root / "photos.tar"


def compressed_tar(root: Path) -> tuple[Path, Path]:
    photos, _ = folder(root)
    with tarfile.open(root / "photos.tar.gz", "w:gz") as archive:
        archive.add(photos, "photos")
    return root / "photos.tar.gz", root / "photos.tar.gz"


def zipped(root: Path) -> tuple[Path, Path]:
    photos, _ = folder(root)
    with zipfile.ZipFile(root / "photos.zip", "w") as archive:
        for path in sorted(photos.rglob("*.*")):
            archive.write(path, path.relative_to(root))
    return root / "photos.zip", root / "photos.zip"


def shards(to: str) -> Callable[[Path], tuple[Path, Path]]:
    def make(root: Path) -> tuple[Path, Path]:
        photos, _ = folder(root)
        dsprep.convert(photos, root / "shards", to=to, shards=1)
        (shard,) = root.glob(f"shards/train-*{dsprep.formats.FORMATS[to].suffix}")
        return root / "shards", shard

    return make


def table(root: Path) -> tuple[Path, Path]:
    path = root / "digits.csv"
    path.write_text("label,p0,p1,p2,p3\n" + "".join(f"{n % 3},0,1,2,{n}\n" for n in range(9)))
    return path, path


OF_MANY = {
    "tar": tar,
    "tar.gz": compressed_tar,
    "zip": zipped,
    "webdataset": shards("webdataset"),
    "tfrecord": shards("tfrecord"),
    "recordio": shards("recordio"),
    "parquet": shards("parquet"),
    "csv": table,
}


def changing(monkeypatch: pytest.MonkeyPatch, change: Callable[[], Any]) -> None:
    """Change the source when the plan is made and no worker has read a sample."""

    def identity(plan: Any) -> Any:
        found = write_identity(plan)
        change()
        return found

    write_identity = write.identity_of
    monkeypatch.setattr(write, "identity_of", identity)


@pytest.mark.parametrize("kind", OF_MANY)
def test_another_time_of_a_file_of_many_samples_stops_the_run(
    run_here: RunHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    source, file = OF_MANY[kind](tmp_path)
    changing(monkeypatch, lambda: os.utime(file, (1, 1)))
    done = run_here("convert", source, tmp_path / "o", "--to", "webdataset", "-j", 1)
    assert (done.code, done.out) == (4, ""), done.err
    assert "has changed" in done.err
    assert not (tmp_path / "o" / "manifest.json").exists()


def test_another_size_of_an_image_is_a_reject(
    run_here: RunHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, file = folder(tmp_path)
    changing(monkeypatch, lambda: file.write_bytes(jpeg(7) + b"more"))
    done = run_here("pack", source, tmp_path / "o", "--to", "webdataset", "--json")
    (reject,) = json.loads(done.out)["rejects"]
    assert (done.code, "has changed: it had" in reject["reason"]) == (3, True)


def test_an_image_of_the_same_size_is_taken_as_it_is_read(
    run_here: RunHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is one whole file, old or new, and `verify --against` compares it with what is there."""
    source, file = folder(tmp_path)
    old, new = (b"\xff\xd8\xff\xfe\0\6%s" % text + jpeg(7)[2:] for text in (b"once", b"then"))
    file.write_bytes(old)
    changing(monkeypatch, lambda: file.write_bytes(new))
    assert run_here("pack", source, tmp_path / "o", "--to", "webdataset", "-j", 1).code == 0
    assert run_here("verify", tmp_path / "o", "--against", source).code == 0
    file.write_bytes(old)
    assert run_here("verify", tmp_path / "o", "--against", source).code == 3


@pytest.mark.parametrize("damage", ["other bytes", "the end of its first half"])
@pytest.mark.parametrize("kind", [*OF_MANY, "folder"])
def test_of_the_same_size_and_time_nothing_but_whole_samples_are_written(
    run_here: RunHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, damage: str
) -> None:
    """Who keeps size and time is found out by the structure of the file."""
    source, file = (OF_MANY | {"folder": folder})[kind](tmp_path)
    status, data = file.stat(), file.read_bytes()
    other = b"\xfe" * len(data) if damage == "other bytes" else data[: len(data) // 2] * 2

    def change() -> None:
        file.write_bytes(other[: len(data)].ljust(len(data), b"\0"))
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

    changing(monkeypatch, change)
    done = run_here("convert", source, tmp_path / "o", "--to", "tfrecord", "-j", 1)
    assert done.code in (3, 4, 6), done.out
    assert "Traceback" not in done.err
    if (tmp_path / "o" / "manifest.json").exists():
        assert run_here("verify", tmp_path / "o", "--decode").code in (0, 3)
