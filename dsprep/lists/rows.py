"""A ``.lst`` as a table: ``id<TAB>label[<TAB>label…]<TAB>path``, a line per sample.

It is read as ``read_list`` in MXNet's ``tools/im2rec.py`` reads it: tabs separate fields, blanks
around a field do not count, and labels are any numbers. A line that im2rec would skip or misread is
an error here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TypeVar

import polars as pl

from dsprep.catalog import Catalog
from dsprep.csv_parsers import CsvError, read_columns
from dsprep.errors import DestinationError, OptionError, SourceError
from dsprep.findings import SKIP_KINDS, Finding, Reject, count_skipped, lost, notes_of
from dsprep.formats.values import format_number
from dsprep.frozen import Frozen
from dsprep.text import refuse
from dsprep.units import quoted

ROWS = pl.Schema({"index": pl.Int64(), "label": pl.String(), "path": pl.String()})
"""The columns of a list: id, labels as text with tabs (see :func:`canonical_label`), and path."""

LARGEST_ID = 10**18 - 1
PARSED = pl.Schema({"line": pl.Int64(), **ROWS})
OUTSIDE = "{path!r} is not a path below the folder"
REPEATED = "the id {index} stands in line {first} already"
_PIECE = 1 << 16  # lines that are parsed at a time
_LARGEST_EXACT = 2**53  # 64-bit floats hold every whole number below it
_ID = r"^\+?0*[0-9]{1,18}$"
_NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_WHOLE = r"(?:0|-?[1-9][0-9]{0,14})"
# Up to 15 digits tell one float from all others, so these are the shortest decimals of theirs.
_BELOW_ONE = r"-?0\.0{0,3}(?:[1-9][0-9]{0,13})?[1-9]"
_DECIMAL = r"-?[1-9][0-9]{0,6}\.[0-9]{0,6}[1-9]"
_SHORTEST = rf"(?:{_WHOLE}|{_BELOW_ONE}|{_DECIMAL})"
_LEAST_HEADER, _LEAST_OBJECT = 2, 5
_OBJECT = ("cls", "xmin", "ymin", "xmax", "ymax")
_CONFLICT = ("<<<<<<<", "=======", ">>>>>>>")
Texts = TypeVar("Texts", pl.Expr, pl.Series)


def parse_rows(text: str, source: str, duplicates: str | None = None) -> pl.DataFrame:
    """Read the lines of a ``.lst``: the columns of a list, and ``line``, from 1."""
    rows = parse_plain(text)
    if rows is None:
        rows = rows_of_lines(split_lines(text), source, duplicates)
        if rows.is_empty():
            raise SourceError(f"{source}: names no files")
        return rows
    _refuse_repeated_ids(rows, source, duplicates)
    if any(sign in text for sign in ("..", "\t/", "\x00")):
        refuse(source, rows, leads_outside(pl.col("path")), OUTSIDE.format_map)
    return rows


def rows_of_lines(lines: pl.DataFrame, source: str, duplicates: str | None = None) -> pl.DataFrame:
    """Do the same with lines that :func:`split_lines` has split."""
    rows, problems = read_lines(lines, strict=True)
    for line, problem in sorted(problems)[:1]:
        raise SourceError(f"{source}:{line}: {problem}")
    counted = rows.with_columns(count=label_count())
    # rows may have different numbers of labels only in detection labels
    if counted["count"].n_unique() > 1:
        usual = counted["count"][0]
        for_detection = any_objects(rows) and rows.head(1).select(is_detection()).item()
        refuse(
            source,
            counted,
            ~is_detection() if for_detection else pl.col("count") != usual,
            lambda row: (
                f"{row['count']} labels, where the first line has {usual}: only detection labels "
                "may differ in length (A, B, A - 2 more values, then B values for each object, if "
                "there are any; A is at least 2 and B at least 5)"
            ),
        )
    _refuse_repeated_ids(rows, source, duplicates)
    refuse(source, rows, leads_outside(pl.col("path")), OUTSIDE.format_map)
    return rows


def format_rows(rows: pl.DataFrame) -> str:
    """Write a list: what :func:`parse_rows` reads as the same rows."""
    return join_lines(rows.select(pl.concat_str(*ROWS, separator="\t")).to_series())


def join_lines(lines: pl.Series) -> str:
    """Join lines, each with a line break at its end."""
    return "" if lines.is_empty() else str(lines.str.join("\n").item()) + "\n"


def parse_plain(text: str) -> pl.DataFrame | None:
    """Read a list of one label a line in the usual spelling, fast; None if it is another."""
    try:
        rows = read_columns(text, "\t", header=False, schema=ROWS, quotes=False)
    except CsvError:
        return None
    if rows.is_empty() or sum(rows.null_count().row(0)):
        return None
    spelled = rows["label"].unique()
    path = pl.col("path")
    as_usual = pl.col("index").is_between(0, LARGEST_ID) & (path.str.strip_chars() == path)
    are_plain = is_number(spelled) & ~is_too_large(spelled)
    if not are_plain.all() or not rows.select(as_usual.all()).item():
        return None
    if not spelled.str.contains(rf"^{_WHOLE}$").all():
        plain = [canonical_label([word]) for word in spelled.to_list()]
        rows = rows.with_columns(pl.col("label").replace_strict(spelled, plain))
    line = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("line")
    return rows.select(line, *ROWS)


def split_lines(text: str) -> pl.DataFrame:
    """Number the lines of a text from 1, and leave out blank ones: ``line`` and ``raw``."""
    lines = pl.DataFrame({"raw": text.split("\n")}).with_row_index("line", offset=1)
    lines = lines.select(pl.col("line").cast(pl.Int64), pl.col("raw").str.strip_chars_end("\r"))
    return lines.filter(pl.col("raw").str.strip_chars() != "")


def read_lines(
    lines: pl.DataFrame, *, strict: bool = False
) -> tuple[pl.DataFrame, list[tuple[int, str]]]:
    """Return the rows of lines that can be read, and what is wrong with the others.

    If ``strict``, stop soon after the first line that cannot be read.
    """
    word = pl.element()
    fields = pl.col("raw").str.strip_chars().str.split("\t").list.eval(word.str.strip_chars())
    columns = "fewer than 3 columns: a line is an id, labels and a path, separated by tabs"
    large = "the labels {words}: whole numbers have to be below 2^53"
    wrong_lines = {
        "an undecided merge conflict": pl.col("id").str.slice(0, 7).is_in(_CONFLICT),
        columns: pl.col("count") < 3,
        "{id} is not an id: a whole number from 0 up": ~pl.col("id").str.contains(_ID),
        "not all of the labels {words} are numbers": ~pl.col("words")
        .list.eval(is_number(word))
        .list.all(),
        large: pl.col("words").list.eval(is_too_large(word)).list.any(),
    }
    pieces, problems = [PARSED.to_frame()], []
    # Some lines are read at a time, as their fields take ten times as much memory.
    for piece in lines.iter_slices(_PIECE):
        count = pl.col("fields").list.len().cast(pl.Int64)
        found = piece.select("line", fields=fields).select(
            "line",
            count=count,
            id=pl.col("fields").list.first(),
            words=pl.col("fields").list.slice(1, (count - 2).clip(0)),
            path=pl.col("fields").list.last(),
        )
        for problem, wrong in wrong_lines.items():
            is_wrong = found.select(wrong.fill_null(False)).to_series()
            for row in found.filter(is_wrong).iter_rows(named=True):
                words = {"id": quoted(row["id"]), "words": quoted(row["words"])}
                problems.append((row["line"], problem.format_map(words)))
            found = found.filter(~is_wrong)
        index, labels = pl.col("id").cast(pl.Int64).alias("index"), canonical_labels(found["words"])
        pieces.append(found.select("line", index, labels, "path"))
        if strict and problems:  # stop early: a large file of another kind has millions of problems
            break
    return pl.concat(pieces), problems


def repeated_ids(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows whose id an earlier line has: its line, ``first``, and its path."""
    is_unique = rows["index"].n_unique() == rows.height
    found = rows.clear() if is_unique else rows.filter(pl.col("index").is_duplicated())
    found = found.with_columns(
        pl.col("path").first().over("index").alias("first_path"),
        first=pl.col("line").first().over("index"),
    )
    return found.filter(pl.col("line") != pl.col("first"))


