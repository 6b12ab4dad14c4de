"""Checksums of parts make that of the whole."""

from __future__ import annotations

import hashlib

import google_crc32c
from hypothesis import given
from hypothesis import strategies as st

from dsprep.storage.stored import Stored, UploadPart, combine_all, crc32c

CHECK = 0xE3069283
"""Of "123456789" (catalog of parametrised CRC algorithms, CRC-32/ISCSI)."""


def test_the_golden_value() -> None:
    assert crc32c(b"123456789") == CHECK
    assert combine_all([(crc32c(b"1234"), 4), (crc32c(b"56789"), 5)]) == CHECK
    assert combine_all([(crc32c(b""), 0), (crc32c(b"123456789"), 9), (0, 0)]) == CHECK


@given(st.binary(), st.binary())
def test_two_runs_are_one(first: bytes, second: bytes) -> None:
    whole = google_crc32c.value(first + second)
    assert crc32c(second, crc32c(first)) == whole


@given(st.lists(st.binary(max_size=40)))
def test_many_runs_are_one(runs: list[bytes]) -> None:
    value = combine_all((crc32c(run), len(run)) for run in runs)
    assert value == google_crc32c.value(b"".join(runs))


@given(
    values=st.lists(st.integers(0, 2**32 - 1), min_size=3, max_size=3),
    sizes=st.lists(st.integers(0, 2**46), min_size=2, max_size=2),
)
def test_how_large_runs_are_grouped_does_not_matter(values: list[int], sizes: list[int]) -> None:
    a, b, c = values
    end = combine_all([(b, sizes[0]), (c, sizes[1])])
    runs = [(a, 0), (b, sizes[0]), (c, sizes[1])]
    assert combine_all(runs) == combine_all([(a, 0), (end, sum(sizes))])


@given(st.binary())
def test_every_kind_of_buffer(data: bytes) -> None:
    buffer = bytearray(data)
    view = memoryview(b"." + data)[1:]
    assert crc32c(data) == crc32c(buffer) == crc32c(memoryview(buffer)) == crc32c(view)


def test_the_etag_of_parts() -> None:
    digests = [hashlib.md5(part).digest() for part in (b"one", b"two")]
    parts = [UploadPart(number, 3, digest.hex()) for number, digest in enumerate(digests, 1)]
    etag = hashlib.md5(b"".join(digests)).hexdigest() + "-2"
    assert Stored("k", 6, 0.0, etag).is_made_of(parts)
    assert not Stored("k", 6, 0.0, etag).is_made_of(parts[::-1])
    assert not Stored("k", 6, 0.0, etag).is_made_of([UploadPart(1, 6, "no hex")])
