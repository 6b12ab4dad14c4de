"""Which ranges of an object are fetched, and which are kept."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from dsprep.places.prefetch import asked_ahead
from dsprep.storage import objects
from dsprep.storage.objects import ObjectFile, ObjectStore
from dsprep.storage.stored import Stored

SAMPLE = 1000
HEADER = 500
COUNT = 3000
DATA = bytes(range(251)) * (COUNT * (SAMPLE + HEADER) // 251)


class Fetched(ObjectStore):
    """An object of DATA, and the ranges of it that were fetched.

    Attributes:
        sizes: Their bytes.
    """

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def url(self, key: str) -> str:
        return f"s3://b/{key}"

    def look_up(self, key: str) -> Stored:
        return Stored(key, len(DATA), 0.0, "e")

    def read_range(self, key: str, start: int, size: int, etag: str) -> bytes:
        self.sizes.append(size)
        return DATA[start : start + size]


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> Fetched:
    """Units are a hundredth as large as those of real objects."""
    for name in ("_FIRST", "_LARGEST", "_GAP", "_NEAR"):
        monkeypatch.setattr(objects, name, getattr(objects, name) // 100)
    return Fetched()


def read(file: ObjectFile, places: Iterable[int]) -> int:
    """Read samples as readers do; returns how many bytes that were asked for were kept at most."""

    def ask(place: int) -> int:
        file.ahead(place, SAMPLE)
        return SAMPLE

    kept = 0
    for place in asked_ahead(places, ask):
        assert file.pread(SAMPLE, place) == DATA[place : place + SAMPLE]
        kept = max(kept, sum(each.stop - each.start for each in file._asked))
    return kept


def test_samples_in_order_of_which_some_are_left_out(fetched: Fetched) -> None:
    places = [n * (SAMPLE + HEADER) for n in range(COUNT) if n % 10]
    file = ObjectFile(fetched, "k")
    assert read(file, places) <= 70 * SAMPLE
    assert sum(fetched.sizes) < 1.1 * len(DATA)
    file.close()


def test_scattered_samples_take_a_range_each(fetched: Fetched) -> None:
    places = [n * 1013 % COUNT * (SAMPLE + HEADER) for n in range(COUNT)]
    file = ObjectFile(fetched, "k")
    assert read(file, places) <= 70 * SAMPLE
    assert len(fetched.sizes) == COUNT
    file.close()


def test_what_is_asked_for_and_never_read_is_not_kept(fetched: Fetched) -> None:
    file = ObjectFile(fetched, "k")
    for n in range(COUNT):
        file.ahead(n * 1013 % COUNT * (SAMPLE + HEADER), SAMPLE)
    assert len(file._asked) < 200
    file.close()
