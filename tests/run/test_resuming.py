"""Runs to S3 that are stopped, and go on: on the same machine, and on another."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import dsprep.storage.lease as leases
from tests.conftest import Finished, Running
from tests.run.conftest import Machine, files
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy

RunCli = Callable[..., Finished]
Machines = Callable[[str], Machine]

COMMAND = ("--format", "recordio", "--samples-per-shard", "2")


@pytest.fixture
def expected(run_here: RunCli, twelve: Path, tmp_path: Path) -> dict[str, bytes]:
    """The six shards and the rest, as they are on a disk."""
    assert run_here("pack", twelve, tmp_path / "expected", *COMMAND).code == 0
    return files(tmp_path / "expected")


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who gives no sign of life is taken to be dead after three seconds."""
    monkeypatch.setattr(leases, "DEAD_AFTER", 3.0)
    monkeypatch.setattr(leases, "RENEWED_EVERY", 0.2)
    monkeypatch.setattr(leases, "_LOOK_EVERY", 0.1)


def shards(contents: Iterable[str]) -> set[str]:
    return {name for name in contents if name.endswith(".rec")}


@contextmanager
def watched(bucket: Bucket, prefix: str, names: set[str]) -> Iterator[None]:
    """See that there is never a manifest without all these files."""
    wrong: list[set[str]] = []
    over = threading.Event()
    client = bucket.client()

    def watch() -> None:
        while not over.wait(0.1):
            page = client.list_objects_v2(Bucket=bucket.name, Prefix=prefix)
            there = {each["Key"].removeprefix(prefix) for each in page.get("Contents", [])}
            if "manifest.json" in there and not names <= there:
                wrong.append(names - there)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not wrong


def test_a_failing_upload_stops_the_run_which_goes_on_anywhere(
    on_ceph: Machines, ceph: Bucket, proxy: Proxy, twelve: Path, expected: dict[str, bytes]
) -> None:
    command = ("pack", twelve, f"{ceph.url}/set", *COMMAND, "--json")
    first, second = on_ceph("first"), on_ceph("second")
    proxy.add("answer", match="train-00004.rec", times=10**6, status=403, code="AccessDenied")
    failed = first(*command, code=5, AWS_ENDPOINT_URL=proxy.endpoint)
    assert f"{ceph.url}/set/train-00004.rec: cannot be written: of the test" in failed.err
    there = ceph.contents("set/")
    assert "manifest.json" not in there
    assert ".dsprep/run.json" in there
    assert ".dsprep/lease.json" not in there
    arrived = {name.split("/")[2][: -len(".json")] for name in there if "receipts/" in name}
    assert arrived <= shards(there)

    other = first("pack", twelve, f"{ceph.url}/set", "--format", "webdataset", code=5)
    assert "an unfinished run of another command is there (other format" in other.err
    with watched(ceph, "set/", set(expected)):
        report = json.loads(second(*command).out)
    assert report["state"] == "continued"
    assert ceph.contents("set/") == expected
    assert (ceph.uploads(), second.left()) == ([], [])
    assert json.loads(first(*command).out)["state"] == "already packed"
    assert first.left() == []


def test_only_what_is_missing_is_sent(
    on_ceph: Machines, ceph: Bucket, proxy: Proxy, twelve: Path, expected: dict[str, bytes]
) -> None:
    command = ("pack", twelve, f"{ceph.url}/set", *COMMAND, "-j1")
    first, second = on_ceph("first"), on_ceph("second")
    proxy.add("answer", match="/manifest.json", times=10**6, status=403, code="AccessDenied")
    first(*command, code=5, AWS_ENDPOINT_URL=proxy.endpoint)
    ceph.s3.delete_object(Bucket=ceph.name, Key="set/train-00001.rec")
    ceph.put("set/train-00002.rec", b"something else")
    ceph.put("set/.dsprep/receipts/train-00003.rec.json", b"no receipt")
    proxy.faults.clear()
    proxy.requests.clear()
    again = second(*command, AWS_ENDPOINT_URL=proxy.endpoint)
    assert f"{ceph.url}/set/: continues; 3 of 6 shards complete, 6 samples left" in again.err
    sent = [name for name in sorted(shards(expected)) if proxy.counted("PUT", f"set/{name}")]
    assert sent == ["train-00001.rec", "train-00002.rec", "train-00003.rec"]
    assert ceph.contents("set/") == expected


def test_overwriting_an_unfinished_run(
    on_ceph: Machines, ceph: Bucket, proxy: Proxy, twelve: Path, expected: dict[str, bytes]
) -> None:
    machine, dest = on_ceph("machine"), f"{ceph.url}/set"
    machine("pack", twelve, dest, "--format", "tfrecord", "--shards", 2)
    proxy.add("answer", match="/manifest.json", times=10**6, status=403, code="AccessDenied")
    other = ("pack", twelve, dest, "--format", "webdataset", "--shards", 2, "--overwrite")
    machine(*other, code=5, AWS_ENDPOINT_URL=proxy.endpoint)
    assert {"train-000000.tar", "train-00000-of-00002.tfrecord"} <= set(ceph.contents("set/"))
    with watched(ceph, "set/", set(expected)):
        on_ceph("another")("pack", twelve, dest, *COMMAND, "--overwrite")
    assert ceph.contents("set/") == expected


