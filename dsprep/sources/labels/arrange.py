"""Lines and cells of tables that no header line describes, as many old data sets have them.

`arranged` finds where rows begin and where cells end: `NAME CLASS` with blanks, the number of rows
in the first line (CelebA), comments above the rows (Pets). Only what is clear is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from itertools import islice

from dsprep.csv_parsers import CsvError, first_record
from dsprep.errors import OptionError, SourceError
from dsprep.sample import IMAGE_EXTENSIONS
from dsprep.tuples import NamedTuple
from dsprep.units import quoted_names

Names = Callable[[Collection[str]], Collection[str]]
"""Which of some cells name images of the source."""

LOOKED_AT = 50  # rows that show what the columns are
_HEAD = 1 << 16  # characters that have these
MOST = 0.9  # the share of these that has to agree
_TAB = "\t"
_EXTENSIONS = "|".join(IMAGE_EXTENSIONS)
_IMAGE = re.compile(rf"(?i).*\.(?:{_EXTENSIONS})(?:#\d+)?")
_FILE = re.compile(rf"(?i)\S+\.(?:{_EXTENSIONS}|xml|json|txt|csv|npy|mat)")
_MARKS = (_TAB, ",", ";", "|")
# `word_1.png, "JOE'S"`, as ICDAR has the words of images: a quote begins no cell behind a blank
_SPACED_QUOTE = re.compile(rf"(?im)^([^\",\n]+\.(?:{_EXTENSIONS})),[ \t]+(?=\")")
_NUMBER = re.compile(r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?")

NUMBERED = rf"(?i)(\.(?:{_EXTENSIONS}))#\d+$"
"""How Flickr numbers the captions of an image: ``a.jpg#0``."""


class Arranged(NamedTuple):
    """A table whose lines are rows, or the names of its columns and then rows.

    Attributes:
        text: The text of the table, with as many lines; those that are no rows are empty.
        columns: The names of the columns, if the text has no line with them.
        why: What was understood, for reports; empty if the text is as it was.
        separator: What stands between cells; empty if the first line shows it.
    """

    text: str
    columns: tuple[str, ...]
    why: str = ""
    separator: str = ""


def arranged(
    text: str,
    source: str,
    columns: Sequence[str],
    header: Collection[str],
    names: Names,
    labels: Collection[str] = (),
) -> Arranged:
    """Find the rows, the cells and the columns of a table.

    Args:
        text: The text of the table.
        source: The table, for messages.
        columns: What the user calls the columns; empty if the text names them.
        header: Usual names of columns, in lower case.
        names: Tells which cells name images.
        labels: The names in `header` that columns of labels have.
    """
    of = _TableFacts(source, tuple(columns), header, names, labels)
    first, some = _head(text)
    if _is_plain(first) and any(mark in first for mark in _MARKS):  # without a look at all lines
        return _of_marks(text, some, of)
    lines = text.split("\n")
    comments = _take_comments(lines)
    count = _take_count(lines)
    why = f"its first line, {count}, is the number of rows" if count else ""
    left = "\n".join(lines)
    first, some = _head(left)
    if any(mark in first for mark in _MARKS):
        found = _of_marks(left, some, of)
    else:
        found = _of_blanks(left, lines, some, comments, of)
    is_column = len(first.split()) < 2 and not any(mark in first for mark in _MARKS)
    if count and found.text is left and is_column:  # of numbers
        return Arranged(text, of.columns)
    return found._replace(why="; ".join(filter(None, (why, found.why))))


class _TableFacts(NamedTuple):
    """What is known of a table besides its text, as `arranged` takes it."""

    source: str
    columns: tuple[str, ...]
    header: Collection[str]
    names: Names
    labels: Collection[str]


def _of_marks(text: str, some: Sequence[str], of: _TableFacts) -> Arranged:
    """Return a table with commas or the like between its cells."""
    if _SPACED_QUOTE.match(some[0]):
        text = _SPACED_QUOTE.sub(r"\1,", text)
        some = [_SPACED_QUOTE.sub(r"\1,", line) for line in some]
    elif '"' in some[0]:
        return Arranged(text, of.columns)
    if of.columns:
        return Arranged(text, of.columns)
    found, mark = _columns_of_marks(some, of)
    return Arranged(text, found, _unnamed(found), mark)


