"""Addresses on S3, ``s3://bucket/key``. Nothing in a key is decoded."""

from __future__ import annotations

import re

from dsprep.errors import OptionError
from dsprep.tuples import NamedTuple

SCHEME = "s3://"

LONGEST_KEY = 1024  # bytes of a key in UTF-8 (S3 User Guide, "Naming Amazon S3 objects")

_BUCKET = r"[A-Za-z0-9][A-Za-z0-9._-]{2,254}"  # old ones are longer than 63 characters

# The bucket may be the name of an access point, which holds a slash itself.
_ARN = r"(arn:[^/]+:accesspoint[/:][A-Za-z0-9-]+)(?:/(.*))?"


class Location(NamedTuple):
    """An address on S3."""

    bucket: str  # the bucket, or the ARN of an access point
    key: str  # a key, a prefix of keys, or nothing

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.key}"

    @property
    def prefix(self) -> str:
        """The prefix of all keys below this location."""
        return self.key if not self.key or self.key.endswith("/") else f"{self.key}/"


def is_s3(text: str) -> bool:
    """Return whether a path that the user gave is on S3."""
    return text[: len(SCHEME)].lower() == SCHEME


def parse_url(text: str) -> Location:
    """Parse ``s3://bucket/key``."""
    rest = text[len(SCHEME) :]
    arn = re.fullmatch(_ARN, rest, re.DOTALL)
    bucket, key = (arn[1], arn[2] or "") if arn else rest.partition("/")[::2]
    if not is_s3(text) or not bucket:
        raise OptionError(f"{text!r} is not a place on S3: write it like s3://bucket/prefix")
    if not (arn or re.fullmatch(_BUCKET, bucket)):
        raise OptionError(
            f"{text!r} is not a place on S3: the name of a bucket has 3 to 63 letters, digits, "
            "dots and hyphens"
        )
    if len(key.encode("utf-8", "surrogateescape")) > LONGEST_KEY:
        raise OptionError(f"{text!r:.200}: a key on S3 has at most {LONGEST_KEY:,} bytes")
    return Location(bucket, key)
