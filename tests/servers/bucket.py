"""A bucket of a test's own on one of the servers, and a look into it that dsprep has no part in."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Bucket:
    """An empty bucket.

    Attributes:
        server: ``ceph``, ``ceph_https`` or ``localstack``.
        endpoint: The server's address.
        name: The bucket's name.
        env: What a command needs in its environment to get in.
        checksums: Whether the server stores checksums, and refuses what does not match them.
        guards: Whether it honors conditions when an upload is completed.
    """

    server: str
    endpoint: str
    name: str
    env: dict[str, str] = field(default_factory=dict)
    checksums: bool = False
    guards: bool = False

    @property
    def url(self) -> str:
        """The bucket as the command line has it."""
        return f"s3://{self.name}"

    @property
    def options(self) -> tuple[str, ...]:
        """The options that lead a command there."""
        return ("--endpoint-url", self.endpoint)

    def client(self, access: str | None = None) -> Any:
        """A plain client of AWS's own making."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=self.env["AWS_REGION"],
            aws_access_key_id=access or self.env["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.env["AWS_SECRET_ACCESS_KEY"],
            verify=self.env.get("AWS_CA_BUNDLE"),
            config=Config(
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                s3={"addressing_style": "path"},
                retries={"total_max_attempts": 5, "mode": "standard"},
            ),
        )

    @cached_property
    def s3(self) -> Any:
        """The client of this bucket."""
        return self.client()

    def contents(self, prefix: str = "") -> dict[str, bytes]:
        """Every object below a prefix, by what its key is there."""
        return {
            key.removeprefix(prefix): self.s3.get_object(Bucket=self.name, Key=key)["Body"].read()
            for key in self.keys(prefix)
        }

    def keys(self, prefix: str = "") -> list[str]:
        """Every key."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return [each["Key"] for page in pages for each in page.get("Contents", [])]

    def uploads(self) -> list[tuple[str, str]]:
        """Key and id of every upload that is not finished."""
        pages = self.s3.get_paginator("list_multipart_uploads").paginate(Bucket=self.name)
        return [
            (each["Key"], each["UploadId"]) for page in pages for each in page.get("Uploads", [])
        ]

    def parts(self) -> int:
        """How many parts these have."""
        pages = self.s3.get_paginator("list_parts")
        return sum(
            len(page.get("Parts", []))
            for key, upload in self.uploads()
            for page in pages.paginate(Bucket=self.name, Key=key, UploadId=upload)
        )

    def put(self, key: str, data: bytes = b"") -> None:
        """Put an object there, as others do."""
        self.s3.put_object(Bucket=self.name, Key=key, Body=data)

    def allow(self, *actions: str, keys: str = "*") -> dict[str, str]:
        """Let the user who owns nothing do this and no more; returns that user's environment."""
        statement = {
            "Effect": "Allow",
            "Principal": {"AWS": ["arn:aws:iam:::user/limited"]},
            "Action": [f"s3:{action}" for action in actions],
            "Resource": [f"arn:aws:s3:::{self.name}", f"arn:aws:s3:::{self.name}/{keys}"],
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        self.s3.put_bucket_policy(Bucket=self.name, Policy=policy)
        return {**self.env, "AWS_ACCESS_KEY_ID": "LIMITED"}
