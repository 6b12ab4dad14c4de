"""Which rows of two lists are of one sample: those of one path, of one content, of one id."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

Contents = Callable[[pl.Series, pl.Series], tuple[pl.Series, pl.Series]]
"""What the files of two lists hold, given their paths: texts that are equal where the files are,
and null where that is not known."""


def match_rows(
    a: pl.DataFrame, b: pl.DataFrame, *, by_id: bool = True, contents: Contents | None = None
) -> pl.DataFrame:
    """Pair rows of two lists.

    Rows are of one sample if they have the same path; of those left over, if their files have the
    same content, should that be asked for; of those left over, if they have the same id. Among rows
    of one path, those of the same id are paired first (if ids tell nothing, those of the same
    label), the others in their order.
    """
    rest = _Unpaired(a, b)
    rest.pair_paths(by_id)
    if contents is not None:
        rest.learn(contents)
        rest.pair(["content"])
    if by_id:
        rest.pair(["index"], pl.col("content").is_null() | pl.col("content_b").is_null())
    return rest.pairs.sort("b")


def match_paths(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    """Pair the rows of two lists that have the same path, as :func:`match_rows` does."""
    rest = _Unpaired(a, b)
    rest.pair_paths(by_id=True)
    return rest.pairs.sort("b")


def unpaired(rows: int, numbers: pl.Series) -> pl.Series:
    """Whether each of so many rows is none of those with these numbers."""
    return pl.repeat(True, rows, dtype=pl.Boolean, eager=True).scatter(numbers, False)


def _pair_rows(a: pl.DataFrame, b: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Join rows that have the same keys, each with one: the first with the first, and so on."""
    if keys == ["index"]:
        return a.join(b, on="index", suffix="_b")
    on = [*keys, "nth"]
    return _counted(a, keys).join(_counted(b, keys), on=on, suffix="_b").drop("nth")


def _counted(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Say of each row how many of the same keys stand above it."""
    if rows.select(keys).is_unique().all():
        return rows.with_columns(nth=pl.lit(0, pl.Int64))
    return rows.with_columns(nth=pl.int_range(pl.len()).over(keys))


class _Unpaired:
    """Rows of two lists that nothing has paired yet, and the pairs."""

    def __init__(self, a: pl.DataFrame, b: pl.DataFrame) -> None:
        self._a, self._b = _numbered(a, "a"), _numbered(b, "b")
        self._rows = a.height, b.height
        self.pairs = pl.DataFrame(schema={"a": pl.Int64, "b": pl.Int64, "alike": pl.Boolean})

    def pair(
        self, keys: Sequence[str], condition: pl.Expr | None = None, alike: bool = False
    ) -> None:
        """Pair rows of the same keys, should they fulfill a condition."""
        if self._a.is_empty() or self._b.is_empty():
            return
        found = _pair_rows(self._a, self._b, keys)
        if condition is not None:
            found = found.filter(condition)
        self.pairs = pl.concat([self.pairs, found.select("a", "b", alike=pl.lit(alike))])
        self._a, self._b = (
            rest.filter(unpaired(rows, found[name]).gather(rest[name]))
            for rest, rows, name in zip((self._a, self._b), self._rows, "ab", strict=True)
        )

    def pair_paths(self, by_id: bool) -> None:
        """Pair rows of the same path, those of the same id or label first."""
        if by_id:
            self.pair(["index"], pl.col("path") == pl.col("path_b"), alike=True)
        else:
            self.pair(["path", "label"])
        self.pair(["path"])

    def learn(self, contents: Contents) -> None:
        """Look into the files."""
        of_a, of_b = contents(self._a["path"], self._b["path"])
        self._a = self._a.with_columns(of_a.alias("content"))
        self._b = self._b.with_columns(of_b.alias("content"))


def _numbered(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    number = pl.int_range(pl.len(), dtype=pl.Int64).alias(name)
    known = pl.col("^(index|label|path)$")  # there may be no labels, where ids tell enough
    return rows.select(number, known, content=pl.lit(None, pl.String))
