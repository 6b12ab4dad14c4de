"""Real processes that are killed or asked to end: nothing is lost, and the next run goes on."""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tests.conftest import Finished, Running
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy
from tests.syncing.folders import data_set, tree

PATIENCE = 60.0


def until(ready: Callable[[], bool], running: Running) -> None:
    deadline = time.monotonic() + PATIENCE
    while not ready() and running.process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def parts(bucket: Bucket) -> int:
    with suppress(ClientError):  # the upload has just been aborted, for one with more metadata
        return bucket.parts()
    return 0


def has_seen(proxy: Proxy, requests: int) -> bool:
    return len(proxy.requests) >= requests


def holds(bucket: Bucket, key: str) -> bool:
    return key in bucket.contents()


def require_true(there: dict[str, bytes]) -> None:
    """See that a manifest which is there tells of what is there."""
    if "manifest.json" in there:
        for shard in json.loads(there["manifest.json"])["shards"]:
            assert len(there[shard["name"]]) == shard["bytes"]


@pytest.mark.parametrize("way", ["up", "down"])
def test_killed_at_random(
    ceph: Bucket,
    proxy: Proxy,
    start_cli: Callable[..., Running],
    run_here: Callable[..., Finished],
    tmp_path: Path,
    way: str,
) -> None:
    rng = random.Random(5)
    source = tmp_path / "set"
    sets = [data_set(source, large=2, seed=seed) for seed in (0, 100)]
    remote, local = f"{ceph.url}/a", tmp_path / "down"
    places = (source, remote) if way == "up" else (remote, local)
    options = ("--part-size", "5MiB", "--endpoint-url")

    def there() -> dict[str, bytes]:
        return ceph.contents("a/") if way == "up" else tree(local)

    for seed, stops in ((0, 3), (100, 1)):
        shutil.rmtree(source)
        data_set(source, large=2, seed=seed)
        if way == "down":
            assert run_here("sync", source, remote, "-q", *ceph.options).code == 0
        for _ in range(stops):
            proxy.requests.clear()
            running = start_cli("sync", *places, *options, proxy.endpoint)
            enough = rng.randrange(1, 18 if way == "up" else 9)
            until(partial(has_seen, proxy, enough), running)
            number = rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
            running.process.send_signal(number)
            ended = running.end(timeout=20)
            if ended.code == 130:
                assert "interrupted; " in ended.err
                assert "give the same command again to go on" in ended.err
            else:
                assert ended.code in (0, -signal.SIGKILL)
            require_true(there())
        assert run_here("sync", *places, "-q", *options, ceph.endpoint).code == 0
        assert there() == sets[seed > 0]
        assert ceph.uploads() == []
    assert way == "up" or not list(local.rglob(".dsprep"))


@pytest.mark.parametrize("abort", [False, True])
def test_a_stop_says_what_is_kept(
    ceph: Bucket, proxy: Proxy, start_cli: Callable[..., Running], tmp_path: Path, abort: bool
) -> None:
    data_set(tmp_path / "set")
    proxy.add("stall", match="partNumber=2")
    args = ("sync", tmp_path / "set", ceph.url, "--part-size", "5MiB", "--concurrency", 2)
    options = ("--endpoint-url", proxy.endpoint, *(["--abort-on-exit"] if abort else []))
    running = start_cli(*args, *options)
    until(lambda: proxy.faults[0].times == 0 and parts(ceph) == 1, running)
    began = time.monotonic()
    running.process.send_signal(signal.SIGTERM)
    ended = running.end()
    assert time.monotonic() - began < 20  # and not the minute that the server is given
    assert ended.code == 130
    said = "and nothing is kept of the others" if abort else "1 part of 1 more is kept for the next"
    assert said in ended.err
    assert ceph.parts() == (0 if abort else 1)
    assert bool(ceph.uploads()) != abort


@pytest.mark.parametrize("abort", [False, True])
def test_a_stop_on_the_way_down(
    ceph: Bucket,
    proxy: Proxy,
    start_cli: Callable[..., Running],
    run_here: Callable[..., Finished],
    tmp_path: Path,
    abort: bool,
) -> None:
    data_set(tmp_path / "set")
    run_here("sync", tmp_path / "set", ceph.url, "-q", "--part-size", "5MiB", *ceph.options)
    proxy.add("stall-answer", method="GET", match="set-00.tar", at=1000)
    journal = tmp_path / "down" / ".dsprep" / "set-00.tar.journal"
    args = ("sync", ceph.url, tmp_path / "down", "--part-size", "5MiB")
    options = ("--endpoint-url", proxy.endpoint, *(["--abort-on-exit"] if abort else []))
    running = start_cli(*args, *options)
    until(journal.exists, running)
    running.process.send_signal(signal.SIGTERM)
    ended = running.end()
    assert ended.code == 130
    said = "and nothing is kept of the others" if abort else "1 part of 1 more is kept for the next"
    assert said in ended.err
    assert "set-00.tar" not in tree(tmp_path / "down")
    assert journal.exists() != abort
