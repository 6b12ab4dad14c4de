"""Requests to S3: built, signed and sent, and their answers parsed.

botocore's own client spends 2 ms of processor time on a request, its signer on urllib3's pool 1 ms:
thousands of small files make both noticeable. So only botocore's serializer, parser and connections
are used here, in 0.6 ms. Payloads are not signed, as this would hash all bytes again: checksums of
our own protect them.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import os
import re
import socket
import ssl
import threading
import time
import weakref
from base64 import b64encode
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cache, partial
from typing import Any
from urllib.parse import parse_qsl, quote, unquote_plus, urlsplit
from xml.etree.ElementTree import XML, Element

from dsprep.storage.s3.config import S3Config, require_endpoint
from dsprep.storage.stored import Progress
from dsprep.tuples import NamedTuple

Data = bytes | bytearray | memoryview
_Headers = dict[str, str]

_CONNECT_TIMEOUT = 20.0  # seconds; also for each piece of a body
SMALL = 1 << 20  # bytes that are sent without asking first whether the server accepts them
# Bytes handed to the socket at once: a stop, a limit and a stall are noticed between two.
_AT_ONCE = 256 * 1024
# Operations that may answer 200 and then report an error in the body.
_LATE = ("CompleteMultipartUpload", "CopyObject", "UploadPartCopy")
# Acknowledges the headers of an answer at once, on Linux. Some servers, such as Ceph, send the
# body only then, and the system would wait for 40 ms.
_QUICKACK = getattr(socket, "TCP_QUICKACK", None)
_UNSIGNED = "UNSIGNED-PAYLOAD"


class _Route(NamedTuple):
    """Where the requests of a bucket go."""

    host: str  # with its port, if that is not the usual one
    path: str  # what comes before the slash of a key
    region: str  # the region of signatures; empty if requests are not signed
    connect: Callable[..., Any]  # makes a connection
    # False if botocore's client has to send requests: behind a proxy, or with another signature
    plain: bool


class _Routed(Exception):
    """Carries a request out of botocore before it is sent."""


class Body:
    """Bytes in memory as the body of a request: sent without a copy, and reported on the way."""

    def __init__(self, data: Data, progress: Progress) -> None:
        self._view, self._progress, self._at = memoryview(data), progress, 0

    def __len__(self) -> int:
        return len(self._view)

    def read(self, size: int = -1) -> memoryview:
        """Return the next piece, which may be larger than asked for."""
        piece = self._view[self._at : self._at + max(size, _AT_ONCE)]
        if piece:
            self._progress(len(piece))
        self._at += len(piece)
        return piece

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, len(self._view))[whence]
        return self._at

    def tell(self) -> int:
        return self._at


@cache
def _models(data_path: str | None) -> Any:
    """Return botocore's descriptions of services, which all connections of a process share.

    To read them again takes most of the time in which a connection is made.
    """
    from botocore.loaders import create_loader

    loader = create_loader(data_path)
    # It would look twice into the directory of each of 400 services: a tenth of a short run.
    places = filter(os.path.isdir, loader.search_paths)
    services = [name for place in places for name in os.listdir(place)]
    loader.list_available_services = lambda _: services
    return loader


class Connection:
    """Sends requests for one bucket; several threads may do so at once."""

    def __init__(self, bucket: str, config: S3Config) -> None:
        import botocore.session
        from botocore import UNSIGNED
        from botocore.config import Config
        from botocore.serialize import create_serializer

        for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
            if not config.endpoint and os.environ.get(name):
                require_endpoint(name, os.environ[name])
        self._bucket, self._config = bucket, config
        self._session = botocore.session.Session(profile=config.profile)
        data_path = self._session.get_config_variable("data_path")
        self._session.register_component("data_loader", _models(data_path))
        parsers = self._session.get_component("response_parser_factory")
        # botocore's own parser of times takes as long as the rest of a listing's entry.
        parsers.set_parser_defaults(timestamp_parser=seconds)
        self._options = Config(
            connect_timeout=min(_CONNECT_TIMEOUT, config.read_timeout),
            read_timeout=config.read_timeout,
            max_pool_connections=config.connections,
            retries={"total_max_attempts": 1, "mode": "standard"},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            tcp_keepalive=True,
            s3={
                "payload_signing_enabled": False,
                **({"addressing_style": "path"} if config.path_style else {}),
            },
            **({} if config.sign else {"signature_version": UNSIGNED}),
        )
        self._client = self._make_client(config.region or os.environ.get("AWS_REGION") or None)
        require_endpoint("endpoint_url in AWS's files", self._client.meta.endpoint_url)
        self._model = self._client.meta.service_model
        self._serializer = create_serializer("rest-xml", include_validation=False)
        self._parser = parsers.create_parser("rest-xml")
        self._idle: deque[Any] = deque()
        # Callers may leave that to Python, which would warn of each open socket.
        weakref.finalize(self, _close_all, self._idle)
        self._closed = False
        self._route: _Route | None = None
        self._routing = threading.Lock()

    def close(self) -> None:
        self._closed = True
        self._client.close()
        _close_all(self._idle)

    def send(self, operation: str, **args: Any) -> dict[str, Any]:
        """Send one request; raise botocore's `ClientError` if the server refuses it."""
        from botocore.exceptions import ClientError

        with self._routing:
            route = self._route = self._route or self._find_route()
        if not route.plain:
            method = re.sub(r"(?<!^)(?=[A-Z])", "_", operation).lower()
            return _decoded(getattr(self._client, method)(Bucket=self._bucket, **args))
        model = self._model.operation_model(operation)
        made = self._serializer.serialize_to_request({"Bucket": "-", **args}, model)
        path, _, query = made["url_path"].removeprefix("/-").partition("?")
        pairs = [*parse_qsl(query, keep_blank_values=True), *made["query_string"].items()]
        query = "&".join(sorted(f"{name}={quote(str(text), safe='-_.~')}" for name, text in pairs))
        headers = {name.lower(): str(text) for name, text in made["headers"].items()}
        body = made["body"] or b""
        if operation == "DeleteObjects":  # DeleteObjects needs a checksum; all servers know MD5
            digest = hashlib.md5(body, usedforsecurity=False).digest()
            headers["content-md5"] = b64encode(digest).decode()
        headers["host"] = route.host
        target = route.path + path or "/"
        if route.region:
            self._sign(route.region, model.http["method"], target, query, headers)
        target += f"?{query}" if query else ""
        found = self._exchange(route, model.http["method"], target, headers, body)
        status, body = found.response.status, found
        if status >= 300 or not model.has_streaming_output:
            try:
                body = found.read()
            finally:
                found.close()
            if operation in _LATE and status == 200 and b"<Error>" in body[:200]:
                status = 500
        if operation == "ListObjectsV2" and isinstance(body, bytes) and status == 200:
            return _decoded(_parse_listing(body))
        # The parser spells names as S3's documentation does; a dict is quicker than HTTPMessage.
        fields = {name.lower(): text for name, text in found.response.getheaders()}
        fields |= {name.title(): text for name, text in fields.items() if name[:2] != "x-"}
        fields["ETag"] = fields.get("etag", "")
        facts = {"headers": fields, "status_code": status, "context": {}, "body": body}
        answer = self._parser.parse(facts, model.output_shape)
        if status >= 300:
            raise ClientError(answer, operation)
        return _decoded(answer)

    def _sign(self, region: str, method: str, path: str, query: str, headers: _Headers) -> None:
        """Sign a request with AWS Signature Version 4 (Amazon S3 API Reference)."""
        # botocore's signer takes four times as long: thousands of small files make it noticeable.
        keys = self._session.get_credentials().get_frozen_credentials()
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        headers |= {"x-amz-date": now, "x-amz-content-sha256": _UNSIGNED}
        if keys.token:
            headers["x-amz-security-token"] = keys.token
        names = sorted(headers)
        lines = [f"{name}:{' '.join(headers[name].split())}" for name in names]
        request = "\n".join([method, path, query, *lines, "", ";".join(names), _UNSIGNED])
        scope = f"{now[:8]}/{region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        digest = b"AWS4" + keys.secret_key.encode()
        for link in (*scope.split("/"), text):  # each signature is the key of the next one
            digest = hmac.digest(digest, link.encode(), "sha256")
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={keys.access_key}/{scope}, "
            f"SignedHeaders={';'.join(names)}, "
            f"Signature={digest.hex()}"
        )

    def _exchange(
        self, route: _Route, method: str, target: str, headers: _Headers, body: bytes | Body
    ) -> _Response:
        """Send a request and wait for the headers of the answer."""
        values = {name: text.encode() for name, text in headers.items()}
        values["content-length"] = str(len(body)).encode()
        if isinstance(body, Body):
            values["Expect"] = b"100-continue"
        # The server may have closed an idle connection. What does no harm twice goes to another.
        harmless = method in ("GET", "PUT") and isinstance(body, bytes)
        while True:
            used = None
            with suppress(IndexError):  # no connection is idle
                used = self._idle.pop()
            connection = used or self._connect(route)
            try:
                connection.request(method, target, body=body or None, headers=values)
                connection.sock.settimeout(self._options.read_timeout)
                if _QUICKACK is not None:
                    connection.sock.setsockopt(socket.IPPROTO_TCP, _QUICKACK, 1)
                response = http.client.HTTPConnection.getresponse(connection)
                return _Response(response, connection, self._free)
            except BaseException as error:
                connection.close()
                lost = isinstance(error, OSError | http.client.HTTPException)
                if not (used and lost and harmless) or isinstance(error, TimeoutError):
                    raise

    def _connect(self, route: _Route) -> Any:
        made = route.connect(route.host, timeout=self._options.connect_timeout)
        made.connect()
        return made

    def _free(self, connection: Any) -> None:
        """Keep a connection for the next request."""
        if self._closed or len(self._idle) >= self._config.connections:
            connection.close()
        else:
            self._idle.append(connection)

    def follows(self, error: Exception) -> bool:
        """Sign for another region from now on, if an error says that the bucket is there."""
        answer = getattr(error, "response", {})
        if not isinstance(answer, dict):
            return False
        about = answer.get("ResponseMetadata", {})
        headers = about.get("HTTPHeaders", {})
        region = headers.get("x-amz-bucket-region") or answer.get("Error", {}).get("Region")
        moved = about.get("HTTPStatusCode") in (301, 307, 400)
        with self._routing:
            if not moved or not region or not self._route or region == self._route.region:
                return False
            self._client, self._route = self._make_client(region), None
        return True

    def _make_client(self, region: str | None) -> Any:
        return self._session.create_client(
            "s3", region_name=region, endpoint_url=self._config.endpoint, config=self._options
        )

    def _find_route(self) -> _Route:
        """Let botocore make a request, and see where it would go and how it is signed."""
        # These classes of botocore wait for "100 Continue" before a large body.
        from botocore.awsrequest import AWSHTTPConnection, AWSHTTPSConnection
        from botocore.httpsession import get_cert_path
        from botocore.utils import get_environ_proxies

        def stop(request: Any, **_: Any) -> None:
            raise _Routed(request.url, request.headers.get("Authorization", ""))

        self._client.meta.events.register_first("before-send.s3.HeadBucket", stop)
        try:
            self._client.head_bucket(Bucket=self._bucket)
        except _Routed as routed:
            url, signed = routed.args
        finally:
            self._client.meta.events.unregister("before-send.s3.HeadBucket", stop)
        signed = signed.decode() if isinstance(signed, bytes) else signed
        scope = signed.partition("Credential=")[2].partition(",")[0].split("/")
        parts = urlsplit(url)
        usual = signed.startswith("AWS4-HMAC-SHA256 ") and scope[3:4] == ["s3"]
        options: dict[str, Any] = {
            "socket_options": [
                (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
                (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            ]
        }
        if parts.scheme != "http":
            trusted = (
                self._session.get_config_variable("ca_bundle")
                or os.environ.get("REQUESTS_CA_BUNDLE")
                or get_cert_path(True)
            )
            options["ssl_context"] = ssl.create_default_context(cafile=trusted)
        kind = AWSHTTPConnection if parts.scheme == "http" else AWSHTTPSConnection
        plain = (usual or not self._config.sign) and not get_environ_proxies(url)
        path, region = parts.path.rstrip("/"), scope[2] if usual else ""
        return _Route(parts.netloc, path, region, partial(kind, **options), plain)


def _close_all(idle: deque[Any]) -> None:
    """Close connections that no request uses."""
    with suppress(IndexError):
        while True:
            idle.pop().close()


class _Response:
    """An answer; its connection is used again if its body has been read to the end."""

    def __init__(
        self, response: http.client.HTTPResponse, connection: Any, free: Callable[[Any], None]
    ) -> None:
        self.response, self._connection, self._free = response, connection, free

    def read(self, size: int | None = None) -> bytes:
        return self.response.read(size)

    def readinto(self, buffer: memoryview) -> int:
        return self.response.readinto(buffer)

    def close(self) -> None:
        is_read = self.response.isclosed() or self.response.length == 0
        self.response.close()
        connection, self._connection = self._connection, None
        if connection is not None and is_read and not self.response.will_close:
            self._free(connection)
        elif connection is not None:
            connection.close()


def _parse_listing(body: bytes) -> dict[str, Any]:
    """Return a listing as botocore's parser does, which takes five times as long."""
    answer: dict[str, Any] = {"Contents": [], "CommonPrefixes": []}
    try:
        root = XML(body)
    except SyntaxError as error:
        raise ValueError(f"it is not XML ({error})") from None
    if _tag(root) != "ListBucketResult":
        raise ValueError(f"{_tag(root)} is not a listing")
    for entry in root:
        name = _tag(entry)
        if name in ("Contents", "CommonPrefixes"):
            answer[name].append({_tag(field): field.text or "" for field in entry})
        else:
            answer[name] = entry.text or ""
    answer["IsTruncated"] = answer.get("IsTruncated") == "true"
    return answer


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _decoded(answer: dict[str, Any]) -> dict[str, Any]:
    """Decode the keys of a listing, which are encoded because XML cannot hold all characters."""
    if answer.get("EncodingType") == "url":
        for entries, name in (("Contents", "Key"), ("CommonPrefixes", "Prefix")):
            for entry in answer.get(entries, ()):
                entry[name] = unquote_plus(entry[name])
    return answer


def seconds(text: str | float) -> float:
    """Return a time in any of S3's spellings as seconds since 1970."""
    if not isinstance(text, str):
        return float(text)
    if text[:1].isdigit():
        return datetime.fromisoformat(text).timestamp()
    return parsedate_to_datetime(text).timestamp()
