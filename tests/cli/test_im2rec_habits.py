"""Lists beside the shards, and a shard for each list, as MXNet's im2rec has them."""

from __future__ import annotations

import gc
import json
import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from unittest import mock

import numpy as np
import pytest

from tests.conftest import Finished
from tests.images import image_folder, jpeg
from tests.servers.bucket import Bucket

RunHere = Callable[..., Finished]

LISTS = ("val_0.lst", "val_1.lst", "val_2.lst")


@pytest.fixture
def own(tmp_path: Path, run_here: RunHere) -> Path:
    """Lists of three chunks of 20 images, and their classes."""
    image_folder(tmp_path / "images", ("cat", "dog"), per_class=10, size=(40, 30))
    create = ("lst", "create", tmp_path / "images", "-o", tmp_path / "own" / "val.lst")
    assert run_here(*create, "--chunks", 3).code == 0
    return tmp_path / "own"


def stamps(directory: Path) -> dict[str, tuple[bytes, int]]:
    """What lies in a directory, and when it was written."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()}


def test_a_pattern_makes_the_shards_of_im2rec_beside_the_lists(
    own: Path, tmp_path: Path, run_here: RunHere, mxnet: ModuleType, im2rec: ModuleType
) -> None:
    before, theirs = stamps(own), tmp_path / "theirs"
    shutil.copytree(own, theirs)
    words = (im2rec.__file__, "--pass-through", theirs / "val", tmp_path / "images")
    with mock.patch.object(sys, "argv", list(map(str, words))):
        runpy.run_path(str(im2rec.__file__), run_name="__main__")
    gc.collect()  # closes the files that im2rec leaves open

    pack = ("pack", tmp_path / "images", own, "--list", own / "val_*.lst", "--to", "recordio")
    done = run_here(*pack, "--no-shuffle", "-j2", "--json")
    assert done.code == 0, done
    shards = json.loads(done.out)["shards"]
    assert [each["name"] for each in shards] == ["val_0.rec", "val_1.rec", "val_2.rec"]
    assert stamps(own).items() >= before.items()
    for stem in ("val_0", "val_1", "val_2"):
        for suffix in (".rec", ".idx"):
            assert (own / stem).with_suffix(suffix).read_bytes() == (
                (theirs / stem).with_suffix(suffix).read_bytes()
            )
        images = mxnet.io.ImageRecordIter(
            path_imgrec=str(own / f"{stem}.rec"), data_shape=(3, 30, 40), batch_size=1
        )
        labels = [int(batch.label[0].asnumpy()[0]) for batch in images]
        lines = (own / f"{stem}.lst").read_text().splitlines()
        assert labels == [int(line.split("\t")[1]) for line in lines]
    again = run_here(*pack, "--no-shuffle")
    assert (again.code, "already packed" in again.out) == (0, True)
    assert run_here("verify", own, "--against", tmp_path / "images", "--list", pack[4]).code == 0
    assert run_here(*pack, "--seed", 3, "--overwrite", "-qj1").code == 0  # within each list
    ids = [
        [line.split("\t")[0] for line in (own / f"val_1{suffix}").read_text().splitlines()]
        for suffix in (".lst", ".idx")
    ]
    assert ids[0] != ids[1]
    assert sorted(ids[0]) == sorted(ids[1])
    assert stamps(own).items() >= before.items()


def test_a_list_beside_its_record_file_stays_as_it_is(
    own: Path, tmp_path: Path, run_here: RunHere
) -> None:
    lst, rec = own / "val_0.lst", own / "val_0.rec"
    lst.write_text(lst.read_text() + "99\t0.0\tcat/never.jpg\n")  # in no spelling of dsprep's
    before = stamps(own)
    pack = ("pack", tmp_path / "images", rec, "--list", lst, "-j1")
    assert run_here(*pack).code == 3
    assert stamps(own).items() >= before.items()
    assert run_here("verify", rec, "-qj1").code == 0
    assert run_here(*pack, "--overwrite", "--resize", 8, "-q").code == 3
    assert stamps(own).items() >= before.items()
    assert run_here("convert", rec, tmp_path / "set", "--to", "webdataset", "-qj1").code == 0


@pytest.mark.parametrize("name", ["webdataset", "tfrecord", "parquet"])
def test_other_formats_and_sources(own: Path, tmp_path: Path, run_here: RunHere, name: str) -> None:
    shards = tmp_path / "shards"
    pack = ("pack", tmp_path / "images", shards, "--to", name, "-j1")
    parts = [run_here(*pack, "--list", own / "val_*.lst", "--part", f"{n}/2") for n in (0, 1)]
    assert [part.code for part in parts] == [0, 0], parts
    suffix = {"webdataset": ".tar", "tfrecord": ".tfrecord", "parquet": ".parquet"}[name]
    sizes = [len((own / each).read_text().splitlines()) for each in LISTS]
    made = json.loads((shards / "manifest.json").read_text())["shards"]
    assert [(each["name"], each["samples"]) for each in made] == [
        (each.replace(".lst", suffix), size) for each, size in zip(LISTS, sizes, strict=True)
    ]
    if name == "webdataset":
        again = ("shard", shards, tmp_path / "again", "--list", own / "val_*.lst", "-qj1")
        assert run_here(*again).code == 0
        for path in shards.glob("*.tar"):
            assert (tmp_path / "again" / path.name).exists()
        sized = run_here(*again[:2], tmp_path / "one", *again[3:], "--shards", 1)
        assert (sized.code, [path.name for path in (tmp_path / "one").glob("*.tar")]) == (
            *(0, ["val-000000.tar"]),  # as the lists are called
        )


def test_lists_of_boxes_and_what_does_not_go_together(
    own: Path, tmp_path: Path, run_here: RunHere, mxnet: ModuleType
) -> None:
    images, dest = tmp_path / "images", tmp_path / "boxes"
    dest.mkdir()
    label = "4\t5\t40\t30\t1\t0.1\t0.2\t0.6\t0.7"
    (dest / "a.lst").write_text(f"0\t{label}\tcat/000.jpg\n1\t{label}\tcat/001.jpg\n")
    (dest / "b.lst").write_text(f"0\t{label}\t0\t0\t0\t0.5\t0.5\tdog/000.jpg\n")  # ids from 0 again
    pack = ("pack", images, dest, "--to", "recordio", "--list", dest / "?.lst", "-j1")
    assert run_here(*pack, "--no-shuffle").code == 0
    record = mxnet.recordio.MXIndexedRecordIO(str(dest / "b.idx"), str(dest / "b.rec"), "r")
    header, data = mxnet.recordio.unpack(record.read_idx(0))
    expected = [4, 5, 40, 30, 1, 0.1, 0.2, 0.6, 0.7, 0, 0, 0, 0.5, 0.5]
    np.testing.assert_allclose(header.label, expected, rtol=1e-6)
    assert data == (images / "dog" / "000.jpg").read_bytes()

    keys = ("pack", images, tmp_path / "k", "--to", "webdataset", "--key", "index", "-j1")
    repeated = run_here(*keys, "--list", dest / "?.lst")
    assert (repeated.code, "have the id 0" in repeated.err) == (4, True), repeated
    (dest / "c.lst").write_text(f"7\t{label}\tcat/001.jpg\n")
    twice = run_here("pack", images, tmp_path / "k", "--to", "recordio", "--list", dest / "?.lst")
    assert (twice.code, "c.lst:1: 'cat/001.jpg' stands in a.lst:2 already" in twice.err) == (
        *(4, True),
    )
    (dest / "c.lst").write_text("0\t1\tdog/001.jpg\n")
    other = run_here("pack", images, tmp_path / "k", "--to", "recordio", "--list", dest / "?.lst")
    assert (other.code, f"{dest}/c.lst" in other.err) == (4, True), other
    none = run_here("pack", images, tmp_path / "k", "--to", "recordio", "--list", dest / "x*.lst")
    assert (none.code, "there are no such files" in none.err) == (4, True)


@pytest.mark.parametrize(
    ("options", "small"),
    [
        (("--resize", 32), 2),
        (("--resize", 32, "--crop", 8, "--encode", "png"), 2),
        (("--resize", "40x20"), 1),
        (("--resize", 32, "--enlarge"), 0),
        (("--resize", 24), 1),
    ],
)
def test_images_below_the_size_are_counted(
    tmp_path: Path, run_here: RunHere, options: tuple[object, ...], small: int
) -> None:
    for number, size in enumerate(((64, 48), (40, 30), (20, 30))):
        path = tmp_path / "images" / "cat" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(number, size))
    pack = ("pack", tmp_path / "images", tmp_path / "set", "--to", "webdataset", "-j1", *options)
    for more in (("--dry-run",), ()):
        notes = [line for line in run_here(*pack, *more).out.splitlines() if "im2rec" in line]
        count = f"{small} image{'s' * (small > 1)} smaller than --resize {options[1]}, not enlarged"
        assert len(notes) == (small > 0)
        assert all(count in note for note in notes)


def test_lists_and_shards_on_s3(
    own: Path, tmp_path: Path, run_here: RunHere, ceph: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", ceph.endpoint)
    for path in own.glob("*.lst"):
        ceph.put(f"own/{path.name}", path.read_bytes())
    pack = ("pack", tmp_path / "images", f"{ceph.url}/own/", "--to", "recordio", "-j1")
    done = run_here(*pack, "--list", f"{ceph.url}/own/val_*.lst")
    assert done.code == 0, done
    there = ceph.contents()
    for path in own.glob("*.lst"):
        assert there[f"own/{path.name}"] == path.read_bytes()
        assert {f"own/{path.stem}.rec", f"own/{path.stem}.idx"} <= there.keys()
    assert run_here("verify", f"{ceph.url}/own/").code == 0