def _of_blanks(
    text: str,
    lines: Sequence[str],
    some: Sequence[str],
    comments: Sequence[Sequence[str]],
    of: _TableFacts,
) -> Arranged:
    """Return a table with blanks between its cells, with tabs instead."""
    columns, is_row = of.columns, True
    is_spaced = columns and all(line.strip().count(" ") == len(columns) - 1 for line in some)
    if is_spaced or not some or '"' in some[0] or len(some[0].split()) < 2:
        return Arranged(text, columns)
    if not columns:
        rows = [line.split() for line in some]
        columns, is_row = _columns_of_blanks(rows, comments, of)
    if not columns:
        return Arranged(text, ())
    first = next(at for at, line in enumerate(lines) if line.strip())
    kept = [line if is_row or at != first else "" for at, line in enumerate(lines)]
    if not is_row:
        _refuse_blanks_within(columns, kept, of)
    parted = "\n".join(_TAB.join(line.split(None, len(columns) - 1)) for line in kept)
    return Arranged(parted, columns, _unnamed(columns) if is_row and not of.columns else "", _TAB)


def _unnamed(columns: Sequence[str]) -> str:
    """Say which columns were understood, if no line names them."""
    return f"no line names its columns, which are {quoted_names(columns)}" if columns else ""


def _head(text: str) -> tuple[str, list[str]]:
    """Return the first line of a table that is not empty, and some lines from there."""
    lines = text[:_HEAD].split("\n")
    lines = lines[:-1] if len(text) > _HEAD and len(lines) > 1 else lines
    some = list(islice(filter(str.strip, lines), LOOKED_AT + 1))
    return (some[0] if some else ""), some


def _is_plain(first: str) -> bool:
    """Return whether a first line is neither a comment nor the number of rows."""
    return not first.startswith("#") and not first.strip().isdecimal()


def _take_comments(lines: list[str]) -> list[list[str]]:
    """Take away the comments above the rows of a table with blanks, and return their words."""
    start = 0
    while start < len(lines) and (lines[start].startswith("#") or not lines[start].strip()):
        start += 1
    if start in (0, len(lines)) or any(mark in lines[start] for mark in _MARKS):
        return []  # there are none; or a header begins so
    found = [line.strip("# \r").split() for line in lines[:start]]
    lines[:start] = [""] * start
    return list(filter(None, found))


def _take_count(lines: list[str]) -> str:
    """Make a first line that is the number of rows an empty one, and return it."""
    first = next((at for at, line in enumerate(lines) if line.strip()), 0)
    count = lines[first].strip()
    if not count.isascii() or not count.isdecimal():
        return ""
    rows = sum(1 for line in lines if line.strip()) - 1
    if rows < 1 or int(count) not in (rows, rows - 1):  # of these, one may name the columns
        return ""
    lines[first] = ""
    return count


def _columns_of_marks(some: Sequence[str], of: _TableFacts) -> tuple[tuple[str, ...], str]:
    """Return the columns of a table with commas or the like that has no line with their names.

    Also return what stands between its cells; both are empty for a table with such a line.
    """
    for mark in (each for each in _MARKS if each in some[0]):
        try:
            rows = [[cell.strip() for cell in first_record(line, mark)] for line in some]
        except CsvError:
            continue
        if _is_header(rows, of):
            break
        at = _column_of_images(rows, of) if {*map(len, rows)} == {len(rows[0])} else None
        if at is not None:
            return _asked(rows, at, of.source), mark
    return (), ""


