"""`verify` of data sets on S3: proven by HEADs, or by reading everything back."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

import dsprep
from tests.attack.trees import contents
from tests.conftest import Finished
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy

PREFIX = "a set/ねこ+100%/"


class Shelf:
    """A data set, on the disk and in a bucket, and `verify` of the latter."""

    def __init__(self, bucket: Bucket, root: Path, run: Callable[..., Finished]) -> None:
        self.bucket, self.root, self.run = bucket, root, run
        self.files = contents(root)
        self.url = f"{bucket.url}/{PREFIX}"

    @property
    def named(self) -> list[str]:
        """What the manifest names."""
        return [name for name in self.files if name != "manifest.json"]

    def sync(self) -> None:
        done = self.run("sync", self.root, self.url, *self.bucket.options, "-q")
        assert done == (0, "", "")

    def copy(self, but: tuple[str, ...] = ()) -> None:
        """Put everything there as other tools do, which note no checksums."""
        for name, data in self.files.items():
            if name not in but:
                self.bucket.put(PREFIX + name, data)

    def put(self, name: str, data: bytes, said: bytes | None = None) -> None:
        """Put a file there, with the checksum of these bytes, or of others, in its metadata."""
        crc32c = google_crc32c.value(data if said is None else said)
        self.bucket.s3.put_object(
            Bucket=self.bucket.name,
            Key=PREFIX + name,
            Body=data,
            Metadata={"dsprep-crc32c": f"{crc32c:08x}"},
        )

    def delete(self, name: str) -> None:
        self.bucket.s3.delete_object(Bucket=self.bucket.name, Key=PREFIX + name)

    def verify(self, *args: str, name: str = "", code: int = 0) -> Any:
        done = self.run("verify", self.url + name, *args, "--json")
        assert done.code == code, done
        return json.loads(done.out) if done.out else done.err

    def wrong(self, *args: str, name: str = "") -> dict[str, str]:
        """What is wrong, by the file's name."""
        report = self.verify(*args, name=name, code=3)
        assert all(each["file"].startswith(self.url) for each in report["problems"])
        return {each["file"].removeprefix(self.url): each["message"] for each in report["problems"]}


