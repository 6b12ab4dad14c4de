"""A bucket on S3 as a place for files. Each method is one request, lists excepted.

Bytes carry their crc32c, and their MD5 where the server does not keep checksums: it refuses what
is not that of the bytes that arrived.
"""

from __future__ import annotations

import hashlib
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from dsprep.errors import StoreError
from dsprep.stores import s3_answers as answers
from dsprep.stores.base import Pages, Part, Progress, Refused, RefusedKeys, Stored, Upload
from dsprep.stores.local import checksum
from dsprep.stores.retries import Retries
from dsprep.stores.s3 import Data, Requests
from dsprep.stores.s3_config import S3Config
from dsprep.stores.urls import Location

_DELETED_AT_ONCE = 1000


def _nothing(*_: object) -> None:
    pass


class S3Store:
    """A bucket. Keys are those of the bucket, whole.

    Attributes:
        bucket: Its name.
        config: How it is reached.
        checksums: Whether the server keeps checksums and refuses what does not match them; None
            until an answer has told.
    """

    def __init__(
        self,
        bucket: str,
        config: S3Config | None = None,
        *,
        retries: Retries | None = None,
        wait: Callable[[float], object] = time.sleep,
        on_retry: Callable[[StoreError, float], object] = _nothing,
        on_fallback: Callable[[str], object] = _nothing,
    ) -> None:
        """Connect, which sends nothing yet.

        Args:
            bucket: Its name.
            config: How to reach it.
            retries: How often requests are tried.
            wait: Sleeps so many seconds; may raise, to stop.
            on_retry: Told of each failure that is tried again, and after how many seconds.
            on_fallback: Told once of what the server cannot do and is done without.

        Raises:
            StoreError: If there is no such profile, or the configuration cannot be read.
        """
        self.bucket = bucket
        self.config = config or S3Config()
        self.checksums: bool | None = None
        self._requests = Requests(
            bucket, self.config, retries or Retries(), wait, on_retry, on_fallback
        )
        self._call = self._requests.call
        self.again = self._requests.again

    def url(self, key: str) -> str:
        """What users call an object."""
        return str(Location(self.bucket, key))

    def close(self) -> None:
        """Let go of connections."""
        self._requests.close()

    def list(self, prefix: str = "") -> Pages[Stored]:
        """Everything whose key begins so, page by page."""
        args: dict[str, Any] = {"Prefix": prefix}
        while True:
            page = self._call("ListObjectsV2", prefix, **args)
            yield [answers.listed(entry) for entry in page.get("Contents", [])]
            if not page.get("IsTruncated"):
                return
            args["ContinuationToken"] = page["NextContinuationToken"]

    def stat(self, key: str) -> Stored | None:
        """What is known about an object; None if there is none."""
        try:
            answer = self._call("HeadObject", key, Key=key, ChecksumMode="ENABLED")
        except StoreError as error:
            if error.kind == "missing":
                return None
            raise
        return answers.looked_up(key, answer, int(answer["ContentLength"]))

    @contextmanager
    def open(
        self, key: str, start: int = 0, size: int | None = None, etag: str = ""
    ) -> Iterator[S3Reading]:
        """Read an object, or a range of it, that must still have this ETag."""
        args: dict[str, Any] = {"ChecksumMode": "ENABLED"}
        if start or size is not None:
            args["Range"] = f"bytes={start}-" + ("" if size is None else str(start + size - 1))
        if etag:
            args["IfMatch"] = f'"{etag}"'
        answer = self._call("GetObject", key, Key=key, **args)
        reading = S3Reading(self._requests, key, answer)
        try:
            yield reading
        finally:
            reading.close()

    def put(
        self,
        key: str,
        data: Data,
        *,
        new: bool = False,
        etag: str = "",
        metadata: Mapping[str, str] | None = None,
        progress: Progress = _nothing,
    ) -> Stored:
        """Store an object in one request, and see that what arrived is what was sent.

        Args:
            key: The object.
            data: Its bytes.
            new: Refuse (``exists``) if there is an object of this name.
            etag: Refuse (``exists``) unless the object that is there has this ETag.
            metadata: Besides that of the options.
            progress: Told of the bytes that go.
        """
        crc32c, md5 = checksum(bytes(data)), self.md5_needed(data)
        args = self.config.to_create(metadata or {})
        if new:
            args["IfNoneMatch"] = "*"
        if etag:
            args["IfMatch"] = etag  # Ceph takes no quotes here, others both
        answer = self._send("PutObject", key, data, crc32c, md5, progress, Key=key, **args)
        return answers.looked_up(key, answer, len(data))

    def md5_needed(self, data: Data) -> bytes | None:
        """The MD5 of bytes that are to be sent, if the server goes by nothing better."""
        return None if self.checksums else hashlib.md5(data, usedforsecurity=False).digest()

    def delete(self, keys: Sequence[str]) -> RefusedKeys:
        """Delete objects; those that are not there are no failure."""
        refused = []
        for at in range(0, len(keys), _DELETED_AT_ONCE):
            some = keys[at : at + _DELETED_AT_ONCE]
            objects = {"Objects": [{"Key": key} for key in some], "Quiet": True}
            answer = self._call("DeleteObjects", some[0], Delete=objects)
            for entry in answer.get("Errors", []):
                key = entry["Key"]
                refused.append(Refused(key, self._requests.failure("DeleteObjects", key, entry)))
        return refused

    def create_upload(self, key: str, metadata: Mapping[str, str]) -> Upload:
        """Begin an upload in parts. Is not tried again: the answer may be lost, but not the upload.

        Raises:
            StoreError: Also for what may help to be tried again; see `again`.
        """
        args = self.config.to_create(metadata)
        if self.checksums is not False:
            args |= {"ChecksumAlgorithm": "CRC32C", "ChecksumType": "FULL_OBJECT"}
        answer = self._call("CreateMultipartUpload", key, once=True, Key=key, **args)
        self.checksums = answer.get("ChecksumAlgorithm") == "CRC32C"
        return Upload(key, answer["UploadId"], self.checksums, storage_class=self.storage_class)

    @property
    def storage_class(self) -> str:
        """That of new objects; empty for the standard one."""
        return "" if self.config.storage_class == "STANDARD" else self.config.storage_class

    def send_part(
        self,
        upload: Upload,
        number: int,
        data: Data,
        crc32c: int,
        md5: bytes | None,
        progress: Progress = _nothing,
    ) -> Part:
        """Send one part, and see that what arrived is what was sent.

        Args:
            upload: The upload.
            number: The part's, from 1.
            data: Its bytes.
            crc32c: Of these bytes.
            md5: Of these bytes; None if the server checks the crc32c.
            progress: Told of the bytes that go.
        """
        answer = self._send(
            "UploadPart",
            upload.key,
            data,
            crc32c if upload.checksums else None,
            md5,
            progress,
            Key=upload.key,
            UploadId=upload.id,
            PartNumber=number,
            **self.config.to_read(),
        )
        return Part(number, len(data), answers.etag(answer), answers.checksum(answer))

    def complete(self, upload: Upload, parts: Sequence[Part], size: int, crc32c: int | None) -> str:
        """Make the parts one object; returns its ETag.

        Raises:
            StoreError: ``gone`` if somebody else has completed or aborted it.
        """
        entries: list[dict[str, Any]] = [
            {"PartNumber": part.number, "ETag": f'"{part.etag}"'} for part in parts
        ]
        args: dict[str, Any] = {}
        if upload.checksums:
            args = {"ChecksumType": "FULL_OBJECT", "MpuObjectSize": size}
            if crc32c is not None:
                args["ChecksumCRC32C"] = answers.base64_crc32c(crc32c)
            for entry, part in zip(entries, parts, strict=True):
                if part.checksum is not None and part.checksum.algorithm == "crc32c":
                    entry["ChecksumCRC32C"] = b64encode(part.checksum.value).decode()
        answer = self._call(
            "CompleteMultipartUpload",
            upload.key,
            Key=upload.key,
            UploadId=upload.id,
            MultipartUpload={"Parts": entries},
            **args,
            **self.config.to_read(),
        )
        return answers.etag(answer)

    def abort(self, upload: Upload) -> None:
        """Throw the parts of an upload away; one that is not there any more is no failure."""
        try:
            self._call("AbortMultipartUpload", upload.key, Key=upload.key, UploadId=upload.id)
        except StoreError as error:
            if error.kind not in ("gone", "missing"):
                raise

    def copy(
        self, source: str, stored: Stored, key: str, metadata: Mapping[str, str] | None
    ) -> None:
        """Have the server copy an object of up to 5 GiB.

        Args:
            source: The bucket that it is in.
            stored: The object; refused (``exists``) if it is another now.
            key: What the copy is to be called.
            metadata: The copy's; None for that of the object.
        """
        args = self.config.to_create(metadata or {}) | _source(source, stored)
        if metadata is None and not self.config.metadata:
            args.pop("Metadata", None)
        else:
            args["MetadataDirective"] = "REPLACE"
        if self.config.tags:
            args["TaggingDirective"] = "REPLACE"
        if self.checksums is not False:
            args["ChecksumAlgorithm"] = "CRC32C"
        self._call("CopyObject", key, Key=key, **args)

    def copy_part(
        self, upload: Upload, number: int, source: str, stored: Stored, start: int, size: int
    ) -> Part:
        """Have the server copy a range of an object to a part of an upload."""
        answer = self._call(
            "UploadPartCopy",
            upload.key,
            Key=upload.key,
            UploadId=upload.id,
            PartNumber=number,
            CopySourceRange=f"bytes={start}-{start + size - 1}",
            **_source(source, stored),
            **self.config.to_read(),
        )
        result = answer["CopyPartResult"]
        return Part(number, size, answers.etag(result), answers.checksum(result))

    def list_uploads(self, prefix: str = "") -> Pages[Upload]:
        """The unfinished uploads whose key begins so, page by page."""
        args: dict[str, Any] = {"Prefix": prefix}
        while True:
            page = self._call("ListMultipartUploads", prefix, **args)
            yield [answers.upload(entry) for entry in page.get("Uploads", [])]
            if not page.get("IsTruncated"):
                return
            args["KeyMarker"] = page["NextKeyMarker"]
            args["UploadIdMarker"] = page["NextUploadIdMarker"]

    def list_parts(self, upload: Upload) -> Pages[Part]:
        """The parts that an upload has, page by page."""
        args: dict[str, Any] = {"Key": upload.key, "UploadId": upload.id}
        while True:
            page = self._call("ListParts", upload.key, **args)
            yield [answers.part(entry) for entry in page.get("Parts", [])]
            if not page.get("IsTruncated"):
                return
            args["PartNumberMarker"] = int(page["NextPartNumberMarker"])

    def _send(
        self,
        operation: str,
        key: str,
        data: Data,
        crc32c: int | None,
        md5: bytes | None,
        progress: Progress,
        **args: Any,
    ) -> Any:
        """Send bytes with their checksums, and compare what the server says it has got."""
        if md5 is not None:
            args["ContentMD5"] = b64encode(md5).decode()
        if crc32c is not None and self.checksums is not False:
            args["ChecksumCRC32C"] = answers.base64_crc32c(crc32c)

        def refuse(answer: Any) -> str:
            kept = answers.checksum(answer)
            self.checksums = kept is not None
            if kept is not None and crc32c is not None and kept.algorithm == "crc32c":
                return (
                    ""
                    if kept.value == crc32c.to_bytes(4, "big")
                    else "another crc32c than was sent"
                )
            got = answers.looked_up(key, answer, len(data)).md5
            return "" if md5 is None or got in (None, md5) else "another MD5 than was sent"

        return self._call(operation, key, data=data, progress=progress, refuse=refuse, **args)


def _source(bucket: str, stored: Stored) -> dict[str, Any]:
    """The arguments that say what is copied."""
    source = {"CopySource": {"Bucket": bucket, "Key": stored.key}}
    return source | ({"CopySourceIfMatch": f'"{stored.etag}"'} if stored.etag else {})


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
