"""What a user asked of a split, as far as it decides where a sample goes."""

from __future__ import annotations

from dataclasses import dataclass

from dsprep.errors import OptionError
from dsprep.schema import Choice
from dsprep.splits.materialize import WAYS
from dsprep.splits.ratios import Ratios, equal_ratios, make_ratios

DEFAULT_RATIOS = (("train", "0.8"), ("val", "0.1"), ("test", "0.1"))
"""The sides, if nobody says otherwise."""

LEAKS = ("report", "together")

WIDEST_DISTANCE = 16
"""Bits of 64; images whose hashes differ in more are not alike."""


@dataclass(frozen=True)
class Asked:
    """The arguments of :func:`dsprep.commands.split.split` of the same names, checked."""

    source: str
    others: tuple[str, ...]
    list_file: str | None
    labels: str | None
    path_column: str | None
    label_columns: tuple[str, ...]
    label_separator: str | None
    choice: Choice
    duplicates: str | None
    classes: str | None
    class_order: str | None
    extensions: tuple[str, ...]
    kind: str | None
    parts: bool
    pairs: tuple[tuple[str, str], ...]
    root: str | None
    ratios: tuple[tuple[str, str], ...] | None
    folds: int | None
    stratify: bool
    group: str | None
    stable: bool
    seed: int
    assign: str | None
    assign_column: str | None
    skip_unmatched: bool
    leaks: str | None
    near: bool
    near_distance: int
    materialize: str | None

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        for problem, text in self._problems():
            if problem:
                raise OptionError(text)
        if self.ratios is not None:
            make_ratios(dict(self.ratios))

    def _problems(self) -> list[tuple[bool, str]]:
        together = self.leaks == "together"
        return [
            (self.folds is not None and self.ratios is not None, "give --ratio or --folds"),
            (self.folds is not None and self.folds < 2, f"--folds {self.folds}: 2 at least"),
            (self.leaks not in (None, *LEAKS), f"--leaks {self.leaks}: is none of {LEAKS}"),
            (
                not 0 <= self.near_distance <= WIDEST_DISTANCE,
                f"--near-distance {self.near_distance}: is not from 0 to {WIDEST_DISTANCE}",
            ),
            (
                self.stable and together,
                "--stable and --leaks together contradict each other: a copy that comes later "
                "would move samples; use --leaks report",
            ),
            (
                self.materialize not in (None, *WAYS),
                f"--materialize {self.materialize}: is none of {WAYS}",
            ),
            (
                self.materialize is not None and self.folds is not None,
                "--materialize goes with sides, not with --folds, where a file has several places",
            ),
        ]

    def wanted(self, gives_classes: bool) -> Ratios:
        """The sides and their shares."""
        if self.folds is not None:
            return equal_ratios([str(fold) for fold in range(self.folds)])
        default = (("val", "1"),) if gives_classes else DEFAULT_RATIOS
        return make_ratios(dict(self.ratios or default))
