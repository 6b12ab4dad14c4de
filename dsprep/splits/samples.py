"""The samples that a split divides, with the classes or the sides that a file assigns to them."""

from __future__ import annotations

import re
from dataclasses import field, replace

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import OptionError, SourceError
from dsprep.findings import SKIP_KINDS
from dsprep.frozen import Frozen
from dsprep.lists.rows import ReadingNotes, listable, plain_path, plain_paths, rows_of
from dsprep.lists.store import STREAM, classes_path, read_list
from dsprep.numbering import Known, number_classes, numbered
from dsprep.options import require_effect
from dsprep.places.match import MORE_THAN_NAMES, match
from dsprep.schema import LABEL_NAMES
from dsprep.sources.advice import TABLE_TO_SPLIT, advise
from dsprep.sources.gather import classes_of_objects, with_detection_labels
from dsprep.sources.labels.cells import parse_cells
from dsprep.sources.labels.choose import settle_duplicates
from dsprep.sources.labels.table import find_columns
from dsprep.sources.options import ClassOptions, SourceOptions
from dsprep.sources.passed_over import require_nothing_left
from dsprep.sources.reading import read_source
from dsprep.sources.source import Source, choice_of
from dsprep.splits.options import SplitOptions
from dsprep.splits.ratios import Ratios, make_ratios
from dsprep.storage.files import is_dir, is_file
from dsprep.text import read_text, refuse
from dsprep.units import quoted, quoted_names
from dsprep.workers.executor import Executor

_MAX_DISTANCE = 16  # bits of 64; images whose hashes differ in more are not alike
_DISTANCE = 4  # unless users give another

SIDE_COLUMNS = ("split", "fold", "side", "subset", "partition", "set")
"""Names of columns of sides, in any case; if a file has several, the user has to choose."""

_NUMBER = r"^[0-9]{1,9}$"
_BOX = 5


def require_sense(options: SplitOptions) -> None:
    """Refuse options that contradict each other."""
    folds = options.folds
    if folds is not None and options.ratios is not None:
        raise OptionError("give --ratio or --folds")
    if folds is not None and folds < 2:
        raise OptionError(f"--folds {folds}: 2 at least")
    distance_of(options.near, options.near_distance)
    if options.stable and options.leaks == "together":
        raise OptionError(
            "--stable and --leaks together contradict each other: a copy that comes later "
            "would move samples; use --leaks report"
        )
    if options.materialize is not None and folds is not None:
        raise OptionError(
            "--materialize goes with sides, not with --folds, where a file has several places"
        )
    wanted_ratios(options)


def distance_of(near: bool, asked: int | None) -> int | None:
    """Return the bits in which hashes of copies may differ; None if looks do not count."""
    distance = _DISTANCE if asked is None else asked
    if not 0 <= distance <= _MAX_DISTANCE:
        raise OptionError(f"--near-distance {distance}: is not from 0 to {_MAX_DISTANCE}")
    return distance if near else None


def wanted_ratios(options: SplitOptions) -> Ratios:
    """Return the sides and their shares."""
    if options.folds is not None:
        return Ratios(tuple(map(str, range(options.folds))), (1,) * options.folds)
    # a file that gives classes is that of validation images
    usual = {"val": "1"} if options.assign else {"train": "0.8", "val": "0.1", "test": "0.1"}
    return make_ratios(options.ratios or usual)


