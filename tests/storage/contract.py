"""What each store does, checked through bytes that it has no part in.

`StoreTests` is for a class of tests that makes a store of its own kind. `inside` and `place` go
around the store: what is there is looked at, and put there, by other means.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dsprep.errors import DestinationError, DestinationStoreError, SourceError, StoreError
from dsprep.storage.files import (
    entries,
    exists,
    facts,
    find_files,
    is_dir,
    is_file,
    open_file,
    read_bytes,
    read_sized,
)
from dsprep.storage.pool import Pace
from dsprep.storage.store import Store, publish_manifest, store_of
from dsprep.storage.stored import Stored, crc32c
from dsprep.storage.transfer import TransferOptions

DATA = bytes(range(256)) * 20
NAMES = ["a b/c d.txt", "plus+plus", "100%", "%41", "ünï/日本.tar", "a?b#c&d=e", "x\\y", "'\"<>"]


class StoreTests(ABC):
    """Tests of a store; ``top`` is the address below which a test may do what it wants."""

    store: Store
    top: str  # an address, without a slash at the end

    @abstractmethod
    def inside(self) -> dict[str, bytes]:
        """Return every file below the top by its path there, read without the store."""

    @abstractmethod
    def place(self, path: str, data: bytes) -> None:
        """Put a file there without the store."""

    @pytest.fixture
    def options(self) -> Iterator[TransferOptions]:
        pace = Pace()
        yield TransferOptions(pace)
        pace.close()

    def key(self, path: str) -> str:
        return store_of(f"{self.top}/{path}")[1]

    def paths(self, prefix: str = "") -> list[str]:
        found = [stored.key for page in self.store.list(self.key(prefix)) for stored in page]
        return [key.removeprefix(self.key("")) for key in found]

    def stat(self, path: str) -> Stored:
        stored = self.store.stat(self.key(path))
        assert stored is not None
        return stored

    def bytes_of(self, path: str, start: int = 0, size: int | None = None, etag: str = "") -> bytes:
        with self.store.open(self.key(path), start, size, etag) as reading:
            return b"".join(iter(lambda: reading.read(700), b""))

    # Addresses

    def test_an_address_leads_to_the_store_and_back(self) -> None:
        store, key = store_of(f"{self.top}/a b/%41")
        assert type(store) is type(self.store)
        assert store.url(key) == f"{self.top}/a b/%41"
        assert store.canonical(self.key("d/")) == store.canonical(self.key("d"))

    # Storing

    def test_a_key_is_kept_as_it_is(self) -> None:
        for name in NAMES:
            self.store.put(self.key(name), name.encode())
        assert self.inside() == {name: name.encode() for name in NAMES}
        assert sorted(self.paths()) == sorted(NAMES)
        assert all(self.bytes_of(name) == name.encode() for name in NAMES)
        assert self.store.delete([self.key(name) for name in NAMES]) == {}
        assert self.inside() == {}

    def test_what_is_stored_replaces_what_was_there(self) -> None:
        for data in (b"", b"x", DATA, bytearray(DATA), b"last"):
            stored = self.store.put(self.key("d/k"), data)
            assert self.inside() == {"d/k": bytes(data)}
            assert stored.size == self.stat("d/k").size == len(data)
            assert stored.etag == self.stat("d/k").etag != ""

    def test_only_where_nothing_is(self) -> None:
        self.store.put(self.key("k"), b"first", replaces="")
        with pytest.raises(StoreError) as caught:
            self.store.put(self.key("k"), b"second", replaces="")
        assert caught.value.kind == "exists"
        assert self.inside() == {"k": b"first"}

    def test_only_in_place_of_what_was_seen(self) -> None:
        first = self.store.put(self.key("k"), b"first")
        second = self.store.put(self.key("k"), b"second", replaces=first.etag)
        for etag in (first.etag, ""):
            with pytest.raises(StoreError) as caught:
                self.store.put(self.key("k"), b"third", replaces=etag)
            assert caught.value.kind == "exists"
        assert self.inside() == {"k": b"second"}
        self.store.put(self.key("k"), b"fourth", replaces=second.etag)
        self.store.delete([self.key("k")])
        with pytest.raises(StoreError) as caught:
            self.store.put(self.key("k"), b"fifth", replaces=second.etag)
        assert caught.value.kind in ("exists", "missing")
        assert self.inside() == {}

    def test_one_of_many_is_the_first(self) -> None:
        together = threading.Barrier(8)

        def put(number: int) -> bool:
            together.wait()
            try:
                self.store.put(self.key("k"), b"%d" % number, replaces="")
            except StoreError as error:
                assert error.kind == "exists"
                return False
            return True

        with ThreadPoolExecutor(8) as threads:
            first = [number for number, is_it in enumerate(threads.map(put, range(8))) if is_it]
        assert len(first) == 1
        assert self.inside() == {"k": b"%d" % first[0]}

    def test_a_manifest_replaces_only_the_one_that_was_seen(self) -> None:
        publish_manifest(self.store, self.key("m"), b"first")
        with pytest.raises(DestinationError, match="another run has published a manifest"):
            publish_manifest(self.store, self.key("m"), b"second")
        publish_manifest(self.store, self.key("m"), b"third", self.stat("m").etag)
        assert self.inside() == {"m": b"third"}

    def test_what_is_not_there_is_deleted_as_well(self) -> None:
        self.place("d/k", b"")
        self.place("d/l", b"")
        assert self.store.delete([self.key("d/k"), self.key("d/other"), self.key("e/k")]) == {}
        assert self.inside() == {"d/l": b""}

    # Looking and listing

    def test_what_others_put_there_is_seen(self) -> None:
        self.place("d/k", DATA)
        stored = self.stat("d/k")
        assert (stored.key, stored.size) == (self.key("d/k"), len(DATA))
        assert stored.crc32c in (None, crc32c(DATA))
        (listed,) = (each for page in self.store.list(self.key("")) for each in page)
        assert (listed.key, listed.size, listed.etag) == (stored.key, stored.size, stored.etag)
        assert abs(listed.modified - stored.modified) < 1
        assert self.store.stat(self.key("d")) is self.store.stat(self.key("d/o")) is None

    def test_a_listing_is_in_the_order_of_bytes(self) -> None:
        there = ["a.b", "a/b", "a0", "b/c/d", "b/c/e", "b/z", "b/ü", "b/ｚ", "b/😀"]
        for path in reversed(there):
            self.place(path, path.encode())
        assert there == sorted(there, key=os.fsencode)
        assert self.paths() == there
        for prefix in ("a", "a/", "b/c", "b/z", "b/c/", "c", "a/b/c"):
            assert self.paths(prefix) == [path for path in there if path.startswith(prefix)]

    def test_a_listing_of_more_than_a_page(self) -> None:
        there = [f"d/{number:04d}" for number in range(1003)]
        for path in there:
            self.place(path, b"")
        assert self.paths("d/") == there
        found = [file.key for level in self.store.levels(self.key("d/")) for file in level.files]
        assert found == [self.key(path) for path in there]

    def test_levels(self) -> None:
        for path in ("a", "d/k", "d/e/k", "d/e/l", "d/f.x/k", "da/k"):
            self.place(path, b"")
        for prefix, files, deeper in [
            ("", ["a"], ["d/", "da/"]),
            ("d", [], ["d/", "da/"]),
            ("d/", ["d/k"], ["d/e/", "d/f.x/"]),
            ("d/e/", ["d/e/k", "d/e/l"], []),
            ("none/", [], []),
        ]:
            levels = list(self.store.levels(self.key(prefix)))
            assert [level.is_last for level in levels] == [False] * (len(levels) - 1) + [True]
            assert [file.key for level in levels for file in level.files] == [*map(self.key, files)]
            found = sorted(key for level in levels for key in level.deeper)
            assert found == [*map(self.key, deeper)]

    # Reading

    def test_ranges(self) -> None:
        self.place("k", DATA)
        size = len(DATA)
        for start, count in [(0, None), (0, 1), (3, 700), (size - 1, None), (9, 2 * size)]:
            stop = size if count is None else start + count
            assert self.bytes_of("k", start, count) == DATA[start:stop]
        buffer = memoryview(bytearray(300))
        with self.store.open(self.key("k"), 10, 400) as reading:
            assert reading.stored.size == size
            assert (got := reading.read_into(buffer)) > 0
            assert bytes(buffer[:got]) + reading.read_all() == DATA[10:410]
            assert reading.read() == b""
        data, stored = self.store.read(self.key("k"))
        assert (data, stored.etag) == (DATA, self.stat("k").etag)
        with pytest.raises(StoreError, match="is larger than the 10 B that are read"):
            self.store.read(self.key("k"), 10)

    def test_only_the_file_that_was_seen_is_read(self) -> None:
        self.place("k", DATA)
        etag = self.stat("k").etag
        assert self.bytes_of("k", 5, 10, etag) == DATA[5:15]
        self.store.put(self.key("k"), b"another")
        with pytest.raises(StoreError) as caught:
            self.bytes_of("k", 5, 10, etag)
        assert caught.value.kind == "exists"

    def test_what_is_missing_is_an_error_of_the_role(self) -> None:
        with pytest.raises(StoreError) as caught:
            self.store.read(self.key("d/k"))
        assert (caught.value.kind, type(caught.value)) == ("missing", StoreError)
        assert self.top in str(caught.value)
        with pytest.raises(DestinationStoreError):
            self.store.in_role(DestinationStoreError).read(self.key("d/k"))

    # Files between the store and this machine

    def test_a_file_goes_there_and_back(self, tmp_path: Path, options: TransferOptions) -> None:
        source, back = tmp_path / "source", tmp_path / "new" / "back"
        for data in (b"", DATA, bytes(3 << 20)):
            source.write_bytes(data)
            os.utime(source, ns=(10**18, 10**18 + 5))
            sent = self.store.send_file(source, self.key("d/k"), options, crc32c(data))
            assert (sent.stored.size, sent.crc32c) == (len(data), crc32c(data))
            assert self.inside() == {"d/k": data}
            listed = self.stat("d/k")
            back.parent.mkdir(exist_ok=True)
            got = self.store.fetch_file(self.key("d/k"), back, options, listed, crc32c(data))
            assert (back.read_bytes(), got.crc32c) == (data, crc32c(data))
            assert back.stat().st_mtime_ns == 10**18 + 5
            assert os.listdir(back.parent) == ["back"]
            self.store.copy_file(self.store, self.stat("d/k"), self.key("e/k"), options)
            assert self.inside() == {"d/k": data, "e/k": data}
            self.store.delete([self.key("e/k")])

    def test_another_file_than_the_expected_one_does_not_arrive(
        self, tmp_path: Path, options: TransferOptions
    ) -> None:
        (here := tmp_path / "here").mkdir()
        (here / "source").write_bytes(DATA)
        with pytest.raises((SourceError, StoreError)):
            self.store.send_file(here / "source", self.key("k"), options, crc32c(b"another"))
        assert self.inside() == {}
        self.place("k", DATA)
        with pytest.raises(StoreError):
            self.store.fetch_file(self.key("k"), here / "back", options, None, crc32c(b"another"))
        assert not (here / "back").exists()

    def test_a_temporary_file_is_taken(self, tmp_path: Path, options: TransferOptions) -> None:
        (tmp_path / "k.partial").write_bytes(DATA)
        taken = self.store.take_file(tmp_path / "k.partial", self.key("k"), options, crc32c(DATA))
        assert taken.stored.size == len(DATA)
        assert self.inside() == {"k": DATA}
        assert not (tmp_path / "k.partial").exists()

    # Files as programs read them

    def test_files_and_directories(self) -> None:
        self.place("d/k", DATA)
        self.place("d/e/k", b"")
        at = f"{self.top}/d"
        assert [exists(f"{at}/{name}") for name in ("k", "e", "o", "k/o")] == [
            True,
            True,
            False,
            False,
        ]
        assert [is_file(f"{at}/{name}") for name in ("k", "e", "o")] == [True, False, False]
        assert [is_dir(f"{at}/{name}") for name in ("k", "e", "o", "")] == [
            False,
            True,
            False,
            True,
        ]
        found = {(each.name, each.path, each.is_file(), each.is_dir()) for each in entries(at)}
        assert found == {("k", f"{at}/k", True, False), ("e", f"{at}/e", False, True)}
        before = facts(f"{at}/k")
        assert before.size == len(DATA)
        self.place("d/k", bytes(len(DATA)))
        assert facts(f"{at}/k") != before

    def test_patterns(self) -> None:
        for path in ("a.tar", "b.tar", ".c.tar", "d/a.tar", "d/e/a.tar"):
            self.place(path, b"")
        for pattern, paths in [
            ("*.tar", ["a.tar", "b.tar"]),
            ("[b-z].tar", ["b.tar"]),
            ("*/a.*", ["d/a.tar"]),
            ("**/a.tar", ["a.tar", "d/a.tar", "d/e/a.tar"]),
            ("none*", []),
        ]:
            assert find_files(f"{self.top}/{pattern}") == [f"{self.top}/{path}" for path in paths]

    def test_a_file_that_is_open(self) -> None:
        self.place("k", DATA)
        with open_file(f"{self.top}/k") as file:
            assert file.facts() == facts(f"{self.top}/k")
            file.ahead(10, 100)
            assert file.pread(10, 10) == DATA[10:20]
            assert file.pread(10, len(DATA) - 4) == DATA[-4:]
            assert (file.tell(), file.read(3), file.tell()) == (0, DATA[:3], 3)
            assert (file.seek(-2, os.SEEK_END), file.read()) == (len(DATA) - 2, DATA[-2:])
            assert file.seek(5) == 5
            assert (file.readinto(buffer := bytearray(4)), bytes(buffer)) == (4, DATA[5:9])

    def test_a_file_as_a_whole(self) -> None:
        self.place("k", DATA)
        path = f"{self.top}/k"
        assert read_bytes(path) == read_sized(path, len(DATA)) == DATA
        assert read_sized(path, 10) is read_sized(path, len(DATA) + 1) is None
        with pytest.raises((OSError, SourceError)):
            read_bytes(path, 10)
        for read in (read_bytes, facts, open_file, lambda each: read_sized(each, 1)):
            with pytest.raises(FileNotFoundError):
                read(f"{self.top}/none")
