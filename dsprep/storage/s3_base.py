"""What all requests to a bucket have in common: a connection, and bytes that carry checksums."""

from __future__ import annotations

import hashlib
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from dsprep.errors import StoreError
from dsprep.storage import s3_answers as answers
from dsprep.storage.base import Progress, ignore
from dsprep.storage.requests import Data, Requests
from dsprep.storage.retries import Retries
from dsprep.storage.s3_config import S3Config
from dsprep.storage.urls import Location

T = TypeVar("T")


class BucketRequests:
    """A bucket. Keys are those of the bucket, whole."""

    def __init__(
        self,
        bucket: str,
        config: S3Config | None = None,
        *,
        retries: Retries | None = None,
        wait: Callable[[float], object] = time.sleep,
        on_retry: Callable[[StoreError, float], object] = ignore,
        on_fallback: Callable[[str], object] = ignore,
        role: type[StoreError] = StoreError,
    ) -> None:
        """Connect, which sends nothing yet."""
        self.bucket = bucket
        self.config = config or S3Config()
        self.checksums: bool | None = None
        self._requests = Requests(
            bucket, self.config, retries or Retries(), wait, on_retry, on_fallback, role
        )
        self._call = self._requests.call
        self.again = self._requests.again

    def url(self, key: str) -> str:
        """What users call an object."""
        return str(Location(self.bucket, key))

    def close(self) -> None:
        """Let go of connections."""
        self._requests.close()

    def md5_needed(self, data: Data) -> bytes | None:
        """The MD5 of bytes that are to be sent, if the server goes by nothing better."""
        return None if self.checksums else hashlib.md5(data, usedforsecurity=False).digest()

    def _pages(
        self, operation: str, prefix: str, parse: Callable[[Any], T], *marks: str, **args: Any
    ) -> Iterator[T]:
        """A listing, page by page."""

        def parse_page(page: Any) -> tuple[T, dict[str, Any]]:
            following = {}
            if page.get("IsTruncated"):
                following = {mark: page[f"Next{mark}"] for mark in marks}
                if following.items() <= args.items():
                    raise ValueError("the page that follows is the same again")
            return parse(page), following

        while True:
            found, following = self._call(operation, prefix, parse_page, **args)
            yield found
            if not following:
                return
            args |= following

    def _send(
        self,
        operation: str,
        key: str,
        parse: Callable[[Any], T],
        data: Data,
        crc32c: int | None,
        md5: bytes | None,
        progress: Progress,
        **args: Any,
    ) -> T:
        """Send bytes with their checksums, and compare what the server says it has got."""
        if md5 is not None:
            args["ContentMD5"] = b64encode(md5).decode()
        if crc32c is not None and self.checksums is not False:
            args["ChecksumCRC32C"] = answers.base64_crc32c(crc32c)

        def compare(answer: Any) -> T:
            kept = answers.checksum(answer)
            self.checksums = kept is not None
            if kept is not None and crc32c is not None and kept.algorithm == "crc32c":
                if kept.value != crc32c.to_bytes(4, "big"):
                    raise answers.DamagedError("another crc32c than was sent")
                return parse(answer)
            got = answers.looked_up(key, answer, len(data)).md5
            if md5 is not None and got not in (None, md5):
                raise answers.DamagedError("another MD5 than was sent")
            return parse(answer)

        return self._call(operation, key, compare, data=data, progress=progress, **args)
