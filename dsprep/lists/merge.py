"""A three-way merge of two edits of one list, row by row and field by field.

A change of one side is kept. If both sides changed the same in different ways, there is a conflict,
and the row has a candidate of each side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import polars as pl

from dsprep.errors import SourceError
from dsprep.frozen import Frozen
from dsprep.lists.diff import Edits, match_rows, unpaired
from dsprep.lists.rows import LARGEST_ID, ROWS, join_lines
from dsprep.printable import json_values
from dsprep.tuples import NamedTuple

Side = Literal["ours", "theirs"]
Row = tuple[int, str, str]  # id, label and path

_SIDES: Sequence[Side] = ("ours", "theirs")


class Conflict(NamedTuple):
    """A row that both sides changed, in different ways."""

    # what they disagree about: `id`, `label`, `path`, or several of them with commas; or `removed`,
    # where one removed what the other changed
    what: str
    base: Row | None  # the row as it was; None if both added it
    ours: Row | None  # the row as we left it; None if we removed it
    theirs: Row | None  # the row in their list; None if they removed it

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {"what": self.what, "base": self.base, "ours": self.ours, "theirs": self.theirs}
        )


class Renumbered(NamedTuple):
    """A row of theirs that got another id, because ours gave its id to another row."""

    path: str
    old: int
    new: int

    def to_json(self) -> dict[str, Any]:
        return json_values({"path": self.path, "old": self.old, "new": self.new})


class Merged(Frozen, eq=False):
    """The result of a merge."""

    agreed: pl.DataFrame  # the rows without a conflict, with their `place`
    # the rows with one: their `place`, `what` the conflict is about, and the columns of a list
    # twice, with `ours_` and `theirs_` before their names, null where that side removed the row
    contested: pl.DataFrame
    conflicts: Sequence[Conflict]  # conflicts in the order of the rows
    renumbered: Sequence[Renumbered]  # rows of theirs that got other ids
    ours: Edits  # what we did
    theirs: Edits  # edits in their list
    order: Side | None  # whose order the rows are in; None if neither changed it
    path: str = ""  # the list that was written
    rows: int = 0  # its rows, without those that have an undecided conflict
    decided: Side | None = None  # who decided the conflicts; None if they are between markers
    new_classes: Sequence[str] = ()  # class names that only theirs has

    @property
    def undecided(self) -> bool:
        """Whether there are conflicts to decide."""
        return bool(self.conflicts) and self.decided is None

    def decided_by(self, side: Side) -> pl.DataFrame:
        """The list, if one side decides all conflicts."""
        rows = self.contested.select(
            "place", *(pl.col(f"{side}_{name}").alias(name) for name in ROWS)
        )
        both = pl.concat([self.agreed, rows.drop_nulls()])
        return both.sort("place").select(*ROWS)

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "path": self.path,
                "rows": self.rows,
                "ours": self.ours,
                "theirs": self.theirs,
                "order": self.order,
                "renumbered": self.renumbered,
                "conflicts": self.conflicts,
                "decided": self.decided,
                "new_classes": self.new_classes,
            }
        )


def merge_rows(base: pl.DataFrame, ours: pl.DataFrame, theirs: pl.DataFrame) -> Merged:
    """Merge two edits of a list."""
    # Rows are those of the base by path or id. Files that both sides add, or move to one path, are
    # one if their labels are equal, and else a conflict. Ids stay different: a row of theirs whose
    # id ours gave to another row gets the next free one. The order is that of the side which
    # changed it, ours if both did; rows that only the other side has stand at the end.
    tables = {"base": base, "ours": ours, "theirs": theirs}
    pairs: dict[Side, pl.DataFrame] = {}
    edits: dict[str, Edits] = {}
    order: Side | None = None
    for side in _SIDES:
        found = match_rows(base, tables[side])
        labels = base["label"].gather(found["a"]), tables[side]["label"].gather(found["b"])
        same = found["alike"] & (labels[0] == labels[1])
        pairs[side] = found.with_columns(same=same)
        added, removed = tables[side].height - found.height, base.height - found.height
        edits[side] = Edits(added, removed, changed=int((~same).sum()))
        has_new_before_old = found.height > 0 and found["b"][-1] != found.height - 1
        if order is None and (not found["a"].is_sorted() or has_new_before_old):
            order = side
    items = _items(tables, pairs)
    rows = items.filter(~pl.col("same"))
    rows = rows.with_columns(
        table[name].gather(rows[key]).alias(f"{key}_{name}")
        for key, table in tables.items()
        for name in ROWS
    ).with_columns(ours_id="ours_index")
    rows = _join_brought(_merge_fields(rows))
    last = max(int(str(table["index"].max())) if len(table) else -1 for table in tables.values())
    rows, renumbered = _renumber(rows, last)
    # Rows stand where one list has them, and after all of these what only the other has.
    main = order or "ours"
    place = pl.coalesce(main, pl.col(_SIDES[main == "ours"]) + tables[main].height).alias("place")
    rows = rows.with_columns(place).sort("place")
    alike = items.filter("same").select(place, "ours")
    agreed = rows.filter(pl.col("what").is_null() & pl.col("ours_path").is_not_null())
    contested = rows.filter(pl.col("what").is_not_null())
    # As the sides had them: candidates differ only in what the conflict is about.
    sides = [
        [
            None if row[0] is None else row
            for row in table.select(pl.col(*ROWS).gather(contested[key])).iter_rows()
        ]
        for key, table in tables.items()
    ]
    return Merged(
        agreed=pl.concat(
            [
                alike.select("place").hstack(ours[alike["ours"]].select(*ROWS)),
                agreed.select("place", *(pl.col(f"ours_{name}").alias(name) for name in ROWS)),
            ]
        ),
        contested=contested.select(
            "place", "what", *(f"{side}_{name}" for side in _SIDES for name in ROWS)
        ),
        conflicts=[Conflict(*row) for row in zip(contested["what"], *sides, strict=True)],
        renumbered=renumbered,
        ours=edits["ours"],
        theirs=edits["theirs"],
        order=order,
    )


def format_merged(merged: Merged) -> str:
    """Write the list with each conflict between markers like git's, to be decided by hand."""
    ours, theirs = (
        (pl.concat_str(*(f"{side}_{name}" for name in ROWS), separator="\t") + "\n").fill_null("")
        for side in _SIDES
    )
    marked = pl.format("<<<<<<< ours\n{}=======\n{}>>>>>>> theirs", ours, theirs)
    row = pl.concat_str(*ROWS, separator="\t")
    lines = pl.concat(
        [merged.agreed.select("place", line=row), merged.contested.select("place", line=marked)]
    )
    return join_lines(lines.sort("place")["line"])


