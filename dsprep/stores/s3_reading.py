"""The bytes of an object, or a range of them, on their way from S3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsprep.stores import s3_answers as answers
from dsprep.stores.base import Stored
from dsprep.stores.requests import Requests


class S3Reading:
    """The bytes of an object on their way."""

    def __init__(self, requests: Requests, key: str, answer: Mapping[str, Any]) -> None:
        """Take an answer of GetObject."""
        self._requests, self._key = requests, key
        self._body = answer["Body"]
        self._left = int(answer["ContentLength"])
        whole = str(answer.get("ContentRange", "")).rpartition("/")[2]
        self._stored = answers.looked_up(key, answer, int(whole) if whole else self._left)

    @property
    def stored(self) -> Stored:
        """What was said about the object."""
        return self._stored

    def read(self, size: int) -> bytes:
        """The next bytes, at most so many; none at the end."""
        try:
            data: bytes = self._body.read(min(size, self._left)) if self._left else b""
        except Exception as error:
            raise self._requests.broken(self._key, error) from None
        if self._left and not data:
            raise self._requests.broken(self._key, EOFError(f"{self._left:,} bytes are missing"))
        self._left -= len(data)
        return data

    def close(self) -> None:
        """Let go of the connection, which is used again if all has been read."""
        self._body.close()
