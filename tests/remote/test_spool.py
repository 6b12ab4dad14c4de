"""What waits on this machine for its way to S3: never more than was allowed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from dsprep.run.remote.state import StagedState
from dsprep.run.shard import Written
from tests.remote.conftest import Machine
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy

Machines = Callable[[str], Machine]

SHARDS = ("--format", "webdataset", "--samples-per-shard", "1", "--no-shuffle")


@contextmanager
def most_bytes(directory: Path) -> Iterator[list[int]]:
    """Note how many bytes shards take there."""
    seen: list[int] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.005):
            sizes = 0
            with suppress(OSError):  # it has just gone
                for path in directory.rglob("*.tar"):
                    sizes += path.stat().st_size
            seen.append(sizes)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("workers", [1, 2])
def test_writing_waits_for_uploads(
    on_ceph: Machines, ceph: Bucket, photos: Path, tmp_path: Path, workers: int
) -> None:
    machine, command = on_ceph("machine"), (*SHARDS, "-j", workers, "--spool", "35KB")
    with Proxy(ceph.endpoint).running() as proxy, most_bytes(tmp_path / "machine") as seen:
        proxy.add("wait", match=".tar", times=12, seconds=0.1)
        machine("pack", photos, f"{ceph.url}/x", *command, AWS_ENDPOINT_URL=proxy.endpoint)
    sizes = [len(data) for name, data in ceph.contents("x/").items() if name.endswith(".tar")]
    assert len(sizes) == 12
    assert 2 * max(sizes) < 35_000 < sum(sizes) / 2
    assert 0 < max(seen) <= 35_000


def test_a_shard_is_on_its_way_while_others_are_written(
    on_ceph: Machines, ceph: Bucket, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first goes for as long as it takes until the last, for which there is room later only."""
    last_goes, waited = threading.Event(), []
    send = StagedState._send

    def slow(self: StagedState, shard: str, written: Written) -> None:
        if shard == "train-000000.tar":
            waited.append(last_goes.wait(30))
        if shard == "train-000011.tar":
            last_goes.set()
        send(self, shard, written)

    monkeypatch.setattr(StagedState, "_send", slow)
    on_ceph("machine")("pack", photos, f"{ceph.url}/x", *SHARDS, "--spool", "35KB", "-j1")
    assert waited == [True]


def test_a_shard_that_never_fits_is_refused(on_ceph: Machines, ceph: Bucket, photos: Path) -> None:
    machine = on_ceph("machine")
    refused = machine("pack", photos, f"{ceph.url}/x.tar", "--spool", "9KB", code=5)
    assert "does not fit into --spool 9 KB" in refused.err
    assert (ceph.keys(), machine.left()) == ([], [])


@pytest.mark.parametrize("spool", [(), ("--spool", "1MB")])
def test_a_disk_with_less_room_is_refused(
    on_ceph: Machines,
    ceph: Bucket,
    photos: Path,
    monkeypatch: pytest.MonkeyPatch,
    spool: tuple[str, ...],
) -> None:
    monkeypatch.setattr("dsprep.run.remote.prefix.free_bytes", lambda _: 9000)
    machine = on_ceph("machine")
    refused = machine("pack", photos, f"{ceph.url}/x.tar", *spool, code=5)
    assert "are to wait there for their way to S3, but only 9 KB are free" in refused.err
    assert (ceph.keys(), machine.left()) == ([], [])
