"""Two people's edits of one list, made one: a three-way merge, row by row and field by field.

What one of them changed is as that one left it. Where both changed the same in different ways there
is a conflict, and the row has a candidate of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import polars as pl

from dsprep.errors import SourceError
from dsprep.lists.matching import match_paths, match_rows, unpaired
from dsprep.lists.rows import ROWS

Side = Literal["ours", "theirs"]
Row = tuple[int, str, str]
"""Id, label and path."""

_SIDES: Sequence[Side] = ("ours", "theirs")
_LARGEST_ID = 10**18 - 1


class Conflict(NamedTuple):
    """A row that both sides changed, in different ways."""

    # what they disagree about: `id`, `label`, `path`, or several of them with commas; or `removed`,
    # where one removed what the other changed
    what: str
    base: Row | None  # the row as it was; None if both added it
    ours: Row | None  # the row as we left it; None if we removed it
    theirs: Row | None  # the row as they left it; None if they removed it


class Renumbered(NamedTuple):
    """A row of theirs that got another id, because ours has given its id to another row."""

    path: str
    old: int
    new: int


class Edits(NamedTuple):
    """How many rows a side added, removed and changed."""

    added: int
    removed: int
    changed: int


@dataclass(frozen=True, eq=False)
class Merged:
    """What became of two edits."""

    agreed: pl.DataFrame  # the rows that there is no conflict about, with their `place`
    # the rows that there is one about: their `place`, `what` it is about, and the columns of a list
    # twice, with `ours_` and `theirs_` before their names, null where that side has removed the row
    contested: pl.DataFrame
    conflicts: Sequence[Conflict]  # the same in the order of places, as the sides had them
    renumbered: Sequence[Renumbered]  # rows of theirs that got other ids
    ours: Edits  # what we did
    theirs: Edits  # what they did
    order: Side | None  # whose order the rows are in; None if neither changed it

    def decided_by(self, side: Side) -> pl.DataFrame:
        """The list, if one side decides all conflicts."""
        rows = self.contested.select(
            "place", *(pl.col(f"{side}_{name}").alias(name) for name in ROWS)
        )
        both = pl.concat([self.agreed, rows.drop_nulls()])
        return both.sort("place").select(*ROWS)


def merge_rows(base: pl.DataFrame, ours: pl.DataFrame, theirs: pl.DataFrame) -> Merged:
    """Merge two edits of a list.

    Rows are those of the base by path or id. Files that both sides add, or move to one path, are
    one if their labels are equal, and else a conflict. Ids stay different: a row of theirs whose id
    ours has given to another gets the next that is free. The order is that of the side which
    changed it, ours if both did; rows that only the other side has stand at the end.
    """
    tables = {"base": base, "ours": ours, "theirs": theirs}
    ours_pairs, theirs_pairs = match_rows(base, ours), match_rows(base, theirs)
    main = _whose_order(ours_pairs, ours, theirs_pairs, theirs)
    items = _items(base, ours, theirs, ours_pairs, theirs_pairs)
    same = _unchanged(base, ours, ours_pairs) & _unchanged(base, theirs, theirs_pairs)
    same = same.extend(pl.repeat(False, items.height - base.height, dtype=pl.Boolean, eager=True))
    rows = _with_fields(items.filter(~same), tables)
    edits = [_count_edits(rows, side) for side in _SIDES]
    rows = _join_brought(_merge_fields(rows))
    last = max(
        (int(str(each["index"].max())) for each in tables.values() if each.height), default=-1
    )
    rows, renumbered = _renumber(rows, last)
    rows = _placed(rows, main or "ours", tables).sort("place")
    settled = _placed(items.filter(same), main or "ours", tables)
    agreed = rows.filter(pl.col("what").is_null() & pl.col("ours_path").is_not_null())
    contested = rows.filter(pl.col("what").is_not_null())
    return Merged(
        agreed=pl.concat(
            [
                settled.select("place").hstack(ours[settled["ours"]].select(*ROWS)),
                agreed.select("place", *(pl.col(f"ours_{name}").alias(name) for name in ROWS)),
            ]
        ),
        contested=contested.select(
            "place", "what", *(f"{side}_{name}" for side in _SIDES for name in ROWS)
        ),
        conflicts=_conflicts(contested, tables),
        renumbered=renumbered,
        ours=edits[0],
        theirs=edits[1],
        order=main,
    )


def format_merged(merged: Merged) -> str:
    """Write the list with each conflict between markers as git's, to be decided by hand."""
    row = pl.concat_str(*ROWS, separator="\t")
    ours, theirs = (
        pl.concat_str(*(f"{side}_{name}" for name in ROWS), separator="\t") + "\n"
        for side in _SIDES
    )
    marked = pl.concat_str(
        pl.lit("<<<<<<< ours\n"),
        ours.fill_null(""),
        pl.lit("=======\n"),
        theirs.fill_null(""),
        pl.lit(">>>>>>> theirs"),
    )
    lines = pl.concat(
        [
            merged.agreed.select("place", row.alias("line")),
            merged.contested.select("place", marked.alias("line")),
        ]
    )
    text = lines.sort("place").select((pl.col("line") + "\n").str.join(""))
    return str(text.item())


