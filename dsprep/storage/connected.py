"""Buckets that commands read from and write to, reached as AWS's environment and files say."""

from __future__ import annotations

import threading
from functools import cache

from dsprep.storage.bucket import S3Store
from dsprep.storage.retries import tell_retry

_connecting = threading.Lock()


def store_of(bucket: str) -> S3Store:
    """The connection to a bucket: one for each in a process, which all threads share.

    A worker connects itself, so no secret is ever among its tasks.
    """
    with _connecting:  # many threads may want it first, and connecting takes long
        return _connect(bucket)


@cache
def _connect(bucket: str) -> S3Store:
    return S3Store(bucket, on_retry=tell_retry)
