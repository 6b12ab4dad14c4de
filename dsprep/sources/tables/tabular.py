"""The catalogs of tables and arrays whose rows are samples: CSV files, and files of NumPy."""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from math import isfinite
from typing import TYPE_CHECKING

import polars as pl

from dsprep.catalog import Catalog, SourceScan
from dsprep.csv_parsers import CsvError, PlacedRecords, lines_of
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.formats.stream import compression_of
from dsprep.numbering import number_classes, numbers_of
from dsprep.places.scan import RunAll
from dsprep.schema import LABEL, LABEL_NAMES, Choice, Field, Schema
from dsprep.sources.advice import CELLS_OF_SOURCE, TAGS_OF_SOURCE, advise
from dsprep.sources.file_rows import narrow, repeated, rows_of
from dsprep.sources.labels.cells import refuse_wide
from dsprep.sources.labels.columns import NUMBERS
from dsprep.sources.labels.table import find_separator
from dsprep.sources.tables.array_labels import column_of, label_column, labels_in, require_known
from dsprep.sources.tables.arrays import (
    Array,
    ArrayReader,
    Plain,
    bytes_of,
    opened_arrays,
    read_header,
    require_whole,
    zipped_arrays,
)
from dsprep.sources.tables.csv_rows import (
    MOST_WRONG,
    Block,
    ColumnCells,
    CsvReader,
    IndexedBlock,
    index_block,
)
from dsprep.sources.tables.pixel_columns import with_pixel_columns
from dsprep.storage.files import OpenFile, common_path, open_file, short_names
from dsprep.storage.stored import Facts
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some, quoted, quoted_names

if TYPE_CHECKING:
    from dsprep.sources.source import Source

_BLOCK = 1 << 22  # bytes of CSV that a worker indexes at once: its cells take about ten times that
_HEAD = 1 << 20
_LOOKED_AT = 20  # rows that show whether a column names images
_SEPARATORS = ",;\t|"
_TOLD = "the arrays"
_MOST_TEXTS = 10_000  # labels that show whether they are several tags each
_FEW = 10  # numbers for each word, in a column that the words are probably mistakes in


# CSV


class _Header(NamedTuple):
    """The delimiter, the column names and the start of the rows of a CSV file."""

    path: str
    facts: Facts
    separator: str
    names: tuple[str, ...]
    start: int  # where its rows begin
    line: int  # the number of their first line
    is_told: bool  # whether its first line names the columns


def read_csv(source: Source, paths: Sequence[str], run_all: RunAll) -> SourceScan:
    """Make the catalog of CSV files: each row is a sample, and each column a field."""
    heads = [_read_header(path, source.kind is None) for path in paths]
    _require_same_columns(heads)
    head, states = heads[0], [each.facts for each in heads]
    label = _label_in(head.names, source.choice)
    indexed = [_indexed(each, head.names.index(label) if label else -1, run_all) for each in heads]
    blocks = [found for found, _, _ in indexed]
    findings = [Finding("unreadable", *wrong) for _, _, found in indexed for wrong in found]
    root = paths[0] if len(paths) == 1 else common_path(paths)
    count = sum(len(block.offsets) for found in blocks for block in found)
    if not count:
        raise SourceError(f"{root}: has no rows that can be read below its first line")
    cells = _cells_of_all(head, [columns for _, columns, _ in indexed])
    kinds = [each.kind.replace("wide", "int") for each in cells]
    if _has_row_numbers(head, kinds):
        kinds[0] = ""
        note = "the first column is left out: it has no name, as row numbers that pandas writes"
        findings.append(Finding("note", "", note))
    findings += [Finding("note", "", note) for note in _notes(head, cells, kinds, count)]
    fields = tuple(_fields_of(head, kinds, cells, count))
    columns = tuple(zip(head.names, kinds, strict=True))
    table, classes = _table(paths, states, blocks), source.class_names()
    found = next((each for each in fields if each.name == label), None)
    if found is not None and _is_class_label(found, source.choice):
        numbers, classes = _class_numbers(found, blocks, source, root)
        table = table if numbers is None else table.with_columns(numbers)
    reader = CsvReader(tuple(paths), tuple(states), head.separator, columns)
    catalog = Catalog(table, root, classes, reader, Schema(fields), schema_known=True)
    if source.pixel_columns:
        catalog, finding = with_pixel_columns(source, catalog, head.names)
        findings.append(finding)
    return catalog, findings