def _whose_order(
    ours_pairs: pl.DataFrame,
    ours: pl.DataFrame,
    theirs_pairs: pl.DataFrame,
    theirs: pl.DataFrame,
) -> Side | None:
    if _has_changed_order(ours_pairs, ours):
        return "ours"
    return "theirs" if _has_changed_order(theirs_pairs, theirs) else None


def _has_changed_order(pairs: pl.DataFrame, side: pl.DataFrame) -> bool:
    """Whether a side has old rows in another order, or new ones before old ones."""
    in_order = pairs["a"].is_sorted()
    return not in_order or (pairs.height > 0 and pairs["b"][-1] != pairs.height - 1)


def _items(
    base: pl.DataFrame,
    ours: pl.DataFrame,
    theirs: pl.DataFrame,
    ours_pairs: pl.DataFrame,
    theirs_pairs: pl.DataFrame,
) -> pl.DataFrame:
    """List all samples by the row number that each has in the three lists, null for none."""
    old = pl.DataFrame(
        {
            "base": pl.int_range(base.height, dtype=pl.Int64, eager=True),
            "ours": _partners(ours_pairs, base.height),
            "theirs": _partners(theirs_pairs, base.height),
        }
    )
    new = [
        pl.int_range(table.height, dtype=pl.Int64, eager=True)
        .filter(unpaired(table.height, pairs["b"]))
        .to_frame(side)
        for side, table, pairs in (("ours", ours, ours_pairs), ("theirs", theirs, theirs_pairs))
    ]
    return pl.concat([old, *new], how="diagonal")


def _partners(pairs: pl.DataFrame, rows: int) -> pl.Series:
    return pl.repeat(None, rows, dtype=pl.Int64, eager=True).scatter(pairs["a"], pairs["b"])


def _unchanged(base: pl.DataFrame, side: pl.DataFrame, pairs: pl.DataFrame) -> pl.Series:
    """Whether each row of the base is the same in the other list."""
    same = base["label"].gather(pairs["a"]) == side["label"].gather(pairs["b"])
    return ~unpaired(base.height, pairs["a"].filter(pairs["alike"] & same))


