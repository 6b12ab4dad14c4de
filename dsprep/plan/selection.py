"""Which samples of a catalog are taken, and which more than once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Selection:
    """Which samples to take."""

    filter: str | None = None  # an expression that is true of them; None for all
    table: str | None = None  # A CSV or TSV file with more columns for it
    balance: bool = False  # whether to take as many samples of each class
    # whether to do that by repeating samples, rather than by leaving some out
    oversample: bool = False
    seed: int = 0  # decides which


@dataclass(frozen=True)
class Chosen:
    """What a selection did."""

    filtered: int = 0  # how many samples the filter left out
    unknown: int = 0  # of how many of those it is neither true nor false, for want of a value
    # how many samples of each class the balancing left out
    left_out: dict[int, int] = field(default_factory=dict)
    repeated: dict[int, int] = field(default_factory=dict)  # how many it repeated
