"""How often a place is listed, and how many files are opened, until the samples are known.

The limits are what it took when kinds were tried one after the other. They may sink, never rise.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from botocore.exceptions import ClientError
from PIL import Image

import dsprep
from dsprep.sources.annotation_kind import LOOKED_AT, DirectoryAbove
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from dsprep.storage.s3.client import Connection
from dsprep.storage.s3.store import S3Store
from tests.images import image_folder
from tests.servers.bucket import Bucket


class Budget(NamedTuple):
    """What reading a source may take at most: listings, files that are opened, requests to S3."""

    listings: int
    opens: int = 0
    requests: int = 0


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count what is done below the directory of the test, and requests."""
    counts = Counter[str]()
    scandir, listdir, os_open, send = os.scandir, os.listdir, os.open, Connection.send

    def count_listing(path: Any = ".") -> Any:
        counts["listings"] += str(path).startswith(str(tmp_path))
        return scandir(path)

    def count_scan(path: Any = ".") -> list[Any]:
        counts["listings"] += isinstance(path, int)  # a directory that is open
        return listdir(path)

    def count_open(path: Any, flags: int, *args: Any, **more: Any) -> int:
        is_file = not flags & os.O_DIRECTORY
        counts["opens"] += is_file and str(path).startswith(str(tmp_path))
        return os_open(path, flags, *args, **more)

    def count_request(self: Connection, operation: str, **args: Any) -> dict[str, Any]:
        try:
            answer = send(self, operation, **args)
        except ClientError as error:
            is_answer = error.response["ResponseMetadata"]["HTTPStatusCode"] < 500
            counts["requests"] += is_answer  # a request that a busy server fails is sent again
            raise
        counts["requests"] += 1
        return answer

    monkeypatch.setattr(os, "scandir", count_listing)
    monkeypatch.setattr(os, "listdir", count_scan)
    monkeypatch.setattr(os, "open", count_open)
    monkeypatch.setattr(Connection, "send", count_request)
    yield counts


def coco(root: Path) -> None:
    files = image_folder(root, ("train", "val"), 3)
    for side in ("train", "val"):
        own = [path for path in files if path.startswith(side)]
        images = [{"id": n, "file_name": os.path.basename(path)} for n, path in enumerate(own)]
        boxes = [{"image_id": 0, "category_id": 1, "bbox": [1, 1, 2, 2], "id": 1}]
        values = {
            "images": [each | {"width": 32, "height": 24} for each in images],
            "annotations": [box | {"area": 4, "iscrowd": 0} for box in boxes],
            "categories": [{"id": 1, "name": "cat"}],
        }
        path = root / "annotations" / f"instances_{side}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(values), "utf-8")


def texts_of_images(root: Path) -> None:
    """Write texts of YOLO, the first of which is empty, and captions in another directory."""
    files = image_folder(root / "images", ("train", "val"), 9)
    for number, path in enumerate(sorted(files)):
        for top, text in (("labels", "0 .5 .5 .1 .1\n" * (number > 0)), ("notes", "a cat\n")):
            own = root / top / Path(path).with_suffix(".txt")
            own.parent.mkdir(parents=True, exist_ok=True)
            own.write_text(text)


def others_beside(root: Path) -> None:
    """Write files of 40 kinds into each of 3 directories, more than heads are read of."""
    for path in image_folder(root, ("a", "b", "c"), 1):
        for number in range(40):
            (root / f"{path}.{number:02}").write_text(f"{number} of {path}", "utf-8")


def masks_beside(root: Path) -> None:
    """Write masks of all images, which are decoded to see that they are masks."""
    for path in image_folder(root / "images", ("all",), 12):
        mask = root / "masks" / Path(path).with_suffix(".png")
        mask.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (32, 24), 1).save(mask)


def texts_beside(root: Path) -> None:
    """Write captions of all images."""
    for path in image_folder(root, ("all",), 12):
        (root / path).with_suffix(".txt").write_text("a cat on a mat", "utf-8")


