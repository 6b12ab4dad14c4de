"""Any samples, with any keys and many fields of any bytes, through shards and back."""

from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dsprep
from dsprep.formats import FORMATS
from dsprep.sample import Sample
from tests.contract.test_contract import any_bytes
from tests.matrix.sources import add_member

Members = dict[str, bytes]
Shard = dict[str, Members]
"""The members of each sample by extension, by key."""

extensions = st.from_regex(r"[a-z0-9_-]{1,9}([.][a-z0-9_-]{1,9}){0,2}", fullmatch=True)
bases = st.text(
    st.characters(exclude_characters="/.\0\n", exclude_categories=["Cs"]), min_size=1, max_size=60
)
keys = st.lists(bases, min_size=1, max_size=3).map("/".join).filter(lambda key: key[:2] != "__")
values = any_bytes | st.sampled_from([b"7", b"[1,2]", b"[0.5]", b'{"class":"x","width":3}', b"{}"])
shards: st.SearchStrategy[Shard] = st.dictionaries(
    keys,
    st.dictionaries(extensions, values, min_size=1, max_size=20)
    | st.dictionaries(
        st.sampled_from(["jpg", "png", "cls", "json", "label.json", "features.json"]),
        values,
        min_size=1,
    ),
    min_size=1,
    max_size=4,
)


def tar_of(shard: Shard) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for key, members in shard.items():
            for name, data in members.items():
                add_member(tar, f"{key}.{name}", data)
    return file.getvalue()


def shard_of(data: bytes) -> Shard:
    found: Shard = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            directory, slash, base = member.name.rpartition("/")
            stem, _, name = base.partition(".")
            file = tar.extractfile(member)
            assert file is not None
            found.setdefault(directory + slash + stem, {})[name] = file.read()
    return found


def converted(data: bytes, source: str, to: str, lost: list[str]) -> bytes:
    """Convert a shard; notes the keys of samples that the format refuses, with a reason."""

    def note(reject: object) -> None:
        path, reason = reject  # type: ignore[misc]
        assert reason
        lost.append(path)

    return dsprep.convert_stream(
        io.BytesIO(data), source=source, to=to, on_reject=note, check="none"
    ).read()


@pytest.mark.parametrize("through", ["webdataset", "tfrecord", "recordio-protobuf"])
def test_members_come_back_byte_for_byte(through: str) -> None:
    @settings(max_examples=25, deadline=None)
    @given(shards)
    def check(shard: Shard) -> None:
        lost: list[str] = []
        there = converted(tar_of(shard), "webdataset", through, lost)
        back = converted(there, through, "webdataset", lost)
        kept = {key: members for key, members in shard.items() if key not in lost}
        found = shard_of(back)
        assert list(found) == list(kept)
        assert found == kept
        assert converted(back, "webdataset", through, lost) == there

    check()


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**63 - 1),
            any_bytes,
            st.integers(-(2**24), 2**24)
            | st.lists(st.floats(width=32), min_size=1, max_size=9).map(tuple),
        ),
        min_size=1,
        max_size=6,
        unique_by=lambda each: each[0],
    ),
    st.sampled_from(["webdataset", "tfrecord", "recordio-protobuf"]),
)
def test_records_come_back_byte_for_byte(
    records: list[tuple[int, bytes, int | tuple[float, ...]]], through: str
) -> None:
    layout = FORMATS["recordio"]()
    encoded = []
    for id, data, label in records:
        name = "cls" if isinstance(label, int) else "label"
        sample = Sample(str(id), {"bin": data, name: label}, id)
        encoded.append(b"".join(layout.encode(sample)))
    lost: list[str] = []
    there = converted(b"".join(encoded), "recordio", through, lost)
    back = converted(there, through, "recordio", lost)
    assert lost == []
    assert back == b"".join(encoded)
