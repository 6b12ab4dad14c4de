"""What differs between two lists: as tables, and as text that is a patch.

The text has a line per row, its fields separated by tabs; ``row`` is a line of a list:

==================  ===========================================================================
``- row``           this row is gone
``< row``           this row has changed where it stands,
``> row``           on the next line, into this one
``+ place row``     this row is new, and is the line ``place`` (from 1) of the new list
``^ place id``      the row that has this id in the new list has been moved to the line ``place``
``# …``             a comment
==================  ===========================================================================

Rows of the old list that no line names keep their order, and fill the lines that have no place.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import polars as pl

from dsprep.frozen import Frozen
from dsprep.lists.rows import ROWS, class_numbers, join_lines, rows_of_lines, split_lines
from dsprep.printable import json_values
from dsprep.text import refuse
from dsprep.tuples import NamedTuple

Contents = Callable[[pl.Series, pl.Series], tuple[pl.Series, pl.Series]]
"""Takes the paths of two lists; returns texts that are equal where the contents of files are, null
where these are not known."""

_ROW = pl.concat_str(*ROWS, separator="\t")
_NEW = [f"new_{name}" for name in ROWS]
_NUMBER = r"^(?:0|[1-9][0-9]{0,17})$"


class Edits(Frozen):
    """How many rows a change of a list adds, removes, changes and moves."""

    added: int = 0
    removed: int = 0
    changed: int = 0
    reordered: int = 0

    def to_json(self) -> dict[str, Any]:
        return json_values({"added": self.added, "removed": self.removed, "changed": self.changed})


class ClassMove(NamedTuple):
    """How many rows, or objects, went from one class to another; one without name is its number."""

    old: str
    new: str
    moved: int

    def to_json(self) -> dict[str, Any]:
        return json_values({"old": self.old, "new": self.new, "moved": self.moved})


class Diff(Frozen, eq=False):
    """A change of a list: what differs from an old list to a new one."""

    # rows that are gone; `line` is where they stood, from 1, or their line of a patch that was read
    removed: pl.DataFrame
    added: pl.DataFrame  # new rows, with their `place` in the new list, from 1
    # rows that are not what they were: their `line`, the columns of a list as they were, and the
    # same with `new_` before their names
    changed: pl.DataFrame
    # `place` and new `index` of rows that do not stand where the order of the others puts them
    reordered: pl.DataFrame

    @property
    def edits(self) -> Edits:
        parts = self.added, self.removed, self.changed, self.reordered
        return Edits(*map(len, parts))

    @property
    def is_empty(self) -> bool:
        return self.edits == Edits()

    def changed_in(self, name: str) -> pl.DataFrame:
        """Return the changed rows that differ in a column."""
        return self.changed.filter(pl.col(name) != pl.col(f"new_{name}"))


def diff_rows(
    a: pl.DataFrame,
    b: pl.DataFrame,
    *,
    ids: bool = True,
    order: bool = True,
    contents: Contents | None = None,
) -> Diff:
    """Compare two lists."""
    pairs = match_rows(a, b, by_id=ids, contents=contents)
    stays = still_in_order(pairs["a"]) if order else pairs["a"].is_not_null()
    moved = pairs.filter(~stays)
    # Most pairs are alike, so that only their labels can differ.
    relabeled = a["label"].gather(pairs["a"]) != b["label"].gather(pairs["b"])
    differ = pairs.filter(~pairs["alike"] | relabeled)
    old, new = a[differ["a"]].select(*ROWS), b[differ["b"]].select(*ROWS)
    if not ids:
        new = new.with_columns(old["index"])
    places = differ.select(line=pl.col("a") + 1, place=pl.col("b") + 1)
    both = pl.concat(
        [places, old, new.rename(dict(zip(ROWS, _NEW, strict=True)))], how="horizontal"
    )
    kept_ids = b["index"].gather(moved["b"]) if ids else a["index"].gather(moved["a"])
    line, place = (
        pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias(name) for name in ("line", "place")
    )
    return Diff(
        removed=a.select(line, *ROWS).filter(unpaired(a.height, pairs["a"])),
        added=b.select(place, *ROWS).filter(unpaired(b.height, pairs["b"])),
        changed=both.filter(
            pl.any_horizontal(pl.col(name) != pl.col(f"new_{name}") for name in ROWS)
        ),
        reordered=moved.select(pl.col("b").alias("place") + 1, kept_ids),
    )


# Which rows are of one sample


def match_rows(
    a: pl.DataFrame,
    b: pl.DataFrame,
    *,
    by_id: bool = True,
    contents: Contents | None = None,
    by_path_alone: bool = False,
) -> pl.DataFrame:
    """Pair the numbers of rows (``a``, ``b``) of two lists that are of one sample."""
    # These are rows of the same path; of the others, rows whose files have the same content, if it
    # is looked at; of the others, rows of the same id. Among rows of one path, those of the same id
    # come first (if ids do not count, those of the same label), the others are paired in their
    # order. `alike` says that path and id are the same.
    known = pl.col("^(index|label|path)$")  # a merge has no labels here
    tables = {"a": a, "b": b}
    rest = {
        name: rows.select(
            pl.int_range(pl.len(), dtype=pl.Int64).alias(name),
            known,
            content=pl.lit(None, pl.String),
        )
        for name, rows in tables.items()
    }
    pairs = [pl.DataFrame(schema={"a": pl.Int64, "b": pl.Int64, "alike": pl.Boolean})]

    def pair(keys: Sequence[str], where: pl.Expr | None = None, alike: bool = False) -> None:
        if rest["a"].is_empty() or rest["b"].is_empty():
            return
        found = _join(rest["a"], rest["b"], keys)
        found = found if where is None else found.filter(where)
        pairs.append(found.select("a", "b", alike=pl.lit(alike)))
        for name, rows in rest.items():
            left = unpaired(tables[name].height, found[name])
            rest[name] = rows.filter(left.gather(rows[name]))

    if by_id:
        pair(["index"], pl.col("path") == pl.col("path_b"), alike=True)
    else:
        pair(["path", "label"])
    pair(["path"])
    if contents is not None:
        found = contents(rest["a"]["path"], rest["b"]["path"])
        for name, texts in zip(rest, found, strict=True):
            rest[name] = rest[name].with_columns(texts.alias("content"))
        pair(["content"])
    if by_id and not by_path_alone:
        pair(["index"], pl.col("content").is_null() | pl.col("content_b").is_null())
    return pl.concat(pairs).sort("b")


def unpaired(rows: int, numbers: pl.Series) -> pl.Series:
    """Return for every row number whether it is not among these numbers."""
    return pl.repeat(True, rows, dtype=pl.Boolean, eager=True).scatter(numbers, False)


def _join(a: pl.DataFrame, b: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Join each row with one that has the same keys: the first with the first, and so on."""
    if keys == ["index"]:
        return a.join(b, on="index", suffix="_b")
    a, b = (
        rows.with_columns(
            nth=pl.lit(0, pl.Int64)
            if rows.select(keys).is_unique().all()
            else pl.int_range(pl.len()).over(keys)
        )
        for rows in (a, b)
    )
    return a.join(b, on=[*keys, "nth"], suffix="_b").drop("nth")


