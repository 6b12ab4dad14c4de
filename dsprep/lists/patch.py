"""Do to a list what a diff says; what a patch must look like is told in ``diff``."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from dsprep.errors import SourceError
from dsprep.lists.order import arrange
from dsprep.lists.rows import ROWS, parse_rows
from dsprep.text import refuse

_LINE = r"^[-+<>^]\t."
_NUMBER = r"^(?:0|[1-9][0-9]{0,17})$"


@dataclass(frozen=True, eq=False)
class Patch:
    """A diff that was read; ``line`` is the line of the patch, from 1, in each table."""

    source: str  # its name, for messages
    removed: pl.DataFrame  # rows that have to be in the list, and go
    changed: pl.DataFrame  # rows that have to be in the list
    into: pl.DataFrame  # what these become, row by row
    added: pl.DataFrame  # new rows, with the column `place`
    reordered: pl.DataFrame  # `place` and `index` (in the new list) of rows that go elsewhere


def parse_patch(text: str, source: str) -> Patch:
    """Read a patch."""
    lines = pl.DataFrame({"text": [text]}).select(pl.col("text").str.split("\n").explode())
    lines = lines.with_row_index("line", offset=1).select(
        pl.col("line").cast(pl.Int64), pl.col("text").str.strip_chars_end()
    )
    lines = lines.filter(~pl.col("text").str.contains(r"^(?:#|$)"))
    refuse(
        source,
        lines,
        ~pl.col("text").str.contains(_LINE),
        lambda row: "not a line of a diff: these begin with -, +, <, >, ^ or #",
    )
    lines = lines.select("line", kind=pl.col("text").str.head(1), row=pl.col("text").str.slice(2))
    _require_pairs(lines, source)
    old = _parse(lines.filter(pl.col("kind").is_in(["-", "<"])), source)
    placed = _split_places(lines.filter(pl.col("kind").is_in(["+", "^"])), source)
    new = pl.concat(
        [
            lines.filter(pl.col("kind") == ">").with_columns(place=pl.lit(None, pl.Int64)),
            placed.filter(pl.col("kind") == "+"),
        ]
    )
    new = _parse(new.sort("line"), source)
    moved = placed.filter(pl.col("kind") == "^")
    refuse(
        source,
        moved,
        ~pl.col("row").str.contains(_NUMBER),
        lambda row: f"{row['row']!r} is not an id",
    )
    return Patch(
        source,
        removed=old.filter(pl.col("kind") == "-").select("line", *ROWS),
        changed=old.filter(pl.col("kind") == "<").select("line", *ROWS),
        into=new.filter(pl.col("kind") == ">").select("line", *ROWS),
        added=new.filter(pl.col("kind") == "+").select("line", "place", *ROWS),
        reordered=moved.select("line", "place", index=pl.col("row").cast(pl.Int64)),
    )


def patch_rows(rows: pl.DataFrame, patch: Patch) -> pl.DataFrame:
    """Do to a list what a patch says."""
    _require_rows(rows, pl.concat([patch.removed, patch.changed]), patch.source)
    kept = rows.join(patch.removed, on="index", how="anti", maintain_order="left")
    _require_free_ids(kept, patch)
    kept = _changed(kept, patch)
    _require_places(kept, patch)
    placed = patch.added.select("place", *ROWS)
    if patch.reordered.is_empty():
        return arrange(kept, placed)
    moved = kept.join(patch.reordered.select("index", "place"), on="index")
    stay = kept.join(patch.reordered, on="index", how="anti", maintain_order="left")
    return arrange(stay, pl.concat([placed, moved.select(placed.columns)]))


def _require_pairs(lines: pl.DataFrame, source: str) -> None:
    kind = pl.col("kind")
    wrong = ((kind == "<") & (kind.shift(-1) != ">").fill_null(True)) | (
        (kind == ">") & (kind.shift(1) != "<").fill_null(True)
    )
    refuse(source, lines, wrong, lambda row: "a line with < and one with > belong together")


def _split_places(lines: pl.DataFrame, source: str) -> pl.DataFrame:
    """Take the place, which stands first, out of the row."""
    parts = pl.col("row").str.splitn("\t", 2).struct
    lines = lines.with_columns(word=parts.field("field_0"), row=parts.field("field_1"))
    wrong = ~pl.col("word").str.contains(_NUMBER) | (pl.col("word") == "0")
    refuse(source, lines, wrong, lambda row: f"{row['word']!r} is not a line number, from 1 up")
    refuse(source, lines, pl.col("row").is_null(), lambda row: "nothing follows the line number")
    return lines.select("line", "kind", "row", place=pl.col("word").cast(pl.Int64))


def _parse(lines: pl.DataFrame, source: str) -> pl.DataFrame:
    """Read the rows in lines, as strictly as those of a list."""
    if lines.is_empty():
        rows = ROWS.to_frame()
    else:
        try:
            rows = parse_rows("\n".join(lines["row"]), source).select(*ROWS)
        except SourceError:
            # Once more where they stand, for a message that names the line of the patch.
            parse_rows(_in_place(lines), source)
            raise
    return rows.hstack(lines.drop("row"))


def _in_place(lines: pl.DataFrame) -> str:
    texts = [""] * lines["line"][-1]
    for line, row in lines.select("line", "row").iter_rows():
        texts[line - 1] = row
    return "\n".join(texts)


def _require_rows(rows: pl.DataFrame, old: pl.DataFrame, source: str) -> None:
    """Refuse a patch that was made for another list."""
    there = old.sort("line").join(
        rows, on="index", how="left", suffix="_there", maintain_order="left"
    )
    same = (pl.col("label") == pl.col("label_there")) & (pl.col("path") == pl.col("path_there"))
    refuse(source, there, ~same.fill_null(False), _say_unfitting)


def _say_unfitting(row: dict[str, object]) -> str:
    if row["path_there"] is None:
        return f"the patch does not fit: the list has no row with the id {row['index']}"
    found = f"{row['label_there']} {row['path_there']}".replace("\t", " ")
    return f"the patch does not fit: the row {row['index']} of the list is {found!r}"


def _require_free_ids(kept: pl.DataFrame, patch: Patch) -> None:
    """Refuse new rows with ids that other rows have; among themselves, theirs differ."""
    others = kept.join(patch.changed, on="index", how="anti")
    new = pl.concat([patch.into, patch.added.select("line", *ROWS)]).sort("line")
    taken = new.join(others, on="index", how="semi", maintain_order="left")
    refuse(
        patch.source,
        taken,
        pl.lit(True),
        lambda row: f"the patch does not fit: another row of the list has the id {row['index']}",
    )


def _changed(kept: pl.DataFrame, patch: Patch) -> pl.DataFrame:
    if patch.changed.is_empty():
        return kept
    new = patch.into.select(pl.col(*ROWS).name.prefix("new_")).hstack(
        patch.changed["index"].to_frame()
    )
    kept = kept.join(new, on="index", how="left", maintain_order="left")
    return kept.select(pl.coalesce(f"new_{name}", name).alias(name) for name in ROWS)


def _require_places(kept: pl.DataFrame, patch: Patch) -> None:
    source, moved = patch.source, patch.reordered
    refuse(
        source,
        moved.join(kept, on="index", how="anti", maintain_order="left"),
        pl.lit(True),
        lambda row: f"the patch does not fit: no row that is kept has the id {row['index']}",
    )
    refuse(
        source,
        moved,
        ~pl.col("index").is_first_distinct(),
        lambda row: f"the row {row['index']} is moved already",
    )
    placed = pl.concat([moved.select("line", "place"), patch.added.select("line", "place")])
    placed, rows = placed.sort("line"), kept.height + patch.added.height
    refuse(
        source,
        placed,
        ~pl.col("place").is_first_distinct(),
        lambda row: f"another row is line {row['place']} already",
    )
    refuse(
        source,
        placed,
        pl.col("place") > rows,
        lambda row: f"line {row['place']} is beyond the end of a list of {rows} rows",
    )