def _refuse_repeated_ids(rows: pl.DataFrame, source: str, duplicates: str | None) -> None:
    same = pl.col("path") == pl.col("first_path")
    advice = "; give --duplicates first to use only the first row of each image"
    refuse(
        source,
        repeated_ids(rows),
        ~(same & (duplicates == "first")),
        lambda row: (
            REPEATED.format_map(row)
            + (advice if duplicates and row["path"] == row["first_path"] else "")
        ),
    )


# Labels


def canonical_label(words: Sequence[str]) -> str:
    """Write numbers as labels are compared: in their shortest form, whole ones without a point."""
    return "\t".join(format_number(float(word)) for word in words)


def canonical_labels(words: pl.Series) -> pl.Series:
    """Do the same for many labels, given as lists of texts that are numbers."""
    texts = words.list.join("\t").alias("label")
    is_other = ~texts.str.contains(rf"^{_SHORTEST}(?:\t{_SHORTEST})*$")
    if not is_other.any():
        return texts
    others = [canonical_label(label) for label in words.filter(is_other).to_list()]
    return texts.scatter(is_other.arg_true(), others)


def is_number(text: Texts) -> Texts:
    """Whether a text is a finite number."""
    finite = text.cast(pl.Float64, strict=False).is_finite().fill_null(False)
    return text.str.contains(_NUMBER) & finite