def _require_same_columns(heads: Sequence[_Header]) -> None:
    head = heads[0]
    for other in heads[1:]:
        if (other.names, other.separator) != (head.names, head.separator):
            raise SourceError(
                f"{other.path}: has other columns than {head.path}: {quoted_names(other.names)}; "
                "pack them one by one"
            )


def _cells_of_all(head: _Header, files: Sequence[Sequence[ColumnCells]]) -> list[ColumnCells]:
    """Return what the cells of each column are in all files together."""
    cells = [ColumnCells() for _ in head.names]
    for columns in files:
        for whole, more in zip(cells, columns, strict=True):
            whole.add(more, 0)
    return cells


def _has_row_numbers(head: _Header, kinds: Sequence[str]) -> bool:
    """Return whether the first column holds the numbers of rows that pandas writes."""
    return head.names[0] == "column_0" and head.is_told and kinds[0] == "int"


def _fields_of(
    head: _Header, kinds: Sequence[str], cells: Sequence[ColumnCells], count: int
) -> Iterator[Field]:
    """Yield the fields of the columns that are read; ``count`` is the number of all rows."""
    for name, kind, each in zip(head.names, kinds, cells, strict=True):
        if kind:
            yield Field(name, kind, each.given < count, (), ((name,),), "the cells")


def _is_class_label(label: Field, choice: Choice) -> bool:
    """Return whether a label may be a class; workers do not number labels that rows may lack."""
    return not label.missing and choice.label_type in (None, "class")


def _read_header(path: str, may_list: bool) -> _Header:
    with open_file(path) as file:
        state, head = file.facts(), file.pread(_HEAD, 0)
        if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise SourceError(f"{path}: is UTF-16: convert it with iconv -f UTF-16 -t UTF-8")
        if kind := compression_of(head):
            raise SourceError(f"{path}: is compressed ({kind}): unpack it first")
        start = 3 if head.startswith(b"\xef\xbb\xbf") else 0
        separator = max(_SEPARATORS, key=head.lstrip().partition(b"\n")[0].decode("latin-1").count)

        lines = lines_of(file, path, start)
        placed = PlacedRecords(lines, start, separator, strict=False, replaces=True)
        try:
            cells = [cell.strip() for cell in next(filter(None, placed), [])]
            above = placed.last
            rows = list(islice(filter(None, placed), _LOOKED_AT))
        except CsvError as error:
            raise SourceError(f"{path}:{placed.lines_read}: {error}") from None
    if not cells:
        raise SourceError(f"{path}: is empty")
    advice = "; if they are the numbers of one vector, give an array instead (.npy, .npz)"
    refuse_wide(path, len(cells), advice)
    if len(cells) == 1 and len(cells[0].split()) > 1 and _kind_of(cells[0].split()) in NUMBERS:
        raise SourceError(
            f"{path}: has blanks between its numbers, and dsprep reads commas, semicolons, tabs "
            "and bars: replace them with commas: sed -E 's/ +$//; s/ +/,/g'"
        )
    numbered = _are_numbered(cells)
    is_told = numbered or not any(_kind_of([cell]) in NUMBERS for cell in cells)
    above = above if is_told else 0
    names = [(is_told and name) or f"column_{at}" for at, name in enumerate(cells)]
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise SourceError(f"{path}: two columns are called {quoted(name)}: rename one of them")
    for name, column in zip(names, zip(*rows, strict=False), strict=False):
        names_images = may_list and advise(CELLS_OF_SOURCE, column, path=path, column=quoted(name))
        if names_images:
            raise SourceError(f"{path}: {names_images.seen}: {names_images.do}")
    return _Header(path, state, separator, tuple(names), placed.ends[above], above + 1, is_told)


def _kind_of(cells: Sequence[str]) -> str:
    """Return what a column of these cells is."""
    return ColumnCells.of(cells, [*range(len(cells))]).kind


