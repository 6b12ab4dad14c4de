"""Files of lists: replaced whole and together, by one at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dsprep.errors import DestinationError, SourceError
from dsprep.lists import store
from dsprep.lists.store import editing, read_list, write_files

TEXT = b"1\t0\ta.jpg\n"


def test_classes_are_those_beside_the_list_or_those_given(tmp_path: Path) -> None:
    path = tmp_path / "train.lst"
    path.write_bytes(TEXT)
    assert read_list(str(path)).classes is None
    (tmp_path / "classes.txt").write_text("cat\n")
    (tmp_path / "other.txt").write_text("dog\n")
    assert read_list(str(path)).classes == ("cat",)
    assert read_list(str(path), str(tmp_path / "other.txt")).classes == ("dog",)


def test_what_is_no_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        read_list(str(tmp_path / "none.lst"))
    (tmp_path / "latin.lst").write_bytes(TEXT + b"2\t0\t\xe9.jpg\n")
    with pytest.raises(SourceError, match="latin.lst:2: not UTF-8"):
        read_list(str(tmp_path / "latin.lst"))


def test_a_list_keeps_its_mode_and_a_link_stays_one(tmp_path: Path) -> None:
    real, link = tmp_path / "real.lst", tmp_path / "link.lst"
    real.write_bytes(TEXT)
    real.chmod(0o664)
    link.symlink_to("real.lst")
    with editing(str(link)):
        write_files(str(link), {"real.lst": TEXT * 2})
    assert link.is_symlink()
    assert real.read_bytes() == TEXT * 2
    assert real.stat().st_mode & 0o777 == 0o664
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.lst", "real.lst"]


def test_what_cannot_be_written_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "train.lst"
    path.write_bytes(TEXT)
    (tmp_path / "classes.txt").write_bytes(b"cat\n")

    def full(self: Path, data: bytes) -> int:
        if self.name.endswith("classes.txt.partial"):
            raise OSError(28, "No space left on device")
        return write_bytes(self, data)

    write_bytes = Path.write_bytes
    monkeypatch.setattr(Path, "write_bytes", full)
    with editing(str(path)), pytest.raises(DestinationError, match="the disk is full"):
        write_files(str(path), {"train.lst": b"2\t0\tb\n", "classes.txt": b"dog\n"})
    assert path.read_bytes() == TEXT
    assert (tmp_path / "classes.txt").read_bytes() == b"cat\n"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["classes.txt", "train.lst"]


@pytest.mark.parametrize("renamed", [0, 1, 2])
def test_a_writer_that_was_killed_while_renaming_is_finished_by_the_next_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renamed: int
) -> None:
    path = tmp_path / "train.lst"
    path.write_bytes(TEXT)
    (tmp_path / "classes.txt").write_bytes(b"cat\n")
    replace, left = Path.replace, [renamed + 1]  # the journal gets its name first

    def killed(self: Path, target: Path) -> Path:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        if renamed < 2:
            with editing(str(path)), pytest.raises(KeyboardInterrupt):
                write_files(str(path), {"train.lst": b"2\t0\tb\n", "classes.txt": b"dog\n"})
        else:
            with editing(str(path)):
                write_files(str(path), {"train.lst": b"2\t0\tb\n", "classes.txt": b"dog\n"})
    found = read_list(str(path))
    assert (found.table.rows(), found.classes) == ([(2, "0", "b")], ("dog",))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["classes.txt", "train.lst"]


@pytest.mark.parametrize("journal", [b"", b"{}", b"[1]", b'["../x"]', b'["a/b"]', b"\xff"])
def test_a_journal_that_dsprep_did_not_write_is_left_alone(tmp_path: Path, journal: bytes) -> None:
    path = tmp_path / "train.lst"
    path.write_bytes(TEXT)
    (tmp_path / ".train.lst.journal").write_bytes(journal)
    with pytest.raises(DestinationError, match=r"\.train\.lst\.journal: dsprep did not write it"):
        read_list(str(path))
    assert path.read_bytes() == TEXT


def test_two_writers_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_PATIENCE", 0)
    path = str(tmp_path / "train.lst")
    with editing(path), pytest.raises(DestinationError, match="another dsprep run"), editing(path):
        pass
    with editing(path):
        pass
    assert os.listdir(tmp_path) == []