def make(root: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Make the sources, and the options that go with each."""
    files = image_folder(root / "classes", ("cat", "dog", "owl"), 3)
    coco(root / "coco")
    texts_of_images(root / "yolo")
    others_beside(root / "others")
    masks_beside(root / "masks")
    texts_beside(root / "captions")
    some = [f"{n}\t{n}\t{path}\n" for n, path in enumerate(files) if path.startswith("cat")]
    (root / "cats.lst").write_text("".join(some), "utf-8")
    with zipfile.ZipFile(root / "a.zip", "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    for name in ("webdataset", "parquet"):
        dsprep.pack(str(root / "classes"), str(root / name), to=name, shards=2, workers=1)
    table = "".join(f"{n},{n % 2}\n" for n in range(5))
    (root / "mnist.csv").write_text(f"a,label\n{table}", "utf-8")
    return {
        "classes": (root / "classes", {}),
        "coco": (root / "coco", {}),
        "yolo": (root / "yolo", {}),
        "others": (root / "others", {}),
        "masks": (root / "masks", {}),
        "captions": (root / "captions", {}),
        "shards": (root / "webdataset", {}),
        "parquet": (root / "parquet", {}),
        "list": (root / "classes", {"list_file": str(root / "cats.lst")}),
        "zip": (root / "a.zip", {}),
        "csv": (root / "mnist.csv", {}),
    }


BEFORE = {
    "classes": Budget(15),
    "coco": Budget(19, 2),
    "yolo": Budget(27, 30),  # 18 texts of images, and 12 heads
    "others": Budget(8, 100),  # as many heads as are read in all
    "masks": Budget(11, 8),  # as many images as are decoded
    "captions": Budget(6, 3),
    "shards": Budget(7, 3),
    "parquet": Budget(5, 2),
    "list": Budget(11, 2),
    "zip": Budget(0, 4),
    "csv": Budget(0, 2),
}


def test_local(tmp_path: Path, counted: Counter[str]) -> None:
    taken = {}
    for name, (path, options) in make(tmp_path).items():
        counted.clear()
        read_source(make_source(str(path), **options))
        taken[name] = Budget(counted["listings"], counted["opens"], counted["requests"])
    assert_within(taken, BEFORE)


def test_above_the_images_a_thousand_names_are_looked_at(tmp_path: Path) -> None:
    for number in range(LOOKED_AT + 10):
        (tmp_path / f"{number}.txt").touch()
    above = DirectoryAbove(str(tmp_path.parent), tmp_path.name)
    assert len(above.inside(tmp_path.name)) == LOOKED_AT
    assert len(DirectoryAbove(str(tmp_path), "images").entries) == LOOKED_AT


BEFORE_ON_S3 = {
    "classes": Budget(0, 0, 14),
    "coco": Budget(0, 0, 20),
    "yolo": Budget(0, 0, 112),
    "others": Budget(0, 0, 251),  # two of each head, and 32 pages of names that are listed
    "masks": Budget(0, 0, 34),
    "captions": Budget(0, 0, 25),
    "shards": Budget(0, 0, 28),
    "parquet": Budget(0, 0, 17),
    "list": Budget(0, 2, 10),
    "zip": Budget(0, 0, 6),
    "csv": Budget(0, 0, 8),
}


def test_on_s3(
    tmp_path: Path, localstack: Bucket, counted: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", localstack.endpoint)
    pages = S3Store.pages

    def short(self: S3Store, operation: str, *args: Any, **more: Any) -> Iterator[Any]:
        return pages(self, operation, *args, **more, MaxKeys=4)  # every prefix is a large one

    monkeypatch.setattr(S3Store, "pages", short)
    sources = make(tmp_path)
    for path in sorted(tmp_path.rglob("*")):
        if path.is_file():
            localstack.put(path.relative_to(tmp_path).as_posix(), path.read_bytes())
    taken = {}
    for name, (path, options) in sources.items():
        counted.clear()
        read_source(make_source(f"{localstack.url}/{path.relative_to(tmp_path)}", **options))
        taken[name] = Budget(counted["listings"], counted["opens"], counted["requests"])
    assert_within(taken, BEFORE_ON_S3)


def assert_within(taken: dict[str, Budget], allowed: dict[str, Budget]) -> None:
    assert taken.keys() == allowed.keys()
    more = {
        name: (found, allowed[name])
        for name, found in taken.items()
        if any(map(int.__gt__, found, allowed[name]))
    }
    assert not more
