"""Which of two runs may write: at most one at any time, and each knows whether it is the one."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

import dsprep.storage.lease as leases
from dsprep.errors import DestinationError, StoreError
from dsprep.storage.lease import Lease
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy
from tests.transfers import store_of

KEY = "set/.dsprep/lease.json"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "DEAD_AFTER", 2.0)
    monkeypatch.setattr(leases, "RENEWED_EVERY", 0.1)
    monkeypatch.setattr(leases, "_LOOK_EVERY", 0.1)


def lease_of(bucket: Bucket, holder: Path, endpoint: str = "") -> Lease:
    """A lease that a run has taken, which has just begun."""
    lease = Lease(store_of(bucket, endpoint), KEY, "s3://bucket/set")
    lease.take(holder, lambda _: None)
    return lease


def holder(bucket: Bucket) -> str:
    return str(json.loads(bucket.contents()[KEY])["holder"])


def wait_until_renewed(bucket: Bucket) -> None:
    before = bucket.contents()[KEY]
    while bucket.contents()[KEY] == before:
        time.sleep(0.01)


def test_a_lease_is_kept_and_given_back(ceph: Bucket, tmp_path: Path) -> None:
    lease = lease_of(ceph, tmp_path / "one")
    wait_until_renewed(ceph)
    wait_until_renewed(ceph)
    lease.check()
    lease.give_back()
    assert ceph.keys() == []


def test_who_can_give_no_sign_of_life_knows_before_another_takes_over(
    ceph: Bucket, proxy: Proxy, tmp_path: Path
) -> None:
    first = lease_of(ceph, tmp_path / "one", proxy.endpoint)
    proxy.add("answer", match="lease.json", times=10**6, status=403, code="AccessDenied")
    second = lease_of(ceph, tmp_path / "two")
    assert holder(ceph) == (tmp_path / "two").read_text()
    with pytest.raises(StoreError, match=r"lease.json.*s3:PutObject is missing"):
        first.check()
    proxy.faults.clear()
    with pytest.raises(DestinationError, match="another dsprep run has gone on with this one"):
        first.check()
    first.give_back()
    second.check()
    assert holder(ceph) == (tmp_path / "two").read_text()


def test_a_renewal_whose_answer_is_lost_is_no_other_run(
    ceph: Bucket, proxy: Proxy, tmp_path: Path
) -> None:
    lease = lease_of(ceph, tmp_path / "one", proxy.endpoint)
    proxy.add("lose", match="lease.json")
    proxy.add("answer", match="lease.json", times=1, status=403, code="AccessDenied")
    wait_until_renewed(ceph)
    wait_until_renewed(ceph)
    wait_until_renewed(ceph)
    lease.check()
    lease.give_back()
    assert ceph.keys() == []


def test_a_renewal_that_comes_late_takes_nothing_from_another_run(
    ceph: Bucket, tmp_path: Path
) -> None:
    first = lease_of(ceph, tmp_path / "one")
    first.give_back()
    second = lease_of(ceph, tmp_path / "two")
    first._renew()
    assert holder(ceph) == (tmp_path / "two").read_text()
    wait_until_renewed(ceph)
    second.check()
    second.give_back()
    assert ceph.keys() == []
