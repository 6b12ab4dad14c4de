"""Where a download lands: only one run writes there, and what it leaves is gone on with."""

from __future__ import annotations

import fcntl
from contextlib import closing
from pathlib import Path

import pytest

from dsprep.errors import DestinationError
from dsprep.storage.s3.download import Landing
from dsprep.storage.stored import Stored
from dsprep.storage.transfer import cut

STORED = Stored("k", 50, 0.0, "etag")


def landing(final: Path) -> Landing:
    return Landing(final, STORED, cut(50, 10))


def test_a_file_that_another_run_has_just_finished_is_let_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock
    first = landing(tmp_path / "f")
    first.begin()

    def late(fd: int, how: int) -> None:  # the first run ends between our opening and our locking
        monkeypatch.setattr(fcntl, "flock", lock)
        first.write(b"x" * 50, 0)
        first.publish(0)
        first.close()
        lock(fd, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with closing(landing(tmp_path / "f")) as second:
        second.begin()
        assert (tmp_path / "f").read_bytes() == b"x" * 50
        second.write(b"y" * 50, 0)
        second.publish(0)
    assert (tmp_path / "f").read_bytes() == b"y" * 50
    assert [each.name for each in tmp_path.iterdir()] == ["f"]


def test_a_file_that_another_run_writes_is_refused(tmp_path: Path) -> None:
    with (
        closing(landing(tmp_path / "f")),
        pytest.raises(DestinationError, match="another dsprep run"),
    ):
        landing(tmp_path / "f")


def test_a_cut_line_of_the_journal_costs_no_other_part(tmp_path: Path) -> None:
    with closing(landing(tmp_path / "f")) as first:
        first.begin()
        for number in range(1, 5):
            first.note(number, 100 + number)
    journal = tmp_path / ".dsprep" / "f.journal"
    journal.write_text(journal.read_text()[:-2])
    with closing(landing(tmp_path / "f")) as second:
        assert second.there == {1: 101, 2: 102, 3: 103}
        second.note(5, 105)
    with closing(landing(tmp_path / "f")) as third:
        assert third.there == {1: 101, 2: 102, 3: 103, 5: 105}


@pytest.mark.parametrize("name", ["n" * 255, "ü" * 127])
def test_a_name_as_long_as_can_be(tmp_path: Path, name: str) -> None:
    with closing(landing(tmp_path / name)) as first:
        first.begin()
        first.note(1, 1)
    with closing(landing(tmp_path / name)) as second:
        assert second.there == {1: 1}
        second.publish(0)
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_a_thread_that_was_not_waited_for_leaves_no_journal(tmp_path: Path) -> None:
    with closing(landing(tmp_path / "f")) as left:
        left.begin()
        left.note(1, 1)
        left.discard()
        (tmp_path / ".dsprep").mkdir()  # other files are on their way
        left.note(2, 2)
    assert list((tmp_path / ".dsprep").iterdir()) == []
