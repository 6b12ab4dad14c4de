"""Tables of very many columns: read in time that grows with their number, or refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dsprep.schema import Choice, Field, Schema
from dsprep.schema.settle import SettledSchema, select
from tests.conftest import Finished

RunHere = Callable[..., Finished]


def test_a_thousand_columns_come_back(run_here: RunHere, tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(1000)]
    rows = [[str(row * 1000 + number) for number in range(1000)] for row in range(3)]
    table = tmp_path / "a.csv"
    table.write_text("".join(",".join(row) + "\n" for row in (names, *rows)))
    done = run_here("pack", table, tmp_path / "out", "--to", "tfrecord", "-j", 1, "--json")
    assert done.code == 0, done.err
    assert len(json.loads(done.out)["fields"]) == 1000
    assert run_here("verify", tmp_path / "out", "--against", table, "-j", 1).code == 0


def test_too_many_are_refused(run_here: RunHere, tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    line = ",".join(map(str, range(100_001)))
    table.write_text(f"{line}\n{line}\n")
    done = run_here("pack", table, tmp_path / "out", "--to", "tfrecord", "-j", 1)
    assert (done.code, (tmp_path / "out").exists()) == (4, False)
    assert "has 100,001 columns, and dsprep reads up to 100,000" in done.err


@pytest.mark.parametrize("choice", [Choice(), Choice(drop=("f7",))])
def test_fields_are_selected_without_comparing_each_with_each(
    monkeypatch: pytest.MonkeyPatch, choice: Choice
) -> None:
    compared = 0

    def equal(one: Field, other: object) -> bool:
        nonlocal compared
        compared += 1
        return one is other

    monkeypatch.setattr(Field, "__eq__", equal)
    monkeypatch.setattr(Field, "__hash__", object.__hash__)
    fields = tuple(Field(f"f{number}", "int", places=((f"f{number}",),)) for number in range(2000))
    select(SettledSchema(Schema(fields)), choice)
    assert compared < 10 * len(fields)
