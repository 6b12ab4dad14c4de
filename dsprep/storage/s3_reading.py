"""The bytes of an object, or a range of them, on their way from S3.

This is the one place where reading goes on when a connection breaks, and where what comes is
compared with what was asked for: HTTP lets a server answer with other bytes of the object.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from dsprep.storage import s3_answers as answers
from dsprep.storage.base import Stored
from dsprep.storage.requests import Requests

_AT_ONCE = 1 << 20
"""Bytes read at once: when a connection breaks, no more than these have come in vain."""


class _Answer(NamedTuple):
    """What was said about an object, and its bytes up to a place, still on their way."""

    stored: Stored
    body: Any
    stop: int


class S3Reading:
    """The bytes of an object on their way; if the connection breaks, it goes on behind them."""

    def __init__(
        self, requests: Requests, key: str, start: int, size: int | None, etag: str
    ) -> None:
        """Ask for them; the arguments are those of `Store.open`."""
        self._requests, self._key = requests, key
        self._stored, self._body, self._stop = self._ask(start, size, etag)
        self._at = start
        self._failed = 0

    @property
    def stored(self) -> Stored:
        """What was said about the object."""
        return self._stored

    def read(self, size: int) -> bytes:
        """The next bytes, at most so many; none at the end."""
        while self._at < self._stop:
            left = self._stop - self._at
            try:
                data: bytes = self._body.read(min(size, left, _AT_ONCE))
                if not data:
                    raise EOFError(f"{left:,} bytes are missing")
            except Exception as error:
                self._go_on(error)
            else:
                self._at += len(data)
                self._failed = 0
                return data
        return b""

    def close(self) -> None:
        """Let go of the connection, which is used again if all has been read."""
        self._body.close()

    def _go_on(self, error: Exception) -> None:
        """Ask for the bytes that have not come, of the same content."""
        self._body.close()
        self._failed += 1
        broken = self._requests.broken(self._key, error, self._failed)
        self._requests.again(broken, self._failed)
        _, self._body, _ = self._ask(self._at, self._stop - self._at, self._stored.etag)

    def _ask(self, start: int, size: int | None, etag: str) -> _Answer:
        args: dict[str, Any] = {"Key": self._key, "ChecksumMode": "ENABLED"}
        if start or size is not None:
            args["Range"] = f"bytes={start}-" + ("" if size is None else str(start + size - 1))
        if etag:
            args["IfMatch"] = f'"{etag}"'
        parse = partial(_parsed, self._key, start, size)
        return self._requests.call("GetObject", self._key, parse, **args)


def _parsed(key: str, start: int, size: int | None, answer: Mapping[str, Any]) -> _Answer:
    """An answer of GetObject, if it is to what was asked."""
    body = answer["Body"]
    try:
        length = int(answer["ContentLength"])
        told = answer.get("ContentRange") or f"bytes 0-{length - 1}/{length}"
        total = int(told.rpartition("/")[2])
        stop = total if size is None else min(start + size, total)
        if told != f"bytes {start}-{stop - 1}/{total}" or length != stop - start:
            raise ValueError(
                f"bytes {start}-{stop - 1} were asked for, and {length:,} bytes come as {told!r}"
            )
        return _Answer(answers.looked_up(key, answer, total), body, stop)
    except (KeyError, ValueError):
        body.close()
        raise
