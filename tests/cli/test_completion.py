"""What a shell completes, and what is said of misspelt commands and sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from dsprep.cli.help import GroupedCommand
from dsprep.cli.main import cli
from tests.conftest import Finished
from tests.images import jpeg

Call = Callable[..., Finished]


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("pack ", "file"),
        ("pack im", "file"),
        ("pack photos s3://buck", "file"),
        ("pack photos out --list ", "file"),
        ("pack photos out --classes ", "file"),
        ("convert a b ", "file"),
        ("shard wds ", "file"),
        ("shard append ", "file"),
        ("verify wds --against ", "file"),
        ("sync ", "file"),
        ("lst create photos -o ", "file"),
        ("lst diff a.lst ", "file"),
        ("split photos --root ", "dir"),
    ],
)
def test_paths_are_completed_by_the_shell(words: str, kind: str) -> None:
    *before, last = words.split(" ")
    (found,) = ShellComplete(cli, {}, "dsprep", "").get_completions(before, last)
    assert (found.type, found.value) == (kind, last)


def test_commands_are_completed_and_so_are_the_sources_of_shard() -> None:
    found = ShellComplete(cli, {}, "dsprep", "").get_completions(["shard"], "")
    assert [each.value for each in found] == ["append", "index", ""]
    assert found[-1].type == "file"


def test_each_place_of_a_command_is_completed() -> None:
    """What the help calls FILE, DIR, SOURCE and the like; no argument is left out."""
    for command in _commands(cli):
        for parameter in command.params:
            if isinstance(parameter, click.Argument) and parameter.metavar not in ("OLD", "NEW"):
                found = parameter.shell_complete(click.Context(command), "")
                assert [each.type for each in found] == ["file"], (command.name, parameter.name)


def _commands(group: click.Group) -> Iterator[click.Command]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _commands(command)
        else:
            assert isinstance(command, GroupedCommand)
            yield command


@pytest.mark.parametrize(
    ("words", "meant"),
    [(("pakc", "a", "b"), "pack"), (("lst", "crate"), "create"), (("veryfy",), "verify")],
)
def test_a_misspelt_command_is_recognised(
    words: tuple[str, ...], meant: str, run_here: Call
) -> None:
    done = run_here(*words)
    assert done.code == 2
    assert f"Did you mean {meant}?" in done.err


def test_sync_without_words_says_what_is_missing(run_here: Call) -> None:
    done = run_here("sync")
    assert done.code == 2
    assert "Missing argument 'SRC'" in done.err


def test_a_size_that_is_too_small_is_told_with_the_least(run_here: Call, tmp_path: Path) -> None:
    (tmp_path / "images" / "a").mkdir(parents=True)
    (tmp_path / "images" / "a" / "0.jpg").write_bytes(jpeg())
    pack = ("pack", tmp_path / "images", tmp_path / "out", "--target-size", 100, "--format")

    done = run_here(*pack, "webdataset")
    assert done.code == 2
    assert "takes at least 10,240 bytes; did you mean 100MB?" in done.err

    done = run_here(*pack, "recordio", "--dry-run")
    assert done.code == 0
    assert "every sample is larger than --target-size 100" in done.out
    assert "did you mean 100MB?" in done.out