def is_too_large(text: Texts) -> Texts:
    """Whether a text is a whole number of 2^53 or more, which 64-bit floats may not hold."""
    number = text.cast(pl.Float64, strict=False)
    return text.str.contains(r"^[+-]?[0-9]{16,}(\.0*)?$") & (number.abs() >= _LARGEST_EXACT)


def class_numbers(column: str = "label") -> pl.Expr:
    """The label as a class number if it is one whole number, else null."""
    label = pl.col(column)
    return pl.when(label.str.contains(rf"^{_WHOLE}$")).then(label).cast(pl.Int64)


def label_count() -> pl.Expr:
    """Return the expression that counts the numbers of a label."""
    return pl.col("label").str.count_matches("\t", literal=True).cast(pl.Int64) + 1


def label_numbers() -> pl.Expr:
    """The numbers of a label, as a list."""
    return pl.col("label").str.split("\t").cast(pl.List(pl.Float64))


def is_detection() -> pl.Expr:
    """Whether a label is one for detection."""
    # Such a label is A, B, A - 2 more header values, and B values per object, as MXNet's
    # `ImageDetIter` reads it. An image without objects has the header alone; only in a list with
    # `any_objects` is a label like that one for detection.
    words = pl.col("label").str.split("\t")
    header, width = (words.list.get(place, null_on_oob=True).cast(pl.Float64) for place in (0, 1))
    size = label_count() - header
    large_enough = (header >= _LEAST_HEADER) & (width >= _LEAST_OBJECT) & (size >= 0)
    return (large_enough & (width % 1 == 0) & (size % width == 0)).fill_null(False)


def any_objects(rows: pl.DataFrame) -> bool:
    """Whether a label is as long as one for detection with an object."""
    shortest = _LEAST_HEADER + _LEAST_OBJECT
    return bool(rows.select((label_count() >= shortest).any()).item())


def all_detection(rows: pl.DataFrame) -> bool:
    """Whether all labels are ones for detection; short labels are told by their length, fast."""
    return any_objects(rows) and bool(rows.select(is_detection().all()).item())


def objects_of(rows: pl.DataFrame) -> pl.DataFrame:
    """List the objects of detection labels: the number of their ``row``, class and box."""
    values = (
        rows.select(
            pl.int_range(pl.len(), dtype=pl.Int64).alias("row"),
            number=label_numbers(),
            place=pl.int_ranges(label_count()),
        )
        .with_columns(
            header=pl.col("number").list.get(0).cast(pl.Int64),
            width=pl.col("number").list.get(1).cast(pl.Int64),
        )
        .explode("number", "place")
    )
    within = pl.col("place") - pl.col("header")
    values = values.filter((within >= 0) & (within % pl.col("width") < len(_OBJECT)))
    # The same number of values is left of each object, so every fifth one begins an object.
    columns = {
        name: values["number"].gather_every(len(_OBJECT), at) for at, name in enumerate(_OBJECT)
    }
    return pl.DataFrame({"row": values["row"].gather_every(len(_OBJECT)), **columns})


# Paths


def leads_outside(path: pl.Expr) -> pl.Expr:
    """Whether a path is absolute, goes up, or holds a NUL, which no path can."""
    return path.str.contains(r"^/|(?:^|/)\.\.(?:/|$)|\x00")


def plain_path(path: pl.Expr) -> pl.Expr:
    """A path without ``./`` and doubled slashes: two that are equal then name one file."""
    return path.str.replace_all(r"(^|/)(?:\.?/)+", "${1}")


def plain_paths(paths: pl.Series) -> pl.Series:
    """Do the same for many paths. Most are plain already, as a scan writes them."""
    odd = paths.str.contains(r"(?:^|/)\.?/").any()
    return paths.to_frame().select(plain_path(pl.col(paths.name))).to_series() if odd else paths


def _fits(path: pl.Expr) -> pl.Expr:
    """Whether a list can hold a path: readers split lines at tabs, and strip each field."""
    blank = r"[\s\x1c-\x1f]"
    return ~path.str.contains(rf"[\t\n\r]|^{blank}|{blank}$|^$") & ~leads_outside(path)


