"""Select samples: with an SQL expression (``--filter``) on the columns of a catalog, or by a table.

A table alone (``--filter-table``) leaves out the samples for which its column ``keep`` is false.

polars reads the expression. But its SQL also reads files (``SELECT … FROM read_csv(…)``), and an
aggregate would give all samples one answer. So the expression is split into words here first, and
refused unless each word is a column, a keyword or a function of one row's values.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from io import BytesIO
from typing import Any

import polars as pl
import polars.selectors as cs

from dsprep.catalog import Catalog
from dsprep.errors import OptionError, SourceError
from dsprep.printable import json_values
from dsprep.sample import key_expr
from dsprep.sources.labels.cells import parse_cells
from dsprep.sources.labels.table import PATH_COLUMNS
from dsprep.text import read_data
from dsprep.tuples import NamedTuple
from dsprep.units import quoted_names

_GIVEN = "\0"  # a column that no table has

_QUOTED_BOOLEAN = re.compile(r"'(?:true|false)'", re.IGNORECASE)

_TOKEN = re.compile(
    r"""
    (?P<space> \s+ )
    | (?P<text> '(?:[^']|'')*' )
    | (?P<quoted> "(?:[^"]|"")*" )
    | (?P<number> (?:\d+(?:\.\d*)? | \.\d+) (?:[eE][-+]?\d+)? (?!\w) )
    | (?P<word> [^\W\d]\w*+ (?!['"]) )
    | (?P<comment> -- | /\* )
    | (?P<sign> <> | [<>=!]= | != | \|\| | !~ | [-+*/%=<>~(),\[\]] )
    """,
    re.VERBOSE,
)

# The keywords of expressions, and the types that CAST knows.
_KEYWORDS = frozenset(
    """
    AND ANY ARRAY AS BETWEEN CASE ELSE END FALSE ILIKE IN IS LIKE NOT NULL OR REGEXP RLIKE THEN TRUE
    WHEN XOR BIGINT BOOLEAN DOUBLE FLOAT INT INTEGER SMALLINT STRING TEXT VARCHAR
    """.split()  # noqa: SIM905 (a list of that many quotes cannot be read)
)

# The functions whose result for a row depends on that row alone.
FUNCTIONS = frozenset(
    """
    ABS CEIL CEILING EXP FLOOR LN LOG LOG10 LOG2 MOD POW POWER ROUND SIGN SQRT
    CHAR_LENGTH CONCAT ENDS_WITH LEFT LENGTH LOWER LTRIM OCTET_LENGTH REGEXP_LIKE REPLACE REVERSE
    RIGHT RTRIM STARTS_WITH STRPOS SUBSTR TRIM UPPER
    CAST COALESCE GREATEST IF IFNULL LEAST NULLIF TRY_CAST
    ARRAY_GET ARRAY_LENGTH ARRAY_MAX ARRAY_MEAN ARRAY_MIN ARRAY_SUM
    """.split()  # noqa: SIM905
)


class Chosen(NamedTuple):
    """Counts of the samples that a filter left out."""

    filtered: int  # samples for which the expression is not true
    unknown: int  # those of them for which it is neither true nor false: a value is missing
    unmatched: int = 0  # rows of the table that name no sample

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {"filtered": self.filtered, "unknown": self.unknown, "unmatched": self.unmatched}
        )


def select(catalog: Catalog, expression: str | None, table: str | None) -> tuple[Catalog, Chosen]:
    """Keep the samples for which an expression is true, on columns of a table as well."""
    extra, unmatched = (None, 0) if table is None else read_columns(table, catalog)
    if expression is not None:
        asked, verdicts = f"--filter {expression!r} is true for", judge(catalog, expression, extra)
    else:
        asked, verdicts = f"--filter-table {table} keeps", _kept(catalog, extra, str(table))
    kept = catalog.table.filter(verdicts)
    if kept.is_empty():
        raise SourceError(f"{catalog.root}: {asked} none of {len(catalog):,} samples")
    chosen = Chosen(len(catalog) - kept.height, verdicts.null_count(), unmatched)
    return replace(catalog, table=kept), chosen


def _kept(catalog: Catalog, extra: pl.DataFrame | None, table: str) -> pl.Series:
    """Return which samples a table keeps: all but those for which its column says false."""
    columns = _columns(catalog, extra)
    if columns.schema.get("keep") not in (pl.Boolean, pl.Null):
        raise OptionError(
            f"{table}: has no column keep that holds true or false, as dsprep dedup writes it; "
            "with other columns, dsprep shard --filter EXPR tells which samples to take"
        )
    return columns["keep"].cast(pl.Boolean).fill_null(True)


def judge(catalog: Catalog, expression: str, extra: pl.DataFrame | None = None) -> pl.Series:
    """Evaluate an expression for each sample."""
    columns = _columns(catalog, extra)
    _require_harmless(expression, columns.columns)
    booleans = [name for name, kind in columns.schema.items() if kind == pl.Boolean]
    if booleans and _QUOTED_BOOLEAN.search(expression):
        raise OptionError(
            f"--filter {expression!r}: {quoted_names(booleans)} holds true and false, not text: "
            f"write {booleans[0]}, NOT {booleans[0]}, or {booleans[0]} = TRUE without quotes"
        )
    try:
        verdicts = columns.select(pl.sql_expr(expression))
    except pl.exceptions.PolarsError as error:
        problem = str(error).strip().partition("\n")[0].removesuffix(" as Expr")
        raise OptionError(f"--filter {expression!r}: {problem}") from None
    if verdicts.dtypes != [pl.Boolean] or verdicts.height != len(catalog):
        kinds = ", ".join(map(str, verdicts.dtypes))
        raise OptionError(
            f"--filter {expression!r}: its value is {kinds}, not true or false: "
            "compare it to something, as in size > 1000"
        )
    return verdicts.to_series()


def _columns(catalog: Catalog, extra: pl.DataFrame | None) -> pl.DataFrame:
    table = catalog.table
    columns = table.select("index", "path", "size").with_columns(catalog.keys())
    if catalog.label_column:
        label = table[catalog.label_column]
        if label.dtype == pl.List and label.list.len().max() == 1:  # one number is no list to SQL
            label = label.list.first()
        columns = columns.with_columns(label.alias("label"))
    if catalog.label_column == "cls" and catalog.classes is not None:
        names = pl.Series("class", catalog.classes, pl.String)
        columns = columns.with_columns(names[table["cls"]])
    if extra is None:
        return columns
    extra = extra.unique(maintain_order=True)
    again = extra.filter(pl.col("path").is_duplicated())["path"].drop_nulls()
    if not again.is_empty():
        raise OptionError(f"--filter-table: names {again[0]!r} twice, with different values")
    others = [column for column in extra.get_columns() if column.name not in columns.columns]
    more = pl.DataFrame([extra["path"], *others])
    named = catalog.names().alias("path").to_frame()
    return columns.hstack(
        named.join(more, on="path", how="left", maintain_order="left").drop("path")
    )


def read_columns(path: str, catalog: Catalog) -> tuple[pl.DataFrame, int]:
    """Read a table with more columns of samples, and count its rows that name no sample.

    It names samples by path or key.
    """
    cells, are_typed = _read_table(path)
    known = {name.lower(): name for name in cells.columns}
    column = next((known[name] for name in ("key", *PATH_COLUMNS) if name in known), None)
    if column is None:
        raise SourceError(
            f"{path}: has no column of keys or paths: call one of them key; its columns are "
            f"{quoted_names(cells.columns)}"
        )
    texts = cells.select(pl.col(column).cast(pl.String))
    keys = [texts[column].alias(_GIVEN), texts.select(key=key_expr(column)).to_series()]
    others = cells.drop(column, "path", strict=False)
    given = pl.DataFrame([*keys, *(others if are_typed else map(_typed, others))])
    # Files may differ in their extensions alone, so a key stands only for a path without one.
    names = catalog.names().alias("path")
    paths = pl.DataFrame([names, names.str.strip_chars().alias(_GIVEN)])
    named = pl.DataFrame([names, catalog.keys()])
    by_path = given.join(paths, on=_GIVEN, how="inner")
    by_key = given.join(paths, on=_GIVEN, how="anti").join(named, on="key", how="inner")
    by_key = by_key.filter((pl.col("key") == pl.col(_GIVEN)) | (pl.col("key") == pl.col("path")))
    found = pl.concat([by_path, by_key])
    unmatched = given.join(found, on=_GIVEN, how="anti").height
    if found.is_empty() and cells.height:
        raise SourceError(
            f"{path}: names none of the samples, {cells[column][0]!r} for one; theirs are like "
            f"{named['key'][0]!r}"
        )
    return found.drop(_GIVEN, "key"), unmatched


def _read_table(path: str) -> tuple[pl.DataFrame, bool]:
    """Read a table, and say whether its columns have types; else all are text."""
    data = read_data(path)
    if not path.endswith(".parquet"):
        return parse_cells(data, path, may_be_empty=True).texts, False
    try:
        table = pl.read_parquet(BytesIO(data))
    except pl.exceptions.PolarsError:
        raise SourceError(f"{path}: is not Parquet") from None
    # Lists and bytes are nothing that an expression could compare.
    return table.select(cs.numeric() | cs.boolean() | cs.string()), True


def _typed(column: pl.Series) -> pl.Series:
    """Return a column as numbers or booleans if all cells are; empty cells become nulls."""
    filled = column.replace("", None)
    if filled.null_count() == len(filled):
        return filled.cast(pl.Null)
    numbers = filled.cast(pl.Float64, strict=False)
    if numbers.null_count() == filled.null_count():
        return numbers
    known = {"true": True, "false": False}
    booleans = filled.str.to_lowercase().replace_strict(known, default=None)
    return booleans if booleans.null_count() == filled.null_count() else filled


def _require_harmless(expression: str, columns: Collection[str]) -> None:
    """Refuse an expression that is more than a question about one sample."""
    known = f"columns are {', '.join(columns)}; text stands between single quotes"

    def refuse(position: int, problem: str) -> OptionError:
        return OptionError(f"--filter {expression!r}: at character {position + 1}: {problem}")

    position, has_column = 0, False
    while position < len(expression):
        token = _TOKEN.match(expression, position)
        if token is None or token.lastgroup == "comment":
            raise refuse(position, f"{expression[position:][:10]!r} is not understood")
        kind, text = token.lastgroup, token[0]
        is_call = expression[token.end() :].lstrip().startswith("(")
        name = text[1:-1].replace('""', '"') if kind == "quoted" else text
        is_name = kind == "quoted" or (kind == "word" and text.upper() not in _KEYWORDS)
        if is_name and is_call and (kind == "quoted" or text.upper() not in FUNCTIONS):
            functions = ", ".join(sorted(FUNCTIONS)).lower()
            raise refuse(position, f"no function {name} of one sample; functions are {functions}")
        if is_name and not is_call and name not in columns:
            raise refuse(position, f"no column {name}; {known}")
        has_column = has_column or (is_name and not is_call)
        position = token.end()
    if not has_column:
        raise OptionError(f"--filter {expression!r}: names no column; {known}")