def _items(tables: dict[str, pl.DataFrame], pairs: dict[Side, pl.DataFrame]) -> pl.DataFrame:
    """Return, for each sample, its row number in each of the three lists; null where absent."""
    # `same` says that they are the same in all.
    base = tables["base"]
    numbers = pl.int_range(base.height, dtype=pl.Int64, eager=True)
    items, same = numbers.to_frame("base"), pl.repeat(True, base.height, eager=True)
    new = []
    for side, found in pairs.items():
        rows = tables[side].height
        same &= ~unpaired(base.height, found["a"].filter(found["same"]))
        partners = pl.repeat(None, base.height, dtype=pl.Int64, eager=True)
        items = items.with_columns(partners.scatter(found["a"], found["b"]).alias(side))
        others = pl.int_range(rows, dtype=pl.Int64, eager=True).filter(unpaired(rows, found["b"]))
        new.append(others.to_frame(side).with_columns(same=pl.lit(False)))
    return pl.concat([items.with_columns(same=same), *new], how="diagonal")


def _differ(one: str, other: str, name: str) -> pl.Expr:
    return pl.col(f"{one}_{name}").ne_missing(pl.col(f"{other}_{name}"))


def _merge_fields(rows: pl.DataFrame) -> pl.DataFrame:
    """Let the fields of ``ours_`` and ``theirs_`` be the candidates, which differ in conflicts."""
    before, ours, theirs = (pl.col(name).is_not_null() for name in ("base", *_SIDES))
    gone, all_there = before & ~(ours & theirs), before & ours & theirs
    edited = [_differ(side, "base", "label") | _differ(side, "base", "path") for side in _SIDES]
    removed = gone & (ours & edited[0] | theirs & edited[1])
    doubtful = all_there & (_is_doubtful("ours", "theirs") | _is_doubtful("theirs", "ours"))
    conflicts = {
        name: all_there
        & _differ("ours", "theirs", name)
        & _differ("ours", "base", name)
        & _differ("theirs", "base", name)
        | (doubtful & (name != "index"))
        for name in ROWS
    }

    def candidate(side: Side, name: str) -> pl.Expr:
        merged = pl.when(_differ("ours", "base", name)).then(f"ours_{name}")
        own = pl.when(removed | conflicts[name]).then(f"{side}_{name}")
        kept = own.otherwise(merged.otherwise(f"theirs_{name}"))
        return pl.when(~gone | removed).then(kept).alias(f"{side}_{name}")

    words = [
        pl.when(conflict).then(pl.lit("id" if name == "index" else name))
        for name, conflict in conflicts.items()
    ]
    what = pl.concat_str(*words, separator=",", ignore_nulls=True)
    return rows.with_columns(
        *(candidate(side, name) for side in _SIDES for name in ROWS),
        what=pl.when(removed).then(pl.lit("removed")).when(what != "").then(what),
        brought_ours=_differ("ours", "base", "path") & _differ("ours", "theirs", "path"),
        brought_theirs=_differ("theirs", "base", "path") & _differ("ours", "theirs", "path"),
    )


