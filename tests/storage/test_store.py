"""What the store does on every server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dsprep.errors import StoreError
from dsprep.storage.s3.store import S3Store
from dsprep.storage.stored import Stored
from tests.transfers import PART, copy, download, file_of, store_of, upload

KEYS = ["a b/c d.txt", "plus+plus", "100%", "%41", "ünï/日本.tar", "a?b#c&d=e", "x\\y", "'\"<>"]


@dataclass(frozen=True)
class Place:
    """A store, and what it can do.

    Attributes:
        store: The store.
        checksums: Whether it keeps checksums.
    """

    store: S3Store
    checksums: bool = False


@pytest.fixture(params=["ceph", "ceph_https", "localstack"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    bucket = request.getfixturevalue(request.param)
    store = store_of(bucket)
    yield Place(store, checksums=bucket.checksums)
    store.close()


def listed(store: S3Store, prefix: str = "") -> list[Stored]:
    return [each for page in store.list(prefix) for each in page]


def read(
    store: S3Store, key: str, start: int = 0, size: int | None = None, etag: str = ""
) -> bytes:
    with store.open(key, start, size, etag) as reading:
        return b"".join(iter(lambda: reading.read(3), b""))


def test_a_key_is_kept_as_it_is(place: Place) -> None:
    for key in KEYS:
        place.store.put(key, key.encode())
        assert [each.key for each in listed(place.store)] == [key]
        assert read(place.store, key) == key.encode()
        stored = place.store.stat(key)
        assert stored is not None
        assert (stored.key, stored.size) == (key, len(key.encode()))
        assert place.store.delete([key]) == {}
        assert listed(place.store) == []


def test_bytes_come_back(place: Place) -> None:
    for data in (b"", b"x", bytes(70_000)):
        told = place.store.put("k", data)
        assert read(place.store, "k") == data
        stored = place.store.stat("k")
        assert stored is not None
        assert stored.size == told.size == len(data)
        assert stored.etag == told.etag
        assert stored.etag
        assert (stored.crc32c is not None) == place.checksums


def test_a_range(place: Place) -> None:
    place.store.put("k", b"0123456789")
    with place.store.open("k", 3, 4) as reading:
        assert reading.stored.size == 10
    for start, size, want in [(0, 1, b"0"), (3, 4, b"3456"), (8, 100, b"89"), (9, None, b"9")]:
        assert read(place.store, "k", start, size) == want


def test_what_is_not_there(place: Place) -> None:
    assert place.store.stat("nothing") is None
    assert listed(place.store) == []
    assert place.store.delete(["nothing"]) == {}
    with pytest.raises(StoreError, match="nothing") as caught:
        read(place.store, "nothing")
    assert caught.value.kind == "missing"


def test_a_listing_is_in_order_and_of_the_prefix(place: Place) -> None:
    keys = ["a", "a.b", "a/b", "a0", "b/ü", "b/z", "b/😀", "b/ｚ"]
    for key in reversed(keys):
        place.store.put(key, b"1") if key != "a" else None
    here = keys[1:]
    assert [each.key for each in listed(place.store)] == sorted(here, key=os.fsencode)
    assert [each.key for each in listed(place.store, "a/")] == ["a/b"]
    assert [each.key for each in listed(place.store, "a")] == ["a.b", "a/b", "a0"]
    assert [each.key for each in listed(place.store, "b/z")] == ["b/z"]
    assert listed(place.store, "c") == []


def test_a_file_is_replaced(place: Place) -> None:
    place.store.put("k", b"old")
    place.store.put("k", b"new")
    assert read(place.store, "k") == b"new"


def test_only_what_is_new(place: Place) -> None:
    place.store.put("k", b"first", replaces="")
    with pytest.raises(StoreError) as caught:
        place.store.put("k", b"second", replaces="")
    assert caught.value.kind == "exists"
    assert read(place.store, "k") == b"first"


def test_only_what_was_seen(place: Place) -> None:
    first = place.store.put("k", b"first")
    place.store.put("k", b"second", replaces=first.etag)
    with pytest.raises(StoreError) as caught:
        place.store.put("k", b"third", replaces=first.etag)
    assert caught.value.kind == "exists"
    with pytest.raises(StoreError) as caught:
        read(place.store, "k", 0, None, first.etag)
    assert caught.value.kind == "exists"
    assert read(place.store, "k") == b"second"


@pytest.mark.parametrize("size", [0, PART, PART + 1])
def test_there_and_back(place: Place, tmp_path: Path, size: int) -> None:
    source, back = tmp_path / "source", tmp_path / "back"
    data = file_of(source, size)
    sent = upload(source, place.store, "k", part_size=PART)
    assert sent.parts == max(1, -(-size // PART))
    assert sent.proof == ("crc32c" if place.checksums else "md5")
    copied = copy(place.store, "k", place.store, "copy")
    assert copied.proof in ("crc32c", "md5")
    assert read(place.store, "copy", max(0, size - 3)) == data[-3:]
    got = download(place.store, "k", back, part_size=PART)
    assert back.read_bytes() == data
    assert got.proof == "crc32c"
    assert ".dsprep" not in os.listdir(tmp_path)
