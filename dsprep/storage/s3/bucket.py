"""A bucket on S3 as a store: one request a method, listings excepted.

Bytes carry their crc32c, and their MD5 where the server keeps no checksums. The server refuses
bytes that do not match, and its answer is compared with what was sent.
"""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import attrgetter
from threading import Lock
from typing import Any, Self, TypeVar
from urllib.parse import quote
from uuid import uuid4

from dsprep.errors import StoreError
from dsprep.storage.location import LONGEST_KEY, Location
from dsprep.storage.objects import ObjectStore
from dsprep.storage.pool import ahead
from dsprep.storage.s3.client import SMALL, Body, Connection, Data, seconds
from dsprep.storage.s3.config import Retries, S3Config
from dsprep.storage.s3.errors import DamagedError, Request
from dsprep.storage.store import READ_AT_ONCE, StoredBytes
from dsprep.storage.stored import Events, Level, Pages, Progress, Stored, Upload, UploadPart, ignore
from dsprep.storage.stored import crc32c as crc32c_of
from dsprep.storage.stored import md5 as md5_of

T = TypeVar("T")
_Answer = Mapping[str, Any]

_DELETED_AT_ONCE = 1000
_FEW = 4  # if a page shows at most this many directories, they are large
_LISTED = 16  # pages of a directory that are listed before they are asked for
_TOKEN = "dsprep-put"  # metadata that distinguishes our conditional PUT from another writer's
_KEPT = ("CacheControl", "ContentDisposition", "ContentEncoding", "ContentLanguage", "ContentType")


