"""Labels from a table beside the images, as Kaggle's data sets have it, and from file names."""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from dsprep.catalog import Annotated, Catalog, Inferred
from dsprep.errors import OptionError, SourceError, UnclearLabels
from dsprep.findings import Finding
from dsprep.lists.rows import OUTSIDE, is_number, is_too_large, leads_outside, plain_paths
from dsprep.numbering import Known, number_classes, numbered, numbers_of
from dsprep.options import require_effect
from dsprep.places.files import Files, directories_of, list_files
from dsprep.places.match import MORE_THAN_NAMES, WITHOUT_ZEROS, WRITTEN_ELSEWHERE, Matches, match
from dsprep.places.names import are_of_other_sides
from dsprep.places.scan import RunAll, scan_below
from dsprep.schema import IMAGE, LABEL, Field, Schema, join, type_of
from dsprep.sources.advice import (
    BOX_COLUMNS,
    BOXES_WITHOUT_LABELS,
    COLUMNS_OF_BOXES,
    FIRST_LINE_OF_LABELS,
    FIRST_LINE_OF_NUMBERS,
    TAGS_OF_LABELS,
    advise,
)
from dsprep.sources.labels.arrange import LOOKED_AT, MOST, NUMBERED, Arranged, arranged
from dsprep.sources.labels.cells import Cells, parse_cells
from dsprep.sources.labels.choose import choose
from dsprep.sources.labels.classes import LARGEST_EXACT, among, labels_from_numbers, notes_on_order
from dsprep.sources.labels.columns import CONVERT, kind_of
from dsprep.sources.readers import FieldsReader
from dsprep.text import also, refuse
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some, quoted, quoted_names

if TYPE_CHECKING:
    from dsprep.sources.source import Source

# Names of columns of paths or ids, in any case; of several, the earliest here is taken.
PATH_COLUMNS = (
    *("path", "filepath", "file_path", "image_path", "img_path"),
    *("filename", "file_name", "image_name", "img_name", "file", "image", "img"),
    *("image_id", "img_id", "id_code", "id", "name", "image_url"),
)
# Names of columns of labels, in any case; of several, the user has to choose.
LABEL_COLUMNS = (
    *("label", "labels", "label_id", "class", "class_id", "class_name", "y", "target"),
    *("category", "category_id", "breed", "species", "diagnosis"),
    *("dx", "choice"),  # of HAM10000, of Label Studio
)

_TOO_LARGE = "is too large: whole numbers have to be below 2^53"
# Separators of tags in real tables; a class name rarely holds the first ones.
_SEPARATORS = ("|", ";", ",", " ")
_LOOKED_AT = 10_000  # different cells of a column that show whether they hold tags
_WHOLE_PER_FRACTION = 10  # if fewer than one label in this many is a fraction, it is an error
_FIRST_COLUMNS = 100  # that may name the images, though not by their own names
_MOST_VALUES = 3 * 10**7  # most values in labels with a 0 or 1 for each class: about 1 GB of memory
_NOT_GIVEN = ("", "nan")
_ELSEWHERE = r"^(?:[a-z][a-z0-9+.-]*:/|[A-Za-z]:)?/"  # begins a path of another machine
_SHOWN = 3  # examples in a message