# The order of rows


def still_in_order(positions: pl.Series) -> pl.Series:
    """Find as many rows as possible that keep their old order; the others have been moved."""
    if positions.is_sorted():
        return positions.is_not_null()
    # A row that has all smaller positions above it, and no others, is in every longest one.
    rank, place = positions.rank("ordinal").cast(pl.Int64).to_frame("rank"), pl.int_range(pl.len())
    above = pl.col("rank").cum_max().shift(fill_value=0)
    kept = rank.select((pl.col("rank") == place + 1) & (above == place)).to_series()
    longest = pl.Series(_longest_increasing(positions.filter(~kept).to_list()), dtype=pl.Boolean)
    return kept.scatter((~kept).arg_true(), longest)


def _longest_increasing(values: list[int]) -> list[bool]:
    """Find a longest increasing subsequence of different numbers (patience sorting)."""
    ends: list[int] = []  # by length of a subsequence, the smallest value that ends one
    places: list[int] = []  # position of each of the smallest values
    before = []
    for place, value in enumerate(values):
        length = len(ends) if not ends or value > ends[-1] else bisect_left(ends, value)
        ends[length : length + 1] = [value]
        places[length : length + 1] = [place]
        before.append(places[length - 1] if length else -1)
    chosen = [False] * len(values)
    place = places[-1] if places else -1
    while place >= 0:
        chosen[place] = True
        place = before[place]
    return chosen


