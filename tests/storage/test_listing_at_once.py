"""A listing of large directories has several requests on their way, and is that of one by one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from dsprep.errors import StoreError
from dsprep.storage.files import entries
from dsprep.storage.objects import asked_once
from dsprep.storage.s3.client import Connection
from dsprep.storage.s3.store import S3Store
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy
from tests.transfers import store_of

TREE = [
    *("a", "a-b/1", "a.txt", "a/", "a/1", "a//2", "a/b/c/d", "a/b/c/e", "a/b/f", "a0", "a0/1"),
    *(f"train/{name}/{number:02}.jpg" for name in ("n0", "n0-", "n01", "ü") for number in range(9)),
    *(f"train/{number}.txt" for number in range(3)),
    *(f"many/{number}/x" for number in range(9)),
    *("train0", "val/x", "z%2F/1", "z%2F/2", "\U0001f600/1"),
]
LARGE = [f"set/{name}/{number:02}" for name in "abcdefgh" for number in range(20)]
PAGES = S3Store.pages


def paged(monkeypatch: pytest.MonkeyPatch, keys: int) -> None:
    """Let pages of listings have this number of keys, not a thousand."""

    def short(self: S3Store, operation: str, *args: Any, **more: Any) -> Iterator[Any]:
        return PAGES(self, operation, *args, **more, MaxKeys=keys)

    monkeypatch.setattr(S3Store, "pages", short)


def listed(store: S3Store, prefix: str = "") -> list[str]:
    return [stored.key for page in store.list(prefix) for stored in page]


def test_each_object_is_listed_once_and_in_order(
    ceph: Bucket, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(ceph, proxy.endpoint)
    for key in TREE:
        ceph.put(key, b"")
    assert listed(store) == sorted(TREE)
    assert proxy.counted("GET") == 1
    for keys in (1, 2, 3, 7):
        paged(monkeypatch, keys)
        for prefix in ("", "a", "a/", "train", "train/", "train/n0", "none"):
            assert listed(store, prefix) == sorted(key for key in TREE if key.startswith(prefix))
    paged(monkeypatch, 6)
    proxy.requests.clear()
    assert len(listed(store, "many/")) == 9
    assert proxy.counted("GET") == 2  # small directories take no more requests than pages


def test_on_another_server(localstack: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [key for key in TREE if key.isascii()]  # it loses others between pages
    for key in keys:
        localstack.put(key, b"")
    paged(monkeypatch, 3)
    assert listed(store_of(localstack)) == sorted(keys)


def test_directories_are_listed_at_once_and_a_busy_server_is_asked_again(
    ceph: Bucket, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, most, lock, send = 0, 0, threading.Lock(), Connection.send

    def counted(*args: Any, **more: Any) -> Any:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.05)
        try:
            return send(*args, **more)
        finally:
            with lock:
                now -= 1

    for key in LARGE:
        ceph.put(key, b"")
    paged(monkeypatch, 8)
    store = store_of(ceph, proxy.endpoint)
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "send", counted)
        assert listed(store) == LARGE
    assert 4 < most <= 16
    assert proxy.counted("GET") == 4 + 8 * 3  # to find the directories, and their pages

    busy = {"method": "GET", "status": 503, "code": "SlowDown"}
    for times in (1, 3, 4, 7):  # a request is made up to four times, then again without others
        for name in "bcdg":
            proxy.add("answer", match=f"prefix=set%2F{name}", times=times, **busy)
        assert listed(store, "set/") == LARGE
        assert not any(fault.times for fault in proxy.faults)
    proxy.add("answer", match="prefix=set%2Ff", times=8, **busy)
    with pytest.raises(StoreError, match="set/f/: cannot be listed.*SlowDown.*tried 4 times"):
        listed(store)
    denied = {"method": "GET", "status": 403, "code": "AccessDenied"}
    proxy.add("answer", match="prefix=set%2Ff", **denied)
    with pytest.raises(StoreError, match="set/f/: cannot be listed.*s3:ListBucket is missing"):
        listed(store)


def test_a_directory_is_listed_without_asking_for_a_page_twice(
    ceph: Bucket, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        ceph.put(f"flat/{number}", b"")
    paged(monkeypatch, 2)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    assert sorted(entry.name for entry in entries(f"{ceph.url}/flat")) == [*"01234"]
    assert proxy.counted("GET") == 3
    with asked_once():  # the first page is known when the others are listed
        for _ in range(2):
            assert len([*entries(f"{ceph.url}/flat")]) == 5
    assert proxy.counted("GET") == 3 + 3 + 3