@pytest.fixture(scope="module")
def packed(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three shards with indexes."""
    root = tmp_path_factory.mktemp("packed") / "set"
    dsprep.pack(str(photos), str(root), format="recordio", shards=3, workers=1)
    return root


@pytest.fixture
def shelf(
    bucket: Bucket, packed: Path, run_here: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> Shelf:
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.endpoint)
    return Shelf(bucket, packed, run_here)


@pytest.fixture
def on_ceph(
    ceph: Bucket, packed: Path, run_here: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> Shelf:
    monkeypatch.setenv("AWS_ENDPOINT_URL", ceph.endpoint)
    return Shelf(ceph, packed, run_here)


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def test_what_sync_has_sent_is_proven(shelf: Shelf) -> None:
    shelf.sync()
    by = "checksum" if shelf.bucket.checksums else "metadata"
    local = dsprep.verify(str(shelf.root), workers=1)
    report = shelf.verify()
    assert report["proof"] == {by: len(shelf.named)}
    assert not report["problems"]
    for name in ("format", "manifest", "shards", "samples", "bytes"):
        assert report[name] == getattr(local, name)
    assert shelf.verify(name="manifest.json")["proof"] == report["proof"]
    assert shelf.verify(name="train-00001.rec")["proof"] == {by: 3}  # with .idx and .lst
    assert shelf.verify("--download")["proof"] == {"download": len(shelf.named)}


def test_what_is_wrong_is_named(shelf: Shelf) -> None:
    sizes = {name: len(shelf.files[name]) for name in shelf.named}
    for name in sizes:
        shelf.put(name, flipped(shelf.files[name]))
    shelf.bucket.put(f"{PREFIX}manifest.json", shelf.files["manifest.json"])
    assert all("its crc32c is" in message for message in shelf.wrong().values())
    assert shelf.wrong().keys() == sizes.keys()
    for name in sizes:
        shelf.put(name, shelf.files[name][:-1])
    assert shelf.wrong() == {
        name: f"has {size - 1:,} bytes, not {size:,}" for name, size in sizes.items()
    }
    for name in sizes:
        shelf.delete(name)
    assert shelf.wrong("--download") == dict.fromkeys(sizes, "is in the manifest, but not there")


def test_a_wrong_checksum_of_the_server_is_no_problem(
    on_ceph: Shelf, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "train-00001.rec"
    data = on_ceph.files[name]
    on_ceph.sync()
    headers = {"x-amz-checksum-crc32c": "AAAAAA==", "x-amz-checksum-type": "FULL_OBJECT"}
    proxy.add("headers", method="HEAD", match=name, times=100, headers=headers)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    for option in ((), ("--download",)):
        report = on_ceph.verify(*option)
        assert report["problems"] == []
        assert report["notes"][-1].endswith(f"the bytes are right: {name}")
    assert proxy.counted("GET", match="train-00000.rec") == 1  # by --download
    on_ceph.put(name, flipped(data), said=data)
    assert "bytes have changed" in on_ceph.wrong()[name]


def test_a_size_is_no_proof(shelf: Shelf) -> None:
    shelf.copy()
    first, *others = shelf.named
    data = shelf.files[first]
    shelf.bucket.s3.put_object(
        Bucket=shelf.bucket.name,
        Key=PREFIX + first,
        Body=data,
        ChecksumCRC32C=b64encode(google_crc32c.value(data).to_bytes(4, "big")).decode(),
    )
    proof = {"size": len(shelf.named)}
    if shelf.bucket.checksums:
        proof = {"checksum": 1, "size": len(others)}
    assert shelf.verify()["proof"] == proof
    said = shelf.run("verify", shelf.url).out
    assert "not all is proven" in said
    assert f"{proof['size']} files of the right size" in said
    assert "--download" in said
    assert shelf.verify("--download")["proof"] == {"download": len(shelf.named)}


def test_a_download_believes_no_metadata(shelf: Shelf) -> None:
    shelf.copy()
    name = "train-00002.rec"
    data = shelf.files[name]
    shelf.put(name, flipped(data), said=data)
    assert shelf.verify()["proof"] == {"metadata": 1, "size": len(shelf.named) - 1}
    assert "its crc32c is" in shelf.wrong("--download")[name]
    shelf.put(name, data, said=b"something else")
    assert "as its metadata has it" in shelf.wrong()[name]
    assert not shelf.verify("--download")["problems"]


def test_no_manifest(on_ceph: Shelf) -> None:
    assert "nothing is there" in on_ceph.verify(code=4)
    on_ceph.copy(but=("manifest.json",))
    for name in ("", "manifest.json", "train-00000.rec"):
        said = on_ceph.verify(name=name, code=4)
        assert f"dsprep sync '{on_ceph.url}' DIR, then dsprep verify DIR" in said


def test_no_such_object(on_ceph: Shelf) -> None:
    on_ceph.copy()
    said = on_ceph.verify(name="train-99999.rec", code=4)
    assert f"{on_ceph.url}train-99999.rec: nothing is there; look at the spelling" in said
    for pattern in ("*.rec", "train-{00000..00001}.rec", "[a-z]*"):
        said = on_ceph.verify(name=pattern, code=4)
        assert "verify takes a prefix, a manifest or a shard, and no pattern" in said


def test_a_damaged_manifest(on_ceph: Shelf) -> None:
    on_ceph.copy()
    text = on_ceph.files["manifest.json"]
    on_ceph.put("manifest.json", b"{}")
    assert "is not a manifest" in on_ceph.wrong()["manifest.json"]
    on_ceph.put("manifest.json", text, said=b"something else")
    assert "checksum" in on_ceph.wrong()["manifest.json"]
    values = json.loads(text)
    on_ceph.put("manifest.json", json.dumps({**values, "samples": 25}).encode())
    assert on_ceph.wrong() == {"manifest.json": "says 25 samples, but its shards 24"}


def test_what_else_is_there(on_ceph: Shelf) -> None:
    on_ceph.copy()
    on_ceph.put("train-00009.rec", b"")
    on_ceph.put("notes.txt", b"")
    on_ceph.put("deeper/train-00009.rec", b"")
    on_ceph.put(".dsprep/run.json", b"")
    assert on_ceph.wrong() == {
        "train-00009.rec": "is there, but not in the manifest",
        ".dsprep/": "an unfinished run is there: give its command again",
    }


def test_data_sets_in_one_file_each(on_ceph: Shelf, photos: Path, tmp_path: Path) -> None:
    for name in ("train.rec", "val.tar"):
        dsprep.pack(str(photos), str(tmp_path / "out" / name), workers=1)
    alone = tmp_path / "out" / "alone"
    dsprep.pack(str(photos), str(alone), format="webdataset", apart=True, workers=1)
    on_ceph.files = contents(tmp_path / "out")
    on_ceph.copy()
    every = on_ceph.verify()
    assert (every["format"], every["shards"]) == ("webdataset and recordio", 3)
    assert not dsprep.verify(str(alone.parent), workers=1).problems
    (alone / "notes.txt").touch()
    assert [each.file for each in dsprep.verify(str(alone.parent), workers=1).problems] == [
        "notes.txt"
    ]
    on_ceph.put("val.tar", b"")
    assert list(on_ceph.wrong()) == ["val.tar"]
    for name in ("train.rec", "train.rec.manifest.json"):
        assert on_ceph.verify(name=name)["shards"] == 1
    assert on_ceph.verify(name="val.tar", code=3)["shards"] == 1
    on_ceph.put("other.tfrecord", b"")
    on_ceph.put(".test.tar.dsprep/run.json", b"")
    assert {"other.tfrecord", ".test.tar.dsprep/", "val.tar"} == on_ceph.wrong().keys()


def test_a_shard_whose_manifest_lies_beside_its_directory(
    on_ceph: Shelf, photos: Path, tmp_path: Path
) -> None:
    alone, name = str(tmp_path / "out" / "alone"), "alone/train-000001.tar"
    dsprep.pack(str(photos), alone, format="webdataset", apart=True, shards=2, workers=1)
    on_ceph.files = contents(tmp_path / "out")
    on_ceph.copy()
    assert on_ceph.verify(name=name)["shards"] == 1
    on_ceph.put(name, b"")
    assert "has 0 bytes" in on_ceph.wrong(name=name)[name]


def test_a_folder(on_ceph: Shelf, packed: Path, tmp_path: Path) -> None:
    dsprep.convert(str(packed), str(tmp_path / "out" / "photos"), to="folder", workers=1)
    on_ceph.files = contents(tmp_path / "out")
    on_ceph.copy()
    local = dsprep.verify(str(tmp_path / "out" / "photos"), workers=1)
    for name in ("", "photos", "photos/", "photos.manifest.json"):
        report = on_ceph.verify("--download", name=name)
        assert report["proof"] == {"download": len(on_ceph.files) - 1}
        assert (report["samples"], report["bytes"]) == (local.samples, local.bytes)
    first, *_ = [name for name in on_ceph.files if name.startswith("photos/")]
    on_ceph.delete(first)
    on_ceph.put("photos/other.jpg", b"")
    on_ceph.put(".photos.dsprep/run.json", b"")
    assert on_ceph.wrong(name="photos") == {
        ".photos.dsprep/": "an unfinished run is there: give its command again",
        first: "is in the manifest, but not there",
        "photos/other.jpg": "is there, but not in the listing",
    }
    listing = "photos.files.jsonl"
    on_ceph.bucket.put(PREFIX + listing, flipped(on_ceph.files[listing]))
    assert "the files that it names are not looked at" in on_ceph.wrong()[listing]


def test_rights_that_are_missing(on_ceph: Shelf) -> None:
    on_ceph.copy()
    rights: list[tuple[tuple[str, ...], str, str]] = [
        (("GetObject",), "*", "s3:ListBucket"),
        (("ListBucket",), "*", "s3:GetObject"),
        (("ListBucket", "GetObject"), f"{PREFIX}manifest.json", "s3:GetObject"),
    ]
    for actions, keys, missing in rights:
        env = on_ceph.bucket.allow(*actions, keys=keys)
        done = on_ceph.run("verify", on_ceph.url, env=env)
        assert done.code == 4
        assert f"the right {missing} is missing" in done.err


@pytest.mark.parametrize(
    "args", [("--decode",), ("--against", "."), ("--loader", "mxnet"), ("--max-pixels", "9")]
)
def test_what_needs_the_bytes(args: tuple[str, ...], run_here: Callable[..., Finished]) -> None:
    done = run_here("verify", "s3://bucket/set", *args)
    assert done.code == 2
    assert f"{' '.join(args)} has no effect" in done.err
    assert "fetch them with dsprep sync" in done.err


def test_download_is_for_s3(packed: Path, run_here: Callable[..., Finished]) -> None:
    done = run_here("verify", packed, "--download")
    assert done.code == 2
    assert "--download has no effect: it goes with s3://" in done.err


def test_files_on_a_disk_need_no_client_of_s3(packed: Path) -> None:
    code = (
        "import sys, dsprep\n"
        f"assert not dsprep.verify({str(packed)!r}, workers=1).problems\n"
        "print([name for name in sys.modules if 'boto' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
