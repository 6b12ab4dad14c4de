"""An interrupted run keeps where it cut its samples, so that they are not weighed again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from dsprep.errors import RunStopped
from tests.attack.trees import contents
from tests.conftest import Finished
from tests.images import image_folder

RunHere = Callable[..., Finished]
RESIZED = ("--to", "recordio", "--resize", 16, "--encode", "jpeg", "--target-size", 2000, "-j", 1)
WEIGH = "dsprep.plan.plan.weigh"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    image_folder(tmp_path / "photos" / "train", ("a", "b"), 5)
    image_folder(tmp_path / "photos" / "val", ("a", "b"), 2)
    return tmp_path / "photos"


def killed(run: RunHere, *command: object) -> None:
    with mock.patch("dsprep.run.complete.publish_manifest", side_effect=RunStopped("killed")):
        assert run(*command).code == 6


def test_a_run_that_goes_on_weighs_nothing(run_here: RunHere, photos: Path, tmp_path: Path) -> None:
    assert run_here("pack", photos, tmp_path / "alone", *RESIZED).code == 0
    command = ("pack", photos, tmp_path / "out", *RESIZED)
    killed(run_here, *command)
    with mock.patch(WEIGH, side_effect=AssertionError):
        done = run_here(*command)
    assert (done.code, "continues; " in done.err) == (0, True), done.err
    assert contents(tmp_path / "out") == contents(tmp_path / "alone")


@pytest.mark.parametrize(
    "damage",
    [
        lambda cuts: cuts | {"ends": [[99, 1], *cuts["ends"][1:]]},
        lambda cuts: cuts | {"ends": cuts["ends"][:-1]},
        lambda cuts: cuts | {"ends": [*cuts["ends"], [15, 1]]},
        lambda cuts: cuts | {"sets": cuts["sets"][:1]},
        lambda cuts: cuts | {"sets": [["train", -1], ["val", 1]]},
        lambda cuts: {"ends": 3},
    ],
)
def test_damaged_cuts_are_made_again(
    run_here: RunHere, photos: Path, tmp_path: Path, damage: Callable[[object], object]
) -> None:
    assert run_here("pack", photos, tmp_path / "alone", *RESIZED).code == 0
    command = ("pack", photos, tmp_path / "out", *RESIZED)
    killed(run_here, *command)
    note = tmp_path / "out/.dsprep/run.json"
    values = json.loads(note.read_text())
    note.write_text(json.dumps(values | {"cuts": damage(values["cuts"])}))
    assert run_here(*command).code == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "alone")


def test_those_of_other_samples_or_options_are_not_taken(
    run_here: RunHere, photos: Path, tmp_path: Path
) -> None:
    killed(run_here, "pack", photos, tmp_path / "out", *RESIZED)
    other = [2500 if word == 2000 else word for word in RESIZED]
    assert run_here("pack", photos, tmp_path / "out", *other).code == 5
    (photos / "train/a/000.jpg").unlink()
    assert run_here("pack", photos, tmp_path / "out", *RESIZED).code == 5
    done = run_here("pack", photos, tmp_path / "out", *other, "--overwrite")
    assert done.code == 0, done.err
    assert run_here("pack", photos, tmp_path / "alone", *other).code == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "alone")