def _with_fields(items: pl.DataFrame, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Add what each list says of each item: ``base_index`` and so on, and ``ours_id``."""
    fields = [
        table[name].gather(items[key]).alias(f"{key}_{name}")
        for key, table in tables.items()
        for name in ROWS
    ]
    return items.hstack(fields).with_columns(ours_id="ours_index")


def _count_edits(rows: pl.DataFrame, side: Side) -> Edits:
    here, before = pl.col(side).is_not_null(), pl.col("base").is_not_null()
    changed = pl.any_horizontal(_differ(side, "base", name) for name in ROWS)
    counts = rows.select(
        added=(here & ~before).sum(),
        removed=(before & ~here).sum(),
        changed=(here & before & changed).sum(),
    )
    return Edits(*counts.row(0))


def _differ(one: str, other: str, name: str) -> pl.Expr:
    return pl.col(f"{one}_{name}").ne_missing(pl.col(f"{other}_{name}"))


def _merge_fields(rows: pl.DataFrame) -> pl.DataFrame:
    """Let the fields of ``ours_`` and ``theirs_`` be the candidates, which differ in conflicts."""
    before, ours, theirs = (pl.col(name).is_not_null() for name in ("base", *_SIDES))
    gone = before & ~(ours & theirs)
    removed = gone & (
        (ours & (_differ("ours", "base", "label") | _differ("ours", "base", "path")))
        | (theirs & (_differ("theirs", "base", "label") | _differ("theirs", "base", "path")))
    )
    all_there = before & ours & theirs
    doubtful = all_there & (_is_doubtful("ours", "theirs") | _is_doubtful("theirs", "ours"))
    rows = rows.with_columns(gone=gone, removed=removed, doubtful=doubtful)
    rows = rows.with_columns(
        (
            all_there
            & _differ("ours", "theirs", name)
            & _differ("ours", "base", name)
            & _differ("theirs", "base", name)
            | (pl.col("doubtful") if name != "index" else pl.lit(False))
        ).alias(f"conflict_{name}")
        for name in ROWS
    )
    brought = {
        f"brought_{side}": _differ(side, "base", "path") & _differ(side, other, "path")
        for side, other in (_SIDES, _SIDES[::-1])
    }
    what = pl.concat_str(
        *(
            pl.when(f"conflict_{name}").then(pl.lit("id" if name == "index" else name))
            for name in ROWS
        ),
        separator=",",
        ignore_nulls=True,
    )
    return rows.with_columns(
        *(_candidate(side, name) for side in _SIDES for name in ROWS),
        what=pl.when("removed").then(pl.lit("removed")).when(what != "").then(what),
        **brought,
    )


def _is_doubtful(one: str, other: str) -> pl.Expr:
    """Whether one side moved a row to a file of another name, and the other relabeled it.

    That may be one sample; or the id, free after a removal, was given to another.
    """
    before, now = (pl.col(f"{key}_path").str.extract(r"([^/]*)$") for key in ("base", one))
    only_moved = _differ(one, "base", "path") & ~_differ(one, "base", "label")
    only_relabeled = _differ(other, "base", "label") & ~_differ(other, "base", "path")
    return only_moved & only_relabeled & (before != now)


def _candidate(side: Side, name: str) -> pl.Expr:
    own, ours, theirs = (pl.col(f"{key}_{name}") for key in (side, *_SIDES))
    merged = pl.when(_differ("ours", "base", name)).then(ours).otherwise(theirs)
    return (
        pl.when(pl.col("gone") & ~pl.col("removed"))
        .then(None)
        .when(pl.col("removed") | pl.col(f"conflict_{name}"))
        .then(own)
        .otherwise(merged)
        .alias(f"{side}_{name}")
    )


def _join_brought(rows: pl.DataFrame) -> pl.DataFrame:
    """Make one item of two where both sides have brought a file to the same path."""
    rows = rows.with_row_index("item")
    agreed = rows.filter(pl.col("what").is_null() & pl.col("ours_path").is_not_null())
    ours, theirs = (
        agreed.filter(f"brought_{side}").rename({"ours_index": "index", "ours_path": "path"})
        for side in _SIDES
    )
    pairs = match_paths(ours, theirs)
    if pairs.is_empty():
        return rows
    ours, theirs = ours[pairs["a"]], theirs[pairs["b"]]
    joined = ours.rename({"index": "ours_index", "path": "ours_path"}).with_columns(
        theirs["theirs"],
        theirs["theirs_label"],
        base=pl.coalesce(pl.col("base"), theirs["base"]),
        theirs_index=ours["index"],
        theirs_path=ours["path"],
        what=pl.when(ours["ours_label"] != theirs["theirs_label"]).then(pl.lit("label")),
    )
    used = pl.concat([ours["item"], theirs["item"]])
    rest = rows.filter(~pl.col("item").is_in(used.implode()))
    return pl.concat([rest, joined.select(rows.columns)])


def _renumber(rows: pl.DataFrame, last: int) -> tuple[pl.DataFrame, list[Renumbered]]:
    """Give rows of theirs other ids where ours has given theirs away; ``last`` is the largest."""
    is_ours = pl.any_horizontal(
        (pl.col(f"{side}_index") == pl.col("ours_id")).fill_null(False) for side in _SIDES
    )
    taken = rows.filter(is_ours)["ours_id"]
    index = pl.col("theirs_index")
    clash = index.is_in(taken.implode()) & index.ne_missing(pl.col("ours_id"))
    clashing = rows.filter(clash).sort("theirs")
    if clashing.is_empty():
        return rows, []
    if last + clashing.height > _LARGEST_ID:
        raise SourceError(f"no ids are left above {last}: renumber the lists before merging them")
    clashing = clashing.with_columns(new=pl.int_range(last + 1, last + 1 + pl.len()))
    renumbered = [
        Renumbered(*each)
        for each in clashing.select("theirs_path", "theirs_index", "new").iter_rows()
    ]
    rows = rows.join(clashing.select("item", "new"), on="item", how="left", maintain_order="left")
    rows = rows.with_columns(
        ours_index=pl.when(pl.col("ours_index") == index)
        .then(pl.coalesce("new", "ours_index"))
        .otherwise("ours_index"),
        theirs_index=pl.coalesce("new", "theirs_index"),
    )
    return rows.drop("new"), renumbered


def _placed(items: pl.DataFrame, main: Side, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Say where items stand: as in one list, and after all of them what only the other has."""
    other: Side = "theirs" if main == "ours" else "ours"
    return items.with_columns(place=pl.coalesce(main, pl.col(other) + tables[main].height))


def _conflicts(contested: pl.DataFrame, tables: dict[str, pl.DataFrame]) -> list[Conflict]:
    sides = [_rows_at(table, contested[key]) for key, table in tables.items()]
    return [Conflict(*each) for each in zip(contested["what"], *sides, strict=True)]


def _rows_at(table: pl.DataFrame, numbers: pl.Series) -> list[Row | None]:
    fields = (table[name].gather(numbers).to_list() for name in ROWS)
    return [row if row[0] is not None else None for row in zip(*fields, strict=True)]
