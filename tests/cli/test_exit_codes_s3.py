"""One cause, one exit code: what is read on S3 is a source, what is written a destination."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

import dsprep
from dsprep.storage.s3.config import Retries
from tests.conftest import Finished
from tests.images import image_folder
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy

READ = {
    "pack": ("pack", "{url}", "{out}", "--format", "webdataset"),
    "convert": ("convert", "{url}/a.tar", "{out}", "--to", "tfrecord"),
    "shard": ("shard", "{url}", "{out}", "--shards", "2", "--to", "webdataset"),
    "verify": ("verify", "{url}"),
    "verify-shard": ("verify", "{url}/a.tar"),
    "sync": ("sync", "{url}", "{out}"),
    "split": ("split", "{url}", "-o", "{out}"),
    "lst": ("lst", "create", "{url}", "-o", "{out}.lst"),
}
WRITE = {
    "pack": ("pack", "{images}", "{url}", "--format", "webdataset"),
    "convert": ("convert", "{images}", "{url}", "--to", "tfrecord"),
    "sync": ("sync", "{images}", "{url}"),
    "clean": ("sync", "--clean-uploads", "{url}"),
}


@pytest.fixture
def env(
    request: pytest.FixtureRequest, ceph: Bucket, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """An environment in which a bucket cannot be used, for the cause that the test is for."""
    monkeypatch.setattr(Retries, "delay", lambda self, failed: 0.0)
    env = {**ceph.env, "AWS_ENDPOINT_URL": ceph.endpoint, "BUCKET": ceph.name}
    match request.param:
        case "no bucket":
            env["BUCKET"] = f"none-{uuid.uuid4().hex[:12]}"
        case "no rights":
            env["AWS_ACCESS_KEY_ID"] = "LIMITED"
        case "no credentials":
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
                env.pop(name)
                monkeypatch.delenv(name)
        case "no server":
            env["AWS_ENDPOINT_URL"] = "http://127.0.0.1:9"
        case "expired":
            proxy: Proxy = request.getfixturevalue("proxy")
            for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
                proxy.add("answer", method=method, times=1000, status=400, code="ExpiredToken")
            env["AWS_ENDPOINT_URL"] = proxy.endpoint
    return env


@pytest.mark.parametrize(
    "env", ["no bucket", "no rights", "no credentials", "no server", "expired"], indirect=True
)
def test_the_role_decides(
    env: dict[str, str], run_here: Callable[..., Finished], tmp_path: Path
) -> None:
    image_folder(tmp_path / "images", ("a",), per_class=1)
    places = {
        "url": f"s3://{env.pop('BUCKET')}/x",
        "out": str(tmp_path / "out"),
        "images": str(tmp_path / "images"),
    }
    codes = {
        (role, name): run_here(*(word.format(**places) for word in words), "-q", env=env).code
        for role, commands in (("read", READ), ("write", WRITE))
        for name, words in commands.items()
    }
    assert codes == {(role, name): 4 if role == "read" else 5 for role, name in codes}


def test_the_classes_say_it_too(ceph: Bucket, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    config = dsprep.S3Config(endpoint=ceph.endpoint)
    with pytest.raises(dsprep.SourceError, match="there is no bucket"):
        dsprep.sync("s3://not-there-at-all/x", tmp_path / "down", config=config)
    with pytest.raises(dsprep.DestinationError, match="there is no bucket"):
        dsprep.sync(tmp_path, "s3://not-there-at-all/x", config=config)
    ceph.put("x/a", b"1")
    with pytest.raises(dsprep.SourceError):
        dsprep.sync("s3://not-there-at-all/x", f"{ceph.url}/x", config=config)
    with pytest.raises(dsprep.DestinationError):
        dsprep.sync(f"{ceph.url}/x", "s3://not-there-at-all/x", config=config)
