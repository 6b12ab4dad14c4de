"""What is on its way to S3 while a run goes on."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable

import pytest

from dsprep.errors import StoreError
from dsprep.run.remote.uploads import Uploads


def wait_until(condition: Callable[[], object]) -> None:
    for _ in range(6000):
        if condition():
            return
        gc.collect()
        time.sleep(0.01)
    raise AssertionError("it never happened")


def upload_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "upload"}


class Plan:
    """What a send holds."""

    def send(self) -> None:
        """Nothing goes anywhere."""

    def fail(self) -> None:
        raise StoreError("refused")


def test_threads_that_wait_hold_nothing_and_end_with_the_run() -> None:
    before, plan, uploads = upload_threads(), Plan(), Uploads(100)
    held = weakref.ref(plan)
    for number in range(8):
        uploads.add(f"{number}", 10, plan.send)
    del plan
    assert uploads.wait(60)
    wait_until(lambda: held() is None)
    uploads.close()
    wait_until(lambda: upload_threads() <= before)


def test_after_a_failure_nothing_is_sent_and_threads_end_too() -> None:
    before, uploads, sent = upload_threads(), Uploads(100), []
    uploads.add("first", 10, Plan().fail)
    with pytest.raises(StoreError, match="refused"):
        uploads.wait(60)
    uploads.add("second", 10, lambda: sent.append("second"))
    uploads.close()
    wait_until(lambda: upload_threads() <= before)
    with pytest.raises(StoreError, match="refused"):
        uploads.check()
    assert sent == []