class Samples(Frozen, eq=False):
    """The samples to divide."""

    name: str  # what messages call their source
    rows: pl.DataFrame  # the samples with the columns of a list
    sizes: pl.Series | None = None  # the sizes of their files; None where nobody looked at files
    root: str | None = None  # what their paths start from, if that is known
    annotated: bool = False  # whether images have annotations beside them
    in_files: bool = False  # whether each is a file of its own below the root
    classes: tuple[str, ...] | None = None  # the names of the classes, if there are any
    labeled: bool = True  # whether samples have labels; without labels, all rows have 0
    in_folders: bool = False  # whether the directories of the paths are the classes
    table: str | None = None  # the table that the samples come from, if any
    columns: tuple[str, ...] = ()  # the names of its columns, if it has no header line
    tags: pl.Series | None = None  # the classes of the objects of each, if they have objects
    official: pl.Series | None = None  # the side of each in its source, if that has sides
    noticed: ReadingNotes = field(default_factory=ReadingNotes)  # what reading the samples reported

    def gather(self, rows: pl.Series) -> Samples:
        """Return some of the samples, with what dividing them needs."""
        tags = None if self.tags is None else self.tags.gather(rows)
        return replace(self, rows=self.rows[rows], tags=tags)


def source_of_split(options: SplitOptions) -> Source:
    """Return the source of a split; of a list without a root, no files are looked at."""
    first, *others = [options.sources] if isinstance(options.sources, str) else options.sources
    if not others and (table := advise(TABLE_TO_SPLIT, first, path=first)):
        raise OptionError(f"{first}: {table.do}")
    listed = not others and (first == STREAM or first.lower().endswith(".lst"))
    root, classes = options.root, options.classes
    require_effect("split", options.given, is_list=listed)
    if not listed:
        values = options.values_of(SourceOptions, ClassOptions)
        if not options.labels:
            values["path_column"] = None  # with --assign, the option names the column of that file
        return Source(first, others=others, needs_names=True, choice=choice_of(options), **values)
    if root is not None and first == STREAM:
        raise OptionError("--root goes with a list that is a file, not with stdin")
    if root is not None and classes is None and is_file(beside := classes_path(first)):
        classes = beside
    return Source(root or "", list_file=first, classes=classes, duplicates=options.duplicates)


def read_samples(
    source: Source, options: SplitOptions, pool: Executor
) -> tuple[Samples, pl.Series | None]:
    """Read the samples: with the classes that ``--assign`` gives, or beside its sides."""
    if options.assign is None:
        return _read(source, options, pool), None
    text, column, shared = read_text(options.assign), options.assign_column, bool(source.labels)
    gives, given = parse_assignment(text, options.assign, column, options.path_column, shared)
    # --classes then names the classes of the file of --assign
    names_own = gives != "side" and not source.chooses
    if names_own and source.keep_classes is not None:
        raise OptionError(
            f"--keep-classes {source.keep_classes}: {options.assign} gives the classes: leave it "
            "out here, and give it to pack, together with the list that this writes"
        )
    samples = _read(source.replace(classes=None) if names_own else source, options, pool)
    values = assigned_values(given, samples.rows["path"], options.assign, options.skip_unmatched)
    if gives == "side":
        return samples, values
    if samples.labeled:
        raise OptionError(f"{options.assign}: gives classes, but {samples.name} has labels already")
    named = source.class_names()
    label, classes = class_labels(gives, values, named, options.assign)
    rows = samples.rows.with_columns(label)
    return replace(samples, rows=rows, classes=classes, labeled=True, in_folders=False), None


def _read(source: Source, options: SplitOptions, pool: Executor) -> Samples:
    """Read a source and look for its files; a list without a root tells nothing of these."""
    if source.list_file is not None and not source.root:
        if options.leaks is not None or options.materialize is not None:
            raise OptionError(
                "--leaks and --materialize need the files: give --root, the directory that the "
                "paths of the list start from"
            )
        listed = read_list(source.list_file, source.classes, source.duplicates or "error")
        plain = listed.table.with_columns(plain_paths(listed.table["path"]).alias("file"))
        rows, again = settle_duplicates(plain, "file", listed.path, source.duplicates)
        skipped = [finding for finding in again if finding.kind in SKIP_KINDS]
        noticed = ReadingNotes(skipped=skipped)
        return Samples(source.list_file, rows.drop("file"), classes=listed.classes, noticed=noticed)
    catalog, findings = read_source(source, pool.map)
    require_nothing_left(source, (catalog, findings))
    require_effect("", {"--classes": source.classes}, classified=catalog.has_classes)
    catalog, unread = with_detection_labels(catalog, pool.map)
    catalog, noticed = listable(catalog, [*findings, *unread])
    return replace(samples_of(catalog, source, pool), noticed=noticed)


