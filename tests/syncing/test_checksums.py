"""What is remembered of files: never of one that may have changed, and never what was damaged."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import google_crc32c
import pytest

from dsprep.storage.s3.config import S3Config
from dsprep.syncing import checksums, sides
from dsprep.syncing.checksums import Checksums, Sums, look
from dsprep.syncing.sides import Directory
from dsprep.syncing.sync import sync
from tests.servers.bucket import Bucket
from tests.syncing.folders import tree

DATA = b"some bytes"
OTHER = b"other data"
LONG_AGO = 10**18


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache directory, in which all files count as written long before they are read."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(checksums, "_JUST_NOW", -(10**10))
    return tmp_path / "cache" / "dsprep" / "checksums"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were read, in order."""
    names: list[str] = []
    pieces = sides._FileContent.pieces

    def noted(self: sides._FileContent) -> Iterator[memoryview]:
        names.append(Path(self.path).name)
        return pieces(self)

    monkeypatch.setattr(sides._FileContent, "pieces", noted)
    return names


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "below").mkdir(parents=True)
    for name in ("a", "below/b"):
        (tmp_path / "root" / name).write_bytes(DATA)
        os.utime(tmp_path / "root" / name, ns=(LONG_AGO, LONG_AGO))
    return tmp_path / "root"


def run(root: Path, trusted: bool = True) -> dict[str, tuple[bytes | None, int]]:
    """Ask for the checksums of all files, as a run of `sync` does."""
    side = Directory(root, checksums=Checksums(root, trusted))
    contents = {path: side.content(file) for path, file in side.list().files.items()}
    found = {path: (each.md5(), each.read_crc32c()) for path, each in contents.items()}
    side.checksums.save()
    return found


def right(data: bytes = DATA) -> tuple[bytes, int]:
    return hashlib.md5(data).digest(), google_crc32c.value(data)


def test_a_listing_knows_the_md5_of_unchanged_files(root: Path, cache: Path) -> None:
    def etags(trusted: bool = True) -> list[str]:
        listing = Directory(root, checksums=Checksums(root, trusted)).list()
        return [file.etag for file in listing.files.values()]

    assert etags() == ["", ""]
    run(root)
    assert etags() == [right()[0].hex()] * 2
    assert etags(trusted=False) == ["", ""]
    rewrite_in_place(root / "a")
    assert etags() == ["", right()[0].hex()]


def test_an_unchanged_file_is_read_once(root: Path, cache: Path, read: list[str]) -> None:
    before = tree(root)
    for _ in range(3):
        assert run(root) == {"a": right(), "below/b": right()}
    assert read == ["a", "b"]
    assert tree(root) == before
    (saved,) = cache.iterdir()
    assert saved.stat().st_size < 200
    assert cache.stat().st_mode & 0o777 == 0o700


def rewrite(path: Path) -> None:
    path.write_bytes(OTHER)


def rewrite_in_place(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(OTHER)


def replace(path: Path) -> None:
    new = path.with_name("new")
    new.write_bytes(OTHER)
    os.utime(new, ns=(LONG_AGO, LONG_AGO))
    new.replace(path)


@pytest.mark.parametrize("change", [rewrite, rewrite_in_place, replace])
def test_a_change_that_keeps_size_and_time_is_seen(
    root: Path, cache: Path, read: list[str], change: object
) -> None:
    assert callable(change)
    run(root)
    change(root / "a")
    os.utime(root / "a", ns=(LONG_AGO, LONG_AGO))
    assert run(root) == {"a": right(OTHER), "below/b": right()}
    assert read == ["a", "b", "a"]


def test_a_file_that_was_just_written_is_not_remembered(
    root: Path, cache: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parents[1]))
    run(root)
    assert not cache.exists()


def test_a_file_that_changes_while_it_is_read_is_not_remembered(root: Path, cache: Path) -> None:
    known = Checksums(root)
    before = look(root / "a")
    rewrite(root / "a")
    known.note(root / "a", before, Sums(1))
    assert known.get(before) is None
    known.note(root / "gone", before, Sums(1))


def test_what_is_not_trusted_is_read(root: Path, cache: Path, read: list[str]) -> None:
    wrong = Checksums(root)
    wrong.note(root / "a", look(root / "a"), Sums(7, bytes(range(16))))
    wrong.save()
    assert run(root, trusted=False)["a"] == right()
    assert run(root)["a"] == right()
    assert read == ["a", "a", "b", "b"]


def test_a_crc32c_alone_is_no_md5(root: Path, cache: Path, read: list[str]) -> None:
    side = Directory(root, checksums=Checksums(root))
    side.content(side.list().files["a"]).read_crc32c()
    side.checksums.save()
    assert run(root)["a"] == right()
    assert read == ["a", "a", "b"]


def test_gone_files_are_forgotten(root: Path, cache: Path) -> None:
    run(root)
    (saved,) = cache.iterdir()
    size = saved.stat().st_size
    (root / "a").unlink()
    run(root)
    assert saved.stat().st_size == size - checksums._ENTRY.size


