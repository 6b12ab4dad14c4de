"""An empty bucket for each test: ``ceph``, ``ceph_https``, ``localstack``; and a ``proxy``."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy
from tests.servers.start import Facts, shared, start_ceph, start_localstack

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "OWNER",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}


@pytest.fixture(scope="session")
def run_directory(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A directory that all processes of this run share."""
    base = tmp_path_factory.getbasetemp()
    return base if worker_id == "master" else base.parent


@pytest.fixture(scope="session")
def ceph_server(run_directory: Path) -> Iterator[Facts]:
    with shared(run_directory / "ceph", start_ceph) as facts:
        yield facts


@pytest.fixture(scope="session")
def localstack_server(run_directory: Path) -> Iterator[Facts]:
    with shared(run_directory / "localstack", start_localstack) as facts:
        yield facts


def new_bucket(
    server: str,
    endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    certificate: str = "",
    able: bool = False,
) -> Bucket:
    env = ENVIRONMENT
    if certificate:
        env = {**ENVIRONMENT, "AWS_CA_BUNDLE": certificate}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    bucket = Bucket(server, endpoint, f"test-{uuid.uuid4().hex[:12]}", env, able, able)
    bucket.s3.create_bucket(Bucket=bucket.name)
    return bucket


@pytest.fixture
def ceph(ceph_server: Facts, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A bucket on Ceph over http; ``dsprep`` finds its keys in the environment."""
    return new_bucket("ceph", ceph_server["http"], monkeypatch)


@pytest.fixture
def ceph_https(ceph_server: Facts, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A bucket on Ceph over https."""
    certificate = ceph_server["certificate"]
    return new_bucket("ceph_https", ceph_server["https"], monkeypatch, certificate)


@pytest.fixture
def localstack(localstack_server: Facts, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A bucket on LocalStack."""
    return new_bucket("localstack", localstack_server["http"], monkeypatch, able=True)


@pytest.fixture(params=["ceph", "ceph_https", "localstack"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """A bucket on each of them in turn."""
    found: Bucket = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def proxy(ceph: Bucket) -> Iterator[Proxy]:
    """A proxy before the test's Ceph, which spoils what it is told to."""
    with Proxy(ceph.endpoint).running() as running:
        yield running
