"""A command that was killed after its last rename is given again: it is done, and says so."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Finished
from tests.images import jpeg

Call = Callable[..., Finished]


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    """A list and its classes, a map, and images."""
    (tmp_path / "train.lst").write_text("0\t0\ta.jpg\n1\t1\tb.jpg\n2\t0\tc.jpg\n", "utf-8")
    (tmp_path / "classes.txt").write_text("cat\ndog\n", "utf-8")
    (tmp_path / "swap.map").write_text("cat\tdog\ndog\tcat\n", "utf-8")
    (tmp_path / "cats.map").write_text("cat\tlion\ndog\twolf\n", "utf-8")
    for name in ("images/cat/0.jpg", "images/dog/1.jpg"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(jpeg())
    return tmp_path


IN_PLACE = [
    "lst remove @train.lst --path b.jpg",
    "lst set @train.lst --class dog --label cat",
    "lst set @train.lst --path b.jpg --new-path d.jpg",
    "lst replace @train.lst b c",
    "lst relabel @train.lst --map @cats.map",
]
NEW = [
    "lst create @images -o @new/new.lst",
    "lst sample @train.lst --fraction 0.7 -o @new/new.lst",
    "lst relabel @train.lst --map @swap.map -o @new/new.lst",
]
AGAIN = [
    "lst relabel @train.lst --map @swap.map",
    "lst replace @train.lst b b/b",
    "lst set @train.lst --path b.jpg --label cat",
]


def _words(command: str, directory: Path) -> list[str]:
    return command.replace("@", f"{directory}/").split()


def _contents(directory: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in directory.rglob("*") if each.is_file()}


@pytest.mark.parametrize("command", [*IN_PLACE, *NEW])
def test_a_repeated_command_is_already_done(command: str, lists: Path, run_here: Call) -> None:
    before = _contents(lists)
    assert run_here(*_words(command, lists)).code == 0
    after = _contents(lists)
    assert after != before
    assert len(after) - len(before) in (0, 1, 2)  # the new lists, and no trace beside them

    done = run_here(*_words(command, lists))

    assert (done.code, done.err) == (0, "")
    assert "already done" in done.out
    assert run_here(*_words(command, lists), "--quiet").out == ""
    report = json.loads(run_here(*_words(command, lists), "--json").out)
    assert (report["already_done"], report["written"]) == (True, False)
    assert _contents(lists) == after


@pytest.mark.parametrize("command", AGAIN)
def test_what_can_be_done_again_is(command: str, lists: Path, run_here: Call) -> None:
    states = [(lists / "train.lst").read_bytes()]
    for _ in range(2):
        done = run_here(*_words(command, lists))
        assert (done.code, "already done" in done.out) == (0, False)
        states.append((lists / "train.lst").read_bytes())
    before, once, twice = states
    assert once != before
    expected = {"relabel": before, "set": once}.get(command.split()[1])
    assert twice == (expected or before.replace(b"b.jpg", b"b/b/b.jpg"))


def test_a_copy_under_another_name_has_its_own_rows(lists: Path, run_here: Call) -> None:
    command = ("--path", "a.jpg")
    assert run_here("lst", "remove", lists / "train.lst", *command).code == 0
    shutil.copy2(lists / "train.lst", lists / "copy.lst")  # with its attributes
    refused = run_here("lst", "remove", lists / "copy.lst", *command)
    assert (refused.code, "no row" in refused.err) == (4, True)
    with (lists / "copy.lst").open("a") as file:
        file.write("9\t0\ta.jpg\n")
    done = run_here("lst", "remove", lists / "copy.lst", *command)
    assert (done.code, "1 row removed" in done.out) == (0, True)


def test_a_class_that_has_another_number_since_counts(lists: Path, run_here: Call) -> None:
    command = ("lst", "set", lists / "train.lst", "--path", "a.jpg", "--label", "dog")
    assert run_here(*command).code == 0
    (lists / "classes.txt").write_text("cat\ncow\ndog\n", "utf-8")
    assert run_here(*command).code == 0
    assert (lists / "train.lst").read_text("utf-8").startswith("0\t2\ta.jpg\n")

    command = ("lst", "remove", lists / "train.lst", "--class", "dog")
    assert run_here(*command).code == 0
    (lists / "classes.txt").write_text("cow\ncat\ndog\n", "utf-8")
    assert run_here(*command).code == 4  # another dog


def test_rejects_are_reported_again(lists: Path, run_here: Call) -> None:
    table = lists / "images.csv"
    table.write_text("path,label\ncat/0.jpg,cat\nnone.jpg,dog\n", "utf-8")
    command = ("lst", "create", lists / "images", "-o", lists / "new/x.lst", "--labels", table)
    first, again = (run_here(*command, "--json") for _ in range(2))
    assert (first.code, again.code) == (3, 3)
    told, repeated = json.loads(first.out), json.loads(again.out)
    assert repeated == {**told, "written": False, "already_done": True}


@pytest.mark.parametrize("command", IN_PLACE)
@pytest.mark.parametrize("edit", ["in place", "replaced", "copied"])
def test_a_list_that_has_changed_since_is_edited(
    command: str, edit: str, lists: Path, run_here: Call
) -> None:
    assert run_here(*_words(command, lists)).code == 0
    lst = lists / "train.lst"
    if edit == "in place":
        with lst.open("a") as file:
            file.write("7\t1\tb.jpg\n")
    elif edit == "replaced":
        shutil.copy2(lst, lists / "copy")  # with its attributes, but not its content
        lines = (lists / "copy").read_text("utf-8") + "7\t1\tb.jpg\n"
        (lists / "copy").write_text(lines, "utf-8")
        os.replace(lists / "copy", lst)
    else:
        assert run_here("lst", "set", lst, "--id", "2", "--new-path", "z.jpg").code == 0

    done = run_here(*_words(command, lists))
    assert "already done" not in done.out + done.err


def test_a_patch_that_is_repeated_is_already_done(lists: Path, run_here: Call) -> None:
    (lists / "old.lst").write_bytes((lists / "train.lst").read_bytes())
    (lists / "new.lst").write_text("0\t0\ta.jpg\n1\t0\tb.jpg\n", "utf-8")
    diff = run_here("lst", "diff", lists / "old.lst", lists / "new.lst")
    (lists / "week.patch").write_text(diff.out, "utf-8")
    patch = _words("lst patch @train.lst @week.patch", lists)

    assert run_here(*patch).code == 0
    assert "already done" in run_here(*patch).out
    shutil.copy(lists / "old.lst", lists / "train.lst")
    assert "already done" not in run_here(*patch).out


def test_classes_that_have_changed_since_count(lists: Path, run_here: Call) -> None:
    relabel = _words("lst relabel @train.lst --map @cats.map", lists)
    assert run_here(*relabel).code == 0
    (lists / "classes.txt").write_text("cat\ndog\n", "utf-8")

    assert "already done" not in run_here(*relabel).out
    (lists / "classes.txt").write_text("lynx\nfox\n", "utf-8")
    assert run_here(*relabel).code == 4


def test_another_command_is_not_already_done(lists: Path, run_here: Call) -> None:
    assert run_here(*_words("lst remove @train.lst --id 0", lists)).code == 0
    assert run_here(*_words("lst remove @train.lst --id 1", lists)).err == ""
    assert run_here(*_words("lst remove @train.lst --id 0", lists)).code == 4


def test_where_no_attribute_can_be_kept_nothing_is_claimed(
    lists: Path, run_here: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", refuse)
    remove = _words("lst remove @train.lst --path b.jpg", lists)
    assert run_here(*remove).code == 0
    assert run_here(*remove).code == 4


def test_a_list_that_is_there_and_differs_is_refused(lists: Path, run_here: Call) -> None:
    create = _words("lst create @images -o @new/new.lst", lists)
    assert run_here(*create).code == 0
    (lists / "new" / "new.lst").write_text("0\t0\tx.jpg\n", "utf-8")
    assert run_here(*create).code == 5


@pytest.mark.parametrize(
    "command",
    [
        "lst append @train.lst @images",
        "lst merge @train.lst @ours.lst @theirs.lst -o @ours.lst",
        "split @images -o @split --ratio train=0.5,val=0.5",
    ],
)
def test_what_can_be_repeated_changes_nothing(command: str, lists: Path, run_here: Call) -> None:
    (lists / "ours.lst").write_text("0\t0\ta.jpg\n1\t0\tb.jpg\n2\t0\tc.jpg\n", "utf-8")
    (lists / "theirs.lst").write_text("0\t0\ta.jpg\n1\t1\tb.jpg\n", "utf-8")
    assert run_here(*_words(command, lists)).code == 0
    after = _contents(lists)

    assert run_here(*_words(command, lists)).code == 0

    assert _contents(lists) == after
