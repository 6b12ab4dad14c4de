"""What tests call in workers: this module imports nothing."""

from __future__ import annotations

import sys
from typing import Any


def read_rows(given: tuple[Any, Any]) -> tuple[int, bool]:
    """Read rows with a reader; return how many samples they have, and whether polars is loaded."""
    reader, rows = given
    return len(list(reader.read(rows))), "polars" in sys.modules
