"""What `dsprep sync` says while it goes, to people and to programs; nothing is sent here."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from dsprep import progress
from dsprep.cli import sync_events
from dsprep.cli.sync import orphan_lines
from dsprep.cli.sync_events import Bars, Lines, json_events
from dsprep.syncing.sync import Orphan
from tests.conftest import Finished

MB = 1_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which stands still until somebody sets it."""
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_a_full_disk_of_the_log_does_not_stop_a_sync() -> None:
    with open("/dev/full", "wb", buffering=0) as full:
        stream = io.TextIOWrapper(full, write_through=True)
        json_events(stream)("plan", files=1, bytes=MB)


def test_what_is_planned_later_is_added(clock: list[float]) -> None:
    stream = io.StringIO()
    lines = Lines(stream)
    lines.begin("all", 0, 0)
    lines("plan", files=1, bytes=10 * MB)
    lines("moved", name="a", bytes=10 * MB)
    clock[0] = 22.0
    lines("plan", files=1, bytes=2 * MB)
    lines("moved", name="b", bytes=1 * MB)
    assert stream.getvalue() == "sent 11 MB of 12 MB, 500 KB/s, 2.0 s left\n"


def test_a_bar_grows_with_what_is_planned_later(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = Mock(n=0)
    monkeypatch.setattr(sync_events, "new_bar", lambda *args, **options: drawn)
    bars = Bars(io.StringIO())
    bars.begin("all", 0, 0)
    clock[0] = 5.0
    bars("plan", files=1, bytes=10 * MB)
    bars("moved", name="a", bytes=5 * MB)
    bars("plan", files=1, bytes=10 * MB)
    bars("moved", name="b", bytes=5 * MB)
    assert drawn.total == 20 * MB
    drawn.set_postfix_str.assert_called_with("0/2 files", refresh=False)


def test_an_error_ends_what_programs_read(run_here: Callable[..., Finished]) -> None:
    done = run_here("sync", "nowhere", "s3://bucket", "--json")
    assert done.code == 4
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert json.loads(line) == {"event": "error", "text": "nowhere: does not exist", "code": 4}
    assert run_here("sync", "nowhere", "s3://bucket").err == "dsprep: nowhere: does not exist\n"


def test_an_error_of_cleaning_does_so_too(
    run_here: Callable[..., Finished], tmp_path: Path
) -> None:
    done = run_here("sync", "--clean-uploads", tmp_path, "--json")
    assert done.code == 2
    assert json.loads(done.err)["code"] == 2


def test_whose_uploads_these_are() -> None:
    def said(*aborted: bool) -> list[str]:
        found = [Orphan("s3://b/k", "id", 30.0, "arn:me", 1, 10, each) for each in aborted]
        return list(orphan_lines({"place": "s3://b", "uploads": found}))

    assert said() == ["s3://b: no unfinished uploads of your own"]
    assert said(True) == [
        "s3://b: 1 unfinished upload of your own, 10 B, aborted",
        "    s3://b/k: begun 30 s ago by arn:me, 1 part, 10 B",
    ]
    assert (
        said(False)[0] == "s3://b: 1 unfinished upload, 10 B; those that you began would be aborted"
    )
