"""Where boto3's requests go is read from one of them, or not at all."""

from __future__ import annotations

import pytest

from dsprep.storage.signing import Route, route_of

SIGNED = "AWS4-HMAC-SHA256 Credential=AKIA/20260102/eu-west-1/s3/aws4_request, SignedHeaders=host"


@pytest.mark.parametrize(
    ("url", "key", "route"),
    [
        ("http://127.0.0.1:7480/b/a", "a", Route("http", "127.0.0.1:7480", "/b", "eu-west-1")),
        ("https://b.s3/a%20b/%C3%BC", "a b/ü", Route("https", "b.s3", "", "eu-west-1")),
        ("https://h/s3/b/b/a", "b/a", Route("https", "h", "/s3/b", "eu-west-1")),
    ],
)
def test_a_route(url: str, key: str, route: Route) -> None:
    assert route_of(url, key, SIGNED) == route


@pytest.mark.parametrize(
    ("url", "key", "signed"),
    [
        ("http://h/b/a", "c", SIGNED),
        ("http://h/b/ba", "a", SIGNED),
        ("http://h/b/a?x=1", "a", SIGNED),
        ("http://h/b/a", "a", ""),
        ("http://h/b/a", "a", SIGNED.replace("/s3/", "/s3express/")),
        ("http://h/b/a", "a", SIGNED.replace("HMAC", "ECDSA-P256")),
    ],
)
def test_no_route(url: str, key: str, signed: str) -> None:
    assert route_of(url, key, signed) is None
