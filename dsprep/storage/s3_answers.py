"""What S3's answers say, as values."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from dsprep.storage.base import Checksum, Part, Stored, Upload

_PREFIX = "Checksum"
_NO_VALUES = {"ChecksumAlgorithm", "ChecksumType", "ChecksumMode"}


class DamagedError(Exception):
    """An answer that shows that other bytes have arrived than were sent."""


def seconds(text: str | float) -> float:
    """A time in any of S3's spellings, in seconds since 1970."""
    if not isinstance(text, str):
        return float(text)
    if text[:1].isdigit():
        return datetime.fromisoformat(text).timestamp()
    return parsedate_to_datetime(text).timestamp()


def etag(answer: Mapping[str, Any]) -> str:
    """The ETag without its quotes."""
    return str(answer.get("ETag", "")).strip('"')


def checksum(answer: Mapping[str, Any]) -> Checksum | None:
    """The checksum that S3 keeps: a field such as ``ChecksumCRC32C``, in base64."""
    for name, value in answer.items():
        if name.startswith(_PREFIX) and name not in _NO_VALUES:
            text, _, parts = str(value).partition("-")  # "…-3": of three parts' checksums
            full = not parts and answer.get("ChecksumType") != "COMPOSITE"
            try:
                return Checksum(name[len(_PREFIX) :].lower(), b64decode(text, validate=True), full)
            except NotBase64:
                return None
    return None


def base64_crc32c(crc32c: int) -> str:
    """A crc32c as S3 has it in headers."""
    return b64encode(crc32c.to_bytes(4, "big")).decode()


def listed(entry: Mapping[str, Any]) -> Stored:
    """An entry of ListObjectsV2."""
    return Stored(
        key=entry["Key"],
        size=int(entry["Size"]),
        modified=seconds(entry["LastModified"]),
        etag=etag(entry),
        storage_class=_storage_class(entry),
    )


_HEADERS = (
    "CacheControl",
    "ContentDisposition",
    "ContentEncoding",
    "ContentLanguage",
    "ContentType",
)
"""What readers are told of an object besides its metadata."""


def looked_up(key: str, answer: Mapping[str, Any], size: int) -> Stored:
    """The answer of HeadObject, GetObject or PutObject."""
    modified = answer.get("LastModified")
    return Stored(
        key=key,
        size=size,
        modified=seconds(modified) if modified is not None else 0.0,
        etag=etag(answer),
        checksum=checksum(answer),
        metadata={name.lower(): value for name, value in answer.get("Metadata", {}).items()},
        storage_class=_storage_class(answer),
        encryption=answer.get("ServerSideEncryption", ""),
        kms_key=answer.get("SSEKMSKeyId", ""),
        headers={name: answer[name] for name in _HEADERS if answer.get(name)},
    )


def begun(key: str, storage_class: str, answer: Mapping[str, Any]) -> Upload:
    """The answer of CreateMultipartUpload."""
    checksums = answer.get("ChecksumAlgorithm") == "CRC32C"
    return Upload(key, answer["UploadId"], checksums, storage_class=storage_class)


def sent(answer: Mapping[str, Any], number: int, size: int) -> Part:
    """The answer of UploadPart, or what that of UploadPartCopy says of the part."""
    return Part(number, size, etag(answer), checksum(answer))


def part(entry: Mapping[str, Any]) -> Part:
    """An entry of ListParts."""
    return Part(int(entry["PartNumber"]), int(entry["Size"]), etag(entry), checksum(entry))


def upload(entry: Mapping[str, Any]) -> Upload:
    """An entry of ListMultipartUploads."""
    return Upload(
        key=entry["Key"],
        id=entry["UploadId"],
        checksums=(entry.get("ChecksumAlgorithm"), entry.get("ChecksumType"))
        == ("CRC32C", "FULL_OBJECT"),
        initiated=seconds(entry["Initiated"]),
        initiator=entry.get("Initiator", {}).get("ID", ""),
        storage_class=_storage_class(entry),
    )


def _storage_class(entry: Mapping[str, Any]) -> str:
    found = str(entry.get("StorageClass", ""))
    return "" if found == "STANDARD" else found
