"""A server that keeps a wrong checksum of an object: its bytes decide, and the report says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsprep.storage.s3.config import S3Config
from dsprep.syncing.report import SyncReport
from dsprep.syncing.sync import sync
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy
from tests.syncing.folders import data_set, tree
from tests.transfers import PART

WRONG = {"x-amz-checksum-crc32c": "AAAAAA==", "x-amz-checksum-type": "FULL_OBJECT"}
SAID = "the server keeps a wrong checksum, and the bytes are right: set-00.tar"

Run = Callable[..., SyncReport]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    return data_set(tmp_path / "set")


@pytest.fixture
def run(ceph: Bucket, proxy: Proxy, tmp_path: Path, files: dict[str, bytes]) -> Run:
    """`sync` by way of a server that is wrong; the data set is there already."""
    for method in ("HEAD", "GET"):
        proxy.add("headers", method=method, match="set-00.tar", times=1000, headers=WRONG)

    def run(source: object = tmp_path / "set", target: object = ceph.url, **options: Any) -> Any:
        config = S3Config(endpoint=proxy.endpoint)
        return sync(str(source), str(target), part_size=PART, config=config, **options)

    assert run().state == "synced"
    assert ceph.contents() == files
    proxy.requests.clear()
    return run


def test_it_is_not_sent_again(run: Run, proxy: Proxy) -> None:
    report = run()
    assert (report.state, report.same["download"]) == ("already there", 1)
    assert report.notes == [f"1 object read back (5.4 MB): {SAID}"]
    assert proxy.counted("PUT") == proxy.counted("POST") == 0


def test_its_manifest_is_published(run: Run, ceph: Bucket, proxy: Proxy) -> None:
    ceph.s3.delete_object(Bucket=ceph.name, Key="manifest.json")
    report = run()
    assert ([each.path for each in report.sent], report.failures) == (["manifest.json"], [])


def test_one_that_has_changed_is_sent(run: Run, ceph: Bucket, tmp_path: Path) -> None:
    files = data_set(tmp_path / "set", seed=5)
    report = run()
    assert {each.path: each.by for each in report.sent}["set-00.tar"] == "download"
    assert "1 object read back (5.4 MB): the bytes differ: set-00.tar" in report.notes
    assert ceph.contents() == files


def test_it_comes_down_once(run: Run, ceph: Bucket, tmp_path: Path) -> None:
    for _ in range(2):
        report = run(ceph.url, tmp_path / "back")
        assert tree(tmp_path / "back") == tree(tmp_path / "set")
    assert report.state == "already there"
    assert any(SAID in note for note in report.notes)
    (tmp_path / "set" / "manifest.json").unlink()
    ceph.s3.delete_object(Bucket=ceph.name, Key="manifest.json")
    assert run(ceph.url, tmp_path / "other").state == "synced"  # what dsprep noted confirms it
    assert tree(tmp_path / "other") == tree(tmp_path / "set")


def test_what_is_right_is_proven(run: Run) -> None:
    report = run(verify=True)
    assert (report.failures, report.verified["download"]) == ([], 1)