class Bucket(ObjectStore):
    """A bucket on S3: makes requests, and retries those that may succeed later.

    Retries are here rather than in botocore, so that the total wait is bounded and a stop is
    noticed at once.
    """

    name = "S3"
    is_shared = True
    has_etags = True
    longest_key = LONGEST_KEY
    longest_name = LONGEST_KEY

    def __init__(
        self,
        bucket: str,
        config: S3Config | None = None,
        *,
        retries: Retries | None = None,
        wait: Callable[[float], object] = time.sleep,
        events: Events = ignore,
        role: type[StoreError] = StoreError,
    ) -> None:
        self.bucket, self.config = bucket, config or S3Config()
        self._retries, self._wait, self._role = retries or Retries(), wait, role
        self._events = events
        # whether the server keeps checksums; None until an answer shows it
        self.checksums: bool | None = None
        self._without_checksums = False
        self._falling_back = Lock()
        self._connections = _Connections(bucket, self.config)

    def connect(self) -> Connection:
        """Connect, or return the connections, which clients of other roles share."""
        try:
            return self._connections.get()
        except Exception as error:  # whatever is wrong in AWS's files
            raise self.failed("", "").explain(error) from None

    def in_role(self, role: type[StoreError]) -> Self:
        """Return a client with the same connections that raises errors of another role."""
        other = copy(self)
        other._role = role
        return other

    def close(self) -> None:
        self._connections.close()

    def call(
        self,
        operation: str,
        key: str,
        parse: Callable[[Any], T],
        *,
        data: Data | None = None,
        progress: Progress = ignore,
        once: bool = False,
        **args: Any,
    ) -> T:
        if self.config.request_payer:
            args["RequestPayer"] = "requester"

        connection = self.connect()

        def attempt(number: int) -> T:
            nonlocal args
            if self._without_checksums:
                args = {name: value for name, value in args.items() if "Checksum" not in name}
            body = Body(data or b"", progress)
            if data is not None:
                args["Body"] = body if len(data) > SMALL else bytes(body.read(SMALL))
            try:
                return parse(connection.send(operation, **args))
            except Exception as caught:
                error = self.failed(operation, key, number).explain(caught)
                repeats = connection.follows(caught)
                if error.kind == "unsupported" and any("Checksum" in name for name in args):
                    self._fall_back(caught)
                    repeats = True
            progress(-body.tell())
            if repeats:
                return attempt(number)
            raise error

        return attempt(1) if once else self.retried(attempt)

    def pages(
        self, operation: str, prefix: str, parse: Callable[[Any], T], *marks: str, **args: Any
    ) -> Iterator[T]:
        def parse_page(page: Any) -> tuple[T, dict[str, Any]]:
            following = {}
            if page.get("IsTruncated"):
                following = {mark: page[f"Next{mark}"] for mark in marks}
                if following.items() <= args.items():
                    raise ValueError("the page that follows is the same again")
            return parse(page), following

        while True:
            found, following = self.call(operation, prefix, parse_page, **args)
            yield found
            if not following:
                return
            args |= following

    def failed(self, operation: str, key: str, attempts: int = 1) -> Request:
        return Request(operation, self.bucket, key, attempts, self._role)

    def retried(self, attempt: Callable[[int], T]) -> T:
        """Call a function with the number of the attempt, after longer and longer waits."""
        number = 1
        while True:
            try:
                return attempt(number)
            except StoreError as error:
                may_help = error.kind in ("transient", "damaged")
                if error.is_final or not may_help or number >= self._retries.attempts:
                    # callers with retries of their own do not retry this error
                    error.is_final = True
                    raise
                delay = self._retries.delay(number)
                facts = {"error": str(error), "kind": error.kind, "seconds": round(delay, 3)}
                self._events("retry", **facts)
            self._wait(delay)
            number += 1

    def _fall_back(self, refusal: Any) -> None:
        """Do without checksums from now on; several threads may find out that this is needed."""
        with self._falling_back:
            is_told, self._without_checksums = self._without_checksums, True
        if not is_told:
            place, code = Location(self.bucket, ""), refusal.response["Error"]["Code"]
            text = f"{place}: the server takes no checksums ({code}): going on with MD5"
            self._events("fallback", text=text)

    def url(self, key: str) -> str:
        return str(Location(self.bucket, key))

    @property
    def storage_class(self) -> str:
        return _standard_is_empty(self.config.storage_class)

    def list(self, prefix: str = "") -> Pages:
        """List all objects whose key begins with a prefix, in order, page by page."""
        found, rest = self._list_some(prefix, 1)
        yield [*found]
        yield from rest

    def _list_some(self, prefix: str, most: int = _LISTED) -> tuple[Sequence[Stored], Pages]:
        """List the first pages of all below a prefix; return also what lists the others."""
        # A page tells where the next one begins. So directories are listed at once, if the first
        # page shows that they are large: small ones would take many more requests than pages.
        found, flat = list[Stored](), self.levels(prefix, "")
        try:
            for level in islice(flat, most):
                parts = [stored.key[len(prefix) :].partition("/") for stored in level.files]
                below = {name for name, slash, _ in parts if slash}
                if not found and 0 < len(below) <= _FEW and not level.is_last:
                    return [], self._list_directories(prefix)
                found += level.files
        except StoreError as error:
            if error.kind != "transient" or most == 1:
                raise
            return [], self.list(prefix)  # the server is busy: the directory is listed later
        return found, (level.files for level in flat)

    def _list_directories(self, prefix: str) -> Pages:
        for level in self.levels(prefix):
            # About the time that these pages take.
            at, calls = 0, ((4 << 20, partial(self._list_some, each)) for each in level.deeper)
            for directory, (found, rest) in zip(level.deeper, ahead(calls), strict=True):
                before = bisect(level.files, directory, key=attrgetter("key"))
                yield [*level.files[at:before], *found]
                yield from rest
                at = before
            yield level.files[at:]

    def levels(self, prefix: str, delimiter: str = "/") -> Iterator[Level]:
        """List what lies directly below a prefix, page by page."""

        def parse(page: _Answer) -> Level:
            entries = page.get("Contents", [])
            files = [self.parse(entry["Key"], entry, int(entry["Size"])) for entry in entries]
            deeper = [entry["Prefix"] for entry in page.get("CommonPrefixes", [])]
            return Level(files, deeper, not page.get("IsTruncated"))

        args = {"Prefix": prefix, "EncodingType": "url"}
        if delimiter:
            args["Delimiter"] = delimiter
        return self.pages("ListObjectsV2", prefix, parse, "ContinuationToken", **args)

    def stat(self, key: str) -> Stored | None:
        def parse(answer: _Answer) -> Stored:
            return self.parse(key, answer, int(answer["ContentLength"]))

        try:
            return self.call("HeadObject", key, parse, Key=key, ChecksumMode="ENABLED")
        except StoreError as error:
            if error.kind == "missing":
                return None
            raise

    @staticmethod
    def parse(key: str, answer: _Answer, size: int) -> Stored:
        """Return what an answer, or the entry of a listing, says about an object."""
        modified = answer.get("LastModified")
        return Stored(
            key=key,
            size=size,
            modified=seconds(modified) if modified is not None else 0.0,
            etag=_etag(answer),
            crc32c=_crc32c(answer),
            metadata={name.lower(): value for name, value in answer.get("Metadata", {}).items()},
            storage_class=_standard_is_empty(answer.get("StorageClass", "")),
            encryption=answer.get("ServerSideEncryption", ""),
            kms_key=answer.get("SSEKMSKeyId", ""),
            headers={name: answer[name] for name in _KEPT if answer.get(name)},
        )

    def tags(self, key: str) -> dict[str, str]:
        def parse(answer: _Answer) -> dict[str, str]:
            return {tag["Key"]: tag["Value"] for tag in answer.get("TagSet", [])}

        return self.call("GetObjectTagging", key, parse, Key=key)

    def open(
        self, key: str, start: int = 0, size: int | None = None, etag: str = ""
    ) -> closing[S3Reading]:
        """Read an object, or a range of it, that must still have this ETag."""
        return closing(S3Reading(self, key, start, size, etag))

    def put(
        self,
        key: str,
        data: Data,
        *,
        replaces: str | None = None,
        crc32c: int | None = None,
        metadata: Mapping[str, str] | None = None,
        progress: Progress = ignore,
    ) -> Stored:
        """Store an object in one request; only in place of the ETag ``replaces``, if given."""
        # An empty ETag stands for no object.
        token, noted, condition = uuid4().hex, dict(metadata or {}), {}
        # Ceph accepts an ETag only without quotes here; other servers accept both
        if replaces is not None:
            condition = {"IfMatch": replaces} if replaces else {"IfNoneMatch": "*"}
            noted[_TOKEN] = token
        args: dict[str, Any] = {"Key": key, **condition, **self.config.to_create(noted)}
        value = crc32c_of(data) if crc32c is None else crc32c
        try:
            return self._send("PutObject", args, data, value, self.checksums, progress)
        except StoreError as error:
            # The object is ours if the PUT was repeated because the first answer was lost.
            there = self.stat(key) if error.kind == "exists" else None
            if there is None or there.metadata.get(_TOKEN) != token:
                raise
            return there

    def delete(self, keys: Sequence[str]) -> dict[str, StoreError]:
        """Delete objects, if they are there; return the errors of those that are refused."""

        def parse(answer: _Answer) -> dict[str, StoreError]:
            return {
                entry["Key"]: self.failed("DeleteObjects", entry["Key"]).refused(entry, {})
                for entry in answer.get("Errors", [])
            }

        refused: dict[str, StoreError] = {}
        for at in range(0, len(keys), _DELETED_AT_ONCE):
            some = keys[at : at + _DELETED_AT_ONCE]
            objects = {"Objects": [{"Key": key} for key in some], "Quiet": True}
            refused |= self.call("DeleteObjects", some[0], parse, Delete=objects)
        return refused

    def copy(
        self, source: str, stored: Stored, key: str, metadata: Mapping[str, str] | None
    ) -> None:
        """Let the server copy an object of up to 5 GiB from a bucket."""
        args = self.config.to_create(metadata or {}) | _copy_source(source, stored)
        if metadata is None:
            args.pop("Metadata", None)
        else:
            args |= {"MetadataDirective": "REPLACE", **stored.headers}
        if self.config.tags:
            args["TaggingDirective"] = "REPLACE"
        if self.checksums is not False:
            args["ChecksumAlgorithm"] = "CRC32C"
        self.call("CopyObject", key, ignore, Key=key, **args)

    def create_upload(
        self,
        key: str,
        metadata: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Upload:
        """Begin a multipart upload. It is not retried: a lost answer may hide a started upload."""

        def parse(answer: _Answer) -> Upload:
            checked = answer.get("ChecksumAlgorithm") == "CRC32C"
            return Upload(key, answer["UploadId"], checked, storage_class=self.storage_class)

        config = replace(self.config, tags=self.config.tags or tags or {})
        args = config.to_create(metadata) | dict(headers or {})
        if self.checksums is not False:
            args |= {"ChecksumAlgorithm": "CRC32C", "ChecksumType": "FULL_OBJECT"}
        upload = self.call("CreateMultipartUpload", key, parse, once=True, Key=key, **args)
        self.checksums = upload.checksums
        return upload

    def send_part(
        self, upload: Upload, number: int, data: Data, crc32c: int, progress: Progress = ignore
    ) -> UploadPart:
        args = {**_names(upload), "PartNumber": number}
        stored = self._send("UploadPart", args, data, crc32c, upload.checksums, progress)
        return UploadPart(number, stored.size, stored.etag, stored.crc32c)

    def copy_part(
        self, upload: Upload, number: int, source: str, stored: Stored, start: int, size: int
    ) -> UploadPart:
        """Let the server copy a range of an object to a part of an upload."""
        return self.call(
            "UploadPartCopy",
            upload.key,
            lambda answer: _part(answer["CopyPartResult"], number, size),
            PartNumber=number,
            CopySourceRange=f"bytes={start}-{start + size - 1}",
            **_names(upload),
            **_copy_source(source, stored),
        )

    def complete(
        self, upload: Upload, parts: Sequence[UploadPart], size: int, crc32c: int | None
    ) -> str:
        """Make the parts one object, with this crc32c if it is known; return its ETag."""
        entries: list[dict[str, Any]] = [
            {"PartNumber": part.number, "ETag": f'"{part.etag}"'} for part in parts
        ]
        args = _names(upload)
        if upload.checksums:
            args |= {"ChecksumType": "FULL_OBJECT", "MpuObjectSize": size}
            if crc32c is not None:
                args["ChecksumCRC32C"] = _base64(crc32c)
            for entry, part in zip(entries, parts, strict=True):
                if part.crc32c is not None:
                    entry["ChecksumCRC32C"] = _base64(part.crc32c)
        args["MultipartUpload"] = {"Parts": entries}
        try:
            return self.call("CompleteMultipartUpload", upload.key, _etag, **args)
        except StoreError as error:
            # Perhaps it was completed, and the answer was lost.
            there = self.stat(upload.key) if error.kind == "gone" else None
            if there is None or there.size != size:
                raise
            is_it = crc32c is not None and there.any_crc32c == crc32c
            if not is_it and not there.is_made_of(parts):
                raise
            return there.etag

    def abort(self, upload: Upload) -> None:
        """Delete the parts of an upload; one that is not there any more is no failure."""
        try:
            self.call("AbortMultipartUpload", upload.key, ignore, **_names(upload))
        except StoreError as error:
            if error.kind not in ("gone", "missing"):
                raise

    def list_uploads(self, prefix: str = "") -> Iterator[Upload]:
        def parse(page: _Answer) -> Sequence[Upload]:
            full = ("CRC32C", "FULL_OBJECT")
            return [
                Upload(
                    key=entry["Key"],
                    id=entry["UploadId"],
                    checksums=(entry.get("ChecksumAlgorithm"), entry.get("ChecksumType")) == full,
                    initiated=seconds(entry["Initiated"]),
                    initiator=entry.get("Initiator", {}).get("ID", ""),
                    storage_class=_standard_is_empty(entry.get("StorageClass", "")),
                )
                for entry in page.get("Uploads", [])
            ]

        marks = "KeyMarker", "UploadIdMarker"
        for page in self.pages("ListMultipartUploads", prefix, parse, *marks, Prefix=prefix):
            yield from page

    def parts(self, upload: Upload) -> Sequence[UploadPart] | None:
        """Return all parts of an upload; None if it has just ended."""

        def parse(page: _Answer) -> Sequence[UploadPart]:
            entries = page.get("Parts", [])
            return [_part(entry, int(entry["PartNumber"]), int(entry["Size"])) for entry in entries]

        try:
            names = _names(upload)
            pages = self.pages("ListParts", upload.key, parse, "PartNumberMarker", **names)
            return [part for page in pages for part in page]
        except StoreError as error:
            if error.kind not in ("gone", "missing"):
                raise
            return None

    def _send(
        self,
        operation: str,
        args: dict[str, Any],
        data: Data,
        crc32c: int,
        checksums: bool | None,
        progress: Progress,
    ) -> Stored:
        """Send bytes with their checksums, and compare the checksums of the answer."""
        # `checksums` tells whether the server keeps the crc32c; with None, it gets the MD5 as well.
        md5 = None if checksums else md5_of(data)
        if md5 is not None:
            args["ContentMD5"] = b64encode(md5).decode()
        if checksums is not False:
            args["ChecksumCRC32C"] = _base64(crc32c)

        def compare(answer: _Answer) -> Stored:
            stored = self.parse(args["Key"], answer, len(data))
            self.checksums = stored.crc32c is not None
            if stored.crc32c is not None:
                if stored.crc32c != crc32c:
                    raise DamagedError("another crc32c than was sent")
            elif md5 is not None and stored.md5 not in (None, md5):
                raise DamagedError("another MD5 than was sent")
            return stored

        return self.call(operation, args["Key"], compare, data=data, progress=progress, **args)


class S3Reading(StoredBytes):
    """The bytes of an object on their way. If the connection breaks, reading resumes behind them.

    The range that comes is compared with the range that was asked for, because HTTP lets a server
    answer with other bytes of the object.
    """

    def __init__(self, store: Bucket, key: str, start: int, size: int | None, etag: str) -> None:
        self._store, self._key, self._at = store, key, start
        self._ask(size, etag)

    def read(self, size: int = READ_AT_ONCE) -> bytes:
        def receive() -> tuple[bytes, int]:
            data: bytes = self._body.read(min(size, self._stop - self._at, READ_AT_ONCE))
            return data, len(data)

        return self._resuming(receive) if self._at < self._stop else b""

    def read_into(self, buffer: memoryview) -> int:
        """Fill a buffer as far as bytes are left; return how many have come."""

        def receive() -> tuple[int, int]:
            got: int = self._body.readinto(buffer[: self._stop - self._at])
            return got, got

        return self._resuming(receive) if self._at < self._stop else 0

    def _resuming(self, receive: Callable[[], tuple[T, int]]) -> T:
        """Receive something and its size; go on behind it if the connection breaks."""

        def attempt(number: int) -> T:
            left = self._stop - self._at
            if number > 1:
                self._ask(left, self.stored.etag)
            try:
                data, size = receive()
                if not size:
                    raise EOFError(f"{left:,} bytes are missing")
            except Exception as error:
                self._body.close()
                raise self._store.failed("GetObject", self._key, number).explain(error) from None
            self._at += size
            return data

        return self._store.retried(attempt)

    def close(self) -> None:
        """Release the connection, which is used again if everything has been read."""
        self._body.close()

    def _ask(self, size: int | None, etag: str) -> None:
        start = self._at
        args: dict[str, Any] = {"Key": self._key, "ChecksumMode": "ENABLED"}
        if start or size is not None:
            args["Range"] = f"bytes={start}-" + ("" if size is None else str(start + size - 1))
        if etag:
            args["IfMatch"] = f'"{etag}"'

        def parse(answer: _Answer) -> None:
            self._body = answer["Body"]
            try:
                length = int(answer["ContentLength"])
                sent = answer.get("ContentRange") or f"bytes 0-{length - 1}/{length}"
                total = int(sent.rpartition("/")[2])
                self._stop = total if size is None else min(start + size, total)
                asked = f"bytes {start}-{self._stop - 1}"
                if sent != f"{asked}/{total}" or length != self._stop - start:
                    raise ValueError(
                        f"{asked} were asked for, and {length:,} bytes come as {sent!r}"
                    )
                self.stored = self._store.parse(self._key, answer, total)
            except (KeyError, ValueError):
                self._body.close()
                raise

        self._store.call("GetObject", self._key, parse, **args)


class _Connections:
    """The connections of a bucket, made when they are first needed: that loads botocore."""

    def __init__(self, bucket: str, config: S3Config) -> None:
        self._bucket, self._config = bucket, config
        self._made: Connection | None = None
        self._making = Lock()

    def get(self) -> Connection:
        if self._made is None:
            with self._making:  # one thread connects, and others wait for the connection
                self._made = self._made or Connection(self._bucket, self._config)
        return self._made

    def close(self) -> None:
        if self._made is not None:
            self._made.close()


def _part(answer: _Answer, number: int, size: int) -> UploadPart:
    return UploadPart(number, size, _etag(answer), _crc32c(answer))


def _names(upload: Upload) -> dict[str, Any]:
    return {"Key": upload.key, "UploadId": upload.id}


def _etag(answer: _Answer) -> str:
    return str(answer.get("ETag", "")).strip('"')


def _standard_is_empty(storage_class: str) -> str:
    return "" if storage_class == "STANDARD" else storage_class


def _crc32c(answer: _Answer) -> int | None:
    """Return the crc32c of all bytes that S3 keeps; "…-3" is one of three parts' checksums."""
    text = answer.get("ChecksumCRC32C", "")
    if not text or "-" in text or answer.get("ChecksumType") == "COMPOSITE":
        return None
    try:
        return int.from_bytes(b64decode(text, validate=True), "big")
    except NotBase64:
        return None


def _base64(crc32c: int) -> str:
    return b64encode(crc32c.to_bytes(4, "big")).decode()


def _copy_source(bucket: str, stored: Stored) -> dict[str, Any]:
    below = "/object/" if bucket.startswith("arn:") else "/"
    source = {"CopySource": f"{bucket}{below}{quote(stored.key, safe='/~')}"}
    return source | ({"CopySourceIfMatch": f'"{stored.etag}"'} if stored.etag else {})
