"""Uploads that are killed, files that change, other people's uploads, rights that are missing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import pytest
from botocore.exceptions import ClientError

from dsprep.errors import DsprepError, OptionError, SourceError, StoreError
from dsprep.storage.pool import Pace
from dsprep.storage.s3.store import S3Store
from dsprep.storage.stored import said_mtime_ns
from tests.servers.bucket import Bucket
from tests.transfers import MIB, PART, Listener, copy, data_of, download, file_of, store_of, upload

SIZE = 3 * PART + 1

SLOWLY = """
import sys
from pathlib import Path
from dsprep.storage.s3.store import S3Store
from dsprep.storage.s3.config import S3Config
from dsprep.storage.s3.{0} import {0}
from dsprep.storage.pool import Pace
from dsprep.storage.transfer import TransferOptions
endpoint, bucket, path = sys.argv[1:]
store = S3Store(bucket, S3Config(endpoint=endpoint))
place = (Path(path), store, "k") if "{0}" == "upload" else (store, "k", Path(path))
{0}(*place, TransferOptions(Pace(concurrency=1, bandwidth=5e6), part_size=5 << 20))
"""


def kill_when(ready: Callable[[], bool], verb: str, bucket: Bucket, path: Path) -> None:
    """Have a process of its own move a file, and kill it as soon as something is so."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLOWLY.format(verb), bucket.endpoint, bucket.name, str(path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    while not ready():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()


def begun(bucket: Bucket) -> bool:
    """Whether a part is there."""
    try:
        return bucket.parts() > 0
    except ClientError:  # the upload has just been aborted, for one with more metadata
        return False


def test_a_killed_upload_goes_on_where_it_was(bucket: Bucket, tmp_path: Path) -> None:
    data = file_of(tmp_path / "f", SIZE)
    kill_when(lambda: begun(bucket), "upload", bucket, tmp_path / "f")
    assert bucket.keys() == []
    there = bucket.parts()
    heard = Listener()
    sent = upload(tmp_path / "f", store_of(bucket), "k", part_size=PART, events=heard)
    assert 1 <= sent.found <= there
    assert sent.moved == heard.bytes() == SIZE - sent.found * PART
    assert bucket.contents() == {"k": data}
    assert bucket.uploads() == []
    again = store_of(bucket).stat("k")
    assert again is not None
    assert said_mtime_ns(again.metadata) == (tmp_path / "f").stat().st_mtime_ns
    assert again.any_crc32c == sent.crc32c


def test_a_killed_download_goes_on_where_it_was(ceph: Bucket, tmp_path: Path) -> None:
    data = file_of(tmp_path / "f", SIZE)
    upload(tmp_path / "f", store_of(ceph), "k", part_size=PART)
    place = tmp_path / "down" / "f"
    journal = place.parent / ".dsprep" / "f.journal"
    # It is empty before its first part is written.
    kill_when(lambda: journal.exists() and journal.stat().st_size > 0, "download", ceph, place)
    assert not place.exists()
    got = download(store_of(ceph), "k", place, part_size=PART)
    assert got.found >= 1
    assert got.moved < SIZE
    assert place.read_bytes() == data
    assert place.stat().st_mtime_ns == (tmp_path / "f").stat().st_mtime_ns


def begin(bucket: Bucket, parts: dict[int, bytes]) -> str:
    """An upload by somebody else."""
    upload = bucket.s3.create_multipart_upload(Bucket=bucket.name, Key="k")["UploadId"]
    for number, data in parts.items():
        bucket.s3.upload_part(
            Bucket=bucket.name, Key="k", UploadId=upload, PartNumber=number, Body=data
        )
    return str(upload)


@pytest.mark.parametrize(
    "parts", [{1: 1}, {1: PART - 1}, {1: PART, 4: 2}, {5: PART}, {1: PART + 1}], ids=str
)
def test_parts_of_other_sizes_are_left_alone(
    ceph: Bucket, tmp_path: Path, parts: dict[int, int]
) -> None:
    data = file_of(tmp_path / "f", SIZE)
    theirs = begin(ceph, {number: data[:size] for number, size in parts.items()})
    sent = upload(tmp_path / "f", store_of(ceph), "k", part_size=PART)
    assert sent.found == 0
    assert ceph.contents() == {"k": data}
    assert ceph.uploads() == [("k", theirs)]


def test_parts_of_other_bytes_are_sent_again(ceph: Bucket, tmp_path: Path) -> None:
    data = file_of(tmp_path / "f", SIZE)
    begin(ceph, {1: data[:PART], 2: data_of(PART, seed=9)})
    sent = upload(tmp_path / "f", store_of(ceph), "k", part_size=PART)
    assert (sent.found, sent.moved) == (1, SIZE - PART)
    assert ceph.contents() == {"k": data}
    assert ceph.uploads() == []
    told = store_of(ceph).stat("k")
    assert told is not None
    assert told.any_crc32c == sent.crc32c


