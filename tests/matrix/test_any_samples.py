"""Any samples of a schema, with any keys and fields that may be missing, there and back."""

from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dsprep
from tests.formats.layouts import JPEG
from tests.formats.test_contract import any_bytes
from tests.matrix.sources import add_member

Members = dict[str, bytes]
Shard = dict[str, Members]
"""The members of each sample by extension, by key."""

bases = st.text(
    st.characters(exclude_characters="/.\0\n", exclude_categories=["Cs"]), min_size=1, max_size=60
)
keys = st.lists(bases, min_size=1, max_size=3).map("/".join).filter(lambda key: key[:1] not in "_")
values = {
    "cls": st.integers(-(2**24), 2**24).map(b"%d".__mod__),
    "txt": st.text(st.characters(exclude_categories=["Cs"])).map(str.encode),
    "npy": any_bytes.map(b"\x93NUMPY".__add__),
}
shards: st.SearchStrategy[Shard] = st.dictionaries(
    keys, st.fixed_dictionaries({"jpg": st.just(JPEG)}, optional=values), min_size=1, max_size=4
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
