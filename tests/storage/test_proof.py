"""What metadata says of a file, whoever wrote it."""

from __future__ import annotations

import pytest

from dsprep.storage.stored import MTIME, metadata_of, said_mtime_ns


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1", 1.0),
        ("1.5", 1.5),
        ("1.", 1.0),
        ("", None),
        ("1.²", None),
        ("²", None),
        ("-1", None),
        ("1.5.5", None),
        ("9" * 12, None),
    ],
)
def test_times_that_are_said(text: str, seconds: float | None) -> None:
    told = said_mtime_ns({MTIME: text})
    assert told == (None if seconds is None else int(seconds * 10**9))


def test_a_time_comes_back() -> None:
    assert said_mtime_ns(metadata_of(1_700_000_000_123_456_789)) == 1_700_000_000_123_456_789
