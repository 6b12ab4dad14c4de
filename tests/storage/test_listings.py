"""Listings are parsed as botocore does, and nothing else is taken for an empty one."""

from __future__ import annotations

from xml.sax.saxutils import escape

import botocore.parsers
import botocore.session
import pytest

from dsprep.storage.s3.client import Connection, _decoded, _parse_listing
from dsprep.storage.s3.config import S3Config
from dsprep.storage.s3.store import S3Store

KEYS = ("a", "b/c%20d", "%2B+%25", "&<>\"'", "ü" * 200)


def page(namespace: str = "http://s3.amazonaws.com/doc/2006-03-01/") -> bytes:
    entries = "".join(
        f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-02T03:04:05.678Z</LastModified>"
        f"<ETag>&quot;{number:032x}&quot;</ETag><Size>{number * 10**10}</Size>"
        "<Owner><ID>o</ID></Owner><StorageClass>STANDARD_IA</StorageClass></Contents>"
        for number, key in enumerate(KEYS)
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="{namespace}">'
        f"<Name>n</Name><Prefix></Prefix><IsTruncated>true</IsTruncated>{entries}"
        "<CommonPrefixes><Prefix>d%2F</Prefix></CommonPrefixes>"
        "<NextContinuationToken>t&amp;=</NextContinuationToken>"
        "<EncodingType>url</EncodingType></ListBucketResult>"
    ).encode()


@pytest.mark.parametrize("namespace", ["http://s3.amazonaws.com/doc/2006-03-01/", ""])
def test_a_page_is_what_botocore_makes_of_it(namespace: str) -> None:
    model = botocore.session.get_session().get_service_model("s3")
    parser = botocore.parsers.create_parser("rest-xml")
    facts = {"headers": {}, "status_code": 200, "context": {}, "body": page(namespace)}
    theirs = _decoded(parser.parse(facts, model.operation_model("ListObjectsV2").output_shape))
    ours = _decoded(_parse_listing(page(namespace)))
    for name in ("IsTruncated", "NextContinuationToken", "CommonPrefixes"):
        assert ours[name] == theirs[name]
    one, other = (
        [S3Store.parse(entry["Key"], entry, int(entry["Size"])) for entry in found["Contents"]]
        for found in (ours, {**theirs, "Contents": stamped(theirs["Contents"])})
    )
    assert one == other
    assert len(one) == len(KEYS)


def stamped(entries: list[dict[str, object]]) -> list[dict[str, object]]:
    """Entries with their times in seconds, as dsprep has botocore parse them."""
    return [{**entry, "LastModified": entry["LastModified"].timestamp()} for entry in entries]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "is not XML"),
        (page()[:-20], "is not XML"),
        (b"<html><body>Log in</body></html>", "html is not a listing"),
        (b"<Error><Code>x</Code></Error>", "Error is not a listing"),
    ],
)
def test_another_answer_is_not_an_empty_listing(answer: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        _parse_listing(answer)


def test_other_services_are_still_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    connection = Connection("bucket", S3Config(region="us-east-1"))
    for service in ("sts", "sso", "sso-oidc"):  # credentials come from these
        assert connection._session.create_client(service, region_name="us-east-1")
    connection.close()
