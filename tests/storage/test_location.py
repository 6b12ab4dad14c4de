"""``s3://bucket/key`` is read literally."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.errors import OptionError
from dsprep.storage.location import Location, is_s3, parse_url

ARN = "arn:aws:s3:us-west-2:123456789012:accesspoint/mine"


@pytest.mark.parametrize(
    ("text", "bucket", "key"),
    [
        ("s3://bucket", "bucket", ""),
        ("s3://bucket/", "bucket", ""),
        ("S3://bucket/a/b", "bucket", "a/b"),
        ("s3://bucket/a//b/", "bucket", "a//b/"),
        ("s3://my.bucket-1/a b+%20?x#y", "my.bucket-1", "a b+%20?x#y"),
        (f"s3://{ARN}", ARN, ""),
        (f"s3://{ARN}/a/b", ARN, "a/b"),
    ],
)
def test_a_place(text: str, bucket: str, key: str) -> None:
    assert is_s3(text)
    assert parse_url(text) == (bucket, key)


@given(st.text(max_size=200))
def test_any_key_comes_back(key: str) -> None:
    assert parse_url(str(Location("bucket", key))).key == key


@pytest.mark.parametrize(
    "text",
    ["s3://", "s3:///key", "s3:/b/k", "/tmp/s3://b", "s3://b_@/k", "b", "", "s3://a/" + "é" * 600],
)
def test_no_place(text: str) -> None:
    with pytest.raises(OptionError):
        parse_url(text)


@pytest.mark.parametrize("text", ["s3://b/p/t", "s3://ab", "s3://b_@/k"])
def test_the_name_of_a_bucket_has_a_length(text: str) -> None:
    with pytest.raises(OptionError, match="the name of a bucket has 3 to 63 letters"):
        parse_url(text)


def test_a_path_is_no_place() -> None:
    assert not is_s3("data/s3")
    assert not is_s3("s3:data")
