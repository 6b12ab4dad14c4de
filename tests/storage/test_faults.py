"""A network that fails in every way: what arrives is what left, or an error says what is wrong."""

from __future__ import annotations

import hashlib
import threading
import time
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from dsprep.errors import Interrupted, StoreError
from dsprep.storage.pool import Pace
from dsprep.storage.s3.upload import set_metadata
from dsprep.storage.stored import metadata_of
from dsprep.storage.transfer import cut
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy
from tests.transfers import AT_ONCE, MIB, PART, Listener, copy, download, file_of, store_of, upload

SIZE = 2 * PART + MIB


def send(bucket: Bucket, proxy: Proxy, path: Path, size: int = SIZE, **config: Any) -> Listener:
    """Send a file through the proxy; what is there afterwards is that file."""
    heard = Listener()
    data = file_of(path, size)
    store = store_of(bucket, proxy.endpoint, heard, **config)
    sent = upload(path, store, "k", part_size=PART, events=heard)
    store.close()
    assert bucket.contents() == {"k": data}
    assert bucket.uploads() == []
    assert sent.moved == heard.bytes() == size
    return heard


IN_PART = {"method": "PUT", "match": "partNumber=2"}
FAULTS: list[tuple[str, dict[str, Any]]] = [
    ("reset", {**IN_PART, "times": 2}),
    ("flip", IN_PART),
    ("lose", IN_PART),
    ("answer", {**IN_PART, "status": 500, "code": "InternalError"}),
    ("answer", {**IN_PART, "status": 503, "code": "SlowDown", "times": 3}),
    ("answer", {"method": "POST", "match": "uploads", "status": 503, "code": "SlowDown"}),
    ("answer", {"method": "POST", "match": "uploadId", "status": 500, "code": "InternalError"}),
    ("lose", {"method": "POST", "match": "uploadId"}),
    ("lose", {"method": "HEAD"}),
    ("reset", {"method": "POST", "match": "uploads"}),
    ("wait", {**IN_PART, "seconds": 0.2}),
]


@pytest.mark.parametrize(("kind", "facts"), FAULTS)
def test_parts_are_sent_again(
    ceph: Bucket, proxy: Proxy, tmp_path: Path, kind: str, facts: dict[str, Any]
) -> None:
    proxy.add(kind, **facts)
    heard = send(ceph, proxy, tmp_path / "f")
    assert bool(heard.all("retry")) == (kind != "wait")