def test_what_an_earlier_run_did_not_want_is_wanted_now(localstack: Bucket, tmp_path: Path) -> None:
    data = file_of(tmp_path / "f", SIZE)
    before = store_of(localstack)
    begun = before.create_upload("k", {"dsprep-mtime": "1"})
    before.send_part(begun, 1, data[:PART], google_crc32c.value(data[:PART]))
    store = store_of(localstack, sse="AES256", tags={"a": "b"}, metadata={"who": "me"})
    assert upload(tmp_path / "f", store, "k", part_size=PART).found == 1
    told = store.stat("k")
    assert told is not None
    assert (told.encryption, told.metadata["who"]) == ("AES256", "me")
    assert said_mtime_ns(told.metadata) == (tmp_path / "f").stat().st_mtime_ns
    tags = localstack.s3.get_object_tagging(Bucket=localstack.name, Key="k")["TagSet"]
    assert tags == [{"Key": "a", "Value": "b"}]
    assert localstack.contents() == {"k": data}


def test_uploads_of_other_keys_are_none_of_ours(ceph: Bucket, tmp_path: Path) -> None:
    file_of(tmp_path / "f", SIZE)
    theirs = ceph.s3.create_multipart_upload(Bucket=ceph.name, Key="k2")["UploadId"]
    upload(tmp_path / "f", store_of(ceph), "k", part_size=PART)
    assert ceph.uploads() == [("k2", theirs)]


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


