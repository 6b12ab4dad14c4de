"""The servers are there, and are what the other tests take them for."""

from __future__ import annotations

import base64

import google_crc32c
import pytest
from botocore.exceptions import ClientError

from tests.servers.bucket import Bucket


def test_an_object_comes_back(bucket: Bucket) -> None:
    bucket.put("a b+%ü", b"data")
    assert bucket.contents() == {"a b+%ü": b"data"}


def test_a_bucket_is_new(bucket: Bucket) -> None:
    assert bucket.keys() == bucket.uploads() == []


def test_a_wrong_checksum_is_refused_where_checksums_are_stored(bucket: Bucket) -> None:
    right = base64.b64encode(google_crc32c.value(b"data").to_bytes(4, "big")).decode()
    put = {"Bucket": bucket.name, "Key": "a", "Body": b"data"}
    bucket.s3.put_object(**put, ChecksumCRC32C=right)
    told = bucket.s3.head_object(Bucket=bucket.name, Key="a", ChecksumMode="ENABLED")
    assert told.get("ChecksumCRC32C") == (right if bucket.checksums else None)
    if bucket.checksums:
        with pytest.raises(ClientError):
            bucket.s3.put_object(**put, ChecksumCRC32C="AAAAAA==")


def test_one_of_two_creations_wins(bucket: Bucket) -> None:
    bucket.s3.put_object(Bucket=bucket.name, Key="a", Body=b"1", IfNoneMatch="*")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        bucket.s3.put_object(Bucket=bucket.name, Key="a", Body=b"2", IfNoneMatch="*")


def test_rights_are_kept(ceph: Bucket) -> None:
    ceph.put("a", b"1")
    ceph.allow("ListBucket")
    limited = ceph.client("LIMITED")
    assert limited.list_objects_v2(Bucket=ceph.name)["KeyCount"] == 1
    with pytest.raises(ClientError, match="AccessDenied"):
        limited.get_object(Bucket=ceph.name, Key="a")


def test_a_wrong_secret_is_refused(ceph: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Bucket(
        ceph.server, ceph.endpoint, ceph.name, {**ceph.env, "AWS_SECRET_ACCESS_KEY": "x"}
    )
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        wrong.keys()