def _are_numbered(cells: Sequence[str]) -> bool:
    """Return whether cells are the numbers that pandas writes for columns without names."""
    numbers = cells[1:] if cells[0] == "" else cells  # before them, that of row numbers is empty
    return list(numbers) == [str(at) for at in range(len(numbers))] and len(cells) > 2


def _label_in(names: Sequence[str], choice: Choice) -> str | None:
    """Return the column of labels, if there is one."""
    if choice.label is not None or choice.unlabeled:
        return choice.label if choice.label in names else None
    lower = {name.lower(): name for name in reversed(names)}
    return next((lower[name] for name in LABEL_NAMES if name in lower), None)


def _indexed(
    head: _Header, label: int, run_all: RunAll
) -> tuple[list[IndexedBlock], list[ColumnCells], list[tuple[str, str]]]:
    """Index a file; return its blocks, its cells by column, and the lines that are no rows."""
    ends = [*range(head.start, head.facts.size, _BLOCK), head.facts.size]
    tasks = [
        Block(head.path, head.facts, head.separator, len(head.names), label, *span, not at)
        for at, span in enumerate(pairwise(ends))
    ]
    blocks: list[IndexedBlock] = []
    cells = [ColumnCells() for _ in head.names]
    wrong: list[tuple[str, str]] = []
    end, line = head.start, head.line
    for task, block in zip(tasks, run_all(index_block, tasks), strict=True):
        if block.start != end:  # a line break in quotes
            (block,) = run_all(index_block, [task._replace(start=end, is_exact=True)])
        for own, other in zip(cells, block.cells, strict=False):
            own.add(other, line)
        wrong += [(f"{head.path}:{line + at}", why) for at, why in block.wrong]
        if len(block.wrong) > MOST_WRONG:
            shown = "; ".join(f"line {at.rpartition(':')[2]}: {why}" for at, why in wrong[:3])
            raise SourceError(
                f"{head.path}: more than {MOST_WRONG:,} lines are no rows of this table: {shown}; …"
            )
        end, line = block.stop, line + block.lines
        blocks.append(block)
    return blocks, cells, wrong


def _notes(
    head: _Header, cells: Sequence[ColumnCells], kinds: Sequence[str], count: int
) -> Iterator[str]:
    if not head.is_told:
        names = format_some(head.names)
        yield f"its first line has numbers, so no line names the columns; they are called {names}"
    elif _are_numbered(["" if name == "column_0" else name for name in head.names]):
        yield f"its first line, {format_some(head.names)}, is taken for the names of the columns"
    columns = list(zip(head.names, cells, kinds, strict=True))
    if empty := [name for name, each, _ in columns if not each.given]:
        yield f"columns without values are left out: {format_some(empty)}"
    for name, each, kind in columns:
        if kind and each.given < count:
            yield f"{format_count(count - each.given, 'row')} without a value for {quoted(name)}"
        words = each.given - each.numbers
        if kind == "text" and 0 < words * _FEW <= each.numbers:
            shown = ", ".join(f"{quoted(word)} (line {line})" for line, word in each.words)
            yield (
                f"{quoted(name)} is text, because {words:,} of its {each.given:,} values are no "
                f"numbers: {shown}"
            )


def _table(
    paths: Sequence[str], states: Sequence[Facts], blocks: Sequence[Sequence[IndexedBlock]]
) -> pl.DataFrame:
    """Return the rows of several files."""
    parts = []
    names = zip(short_names(paths), states, blocks, strict=True)
    for number, (name, state, found) in enumerate(names):
        offsets, sizes = array("q"), array("q")
        for block in found:
            offsets.extend(block.offsets)
            sizes.extend(block.sizes)
        columns = (pl.Series(each, dtype=pl.Int64) for each in (offsets, sizes, sizes))
        parts.append(rows_of(number, name, state, *columns))
    return pl.concat(parts).select(pl.int_range(pl.len()).alias("index"), pl.all())


