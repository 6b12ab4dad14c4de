"""`dsprep lst remove --missing`: rows whose files are gone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Finished
from tests.images import image_folder

RunHere = Callable[..., Finished]


@pytest.fixture
def pets(tmp_path: Path, run_here: RunHere) -> Path:
    """Eight images, with the list of them outside."""
    image_folder(tmp_path / "pets", ("cat", "dog"), per_class=4)
    made = run_here("lst", "create", tmp_path / "pets", "-o", tmp_path / "train.lst")
    assert made.code == 0, made
    return tmp_path / "pets"


def test_removes_what_is_gone_and_counts_it(pets: Path, tmp_path: Path, run_here: RunHere) -> None:
    lst = tmp_path / "train.lst"
    lines = lst.read_text().splitlines()
    gone = ("cat/001.jpg", "dog/000.jpg", "dog/003.jpg")
    for name in gone:
        (pets / name).unlink()
    (pets / "cat" / "000.jpg").write_bytes(b"")  # bad, and not missing
    remove = ("lst", "remove", lst, "--missing", "--root", pets)

    planned = run_here(*remove, "--dry-run")
    assert (planned.code, lst.read_text().splitlines()) == (0, lines)
    first, *names = planned.out.splitlines()
    assert first.endswith("3 rows removed, 5 in all, if it were written")
    assert sorted(names) == [f"  selected  {name}" for name in gone]
    assert sorted(json.loads(run_here(*remove, "--dry-run", "--json").out)["selected"]) == [*gone]
    cats = run_here(*remove, "--class", "cat", "-o", tmp_path / "cats.lst", "--json")
    assert json.loads(cats.out)["removed"] == 1

    done = run_here(*remove)
    assert (done.code, "3 rows removed, 5 in all" in done.out) == (0, True)
    assert lst.read_text().splitlines() == [
        line for line in lines if line.rpartition("\t")[2] not in gone
    ]
    again = run_here(*remove)
    assert (again.code, "nothing changed, 5 in all" in again.out) == (0, True)


def test_the_root_is_the_directory_of_the_list_or_shards(
    pets: Path, tmp_path: Path, run_here: RunHere
) -> None:
    inside = pets / "train.lst"
    inside.write_bytes((tmp_path / "train.lst").read_bytes())
    packed = run_here("pack", pets, tmp_path / "set", "--to", "webdataset", "-qj1")
    assert packed.code == 0, packed
    (pets / "dog" / "002.jpg").unlink()
    assert "1 row removed" in run_here("lst", "remove", inside, "--missing").out

    lst = tmp_path / "train.lst"
    remove = ("lst", "remove", lst, "--missing", "--root", tmp_path / "set")
    assert "nothing changed" in run_here(*remove).out
    lst.write_text(lst.read_text() + "8\t1\tdog/never.jpg\n")
    assert "1 row removed, 8 in all" in run_here(*remove).out


def test_nothing_is_removed_if_nothing_tells_what_is_missing(
    pets: Path, tmp_path: Path, run_here: RunHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    lst = tmp_path / "train.lst"
    before = lst.read_bytes()
    wrong = run_here("lst", "remove", lst, "--missing")  # the images lie elsewhere
    assert (wrong.code, "none of the 8 files" in wrong.err, "--root DIR" in wrong.err) == (
        *(4, True, True),
    )
    for command, conditions in (
        (("remove",), "--path, --id, --class or --missing"),
        (("set", "--label", "cat"), "--path, --id or --class"),
    ):
        none = run_here("lst", command[0], lst, *command[1:])
        assert (none.code, none.err) == (
            2,
            f"dsprep: no condition selects rows: give {conditions}\n",
        )
    unneeded = run_here("lst", "remove", lst, "--root", pets, "--id", 1)
    assert (unneeded.code, "--missing" in unneeded.err) == (2, True)
    assert run_here("lst", "remove", "-", "--missing").code == 2

    stat = os.stat

    def failing(path: object, **options: object) -> os.stat_result:
        if path == b"dog/001.jpg":
            raise OSError(5, "Input/output error")
        return stat(path, **options)  # type: ignore[arg-type,call-overload,no-any-return]

    (pets / "cat" / "000.jpg").unlink()
    monkeypatch.setattr(os, "stat", failing)
    failed = run_here("lst", "remove", lst, "--missing", "--root", pets)
    assert (failed.code, "dog/001.jpg" in failed.err) == (4, True)
    assert "no row was removed" in failed.err
    assert lst.read_bytes() == before