def samples_of(catalog: Catalog, source: Source, pool: Executor) -> Samples:
    """Return the samples of the catalog of a source."""
    tags, classes, reader = None, catalog.classes, catalog.reader
    in_files = reader.reads_files and is_dir(source.root)
    official = None
    if catalog.sides:
        official = pl.Series(catalog.sides, dtype=pl.String).gather(catalog.table["side"])
    objects = catalog.settled.schema.objects
    if objects is not None and catalog.label_column is None:
        tags, classes = classes_of_objects(catalog, objects.name, pool.map), objects.names
    named = replace(catalog, table=catalog.table.with_columns(catalog.names().alias("path")))
    return Samples(
        source.list_file or source.root,
        rows_of(named),
        sizes=catalog.table["size"],
        root=source.root,
        annotated=catalog.sizes is not None,
        in_files=in_files,
        classes=classes,
        labeled=catalog.label_column is not None,
        in_folders=in_files and not source.chooses and official is None,
        table=source.labels,
        columns=tuple(source.columns),
        tags=tags,
        official=official,
    )


def assigned_sides(options: SplitOptions, samples: Samples) -> pl.Series | None:
    """Return the side that ``--assign`` gives each sample; None without it."""
    if options.assign is None:
        return None
    text, columns = read_text(options.assign), (options.assign_column, options.path_column)
    gives, given = parse_assignment(text, options.assign, *columns, bool(options.labels))
    if gives != "side":
        raise OptionError(
            f"{options.assign}: gives classes, not sides: without --to, split makes a list of it, "
            "for dsprep pack with --list"
        )
    paths = samples.rows["path"]
    return assigned_values(given, paths, options.assign, options.skip_unmatched)


def parse_assignment(
    text: str, source: str, column: str | None, path_column: str | None = None, shared: bool = False
) -> tuple[str, pl.DataFrame]:
    """Parse a file that gives samples a ``side``, a ``class`` or, from 1, a class ``number``."""
    # The table has the columns `line`, `value` and, unless the file follows the sorted order of the
    # samples, `name`: a path, or an id.
    # It is a CSV or TSV file with a column of sides; or Kaggle's `LOC_val_solution.csv`, whose
    # `PredictionString` repeats a class and a box (`n01440764 x y x y`); or the ImageNet
    # development kit's `ILSVRC2012_validation_ground_truth.txt`, a class number a line. The path
    # column of a file that is shared with `--labels` may be that of the other.
    lines = text.rstrip().split("\n")
    if column is None and re.fullmatch(_NUMBER, lines[0].strip()):
        values = pl.DataFrame({"value": lines}, schema={"value": pl.String}).with_columns(
            pl.col("value").str.strip_chars(), line=pl.int_range(1, pl.len() + 1, dtype=pl.Int64)
        )
        wrong = ~pl.col("value").str.contains(_NUMBER) | pl.col("value").str.contains("^0+$")
        refuse(source, values, wrong, lambda row: f"{row['value']!r} is no class number from 1")
        return "number", values
    cells, numbers, *_ = parse_cells(text, source)
    if shared and path_column not in cells.columns:
        path_column = None
    gives = "side"
    if column is None:
        prediction = [name for name in cells.columns if name.lower() == "predictionstring"]
        sides = [name for name in cells.columns if name.lower() in SIDE_COLUMNS]
        gives = "class" if prediction else "side"
        if not prediction and len(sides) != 1:
            there = f"name its column of sides with --assign-column: {quoted_names(cells.columns)}"
            classes = [name for name in cells.columns if name.lower() in LABEL_NAMES]
            if classes and not sides:
                there += (
                    f". If {quoted(classes[0])} has the names of classes, give dsprep convert "
                    f"SOURCE DEST --labels {source} --to folder for a directory of each"
                )
            raise OptionError(f"{source}: {there}")
        column = (prediction or sides)[0]
    names, _ = find_columns(cells.columns, path_column, [column], source)
    values = pl.DataFrame([numbers, cells[names].alias("name"), cells[column].alias("value")])
    refuse(source, values, pl.col("name") == "", lambda row: f"no path in the column {names!r}")
    if gives == "side":
        empty = pl.col("value") == ""
        refuse(source, values, empty, lambda row: f"nothing in the column {column!r}")
        return "side", values
    words = pl.col("value").str.split(" ").list.eval(pl.element().filter(pl.element() != ""))
    values = values.with_columns(words=words)
    # the class of an image is the first word of each of its boxes
    values = values.with_columns(classes=pl.col("words").list.gather_every(_BOX).list.unique())
    refuse(
        source,
        values,
        (pl.col("words").list.len() % _BOX != 0) | (pl.col("classes").list.len() != 1),
        lambda row: f"{row['value']!r} is not one class with its boxes: class x y x y, repeated",
    )
    return "class", values.select("line", "name", value=pl.col("classes").list.first())