def _class_numbers(
    label: Field, blocks: Sequence[Sequence[IndexedBlock]], source: Source, root: str
) -> tuple[pl.Series | None, tuple[str, ...] | None]:
    """Return the class numbers of all rows, and the names; the numbers are None if not known."""
    classes, found = source.class_names(), [block for each in blocks for block in each]
    if label.type not in ("int", "text") or any(block.labels is None for block in found):
        return None, classes
    texts = {text for block in found for text in block.labels or ()}
    if label.type == "text":
        if source.choice.label_type is None:
            _require_names(label.name, texts, root)
        classes = number_classes(texts, source.known_classes(), root)
        numbers = numbers_of(classes)
    else:
        numbers = {text: int(text) for text in texts}
        require_known(numbers.values(), classes, root)
    cells = array("q")
    for block in found:
        known = [numbers[text] for text in block.labels or ()]
        cells.extend(map(known.__getitem__, block.label_of))
    return pl.Series("cls", cells, dtype=pl.Int64), classes


def _require_names(label: str, texts: Collection[str], root: str) -> None:
    """Refuse texts that may be numbers or several tags, as each would be the name of a class."""
    numeric = sorted(filter(_is_number, texts))
    if numeric:  # class names would renumber the classes
        words = sorted(set(texts).difference(numeric))
        what = f"and others, {quoted_names(words, 3)}, are not: correct them"
        if not words:
            what = "but not written as class numbers are, 0, 1, 2, …: give --label-type float"
        raise SourceError(
            f"{root}: labels in {label!r}, {quoted_names(numeric, 3)}, are numbers, "
            f"{what}, or give --label-type class to take all for names"
        )
    separator = find_separator(sorted(texts)[:_MOST_TEXTS])
    if separator is not None:
        shown = quoted(next(text for text in sorted(texts) if separator in text))
        tags = advise(TAGS_OF_SOURCE, separator, label=repr(label), text=shown)
        assert tags is not None
        raise SourceError(f"{root}: {tags.seen}: {tags.do}")


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


# Arrays


_SMALLEST = 8  # pixels of the side of what may be an image


def _refuse_frames(path: str, arrays: Sequence[Array]) -> None:
    """Refuse bytes of rows of images, such as the frames of Moving MNIST: 20 x 10,000 x 64 x 64."""
    for each in arrays:
        are_images = len(each.shape) > 3 and min(each.shape[-2:]) >= _SMALLEST  # noqa: PLR2004
        if each.code == "B" and are_images:
            shape = " x ".join(f"{number:,}" for number in each.shape)
            size = ", ".join(map(str, each.shape[-2:]))
            raise SourceError(
                f"{path}: {shape} bytes are no images of 1 to 4 channels, and a row may be the "
                f"frames of a video: save each frame as a row, numpy.save(NAME, "
                f"array.reshape(-1, {size})); to write each row as a list of {each.width:,} "
                "numbers, give --from numpy"
            )


def read_arrays(source: Source, path: str, run_all: RunAll) -> SourceScan:
    """Make the catalog of a file of NumPy or SciPy: each row is a sample."""
    with opened_arrays(path) as file:
        state = file.facts()
        if path.endswith(".npy"):
            arrays = [read_header(path, Plain(file), 0, state.size, None)._replace(name="values")]
        else:
            arrays = _members(path, file, run_all)
        found = {array.name: array for array in arrays}
        if found.keys() >= {"format", "shape", "data"}:
            columns, offsets, stored = _sparse(path, file, found)
            arrays = [found["indices"], found["data"]]
            kind = f"list<{found['data'].type.replace('bool', 'int')}>"
            types = {"keys": "list<int>", "values": kind, "shape": "int"}
            widths = dict[str, int]()
        else:
            arrays, columns = _of_one_length(path, arrays, source.choice), 0
            count = arrays[0].shape[0]
            offsets = narrow(pl.int_range(count, dtype=pl.Int64, eager=True))
            stored = repeated(1, count, pl.Int32())
            types = {each.name: each.type for each in arrays}
            widths = {each.name: each.width for each in arrays}
    count = len(stored)
    if not count:
        raise SourceError(f"{path}: has no rows")
    if source.kind is None:
        _refuse_frames(path, arrays)
    findings = [
        Finding("note", "", f"{each.name}: rows of {shape} numbers are lists of {each.width:,}")
        for each in arrays
        if len(each.shape) > 2
        for shape in [" x ".join(map(str, each.shape[1:]))]
    ]
    width = sum(max(each.width, 1) * each.size for each in arrays)
    sizes = narrow(stored.cast(pl.Int64) * width)
    table = rows_of(0, os.path.basename(path), state, offsets, sizes, stored)
    index = narrow(pl.int_range(count, dtype=pl.Int64, eager=True)).alias("index")
    table = pl.DataFrame([index, *table.get_columns()])
    classes, overridden = source.class_names(), frozenset[str]()
    if source.labels is not None:
        labels, classes = label_column(source, [labels_in(source, source.labels, count)])
        table, overridden = table.with_columns(labels), frozenset({"label"})
    reader = ArrayReader(path, state, tuple(arrays), columns)
    has_empty = bool((stored == 0).any())
    schema = Schema(
        tuple(
            # Formats without empty lists have none for a row of zeros.
            Field(
                *(name, kind, columns > 0 and has_empty and kind != "int", (), ((name,),), _TOLD),
                width=widths.get(name, 0),
            )
            for name, kind in types.items()
        )
    )
    return (
        Catalog(table, path, classes, reader, schema, schema_known=True, overridden=overridden),
        findings,
    )


