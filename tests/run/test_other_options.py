"""A finished data set is taken for done only by a command that would write the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Finished

RunHere = Callable[..., Finished]


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """A table of labels and of images of 2 x 2 pixels."""
    path = tmp_path / "digits.csv"
    path.write_text("label,p0,p1,p2,p3\n1,0,1,2,3\n2,4,5,6,7\n3,8,9,10,11\n")
    return path


@pytest.mark.parametrize(
    "other",
    [
        ("--drop", "p3"),
        ("--only", "label,p0"),
        ("--rename", "p0=first"),
        ("--label-type", "float"),
        ("--pixel-columns", "p*"),
        ("--cast", "p0=float32"),
    ],
    ids=lambda options: options[0],
)
def test_options_of_fields_are_compared(
    run_here: RunHere, digits: Path, tmp_path: Path, other: tuple[str, ...]
) -> None:
    command = ("pack", digits, tmp_path / "out", "--to", "webdataset", "--label-field", "label")
    for first, second in (((), other), (other, ())):
        assert run_here(*command, *first, "--overwrite").code == 0
        refused = run_here(*command, *second)
        assert refused.code == 5
        assert "holds a data set that another command wrote (other" in refused.err
    assert "already packed" in run_here(*command, *other).out


def test_shapes_of_pixels_are_compared(run_here: RunHere, digits: Path, tmp_path: Path) -> None:
    command = ("pack", digits, tmp_path / "out", "--to", "webdataset", "--pixel-columns", "p*")
    assert run_here(*command).code == 0
    assert run_here(*command, "--raw-image", "4x1").code == 5
