"""Calls made by other threads: whatever threads there are, and nothing of them is kept."""

from __future__ import annotations

import queue
import threading
import weakref
from io import BytesIO

import pytest

from dsprep.storage.pool import THREADS, BlocksAhead, Threads


class Large:
    """A result whose end is noticed."""


def test_threads_that_cannot_be_started_are_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    left = [0]

    def limited(self: threading.Thread) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", limited)
    threads = Threads(THREADS)
    for _ in range(THREADS):
        with pytest.raises(RuntimeError):
            threads.submit(Large)
    left[0] = 1
    found = [threads.submit(Large) for _ in range(THREADS)]
    assert all(isinstance(each.result(60), Large) for each in found)


def test_results_are_kept_by_nobody_but_who_wants_them() -> None:
    threads = Threads(THREADS)
    gone = threading.Event()
    weakref.finalize(threads.submit(Large).result(60), gone.set)
    assert gone.wait(30)


def test_calls_that_wait_for_further_ones_end() -> None:
    """Reading the head of an object asks for its bytes, and heads are read by many threads."""
    threads = Threads(2)
    found = [threads.submit(lambda: threads.submit(Large).result(60)) for _ in range(5)]
    assert all(isinstance(each.result(60), Large) for each in found)


@pytest.mark.parametrize("size", [1, 3, 10, 11])
def test_blocks_are_passed_on_in_order(size: int) -> None:
    content, passed = b"0123456789", list[bytes]()
    with BlocksAhead(BytesIO(content), passed.append) as blocks:
        read = [*iter(lambda: blocks.read(size), b"")]
    assert b"".join(read) == content
    assert [*filter(None, passed)] == read


def test_a_block_is_passed_on_before_it_is_asked_for() -> None:
    passed = queue.SimpleQueue[bytes]()
    with BlocksAhead(BytesIO(b"0123"), passed.put) as blocks:
        assert blocks.read(2) == passed.get() == b"01"
        assert passed.get(timeout=60) == b"23"
        assert blocks.read(2) == b"23"


def test_an_error_is_that_of_the_block_where_it_is_met() -> None:
    class Damaged(BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() == 2:
                raise OSError("damaged")
            return super().read(size)

    with BlocksAhead(Damaged(b"0123")) as blocks:
        assert blocks.read(1) + blocks.read(1) == b"01"
        with pytest.raises(OSError, match="damaged"):
            blocks.read(1)


def test_a_file_is_not_read_once_its_reader_is_left() -> None:
    began, goes_on = threading.Event(), threading.Event()
    read = list[str]()

    class Slow(BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell():
                began.set()
                goes_on.wait(60)
            read.append("a block")
            return super().read(size)

    with pytest.raises(KeyboardInterrupt), BlocksAhead(Slow(b"0123")) as blocks:
        blocks.read(1)
        assert began.wait(60)
        goes_on.set()
        raise KeyboardInterrupt
    assert len(read) == 2
