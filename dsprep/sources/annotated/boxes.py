"""Tables with a row for each box, or for the runs of pixels of each object, as Kaggle has them.

Which columns hold the box follows from their names, in the spellings of competitions, or from
``--box`` and ``--box-columns``. An image without rows, or with empty cells, has no objects.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from dsprep.annotations.masks import IGNORED
from dsprep.annotations.objects import APART, MOST_CLASSES, SHARES, Extent, Object, Objects
from dsprep.annotations.orders import Order
from dsprep.csv_parsers import CsvError, records_of
from dsprep.errors import OptionError, SourceError
from dsprep.findings import Finding
from dsprep.numbering import Known, number_classes, number_ids, numbered
from dsprep.sample import image_kind_of
from dsprep.sources.annotated.annotated import Annotations, Scan, by_rows, some_lines
from dsprep.sources.annotated.masks import WRONG, TableMasks
from dsprep.sources.box_orders import (
    EDGES,
    HEIGHT,
    NUMBER,
    WHERE,
    WIDTH,
    order_of,
    sizes_in_headers,
)
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some, quoted, quoted_names

if TYPE_CHECKING:
    import polars as pl

    from dsprep.arguments import AnyPath
    from dsprep.places.files import Files
    from dsprep.sources.labels.arrange import Arranged
    from dsprep.sources.labels.cells import Cells
    from dsprep.sources.source import Source

# besides those of tables of labels; VGGFace2 has `NAME_ID`
_PATHS = ("imageid", "image_names", "patientid", "uuid", "name_id")
_CLASSES = ("labelname", "class_name", "category_name", "label_name", "annotation tag")
_IDS = ("class_id", "category_id", "classid", "label_id")
_RUNS = ("encodedpixels", "rle_mask", "rle", "segmentation", "annotation")
_MANY = "boxesstring"  # all boxes of an image, as Global Wheat has them: `1 2 3 4;5 6 7 8`
_NO_RUNS = ("", "-1", "nan")  # -1: SIIM, for an image without any
_BOTH = ("imageid_classid", "image_label")  # 0002cc93b.jpg_1, 0011165.jpg_Fish
_FLAGS = {
    "isgroupof": "group_of",
    "istruncated": "truncated",
    "iscrowd": "crowd",
    "truncated": "truncated",
    "difficult": "difficult",
}
_SIZES = (("width", "height"), ("image_width", "image_height"), ("img_width", "img_height"))
_ONE = "object"  # the name of the class of a table without classes
_BACKGROUND = "background"
_SHOWN = 3
_LOOKED_AT = 20  # lines that show whether a table names its columns
_LONGEST = 60  # characters of a cell in a message

_IMAGE, _CLASS = NUMBER, "number of the class"  # names of columns that reading adds
_WRONG = "what is wrong with the class"  # column that is added, too
_EMPTY = ("", "nan", "none", "null", "no_box")  # cells without a box, in lower case
_NUMBER = r"(?i)[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|nan|inf"


class _Spelling(NamedTuple):
    """A naming of columns that hold a box, and what their numbers mean."""

    kind: str  # `xywh`, `xyxy` or `cxcywh`; empty if the names do not tell
    columns: tuple[str, ...]  # in lower case: four, or one that has all
    shares: bool = False


_SPELLINGS = (
    _Spelling("", ("bbox",)),
    _Spelling("xyxy", (_MANY,)),
    _Spelling("xyxy", ("xmin", "ymin", "xmax", "ymax")),
    _Spelling("xyxy", ("x_min", "y_min", "x_max", "y_max")),
    _Spelling("xyxy", ("x1", "y1", "x2", "y2")),
    _Spelling("xywh", ("x", "y", "width", "height")),
    _Spelling("xywh", ("x", "y", "w", "h")),
    _Spelling("xywh", ("x_1", "y_1", "width", "height")),  # CelebA
    _Spelling(
        "xyxy", tuple(f"{at} corner {x}" for at in ("upper left", "lower right") for x in "xy")
    ),  # LISA  # fmt: skip
)
# Rows of Keras-RetinaNet have no header line; those of images without objects are empty behind the
# path (github.com/fizyr/keras-retinanet, "CSV datasets").
_OF_ROWS = ("path", "x1", "y1", "x2", "y2", "class")
_ROW = re.compile(r"[^,]+\.\w+,(?:(?:-?\d+(?:\.\d*)?,){4}[^,]+|,,,,)")
# Open Images: shares of width and height, in this order
_OPEN_IMAGES = _Spelling("xyxy", ("XMin", "YMin", "XMax", "YMax"), shares=True)


class TableBoxes(Annotations):
    """Boxes of a table, by image."""

    starts: array[int]  # the first box of each image, and at last the number of boxes
    boxes: array[float]  # x0, y0, x1 and y1 of each
    numbers: array[int]  # of their classes
    flags: tuple[frozenset[str], ...]  # those of each; empty if the table has none
    extents: tuple[Extent | None, ...]  # what the boxes of each image are measured on
    wrong: Mapping[int, str] = field(default_factory=dict)  # images to reject, and why
    # x, y and visibility of the keypoints; each box has the same number; empty without any
    keypoints: array[float] = field(default_factory=lambda: array("d"))

    def opened(self, places: Sequence[int]) -> AbstractContextManager[Callable[[int], Objects]]:
        return nullcontext(lambda at: self._objects(places[at]))

    def _objects(self, number: int) -> Objects:
        if number in self.wrong:
            raise ValueError(self.wrong[number])
        items = []
        width = len(self.keypoints) // max(1, len(self.numbers))
        for at in range(self.starts[number], self.starts[number + 1]):
            x0, y0, x1, y1 = self.boxes[4 * at : 4 * at + 4]
            flags = self.flags[at] if self.flags else frozenset[str]()
            points = tuple(self.keypoints[width * at : width * (at + 1)])
            box = x0, y0, x1, y1
            items.append(Object(box, self.numbers[at], flags, keypoints=points))
        return Objects(tuple(items), self.extents[number])


def columns_of(text: str) -> Sequence[str]:
    """Return the names of the columns of a table: its first line, or what its rows are like.

    A wrong row among others does not hide what the rows are like, so that reading can name it.
    """
    lines = [line.strip() for line in text.split("\n")[:_LOOKED_AT] if line.strip()]
    rows = sum(map(bool, map(_ROW.fullmatch, lines)))
    if rows and 2 * rows >= len(lines) and image_kind_of(lines[0].partition(",")[0]):
        return _OF_ROWS
    first = text.partition("\n")[0]
    return [cell.strip().strip('"') for cell in re.split(r"[,;\t]", first)]


def scan_of(
    boxes: TableBoxes,
    images: Sequence[str],
    classes: tuple[str, ...],
    ids: tuple[int, ...],
    digest: str,
    path: str,
    notes: Sequence[str],
    **others: Any,
) -> Scan:
    """Return the scan of boxes that a file tells."""
    counts = [stop - start for start, stop in pairwise(boxes.starts)]
    findings = [Finding("note", "", note) for note in notes]
    sizes = [64 * count for count in counts]
    others |= {"flags": any(each & APART for each in boxes.flags), "boxes_alone": True}
    others["in_shares"] = all(extent == SHARES for extent in boxes.extents)
    return Scan(boxes, images, counts, sizes, classes, ids, digest, path, findings, **others)


class BoxRules(NamedTuple):
    """What is known of a table of boxes, if its kind is recognized.

    Attributes:
        called: What classes are called that the table has otherwise; None for what
            ``--class-names`` says.
        takes_part: Whether the images are mostly a part of those that the table names, so that a
            note counts the others.
    """

    called: Mapping[str, str] | None = None
    takes_part: bool = False


def scan_boxes(source: Source, path: str, files: Files, rules: BoxRules | None = None) -> Scan:
    """Read a table of boxes, or of runs of pixels, which may lie in the archive of the images."""
    import polars as pl

    from dsprep.sources.labels.table import LABEL_COLUMNS

    rules = rules or BoxRules()
    read, digest = _cells_of(source, path, files)
    cells, lines = read.texts, read.lines
    columns = cells.columns
    if both := next((name for name in cells.columns if name.lower() in _BOTH), None):
        if wrong := cells[both].filter(~cells[both].str.contains("_", literal=True)).to_list():
            raise SourceError(f"{path}: {wrong[0]!r:.60} is no image and class: 0002cc93b.jpg_1")
        parts = cells[both].str.extract_groups(r"(?s)^(.*)_([^_]*)$").struct.unnest()
        cells = cells.with_columns(ImageId=parts.to_series(0), ClassId=parts.to_series(1))
    lower = {name.lower(): name for name in cells.columns}
    usual = tuple(name for name in LABEL_COLUMNS if name not in ("target", "y", *_IDS))
    names = _column_of_images(source, cells, path, files)
    asked = next(iter(source.label_columns), None)
    label = _one(lower, asked, (*_CLASSES, *usual, *_IDS), path)
    id = None if asked else _one(lower, None, _IDS, path)
    spelling = _spelling(source, lower, cells.columns)
    runs = next((lower[name] for name in _RUNS if name in lower), None)
    if spelling is None and runs is None:
        raise OptionError(
            f"{path}: the names of its columns do not tell which hold boxes: give --box xywh or "
            f"--box xyxy, and --box-columns with four of {quoted_names(cells.columns)}; a table of "
            "labels is --labels"
        )
    used = {names, label, id, both, *(spelling.columns if spelling else (runs,))}
    told = ("target", *(_FLAGS if spelling else ()), *chain.from_iterable(_SIZES))
    rest = [each for each in columns if each not in used and each.lower() not in told]
    notes = [Finding("note", "", f"columns not kept: {quoted_names(rest)}")] if rest else []
    cells = cells.with_columns(lines)
    if _MANY in lower:
        cells = cells.with_columns(pl.col(lower[_MANY]).str.split(";")).explode(lower[_MANY])
    if rules.takes_part:
        cells, more = _of_present(cells, names, files)
        notes += more
    nameless = pl.when(pl.col(names) == "").then(pl.format("line {} names no image", "line"))
    cells = cells.with_columns(nameless.otherwise(pl.col(names)).alias(names))
    called = rules.called
    if called is None:
        called = names_of_classes(source, files, source.class_names_file)
    classes = _Classes.of(cells, label, id, source, path, called)
    images = cells[names].unique(maintain_order=True)
    number = cells[names].replace_strict(images, range(len(images)), return_dtype=pl.Int64)
    cells = cells.with_columns(
        number.alias(_IMAGE), classes.numbers.alias(_CLASS), classes.wrong.alias(_WRONG)
    )
    cells = cells.sort(_IMAGE, maintain_order=True)
    if spelling is None:
        assert runs is not None
        scan = _scan_runs(cells, images.to_list(), runs, classes, digest, path)
    else:
        measure = partial(sizes_in_headers, source.root, files)
        scan = _scan_boxes(cells, images, spelling, classes, digest, path, measure)
    return scan._replace(findings=[*scan.findings, *notes])


def _of_present(
    cells: pl.DataFrame, names: str, files: Files
) -> tuple[pl.DataFrame, list[Finding]]:
    """Return the rows of images that are there, if there are any, and a note on the others."""
    from dsprep.places.match import PATH, base, stem

    known = {*files.table.select(base(PATH))["path"], *files.table.select(stem(PATH))["path"]}
    is_there = cells[names].is_in([*known])
    lost = cells[names].filter(~is_there).n_unique()
    if not lost or not is_there.any():
        return cells, []
    said = f"{format_count(lost, 'image')} with boxes that are not there"
    return cells.filter(is_there), [Finding("note", "", said)]


def images_named(source: Source, path: str, files: Files) -> Sequence[str]:
    """Return what a table of boxes calls its images."""
    cells = _cells_of(source, path, files)[0].texts
    names = _column_of_images(source, cells, path, files)
    return cells[names].unique(maintain_order=True).to_list()


def _cells_of(source: Source, path: str, files: Files) -> tuple[Cells, str]:
    """Read the cells of a table that names its columns; also return the digest of the file."""
    from dsprep.places.files import read_beside
    from dsprep.sources.labels.cells import parse_cells
    from dsprep.sources.labels.table import arranged_among
    from dsprep.text import read_data

    def arrange(text: str, columns: Sequence[str]) -> Arranged:
        columns = columns or (_OF_ROWS if columns_of(text) == _OF_ROWS else ())
        try:
            found = arranged_among(path, files.table, text, columns)
        except OptionError:
            found = None
        if found is None or set(found.columns) == {"path", "label"}:
            raise OptionError(
                f"{path}: no line names its columns: put one above its rows, such as "
                "path,xmin,ymin,xmax,ymax,class or path,x,y,width,height,class"
            )
        return found

    archive = files.archive
    data = read_data(path) if archive is None else read_beside(source.root, path, archive)
    return parse_cells(data, path, arrange=arrange), hashlib.sha256(data).hexdigest()


def _column_of_images(source: Source, cells: pl.DataFrame, path: str, files: Files) -> str:
    """Return the column that names images, by its own name or by its cells."""
    from dsprep.sources.labels.table import PATH_COLUMNS, column_of_names

    lower = {name.lower(): name for name in cells.columns}
    names = _one(lower, source.path_column, (*PATH_COLUMNS, *_PATHS), path)
    names = names or column_of_names(cells, files.table)
    if names is None:
        raise OptionError(
            f"{path}: name its column of images with --path-column: {quoted_names(cells.columns)}"
        )
    return names


class _Classes(NamedTuple):
    """The classes of the rows of a table."""

    names: tuple[str, ...]  # by number
    ids: tuple[int, ...]  # by number; empty if the table has none
    numbers: pl.Series  # of each row; null for a row without an object
    wrong: pl.Series  # what is wrong with that of a row with a box; null if nothing is

    @classmethod
    def of(
        cls,
        cells: pl.DataFrame,
        label: str | None,
        id: str | None,
        source: Source,
        path: str,
        called: Mapping[str, str],
    ) -> _Classes:
        """Number the classes of a column: by their ids, or by their sorted names.

        ``called`` has what classes are called that the column has otherwise.
        """
        import polars as pl

        empty = pl.Series([False] * cells.height, dtype=pl.Boolean)
        target = next((name for name in cells.columns if name.lower() == "target"), None)
        if target is not None:  # RSNA's tables have a Target of 0 for an image without objects
            empty = cells[target].is_in(["0", ""])
        if label is None:
            for option in ("--no-object", "--class-names", "--classes"):
                if option in source.given:
                    raise OptionError(
                        f"{option} has no effect: {path} has no column of classes: name it with "
                        "--label-column, or leave the option out"
                    )
            numbers = pl.select(pl.when(~empty).then(0)).to_series()
            return cls((_ONE,), (), numbers, pl.Series([None] * len(numbers), dtype=pl.String))
        texts = cells[label]
        if source.no_object is not None:
            if not (texts == source.no_object).any():
                raise OptionError(f"--no-object {source.no_object}: no row of {path} says so")
            empty |= texts == source.no_object
        nameless = ~empty & (texts == "")
        texts = pl.select(pl.when(~empty & ~nameless).then(texts)).to_series()
        given = source.class_names()
        used = texts.drop_nulls().unique().to_list()
        ids: tuple[int, ...] = ()
        if given is None and all(text.isascii() and text.isdecimal() for text in used):
            ids = tuple(sorted(map(int, used)))
            order = tuple(map(str, ids))
        elif given is None and id is not None and id != label:
            pairs = cells.select(label, id).filter(texts.is_not_null()).unique().rows()
            by_id = {int(number): name for name, number in pairs if number.isdecimal()}
            if len(by_id) != len(pairs):
                raise SourceError(f"{path}: {id!r} does not number the names in {label!r}")
            order, ids, _ = number_ids(by_id, None, path)
        else:
            order = number_classes(used, Known(given), path, unknown=None)
        known = texts.is_in(order)
        wrong = pl.select(
            pl.when(nameless)
            .then(pl.lit("has no class"))
            .when(~known)
            .then(pl.format("has the class '{}', which is not in --classes", texts))
        )
        numbers = numbered(texts, order)
        return cls(tuple(called.get(name, name) for name in order), ids, numbers, wrong.to_series())


def names_of_classes(source: Source, files: Files, named: AnyPath | None) -> Mapping[str, str]:
    """Read names of classes by what a table calls them, as Open Images has them: `/m/x,Name`."""
    from dsprep.places.files import read_beside
    from dsprep.text import decode_text

    if not named:
        return {}
    path = str(named)
    try:
        text = decode_text(read_beside(source.root, path, files.archive), path)
        rows = [*records_of(text, strict=False)]
    except CsvError as error:
        raise SourceError(f"{path}: is not CSV ({error})") from None
    if wrong := [row for row in rows if len(row) != 2]:
        raise SourceError(f"{path}: {','.join(wrong[0])!r:.60} is no class and its name: /m/x,Name")
    return {row[0]: row[1] for row in rows}


def _one(lower: dict[str, str], asked: str | None, usual: Sequence[str], path: str) -> str | None:
    """Return the column that the user names, or the first of the usual ones that is there."""
    if asked is not None and asked not in lower.values():
        columns = quoted_names(list(lower.values()))
        raise OptionError(f"{path}: has no column {quoted(asked)}; its columns are {columns}")
    return asked or next((lower[name] for name in usual if name in lower), None)


def holds_boxes(columns: Iterable[str]) -> bool:
    """Return whether columns of these names hold boxes, or runs of pixels."""
    names = set(columns)
    lower = {name.lower() for name in names}
    spelled = any(set(each.columns) <= lower for each in _SPELLINGS)
    return spelled or {*_OPEN_IMAGES.columns} <= names or "encodedpixels" in lower


def _spelling(source: Source, lower: dict[str, str], columns: Sequence[str]) -> _Spelling | None:
    """Return how columns hold a box: as the user says, or as their names do."""
    if source.box is not None:
        order = Order.of(source.box)
        asked = tuple(source.box_columns) or tuple(filter(None, [lower.get("bbox")]))
        if len(asked) not in (1, 4) or not set(asked) <= set(columns):
            given = f"--box-columns {','.join(asked)}:" if asked else "--box-columns is missing:"
            raise OptionError(
                f"{given} name four columns, or one of four numbers, of {quoted_names(columns)}"
            )
        return _Spelling(order.kind, asked, order.shares)
    if set(_OPEN_IMAGES.columns) <= set(columns):
        return _OPEN_IMAGES
    found = next((each for each in _SPELLINGS if set(each.columns) <= lower.keys()), None)
    if found is None:
        return None
    return found._replace(columns=tuple(lower[name] for name in found.columns))


def _scan_boxes(
    cells: pl.DataFrame,
    images: pl.Series,
    spelling: _Spelling,
    classes: _Classes,
    digest: str,
    path: str,
    measure: Callable[[pl.Series], pl.DataFrame],
) -> Scan:
    import polars as pl

    from dsprep.catalog import Inferred

    if len(spelling.columns) == 1:
        texts = cells[spelling.columns[0]]
        parts = texts.str.extract_all(_NUMBER)
        is_empty = texts.str.strip_chars(" []()").str.to_lowercase().is_in(_EMPTY)
        is_box = parts.list.len() == len(EDGES)
        own = pl.DataFrame(
            {edge: parts.list.get(at, null_on_oob=True) for at, edge in enumerate(EDGES)}
        )
        own = own.with_columns(pl.when(is_box).then(pl.all()).name.keep())
    else:
        own = cells.select(pl.col(*spelling.columns))
        is_empty = own.select(pl.all_horizontal(pl.all().is_in(["", "nan", "NaN"]))).to_series()
        own.columns = list(EDGES)
    rows = cells.with_columns(own.cast(pl.Float64, strict=False)).filter(
        ~is_empty & (pl.col(_CLASS).is_not_null() | pl.col(_WRONG).is_not_null())
    )
    finite = pl.all_horizontal((pl.col(EDGES).abs() < 2.0**31).fill_null(False))
    lower = {name.lower(): name for name in cells.columns}
    tried = ""
    if not spelling.kind:
        sizes = _sizes(cells, images, spelling, lower, measure)
        order, tried = _tried_order(rows.filter(finite), sizes, spelling, path)
        spelling = spelling._replace(kind=order.kind, shares=order.shares)
    corners = Order(spelling.kind, spelling.shares).corners(*map(pl.col, EDGES))
    far = ~pl.all_horizontal(each.is_between(-1, 2) for each in corners)
    problem = (
        pl.when(~finite)
        .then(pl.lit("is not four numbers"))
        .when((corners[2] < corners[0]) | (corners[3] < corners[1]))
        .then(pl.lit("has a negative width or height"))
        .when(far & spelling.shares)
        .then(pl.lit("is not in shares of the image's size, from 0 to 1"))
        .otherwise(pl.col(_WRONG))
    )
    rows = rows.with_columns(problem.alias(_WRONG)).with_columns(
        each.alias(edge) for each, edge in zip(corners, EDGES, strict=True)
    )
    wrong, notes = _wrong_rows(rows, "box", spelling.columns, path)
    rows = rows.filter(pl.col(_WRONG).is_null())
    inside = pl.all_horizontal(pl.col(EDGES).is_between(0, 1))
    if not spelling.shares and rows.height and rows.select(inside.all()).item():
        raise OptionError(
            f"{path}: all boxes lie between 0 and 1, as shares of the size of images do: give "
            f"--box {spelling.kind}:normalized --box-columns {','.join(spelling.columns)}"
        )
    again = rows.filter(~pl.struct(_IMAGE, _CLASS, *EDGES).is_first_distinct())["line"]
    if not again.is_empty():
        said = f"{format_count(len(again), 'row')} equal to an earlier one (image, box and class)"
        lines = format_some(list(map(str, again.head(_SHOWN + 1))))
        notes.append(f"{said}, kept as objects of their own: lines {lines}")
    numbers = pl.int_range(len(images) + 1, eager=True)
    starts = rows[_IMAGE].search_sorted(numbers, "left")  # rows are in the order of images
    flags = [(lower[name], flag) for name, flag in _FLAGS.items() if name in lower]
    sets = tuple(
        frozenset(flag for cell, (_, flag) in zip(row, flags, strict=True) if cell in ("1", "true"))
        for row in (rows.select(pl.col(name).str.to_lowercase() for name, _ in flags).iter_rows())
    )
    extents = _extents(cells, images.to_list(), spelling, lower)
    annotations = TableBoxes(
        array("q", starts.to_list()),
        by_rows(rows.select(EDGES), "d"),
        array("i", rows[_CLASS].to_list()),
        sets if flags else (),
        extents,
        wrong,
    )
    unit = " as shares" if spelling.shares else ""
    said = f"boxes are {spelling.kind}{unit}: {', '.join(spelling.columns)}{tried}"
    named = classes.names, classes.ids
    names = images.to_list()
    scan = scan_of(annotations, names, *named, digest, path, [said, *notes], keeps_unlisted=True)
    taken = Order(spelling.kind, spelling.shares).option
    return scan._replace(inferred=[Inferred("box", taken, tried.strip(" ,"))] if tried else [])


def _sizes(
    cells: pl.DataFrame,
    images: pl.Series,
    spelling: _Spelling,
    lower: dict[str, str],
    measure: Callable[[pl.Series], pl.DataFrame],
) -> pl.DataFrame:
    """Return the sizes of images that columns tell; else those of some, by their headers."""
    import polars as pl

    known = [
        (number, *size)
        for number, size in enumerate(_extents(cells, images.to_list(), spelling, lower))
        if size
    ]
    if not known:
        return measure(images)
    return pl.DataFrame(
        known, {NUMBER: pl.Int64, WIDTH: pl.Float64, HEIGHT: pl.Float64}, orient="row"
    )


def _tried_order(
    rows: pl.DataFrame, sizes: pl.DataFrame, spelling: _Spelling, path: str
) -> tuple[Order, str]:
    """Return the order of four numbers that fits the sizes of images, and why."""
    import polars as pl

    if sizes.is_empty() or rows.is_empty():  # another error says what is wrong
        return Order("xywh"), ""
    where = pl.format("line {}", "line").alias(WHERE)
    boxes = rows.select(where, _IMAGE, *EDGES).join(sizes, on=_IMAGE, how="left")
    order = order_of(boxes, spelling.columns[0], path)
    count = format_count(sizes.drop_nulls().height, "image")
    return order, f", by the size of {count}"


def _wrong_rows(
    rows: pl.DataFrame, what: str, columns: Sequence[str], path: str
) -> tuple[dict[int, str], list[str]]:
    """Return why images with a wrong row are rejects, and notes; refuse if most rows are wrong."""
    import polars as pl

    cells = pl.concat_str(columns, separator=", ").str.slice(0, _LONGEST)
    place = pl.format("{}:{}", pl.lit(posixpath.basename(path)), "line")
    reason = pl.format("{}: the {} {} {}", place, pl.lit(what), cells, _WRONG).alias("reason")
    wrong = rows.filter(rows[_WRONG].is_not_null()).select(_IMAGE, reason)
    examples = wrong["reason"].head(_SHOWN).to_list()
    if 2 * wrong.height > rows.height:
        said = (
            f"{wrong.height:,} of {format_count(rows.height, 'row')} with a {what} cannot be read"
        )
        raise SourceError(f"{path}: {said}:", *some_lines(examples, wrong.height))
    said = f"{format_count(wrong.height, 'row')} that cannot be read, whose images are rejected"
    notes = [f"{said}: {'; '.join(examples)}"] if examples else []
    return dict(wrong.unique(_IMAGE, keep="first").iter_rows()), notes


def _extents(
    cells: pl.DataFrame, images: list[str], spelling: _Spelling, lower: dict[str, str]
) -> tuple[Extent | None, ...]:
    """Return the size that the boxes of each image are measured on, if columns tell it."""
    import polars as pl

    if spelling.shares:
        return (SHARES,) * len(images)
    free = [pair for pair in _SIZES if not {*pair} & {name.lower() for name in spelling.columns}]
    known = next((pair for pair in free if {*pair} <= lower.keys()), None)
    if known is None:
        return (None,) * len(images)
    across, down = (pl.col(lower[name]).cast(pl.Float64, strict=False) for name in known)
    firsts = cells.group_by(_IMAGE, maintain_order=True).agg(across.first(), down.first())
    return tuple(
        (width, height) if width and height else None for _, width, height in firsts.iter_rows()
    )


def _scan_runs(
    cells: pl.DataFrame, images: list[str], column: str, classes: _Classes, digest: str, path: str
) -> Scan:
    """Take the rows of each image for the runs of its mask."""
    import polars as pl

    rows = cells.filter(~pl.col(column).is_in(_NO_RUNS))
    wrong, notes = _wrong_rows(rows, "mask", [column], path)
    runs: list[list[tuple[int, str]]] = [[] for _ in images]
    for image, number, text in rows.select(_IMAGE, _CLASS, column).iter_rows():
        runs[image] += [] if number is None else [(number + 1, text)]
    for image, reason in wrong.items():
        runs[image] = [(WRONG, reason)]
    names = (_BACKGROUND, *classes.names)
    if len(names) > IGNORED:
        raise SourceError(f"{path}: has {len(classes.names):,} classes; masks have 254 at most")
    masks = TableMasks(tuple(map(tuple, runs)), names)
    nothing = [0] * len(images)
    findings = [Finding("note", "", note) for note in notes]
    named = None, images, nothing, nothing, (), (), digest, path, findings
    return Scan(*named, keeps_unlisted=True, masks=masks)


def scan_lst(source: Source, path: str) -> Scan:
    """Read a ``.lst`` whose labels are MXNet's for detection: a header, then class and box of each.

    The boxes are shares of the size of images. A sixth number of an object says that it is
    difficult, and an object of the class -1 that there is none.
    """
    from dsprep.lists.rows import all_detection, parse_rows
    from dsprep.text import read_text

    text = read_text(path)
    rows = parse_rows(text, path)
    if not all_detection(rows):
        raise SourceError(
            f"{path}: has no labels for detection: give it with --list, or write them as A B …, "
            "then class xmin ymin xmax ymax for each object"
        )
    starts, boxes, numbers = array("q", [0]), array("d"), array("i")
    flags = list[frozenset[str]]()
    given = source.class_names()
    most = len(given) if given else MOST_CLASSES
    for line, texts in rows.select("line", "label").iter_rows():
        label = [float(each) for each in texts.split("\t")]
        width = int(label[1])
        for at in range(int(label[0]), len(label), width):
            number, *edges = label[at : at + 5]
            if number == -1:
                continue
            shown = " ".join(f"{each:g}" for each in label[at : at + 5])
            x0, y0, x1, y1 = edges
            if number % 1 or not 0 <= number < most:
                raise SourceError(f"{path}:{line}: {shown}: {number:g} is no class number")
            if x1 < x0 or y1 < y0 or not all(-1 <= edge <= 2 for edge in edges):
                raise SourceError(f"{path}:{line}: {shown} is no box in shares of an image's size")
            boxes.extend(edges)
            numbers.append(int(number))
            is_difficult = width > 5 and label[at + 5] != 0
            flags.append(frozenset({"difficult"} if is_difficult else ()))
        starts.append(len(numbers))
    notes = []
    if given is None:
        given = tuple(map(str, range(max(numbers, default=-1) + 1)))
        said = f"{path}: no file tells the names of the classes, so their numbers are their names"
        notes.append(f"{said}: give --classes FILE")
    sizes = (SHARES,) * rows.height
    annotations = TableBoxes(starts, boxes, numbers, tuple(flags) if any(flags) else (), sizes)
    digest = hashlib.sha256(text.encode()).hexdigest()
    images = rows["path"].to_list()
    return scan_of(annotations, images, given, (), digest, path, notes)
