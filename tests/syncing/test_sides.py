"""What belongs to a side, and what is never looked at."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from dsprep.errors import SourceError
from dsprep.storage.stored import Stored
from dsprep.syncing.sides import Directory, Prefix

STATE = (
    ".dsprep/lease.json",
    ".dsprep/run.json",
    "train/.dsprep/lease.json",
    ".val.dsprep/run.json",
    "a/b/.val.dsprep/deep/part",
)
DATA = ("a.tar", "train/a.dsprep", "dsprep/x", "b.dsprep/x", ".hidden")


def test_the_state_of_other_runs_is_no_part_of_a_prefix() -> None:
    keys = [Stored(f"data/{path}", 1, 0.0) for path in (*STATE, *DATA)]
    store = SimpleNamespace(list=lambda prefix: [keys])
    for to_files in (False, True):
        listing = Prefix(store, "data/", to_files).list()
        assert (set(listing.files), listing.left) == (set(DATA), [])
        assert list(listing.leases) == [path for path in STATE if path.endswith("lease.json")]
        assert listing.unfinished == [".dsprep", "train/.dsprep", ".val.dsprep", "a/b/.val.dsprep"]


def test_the_state_of_other_runs_is_no_part_of_a_directory(tmp_path: Path) -> None:
    for path in (*STATE, *DATA):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    listing = Directory(tmp_path).list()
    assert (set(listing.files), listing.left) == (set(DATA), [])
    assert listing.unfinished == [".dsprep", ".val.dsprep", "a/b/.val.dsprep", "train/.dsprep"]


@pytest.mark.parametrize("root", [".", "a", "a/b", "./a/", "/"])
def test_contents_are_those_of_the_path_that_messages_name(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content = Directory(Path(root)).content(Stored("no such/file", 1, 0.0))
    with pytest.raises(SourceError) as raised:
        content.md5()
    assert str(raised.value).startswith(f"{Path(root) / 'no such/file'}: cannot be read")


@pytest.mark.parametrize("target", ["nowhere", "loop", "file/below"])
def test_broken_links_are_said_and_no_failure(tmp_path: Path, target: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to(target)
    listing = Directory(tmp_path).list()
    (left,) = listing.left
    assert (left.path, left.why) == ("loop", "is a link to what is not there")
    assert (list(listing.files), listing.unseen) == (["file"], [])
