"""What a dry run tells of the time: a trial writes some samples, and leaves nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.plan.plan import Plan
from dsprep.run import trial
from dsprep.workers.pool import Pool
from tests.conftest import Finished
from tests.pixels import cifar10_python, write_archive
from tests.servers.bucket import Bucket

RunCli = Callable[..., Finished]


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory for temporary files, which is empty after each trial."""
    directory = tmp_path / "scratch"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    yield directory
    assert not list(directory.iterdir())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("to", ["webdataset", "tfrecord", "recordio", "parquet", "folder"])
def test_all_formats_are_tried(to: str, twelve: Path, tmp_path: Path, scratch: Path) -> None:
    report = dsprep.pack(twelve, tmp_path / "out", to=to, dry_run=True, workers=1)
    assert report.seconds > 0


def test_an_archive_is_unpacked_for_a_trial_if_it_is_small(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_archive(tmp_path / "py.tar.gz", "cifar-10-batches-py", cifar10_python())
    options: dict[str, Any] = {"to": "webdataset", "dry_run": True, "workers": 1}
    assert dsprep.pack(path, tmp_path / "out", **options).seconds > 0
    monkeypatch.setattr(trial, "_MOST_UNPACKED", 1)
    assert dsprep.pack(path, tmp_path / "out", **options).seconds == 0


def test_no_time_is_told_without_room(
    twelve: Path, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "free_bytes", lambda _: 1000)
    report = dsprep.pack(twelve, tmp_path / "out", to="webdataset", dry_run=True, workers=1)
    assert report.seconds == 0


def test_no_time_is_told_for_a_network(run_here: RunCli, bucket: Bucket, twelve: Path) -> None:
    command = ("pack", twelve, f"{bucket.url}/out", "--to", "webdataset", "--dry-run")
    done = run_here(*command)
    assert "planned as webdataset" in done.out
    assert "  time " not in done.out
    assert json.loads(run_here(*command, "--json").out)["seconds"] == 0


@pytest.mark.parametrize(
    ("start", "each", "stall"),
    [(0.0, 0.1, 0.0), (0.5, 0.001, 0.0), (5.0, 0.01, 0.0), (0.0, 0.1, 30.0), (9.0, 0.1, 2.0)],
)
def test_the_time_of_starting_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: float, each: float, stall: float
) -> None:
    """Trials whose times are those of a clock that samples move; in one of them, it stalls."""
    (tmp_path / "x.csv").write_text("x\n" + "1\n" * 100_000)
    clock, trials, told = 0.0, 0, []

    def write(self: Pool, function: object, tasks: Any, report: object) -> list[None]:
        nonlocal clock, trials
        trials += 1
        clock += (
            stall * (trials == 2)
            + start
            + each * max((len(rows.ids) for _, rows, _ in tasks), default=0)
        )
        return []

    def tell(plan: Plan, pool: Pool, progress: Any) -> float | None:
        monkeypatch.setattr(trial.time, "monotonic", lambda: clock)
        monkeypatch.setattr(Pool, "map", write)
        told.append(trial._seconds_of_samples(plan, None, pool, tmp_path))  # type: ignore[arg-type]
        monkeypatch.undo()
        return told[0]

    monkeypatch.setattr("dsprep.run.write.seconds_to_write", tell)
    dsprep.pack(tmp_path / "x.csv", tmp_path / "out", to="tfrecord", dry_run=True, workers=1)
    if stall:
        assert told[0] is None
    else:
        assert told[0] == pytest.approx(start + each * 100_000, rel=0.02)
