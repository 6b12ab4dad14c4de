"""Contests of lists: what people do to them with pandas, and what im2rec does."""

from __future__ import annotations

from pathlib import Path

from .commands import OUT, dsprep, peer
from .contests import Contender, Contest
from .data import DataSet


def list_contests(small: DataSet, listed: DataSet) -> list[Contest]:
    """Contests over a tree of files, and over a list of more than a million lines."""
    whole = str(listed.lst)
    ours, theirs, changes = map(str, edits_of(listed))
    diff = " ".join((*dsprep("lst", "diff", whole, ours), ">", f"{OUT}/patch; test $? = 1"))
    return [
        _contest(
            "lst-create",
            small,
            dsprep("lst", "create", str(small.root), "-o", f"{OUT}/train.lst"),
            ("create", str(small.root), f"{OUT}/train.lst"),
            Contender(
                "im2rec --list",
                (peer("im2rec", "--list", "--recursive", f"{OUT}/train", str(small.root)),),
            ),
        ),
        _contest("lst-diff", listed, ("bash", "-c", diff), ("diff", whole, ours, f"{OUT}/patch")),
        _contest(
            "lst-merge",
            listed,
            dsprep("lst", "merge", whole, ours, theirs, "-o", f"{OUT}/train.lst"),
            ("merge", whole, ours, theirs, f"{OUT}/train.lst"),
        ),
        _contest(
            "lst-relabel",
            listed,
            dsprep(
                *("lst", "relabel", whole, "--map", changes, "--renumber"),
                *("-o", f"{OUT}/train.lst"),
            ),
            ("relabel", whole, changes, f"{OUT}/train.lst"),
        ),
        _contest("lst-stats", listed, dsprep("lst", "stats", whole), ("stats", whole)),
        _contest(
            "split",
            listed,
            dsprep("split", whole, "--ratio", "train=0.8,val=0.1,test=0.1", "-o", OUT),
            ("split", whole, OUT),
        ),
    ]


def edits_of(listed: DataSet) -> tuple[Path, Path, Path]:
    """Where two people's edits of a list are, and a map of its classes."""
    names = ("ours.lst", "theirs.lst", "map.tsv")
    ours, theirs, changes = (listed.cache / f"{listed.name}.{name}" for name in names)
    return ours, theirs, changes


def ensure_edits(listed: DataSet) -> None:
    """Make what is not there: each edit relabels, removes and adds a few rows in a thousand."""
    ours, theirs, changes = edits_of(listed)
    if changes.exists():
        return
    lines = listed.lst.read_text().splitlines()
    _write_edit(ours, lines, 0, "ours")
    _write_edit(theirs, lines, 3, "theirs")
    pairs = (f"{label}\t{label // 2 * 3}\n" for label in range(listed.recipe.classes))
    changes.write_text("".join(pairs))


def _write_edit(path: Path, lines: list[str], shift: int, name: str) -> None:
    with path.open("w") as file:
        for number, line in enumerate(lines):
            if number % 1000 == shift:
                continue
            if number % 1000 == shift + 10:
                index, _, image = line.split("\t")
                line = f"{index}\t{(number + shift) % 7:.6f}\t{image}"
            file.write(line + "\n")
        for number in range(1000):
            file.write(f"{len(lines) + number}\t1.000000\tnew/{name}-{number}.jpg\n")


def _contest(
    work: str, data: DataSet, ours: tuple[str, ...], pandas: tuple[str, ...], *others: Contender
) -> Contest:
    script = Contender("pandas", (peer("pandas_lists", *pandas),))
    return Contest(work, (Contender("dsprep", (ours,)), script, *others), data)