def assigned_values(
    values: pl.DataFrame, paths: pl.Series, source: str, skip_unmatched: bool = False
) -> pl.Series:
    """Return the value of each sample."""
    # A name may lack its extension, and its directories if no other sample has that name.
    known = pl.DataFrame({"path": paths}).select(path=plain_path(pl.col("path")))
    if "name" not in values.columns:
        if values.height != len(paths):
            raise SourceError(
                f"{source}: has {values.height:,} lines, one for each image in sorted order, but "
                f"there are {len(paths):,} images"
            )
        return values["value"].gather(known["path"].rank("ordinal").cast(pl.Int64) - 1)
    named = values.with_columns(name=plain_path(pl.col("name")))
    meant = match(named["name"], known["path"].unique(), MORE_THAN_NAMES)
    meant.refuse_several(source, lines=named["line"])
    found = named.with_columns(path=meant.paths)
    lost = pl.col("path").is_null()
    if not skip_unmatched:
        refuse(
            source,
            found,
            lost,
            lambda row: f"{row['name']!r} names no sample; --skip-unmatched passes over such rows",
        )
    found = found.filter(~lost).with_columns(
        pl.col("line", "value").first().over("path").name.prefix("first_")
    )
    refuse(
        source,
        found,
        pl.col("value") != pl.col("first_value"),
        lambda row: f"{row['path']!r} is assigned in line {row['first_line']} already",
    )
    found = found.unique("path", keep="first", maintain_order=True)
    all_values = known.join(
        found.select("path", "value"), on="path", how="left", maintain_order="left"
    )
    missing = all_values.filter(pl.col("value").is_null())["path"]
    if len(missing):
        raise SourceError(
            f"{source}: does not assign {missing[0]!r} ({len(missing):,} such): every sample needs "
            "a side or a class"
        )
    return all_values["value"]


def class_labels(
    gives: str, values: pl.Series, classes: tuple[str, ...] | None, source: str
) -> tuple[pl.Series, tuple[str, ...]]:
    """Return the class numbers of the classes that a file gives, and the names of classes."""
    if gives == "number":
        numbers = values.cast(pl.Int64)
        largest = int(str(numbers.max()))
        if classes is None:
            classes = tuple(map(str, range(1, largest + 1)))
        if (
            len(classes) > 1
            and list(classes) == sorted(classes)
            and all(re.fullmatch(r"n[0-9]{8}", name) for name in classes)
        ):
            raise SourceError(
                f"{source}: numbers classes by ILSVRC2012_ID, but --classes has them in sorted "
                "order; give them in the order of the development kit's meta.mat"
            )
        if largest > len(classes):
            raise SourceError(f"{source}: {largest} is none of the {len(classes)} classes")
        return (numbers - 1).cast(pl.String).alias("label"), classes
    classes = number_classes(values.unique(), Known(classes), source)
    return numbered(values, classes).cast(pl.String).alias("label"), classes
