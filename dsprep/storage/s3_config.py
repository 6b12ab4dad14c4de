"""How to reach S3, and how what is stored there is to be kept: options as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from dsprep.errors import OptionError


@dataclass(frozen=True)
class S3Config:
    """What a user says about S3. What is not said here comes from the environment and AWS's files.

    Attributes:
        profile: The profile of the credentials.
        region: The bucket's region.
        endpoint: The server's address, if it is not AWS.
        path_style: Whether the bucket's name goes into the path rather than the host name.
        sign: Whether requests are signed; else only what is public can be reached.
        request_payer: Whether the one who asks pays.
        sse: Encryption by the server: ``AES256``, ``aws:kms`` or ``aws:kms:dsse``.
        kms_key: The KMS key to encrypt with.
        acl: A canned ACL, such as ``bucket-owner-full-control``.
        storage_class: Such as ``STANDARD_IA``.
        tags: Tags of each object that is stored.
        metadata: Metadata of each object that is stored.
        connections: How many there may be at once.
        read_timeout: Seconds of silence after which a request is broken off and tried again.
    """

    profile: str | None = None
    region: str | None = None
    endpoint: str | None = None
    path_style: bool = False
    sign: bool = True
    request_payer: bool = False
    sse: str = ""
    kms_key: str = ""
    acl: str = ""
    storage_class: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    connections: int = 32
    read_timeout: float = 60.0

    def to_create(self, metadata: Mapping[str, str]) -> dict[str, Any]:
        """The arguments of a request that creates an object (PutObject and its like)."""
        kms = self.sse or ("aws:kms" if self.kms_key else "")
        values = {
            "ServerSideEncryption": kms,
            "SSEKMSKeyId": self.kms_key,
            "ACL": self.acl,
            "StorageClass": self.storage_class,
            "Tagging": urlencode(self.tags, quote_via=quote),
            "Metadata": {**self.metadata, **metadata},
        }
        return {name: value for name, value in values.items() if value}

    def to_all(self) -> dict[str, Any]:
        """The arguments of every request."""
        return {"RequestPayer": "requester"} if self.request_payer else {}


def require_endpoint(name: str, url: str) -> None:
    """Accept the address of a server."""
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # not a port
        is_one = False
    if not is_one:
        raise OptionError(
            f"{name} {url}: is no endpoint; write it as http://HOST:PORT or https://HOST"
        )
