"""Tables of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Write a table; a head that ends in `>` has its column aligned to the right."""
    rules = ["--:" if head.endswith(">") else "---" for head in heads]
    cells = [[head.removesuffix(">").strip() for head in heads], rules, *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)
