"""An empty bucket for each test: ``ceph``, ``ceph_https``, ``localstack``; and a ``proxy``."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.missing import leave_out, need_commands
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy
from tests.servers.start import LOCALSTACK, Facts, shared, start_ceph, start_localstack, stop

PLACE = "DSPREP_TEST_SERVERS"
"""The variable with the directory of the servers of this run."""

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "OWNER",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}


CEPH = ("radosgw", "radosgw-admin", "ceph", "ceph-mon", "ceph-osd", "openssl")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        root = os.environ.get("PYTEST_DEBUG_TEMPROOT")  # in memory, if that has room
        os.environ[PLACE] = tempfile.mkdtemp(prefix="dsprep-servers-", dir=root)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        place = Path(os.environ.pop(PLACE))
        for server in place.glob("*/server"):
            stop(server)
        for _ in range(5):  # a server that is killed may write a last file
            shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="session")
def ceph_server() -> Facts:
    need_commands("Ceph", *CEPH)
    return shared(Path(os.environ[PLACE], "ceph"), start_ceph)


@pytest.fixture(scope="session")
def localstack_server() -> Facts:
    if not LOCALSTACK.joinpath(".pins").exists():
        leave_out("LocalStack is not installed: run scripts/servers.sh")
    return shared(Path(os.environ[PLACE], "localstack"), start_localstack)


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
