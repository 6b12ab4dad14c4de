"""Objects that are read back: over a network that fails, and while they change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

import dsprep
from dsprep.errors import StoreError
from dsprep.storage.objects import read_back
from dsprep.storage.pool import Pace
from dsprep.storage.s3.store import S3Store
from dsprep.storage.stored import Stored
from dsprep.storage.transfer import Range
from tests.attack.trees import contents
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy
from tests.transfers import MIB, PART, data_of, store_of


@pytest.fixture
def pace() -> Iterator[Pace]:
    pace = Pace()
    yield pace
    pace.stop()
    pace.close()


def looked_up(store: S3Store, *keys: str) -> list[Stored]:
    found = [store.stat(key) for key in keys]
    assert None not in found
    return [each for each in found if each is not None]


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        ("truncate", {"times": 3}),
        ("reset-answer", {"at": 3 * MIB}),
        ("answer", {"status": 503, "code": "SlowDown"}),
    ],
)
def test_all_is_read_once(
    ceph: Bucket, proxy: Proxy, pace: Pace, kind: str, facts: dict[str, Any]
) -> None:
    data = {"long": data_of(2 * PART + MIB), "short": b"short", "empty": b""}
    for key, each in data.items():
        ceph.put(key, each)
    proxy.add(kind, method="GET", match="/long", **facts)
    store = store_of(ceph, proxy.endpoint)
    read: list[tuple[int, Range]] = []
    values = read_back(store, looked_up(store, *data), pace, lambda *part: read.append(part), PART)
    store.close()
    assert values == [google_crc32c.value(each) for each in data.values()]
    assert sorted((which, part.number) for which, part in read) == [(0, 1), (0, 2), (0, 3), (1, 1)]
    assert sum(part.size for _, part in read) == sum(map(len, data.values()))


def test_what_cannot_be_read_is_said(ceph: Bucket, pace: Pace) -> None:
    for key in ("changed", "gone", "good"):
        ceph.put(key, b"good")
    store = store_of(ceph)
    before = looked_up(store, "changed", "gone", "good")
    ceph.put("changed", b"evil")
    store.delete(["gone"])
    changed, gone, good = read_back(store, before, pace)
    store.close()
    assert isinstance(changed, StoreError)
    assert changed.kind == "exists"
    assert isinstance(gone, StoreError)
    assert gone.kind == "missing"
    assert good == google_crc32c.value(b"good")


def test_what_is_denied_is_not_asked_again(
    ceph: Bucket, pace: Pace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ceph.put("k", b"k")
    stored = looked_up(store_of(ceph), "k")
    for name, value in ceph.allow("ListBucket").items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StoreError, match="the right s3:GetObject is missing"):
        read_back(store_of(ceph), stored, pace)


def test_what_comes_damaged_is_read_again(
    ceph: Bucket, proxy: Proxy, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsprep.pack(str(photos), str(tmp_path / "set"), format="webdataset", workers=1)
    for name, data in contents(tmp_path / "set").items():
        ceph.put(name, data)
    proxy.add("flip-answer", method="GET", match=".tar", at=1000)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    assert not dsprep.verify(ceph.url, download=True).problems
    assert proxy.counted("GET", ".tar") == 2
    proxy.add("flip-answer", method="GET", match=".tar", at=1000, times=2)
    (problem,) = dsprep.verify(ceph.url, download=True).problems
    assert "bytes have changed" in problem.message
