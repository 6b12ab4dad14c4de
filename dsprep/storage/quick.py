"""PutObject and GetObject without the machinery of boto3, which takes 2 ms of every request.

Where requests go, and for which region they are signed, is taken from one that boto3 has made. Only
success is understood here, and that a server is busy. Whatever else it answers, boto3 makes the
request again and explains it; so it does where a connection may have been closed since it was used.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from dsprep.storage.s3_errors import TRANSIENT_STATUS
from dsprep.storage.signing import Keys, Route, Signer

_PUT = {
    "ACL": "x-amz-acl",
    "ChecksumCRC32C": "x-amz-checksum-crc32c",
    "ContentMD5": "content-md5",
    "RequestPayer": "x-amz-request-payer",
    "ServerSideEncryption": "x-amz-server-side-encryption",
    "SSEKMSKeyId": "x-amz-server-side-encryption-aws-kms-key-id",
    "StorageClass": "x-amz-storage-class",
    "Tagging": "x-amz-tagging",
}
_GET = {
    "ChecksumMode": "x-amz-checksum-mode",
    "IfMatch": "if-match",
    "Range": "range",
    "RequestPayer": "x-amz-request-payer",
}
_ANSWERS = {
    "cache-control": "CacheControl",
    "content-disposition": "ContentDisposition",
    "content-encoding": "ContentEncoding",
    "content-language": "ContentLanguage",
    "content-length": "ContentLength",
    "content-range": "ContentRange",
    "content-type": "ContentType",
    "etag": "ETag",
    "last-modified": "LastModified",
    "x-amz-checksum-type": "ChecksumType",
    "x-amz-server-side-encryption": "ServerSideEncryption",
    "x-amz-server-side-encryption-aws-kms-key-id": "SSEKMSKeyId",
    "x-amz-storage-class": "StorageClass",
}
_CHECKSUM, _METADATA = "x-amz-checksum-", "x-amz-meta-"

_QUICKACK = getattr(socket, "TCP_QUICKACK", None)
"""Has the headers of an answer acknowledged at once, where the system can (Linux): some servers, as
Ceph's, send the body only then, and the system would wait for 40 ms."""

_Connection = http.client.HTTPConnection


class Unavailable(Exception):
    """The server cannot do now what it was asked."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        """Take its answer, whose body is not read."""
        super().__init__(answer.reason)
        self.response = {
            "Error": {"Message": answer.reason},
            "ResponseMetadata": {
                "HTTPStatusCode": answer.status,
                "RequestId": answer.getheader("x-amz-request-id", ""),
            },
        }


class Quick:
    """Puts and gets objects; several threads may do so at once, each on a connection of its own."""

    def __init__(
        self, route: Route, keys: Callable[[], Keys], tls: ssl.SSLContext | None, timeout: float
    ) -> None:
        """Follow a route."""
        self._route, self._tls, self._timeout = route, tls, timeout
        self._signer = Signer(route, keys)
        self._idle: list[_Connection] = []
        self._closed = False

    def put(self, key: str, body: bytes, args: Mapping[str, Any]) -> dict[str, Any] | None:
        """Put an object."""
        if args.keys() - _PUT.keys() - {"Body", "Key", "Metadata"}:
            return None  # conditions, say: whether they held is not known if the answer is lost
        headers = {_PUT[name]: args[name] for name in args if name in _PUT}
        for name, text in args.get("Metadata", {}).items():
            headers[_METADATA + name.lower()] = text
        answer = self._request("PUT", key, headers, body)
        return answer.told if answer is not None and answer.read_up() else None

    def get(self, key: str, args: Mapping[str, Any]) -> dict[str, Any] | None:
        """Get an object, or a range of it."""
        if args.keys() - _GET.keys() - {"Key"}:
            return None
        headers = {_GET[name]: args[name] for name in args if name in _GET}
        answer = self._request("GET", key, headers)
        return None if answer is None else {**answer.told, "Body": answer}

    def close(self) -> None:
        """Let go of the connections, of those in use when they are free."""
        self._closed = True
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _free(self, connection: _Connection) -> None:
        """Take a connection back that can be used again."""
        self._idle.append(connection)
        if self._closed:
            self.close()

    def _request(
        self, method: str, key: str, headers: dict[str, str], body: bytes | None = None
    ) -> _Answer | None:
        if not all(text.isascii() and text.isprintable() for text in headers.values()):
            return None
        path = self._route.path_of(key)
        signed = self._signer.signed(method, path, headers)
        used = self._used()
        connection = used or self._connected()
        if connection is None:
            return None
        try:
            response = _exchange(connection, method, path, signed, body)
        except (OSError, http.client.HTTPException):
            connection.close()
            if used is None:
                raise
            return None
        if response.status in (200, 206) and response.length is not None:
            return _Answer(response, connection, self._free)
        connection.close()
        if response.status in TRANSIENT_STATUS:
            raise Unavailable(response)
        return None

    def _used(self) -> _Connection | None:
        """A connection that was used before, if one is free."""
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _connected(self) -> _Connection | None:
        """A new connection; None if there is none, for a reason that boto3 knows to tell."""
        host, limit = self._route.host, self._timeout
        made = (
            http.client.HTTPSConnection(host, timeout=limit, context=self._tls)
            if self._route.scheme == "https"
            else _Connection(host, timeout=limit)
        )
        try:
            made.connect()
        except OSError as error:
            made.close()
            if isinstance(error, TimeoutError):
                raise
            return None
        made.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made


def _exchange(
    connection: _Connection, method: str, path: str, headers: dict[str, str], body: bytes | None
) -> http.client.HTTPResponse:
    """Send a request, and wait for the headers of its answer."""
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, text in headers.items():
        connection.putheader(name, text)
    if body is not None:
        connection.putheader("content-length", str(len(body)))
    connection.endheaders(body)
    if _QUICKACK is not None:
        connection.sock.setsockopt(socket.IPPROTO_TCP, _QUICKACK, 1)
    return connection.getresponse()


class _Answer:
    """A success, and its body on its way."""

    def __init__(
        self,
        response: http.client.HTTPResponse,
        connection: _Connection,
        free: Callable[[_Connection], None],
    ) -> None:
        """Take it from a connection, which is free when all has been read."""
        self._response, self._connection, self._free = response, connection, free
        self.told = _told(response)

    def read(self, size: int) -> bytes:
        """The next bytes; fewer only at the end."""
        return self._response.read(size)

    def read_up(self) -> bool:
        """Read what there is, and close; returns whether it came."""
        try:
            self._response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return False
        self.close()
        return True

    def close(self) -> None:
        """Let go of the connection."""
        if self._response.length == 0 and not self._response.will_close:
            self._response.close()
            self._free(self._connection)
        else:
            self._response.close()
            self._connection.close()


def _told(response: http.client.HTTPResponse) -> dict[str, Any]:
    told: dict[str, Any] = {}
    metadata = {}
    for name, text in response.headers.items():
        name = name.lower()
        if name in _ANSWERS:
            told[_ANSWERS[name]] = text
        elif name.startswith(_CHECKSUM):
            told["Checksum" + name[len(_CHECKSUM) :].upper()] = text
        elif name.startswith(_METADATA):
            metadata[name[len(_METADATA) :]] = text
    return told | ({"Metadata": metadata} if metadata else {})