def arrange(rows: pl.DataFrame, placed: pl.DataFrame) -> pl.DataFrame:
    """Put rows into their places, and the others, in their order, into those that are left."""
    if placed.is_empty():
        return rows
    places = pl.int_range(1, rows.height + placed.height + 1, dtype=pl.Int64, eager=True)
    free = places.to_frame("place").join(placed, on="place", how="anti", maintain_order="left")
    columns = [*rows.columns, "place"]
    both = pl.concat([rows.hstack(free).select(columns), placed.select(columns)])
    return both.sort("place").drop("place")


# Patches


def format_diff(diff: Diff) -> str:
    """Write the lines that :func:`parse_patch` reads."""
    place, new = pl.col("place").cast(pl.String), pl.concat_str(*_NEW, separator="\t")
    parts = [
        (diff.removed, [pl.lit("-\t"), _ROW]),
        (diff.changed, [pl.lit("<\t"), _ROW, pl.lit("\n>\t"), new]),
        (diff.added, [pl.lit("+\t"), place, pl.lit("\t"), _ROW]),
        (diff.reordered, [pl.lit("^\t"), place, pl.lit("\t"), pl.col("index")]),
    ]
    return "".join(
        join_lines(rows.select(pl.concat_str(words)).to_series()) for rows, words in parts
    )


def parse_patch(text: str, source: str) -> Diff:
    """Read a patch; ``line``, in each table, is the line of the patch (``new_line`` for ``>``)."""
    kind, row = pl.col("kind"), pl.col("raw")
    lines = split_lines(text).with_columns(row.str.strip_chars_end())
    lines = lines.filter(~row.str.starts_with("#"))
    problem = "not a line of a diff: these begin with -, +, <, >, ^ or #"
    refuse(source, lines, ~row.str.contains(r"^[-+<>^]\t."), problem.format_map)
    lines = lines.select("line", kind=row.str.head(1), raw=row.str.slice(2))
    alone = ((kind == "<") & (kind.shift(-1) != ">").fill_null(True)) | (
        (kind == ">") & (kind.shift(1) != "<").fill_null(True)
    )
    refuse(source, lines, alone, "a line with < and one with > belong together".format_map)
    # What follows the place, which stands first, is the row.
    parts = row.str.splitn("\t", 2).struct
    placed = lines.filter(kind.is_in(["+", "^"])).with_columns(
        word=parts.field("field_0"), raw=parts.field("field_1")
    )
    no_place = ~pl.col("word").str.contains(_NUMBER) | (pl.col("word") == "0")
    refuse(source, placed, no_place, "{word!r} is not a line number, from 1 up".format_map)
    refuse(source, placed, row.is_null(), "nothing follows the line number".format_map)
    placed = placed.with_columns(place=pl.col("word").cast(pl.Int64))
    added, moved = placed.filter(kind == "+"), placed.filter(kind == "^")
    refuse(source, moved, ~row.str.contains(_NUMBER), "{raw!r} is not an id".format_map)
    old = rows_of_lines(lines.filter(kind.is_in(["-", "<"])), source)
    into = lines.filter(kind == ">")
    new = rows_of_lines(pl.concat([into, added.select(into.columns)]).sort("line"), source)
    into = new.join(into, on="line", how="semi").select(pl.all().name.prefix("new_"))
    is_changed = pl.col("line").is_in(lines.filter(kind == "<")["line"].implode())
    return Diff(
        removed=old.filter(~is_changed),
        added=new.join(added, on="line", maintain_order="left").select("line", "place", *ROWS),
        changed=old.filter(is_changed).hstack(into),
        reordered=moved.select("line", "place", index=row.cast(pl.Int64)),
    )