@pytest.mark.parametrize(("number", "times"), [(signal.SIGKILL, 2), (signal.SIGTERM, 1)])
def test_stopped_at_any_moment(
    on_ceph: Machines,
    ceph: Bucket,
    start_cli: Callable[..., Running],
    monkeypatch: pytest.MonkeyPatch,
    twelve: Path,
    expected: dict[str, bytes],
    number: int,
    times: int,
    tmp_path: Path,
) -> None:
    """Each time on another machine; what is there in the end does not show it."""
    rng = random.Random(number)
    command = ("pack", twelve, f"{ceph.url}/set", *COMMAND, "-j2")
    monkeypatch.setenv("AWS_ENDPOINT_URL", ceph.endpoint)
    with watched(ceph, "set/", set(expected)):
        for turn in range(times):
            stage = tmp_path / f"stopped-{turn}"
            stage.mkdir()
            monkeypatch.setenv("TMPDIR", str(stage))
            running = start_cli(*command)
            wait_until(lambda stage=stage: list(stage.glob("*/.dsprep/pieces")))
            time.sleep(rng.uniform(0, 0.2))
            running.process.send_signal(number)
            began = time.monotonic()
            finished = running.end()
            assert finished.code in (0, -number, 130)
            if finished.code == 130:
                assert "give the same command again" in finished.err
                assert time.monotonic() - began < 20
                assert "set/.dsprep/lease.json" not in ceph.contents()
            running.kill()
            if number == signal.SIGKILL:  # it could say to nobody that it has ended
                ceph.s3.delete_object(Bucket=ceph.name, Key="set/.dsprep/lease.json")
        on_ceph("last")(*command)
    assert ceph.contents("set/") == expected
    assert ceph.uploads() == []


def wait_until(condition: Callable[[], object]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never happened")


def lease(ceph: Bucket, holder: str = "another machine", renewals: int = 1) -> None:
    ceph.put(
        "set/.dsprep/lease.json", json.dumps({"holder": holder, "renewals": renewals}).encode()
    )


def test_a_dead_run_is_gone_on_with(
    on_ceph: Machines, ceph: Bucket, twelve: Path, expected: dict[str, bytes], soon: None
) -> None:
    lease(ceph)
    done = on_ceph("machine")("pack", twelve, f"{ceph.url}/set", *COMMAND)
    assert "another run was writing there" in done.err
    assert ceph.contents("set/") == expected


def test_a_run_that_is_alive_is_let_alone(
    on_ceph: Machines, ceph: Bucket, twelve: Path, soon: None
) -> None:
    lease(ceph)
    over = threading.Event()

    def live() -> None:
        number = 1
        while not over.wait(0.2):
            lease(ceph, renewals=(number := number + 1))

    thread = threading.Thread(target=live)
    thread.start()
    try:
        machine = on_ceph("machine")
        refused = machine("pack", twelve, f"{ceph.url}/set", *COMMAND, code=5)
    finally:
        over.set()
        thread.join()
    assert "another dsprep run is writing there; wait for it to end" in refused.err
    assert ceph.keys() == ["set/.dsprep/lease.json"]
    assert machine.left() == []


def test_a_run_that_was_taken_for_dead_ends(
    on_ceph: Machines, ceph: Bucket, proxy: Proxy, twelve: Path
) -> None:
    """Another machine has gone on with it: its workers upload nothing more."""
    proxy.add("wait", match=".rec", times=10**6, seconds=0.3)

    def take() -> None:
        wait_until(lambda: shards(ceph.contents("set/")))
        lease(ceph)

    thread = threading.Thread(target=take)
    thread.start()
    command = ("pack", twelve, f"{ceph.url}/set", *COMMAND, "-j1")
    ended = on_ceph("machine")(*command, code=5, AWS_ENDPOINT_URL=proxy.endpoint)
    thread.join()
    assert "another dsprep run has gone on with this one" in ended.err
    there = ceph.contents("set/")
    assert "manifest.json" not in there
    assert len(shards(there)) < 6
    assert json.loads(there[".dsprep/lease.json"])["holder"] == "another machine"


def test_a_shard_is_on_its_way_while_others_are_written(
    on_ceph: Machines, ceph: Bucket, proxy: Proxy, twelve: Path
) -> None:
    """The upload of the first shard takes until all others are there."""
    proxy.add("wait", match="train-00000.rec", times=1, seconds=5)
    orders: list[set[str]] = []

    def watch() -> None:
        wait_until(lambda: len(shards(ceph.contents("set/"))) == 5)
        orders.append(shards(ceph.contents("set/")))

    thread = threading.Thread(target=watch)
    thread.start()
    command = ("pack", twelve, f"{ceph.url}/set", *COMMAND, "-j1")
    on_ceph("machine")(*command, AWS_ENDPOINT_URL=proxy.endpoint)
    thread.join()
    assert "train-00000.rec" not in orders[0]


def test_a_disk_without_room_for_a_shard_is_refused(
    on_ceph: Machines, ceph: Bucket, twelve: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsprep.run.target.free_bytes", lambda _: 9000)
    machine = on_ceph("machine")
    refused = machine("pack", twelve, f"{ceph.url}/x.tar", code=5)
    assert "has to wait there for its upload, but only 9 KB are free" in refused.err
    assert (ceph.keys(), machine.left()) == ([], [])
