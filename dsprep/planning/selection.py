"""Which samples of a catalog are taken, and which more than once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Selection:
    """Which samples to take.

    Attributes:
        filter: An expression that is true of them; None for all.
        table: A CSV or TSV file with more columns for it.
        balance: Whether to take as many samples of each class.
        oversample: Whether to do that by repeating samples, rather than by leaving some out.
        seed: Decides which.
    """

    filter: str | None = None
    table: str | None = None
    balance: bool = False
    oversample: bool = False
    seed: int = 0


@dataclass(frozen=True)
class Chosen:
    """What a selection did.

    Attributes:
        filtered: How many samples the filter left out.
        unknown: Of how many of those it is neither true nor false, for want of a value.
        left_out: How many samples of each class the balancing left out.
        repeated: How many it repeated.
    """

    filtered: int = 0
    unknown: int = 0
    left_out: dict[int, int] = field(default_factory=dict)
    repeated: dict[int, int] = field(default_factory=dict)