def patch_rows(rows: pl.DataFrame, patch: Diff, source: str) -> pl.DataFrame:
    """Apply a patch that was read; refuse one that was made for another list."""

    def refuse_any(lines: pl.DataFrame, problem: str, wrong: pl.Expr | bool = True) -> None:
        refuse(source, lines.sort("line").filter(wrong), pl.lit(True), problem.format_map)

    removed, changed, added, moved = patch.removed, patch.changed, patch.added, patch.reordered
    old = pl.concat([removed, changed.select("line", *ROWS)])
    there = old.join(rows, on="index", how="left", suffix="_there")
    same = (pl.col("label") == pl.col("label_there")) & (pl.col("path") == pl.col("path_there"))
    found = pl.format("{} {}", "label_there", "path_there").str.replace_all("\t", " ")
    fit = "the patch does not fit: "
    refuse(
        source,
        there.with_columns(found=found).sort("line"),
        ~same.fill_null(False),
        lambda row: (
            f"{fit}the list has no row with the id {row['index']}"
            if row["found"] is None
            else f"{fit}the row {row['index']} of the list is {row['found']!r}"
        ),
    )
    kept = rows.join(removed, on="index", how="anti", maintain_order="left")
    # The ids of new rows differ from each other; other rows must not have them either.
    others = kept.join(changed, on="index", how="anti")
    new = changed.select(line="new_line", index="new_index")
    taken = pl.concat([new, added.select("line", "index")]).join(others, on="index", how="semi")
    refuse_any(taken, fit + "another row of the list has the id {index}")
    if len(changed):
        into = changed.select("index", *_NEW)
        kept = kept.join(into, on="index", how="left", maintain_order="left")
        kept = kept.select(pl.coalesce(f"new_{name}", name).alias(name) for name in ROWS)
    unknown = moved.join(kept, on="index", how="anti")
    refuse_any(unknown, fit + "no row that is kept has the id {index}")
    refuse_any(moved, "the row {index} is moved already", ~pl.col("index").is_first_distinct())
    placed = pl.concat([moved.select("line", "place"), added.select("line", "place")])
    repeated = ~pl.col("place").is_first_distinct()
    refuse_any(placed, "another row is line {place} already", repeated)
    count = kept.height + added.height
    beyond = f"line {{place}} is beyond the end of a list of {count} rows"
    refuse_any(placed, beyond, pl.col("place") > count)
    stay = kept.join(moved, on="index", how="anti", maintain_order="left")
    elsewhere = kept.join(moved, on="index").select("place", *ROWS)
    return arrange(stay, pl.concat([added.select("place", *ROWS), elsewhere]))


# What a difference means for each class


class ClassChange(NamedTuple):
    """What became of a class."""

    number: int  # the class number
    name: str | None  # its name; None if there are no names, or none for the number
    before: int  # its rows in the old list
    after: int  # its rows in the new one
    added: int  # new rows of it
    removed: int  # rows of it that are gone
    gained: int  # rows that had another label before
    lost: int  # rows that have another label now

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "number": self.number,
                "name": self.name,
                "before": self.before,
                "after": self.after,
                "added": self.added,
                "removed": self.removed,
                "gained": self.gained,
                "lost": self.lost,
            }
        )


class OtherName(NamedTuple):
    """A class number that has two names; None stands for no name."""

    number: int
    before: str | None
    after: str | None

    def to_json(self) -> dict[str, Any]:
        return json_values({"number": self.number, "before": self.before, "after": self.after})


def other_names(
    before: tuple[str, ...] | None, after: tuple[str, ...] | None
) -> Sequence[OtherName]:
    """Find class numbers that do not have the same name; none if one side has no names at all."""
    if before is None or after is None:
        return ()
    pairs = enumerate(zip_longest(before, after))
    return [OtherName(number, old, new) for number, (old, new) in pairs if old != new]


def class_changes(
    a: pl.DataFrame, b: pl.DataFrame, diff: Diff, names: Sequence[str] | None
) -> list[ClassChange]:
    """Count what became of each class whose rows were added, removed or relabeled."""
    relabeled = diff.changed_in("label")
    parts = (diff.added["label"], diff.removed["label"], relabeled["new_label"], relabeled["label"])
    columns = [labels.alias("label") for labels in (a["label"], b["label"], *parts)]
    tables = [labels.value_counts().select(class_numbers(), "count") for labels in columns]
    counts = [dict(table.drop_nulls().iter_rows()) for table in tables]
    return [
        ClassChange(number, _name(number, names), *(rows.get(number, 0) for rows in counts))
        for number in sorted(set().union(*counts[2:]))
    ]


def relabelings(diff: Diff, names: Sequence[str] | None) -> list[ClassMove]:
    """Count rows by the class that they had and the one that they have, the most first."""
    pairs = diff.changed_in("label").group_by("label", "new_label").len("rows")
    moves = pairs.select(class_numbers().alias("old"), class_numbers("new_label"), "rows")
    moves = moves.drop_nulls().sort("rows", "old", "new_label", descending=[True, False, False])
    return [
        ClassMove(_name(old, names) or str(old), _name(new, names) or str(new), rows)
        for old, new, rows in moves.iter_rows()
    ]


def _name(number: int, names: Sequence[str] | None) -> str | None:
    return names[number] if names is not None and 0 <= number < len(names) else None
