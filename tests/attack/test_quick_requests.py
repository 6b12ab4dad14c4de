"""Requests that are made without boto3: on a network that fails, and on few connections."""

from __future__ import annotations

import hashlib
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from dsprep.storage.download import download
from dsprep.storage.quick import Quick
from dsprep.storage.s3_config import S3Config
from dsprep.syncing.sync import sync
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy
from tests.transfers import MIB, store_of


@pytest.mark.parametrize("kind", ["reset", "flip", "lose", "answer"])
def test_one_of_many_small_files_is_sent_again(
    ceph: Bucket, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """boto3 makes the first request, and again what fails, unless the server is busy."""
    quick: list[bool] = []
    put = Quick.put

    def noted(*args: Any) -> Any:
        answer = put(*args)
        quick.append(answer is not None)
        return answer

    monkeypatch.setattr(Quick, "put", noted)
    store = store_of(ceph, proxy.endpoint)
    store.put("0", b"first")
    assert quick == []
    proxy.add(kind, at=2, match="/2", status=503, code="SlowDown")
    for number in range(1, 4):
        told = store.put(str(number), b"data", metadata={"a": "1  2"})
        assert told.md5 == hashlib.md5(b"data").digest()
    assert quick == [True, kind == "answer", True]
    assert ceph.contents() == {"0": b"first", "1": b"data", "2": b"data", "3": b"data"}
    stored = store.stat("3")
    assert stored is not None
    assert stored.metadata == {"a": "1  2"}


@pytest.mark.parametrize("kind", ["reset", "answer", "truncate", "reset-answer"])
def test_one_of_many_small_files_is_fetched_again(
    ceph: Bucket, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    """The quick way fetches all but the first, and what it cannot, boto3 does, or a retry."""
    quick: list[bool] = []
    get = Quick.get

    def noted(*args: Any) -> Any:
        answer = get(*args)
        quick.append(answer is not None)
        return answer

    monkeypatch.setattr(Quick, "get", noted)
    store = store_of(ceph, proxy.endpoint)
    data = {f"a b+%ü{number}": bytes([number]) * 50_000 for number in range(4)}
    for key, each in data.items():
        ceph.put(key, each)
    listed = [stored for page in store.list() for stored in page]
    proxy.add(kind, method="GET", match="%BC2", at=20_000, status=503, code="SlowDown")
    for stored in listed:
        got = download(store, stored.key, tmp_path / stored.key, stored=stored)
        assert (got.size, got.proof) == (50_000, "md5")
        assert got.moved == 50_000
    assert quick[0] and sum(quick) >= 2
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == data


def test_quick_requests_use_few_connections(ceph: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was not read to its end is not used again; others are."""
    made: list[object] = []
    connect = HTTPConnection.connect

    def counted(self: HTTPConnection) -> None:
        made.append(self)
        connect(self)

    store = store_of(ceph, ceph.endpoint)
    store.put("first", b"1")  # by boto3
    monkeypatch.setattr(HTTPConnection, "connect", counted)
    for key, size in (("empty", 0), ("k", 5000), ("large", 3 * MIB)):
        store.put(key, bytes(size))
        with store.open(key) as reading:
            assert sum(map(len, iter(lambda: reading.read(4096), b""))) == size
    # "large" goes up by boto3, whose connections are made by a class of its own.
    quick = [each for each in made if type(each) is HTTPConnection]
    assert len(quick) == 1
    with store.open("large") as reading:
        assert reading.read(10) == bytes(10)
    with store.open("k", start=4990, size=5) as reading:
        assert reading.read(9) == bytes(5)
    assert len([each for each in made if type(each) is HTTPConnection]) == 2


def test_small_files_come_down_in_one_request_each(
    ceph: Bucket, proxy: Proxy, tmp_path: Path
) -> None:
    data = {f"{number}.jpg": bytes([number]) * 1000 for number in range(3)}
    for name, each in data.items():
        ceph.put(f"set/{name}", each)
    sync(f"{ceph.url}/set", str(tmp_path / "set"), config=S3Config(endpoint=proxy.endpoint))
    assert {path.name: path.read_bytes() for path in (tmp_path / "set").iterdir()} == data
    assert proxy.counted("HEAD") == 0
    assert proxy.counted("GET", ".jpg") == len(data)
