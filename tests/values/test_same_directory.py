"""A program that changes its directory during a call: paths mean what they meant at its start."""

from __future__ import annotations

import csv
import json
import os
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

import dsprep
from tests.attack.trees import contents
from tests.images import image_folder
from tests.servers.bucket import Bucket


@dataclass
class Moving(os.PathLike[str]):
    """A source that changes the directory of the process as soon as the call looks at it."""

    path: str
    elsewhere: Path

    def __fspath__(self) -> str:
        os.chdir(self.elsewhere)
        return self.path


def make_sources(root: Path) -> None:
    """Make images in two classes, and what describes or holds them in other ways."""
    image_folder(root / "photos", ("cat", "dog"), 3)
    paths = sorted(str(path.relative_to(root / "photos")) for path in root.rglob("*.jpg"))
    with tarfile.open(root / "photos.tar", "w") as tar, ZipFile(root / "photos.zip", "w") as zipped:
        for path in paths:
            tar.add(root / "photos" / path, path)
            zipped.write(root / "photos" / path, path)
    rows = [(path, path.split("/")[0]) for path in reversed(paths[1:])]
    with (root / "labels.csv").open("w") as file:
        csv.writer(file).writerows([("path", "label"), *rows])
    with (root / "table.csv").open("w") as file:
        csv.writer(file).writerows([("a", "b"), *((n, n / 2) for n in range(9))])
    (root / "train.lst").write_text("".join(f"{n}\t{n % 2}\t{p}\n" for n, p in enumerate(paths)))
    (root / "names.txt").write_text("odd\neven\n")
    boxes = [
        {"id": n + 1, "image_id": n, "category_id": 1, "bbox": [1, 2, 9, 8]}
        for n in range(len(paths))
    ]
    (root / "boxes.json").write_text(
        json.dumps(
            {
                "images": [{"id": n, "file_name": path} for n, path in enumerate(paths)],
                "annotations": boxes,
                "categories": [{"id": 1, "name": "cat"}],
            }
        )
    )
    (root / "broken").mkdir()
    (root / "broken" / "bad.jpg").write_bytes(b"\xff\xd8\xff\xe0 cut")


def call_all(source: Any, remote: str) -> list[Any]:
    """Call functions with relative paths; return what they report, also in errors."""
    known: list[Any] = []

    def call(function: Any, path: str, dest: str, **options: Any) -> None:
        try:
            report = function(source(path), dest, workers=1, **options)
            known.append({**vars(report), "seconds": 0})
        except dsprep.DsprepError as error:
            known.append((dest, type(error), str(error)))

    call(dsprep.pack, "photos", "made/webdataset", to="webdataset", shards=2)
    call(dsprep.pack, "photos", "made/webdataset", to="webdataset", shards=2)  # is there
    call(dsprep.pack, "photos", "made/one.rec", list_file="train.lst", classes="names.txt")
    call(dsprep.pack, "photos", "made/tfrecord", to="tfrecord", labels="labels.csv")
    call(dsprep.pack, "photos", "made/boxes", to="tfrecord", annotations="boxes.json")
    call(dsprep.pack, "photos.zip", "made/of-zip", to="parquet")
    call(dsprep.pack, "photos.tar", f"{remote}/of-tar", to="webdataset")
    call(dsprep.pack, "broken", "made/broken", to="webdataset")
    call(dsprep.pack, "photos", "names.txt/below", to="webdataset")
    call(dsprep.pack, "photos", "made/nothing", to="webdataset", list_file="nothing.lst")
    call(dsprep.convert, "table.csv", "made/table", to="tfrecord")
    call(dsprep.convert, "made/webdataset", "made/folder", to="folder")
    call(dsprep.convert, "made/webdataset", f"{remote}/of-shards", to="tfrecord")
    call(dsprep.augment, "photos", "made/more", to="webdataset", op="hflip", per_class=4)
    call(dsprep.append, "photos.zip", "made/tfrecord", skip_existing=True)
    call(dsprep.shard, "made/webdataset/*.tar", "made/again", shards=3)
    return known


def test_a_change_of_the_directory_during_a_call_changes_nothing(
    tmp_path: Path, ceph: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", ceph.endpoint)
    here, there, elsewhere = (tmp_path / name for name in ("here", "there", "elsewhere"))
    elsewhere.mkdir()
    here.mkdir()
    make_sources(here)
    shutil.copytree(here, there)
    known = {}
    for root in (here, there):

        def source(path: str, root: Path = root) -> object:
            monkeypatch.chdir(root)
            return Moving(path, elsewhere if root == there else root)

        known[root] = call_all(source, f"{ceph.url}/{root.name}")
    errors = [each for each in known[here] if isinstance(each, tuple)]
    assert [(dest, kind.__name__, told.split(": ")[0]) for dest, kind, told in errors] == [
        ("made/broken", "SourceError", "broken"),
        ("names.txt/below", "DestinationError", "names.txt/below/.dsprep"),
        ("made/nothing", "SourceError", "nothing.lst"),
    ]
    as_in_here = json.loads(json.dumps(known[there], default=str).replace("/there/", "/here/"))
    assert as_in_here == json.loads(json.dumps(known[here], default=str))
    assert contents(there) == contents(here)
    assert ceph.contents("there/") == ceph.contents("here/")
    assert contents(elsewhere) == {}
    assert str(tmp_path).encode() not in b"".join(contents(there / "made").values())
