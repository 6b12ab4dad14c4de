"""Boxes and masks on S3: the same bytes as from a disk, with few requests."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dsprep.annotations.masks import png_of
from tests.attack.trees import contents
from tests.conftest import Finished
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy
from tests.sources.boxes import ROW, SIZE, box, coco, voc, voc_object, write

RunCli = Callable[..., Finished]
COUNT = 30
NAMES = [f"{number:02}.jpg" for number in range(COUNT)]


def mask() -> bytes:
    from PIL import Image

    return png_of(Image.new("L", SIZE, 1))


def annotations() -> str:
    """A JSON of COCO whose annotations are in no order of images."""
    items = [box(at + 1, at % COUNT + 1, at % 2 * 4 + 3) for at in range(4 * COUNT)]
    random.Random(1).shuffle(items)
    return coco(NAMES, items)


def coco_files() -> dict[str, Any]:
    return {f"train2017/{name}": None for name in NAMES} | {
        "annotations/instances_train2017.json": annotations()
    }


def yolo_files() -> dict[str, Any]:
    files: dict[str, Any] = {"data.yaml": "train: images/train\nval: images/val\nnames: [cat]\n"}
    for at, name in enumerate(NAMES):
        side = "val" if at % 5 == 0 else "train"
        files[f"images/{side}/{name}"] = None
        files[f"labels/{side}/{name[:-4]}.txt"] = ROW * (1 + at % 2)
    return files


def voc_files() -> dict[str, Any]:
    files: dict[str, Any] = {
        "VOC2012/ImageSets/Main/train.txt": "".join(f"{n[:-4]}\n" for n in NAMES)
    }
    for name in NAMES:
        files[f"VOC2012/JPEGImages/{name}"] = None
        files[f"VOC2012/Annotations/{name[:-4]}.xml"] = voc(voc_object("cat", (11, 6, 30, 15)))
    return files


def masked_files() -> dict[str, Any]:
    files: dict[str, Any] = {"classes.txt": "ground\nroad\n", "boxes.csv": "image_id,bbox\n"}
    for at, name in enumerate(NAMES):
        files[f"in/{name}"] = None
        files[f"masks/{name[:-4]}.png"] = mask()
        files["boxes.csv"] += f'{name[:-4]},"[1, 2, {at + 1}, 9]"\n'
    return files


SETS: dict[str, tuple[Callable[[], dict[str, Any]], tuple[str, ...]]] = {
    "coco": (coco_files, ("@",)),
    "coco-named": (
        coco_files,
        ("@/train2017", "--annotations", "@/annotations/instances_train2017.json"),
    ),
    "yolo": (yolo_files, ("@",)),
    "voc": (voc_files, ("@",)),
    "masks": (
        masked_files,
        ("@/in", "--masks", "@/masks", "--mask-classes", "@/classes.txt")
        + ("--annotations", "@/boxes.csv", "--box", "xywh"),
    ),
}


@pytest.fixture
def run(ceph: Bucket, run_here: RunCli, way: Proxy) -> RunCli:
    """Runs commands whose workers know the proxy."""

    def run(*args: object) -> Finished:
        return run_here(*args, env={"AWS_ENDPOINT_URL": way.endpoint})

    return run


@pytest.fixture
def way(ceph: Bucket) -> Iterator[Proxy]:
    """A proxy before the server, which notes all requests."""
    with Proxy(ceph.endpoint).running() as running:
        yield running


def upload(ceph: Bucket, root: Path, prefix: str) -> None:
    for path, data in contents(root).items():
        ceph.put(f"{prefix}/{path}", data)


@pytest.mark.parametrize("name", SETS)
def test_the_same_shards(run: RunCli, ceph: Bucket, tmp_path: Path, name: str, way: Proxy) -> None:
    make, given = SETS[name]
    root = write(tmp_path / "set", make())
    upload(ceph, root, "set")
    how = ("--to", "webdataset", "--resize", "15", "-j1")
    found = []
    for where, out in ((str(root), tmp_path / "out"), (f"{ceph.url}/set", f"{ceph.url}/out")):
        args = [arg.replace("@", where) for arg in given]
        done = run("pack", *args, out, *how, "--json")
        assert (done.code, done.err) == (0, "")
        found.append(json.loads(done.out)["objects"])
    assert found[0] == found[1]
    assert found[0] is None or found[0]["objects"] >= COUNT
    assert ceph.contents("out/") == contents(tmp_path / "out")
    gets = Counter(each for each in way.requests if each.startswith("GET") and "/set/" in each)
    # A few samples are looked at, and tried for the sizes of shards, before all are written. How
    # some of the texts begin shows the kind of annotations.
    assert all(count <= 3 for key, count in gets.items() if key.endswith(".jpg"))
    assert all(count <= 5 for key, count in gets.items() if key.endswith((".txt", ".xml")))
    # The annotations of all images, in any order, are read as one file.
    assert all(count <= 6 for key, count in gets.items() if key.endswith((".json", ".csv")))
    assert run("verify", f"{ceph.url}/out").code == 0
    assert run("verify", f"{ceph.url}/out", "--download").code == 0


def test_from_s3_to_s3(run: RunCli, ceph: Bucket, tmp_path: Path) -> None:
    root = write(tmp_path / "set", coco_files())
    shards = tmp_path / "shards"
    assert run("pack", root, shards, "--to", "webdataset", "-j1").code == 0
    upload(ceph, shards, "shards")
    for to in ("webdataset", "parquet", "tfrecord", "recordio"):
        how = ("--to", to, "--resize", "12", "--crop", "12", "-j1")
        assert run("convert", shards, tmp_path / to, *how)[0] == 0
        done = run("convert", f"{ceph.url}/shards", f"{ceph.url}/{to}", *how)
        assert (done.code, done.err) == (0, "")
        assert ceph.contents(f"{to}/") == contents(tmp_path / to)
        against = ("--against", f"{ceph.url}/shards")
        assert run("verify", tmp_path / to, *against).code == 0


@pytest.mark.parametrize("name", SETS)
def test_in_parts(run: RunCli, ceph: Bucket, tmp_path: Path, name: str) -> None:
    make, given = SETS[name]
    root = write(tmp_path / "set", make())
    how = ("--to", "webdataset", "--shards", "2", "-j1")
    args = [arg.replace("@", str(root)) for arg in given]
    assert run("pack", *args, tmp_path / "alone", *how).code == 0
    for part in ("0/2", "1/2"):
        done = run("pack", *args, tmp_path / "shared", *how, "--part", part)
        assert done.code == 0, done.err
    assert contents(tmp_path / "shared") == contents(tmp_path / "alone")
    upload(ceph, root, "set")
    args = [arg.replace("@", f"{ceph.url}/set") for arg in given]
    for part in ("0/2", "1/2"):
        done = run("pack", *args, tmp_path / "remote", *how, "--part", part)
        if done.code == 2:  # another machine does not have the copy that this one reads
            assert "copy them to a disk that all machines can read" in done.err
            assert not (tmp_path / "remote").exists()
            return
        assert done.code == 0, done.err
    assert contents(tmp_path / "remote") == contents(tmp_path / "alone")
