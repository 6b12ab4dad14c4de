"""One connection to a bucket in a process."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from dsprep.stores import connected


def test_threads_that_want_a_bucket_at_once_share_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []
    together = threading.Barrier(8)

    def connect(bucket: str) -> object:
        made.append(bucket)
        time.sleep(0.05)
        return object()

    def want(_: int) -> object:
        together.wait()
        return connected.store_of("wanted-by-many")

    monkeypatch.setattr(connected, "S3Store", connect)
    with ThreadPoolExecutor(8) as threads:
        stores = set(threads.map(want, range(8)))
    connected._connect.cache_clear()
    assert (len(stores), made) == (1, ["wanted-by-many"])
