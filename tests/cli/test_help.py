"""`--help` is short enough to be read, and `--help-all` has the rest."""

from __future__ import annotations

import re

import pytest

from dsprep.cli import datasets
from dsprep.cli.help import GroupedCommand
from tests.here import Here

MOST = 40
LONG = ("pack", "augment", "convert")

# What a beginner looks for first.
FIRST = {
    *("--to", "--target-size", "--labels", "--list", "--annotations", "--masks", "--resize"),
    *("--dry-run", "--overwrite", "--workers", "--json", "--help-all"),
}
GROUPS = {
    "pack": "Source Labels Output Images Samples Annotations Split Augmentation Fields Run",
    "augment": "Source Labels Output Images Samples Annotations Augmentation Fields Run",
    "convert": "Source Labels Output Images Samples Annotations Split Fields Run",
}


def options(text: str) -> list[str]:
    """Return the long names of the options that a help lists."""
    return re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.M)


@pytest.mark.parametrize("command", LONG)
def test_help_shows_what_most_need(run_here: Here, command: str) -> None:
    text = run_here(command, "--help").out
    shown, every = options(text), options(run_here(command, "--help-all").out)
    assert len(shown) <= MOST
    assert FIRST <= {*shown} <= {*every}
    assert re.findall(r"^([A-Z]\w+):$", text, re.M) == GROUPS[command].split()


@pytest.mark.parametrize("command", LONG)
def test_what_is_rare_is_an_option_of_the_command(command: str) -> None:
    found = getattr(datasets, command)
    assert isinstance(found, GroupedCommand)
    names = {
        "pack": datasets.RARE_TO_PACK,
        "augment": datasets.RARE_TO_AUGMENT,
        "convert": datasets.RARE,
    }[command]
    rare = {each.name for each in found.params if getattr(each, "rare", False)}
    assert {*names} <= rare
