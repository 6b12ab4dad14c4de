"""Nothing is written where another command is writing; what a killed one has left is no matter."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dsprep.errors import DestinationError, StoreError
from dsprep.storage.pool import Pace
from dsprep.storage.s3.config import S3Config
from dsprep.storage.stored import Stored
from dsprep.storage.transfer import TransferOptions
from dsprep.syncing import sides
from dsprep.syncing.sides import require_idle
from dsprep.syncing.sync import sync
from tests.servers.bucket import Bucket


class Place:
    """A destination with a lease, as it is found each time."""

    def __init__(self, said: Iterator[int | None]) -> None:
        self._said = said

    def name(self, path: str) -> str:
        return f"s3://bucket/{path}"

    def read(self, path: str) -> bytes:
        renewals = next(self._said)
        if renewals is None:
            raise StoreError(f"{path}: is not there", "missing")
        return json.dumps({"holder": "x", "renewals": renewals}).encode()


@pytest.fixture(autouse=True)
def no_time_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sides, "_LOOK_EVERY", 0.0)


def look(
    *said: int | None, path: str = "a/x.tar", lease: str = "a/.dsprep/lease.json"
) -> list[str]:
    told: list[str] = []
    place: Any = Place(iter(said))

    def hear(event: str, text: str) -> None:
        assert event == "waiting"
        told.append(text)

    found = {lease: Stored(lease, 1, time.time())}
    require_idle(place, found, [path], TransferOptions(Pace(1), hear))
    return told


def test_a_command_that_is_alive_is_left_alone() -> None:
    with pytest.raises(DestinationError, match="s3://bucket/a/: another .* is writing there"):
        look(1, 1, 2)


def test_a_sync_ends_before_it_writes(ceph: Bucket, tmp_path: Path) -> None:
    lease = "a/.dsprep/lease.json"

    def renew(event: str, **facts: object) -> None:
        if event == "waiting":
            ceph.put(lease, b"2")

    ceph.put(lease, b"1")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").touch()
    config = S3Config(endpoint=ceph.endpoint)
    with pytest.raises(DestinationError, match="is writing there; wait for it to end"):
        sync(str(tmp_path), ceph.url, config=config, events=renew)
    assert ceph.keys() == [lease]
    assert sync(str(tmp_path / "a"), f"{ceph.url}/b", config=config).state == "synced"


def test_one_that_has_just_ended_has_changed_what_is_there() -> None:
    with pytest.raises(DestinationError, match="has just ended there"):
        look(1, None)


def test_what_a_killed_one_has_left_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sides, "DEAD_AFTER", 0.0)
    (told,) = look(1, 1)
    assert told.startswith("s3://bucket/a/: another dsprep command was writing there")


@pytest.mark.parametrize(
    ("path", "lease"),
    [
        ("b/x.tar", "a/.dsprep/lease.json"),
        ("a/x.tar", "a/.val.tar.dsprep/lease.json"),
        ("ab/x.tar", "a/.dsprep/lease.json"),
    ],
)
def test_other_places_are_no_matter(path: str, lease: str) -> None:
    assert look(path=path, lease=lease) == []


@pytest.mark.parametrize(
    ("path", "lease"),
    [
        ("x.tar", ".dsprep/lease.json"),
        ("val.tar", ".val.tar.dsprep/lease.json"),
        ("a/b/val.rec.manifest.json", "a/b/.val.rec.dsprep/lease.json"),
        ("a/b/val.idx", "a/b/.val.rec.dsprep/lease.json"),
    ],
)
def test_what_a_lease_is_for(path: str, lease: str) -> None:
    with pytest.raises(DestinationError):
        look(1, 2, path=path, lease=lease)