def _columns_of_blanks(
    rows: Sequence[Sequence[str]], comments: Sequence[Sequence[str]], of: _TableFacts
) -> tuple[tuple[str, ...], bool]:
    """Return the columns of a table with blanks, and whether its first line is a row."""
    first, others = rows[0], rows[1:]
    widths = {*map(len, others)} or {len(first)}
    if _is_header(rows, of):
        return (tuple(first), False) if min(widths) >= len(first) else ((), True)
    if _column_of_images(others or rows, of) != 0:
        return (), True
    if widths == {len(first) + 1} and not _are_images(first[:1], of.names):
        return ("path", *first), False  # CelebA's attributes, where the images have no name
    widths.add(len(first))
    for words in comments:
        if {len(words)} == widths and _has_usual_name(words, of.header):
            return tuple(words), True
    if len(widths) > 1 and min(widths) > 1:  # the names of some classes have blanks
        return ("path", "label"), True
    return _asked(rows, 0, of.source), True


def _refuse_blanks_within(columns: Sequence[str], lines: Sequence[str], of: _TableFacts) -> None:
    """Refuse rows with more words than columns, unless it is clear that the last has blanks.

    It is if the last holds the labels, or if those between it and the first hold numbers.
    """
    count = len(columns)
    are_labels = [name.lower() in of.labels for name in columns]
    unclear = [at for at in range(1, count - 1) if are_labels[at] or not are_labels[-1]]
    if not unclear:
        return
    for number, line in enumerate(lines, 1):
        words = line.split()
        if len(words) > count and not all(_NUMBER.fullmatch(words[at]) for at in unclear):
            raise SourceError(
                f"{of.source}:{number}: {len(words)} words, where the header names {count} "
                f"columns, {quoted_names(columns)}: put commas or tabs between the cells"
            )


def _has_usual_name(cells: Sequence[str], header: Collection[str]) -> bool:
    has_name = any(cell.lower() in header for cell in cells)
    return has_name and not any(map(_IMAGE.fullmatch, cells))


def _is_header(rows: Sequence[Sequence[str]], of: _TableFacts) -> bool:
    """Return whether the first row has a usual name of a column and is not the row of an image.

    A class may be called `y` or `name`, like a column.
    """
    return _has_usual_name(rows[0], of.header) and _column_of_images(rows, of) is None


def _column_of_images(rows: Sequence[Sequence[str]], of: _TableFacts) -> int | None:
    """Return the column whose cells name images, in the first row as well; None if none does.

    Numbers may be names of images and classes alike, so names without an extension come first,
    or are texts in the second of two columns. The usual name of a column is no image.
    """
    least = MOST * len(rows)
    first = rows[0]
    for at, cell in enumerate(first):
        cells = [row[at] for row in rows if at < len(row)]
        if _IMAGE.fullmatch(cell) and sum(map(bool, map(_IMAGE.fullmatch, cells))) >= least:
            return at
    texts = [1] if len(first) == 2 and not first[1].isdecimal() else []  # noqa: PLR2004
    tried = [at for at in (0, *texts) if first[at].lower() not in of.header]
    found = of.names([first[at] for at in tried]) if tried else ()
    for at in tried:
        cells = [row[at] for row in rows if at < len(row)]
        if first[at] in found and sum(map(of.names(cells).__contains__, cells)) >= least:
            return at
    return None


def _are_images(cells: Sequence[str], names: Names) -> bool:
    return all(_IMAGE.fullmatch(cell) for cell in cells) or len(names(cells)) == len(cells)


def _asked(rows: Sequence[Sequence[str]], at: int, source: str) -> tuple[str, ...]:
    """Return the path and the label of rows of two cells; ask for the columns of others."""
    count = len(rows[0])
    if count < 2:
        return ()
    columns = [f"column_{number}" for number in range(1, count + 1)]
    columns[at] = "path"
    columns[1 if at == 0 else 0] = "label"
    shown = quoted_names(rows[0])
    if count == 2:
        if not _FILE.fullmatch(rows[0][1 - at]):
            return tuple(columns)
        raise OptionError(
            f"{source}: its rows name two files each, {shown} for one, and no class: masks are "
            "--masks DIR, and files that make up samples are --pair"
        )
    raise OptionError(
        f"{source}: its first line has to name the columns, but looks like data: {shown}. Give "
        f"--columns {','.join(columns)}, or put such a line above it"
    )
