"""``dsprep bench`` on S3: requests are counted, and a slow server shows."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dsprep
from tests.conftest import Finished
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy

RunCli = Callable[..., Finished]


def rows(run_here: RunCli, proxy: Proxy, *args: object) -> list[dict[str, Any]]:
    options = ("--rounds", 1, "--steps", 6, "--warmup", 0, "-j0", "--work", "bytes", "-q", "--json")
    done = run_here("bench", *args, *options, env={"AWS_ENDPOINT_URL": proxy.endpoint})
    assert done.code == 0, done.err
    report = json.loads(done.out)
    return list(report["rows"])


@pytest.fixture
def shards(ceph: Bucket, data: Path) -> str:
    """The shards of WebDataset on S3."""
    url = f"{ceph.url}/wds"
    dsprep.sync(data / "webdataset", url, config=dsprep.S3Config(endpoint=ceph.endpoint))
    return url


def planned(shards: str, proxy: Proxy, run_here: RunCli) -> tuple[int, int]:
    """Return how many requests planning takes, and how many of them look into shards."""
    proxy.requests.clear()
    run_here("bench", shards, "--dry-run", env={"AWS_ENDPOINT_URL": proxy.endpoint})
    counts = len(proxy.requests), proxy.counted("GET", ".tar")
    proxy.requests.clear()
    return counts


def test_requests_are_those_that_the_server_sees(
    shards: str, proxy: Proxy, run_here: RunCli, data: Path
) -> None:
    planning, looks = planned(shards, proxy, run_here)

    (row,) = rows(run_here, proxy, shards, "--access", "boto3")

    assert row["requests"] == len(proxy.requests) - planning == 3
    assert proxy.counted("GET", ".tar") - looks == 3
    size = sum(file.stat().st_size for file in (data / "webdataset").glob("*.tar"))
    assert row["fetched"] == size


def test_a_copy_comes_first(shards: str, proxy: Proxy, run_here: RunCli) -> None:
    streamed, copied = rows(run_here, proxy, shards, "--access", "boto3,download")

    assert streamed["copy_seconds"] is None
    assert copied["copy_seconds"] > 0
    assert (streamed["requests"], copied["requests"]) == (3, None)


COPY = (
    "import sys, boto3; bucket, _, key = sys.argv[1][5:].partition('/'); "
    "sys.stdout.buffer.write(boto3.client('s3').get_object(Bucket=bucket, Key=key)['Body'].read())"
)


def test_pipes_and_commands_read_each_shard_once(
    shards: str, proxy: Proxy, run_here: RunCli
) -> None:
    """What they ask for is not counted by bench, but by the proxy."""
    command = f"cmd:{sys.executable} -c {shlex.quote(COPY)} {{url}}"
    for way in ("fifo", command):
        _, looks = planned(shards, proxy, run_here)
        (row,) = rows(run_here, proxy, shards, "--access", way)

        assert row["error"] == ""
        assert (row["requests"], row["fetched"]) == (None, None)
        assert proxy.counted("GET", ".tar") - looks == 3


def test_a_slow_server_shows(shards: str, proxy: Proxy, run_here: RunCli, data: Path) -> None:
    """The first batch waits for one answer; the epoch takes as long as its bytes."""
    size = sum(file.stat().st_size for file in (data / "webdataset").glob("*.tar"))
    _, looks = planned(shards, proxy, run_here)
    proxy.add("wait", method="GET", match=".tar", times=looks + 3, seconds=0.4)
    (late,) = rows(run_here, proxy, shards, "--access", "boto3")
    proxy.add("wait", method="GET", match=".tar", times=looks + 3, pace=size)
    (slow,) = rows(run_here, proxy, shards, "--access", "boto3")

    assert late["figures"]["first_batch"] > 0.4
    assert late["figures"]["step_mean"] * 5 > 0.8, "two more shards, 0.4 s each"
    assert slow["figures"]["bytes_per_second"] < 2 * size