def read_table(
    source: Source, data: bytes | str, files: Files | None, known: Known, run_all: RunAll = map
) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of a table."""
    # A path may lack its extension, and its directories if no other image has that name. The labels
    # of one column are whole numbers, fractions or names, which are numbered in plain sorted order;
    # those of several columns are numbers.
    path, root = source.labels, source.root
    assert path is not None
    if source.fields and files is not None and files.samples is not None:
        raise OptionError(
            f"--fields {','.join(source.fields)}: goes with images that are files, and {root} has "
            "samples with fields of their own"
        )
    if files is None:
        files = list_files(scan_below(root, source.suffixes, run_all))
    arrange = partial(arranged_among, path, files.table)
    cells = parse_cells(data, path, source.columns, guesses=True, arrange=arrange)
    texts, lines = cells.texts, cells.lines
    given = source.path_column
    if given is None and not any(name.lower() in PATH_COLUMNS for name in texts.columns):
        given = column_of_names(texts, files.table)
    try:
        paths, names = find_columns(texts.columns, given, source.label_columns, path, source.fields)
    except OptionError as error:
        boxes = advise(BOXES_WITHOUT_LABELS, texts.columns)
        hint = f". {boxes.seen}, {boxes.do}" if boxes else _hint_of_flags(texts)
        error.args = (f"{error}{hint}",)
        raise
    texts = texts.with_columns(pl.col(paths).str.replace(NUMBERED, "$1"))
    labels, classes, how = list[pl.Series](), None, "no labels"
    if names:
        label, classes = _labels(texts.select(names), lines, known, source)
        labels, how = [label], _how(names, label, classes, source.choice.label_type)
    is_last = texts.columns[-1:] == [*names]
    if is_last and not cells.is_ended and classes and source.label_separator is None:
        _refuse_cut_label(texts[names[0]], lines, path)
    has_names = known.classes is None and classes is not None
    require_effect("", {"--class-order": known.order}, named=has_names)
    columns = [lines, texts[paths].alias("path"), *labels]
    rows = pl.DataFrame(columns).with_row_index("index")
    cell = pl.col("path")
    refuse(path, rows, cell == "", lambda row: f"no path in the column {paths!r}")
    is_elsewhere = rows.height > 0 and rows["path"].str.contains(_ELSEWHERE).all()
    if is_elsewhere:
        rows = rows.with_columns(path=cell.str.replace(_ELSEWHERE, ""))
    refuse(path, rows, leads_outside(cell), OUTSIDE.format_map)
    plain = plain_paths(rows["path"])
    files = files.fitting(plain)
    # A path means the file of that name, or of more than that name.
    meant, noted = _files_of(plain, files.table["path"], is_elsewhere)
    meant.refuse_several(path, partial(_which, root), lines)
    if is_elsewhere:
        _require_alike(pl.DataFrame({"line": lines, "name": plain, "file": meant.first}), path)
    rows = rows.with_columns(file=meant.paths.fill_null(plain))
    boxes = advise(COLUMNS_OF_BOXES, texts.columns)
    advice = f"; {boxes.seen}, {boxes.do}" if boxes else ""
    catalog, findings = choose(rows, files, source, classes, paths="file", advice=advice)
    said = [f"{os.path.basename(path)}: {cells.kind}, {format_count(len(lines), 'row')}; {how}"]
    if left := [name for name in texts.columns if name not in (paths, *names, *source.fields)]:
        said.append(f"not used, unless --fields names them: {format_some(left)}")
    catalog = replace(catalog, inferred=tuple(_inferred(paths, names, classes)))
    notes = ["; ".join(said)]
    if source.fields:
        catalog, kinds = _with_fields(catalog, cells, source.fields, path)
        notes.append(f"fields of the table: {kinds}")
    findings += [Finding("note", "", note) for note in [*notes, *noted]]
    return catalog, [*findings, *notes_on_order(known, classes or ())]


def _files_of(
    names: pl.Series, paths: pl.Series, is_elsewhere: bool
) -> tuple[Matches, Sequence[str]]:
    """Return the files that a table means; and a note, if names are not what files are called.

    ``is_elsewhere`` says that its names were absolute, or addresses.
    """
    if is_elsewhere:
        meant = match(names, paths, WRITTEN_ELSEWHERE, nearest=True)
        found = meant.first.is_not_null().arg_true()[:1]
        pairs = zip(names.gather(found), meant.first.gather(found), strict=True)
        return meant, [f"its paths are of another machine: {one} is {file}" for one, file in pairs]
    meant = match(names, paths, MORE_THAN_NAMES)
    if meant.first.null_count() < len(names):
        return meant, ()
    numbers = match(names, paths, WITHOUT_ZEROS)
    found = numbers.paths.is_not_null().arg_true()
    if found.is_empty():
        return meant, ()
    first, file = names[found[0]], posixpath.basename(numbers.paths[found[0]])
    if posixpath.basename(first).rpartition(".")[0] == posixpath.splitext(file)[0]:
        return numbers, (f"its names have another extension than files: {first} is {file}",)
    return numbers, (f"its numbers lack zeros that names of files have: {first} is {file}",)


def _inferred(
    paths: str, names: Sequence[str], classes: Sequence[str] | None
) -> Iterator[Inferred]:
    """Yield what the columns of a table tell, for a layout."""
    yield Inferred("path_column", paths, "the column that names the images")
    if names:
        is_word = all(name.lower() in LABEL_COLUMNS for name in names)
        why = "called like labels" if is_word else "the columns beside that of the images"
        yield Inferred("label_columns", names, why)
    if classes:
        yield Inferred("classes", classes, "the labels, in the order of their numbers")


def arranged_among(
    source: str, images: pl.DataFrame, text: str, columns: Sequence[str]
) -> Arranged:
    """Find the rows and columns of a table that names some images, in their column ``path``."""
    header = {*PATH_COLUMNS, *LABEL_COLUMNS, *BOX_COLUMNS}
    names = partial(_names_among, images)
    return arranged(text, source, columns, header, names, LABEL_COLUMNS)


def _names_among(images: pl.DataFrame, cells: Collection[str]) -> Collection[str]:
    """Return which cells name images, in their column ``path``."""
    names = pl.Series(list(cells), dtype=pl.String)
    return {*cells}.difference(match(names, images["path"], MORE_THAN_NAMES).missing)


def column_of_names(cells: pl.DataFrame, images: pl.DataFrame) -> str | None:
    """Return the one column whose cells are the names of images; None if none or several are.

    Numbers are no names here, as they may be anything.
    """
    found = []
    for column in cells.head(LOOKED_AT).get_columns()[:_FIRST_COLUMNS]:
        texts = column.unique()
        if len(texts) and not is_number(texts).any():
            known = _names_among(images, texts.to_list())
            found += [column.name] if len(known) >= MOST * len(texts) else []
    return found[0] if len(found) == 1 else None


def _hint_of_flags(cells: pl.DataFrame) -> str:
    """Return the option that takes columns of a 0 or a 1; empty if there are none."""
    own = cells.select(pl.all().is_in(["0", "1", "-1"]).all()).row(0, named=True)
    flags = [name for name, is_flag in own.items() if is_flag and "," not in name]
    flags = [name for name in flags if name.lower() not in PATH_COLUMNS]
    if len(flags) < 2:  # noqa: PLR2004
        return ""
    named = shlex.quote(",".join(flags))
    return f". Columns of 0 and 1 are tags: give --label-column {named} --label-type multi"


def _which(root: str, one: str, other: str) -> str:
    """Say how to choose between two images that a name may mean."""
    tops = [path.rpartition("/")[0] for path in (one, other)]
    if tops[0] == tops[1]:
        return ": write its extension into the table"
    named = [shlex.quote(os.path.join(root, top)) for top in sorted(tops, reverse=True)]
    return (
        f": give the directory with the images of the table as SOURCE, {' or '.join(named)}; if it "
        "names images of several directories, write these into it"
    )


def _require_alike(found: pl.DataFrame, source: str) -> None:
    """Refuse paths of another machine that are likely those of other images of the same name.

    These are images of another side, and images in several directories that the paths do not have.

    Args:
        found: The `line` and the `name` of each path, and the `file` that it means, if any.
        source: The table, for messages.
    """
    pairs = found.drop_nulls("file")
    directories = (directories_of(pairs[name]).alias(f"{name} in") for name in ("name", "file"))
    pairs = pairs.with_columns(*directories)
    strangers: dict[str, str] = {}  # of each directory, what is wrong
    some = pairs.unique(["name in", "file in"], keep="first", maintain_order=True)
    advice = "give the directory of the images of the table as SOURCE"
    for line, name, file, own, there in some.iter_rows():
        said = f"{source}:{line}: {quoted(name)} is no more than the name of {quoted(file)}"
        if are_of_other_sides(name, file):
            raise SourceError(f"{said}, which is of another side: {advice}")
        if posixpath.basename(there) not in own.split("/"):
            strangers.setdefault(there, said)
    if len(strangers) > 1:
        *_, said = strangers.values()
        raise SourceError(
            f"{said}, and others lie elsewhere: {advice}, or write paths below SOURCE into it"
        )


def _refuse_cut_label(texts: pl.Series, lines: pl.Series, source: str) -> None:
    """Refuse a last label without a line break that is the beginning of another."""
    last, others = texts[-1], texts[:-1]
    longer = others.filter(others.str.starts_with(last))
    if not (is_number(texts[-1:]).all() or longer.is_empty() or (others == last).any()):
        raise SourceError(
            f"{source}:{lines[-1]}: {quoted(last)} begins like {quoted(longer[0])}, no other row "
            "has it, and the last line has no line break: the file may be cut. Fetch it again, or "
            "add a line break if it is right"
        )


def _with_fields(
    catalog: Catalog, cells: Cells, names: Sequence[str], source: str
) -> tuple[Catalog, str]:
    """Add columns of a table to the samples of a catalog, as fields with types."""
    fields = [Field(IMAGE, "image", places=((IMAGE,),), told="the files")]
    columns, said = list[list[Any]](), list[str]()
    for name in dict.fromkeys(names):
        if name in (IMAGE, LABEL):
            raise OptionError(
                f"--fields {name}: the {name} of a sample is called so; rename this column of "
                f"{source}"
            )
        if name not in cells.texts.columns:
            columns_there = quoted_names(cells.texts.columns)
            raise OptionError(f"--fields {name}: {source} has the columns {columns_there}")
        kind, values, why = _typed(cells, name)
        lacking = sum(value is None for value in values)
        lack = f", and {format_count(lacking, 'row')} without a value" if lacking else ""
        said.append(f"{name} is {kind}{why}{lack}")
        fields.append(Field(name, kind, lacking > 0, (), ((name,),), "the table"))
        columns.append(values)
    values = list(zip(*columns, strict=True))
    kinds = [(each.name, each.type) for each in fields]
    digest = hashlib.sha256(json.dumps([kinds, values], default=str).encode()).hexdigest()
    label = Field(LABEL, "class", told="the table")  # rows have the classes
    table, column = catalog.table, catalog.label_column
    labels = [table[column]] if column else []
    table = table.drop(column or (), strict=False).with_columns(annotation="index")
    changed = replace(
        catalog,
        table=table.with_columns(labels),
        reader=FieldsReader(catalog.reader, names=tuple(dict.fromkeys(names))),
        schema=Schema((*fields, label), IMAGE, LABEL, "folder"),
        schema_known=True,
        annotated=Annotated(None, digest, range(len(values)), values),
    )
    return changed, "; ".join(said)


def _typed(cells: Cells, name: str) -> tuple[str, list[Any], str]:
    """Return the type of a column, its values, None for what is missing, and why it is text."""
    texts = cells.texts[name]
    is_absent = texts.str.to_lowercase().is_in(_NOT_GIVEN)
    if name in cells.values:  # NaN counts as missing
        values = [None if value != value else value for value in cells.values[name]]  # noqa: PLR0124
        kinds = dict.fromkeys(filter(None, map(type_of, values)))
        joined = next(iter(kinds), "text")
        for kind in kinds:
            joined = join(joined, kind) or "text"
        if joined != "text" or kinds.keys() <= {"text"}:
            return joined, values, ""
    else:
        kind = kind_of(texts.filter(~is_absent).unique().to_list()) or "text"
        if kind != "text":
            convert = CONVERT[kind]
            pairs = zip(texts, is_absent, strict=True)
            found = [None if absent else convert(text) for text, absent in pairs]
            return kind.replace("wide", "int"), found, ""
    given = pl.DataFrame([texts, cells.lines]).filter(~is_absent)
    words = given.filter(~is_number(given[name]))
    why = ""
    if 0 < 2 * words.height < given.height:
        some = zip(words[name], words["line"], range(_SHOWN), strict=False)
        shown = ", ".join(f"{quoted(text)} in line {line}" for text, line, _ in some)
        are = "is no number" if words.height == 1 else "are no numbers"
        why = f", because {format_count(words.height, 'cell')} {are} ({shown})"
    return "text", [text or None for text in texts], why


def find_columns(
    header: Sequence[str],
    path: str | None,
    labels: Sequence[str],
    source: str,
    fields: Sequence[str] = (),
) -> tuple[str, tuple[str, ...]]:
    """Find the column of paths and those of labels: which the user names, or the usual ones."""
    # Samples with further fields need no label.
    columns = quoted_names(header)
    unknown = [name for name in (path, *labels) if name is not None and name not in header]
    data = advise(FIRST_LINE_OF_LABELS, header)
    if data and (unknown or path is None):
        raise OptionError(f"{source}: {data.seen}. {data.do}")
    if unknown:
        raise OptionError(
            f"{source}: has no column {quoted(unknown[0])}; its columns are {columns}"
        )
    own = {path, *labels, *fields}
    known = {name.lower(): name for name in header if name not in own}
    paths = [path] if path else [known[name] for name in PATH_COLUMNS if name in known][:1]
    found = list(labels) or [known[name] for name in LABEL_COLUMNS if name in known]
    if len(found) > 1 and not labels:  # y is a coordinate where another column is called label
        found = [name for name in found if name.lower() != "y"]
    if len(header) == 2 and len(paths) + len(found) == 1:
        rest = [name for name in header if name not in (*paths, *found, *fields)]
        paths, found = paths or rest, found or rest
    if numbers := advise(FIRST_LINE_OF_NUMBERS, header):
        columns += f". {numbers.seen}, {numbers.do}"
    if not paths:
        raise OptionError(f"{source}: name its column of paths with --path-column: {columns}")
    if len(found) != (len(labels) or 1) and (found or not fields):
        ways = " or ".join(f"--label-column {shlex.quote(name)}" for name in found)
        ways = f"with {ways or '--label-column'}"
        said = f"{source}: name its column of labels {ways}: {columns}"
        raise UnclearLabels(said, columns=found)
    return paths[0], tuple(found)


# Labels


class _Cells(NamedTuple):
    """A column of labels as text."""

    texts: pl.Series
    lines: pl.Series  # the line of each, in the file
    source: str

    @property
    def flags(self) -> pl.Series:
        """The numbers of a column of 0 and 1; where all are -1 or 1, -1 is 0."""
        numbers = self.texts.cast(pl.Float64, strict=False)
        return numbers.replace(-1, 0) if numbers.is_in([-1.0, 1.0]).all() else numbers

    @property
    def where(self) -> str:
        return f"in the column {quoted(self.texts.name)}"

    def refuse(self, wrong: pl.Series, reason: str) -> None:
        """Refuse the column if some labels are wrong, and name the first of them."""
        found = pl.DataFrame([self.lines, self.texts.alias("text")]).filter(wrong)
        for line, text in found.head(1).iter_rows():
            others = found.unique("text", keep="first", maintain_order=True)[1:_SHOWN]
            shown = [f"{quoted(other)} in line {at}" for at, other in others.iter_rows()]
            such = f", such as {' and '.join(shown)}" if shown else ""
            more = f" ({found.height - 1:,} more like this{such})" if found.height > 1 else ""
            raise SourceError(f"{self.source}:{line}: {quoted(text)} {self.where} {reason}{more}")

    def refuse_mixture(self, are_numbers: pl.Series, way_out: str) -> None:
        """Refuse numbers with some names among them, or names with some numbers."""
        # As names, all numbers would get other numbers.
        numbers = int(are_numbers.sum())
        names = len(self.texts) - numbers
        if not (numbers and names):
            return
        most = max(numbers, names)
        are = f"{format_count(most, 'label')} of this column {'is' if most == 1 else 'are'}"
        if names <= numbers:
            self.refuse(~are_numbers, f"is not a number, but {are}: correct it, or {way_out}")
        self.refuse(are_numbers, f"is a number, but {are} not: correct it, or {way_out}")

    def are_in(self, known: Known) -> bool:
        """Return whether all labels are names of known classes."""
        # Refuse numbers that are also names of other classes of the source: they have two readings.
        if not known.classes or not self.texts.is_in([*numbers_of(known.classes)]).all():
            return False
        if known.owner is not None and is_number(self.texts).all():
            number = self.texts.cast(pl.Float64, strict=False)
            reason = (
                f"is the number of one class of {known.owner} and the name of another: give "
                "--classes FILE with the names of all classes, in the order of their numbers"
            )
            self.refuse(self.numbered(known)[1] != number, reason)
        return True

    def numbered(self, known: Known) -> tuple[tuple[str, ...], pl.Series]:
        """Number the names of classes; unknown names get null."""
        classes = number_classes(self.texts.unique(), known, self.source, unknown=None)
        return classes, numbered(self.texts, classes)

    def refuse_tags(self) -> None:
        """Refuse a column whose cells hold several labels each, unless they are few and unclear."""
        texts = self.texts.unique(maintain_order=True).head(_LOOKED_AT)
        separator = find_separator(texts.to_list())
        if separator is None:
            return
        cells = [split_cell(text, separator) for text in texts]
        text = next(text for text, cell in zip(texts, cells, strict=True) if len(cell) > 1)
        tags = pl.Series(sorted({tag for cell in cells for tag in cell}))
        are_numbers = bool(is_number(tags).all())
        kept = "add --label-type float to keep numbers as they are, " if are_numbers else ""
        line = self.lines.filter(self.texts == text)[0]
        what = "numbers" if are_numbers else "tags"
        found = advise(
            *(TAGS_OF_LABELS, separator), text=quoted(text), where=self.where, what=what, kept=kept
        )
        assert found is not None
        different = f"{len(tags):,} different ones in {format_count(len(texts), 'combination')}"
        raise SourceError(f"{self.source}:{line}: {found.seen} ({different}): {found.do}")


def _how(
    names: Sequence[str], label: pl.Series, classes: Sequence[str] | None, label_type: str | None
) -> str:
    """Say what the labels are."""
    if label_type == "text":
        what = "text"
    elif label.name == "cls":
        what = format_count(len(classes), "class") if classes else "class numbers"
    else:
        what = "numbers" if len(label[0]) == 1 else f"{len(label[0])} numbers each"
        what = f"a 0 or a 1 for each of {format_count(len(classes), 'class')}" if classes else what
    return f"labels from {quoted_names(names, _SHOWN)}: {what}"


def _labels(
    cells: pl.DataFrame, lines: pl.Series, known: Known, options: Source
) -> tuple[pl.Series, tuple[str, ...] | None]:
    """Make the labels and the classes from the columns that hold labels."""
    source, separator = options.labels or "", options.label_separator
    # Text is numbered first, as classes are.
    label_type = options.choice.label_type
    kind = "class" if label_type == "text" else label_type
    columns = [_Cells(column, lines, source) for column in cells]
    for column in columns:
        missing = column.texts.str.to_lowercase().is_in(_NOT_GIVEN[separator is not None :])
        for line in lines.filter(missing).head(1):
            raise SourceError(
                f"{source}:{line}: no label {column.where}{also(lines.filter(missing))}: fill it "
                "in, or remove the row"
            )
    first = columns[0]
    if kind == "multi" and cells.width > 1:
        return labels_from_flags(cells, lines, source, known)
    if kind == "multi" and separator is None:
        separator = find_separator(first.texts.unique(maintain_order=True).to_list())
        if separator is None:
            raise OptionError(
                f"--label-type multi: nothing tells what separates several tags {first.where} of "
                f"{source}: give --label-separator"
            )
    if separator is not None:
        return _labels_from_lists(first, separator, kind, known)
    must_be_numbers = cells.width > 1 or kind == "float"
    are_numbers = is_number(first.texts)
    if must_be_numbers:
        for column in columns:
            wrong = ~is_number(column.texts)
            column.refuse(wrong, "is not a number, as each of these labels must be")
    elif (are_named := first.are_in(known)) or label_type == "text" or not are_numbers.all():
        if kind is None and not are_named:
            first.refuse_tags()
            way_out = "give --label-type class if all labels are names of classes"
            first.refuse_mixture(are_numbers, way_out)
        classes, numbers = first.numbered(known)
        first.refuse(numbers.is_null(), f"is none of {among(classes, known.owner)}")
        return numbers.alias("cls"), classes
    for column in columns:
        column.refuse(is_too_large(column.texts), _TOO_LARGE)
    labels = cells.select(lines, labels=pl.concat_list(pl.all().cast(pl.Float64)))
    if kind == "float":
        return labels["labels"].alias("label"), None
    label = labels_from_numbers(labels, known, source)
    if label.name != "cls" and not must_be_numbers:
        is_fraction = first.texts.cast(pl.Float64) % 1 != 0
        whole = format_count(int((~is_fraction).sum()), "label")
        if kind == "class":
            first.refuse(is_fraction, "is not the number of a class")
        elif is_fraction.sum() * _WHOLE_PER_FRACTION < len(lines):
            way_out = "correct it, or give --label-type float if they number no classes"
            first.refuse(
                is_fraction, f"is a fraction, but {whole} of this column are whole: {way_out}"
            )
    return label, known.classes


def find_separator(texts: Sequence[str]) -> str | None:
    """Find what separates tags in the cells of a column; None if the cells are single labels."""
    # Names of classes have spaces, too: "golden retriever", "New York". Tags differ from words:
    # there are fewer of them than cells, most cells consist of tags that other cells have as well,
    # and tags do not keep their place. In names they do: in "left lung", "right lung" and "lung",
    # each word keeps its place from the front or the back. Parts of cells are also tags if each of
    # them is a whole cell elsewhere in the column.
    if texts and all(text[:1] == "[" and text[-1:] == "]" for text in texts):
        return ","
    for separator in _SEPARATORS:
        cells = [split_cell(text, separator) for text in texts]
        several = [cell for cell in cells if len(cell) > 1]
        if not several:
            continue
        count = Counter(tag for cell in cells for tag in set(cell))
        if is_number(pl.Series(list(count), dtype=pl.String)).all():
            return separator
        if count.keys() == {cell[0] for cell in cells if len(cell) == 1}:
            return separator
        shared = sum(all(count[tag] > 1 for tag in cell) for cell in several)
        if separator in "|;":
            if len(several) > 1 and 2 * shared >= len(several):
                return separator
        elif (
            len(count) < len(cells)
            and 4 * shared >= 3 * len(several)
            and _moving(cells) >= max(2, len(count) / 3)
        ):
            return separator
    return None


def _moving(cells: Sequence[Sequence[str]]) -> int:
    """Count the tags that have several positions, from the front and from the back."""
    from_front, from_back = defaultdict(set), defaultdict(set)
    for cell in cells:
        for position, tag in enumerate(cell):
            from_front[tag].add(position)
            from_back[tag].add(len(cell) - position)
    return sum(len(from_front[tag]) > 1 and len(from_back[tag]) > 1 for tag in from_front)


def split_cell(text: str, separator: str) -> list[str]:
    """Split a cell of several labels: ``a b``, or as Python writes a list, ``['a', 'b']``."""
    is_list = text.startswith("[") and text.endswith("]")
    words = (word.strip() for word in (text[1:-1] if is_list else text).split(separator))
    if is_list:
        words = (word.strip("'\"") for word in words)
    return [word for word in words if word]


def labels_from_flags(
    cells: pl.DataFrame, lines: pl.Series, source: str, known: Known
) -> tuple[pl.Series, tuple[str, ...]]:
    """Turn columns of a 0 or a 1, called like the classes, into labels."""
    columns = [_Cells(column, lines, source) for column in cells]
    for column in columns:
        flags = column.flags
        column.refuse(~flags.is_in([0.0, 1.0]).fill_null(False), "is not 0 or 1, as a tag must be")
    own = {column.texts.name: column.flags for column in columns}
    classes = known.classes or tuple(own)
    if unknown := [name for name in own if name not in classes]:
        which = among(classes, known.owner)
        raise SourceError(f"{source}: the column {unknown[0]!r} is none of {which}")
    each = [pl.col(name) if name in own else pl.lit(0.0) for name in classes]
    return pl.DataFrame(own).select(label=pl.concat_list(each)).to_series(), classes


def _labels_from_lists(
    column: _Cells, separator: str, kind: str | None, known: Known
) -> tuple[pl.Series, tuple[str, ...] | None]:
    """Turn cells of several labels into numbers as they are, or a 0 or a 1 for each class."""
    texts, lines, source = column
    parts = {text: split_cell(text, separator) for text in texts.unique()}
    cells = pl.Series("label", [parts[text] for text in texts], pl.List(pl.String))
    rows = pl.DataFrame([lines, cells]).with_row_index("row")
    exploded = rows.explode("label").drop_nulls("label")
    tags = _Cells(exploded["label"].alias(texts.name), exploded["line"], source)
    are_numbers = is_number(tags.texts)
    tags.refuse(is_too_large(tags.texts), _TOO_LARGE)
    if kind == "float":
        tags.refuse(~are_numbers, "is not a number, as --label-type float says")
        count, length = len(cells[0]), pl.col("label").list.len()
        refuse(
            source,
            rows,
            (length != count) | (length == 0),
            lambda row: (
                f"{len(row['label'])} numbers {column.where}, where the first row has {count}"
            ),
        )
        return cells.cast(pl.List(pl.Float64)), None
    if tags.texts.is_empty():
        raise SourceError(f"{source}: no label {column.where}")
    classes = known.classes
    are_named = tags.are_in(known)
    if not are_named:
        tags.refuse_mixture(are_numbers, "give --classes FILE with the names of all classes")
    if are_numbers.all() and not are_named:
        number = tags.texts.cast(pl.Float64)
        wrong = (number % 1 != 0) | (number < 0) | (number >= LARGEST_EXACT)
        reason = "is not the number of a class; --label-type float keeps numbers as they are"
        tags.refuse(wrong, reason)
        positions = number.cast(pl.Int64)
        width = len(classes) if classes else int(str(positions.max())) + 1
    else:
        classes, positions = tags.numbered(known)
        width = len(classes)
    which = among(range(width), known.owner if classes else None)
    tags.refuse((positions >= width).fill_null(True), f"is none of {which}")
    if len(texts) * width > _MOST_VALUES:
        raise SourceError(
            f"{source}: labels of {width:,} classes for {len(texts):,} rows are more than "
            f"{_MOST_VALUES:,} values: split the table, or choose fewer classes"
        )
    zeros = pl.zeros(len(texts) * width, dtype=pl.Float64, eager=True)
    ones = zeros.scatter(exploded["row"].cast(pl.Int64) * width + positions, 1.0)
    return ones.reshape((len(texts), width)).arr.to_list().alias("label"), classes
