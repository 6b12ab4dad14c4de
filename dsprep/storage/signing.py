"""How requests to S3 are signed: AWS Signature Version 4, and where they go.

The source is the Amazon S3 API Reference, "Authenticating Requests (AWS Signature Version 4)".
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote, urlsplit

UNSIGNED = "UNSIGNED-PAYLOAD"
"""Stands for the SHA-256 of a body that is not signed."""


class Keys(NamedTuple):
    """Credentials as they are now."""

    access: str
    secret: str
    token: str | None


class Route(NamedTuple):
    """Where a bucket's requests go."""

    scheme: str  # `http` or `https`
    host: str  # with its port, if that is not the usual one
    path: str  # what comes before the key
    region: str  # the region that requests are signed for

    def path_of(self, key: str) -> str:
        """The path of an object."""
        return f"{self.path}/{quote(key, safe='/~')}"


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


class Signer:
    """Signs requests; several threads may let it do so at once."""

    def __init__(self, route: Route, keys: Callable[[], Keys]) -> None:
        """Sign for a route."""
        self._route, self._keys = route, keys
        self._key: tuple[str, str, bytes] = ("", "", b"")

    def signed(self, method: str, path: str, headers: dict[str, str]) -> dict[str, str]:
        """All headers of a request that has these, names in lower case, and no query."""
        keys = self._keys()
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        headers |= {"host": self._route.host, "x-amz-date": now, "x-amz-content-sha256": UNSIGNED}
        if keys.token:
            headers["x-amz-security-token"] = keys.token
        names = sorted(headers)
        lines = [f"{name}:{' '.join(headers[name].split())}" for name in names]
        request = "\n".join([method, path, "", *lines, "", ";".join(names), UNSIGNED])
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
