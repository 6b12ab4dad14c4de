"""A bucket on S3 as a place for files. Each method is one request, lists excepted.

Bytes carry their crc32c, and their MD5 where the server does not keep checksums: it refuses what
is not that of the bytes that arrived.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any
from uuid import uuid4

from dsprep.errors import StoreError
from dsprep.storage import crc
from dsprep.storage import s3_answers as answers
from dsprep.storage.base import Level, Pages, Progress, Refused, RefusedKeys, Stored, ignore
from dsprep.storage.requests import Data
from dsprep.storage.s3_reading import S3Reading
from dsprep.storage.s3_uploads import UploadRequests, copy_source

_DELETED_AT_ONCE = 1000

_TOKEN = "dsprep-put"
"""The metadata that tells a conditional PUT of ours from one by somebody else."""


class S3Store(UploadRequests):
    """A bucket. Keys are those of the bucket, whole."""

    def list(self, prefix: str = "") -> Pages[Stored]:
        """Everything whose key begins so, page by page."""
        return self._pages("ListObjectsV2", prefix, _listed, "ContinuationToken", Prefix=prefix)

    def levels(self, prefix: str) -> Iterator[Level]:
        """Objects whose key begins so and has no further slash, and what lies deeper, by pages."""
        return self._pages(
            "ListObjectsV2", prefix, _level, "ContinuationToken", Prefix=prefix, Delimiter="/"
        )

    def stat(self, key: str) -> Stored | None:
        """What is known about an object; None if there is none."""
        try:
            return self._call(
                "HeadObject", key, partial(_looked_up, key), Key=key, ChecksumMode="ENABLED"
            )
        except StoreError as error:
            if error.kind == "missing":
                return None
            raise

    def open(
        self, key: str, start: int = 0, size: int | None = None, etag: str = ""
    ) -> closing[S3Reading]:
        """Read an object, or a range of it, that must still have this ETag."""
        return closing(S3Reading(self._requests, key, start, size, etag))

    def put(
        self,
        key: str,
        data: Data,
        *,
        new: bool = False,
        etag: str = "",
        crc32c: int | None = None,
        metadata: Mapping[str, str] | None = None,
        progress: Progress = ignore,
    ) -> Stored:
        """Store an object in one request, and see that what arrived is what was sent."""
        value = crc.crc32c(data) if crc32c is None else crc32c
        md5 = self.md5_needed(data)
        args = self.config.to_create(metadata or {})
        token = uuid4().hex
        if new or etag:
            args["Metadata"] = {**args.get("Metadata", {}), _TOKEN: token}
        if new:
            args["IfNoneMatch"] = "*"
        if etag:
            args["IfMatch"] = etag  # Ceph takes no quotes here, others both
        parse = partial(answers.looked_up, key, size=len(data))
        try:
            return self._send("PutObject", key, parse, data, value, md5, progress, Key=key, **args)
        except StoreError as error:
            # It was ours if it went twice because the first answer was lost.
            there = self.stat(key) if error.kind == "exists" else None
            if there is None or there.metadata.get(_TOKEN) != token:
                raise
            return there

    def delete(self, keys: Sequence[str]) -> RefusedKeys:
        """Delete objects; those that are not there are no failure."""
        refused: RefusedKeys = []
        for at in range(0, len(keys), _DELETED_AT_ONCE):
            some = keys[at : at + _DELETED_AT_ONCE]
            objects = {"Objects": [{"Key": key} for key in some], "Quiet": True}
            refused += self._call("DeleteObjects", some[0], self._refused, Delete=objects)
        return refused

    def _refused(self, answer: Mapping[str, Any]) -> RefusedKeys:
        failure = partial(self._requests.failure, "DeleteObjects")
        return [
            Refused(each["Key"], failure(each["Key"], each)) for each in answer.get("Errors", [])
        ]

    def copy(
        self, source: str, stored: Stored, key: str, metadata: Mapping[str, str] | None
    ) -> None:
        """Have the server copy an object of up to 5 GiB."""
        args = self.config.to_create(metadata or {}) | copy_source(source, stored)
        if metadata is None:
            args.pop("Metadata", None)
        else:
            args |= {"MetadataDirective": "REPLACE", **stored.headers}
        if self.config.tags:
            args["TaggingDirective"] = "REPLACE"
        if self.checksums is not False:
            args["ChecksumAlgorithm"] = "CRC32C"
        self._call("CopyObject", key, ignore, Key=key, **args)

    def tags(self, key: str) -> dict[str, str]:
        """The tags of an object."""
        return self._call("GetObjectTagging", key, _tags, Key=key)


def _listed(page: Mapping[str, Any]) -> list[Stored]:
    return [answers.listed(entry) for entry in page.get("Contents", [])]


def _level(page: Mapping[str, Any]) -> Level:
    deeper = [each["Prefix"] for each in page.get("CommonPrefixes", [])]
    return Level(_listed(page), deeper, not page.get("IsTruncated"))


def _looked_up(key: str, answer: Mapping[str, Any]) -> Stored:
    return answers.looked_up(key, answer, int(answer["ContentLength"]))


def _tags(answer: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in answer.get("TagSet", [])}
