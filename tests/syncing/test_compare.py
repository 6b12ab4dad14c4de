"""What decides whether a file is sent."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pytest

from dsprep.storage.stored import Stored
from dsprep.syncing.compare import Verdict, by_content, by_listing, has_crc32c

MD5 = hashlib.md5(b"data").hexdigest()
PARTS = f"{MD5}-2"


def stored(size: int = 4, etag: str = "", modified: float = 0.0) -> Stored:
    return Stored("a", size, modified, etag)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (None, Verdict(True, "missing")),
        (stored(5), Verdict(True, "size")),
        (stored(4, PARTS), Verdict(False, "etag")),
        (stored(4, MD5), None),
        (stored(4), None),
    ],
)
def test_first_sight(found: Stored | None, verdict: Verdict | None) -> None:
    assert by_listing(stored(4, PARTS), found) == verdict


def test_no_etags_are_not_equal_ones() -> None:
    assert by_listing(stored(), stored()) is None


def test_nothing_is_like_nothing() -> None:
    assert by_listing(stored(0), stored(0)) == Verdict(False, "size")


def test_size_alone_if_that_is_asked_for() -> None:
    assert by_listing(stored(4), stored(4), size_only=True) == Verdict(False, "size")
    assert by_listing(stored(4), stored(5), size_only=True) == Verdict(True, "size")


@dataclass
class Known:
    """A content of which so much is known."""

    digest: bytes | None = None
    crc: tuple[int, str] | None = None
    is_read: bool = False
    bytes: int | None = None
    asked: int = 0

    @property
    def may_be_wrong(self) -> bool:
        return self.bytes is not None

    def md5(self) -> bytes | None:
        return self.digest

    def crc32c(self, with_noted: bool = True) -> tuple[int, str] | None:
        self.asked += 1
        return self.crc

    def read_crc32c(self) -> int:
        assert self.bytes is not None, "is not to be read"
        return self.bytes


@pytest.mark.parametrize(
    ("source", "found", "verdict"),
    [
        (Known(b"1"), Known(b"1"), Verdict(False, "etag")),
        (Known(b"1"), Known(b"2"), Verdict(True, "etag")),
        (Known(b"1", (1, "checksum")), Known(b"2"), Verdict(True, "etag")),
        (Known(b"1", (1, "checksum")), Known(b"2", (2, "metadata")), Verdict(True, "metadata")),
        (Known(crc=(1, "checksum")), Known(crc=(1, "checksum")), Verdict(False, "checksum")),
        (Known(crc=(1, "checksum")), Known(crc=(2, "checksum")), Verdict(True, "checksum")),
        (Known(crc=(1, "checksum")), Known(crc=(1, "metadata")), Verdict(False, "metadata")),
        (Known(b"1", (1, "checksum")), Known(crc=(2, "metadata")), Verdict(True, "metadata")),
        (
            Known(crc=(1, "checksum")),
            Known(crc=(2, "checksum"), bytes=1),
            Verdict(False, "download"),
        ),
        (
            Known(crc=(1, "checksum")),
            Known(crc=(2, "checksum"), bytes=3),
            Verdict(True, "download"),
        ),
        (
            Known(crc=(1, "checksum")),
            Known(crc=(1, "checksum"), bytes=3),
            Verdict(False, "checksum"),
        ),
        (Known(crc=(1, "checksum")), Known(), Verdict(True, "time")),
    ],
)
def test_contents(source: Known, found: Known, verdict: Verdict) -> None:
    assert by_content(source, found, newer=True) == verdict


def test_an_etag_that_kms_made_is_no_md5() -> None:
    encrypted = Known(b"random", (1, "metadata"))
    assert by_content(Known(b"1", (1, "checksum")), encrypted, True) == Verdict(False, "metadata")


def test_the_newer_one_is_sent_where_nothing_else_tells() -> None:
    assert by_content(Known(), Known(), newer=False) == Verdict(False, "time")


def test_a_file_is_not_read_if_the_other_side_tells_nothing() -> None:
    read = Known(crc=(1, "checksum"), is_read=True)
    by_content(read, Known(), newer=False)
    assert not read.asked


def test_what_a_head_tells() -> None:
    noted = {"dsprep-crc32c": "00000002"}
    assert Stored("a", 1, 0.0).known_crc32c is None
    assert Stored("a", 1, 0.0, metadata=noted).known_crc32c == (2, "metadata")
    assert Stored("a", 1, 0.0, crc32c=1, metadata=noted).known_crc32c == (1, "checksum")
    assert Stored("a", 1, 0.0, metadata={"dsprep-crc32c": "x"}).known_crc32c is None


@pytest.mark.parametrize("crc32c", [1, 2])
def test_what_a_manifest_tells_is_held_against_what_is_known(crc32c: int) -> None:
    known, read = Known(crc=(1, "metadata")), Known(crc=(1, "checksum"), is_read=True)
    assert has_crc32c(crc32c, [known]) == (crc32c == 1)
    assert has_crc32c(crc32c, [read, known]) == (crc32c == 1)
    assert not read.asked
    assert has_crc32c(crc32c, [read, Known()]) == (crc32c == 1)
