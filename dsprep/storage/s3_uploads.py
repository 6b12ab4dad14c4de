"""Uploads in parts to a bucket. Each method is one request, lists excepted."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from dsprep.errors import StoreError
from dsprep.storage import s3_answers as answers
from dsprep.storage.base import Pages, Part, Progress, Stored, Upload, ignore
from dsprep.storage.requests import Data
from dsprep.storage.s3_base import BucketRequests


class UploadRequests(BucketRequests):
    """The requests of uploads in parts."""

    def create_upload(
        self,
        key: str,
        metadata: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Upload:
        """Begin a multipart upload. It is not retried: a lost answer may hide a started upload."""
        config = replace(self.config, tags=self.config.tags or tags or {})
        args = config.to_create(metadata) | dict(headers or {})
        if self.checksums is not False:
            args |= {"ChecksumAlgorithm": "CRC32C", "ChecksumType": "FULL_OBJECT"}
        begun = partial(answers.begun, key, self.storage_class)
        upload = self._call("CreateMultipartUpload", key, begun, once=True, Key=key, **args)
        self.checksums = upload.checksums
        return upload

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
        progress: Progress = ignore,
    ) -> Part:
        """Send one part, and see that what arrived is what was sent."""
        return self._send(
            "UploadPart",
            upload.key,
            lambda answer: answers.sent(answer, number, len(data)),
            data,
            crc32c if upload.checksums else None,
            md5,
            progress,
            Key=upload.key,
            UploadId=upload.id,
            PartNumber=number,
        )

    def complete(self, upload: Upload, parts: Sequence[Part], size: int, crc32c: int | None) -> str:
        """Make the parts one object; returns its ETag."""
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
        return self._call(
            "CompleteMultipartUpload",
            upload.key,
            answers.etag,
            Key=upload.key,
            UploadId=upload.id,
            MultipartUpload={"Parts": entries},
            **args,
        )

    def abort(self, upload: Upload) -> None:
        """Throw the parts of an upload away; one that is not there any more is no failure."""
        try:
            self._call(
                "AbortMultipartUpload", upload.key, ignore, Key=upload.key, UploadId=upload.id
            )
        except StoreError as error:
            if error.kind not in ("gone", "missing"):
                raise

    def copy_part(
        self, upload: Upload, number: int, source: str, stored: Stored, start: int, size: int
    ) -> Part:
        """Have the server copy a range of an object to a part of an upload."""
        return self._call(
            "UploadPartCopy",
            upload.key,
            lambda answer: answers.sent(answer["CopyPartResult"], number, size),
            Key=upload.key,
            UploadId=upload.id,
            PartNumber=number,
            CopySourceRange=f"bytes={start}-{start + size - 1}",
            **copy_source(source, stored),
        )

    def list_uploads(self, prefix: str = "") -> Pages[Upload]:
        """The unfinished uploads whose key begins so, page by page."""
        marks = "KeyMarker", "UploadIdMarker"
        return self._pages("ListMultipartUploads", prefix, _uploads, *marks, Prefix=prefix)

    def list_parts(self, upload: Upload) -> Pages[Part]:
        """The parts that an upload has, page by page."""
        args = {"Key": upload.key, "UploadId": upload.id}
        return self._pages("ListParts", upload.key, _parts, "PartNumberMarker", **args)


def _uploads(page: Mapping[str, Any]) -> list[Upload]:
    return [answers.upload(entry) for entry in page.get("Uploads", [])]


def _parts(page: Mapping[str, Any]) -> list[Part]:
    return [answers.part(entry) for entry in page.get("Parts", [])]


def copy_source(bucket: str, stored: Stored) -> dict[str, Any]:
    """The arguments that say what is copied."""
    source = {"CopySource": {"Bucket": bucket, "Key": stored.key}}
    return source | ({"CopySourceIfMatch": f'"{stored.etag}"'} if stored.etag else {})
