"""Options of S3 as plain values: connection, properties of new objects, retries."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from dsprep.errors import OptionError
from dsprep.frozen import Frozen
from dsprep.progress import WAITS
from dsprep.units import format_duration

_NOTICEABLE = 1.0  # seconds of waiting that a user may wonder about


class S3Config(Frozen):
    """Options for S3. What is not given here comes from the environment and AWS's files."""

    profile: str | None = None  # the profile of the credentials
    region: str | None = None  # the bucket's region
    endpoint: str | None = None  # the server's address, if it is not AWS
    # whether the bucket's name goes into the path rather than the host name
    path_style: bool = False
    sign: bool = True  # whether requests are signed; unsigned ones reach only public objects
    request_payer: bool = False  # whether the requester pays
    sse: str = ""  # encryption by the server: `AES256`, `aws:kms` or `aws:kms:dsse`
    kms_key: str = ""  # the KMS key to encrypt with
    acl: str = ""  # a canned ACL, such as `bucket-owner-full-control`
    storage_class: str = ""  # a storage class of S3, such as `STANDARD_IA`
    tags: Mapping[str, str] = field(default_factory=dict)  # tags of each object that is stored
    # metadata of each object that is stored
    metadata: Mapping[str, str] = field(default_factory=dict)
    connections: int = 32  # maximum number of idle connections
    # seconds of silence after which a request is broken off and tried again
    read_timeout: float = 60.0

    def to_create(self, metadata: Mapping[str, str]) -> dict[str, Any]:
        """Return the arguments of a request that creates an object, such as PutObject."""
        values = {
            "ServerSideEncryption": self.sse or ("aws:kms" if self.kms_key else ""),
            "SSEKMSKeyId": self.kms_key,
            "ACL": self.acl,
            "StorageClass": self.storage_class,
            "Tagging": urlencode(self.tags, quote_via=quote),
            "Metadata": {**self.metadata, **metadata},
        }
        return {name: value for name, value in values.items() if value}


def require_endpoint(name: str, url: str) -> None:
    """Refuse what is not the address of a server, without its password."""
    shown = re.sub("(?<=//).*@", "***@", url)
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # the port is not a number
        is_one = False
    if not is_one:
        raise OptionError(
            f"{name} {shown}: is no endpoint; write it as http://HOST:PORT or https://HOST"
        )
    if "@" in url:
        raise OptionError(
            f"{name} {shown}: holds a user name or a password, which servers of S3 do not take; "
            "remove it, and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        )


class Retries(Frozen):
    """Longer and longer random waits, so that many clients do not come back at once."""

    attempts: int = 8  # maximum number of attempts
    first: float = 0.25  # maximum of the first wait in seconds, doubled for each of the next
    longest: float = 20.0  # maximum of any wait in seconds

    def delay(self, failed: int) -> float:
        return random.uniform(0, min(self.longest, self.first * 2 ** (failed - 1)))


def retry_line(error: str, seconds: float) -> str:
    """Return what to say about a request that failed and is made again after some seconds."""
    return f"{error.partition('; it was tried ')[0]}; trying again in {format_duration(seconds)}"


def tell_retry(event: str, **facts: Any) -> None:
    """Report a retry if the wait before it is noticeable."""
    if event == "retry" and facts["seconds"] >= _NOTICEABLE:
        WAITS.tell(retry_line(facts["error"], facts["seconds"]))
