"""Files are worked on at once; a failure or a stop is seen to at once, whatever is slow."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dsprep.errors import Interrupted, StoreError
from dsprep.storage import pool
from dsprep.storage.pool import Pace
from dsprep.storage.stored import Stored
from dsprep.syncing.sides import Directory


def test_results_come_as_they_are_there() -> None:
    others = threading.Semaphore(0)

    def do(number: int) -> int:
        if number == 0:
            for _ in range(4):
                others.acquire()
        return number * 10

    came = []
    for item, result in Pace(2).in_threads(do, range(5)):
        came.append(item)
        assert result == item * 10
        others.release()
    assert came[-1] == 0
    assert sorted(came) == list(range(5))


def test_a_failure_does_not_wait_for_what_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "LONG_GRACE", 0.0)
    slow, began, pace = threading.Event(), [], Pace(2)

    def do(number: int) -> None:
        began.append(threading.current_thread())
        if number == 0:
            slow.wait()
        raise StoreError("expired", "expired")

    with pytest.raises(StoreError, match="expired"):
        list(pace.in_threads(do, range(100)))
    assert len(began) == 2  # nothing more begins
    assert pace.stopped
    assert all(thread.daemon for thread in began)
    slow.set()


def test_a_stop_does_not_wait_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "LONG_GRACE", 0.0)
    slow, pace = threading.Event(), Pace(1)

    def do(number: int) -> None:
        pace.stop()
        slow.wait()

    with pytest.raises(Interrupted):
        list(pace.in_threads(do, range(2)))
    slow.set()


def test_reading_a_file_ends_with_a_stop(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    pace = Pace(1)
    content = Directory(tmp_path, pace=pace).content(Stored("a", 1, 0.0), None)
    assert content.crc32c() == (content.read_crc32c(), "checksum")
    pace.stop()
    for learn in (content.md5, content.crc32c):
        with pytest.raises(Interrupted):
            learn()
