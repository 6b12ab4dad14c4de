"""Files are cut into parts within S3's limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.errors import OptionError
from dsprep.storage.stored import UploadPart
from dsprep.storage.transfer import (
    GIB,
    LARGEST_OBJECT,
    LARGEST_PART,
    MIB,
    MOST_PARTS,
    SMALLEST_PART,
    cut,
    fits,
    plan_copy,
    plan_parts,
)

TIB = 1024 * GIB


@given(
    size=st.integers(0, LARGEST_OBJECT),
    part_size=st.just(0) | st.integers(SMALLEST_PART, LARGEST_PART),
)
def test_the_limits_are_kept(size: int, part_size: int) -> None:
    for plan in (plan_parts(size, part_size), plan_copy(size)):
        first, last = plan[0], plan[-1]
        assert 1 <= len(plan) <= MOST_PARTS
        assert len(plan) == 1 or SMALLEST_PART <= first.size <= LARGEST_PART
        assert first.start == 0
        assert last.start + last.size == size
        assert 0 < last.size <= first.size or size == 0
        assert last.number == len(plan)


@given(size=st.integers(0, 2000 * MIB), part_size=st.integers(SMALLEST_PART, 64 * MIB))
def test_parts_are_the_whole_without_gaps(size: int, part_size: int) -> None:
    at = 0
    for number, part in enumerate(plan_parts(size, part_size), 1):
        assert (part.number, part.start) == (number, at)
        at += part.size
    assert at == size


@pytest.mark.parametrize(
    ("size", "parts", "part_size"),
    [
        (0, 1, 0),
        (1, 1, 1),
        (32 * MIB, 1, 32 * MIB),
        (32 * MIB + 1, 2, 32 * MIB),
        (50 * GIB, 985, 52 * MIB),
        (100 * GIB, 1600, 64 * MIB),
        (5 * TIB, 9987, 525 * MIB),
        (LARGEST_OBJECT, 10_000, 5 * GIB),
    ],
)
def test_the_default(size: int, parts: int, part_size: int) -> None:
    plan = plan_parts(size)
    assert (len(plan), plan[0].size) == (parts, part_size)


def test_the_largest_object_is_of_48_8_tib() -> None:
    assert round(LARGEST_OBJECT / TIB, 1) == 48.8
    with pytest.raises(OptionError, match="a.tar: has 53.7 TB, and S3 takes at most 53.7 TB"):
        plan_parts(LARGEST_OBJECT + 1, name="a.tar")


@pytest.mark.parametrize("part_size", [1, SMALLEST_PART - 1, LARGEST_PART + 1])
def test_a_part_size_that_s3_does_not_take(part_size: int) -> None:
    with pytest.raises(OptionError, match="from 5 MiB to 5 GiB"):
        plan_parts(1, part_size)


def test_a_part_size_that_makes_too_many_parts_grows() -> None:
    assert len(plan_parts(TIB, SMALLEST_PART)) <= MOST_PARTS


def test_a_copy_is_one_request_up_to_5_gib() -> None:
    assert len(plan_copy(5 * GIB)) == 1
    assert len(plan_copy(5 * GIB + 1)) == 11


@pytest.mark.parametrize(
    "part",
    [UploadPart(0, 7, ""), UploadPart(3, 8, ""), UploadPart(4, 8, ""), UploadPart(-1, 8, "")],
)
def test_a_part_that_is_none(part: UploadPart) -> None:
    plan = cut(23, 8)
    assert fits(plan, [UploadPart(1, 8, ""), UploadPart(3, 7, "")])
    assert not fits(plan, [part])
