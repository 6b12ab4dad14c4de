"""What every format promises, whichever it is.

A shard is its encoded samples, one after another, and a trailer; reading gives back what was
written, tells where it lies, and answers damage with `DamagedShard` and nothing else.
"""

from __future__ import annotations

import gzip
import random
import tracemalloc
from itertools import accumulate, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsprep.errors import BadSample, DamagedShard, OptionError
from dsprep.formats import (
    CONCATENATIVE,
    FORMATS,
    IN_SPANS,
    SHARDED,
    TABLES,
    format_of_file,
    format_of_source,
    shard_stem,
)
from dsprep.formats.base import Entry, Format
from dsprep.formats.stream import ShardStream
from dsprep.rows import Rows
from dsprep.sample import key_of
from tests.formats.layouts import (
    JPEG,
    LABELS,
    LAYOUTS,
    Picture,
    compressed,
    encode,
    key_in_shard,
    layout_for,
    pictures,
    read,
    read_into,
    shard,
    typed,
    write,
)

every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
every_framing = pytest.mark.parametrize(
    "layout",
    [layout for name, layout in LAYOUTS.items() if name in CONCATENATIVE or layout.compressed],
    ids=[name for name, layout in LAYOUTS.items() if name in CONCATENATIVE or layout.compressed],
)
every_labeled_layout = pytest.mark.parametrize(
    ("layout", "samples"),
    [
        pytest.param(layout, pictures(labels), id=f"{name}-{kind}")
        for name, layout in LAYOUTS.items()
        for kind, labels in LABELS.items()
    ],
)

properties = settings(max_examples=50, deadline=None)

A_FEW = [
    Picture(number, f"d/{number}.jpg", JPEG[:3] + bytes([number] * size), LABELS["detection"][0])
    for number, size in enumerate((9, 0, 70))
]
"""Samples small enough to try every byte of their shard."""


def test_every_format_is_tested() -> None:
    written = {kind for name, kind in IN_SPANS.items() if name in SHARDED}
    assert {type(layout) for layout in LAYOUTS.values()} == written


def test_formats_are_what_they_are_listed_as() -> None:
    for name, kind in FORMATS.items():
        assert kind.name == name
        assert kind.concatenative == (name in CONCATENATIVE or name in TABLES)
        assert kind.in_spans == (name in IN_SPANS or name in TABLES)
        assert kind.is_tree == (name not in SHARDED)


def test_no_attribute_is_set_for_exactly_one_format() -> None:
    """Which would be a question for that format in disguise."""
    for name, default in vars(Format).items():
        if name in Format.__annotations__ and name != "schema":
            others = [kind for kind in FORMATS.values() if getattr(kind, name) != default]
            assert len(others) != 1, name


class TestRoundTrip:
    @every_labeled_layout
    def test_gives_back_keys_images_labels_and_order(
        self, layout: Format, samples: list[Picture], tmp_path: Path
    ) -> None:
        path = write(layout, samples, tmp_path / f"shard{layout.file_suffix}")
        with ShardStream(str(path)) as stream:
            found = [entry.sample for entry in layout.read(stream)]
        assert [each.key for each in found] == [
            key_in_shard(*each) for each in zip(samples, found, strict=True)
        ]
        for raw, picture in zip(found, samples, strict=True):
            sample = typed(layout, picture, raw)
            assert sample.image == "image"
            assert sample.fields["image"] == picture.data
            if picture.label is not None:
                assert sample.fields["label"] == picture.label

    @every_labeled_layout
    def test_entries_tell_where_samples_lie(
        self, layout: Format, samples: list[Picture], tmp_path: Path
    ) -> None:
        path = write(layout, samples, tmp_path / f"shard{layout.file_suffix}")
        data = gzip.decompress(path.read_bytes()) if layout.compressed else path.read_bytes()
        entries = read(layout, path.read_bytes())
        for entry, picture in zip(entries, samples, strict=True):
            assert data[entry.offset : entry.offset + entry.size] == encode(layout, picture)
        end = entries[-1].offset + entries[-1].size
        assert data[end:] == layout.trailer(end)

    @every_layout
    def test_a_shard_without_samples(self, layout: Format) -> None:
        assert read(layout, compressed(layout, shard(layout, []))) == []

    @every_layout
    def test_any_image_at_any_path(self, layout: Format) -> None:
        @properties
        @given(st.lists(any_pictures, max_size=4, unique_by=lambda each: key_of(each.path)))
        def check(samples: list[Picture]) -> None:
            admitted = [each for each in samples if admits(layout, each)]
            entries = read(layout, compressed(layout, shard(layout, admitted)))
            for entry, picture in zip(entries, admitted, strict=True):
                assert entry.sample.key == key_in_shard(picture, entry.sample)
                assert typed(layout, picture, entry.sample).fields["image"] == picture.data

        check()