def _members(path: str, file: OpenFile, run_all: RunAll) -> list[Array]:
    """Return the arrays of a zip, whose members are whole."""
    members, others = zipped_arrays(path, file)
    if others:
        raise SourceError(f"{path}: holds {quoted(others[0])}, which is no array")
    require_whole(path, members, run_all)
    return [member.array for member in members]


def _of_one_length(path: str, arrays: Sequence[Array], choice: Choice) -> list[Array]:
    """Return the arrays that the samples need, which have a row for each sample."""
    kept = [
        each
        for each in arrays
        if each.name not in choice.drop
        and (not choice.only or {each.name, *_role(each.name, choice)} & {*choice.only})
    ]
    if not kept:
        raise SourceError(f"{path}: holds no arrays that are not left out")
    for each in kept:
        if not each.shape or not each.width:
            raise SourceError(
                f"{path}: {each.name!r} has no rows: leave it out, --drop {each.name}"
            )
    lengths = {each.shape[0] for each in kept}
    if len(lengths) > 1:
        shown = ", ".join(f"{each.name} {each.shape[0]:,}" for each in kept)
        first = ",".join(each.name for each in kept if each.shape[0] == kept[0].shape[0])
        raise SourceError(
            f"{path}: its arrays do not have the same number of rows: {shown}: choose some that "
            f"belong together, such as --only {first}"
        )
    return kept


def _role(name: str, choice: Choice) -> set[str]:
    return {LABEL} if name == choice.label or name.lower() in LABEL_NAMES else set()


def _sparse(
    path: str, file: OpenFile, found: Mapping[str, Array]
) -> tuple[int, pl.Series, pl.Series]:
    """Return how many columns a sparse matrix has, where each row begins, and its items."""

    def named(name: str) -> Array:
        each = found.get(name)
        if each is None:
            raise SourceError(f"{path}: is no complete matrix of SciPy: it has no {name}")
        return each._replace(shape=(each.shape[0] if each.shape else 1,))

    told = named("format")
    kind, *_ = told.rows(bytes_of(file, told), 0, told.shape[0]) or [""]
    if kind != "csr":
        raise SourceError(
            f"{path}: is a sparse matrix of the format {kind}, which has no rows: save it with "
            "scipy.sparse.save_npz(PATH, matrix.tocsr())"
        )
    shape, starts, values = named("shape"), named("indptr"), found["data"]
    keys = found.get("indices", values)
    damaged = SourceError(f"{path}: is damaged: indptr, indices and data do not fit together")
    if not (shape.type == starts.type == keys.type == "int") or values.type == "text":
        raise damaged
    rows, columns = shape.rows(bytes_of(file, shape), 0, 2) if shape.shape == (2,) else (0, 0)
    ends = column_of(bytes_of(file, starts), starts)
    stored = ends.slice(1) - ends.head(-1)
    fits = 0 < columns < 1 << 63 and len(ends) == rows + 1 > 0 == ends[0]
    fits = fits and (stored >= 0).all() and values.shape == keys.shape == (ends[-1],)
    if not fits:
        raise damaged
    return columns, narrow(ends.head(-1)), narrow(stored)
