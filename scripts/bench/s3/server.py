"""A fresh Ceph for each round: its store is memory, which deleting does not give back at once."""

from __future__ import annotations

import json
import socket
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from tests.servers.start import start_ceph, stop

from ..measure import disowned
from .clients import environment


class Sum(NamedTuple):
    """How much of something there is."""

    number: int
    size: int


class Server:
    """A running server, and a look into it that no client has a part in."""

    def __init__(self, endpoint: str, directory: Path) -> None:
        """Connect to it; its first object, which is slow, is stored."""
        import boto3

        self.env = environment(endpoint)
        (self._socket,) = (directory / "run").glob("osd.*.asok")
        self._s3: Any = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name=self.env["AWS_REGION"],
            aws_access_key_id=self.env["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.env["AWS_SECRET_ACCESS_KEY"],
        )
        self._s3.put_object(Bucket=self.new_bucket(), Key="first", Body=b"first")

    def new_bucket(self) -> str:
        """Make a bucket; returns its name."""
        name = f"bench-{uuid4().hex[:12]}"
        self._s3.create_bucket(Bucket=name)
        return name

    def received(self) -> int:
        """Bytes that have been stored so far, in all buckets, whatever has become of them."""
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(self._socket))
            asking.sendall(b'{"prefix": "perf dump", "logger": "osd"}\0')
            with asking.makefile("rb") as answer:
                (size,) = struct.unpack(">I", answer.read(4))
                return int(json.loads(answer.read(size))["osd"]["op_in_bytes"])

    def objects(self, bucket: str) -> Sum:
        """All objects of a bucket."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        sizes = [each["Size"] for page in pages for each in page.get("Contents", [])]
        return Sum(len(sizes), sum(sizes))

    def uploads(self, bucket: str) -> Sum:
        """The uploads of a bucket that are not finished, and the bytes that are kept for them."""
        pages = self._s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket)
        found = [each for page in pages for each in page.get("Uploads", [])]
        parts = self._s3.get_paginator("list_parts")
        return Sum(
            len(found),
            sum(
                part["Size"]
                for each in found
                for page in parts.paginate(
                    Bucket=bucket, Key=each["Key"], UploadId=each["UploadId"]
                )
                for part in page.get("Parts", [])
            ),
        )


@contextmanager
def fresh_server() -> Iterator[Server]:
    """Start a server, and stop it in the end."""
    with tempfile.TemporaryDirectory(prefix="ceph-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        try:
            # Its processes are not ours: their time is not that of a client.
            with disowned():
                facts = start_ceph(directory)
            yield Server(facts["http"], directory)
        finally:
            stop(directory)
