"""Copies: found by bytes and by looks, joined, and told where they cross sides."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dsprep.errors import OptionError, SourceError
from dsprep.progress import Progress
from dsprep.splits import leaks
from dsprep.splits.hashes import hash_images, require_numpy
from dsprep.splits.leaks import (
    Leak,
    close_pairs,
    clusters,
    find_leaks,
    find_near,
    find_same,
    join_copies,
)
from dsprep.workers.pool import Pool, Report
from tests.images import draw, encode, jpeg, truncated

properties = settings(deadline=None)


def write(root: Path, files: dict[str, bytes]) -> pl.DataFrame:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return pl.DataFrame(
        {"path": list(files), "size": [len(data) for data in files.values()]},
        schema={"path": pl.String, "size": pl.Int64},
    )


class Here(Pool):
    """A pool whose tasks run in this process."""

    def map(
        self, function: Callable[..., Any], arguments: Iterable[Any], report: Report | None = None
    ) -> list[Any]:
        return [function(argument, report) for argument in arguments]


def same(root: Path, files: pl.DataFrame, pool: Pool | None = None) -> list[list[int]]:
    return find_same(str(root), files, pool or Here(1), Progress())


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([b"", b"a", b"b", b"aa", b"ab"]), min_size=1, max_size=12))
def test_files_of_the_same_bytes_are_copies(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes]
) -> None:
    root = tmp_path_factory.mktemp("copies")
    files = write(root, {f"{number}.jpg": data for number, data in enumerate(contents)})
    expected = [
        [row for row, data in enumerate(contents) if data == content]
        for content in dict.fromkeys(contents)
        if content
    ]
    assert same(root, files) == sorted(rows for rows in expected if len(rows) > 1)


def test_as_many_processes_read_as_the_user_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, started = Pool._start, []

    def counted(pool: Pool) -> Any:
        started.append(pool)
        return start(pool)

    monkeypatch.setattr(Pool, "_start", counted)
    files = write(tmp_path, {f"{number}.jpg": b"%d" % (number % 10) for number in range(300)})
    with Pool(2) as pool:
        found = same(tmp_path, files, pool)
    assert found == [list(range(digit, 300, 10)) for digit in range(10)]
    assert len(started) == 2


def test_only_files_of_equal_size_are_read(tmp_path: Path) -> None:
    files = write(tmp_path, {"a.jpg": b"x" * 10, "b.jpg": b"y" * 11, "c.jpg": b"z" * 11})
    (tmp_path / "a.jpg").unlink()
    assert same(tmp_path, files) == []
    (tmp_path / "b.jpg").unlink()
    with pytest.raises(SourceError, match=r"b\.jpg: cannot be read"):
        same(tmp_path, files)


def test_a_path_that_is_listed_twice_is_its_own_copy(tmp_path: Path) -> None:
    files = write(tmp_path, {"a.jpg": b"x", "b.jpg": b"yy"})
    assert same(tmp_path, pl.concat([files, files.head(1)])) == [[0, 2]]


def test_a_file_that_changed_is_said(tmp_path: Path) -> None:
    files = write(tmp_path, {"a.jpg": b"xx", "b.jpg": b"yy"})
    (tmp_path / "b.jpg").write_bytes(b"yyy")
    with pytest.raises(SourceError, match=r"b\.jpg: has changed"):
        same(tmp_path, files)


@pytest.mark.timeout(20)
def test_a_pipe_in_a_file_s_place_is_not_waited_for(tmp_path: Path) -> None:
    files = write(tmp_path, {"a.jpg": b"xx", "b.jpg": b"yy"})
    (tmp_path / "b.jpg").unlink()
    os.mkfifo(tmp_path / "b.jpg")
    with pytest.raises(SourceError, match=r"b\.jpg: cannot be read: not a regular file"):
        same(tmp_path, files)


HASHES = st.integers(0, 2**64 - 1)


@st.composite
def neighbors(draw: st.DrawFn) -> list[int]:
    """Hashes among which many differ in few bits."""
    found = set(draw(st.lists(HASHES, min_size=1, max_size=4)))
    for _ in range(draw(st.integers(0, 20))):
        base = draw(st.sampled_from(sorted(found)))
        for bit in draw(st.lists(st.integers(0, 63), max_size=5)):
            base ^= 1 << bit
        found.add(base)
    return draw(st.permutations(sorted(found)))


def pairs_of(hashes: list[int], distance: int) -> set[tuple[int, int]]:
    found = close_pairs(pl.Series(hashes, dtype=pl.UInt64), distance)
    return {pair for part in found for pair in part.iter_rows()}


def differing(hashes: list[int], distance: int) -> set[tuple[int, int]]:
    """What takes n^2 comparisons."""
    return {
        (left, right)
        for left, right in combinations(range(len(hashes)), 2)
        if (hashes[left] ^ hashes[right]).bit_count() <= distance
    }


FEW = settings(max_examples=30, deadline=None)
"""Each example takes many queries."""


@FEW
@given(neighbors(), st.integers(0, 16))
def test_close_hashes_are_those_that_differ_in_few_bits(hashes: list[int], distance: int) -> None:
    assert pairs_of(hashes, distance) == differing(hashes, distance)


@FEW
@given(neighbors(), st.integers(0, 6), st.sampled_from([10**4, 10**6, 10**9]))
def test_pairs_are_the_same_in_the_bands_for_more(
    hashes: list[int], distance: int, count: int
) -> None:
    chosen = leaks._choices(count, distance)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaks, "_choices", lambda *_: chosen[:])
        assert pairs_of(hashes, distance) == differing(hashes, distance)


@FEW
@given(neighbors())
def test_pairs_are_the_same_a_few_at_a_time(hashes: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dsprep.splits.leaks._PAIRS_AT_ONCE", 2)
        assert pairs_of(hashes, 4) == differing(hashes, 4)


@FEW
@given(neighbors(), st.integers(0, 6), st.booleans())
def test_clusters_are_what_close_pairs_connect(
    hashes: list[int], distance: int, in_pieces: bool
) -> None:
    expected = list(range(len(hashes)))
    for left, right in sorted(differing(hashes, distance)):
        low, high = sorted((expected[left], expected[right]))
        expected = [low if each == high else each for each in expected]
    with pytest.MonkeyPatch.context() as patch:
        if in_pieces:
            patch.setattr("dsprep.splits.leaks._PAIRS_AT_ONCE", 2)
        found = clusters(pl.Series(hashes, dtype=pl.UInt64), distance)
    assert found.to_list() == expected


def test_a_hundred_thousand_hashes_are_not_compared_each_with_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = 0
    pairs_with_a_band = leaks._same_keys

    def counting(table: pl.DataFrame) -> Iterator[pl.DataFrame]:
        nonlocal compared
        for pairs in pairs_with_a_band(table):
            compared += len(pairs)
            yield pairs

    monkeypatch.setattr(leaks, "_same_keys", counting)
    numbers = [number * 0x9E3779B97F4A7C15 % 2**64 for number in range(100_000)]
    clusters(pl.Series(numbers, dtype=pl.UInt64), 4)
    assert compared < 5_000_000


def hashes_of(root: Path, *names: str) -> list[int | None]:
    return hash_images((str(root), names), lambda *_: None)


def test_one_picture_in_several_files_looks_alike(tmp_path: Path) -> None:
    picture = draw(3, (400, 300))
    turned = picture.transpose(Image.Transpose.ROTATE_90)
    write(
        tmp_path,
        {
            "original.png": encode(picture, "PNG"),
            "jpeg.jpg": encode(picture, "JPEG", quality=60),
            "small.jpg": encode(picture.resize((200, 150)), "JPEG"),
            "large.webp": encode(picture.resize((800, 600)), "WEBP"),
            "gray.png": encode(picture.convert("L"), "PNG"),
            "turned.jpg": encode(turned, "JPEG", orientation=6),
        },
    )
    hashes = hashes_of(tmp_path, *sorted(path.name for path in tmp_path.iterdir()))
    assert None not in hashes
    joined = join_copies([], find_near(hashes, 4))
    assert [each[1] for each in joined] == [[0, 1, 2, 3, 4, 5]]


def test_different_pictures_do_not(tmp_path: Path) -> None:
    random = Random(0)
    noise = [Image.frombytes("L", (64, 64), random.randbytes(4096)) for _ in range(12)]
    write(tmp_path, {f"{i}.png": encode(each, "PNG") for i, each in enumerate(noise)})
    hashes = hashes_of(tmp_path, *(f"{i}.png" for i in range(12)))
    assert None not in hashes
    assert find_near(hashes, 4) == []


def test_what_does_not_decode_has_no_look(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"a.jpg": truncated(jpeg(0)), "b.jpg": b"", "c.jpg": b"no image", "d.jpg": jpeg(0)},
    )
    hashes = hashes_of(tmp_path, "a.jpg", "b.jpg", "c.jpg", "gone.jpg", "d.jpg")
    assert [each is None for each in hashes] == [True, True, True, True, False]
    assert find_near(hashes, 4) == []


def test_without_the_library_one_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    require_numpy()
    monkeypatch.setattr("dsprep.images.phash.find_spec", lambda name: None)
    with pytest.raises(OptionError, match="pip install numpy"):
        require_numpy()


SETS = st.lists(st.lists(st.integers(0, 15), min_size=2, max_size=4, unique=True), max_size=6)


@properties
@given(SETS, SETS)
def test_joined_sets_are_those_that_are_connected(
    same: list[list[int]], near: list[list[int]]
) -> None:
    connected: list[set[int]] = []
    for rows in (*same, *near):
        touched = [each for each in connected if each & set(rows)]
        rest = [each for each in connected if each not in touched]
        connected = [*rest, set(rows).union(*touched)]
    joined = join_copies(same, near)
    assert sorted(each[1] for each in joined) == sorted(map(sorted, connected))
    assert [each[1][0] for each in joined] == sorted(each[1][0] for each in joined)
    exact = [sorted(rows) for rows in same]
    for each in joined:
        assert each[0] == ("same" if each[1] in exact else "near")


def test_leaks_are_copies_on_different_sides() -> None:
    copies = [("same", [0, 2]), ("near", [1, 3, 4])]
    sides = pl.Series(["train", "train", "train", "val", "train"])
    paths = pl.Series(["a", "b", "c", "d", "e"])
    assert find_leaks(copies, sides, paths) == [
        Leak("near", [("train", "b"), ("val", "d"), ("train", "e")])
    ]