def require_fitting(rows: pl.DataFrame, source: str) -> None:
    """Refuse to write paths that could not be read again."""
    wrong = rows.filter(~_fits(pl.col("path")))["path"]
    if len(wrong):
        raise DestinationError(
            f"{source}: {wrong[0]!r} cannot be in a list: its paths lead nowhere outside, and "
            "have no tab, no line break, and no blank at an end"
        )


def require_one_kind(old: pl.DataFrame, new: pl.DataFrame, source: str) -> None:
    """Refuse rows with more or fewer labels than those of the list, except for detection."""
    both = pl.concat([old.select("label", "path"), new.select("label", "path")])
    counts = both.select(label_count()).to_series()
    if counts.n_unique() < 2 or all_detection(both):
        return
    other = both.filter(counts != counts[0])
    raise SourceError(
        f"{source}: has {counts[0]} labels a row, but the label of {other['path'][0]!r} would be "
        f"{other['label'][0]!r}"
    )


def require_list(rows: pl.DataFrame, source: str, old: pl.DataFrame | None = None) -> None:
    """Refuse to write rows that could not be read again, or are of another kind than the old."""
    if rows.is_empty():
        raise SourceError(f"{source}: no row would be left")
    require_one_kind(rows.clear() if old is None else old, rows, source)
    require_fitting(rows, source)


# The samples of a catalog


class ReadingNotes(Frozen, kw_only=True):
    """Rejects, skipped files and notes of reading samples: a part of reports."""

    rejects: Sequence[Reject] = ()  # samples of the source that are not listed, and why
    skipped: Sequence[Finding] = ()  # files in the source that are no samples
    duplicates: Sequence[Finding] = ()  # paths that the source names more than once
    notes: list[str] = field(default_factory=list)  # other remarks

    @property
    def skipped_counts(self) -> Mapping[str, Mapping[str, int]]:
        """How many files are skipped, by kind and extension."""
        return count_skipped(self.skipped)


def listable(catalog: Catalog, findings: Sequence[Finding]) -> tuple[Catalog, ReadingNotes]:
    """Return the samples that a list can name; their paths are what the list calls them."""
    if catalog.annotated is not None and catalog.annotated.sizes is None:
        label = catalog.schema.label_field if catalog.schema else None
        if label is not None and label.missing:
            raise SourceError(
                f"{catalog.root}: some images have no label, and a list has one for each: give the "
                "directory of a side as SOURCE"
            )
        raise OptionError("--fields has no effect: a list holds labels and paths; leave it out")
    table = catalog.table.with_columns(catalog.names().alias("path"))
    odd = table.select(odd=~_fits(pl.col("path")))["odd"]
    reason = (
        "a .lst cannot hold a name with a tab, a line break, blanks at its ends, or / or .. first"
    )
    rejects = [Reject(name, reason) for name in table["path"].filter(odd)]
    if rejects and len(rejects) == len(catalog):
        raise SourceError(f"{catalog.root}: {rejects[0].path!r}: {reason}")
    noticed = ReadingNotes(
        rejects=[*lost(findings), *rejects],
        skipped=[finding for finding in findings if finding.kind in SKIP_KINDS],
        duplicates=[finding for finding in findings if finding.kind == "duplicate"],
        notes=notes_of(findings),
    )
    return replace(catalog, table=table.filter(~odd)), noticed


def note_unlabeled(count: int) -> str:
    """Say that the labels in the rows of a list are placeholders."""
    have = "sample has" if count == 1 else "samples have"
    return (
        f"{count:,} {have} no label, and get the label 0, as each row of a list needs one; give "
        "--labels FILE, --list FILE or --label-regex REGEX, or put the images of each class into a "
        "directory of its own"
    )


def rows_of(catalog: Catalog) -> pl.DataFrame:
    """List all samples with their ids, in their order; if none has a label, each gets a 0."""
    table, column = catalog.table, catalog.label_column
    if catalog.is_labeled and column is None:
        raise SourceError(
            f"{catalog.root}: some of {len(catalog):,} samples have no number as label, and each "
            "row of a list needs one: label these samples, or leave them out"
        )
    if column == "cls":
        label = table["cls"].cast(pl.String)
    elif column == "label":
        texts = ["\t".join(map(format_number, values)) for values in table["label"].to_list()]
        label = pl.Series(texts, dtype=pl.String)
    else:
        label = pl.Series(["0"], dtype=pl.String).new_from_index(0, table.height)
    return table.select("index", label.alias("label"), "path")