def test_directories_and_entries_are_limited(
    root: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums, "_MOST_DIRECTORIES", 3)
    for number in range(6):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "a").write_bytes(DATA)
        run(tmp_path / f"{number}")
    assert len(list(cache.iterdir())) == 3
    monkeypatch.setattr(checksums, "_MOST_ENTRIES", 1)
    run(root)
    newest = max(cache.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    assert newest.stat().st_size == len(checksums._HEAD) + checksums._ENTRY.size + 4


def test_damage_is_noticed_wherever_it_is(root: Path, cache: Path) -> None:
    run(root)
    (saved,) = cache.iterdir()
    good = saved.read_bytes()
    assert len(checksums._load(saved)) == 2
    for at in range(len(good)):
        saved.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert checksums._load(saved) == {}
        saved.write_bytes(good[:at])
        assert checksums._load(saved) == {}
    saved.write_bytes(good + b"\0")
    assert checksums._load(saved) == {}


def with_checksum(body: bytes) -> bytes:
    return body + google_crc32c.value(body).to_bytes(4, "big")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        with_checksum(b""),
        with_checksum(b"dsprep checksums 2\n"),
        with_checksum(b"dsprep checksums 1\n" + b"x" * 61),
        with_checksum(b"dsprep checksums 1\n" + b"\xff" * 60),
        with_checksum(b"[" * 100_000),
    ],
)
def test_a_foreign_file_is_not_believed(root: Path, cache: Path, data: bytes) -> None:
    run(root)
    (saved,) = cache.iterdir()
    good = saved.read_bytes()
    saved.write_bytes(data)
    assert run(root) == {"a": right(), "below/b": right()}
    assert saved.read_bytes() == good


def test_a_cache_that_cannot_be_used_does_no_harm(
    root: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def works() -> None:
        assert run(root) == {"a": right(), "below/b": right()}

    works()
    (saved,) = cache.iterdir()
    saved.unlink()
    os.mkfifo(saved)
    works()
    saved.unlink()
    saved.mkdir()
    works()
    monkeypatch.setenv("HOME", str(tmp_path))
    for place in ("/dev/null", "/proc", "relative", str(tmp_path / "root" / "a")):
        monkeypatch.setenv("XDG_CACHE_HOME", place)
        works()
    assert (tmp_path / ".cache" / "dsprep").exists()  # a relative path counts as none
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "relative")
    works()
    assert not Path("relative").exists()


def test_the_cache_of_another_user_is_not_believed(
    root: Path, cache: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(root)
    monkeypatch.setattr(os, "geteuid", lambda: cache.stat().st_uid + 1)
    run(root)
    assert read == ["a", "b"] * 2


def test_several_runs_at_once(root: Path, cache: Path) -> None:
    for number in range(200):
        (root / f"{number}").write_bytes(DATA)
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(run, [root] * 24))
    assert all(set(result.values()) == {right()} for result in results)
    assert len(run(root)) == 202
    assert sorted(path.suffix for path in cache.iterdir())[:1] == [""]


def test_a_sync_reads_nothing_again(
    ceph: Bucket, root: Path, cache: Path, read: list[str], tmp_path: Path
) -> None:
    config = S3Config(endpoint=ceph.endpoint)
    sync(str(root), ceph.url, config=config)
    again = sync(str(root), ceph.url, config=config)
    assert (again.state, again.same, read) == ("already there", {"etag": 2}, [])
    rewrite_in_place(root / "a")
    os.utime(root / "a", ns=(LONG_AGO, LONG_AGO))
    planned = sync(str(root), ceph.url, config=config, dry_run=True)
    assert [(each.path, each.by) for each in planned.sent] == [("a", "metadata")]
    # A file system without ctime would show the file as it was when it was remembered.
    known = Checksums(root)
    known.see(os.stat(root / "below" / "b"))
    known.note(root / "a", look(root / "a"), Sums(*reversed(right())))
    known.save()
    assert sync(str(root), ceph.url, config=config).state == "already there"
    assert [each.path for each in sync(str(root), ceph.url, config=config, verify=True).sent] == [
        "a"
    ]
    assert ceph.contents() == tree(root)
    # Down, into a directory and for one file.
    for _ in range(2):
        down = sync(ceph.url, str(tmp_path / "down"), config=config)
    assert down.state == "already there"
    read.clear()
    sync(ceph.url, str(tmp_path / "down"), config=config)
    assert read == []
    sync(str(root / "a"), ceph.url, config=config)
    read.clear()
    assert sync(str(root / "a"), ceph.url, config=config).state == "already there"
    assert read == []


def test_a_dry_run_writes_nothing(ceph: Bucket, root: Path, cache: Path) -> None:
    config = S3Config(endpoint=ceph.endpoint)
    sync(str(root), ceph.url, config=config)
    (saved,) = cache.iterdir()
    saved.unlink()
    sync(str(root), ceph.url, config=config, dry_run=True)
    assert not list(cache.iterdir())