MAGIC = b"\x0a\x23\xd7\xce"
"""RecordIO's, which an image may hold by chance or by malice."""

any_bytes = st.lists(st.binary(max_size=9) | st.just(MAGIC), max_size=9).map(b"".join)
any_image = st.tuples(st.sampled_from([b"", JPEG[:3], b"BM"]), any_bytes).map(b"".join)
any_name = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=300
)
any_path = st.tuples(st.lists(any_name, max_size=2), any_name).map(
    lambda parts: "/".join([*parts[0], parts[1] + ".jpg"])
)
any_pictures = st.builds(
    Picture,
    index=st.integers(0, 2**63 - 1),
    path=any_path,
    data=any_image,
    label=st.sampled_from(LABELS["detection"]),
)


def admits(layout: Format, picture: Picture) -> bool:
    """Whether a format takes a sample; what it refuses is a reject and has a reason."""
    try:
        encode(layout, picture)
    except (BadSample, OptionError) as error:
        assert str(error)
        return False
    return True


class TestDamage:
    """Every prefix of a shard, every bit of it, any bytes at all."""

    @every_framing
    def test_a_shard_cut_anywhere(self, layout: Format) -> None:
        whole = shard(layout, A_FEW)
        on_disk = compressed(layout, whole)
        samples = [entry.sample for entry in read(layout, on_disk)]
        ends = [0, *accumulate(len(encode(layout, each)) for each in A_FEW)]
        # A trailer or gzip tells that something is missing. Otherwise a cut between two samples
        # leaves a shard that is whole.
        tells = layout.compressed or bool(layout.trailer(0))
        for size in range(len(on_disk)):
            found: list[Entry] = []
            try:
                read_into(found, layout, on_disk[:size])
            except DamagedShard as damage:
                assert 0 <= damage.offset <= (len(whole) if layout.compressed else size)
            else:
                if tells and size > 0:
                    assert len(found) == len(A_FEW)
                else:
                    assert size == ends[len(found)]
            assert [entry.sample for entry in found] == samples[: len(found)]

    @every_framing
    def test_any_flipped_bit(self, layout: Format) -> None:
        on_disk = compressed(layout, shard(layout, A_FEW[:1]))
        for position in range(min(len(on_disk), 1024)):
            for bit in range(8):
                flipped = bytearray(on_disk)
                flipped[position] ^= 1 << bit
                only_damage(layout, bytes(flipped))

    @every_framing
    def test_any_bytes(self, layout: Format) -> None:
        @properties
        @given(st.binary())
        def check(data: bytes) -> None:
            only_damage(layout, data)
            only_damage(layout, gzip.compress(data))

        check()

    @every_framing
    def test_a_shard_with_bytes_replaced(self, layout: Format) -> None:
        whole = shard(layout, A_FEW)

        @properties
        @given(st.integers(0, len(whole)), st.integers(0, 16), st.binary(max_size=24))
        def check(start: int, length: int, data: bytes) -> None:
            damaged = whole[:start] + data + whole[start + length :]
            only_damage(layout, compressed(layout, damaged))

        check()

    @every_framing
    def test_memory_does_not_follow_what_a_shard_says(self, layout: Format) -> None:
        # Ones and zeros in all the places where a length may stand.
        on_disk = shard(layout, A_FEW[:1])
        random_places = random.Random(0)
        tracemalloc.start()
        try:
            for _ in range(200):
                at = random_places.randrange(min(len(on_disk), 700))
                for length in (b"\xff" * 8, b"7" * 11, b"\0\0\0\0\0\0\0\x80"):
                    only_damage(layout, on_disk[:at] + length + on_disk[at + len(length) :])
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 30_000_000

    def test_a_missing_file_is_not_a_damaged_one(self, tmp_path: Path) -> None:
        from dsprep.errors import SourceError

        with pytest.raises(SourceError, match=r"none\.tar: cannot be read"):
            ShardStream(str(tmp_path / "none.tar"))