def _is_doubtful(one: str, other: str) -> pl.Expr:
    """Whether one side moved a row to a file of another name, and the other relabeled it."""
    # That may be one sample; or the id, free after a removal, was given to another.
    before, now = (pl.col(f"{key}_path").str.extract(r"([^/]*)$") for key in ("base", one))
    only_moved = _differ(one, "base", "path") & ~_differ(one, "base", "label")
    only_relabeled = _differ(other, "base", "label") & ~_differ(other, "base", "path")
    return only_moved & only_relabeled & (before != now)


def _join_brought(rows: pl.DataFrame) -> pl.DataFrame:
    """Make one item of two where both sides have brought a file to the same path."""
    rows = rows.with_row_index("item")
    agreed = rows.filter(pl.col("what").is_null() & pl.col("ours_path").is_not_null())
    ours, theirs = (
        agreed.filter(f"brought_{side}").rename({"ours_index": "index", "ours_path": "path"})
        for side in _SIDES
    )
    pairs = match_rows(ours, theirs, by_path_alone=True)
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
    """Give rows of theirs ids above ``last``, the largest, where ours gave theirs to others."""
    is_ours = pl.any_horizontal(
        (pl.col(f"{side}_index") == pl.col("ours_id")).fill_null(False) for side in _SIDES
    )
    taken = rows.filter(is_ours)["ours_id"]
    index = pl.col("theirs_index")
    clash = index.is_in(taken.implode()) & index.ne_missing(pl.col("ours_id"))
    clashing = rows.filter(clash).sort("theirs")
    if clashing.is_empty():
        return rows, []
    if last + clashing.height > LARGEST_ID:
        raise SourceError(f"no ids are left above {last}: renumber the lists before merging them")
    clashing = clashing.with_columns(new=pl.int_range(last + 1, last + 1 + pl.len()))
    changes = clashing.select("theirs_path", "theirs_index", "new").iter_rows()
    renumbered = [Renumbered(*change) for change in changes]
    rows = rows.join(clashing.select("item", "new"), on="item", how="left", maintain_order="left")
    rows = rows.with_columns(
        ours_index=pl.when(pl.col("ours_index") == index)
        .then(pl.coalesce("new", "ours_index"))
        .otherwise("ours_index"),
        theirs_index=pl.coalesce("new", "theirs_index"),
    )
    return rows.drop("new"), renumbered
