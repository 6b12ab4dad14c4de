"""One connection to a bucket in a process."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest

from dsprep.storage.s3 import store as connected
from dsprep.storage.s3.config import Retries, S3Config
from dsprep.storage.s3.store import S3Store
from tests.conftest import Finished
from tests.servers.bucket import Bucket


def test_threads_that_want_a_bucket_at_once_share_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []
    together = threading.Barrier(8)

    def connect(bucket: str, events: object) -> object:
        made.append(bucket)
        time.sleep(0.05)
        return mock.Mock()  # a store that can be closed

    def want(_: int) -> object:
        together.wait()
        return connected.bucket_of("wanted-by-many")

    monkeypatch.setattr(connected, "S3Store", connect)
    with ThreadPoolExecutor(8) as threads:
        stores = set(threads.map(want, range(8)))
    connected._stores.clear()
    assert (len(stores), made) == (1, ["wanted-by-many"])


def test_a_store_that_nobody_closes_leaves_no_connection(ceph: Bucket) -> None:
    store = S3Store(ceph.name, S3Config(endpoint=ceph.endpoint))
    assert store.stat("nothing") is None
    idle = store.connect()._idle
    (connection,) = idle
    assert connection.sock is not None
    del store
    gc.collect()
    assert (len(idle), connection.sock) == (0, None)


@pytest.mark.parametrize(
    ("name", "delay", "options", "is_told"),
    [("long", 1.0, (), True), ("short", 0.1, (), False), ("quiet", 1.0, ("-q",), False)],
)
def test_a_wait_that_is_noticeable_is_told_with_its_reason(
    name: str,
    delay: float,
    options: tuple[str, ...],
    is_told: bool,
    run_here: Callable[..., Finished],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def connect(bucket: str, **listeners: Callable[..., object]) -> S3Store:
        return S3Store(bucket, wait=lambda _: None, **listeners)

    monkeypatch.setattr(connected, "S3Store", connect)
    monkeypatch.setattr(Retries, "delay", lambda *_: delay)
    monkeypatch.setattr("dsprep.progress.WAITS._last", -1.0)
    env = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_REGION": "us-east-1"}
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    done = run_here("verify", f"s3://nobody-listens-{name}/x", *options, env=env | keys)
    assert done.code == 4
    *told, failed = done.err.splitlines()
    assert "it was tried 8 times" in failed
    assert len(told) == is_told
    assert all("refused; trying again in 1.0 s" in line for line in told)