def only_damage(layout: Format, data: bytes) -> None:
    """Read what may be damaged: anything but samples and `DamagedShard` fails the test."""
    found: list[Entry] = []
    try:
        read_into(found, layout, data)
    except DamagedShard as damage:
        assert damage.offset >= 0
        assert damage.problem


class TestPieces:
    """What lets several workers write one shard, and the same worker write it in two halves."""

    @every_labeled_layout
    def test_a_sample_has_the_same_bytes_wherever_it_stands(
        self, layout: Format, samples: list[Picture]
    ) -> None:
        alone = [encode(layout, each) for each in samples]
        assert [encode(layout, each) for each in reversed(samples)] == alone[::-1]

    @every_layout
    @pytest.mark.parametrize("content", [0, 1, 511, 512, 1024, 9216, 10240, 10241, 123_456_789])
    def test_the_capacity_leaves_little_more_than_the_trailer(
        self, layout: Format, content: int
    ) -> None:
        target = content + layout.head_size(0) + len(layout.trailer(content))
        # What is left free is for magic numbers in RecordIO and for what gzip cannot compress.
        assert content - 64 - target // 3000 <= layout.capacity(target) <= target


class TestNames:
    @every_layout
    def test_the_name_of_a_shard_tells_its_format(self, layout: Format) -> None:
        names = [layout.shard_name("train", number, 1001) for number in range(1001)]
        assert {format_of_file(name) for name in names} == {type(layout)}
        assert names == sorted(set(names))
        assert format_of_file(f"train{layout.file_suffix}") is type(layout)

    @pytest.mark.parametrize("name", ["train.jpg", "manifest.json", "train.idx", "tar", ""])
    def test_of_other_files_it_tells_none(self, name: str) -> None:
        assert format_of_file(name) is None
        assert format_of_source(name) is None

    @pytest.mark.parametrize("name", ["a.tgz", "a.tfrecords", "a.tfrec", "a.record"])
    def test_those_that_others_write_have_other_names(self, name: str) -> None:
        layout = format_of_source(name)
        assert layout is CONCATENATIVE["webdataset" if name == "a.tgz" else "tfrecord"]
        assert format_of_file(name) is None  # so that none is written
        assert shard_stem(name) == "a"


class TestSidecars:
    @every_layout
    def test_only_formats_that_say_so_have_them(self, layout: Format) -> None:
        rows = Rows([9, 2], ["b.jpg", "a.jpg"], [50, 60], [1, 0])
        assert tuple(layout.sidecars(rows, [100, 200])) == layout.sidecar_suffixes

    @every_layout
    def test_they_follow_the_order_of_the_samples(self, layout: Format) -> None:
        rows = Rows([9, 2], ["b.jpg", "a.jpg"], [50, 60], [1, 0])
        for data in layout.sidecars(rows, [100, 200]).values():
            assert [line.split(b"\t")[0] for line in data.splitlines()] == [b"9", b"2"]


def test_samples_are_contiguous_from_the_first_byte() -> None:
    for layout in LAYOUTS.values():
        entries = read(layout, compressed(layout, shard(layout, A_FEW)))
        assert entries[0].offset == layout_for(layout, A_FEW[0]).head_size(len(A_FEW))
        for one, next_ in pairwise(entries):
            assert next_.offset == one.offset + one.size
