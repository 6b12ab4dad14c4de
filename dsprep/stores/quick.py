"""PutObject for small objects, without the machinery of boto3, which takes 2 ms of every request.

Where requests go, and for which region they are signed, is taken from one that boto3 has made. Only
success is understood here: whatever else happens, boto3 makes the request again and explains it.
The signature is AWS Signature Version 4 (Amazon S3 API Reference, "Authenticating Requests").
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

_HEADERS = {
    "ACL": "x-amz-acl",
    "ChecksumCRC32C": "x-amz-checksum-crc32c",
    "ContentMD5": "content-md5",
    "RequestPayer": "x-amz-request-payer",
    "ServerSideEncryption": "x-amz-server-side-encryption",
    "SSEKMSKeyId": "x-amz-server-side-encryption-aws-kms-key-id",
    "StorageClass": "x-amz-storage-class",
    "Tagging": "x-amz-tagging",
}
_ANSWERS = {
    "ChecksumCRC32C": "x-amz-checksum-crc32c",
    "ChecksumType": "x-amz-checksum-type",
    "ETag": "etag",
    "ServerSideEncryption": "x-amz-server-side-encryption",
    "SSEKMSKeyId": "x-amz-server-side-encryption-aws-kms-key-id",
}
_UNSIGNED = "UNSIGNED-PAYLOAD"


class Keys(NamedTuple):
    """Credentials as they are now."""

    access: str
    secret: str
    token: str | None


class Route(NamedTuple):
    """Where a bucket's requests go.

    Attributes:
        scheme: ``http`` or ``https``.
        host: With its port, if that is not the usual one.
        path: What comes before the key.
        region: The region that requests are signed for.
    """

    scheme: str
    host: str
    path: str
    region: str


def route_of(url: str, key: str, authorization: str) -> Route | None:
    """The route of a request that boto3 has made; None if it is not one that can be followed."""
    parts = urlsplit(url)
    tail = "/" + quote(key, safe="/~")
    scope = authorization.partition("Credential=")[2].partition(",")[0].split("/")
    if not authorization.startswith("AWS4-HMAC-SHA256 ") or not parts.path.endswith(tail):
        return None
    if parts.query or len(scope) != 5 or scope[3] != "s3":
        return None
    return Route(parts.scheme, parts.netloc, parts.path[: -len(tail)], scope[2])


class QuickPut:
    """Puts small objects; several threads may do so at once, each with a connection of its own."""

    def __init__(
        self, route: Route, keys: Callable[[], Keys], tls: ssl.SSLContext | None, timeout: float
    ) -> None:
        """Follow a route.

        Args:
            route: The route.
            keys: Gives the credentials.
            tls: How servers are trusted, for https.
            timeout: Seconds of silence after which a request is given up.
        """
        self._route, self._keys, self._tls, self._timeout = route, keys, tls, timeout
        self._threads = threading.local()
        self._key: tuple[str, str, bytes] = ("", "", b"")

    def put(self, key: str, body: bytes, args: Mapping[str, Any]) -> dict[str, str] | None:
        """Put an object.

        Args:
            key: The object.
            body: Its bytes.
            args: Those of boto3's ``put_object``.

        Returns:
            The answer as boto3 gives it; None if boto3 is to try.
        """
        headers = {
            f"x-amz-meta-{name.lower()}": text for name, text in args.get("Metadata", {}).items()
        }
        headers |= {_HEADERS[name]: args[name] for name in args if name in _HEADERS}
        if args.keys() - _HEADERS.keys() - {"Body", "Key", "Metadata"}:
            return None  # conditions, say: whether they held is not known if the answer is lost
        if not all(text.isascii() and text.isprintable() for text in headers.values()):
            return None
        try:
            return self._put(self._route.path + "/" + quote(key, safe="/~"), body, headers)
        except (OSError, http.client.HTTPException):
            self._drop()
            return None

    def _put(self, path: str, body: bytes, headers: dict[str, str]) -> dict[str, str] | None:
        connection = self._connection()
        connection.putrequest("PUT", path, skip_host=True, skip_accept_encoding=True)
        for name, text in self._signed(path, headers).items():
            connection.putheader(name, text)
        connection.putheader("content-length", str(len(body)))
        connection.endheaders()
        connection.send(body)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            self._drop()
            return None
        found = {name: answer.headers.get(header) for name, header in _ANSWERS.items()}
        return {name: text for name, text in found.items() if text is not None}

    def _signed(self, path: str, headers: dict[str, str]) -> dict[str, str]:
        keys = self._keys()
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        headers |= {"host": self._route.host, "x-amz-date": now, "x-amz-content-sha256": _UNSIGNED}
        if keys.token:
            headers["x-amz-security-token"] = keys.token
        names = sorted(headers)
        lines = [f"{name}:{' '.join(headers[name].split())}" for name in names]
        request = "\n".join(["PUT", path, "", *lines, "", ";".join(names), _UNSIGNED])
        scope = f"{now[:8]}/{self._route.region}/s3/aws4_request"
        digest = hashlib.sha256(request.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{digest}"
        signature = hmac.digest(self._signing_key(keys.secret, now[:8]), text.encode(), "sha256")
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={keys.access}/{scope}, SignedHeaders={';'.join(names)}, "
            f"Signature={signature.hex()}"
        )
        return headers

    def _signing_key(self, secret: str, day: str) -> bytes:
        known = self._key
        if known[:2] != (secret, day):
            key = b"AWS4" + secret.encode()
            for text in (day, self._route.region, "s3", "aws4_request"):
                key = hmac.digest(key, text.encode(), "sha256")
            self._key = known = (secret, day, key)
        return known[2]

    def _connection(self) -> http.client.HTTPConnection:
        held: http.client.HTTPConnection | None = getattr(self._threads, "connection", None)
        if held is not None:
            return held
        host, limit = self._route.host, self._timeout
        if self._route.scheme == "https":
            held = http.client.HTTPSConnection(host, timeout=limit, context=self._tls)
        else:
            held = http.client.HTTPConnection(host, timeout=limit)
        held.connect()
        held.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._threads.connection = held
        return held

    def _drop(self) -> None:
        held: http.client.HTTPConnection | None = getattr(self._threads, "connection", None)
        if held is not None:
            held.close()
            del self._threads.connection
