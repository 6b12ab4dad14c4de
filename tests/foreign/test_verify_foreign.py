"""What was made of data sets that other tools wrote holds what they hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Finished
from tests.foreign.sets import DATA, SETS

Run = Callable[..., Finished]

FORMATS = ("webdataset", "tfrecord", "parquet", "recordio-protobuf", "folder")
EACH = [(name, FORMATS[at % len(FORMATS)]) for at, name in enumerate(SETS)]
SHARDS = [name for name, each in SETS.items() if each.format == "webdataset" and not each.options]


@pytest.mark.parametrize(("name", "format"), EACH)
def test_a_set_is_what_was_made_of_it(
    run_here: Run, tmp_path: Path, name: str, format: str
) -> None:
    args, dest = SETS[name].args, tmp_path / "out"
    done = run_here("convert", *args, dest, "--to", format, "-j", 1)
    if done.code not in (0, 3):
        return  # the format cannot hold it, which other tests look at
    verified = run_here("verify", dest, "--against", *args, "--json", "-j", 1)
    assert json.loads(verified.out)["problems"] == [], verified.err


@pytest.mark.parametrize("name", SHARDS)
def test_shards_of_others_are_understood(run_here: Run, name: str) -> None:
    done = run_here("verify", DATA / name, "--decode", "--json", "-j", 1)
    report = json.loads(done.out)
    assert (done.code, report["problems"]) == (0, [])
    roles = {each["role"]: each for each in report["fields"]}
    assert roles["image"]["samples"] == report["samples"]
