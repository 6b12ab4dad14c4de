"""Many small requests: on a network that fails, and on few connections."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from dsprep.errors import StoreError
from dsprep.storage.s3.client import Connection
from dsprep.storage.s3.config import S3Config
from dsprep.syncing.sync import sync
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy
from tests.transfers import MIB, Listener, download, store_of


@pytest.mark.parametrize("kind", ["reset", "flip", "lose", "answer"])
def test_one_of_many_small_files_is_sent_again(ceph: Bucket, proxy: Proxy, kind: str) -> None:
    store = store_of(ceph, proxy.endpoint)
    proxy.add(kind, at=2, match="/2", status=503, code="SlowDown")
    for number in range(4):
        told = store.put(str(number), b"data", metadata={"a": "1  2"})
        assert told.md5 == hashlib.md5(b"data").digest()
    assert ceph.contents() == {str(number): b"data" for number in range(4)}
    assert proxy.counted("PUT") == 5
    stored = store.stat("3")
    assert stored is not None
    assert stored.metadata == {"a": "1  2"}


@pytest.mark.parametrize("kind", ["reset", "answer", "truncate", "reset-answer"])
def test_one_of_many_small_files_is_fetched_again(
    ceph: Bucket, proxy: Proxy, tmp_path: Path, kind: str
) -> None:
    store = store_of(ceph, proxy.endpoint)
    data = {f"a b+%ü{number}": bytes([number]) * 50_000 for number in range(4)}
    for key, each in data.items():
        ceph.put(key, each)
    listed = [stored for page in store.list() for stored in page]
    proxy.add(kind, method="GET", match="%BC2", at=20_000, status=503, code="SlowDown")
    for stored in listed:
        got = download(store, stored.key, tmp_path / stored.key, listed=stored)
        assert (got.stored.size, got.proof, got.moved) == (50_000, "md5", 50_000)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == data


def test_requests_use_few_connections(ceph: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was not read to its end is not used again; others are."""
    made: list[object] = []
    connect = Connection._connect

    def counted(self: Connection, route: object) -> object:
        made.append(connect(self, route))
        return made[-1]

    monkeypatch.setattr(Connection, "_connect", counted)
    store = store_of(ceph)
    for key, size in (("empty", 0), ("k", 5000), ("large", 3 * MIB)):
        store.put(key, bytes(size))
        with store.open(key) as reading:
            assert sum(map(len, iter(lambda: reading.read(4096), b""))) == size
    assert len(made) == 1
    with store.open("large") as reading:
        assert reading.read(10) == bytes(10)
    with store.open("k", start=4990, size=5) as reading:
        assert reading.read(9) == bytes(5)
    assert len(made) == 2


def test_a_connection_that_the_server_has_closed_is_replaced(ceph: Bucket, proxy: Proxy) -> None:
    heard = Listener()
    store = store_of(ceph, proxy.endpoint, heard)
    store.put("k", b"1")
    proxy.add("reset")
    store.put("k", b"2")
    assert heard.all("retry") == []
    assert ceph.contents() == {"k": b"2"}


def test_the_region_that_the_server_names_is_used(ceph: Bucket, proxy: Proxy) -> None:
    elsewhere = {"x-amz-bucket-region": "eu-west-1"}
    fault = {"status": 400, "code": "AuthorizationHeaderMalformed", "headers": elsewhere}
    store = store_of(ceph, proxy.endpoint)
    proxy.add("answer", **fault)
    store.put("k", b"1")
    assert (proxy.counted("PUT"), ceph.contents()) == (2, {"k": b"1"})
    proxy.add("answer", **fault)
    with pytest.raises(StoreError, match="the bucket is in another region"):
        store.put("k", b"2")


def test_behind_a_proxy_botocore_sends_the_requests(
    ceph: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = Connection._find_route
    monkeypatch.setattr(
        Connection, "_find_route", lambda self: find(self)._replace(plain=False, connect=None)
    )
    store = store_of(ceph)
    store.put("a b+ü", b"0123456789")
    store.put("large", bytes(2 * MIB))
    assert [file.key for page in store.list() for file in page] == ["a b+ü", "large"]
    with store.open("a b+ü", 2, 3) as reading:
        assert reading.read(9) == b"234"
    assert store.stat("nothing") is None
    assert store.delete(["a b+ü", "large"]) == {}
    store.close()


def test_small_files_come_down_in_one_request_each(
    ceph: Bucket, proxy: Proxy, tmp_path: Path
) -> None:
    data = {f"{number}.jpg": bytes([number]) * 1000 for number in range(3)}
    for name, each in data.items():
        ceph.put(f"set/{name}", each)
    sync(f"{ceph.url}/set", str(tmp_path / "set"), config=S3Config(endpoint=proxy.endpoint))
    assert {path.name: path.read_bytes() for path in (tmp_path / "set").iterdir()} == data
    assert proxy.counted("HEAD") == proxy.counted("HEAD", "/set.manifest.json") == 1  # for all
    assert proxy.counted("GET", ".jpg") == len(data)
