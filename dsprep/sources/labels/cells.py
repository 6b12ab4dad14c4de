"""Tables as text cells: CSV with any delimiter, JSON Lines, Parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from dsprep.csv_parsers import CsvError, first_record, read_columns, records_of
from dsprep.errors import OptionError, SourceError
from dsprep.sources.advice import AS_LABELS, AS_LABELS_JSON, AS_TABLE, refuse
from dsprep.sources.labels.arrange import Arranged
from dsprep.text import refuse_compressed
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, quoted, quoted_names

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
_PARQUET = b"PAR1"
_WINDOWS = "Windows-1252"  # a superset of the printable characters of Latin-1
_SHOWN = 3  # lines that show a guess of the encoding
_QUOTED = re.compile(r'"[^"]*"')
MOST_COLUMNS = 100_000  # maximum number of columns of a table
# A table that most cells are missing from takes far more memory than its file says. What is written
# takes a byte a cell, or more; Parquet writes a cell that is repeated once.
_MOST_CELLS = 10_000_000
_CELLS_PER_BYTE = {"CSV": 4, "JSON Lines": 4, "Parquet": 100}


class Cells(NamedTuple):
    """The cells of a table."""

    texts: pl.DataFrame  # without blanks around; empty for none
    lines: pl.Series  # the line of each row in the file; for Parquet, the number of the row
    kind: str  # how the table is written, for reports
    # the values of the columns of a table that has types; empty for CSV
    values: dict[str, list[Any]]
    is_ended: bool = True  # whether the last line of CSV has a line break


def parse_cells(
    data: bytes | str,
    source: str,
    columns: Sequence[str] = (),
    *,
    guesses: bool = False,
    may_be_empty: bool = False,
    arrange: Callable[[str, Sequence[str]], Arranged] | None = None,
) -> Cells:
    """Read a table.

    Args:
        data: The bytes of a file, or its text.
        source: Where the table lies, for messages.
        columns: The names of the columns of a table without a header line.
        guesses: Whether text that is not UTF-8 is taken for Windows-1252, which `Cells.kind` says.
        may_be_empty: Whether a table may have no rows.
        arrange: Finds the rows and columns of a text that has no plain header line.
    """
    if isinstance(data, bytes) and data.startswith(_PARQUET):
        if columns:
            raise OptionError(f"--columns: {source} is Parquet, which names its columns")
        return _filled(*_parse_parquet(data, source), source)
    text, encoding = (data, "UTF-8") if isinstance(data, str) else _decode(data, source, guesses)
    is_lines = _is_json_lines(text, source)
    refuse_annotations(text, source, is_lines)
    if is_lines:
        if columns:
            raise OptionError(f"--columns: {source} is JSON Lines, which name their columns")
        kind, parsed = "JSON Lines", _parse_json_lines(text, source)
    else:
        separator, is_spaced = "", False
        if arrange is not None:
            before, (text, columns, why, separator) = text, arrange(text, columns)
            encoding += f" ({why})" if why else ""
            is_spaced = separator == "\t" and "\t" not in before
        try:
            separator = separator or _separator(text, columns)
            parsed = _parse_csv(text, separator, source, columns)
        except CsvError as error:  # mostly a quote without an end
            raise SourceError(f"{source}: its first row cannot be read: {error}") from None
        kind = f"CSV with {'spaces' if is_spaced else _DELIMITERS[separator]}"
    cells = _filled(*parsed, f"{kind} in {encoding}", source, may_be_empty)
    return cells._replace(is_ended=is_lines or text.endswith("\n"))


def refuse_annotations(text: str, source: str, is_lines: bool = False) -> None:
    """Refuse the files of annotation tools that are neither tables nor lists."""
    refuse(source, AS_LABELS, text)
    if not is_lines:
        refuse(source, AS_LABELS_JSON, text)


def refuse_wide(source: str, columns: int, advice: str = "") -> None:
    """Refuse a table of more columns than dsprep reads."""
    if columns > MOST_COLUMNS:
        raise SourceError(
            f"{source}: has {columns:,} columns, and dsprep reads up to {MOST_COLUMNS:,}{advice}"
        )


def _refuse_sparse(source: str, kind: str, columns: int, rows: int, size: int) -> None:
    """Refuse a table of far more cells than a file of its size holds."""
    if columns * rows > max(_MOST_CELLS, _CELLS_PER_BYTE[kind] * size):
        raise SourceError(
            f"{source}: has {rows:,} rows and {columns:,} columns, and most of these "
            f"{columns * rows:,} cells are empty or repeated: leave out such columns"
        )


def _filled(
    texts: pl.DataFrame,
    lines: pl.Series,
    values: dict[str, list[Any]],
    kind: str,
    source: str,
    may_be_empty: bool = False,
) -> Cells:
    """Leave out rows without any cell, and blanks around cells."""
    texts = texts.with_columns(pl.all().fill_null("").str.strip_chars())
    given = texts.select(pl.any_horizontal(pl.all() != "")).to_series()
    if not given.any() and not may_be_empty:
        raise SourceError(f"{source}: names no files: there is nothing below its header")
    if values and not given.all():
        kept = given.to_list()
        values = {
            name: [each for each, is_given in zip(own, kept, strict=True) if is_given]
            for name, own in values.items()
        }
    return Cells(texts.filter(given), lines.alias("line").filter(given), kind, values)


def _decode(data: bytes, source: str, guesses: bool) -> tuple[str, str]:
    """Return the text of a table, and what its encoding is called."""
    refuse_compressed(data, source)
    for mark, name in ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"", "utf-8-sig")):
        if data.startswith(mark):
            # without a mark, half of the bytes of ASCII in UTF-16 are 0
            odd, even = data[1:200:2].count(0), data[:200:2].count(0)
            if not mark and max(odd, even) > len(data[:200]) // 4:
                name = "utf-16-le" if odd > even else "utf-16-be"
            break
    try:
        text = data.decode(name)
        return text, "UTF-16" if name.startswith("utf-16") else "UTF-8"
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = f"{source}:{line}: not {name.upper().removesuffix('-SIG')} text"
    try:
        if name != "utf-8-sig" or not guesses:
            raise ValueError
        text = data.decode("cp1252")
    except ValueError:
        raise SourceError(f"{problem}: save the file as UTF-8") from None
    odd_lines = [
        (number, line.decode("cp1252").strip())
        for number, line in enumerate(data.split(b"\n"), 1)
        if not line.isascii()
    ]
    shown = ", ".join(f"{quoted(line)} in line {number}" for number, line in odd_lines[:_SHOWN])
    count = format_count(len(odd_lines), "line")
    return text, f"{_WINDOWS}, as it is not UTF-8 (check {count}: {shown})"


def _is_json_lines(text: str, source: str) -> bool:
    """Return whether each line is an object of JSON, judged by the first one."""
    first, _, rest = text.lstrip().partition("\n")
    try:
        is_object = first.startswith("{") and isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        is_object = False
    return is_object and (bool(rest.strip()) or source.endswith((".jsonl", ".ndjson")))


def _parse_json_lines(text: str, source: str) -> tuple[pl.DataFrame, pl.Series, dict[str, Any]]:
    rows, numbers = list[dict[str, Any]](), list[int]()
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError
        except (ValueError, RecursionError):
            is_last = not text[:-1].split("\n", number)[number:]
            cut = ": it is the last line, so the file may be cut" if is_last else ""
            raise SourceError(f"{source}:{number}: is not an object of JSON{cut}") from None
        rows.append(row)
        numbers.append(number)
    names = dict.fromkeys(name for row in rows for name in row)
    refuse_wide(source, len(names))
    _refuse_sparse(source, "JSON Lines", len(names), len(rows), len(text))
    values = {name: [row.get(name) for row in rows] for name in names}
    return _texts_of(values, source), pl.Series(numbers, dtype=pl.Int64), values


def _parse_parquet(data: bytes, source: str) -> tuple[pl.DataFrame, pl.Series, dict[str, Any], str]:
    from dsprep.formats.arrow import arrow
    from dsprep.formats.parquet import first_line

    # Not by polars: damaged lengths make it abort the process.
    plain = (str, int, float, list, dict, type(None))
    try:
        with arrow().parquet.ParquetFile(arrow().BufferReader(data)) as file:
            columns, count = file.metadata.num_columns, file.metadata.num_rows
            refuse_wide(source, columns)
            _refuse_sparse(source, "Parquet", columns, count, len(data))
            kinds = {each.name: str(each.type) for each in file.schema_arrow}
            names = [name for name, kind in kinds.items() if "binary" not in kind]
            table = file.read(names, use_threads=False).to_pydict()
    except (arrow().ArrowException, OSError, ValueError, OverflowError) as error:
        raise SourceError(f"{source}: is not a whole Parquet file ({first_line(error)})") from None
    values = {
        name: [each if isinstance(each, plain) else str(each) for each in own]
        for name, own in table.items()
    }
    texts = _texts_of(values, source)
    return texts, pl.int_range(1, texts.height + 1, eager=True), values, "Parquet"


def _texts_of(values: dict[str, list[Any]], source: str) -> pl.DataFrame:
    """Return values as the cells of a CSV file; lists and objects stay JSON."""

    def text_of(value: Any) -> str:
        if value is None or isinstance(value, str):
            return value or ""
        return json.dumps(value, ensure_ascii=False, default=str)

    try:
        texts = {name: list(map(text_of, own)) for name, own in values.items()}
        return pl.DataFrame(texts, dict.fromkeys(texts, pl.String))
    except UnicodeEncodeError:
        raise SourceError(f"{source}: has a text with half a character") from None


def _separator(text: str, columns: Sequence[str]) -> str:
    """Return what separates the cells of the first line."""
    first = text.lstrip("\r\n").partition("\n")[0].rstrip("\r")
    for separator in _DELIMITERS if columns else ():
        if len(first_record(first, separator)) == len(columns):
            return separator
    found = max(",;\t", key=first.count)
    return "|" if found not in first and "|" in first else found


def _parse_csv(
    text: str, separator: str, source: str, columns: Sequence[str]
) -> tuple[pl.DataFrame, pl.Series, dict[str, Any]]:
    reader = records_of(text, separator, strict=False)
    first = next(filter(None, reader), [])
    header = [name.strip() for name in columns or first]
    refuse_wide(source, len(header))
    if len(set(header)) < len(header):
        raise SourceError(
            f"{source}:{reader.line_num}: two columns have one name, of {quoted_names(header)}: "
            "the first line has to name the columns, such as path,label"
        )
    if len(first) != len(header):
        raise OptionError(
            f"--columns {','.join(columns)}: {source}:{reader.line_num} has "
            f"{format_count(len(first), 'cell')}: {quoted_names(first)}"
        )
    if len(header) * text.count("\n") > _MOST_CELLS:
        count = _QUOTED.sub("", text).count("\n")  # cells in quotes may hold line breaks
        _refuse_sparse(source, "CSV", len(header), count, len(text))
    above = reader.line_num - 1 if columns else reader.line_num
    body = text.lstrip("\r\n") if columns else text
    last = text[text.rfind("\n") + 1 :]
    count = last.count(separator) + 1
    if last.strip() and '"' not in last and count < len(header):
        raise SourceError(
            f"{source}:{text.count(chr(10)) + 1}: the last line has {format_count(count, 'cell')} "
            f"of {len(header)} and no line break, so the file is cut: fetch it again, or remove "
            "that line"
        )
    try:
        cells = read_columns(body, separator, header=not columns)
        cells.columns = header
    except (CsvError, pl.exceptions.PolarsError):
        raise SourceError(_what_is_wrong(text, separator, source)) from None
    lines = pl.int_range(above + 1, above + 1 + cells.height, eager=True)
    if '"' not in text:
        return cells, lines, {}
    breaks = cells.select(pl.sum_horizontal(pl.all().str.count_matches("\n"))).to_series()
    earlier = breaks.fill_null(0).cast(pl.Int64).cum_sum().shift(1, fill_value=0)
    return cells, lines + earlier, {}


def _what_is_wrong(text: str, separator: str, source: str) -> str:
    """Find the line that polars could not read, with the slower parser of the standard library."""
    reader = records_of(text, separator)
    try:
        width = len(next(filter(None, reader), []))
        for row in reader:
            if len(row) > width:
                where = f"{source}:{reader.line_num}"
                return f"{where}: {len(row)} cells, where the header has {width}"
    except CsvError as error:
        return f"{source}:{reader.line_num}: {error}"
    return f"{source}: not a table: {AS_TABLE}"
