"""A network that fails under `sync`: it ends right, or says what is wrong; repeated, it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dsprep.errors import DsprepError, StoreError
from dsprep.storage.s3.config import Retries, S3Config
from dsprep.syncing.report import SyncReport
from dsprep.syncing.sync import sync
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy
from tests.syncing.folders import data_set, tree
from tests.transfers import PART


@pytest.fixture(autouse=True)
def no_time_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retries, "delay", lambda self, failed: 0.01)


def run(source: object, destination: object, endpoint: str, **options: Any) -> SyncReport:
    config = S3Config(endpoint=endpoint, read_timeout=1.0)
    return sync(str(source), str(destination), part_size=PART, config=config, **options)


Faults = list[tuple[str, dict[str, Any]]]

LIST = {"method": "GET", "match": "list-type=2"}
SMALL = {"match": "set-01.tar"}
IN_PART = {"match": "partNumber=1"}
BUSY = {"status": 503, "code": "SlowDown"}
BROKEN = {"status": 500, "code": "InternalError"}
UP: dict[str, Faults] = {
    "broken": [
        ("reset", SMALL | {"at": 5000}),
        ("reset", IN_PART | {"times": 3}),
        ("lose", SMALL),
        ("lose", {"match": "manifest.json"}),
        ("lose", {"method": "POST"}),
    ],
    "damaged": [("flip", SMALL | {"at": 5000}), ("flip", IN_PART)],
    "silent": [("stall", IN_PART), ("wait", LIST | {"seconds": 1.5})],
    "busy": [
        ("answer", LIST | BUSY),
        ("answer", {"method": "POST", "match": "uploads"} | BROKEN),
        ("answer", {"method": "DELETE"} | BROKEN),
        ("answer", IN_PART | BUSY | {"times": 5}),
        ("answer", {"match": "manifest.json"} | BROKEN),
    ],
}


@pytest.mark.parametrize("faults", UP.values(), ids=UP)
def test_up(ceph: Bucket, proxy: Proxy, tmp_path: Path, faults: Faults) -> None:
    files = data_set(tmp_path / "set")
    for kind, facts in faults:
        proxy.add(kind, **facts)
    report = run(tmp_path / "set", ceph.url, proxy.endpoint)
    assert (report.state, report.failures) == ("synced", [])
    assert not any(fault.times for fault in proxy.faults)
    assert ceph.contents() == files
    assert ceph.uploads() == []


IN_RANGE = {"method": "GET", "match": "set-00.tar"}
OF_SMALL = {"method": "GET", "match": "set-01.tar", "at": 5000}
DOWN: dict[str, Faults] = {
    "broken": [
        ("truncate", IN_RANGE | {"times": 3}),
        ("truncate", OF_SMALL),
        ("reset-answer", IN_RANGE),
        ("lose", {"method": "HEAD"}),
    ],
    "damaged": [
        ("flip-answer", IN_RANGE),
        ("flip-answer", OF_SMALL),
        ("flip-answer", {"method": "GET", "match": "manifest.json", "at": 50, "times": 2}),
    ],
    "silent": [("stall-answer", IN_RANGE), ("wait", OF_SMALL | {"seconds": 1.5})],
    "busy": [
        ("answer", LIST | BROKEN),
        ("answer", IN_RANGE | BUSY | {"times": 5}),
        ("answer", OF_SMALL | BROKEN),
    ],
}


@pytest.mark.parametrize("faults", DOWN.values(), ids=DOWN)
def test_down(ceph: Bucket, proxy: Proxy, tmp_path: Path, faults: Faults) -> None:
    files = data_set(tmp_path / "set")
    run(tmp_path / "set", ceph.url, ceph.endpoint)
    for kind, facts in faults:
        proxy.add(kind, **facts)
    report = run(ceph.url, tmp_path / "down", proxy.endpoint)
    assert (report.state, report.failures) == ("synced", [])
    assert not any(fault.times for fault in proxy.faults)
    assert tree(tmp_path / "down") == files
    assert not list((tmp_path / "down").glob(".dsprep"))


def test_across(ceph: Bucket, proxy: Proxy, tmp_path: Path) -> None:
    files = data_set(tmp_path / "set", large=0)
    run(tmp_path / "set", f"{ceph.url}/a", ceph.endpoint)
    proxy.add("answer", match="b/set-00.tar", **BUSY)
    proxy.add("lose", match="b/set-01.tar")
    proxy.add("stall", match="b/set-01.tar", at=0)
    report = run(f"{ceph.url}/a", f"{ceph.url}/b", proxy.endpoint)
    assert (report.state, report.failures) == ("synced", [])
    assert not any(fault.times for fault in proxy.faults)
    assert ceph.contents("b/") == files


@pytest.mark.parametrize(
    ("kind", "facts", "said"),
    [
        ("flip", SMALL | {"at": 5000}, "bytes that arrived are not those that were sent"),
        ("answer", {"match": "partNumber=2"} | BUSY, "SlowDown, HTTP 503, request REQUEST-1"),
    ],
)
def test_what_always_fails_keeps_the_manifest_back(
    ceph: Bucket, proxy: Proxy, tmp_path: Path, kind: str, facts: dict[str, Any], said: str
) -> None:
    files = data_set(tmp_path / "set")
    ceph.put("old", b"x")
    proxy.add(kind, **facts, times=99)
    report = run(tmp_path / "set", ceph.url, proxy.endpoint, delete=True)
    assert report.state == "incomplete"
    (failed, manifest) = report.failures
    assert said in failed.message
    assert "same command again" in failed.message or kind == "flip"
    assert (manifest.path, len(report.sent)) == ("manifest.json", len(files) - 2)
    assert "nothing is deleted" in report.notes[0]
    assert ceph.contents() == {
        "old": b"x",
        **{path: files[path] for path in files if path not in (failed.path, "manifest.json")},
    }
    again = run(tmp_path / "set", ceph.url, ceph.endpoint, delete=True)
    assert sorted(each.path for each in again.sent) == ["manifest.json", failed.path]
    assert again.resumed == (PART if failed.path == "set-00.tar" else 0)
    assert ceph.contents() == files
    assert ceph.uploads() == []


def test_a_listing_that_fails_ends_it(ceph: Bucket, proxy: Proxy, tmp_path: Path) -> None:
    data_set(tmp_path / "set")
    ceph.put("old", b"x")
    proxy.add("answer", **LIST, **BUSY, times=99)
    with pytest.raises(DsprepError, match="cannot be listed.*SlowDown.*tried 8 times"):
        run(tmp_path / "set", ceph.url, proxy.endpoint, delete=True)
    assert ceph.keys() == ["old"]


def test_expired_credentials_say_how_far_it_is(ceph: Bucket, proxy: Proxy, tmp_path: Path) -> None:
    files = data_set(tmp_path / "set")
    proxy.add("answer", match="partNumber=2", status=400, code="ExpiredToken", times=99)
    with pytest.raises(StoreError) as caught:
        run(tmp_path / "set", ceph.url, proxy.endpoint, concurrency=1)
    assert "the credentials have expired; renew them and give the same command" in str(caught.value)
    assert str(caught.value).endswith(
        "of 4 files sent, and 1 part of 1 more is kept for the next run"
    )
    assert "manifest.json" not in ceph.contents()
    again = run(tmp_path / "set", ceph.url, ceph.endpoint)
    assert again.resumed == PART
    assert ceph.contents() == files