@pytest.mark.parametrize("kind", ["reset", "flip", "lose"])
@pytest.mark.parametrize("size", [1, 2 * MIB])
def test_a_small_file_is_sent_again(
    ceph: Bucket, proxy: Proxy, tmp_path: Path, kind: str, size: int
) -> None:
    proxy.add(kind, at=size // 2)
    assert send(ceph, proxy, tmp_path / "f", size).all("retry")


@pytest.mark.parametrize("guard", ["new", "etag"])
def test_a_condition_whose_answer_is_lost_has_held(ceph: Bucket, proxy: Proxy, guard: str) -> None:
    store = store_of(ceph, proxy.endpoint)
    seen = "" if guard == "new" else store.put("k", b"old").etag
    proxy.add("lose")
    told = store.put("k", b"data", replaces=seen)
    assert told.md5 == hashlib.md5(b"data").digest()
    assert ceph.contents() == {"k": b"data"}


COMPLETED = {"method": "POST", "match": "uploadId"}


@pytest.mark.parametrize("verb", ["upload", "copy"])
def test_a_completion_whose_answer_is_lost_has_been(
    ceph: Bucket, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    data = file_of(tmp_path / "f", SIZE)
    store = store_of(ceph, proxy.endpoint)
    monkeypatch.setattr("dsprep.storage.s3.upload.plan_copy", lambda size: cut(size, PART))
    ceph.put("k", data)
    proxy.add("lose", **COMPLETED)
    proxy.add("answer", **COMPLETED, status=404, code="NoSuchUpload")
    if verb == "upload":
        upload(tmp_path / "f", store, "new", part_size=PART)
    else:
        copy(store, "k", store, "new")
    assert ceph.contents() == {"k": data, "new": data}
    assert ceph.uploads() == []


def test_a_copy_that_somebody_else_has_ended_is_none(
    ceph: Bucket, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsprep.storage.s3.upload.plan_copy", lambda size: cut(size, PART))
    ceph.put("k", bytes(SIZE))
    ceph.put("new", b"x" * SIZE)
    proxy.add("answer", **COMPLETED, status=404, code="NoSuchUpload")
    with pytest.raises(StoreError, match="completed or aborted by something else"):
        copy(store_of(ceph), "k", store_of(ceph, proxy.endpoint), "new")
    assert ceph.contents()["new"] == b"x" * SIZE


def test_metadata_whose_answer_is_lost_is_there(localstack: Bucket, tmp_path: Path) -> None:
    data = file_of(tmp_path / "f", SIZE)
    upload(tmp_path / "f", store_of(localstack), "k", part_size=PART)
    wanted = metadata_of(1, google_crc32c.value(data))
    with Proxy(localstack.endpoint).running() as proxy:
        store = store_of(localstack, proxy.endpoint)
        stored = store.stat("k")
        assert stored is not None
        proxy.add("lose", match="/k")
        told = set_metadata(store, stored, wanted, Pace())
        assert proxy.counted("PUT") == 2
    assert dict(told.metadata) == wanted
    assert localstack.contents() == {"k": data}


@pytest.mark.parametrize("kind", ["stall", "stall-answer"])
def test_silence_is_broken_off(ceph: Bucket, proxy: Proxy, tmp_path: Path, kind: str) -> None:
    begin = {"method": "POST", "match": "uploads", "at": 0}
    proxy.add(kind, **(IN_PART if kind == "stall" else begin))
    assert send(ceph, proxy, tmp_path / "f", read_timeout=1.0).all("retry")


def test_what_is_refused_again_and_again_ends_and_can_be_gone_on_with(
    ceph: Bucket, proxy: Proxy, tmp_path: Path
) -> None:
    proxy.add("answer", **IN_PART, status=503, code="SlowDown", times=4)
    with pytest.raises(StoreError, match="SlowDown.*REQUEST-1.*tried 4 times") as caught:
        send(ceph, proxy, tmp_path / "f")
    assert caught.value.kind == "transient"
    assert ceph.keys() == []
    assert ceph.parts() == 2
    heard = Listener()
    sent = upload(tmp_path / "f", store_of(ceph), "k", part_size=PART, events=heard)
    assert (sent.found, sent.moved) == (2, PART)
    assert ceph.contents() == {"k": (tmp_path / "f").read_bytes()}


def test_what_was_tried_often_enough_is_not_begun_anew(
    ceph: Bucket, proxy: Proxy, tmp_path: Path
) -> None:
    ceph.put("k", b"x" * 1000)
    proxy.add("answer", method="GET", status=503, code="SlowDown", times=999)
    with pytest.raises(StoreError, match="tried 4 times"):
        download(store_of(ceph, proxy.endpoint), "k", tmp_path / "f")
    assert proxy.counted("GET") == AT_ONCE.attempts


def test_bytes_that_are_always_damaged_are_never_an_object(
    ceph: Bucket, proxy: Proxy, tmp_path: Path
) -> None:
    proxy.add("flip", **IN_PART, times=99)
    with pytest.raises(
        StoreError, match="bytes that arrived are not those that were sent"
    ) as caught:
        send(ceph, proxy, tmp_path / "f")
    assert caught.value.kind == "damaged"
    assert ceph.keys() == []


def test_expired_credentials_end_it_at_once(ceph: Bucket, proxy: Proxy, tmp_path: Path) -> None:
    proxy.add("answer", **IN_PART, status=400, code="ExpiredToken", times=99)
    with pytest.raises(StoreError, match="expired; renew them and give the same comm") as caught:
        send(ceph, proxy, tmp_path / "f")
    assert caught.value.kind == "expired"
    assert proxy.counted("PUT", "partNumber=2") == 1
    assert len(ceph.uploads()) == 1


@pytest.mark.parametrize("code", ["MissingContentLength", "InvalidTrailer"])
def test_a_server_that_takes_no_checksums(
    ceph: Bucket, proxy: Proxy, tmp_path: Path, code: str
) -> None:
    proxy.add("answer", method="POST", match="uploads", status=501, code=code)
    heard = send(ceph, proxy, tmp_path / "f")
    assert len(heard.all("fallback")) == 1
    assert code in heard.all("fallback")[0][0]


IN_RANGE = {"method": "GET", "match": "/k"}


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        ("truncate", {**IN_RANGE, "times": 2}),
        ("reset-answer", IN_RANGE),
        ("flip-answer", IN_RANGE),
        ("stall-answer", IN_RANGE),
        ("lose", IN_RANGE),
        ("answer", {**IN_RANGE, "status": 503, "code": "SlowDown"}),
        ("lose", {"method": "HEAD"}),
    ],
)
@pytest.mark.parametrize("size", [SIZE, MIB])
def test_downloads_are_what_is_stored(
    ceph: Bucket, proxy: Proxy, tmp_path: Path, kind: str, facts: dict[str, Any], size: int
) -> None:
    data = file_of(tmp_path / "f", size)
    upload(tmp_path / "f", store_of(ceph), "k", part_size=PART)
    proxy.add(kind, **facts)
    heard = Listener()
    store = store_of(ceph, proxy.endpoint, heard, read_timeout=1.0)
    got = download(store, "k", tmp_path / "got" / "f", part_size=PART, events=heard)
    store.close()
    assert (tmp_path / "got" / "f").read_bytes() == data
    assert [each.name for each in (tmp_path / "got").iterdir()] == ["f"]
    assert got.proof == "crc32c"
    assert heard.bytes() == size


def test_a_download_that_is_always_damaged_leaves_nothing(
    ceph: Bucket, proxy: Proxy, tmp_path: Path
) -> None:
    file_of(tmp_path / "f", SIZE)
    upload(tmp_path / "f", store_of(ceph), "k", part_size=PART)
    proxy.add("flip-answer", **IN_RANGE, times=99)
    with pytest.raises(StoreError, match="what arrives is not what is stored") as caught:
        download(store_of(ceph, proxy.endpoint), "k", tmp_path / "got" / "f", part_size=PART)
    assert caught.value.kind == "damaged"
    assert list((tmp_path / "got").iterdir()) == []


def test_an_object_that_changes_while_it_is_read(
    ceph: Bucket, proxy: Proxy, tmp_path: Path
) -> None:
    file_of(tmp_path / "f", SIZE)
    upload(tmp_path / "f", store_of(ceph), "k", part_size=PART)

    def change(event: str, **facts: object) -> None:
        if event == "part":
            ceph.put("k", b"other")

    with pytest.raises(StoreError) as caught:
        pace = Pace(concurrency=1)
        download(store_of(ceph), "k", tmp_path / "g", part_size=PART, pace=pace, events=change)
    assert caught.value.kind == "exists"
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_stop_is_quick_and_keeps_what_is_there(
    ceph: Bucket, proxy: Proxy, tmp_path: Path, way: str
) -> None:
    data = file_of(tmp_path / "f", SIZE)
    pace = Pace(concurrency=2)

    def stop(event: str, **facts: object) -> None:
        if event == "part":
            threading.Timer(0.1, pace.stop).start()

    store = store_of(ceph, proxy.endpoint)
    if way == "up":
        proxy.add("stall", match="partNumber=3")
        with pytest.raises(Interrupted):
            upload(tmp_path / "f", store, "k", part_size=PART, pace=pace, events=stop)
        assert ceph.keys() == []
        sent = upload(tmp_path / "f", store_of(ceph), "k", part_size=PART)
        assert sent.found == 2
        assert ceph.contents() == {"k": data}
        return
    upload(tmp_path / "f", store_of(ceph), "k", part_size=PART)
    proxy.add("stall-answer", **IN_RANGE, times=1)
    began = time.monotonic()
    with pytest.raises(Interrupted):
        download(store, "k", tmp_path / "g", part_size=PART, pace=pace, events=stop)
    assert time.monotonic() - began < 30  # and not the minute that the server is given
    assert not (tmp_path / "g").exists()
    assert download(store_of(ceph), "k", tmp_path / "g", part_size=PART).found >= 1
    assert (tmp_path / "g").read_bytes() == data


def test_an_upload_that_is_not_to_be_kept_is_aborted(
    ceph: Bucket, proxy: Proxy, tmp_path: Path
) -> None:
    file_of(tmp_path / "f", SIZE)
    proxy.add("answer", **IN_PART, status=403, code="AccessDenied", times=99)
    with pytest.raises(StoreError, match="s3:PutObject"):
        upload(tmp_path / "f", store_of(ceph, proxy.endpoint), "k", part_size=PART, keep=False)
    assert ceph.uploads() == []