CHANGES: dict[str, Callable[[Path], object]] = {
    "grow": grow,
    "shrink": lambda path: os.truncate(path, PART),
    "touch": lambda path: os.utime(path),
    "replace": lambda path: path.replace(path.with_name("old")) and path.write_bytes(bytes(SIZE)),
    "delete": lambda path: path.unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_is_never_an_object(ceph: Bucket, tmp_path: Path, change: str) -> None:
    path = tmp_path / "f"
    file_of(path, SIZE)

    def change_it(event: str, **facts: object) -> None:
        if event == "part" and facts["number"] == 1:
            CHANGES[change](path)

    with pytest.raises(SourceError, match="f: changed while it was being sent"):
        pace = Pace(concurrency=1)
        upload(path, store_of(ceph), "k", part_size=PART, pace=pace, events=change_it)
    assert (ceph.keys(), ceph.uploads()) == ([], [])


@pytest.mark.parametrize("size", [10, SIZE])
def test_a_file_that_is_not_the_one_expected(ceph: Bucket, tmp_path: Path, size: int) -> None:
    file_of(tmp_path / "f", size)
    with pytest.raises(SourceError, match="and 00000001 was expected"):
        upload(tmp_path / "f", store_of(ceph), "k", part_size=PART, crc32c=1)
    assert (ceph.keys(), ceph.uploads()) == ([], [])


def test_a_download_that_is_not_the_one_expected(ceph: Bucket, tmp_path: Path) -> None:
    ceph.put("k", b"data")
    with pytest.raises(StoreError, match="what arrives is not what is stored there"):
        download(store_of(ceph), "k", tmp_path / "f", crc32c=1)
    assert list(tmp_path.iterdir()) == []


def test_an_object_without_a_checksum_is_proven_by_its_md5(ceph: Bucket, tmp_path: Path) -> None:
    ceph.put("k", b"data")
    assert download(store_of(ceph), "k", tmp_path / "f").proof == "md5"


def test_a_listing_saves_the_head_of_a_small_object(
    ceph: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_of(tmp_path / "f", 1000)
    store = store_of(ceph)
    upload(tmp_path / "f", store, "k")
    ((stored,),) = store.list()
    monkeypatch.setattr(store, "stat", None)
    assert download(store, "k", tmp_path / "g", listed=stored).proof == "crc32c"
    assert (tmp_path / "g").stat().st_mtime_ns == (tmp_path / "f").stat().st_mtime_ns


def test_pages(ceph: Bucket) -> None:
    store = store_of(ceph)
    keys = [f"many/{number:04}" for number in range(1500)]
    Pace().each(lambda key: store.put(key, b""), keys)
    pages = list(store.list("many/"))
    assert len(pages) == 2
    assert [each.key for page in pages for each in page] == keys
    assert store.delete(keys) == {}
    assert ceph.keys() == []


def test_metadata_and_storage_class(ceph: Bucket, tmp_path: Path) -> None:
    file_of(tmp_path / "f", SIZE)
    store = store_of(ceph, storage_class="STANDARD_IA", metadata={"Who": "me"}, tags={"a": "b c"})
    for key, part_size in (("one", 0), ("parts", PART)):
        upload(tmp_path / "f", store, key, part_size=part_size)
        told = store.stat(key)
        assert told is not None
        assert told.storage_class == "STANDARD_IA"
        assert told.metadata["who"] == "me"
    # Ceph 16 forgets the tags of uploads in parts.
    tags = ceph.s3.get_object_tagging(Bucket=ceph.name, Key="one")["TagSet"]
    assert tags == [{"Key": "a", "Value": "b c"}]
    plain = store_of(ceph)
    copied = copy(plain, "parts", plain, "copied").stored
    assert copied.metadata["who"] == "me"
    assert "dsprep-crc32c" in copied.metadata


ALL = ("ListBucket", "GetObject", "PutObject", "DeleteObject", "AbortMultipartUpload")
MORE = ("ListBucketMultipartUploads", "ListMultipartUploadParts")


def test_each_missing_right_is_named(
    ceph: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_of(tmp_path / "f", SIZE)
    ceph.put("there", b"1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "LIMITED")

    def refused(right: str, what: Callable[[S3Store], object]) -> None:
        ceph.allow(*({*ALL, *MORE} - {right}))
        store = store_of(ceph)
        with pytest.raises(StoreError, match=f"the right s3:{right} is missing") as caught:
            what(store)
        assert caught.value.kind == "denied"
        assert ceph.name in str(caught.value)
        assert "request " in str(caught.value)
        store.close()

    def delete(store: S3Store) -> None:
        raise store.delete(["there"])["there"]

    refused("ListBucket", lambda store: list(store.list()))
    refused("GetObject", lambda store: download(store, "there", tmp_path / "g"))
    refused("PutObject", lambda store: store.put("k", b""))
    refused("PutObject", lambda store: upload(tmp_path / "f", store, "k", part_size=PART))
    refused("AbortMultipartUpload", lambda store: store.abort(store.create_upload("k", {})))
    refused("ListBucketMultipartUploads", lambda store: list(store.list_uploads()))
    refused("DeleteObject", delete)
    assert ceph.keys() == ["there"]


def test_an_upload_without_the_right_to_look_for_parts(
    ceph: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = file_of(tmp_path / "f", SIZE)
    ceph.allow(*ALL)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "LIMITED")
    heard = Listener()
    store = store_of(ceph, events=heard)
    upload(tmp_path / "f", store, "k", part_size=PART, events=heard)
    download(store, "k", tmp_path / "g")
    assert (tmp_path / "g").read_bytes() == data
    ((text,),) = heard.all("fallback")
    assert "s3:ListBucketMultipartUploads" in text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("AWS_SECRET_ACCESS_KEY", "wrong", "the secret key is not that of the access key"),
        ("AWS_ACCESS_KEY_ID", "NOBODY", "the server does not know this access key"),
        ("AWS_PROFILE", "nobody", "there is no profile nobody"),
    ],
)
def test_wrong_credentials(
    ceph: Bucket, monkeypatch: pytest.MonkeyPatch, name: str, value: str, text: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(StoreError, match=text):
        store_of(ceph).put("k", b"")


def test_no_credentials(ceph: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(StoreError, match="there are no credentials"):
        store_of(ceph).put("k", b"")


def test_a_certificate_that_is_not_to_be_trusted(
    ceph_https: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_CA_BUNDLE")
    with pytest.raises(StoreError, match="AWS_CA_BUNDLE"):
        store_of(ceph_https).put("k", b"")


def test_no_bucket(ceph: Bucket, tmp_path: Path) -> None:
    file_of(tmp_path / "f", 10)
    store = S3Store("no-such-bucket-here", store_of(ceph).config)
    for what in (lambda: list(store.list()), lambda: upload(tmp_path / "f", store, "k")):
        with pytest.raises(StoreError, match="there is no bucket of this name"):
            what()


def test_nobody_listens(ceph: Bucket) -> None:
    store = store_of(ceph, "http://127.0.0.1:9")
    with pytest.raises(StoreError, match=r"refused.*tried 4 times"):
        store.put("k", b"")


def test_files_that_cannot_be_sent(ceph: Bucket, tmp_path: Path) -> None:
    store = store_of(ceph)
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(SourceError, match="cannot be read"):
            upload(path, store, "k")
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as file:
        file.truncate(6 * MIB)
    with pytest.raises(OptionError, match="from 5 MiB"):
        upload(sparse, store, "k", part_size=MIB)


def test_places_that_cannot_be_written(ceph: Bucket, tmp_path: Path) -> None:
    ceph.put("k", b"data")
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "directory" / "inner").mkdir(parents=True)
    for place in (tmp_path / "file" / "f", tmp_path / "directory"):
        with pytest.raises(DsprepError, match=str(place.parent)):
            download(store_of(ceph), "k", place)
    assert sorted(os.listdir(tmp_path)) == ["directory", "file"]
