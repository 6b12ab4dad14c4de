"""The rows of a list or a table, and the files or samples that they name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING

import polars as pl

from dsprep.annotations.mxnet import is_detection
from dsprep.catalog import LABEL_COLUMNS, Catalog
from dsprep.errors import SourceError
from dsprep.findings import REJECT_KINDS, Finding
from dsprep.lists.rows import plain_paths
from dsprep.places.files import FILES, Files
from dsprep.places.match import NAME, NOT_ASCII, Spelling, match
from dsprep.sample import key_expr
from dsprep.sources.labels.classes import with_label
from dsprep.sources.readers import FileReader, facts_at
from dsprep.storage.files import results
from dsprep.units import format_count, format_some, quoted

if TYPE_CHECKING:
    from dsprep.sources.source import Source

_JOINED = 1 << 17  # paths that are joined at a time
_FILE = "in file"  # the catalog's column `file`, while `file` is the name in a list


def choose(
    rows: pl.DataFrame,
    files: Files,
    chosen_by: Source,
    classes: tuple[str, ...] | None,
    *,
    paths: str = "path",
    advice: str = "",
) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of the samples that a list or a table names, and report what is left."""
    # `paths` is the column of rows that becomes the catalog's paths.
    root, source = chosen_by.root, chosen_by.list_file or chosen_by.labels or ""
    lists = chosen_by.lists if "list" in rows.columns else ()
    if files.samples is not None:
        rows = rows.with_columns(file=find_samples(rows, files, files.samples, source))
    rows = _as_stored(rows, files.table["path"], paths)
    matched = _join(rows, files.table)
    unknown = matched.filter(pl.col("size").is_null())["file"]
    # A scan leaves out files that are hidden or have another extension.
    unknown = unknown.unique(maintain_order=True)
    if files.others is not None:
        elsewhere = files.others.filter(pl.col("path").is_in(unknown.implode()))
    else:
        lie_at = (os.path.join(root, path) for path in unknown)
        known = zip(unknown, results(root, facts_at, lie_at), strict=True)
        there = [(path, *facts) for path, facts in known if facts]
        elsewhere = pl.DataFrame(there, FILES, orient="row")
    if not elsewhere.is_empty():
        matched = _join(rows, pl.concat([files.table, elsewhere]))
    missing = matched.filter(pl.col("size").is_null())
    found = matched.drop_nulls("size")
    if found.is_empty():
        none, example = f"{source}: not one of the {rows.height}", rows["path"][0]
        if files.samples is None:
            raise SourceError(
                f"{none} files that it names lies below {root}, {example!r} for one: give the "
                "directory that its paths start from"
            )
        raise SourceError(
            f"{none} samples that it names is in {root}, {example!r} for one; {root} has names "
            f"such as {files.table['path'][0]!r}, and dsprep lst create lists them all"
        )
    undecoded = {lost.path.rpartition(".")[0]: lost for lost in files.unreadable()}
    undecoded = {path: undecoded[path] for path in missing["file"] if path in undecoded}
    missing = missing.filter(~pl.col("file").is_in([*undecoded]))
    named = {*missing["file"].to_list(), *elsewhere["path"].to_list()}
    named |= {lost.path for lost in undecoded.values()}
    duplicates = chosen_by.duplicates
    found, repeated = settle_duplicates(found, "place", source, duplicates, advice, lists)
    is_unlisted = pl.repeat(True, files.table.height, eager=True).scatter(
        found["place"].filter(found["place"] < files.table.height), False
    )
    unlisted = files.table["path"].filter(is_unlisted).sort()
    # Findings reach the reports beside the shards, which name no path of this machine.
    # files on a disk, not members of shards or archives
    on_disk = files.samples is None and files.others is None
    kind = "missing" if on_disk else "unknown"
    names = list(map(os.path.basename, lists or (source,)))
    detail = "not looked into, as nothing in it is listed"
    others = [finding for finding in files.findings if finding.path not in named]
    for at, other in enumerate(others):  # a file that no row names counts as unlisted, not as lost
        if other.kind in REJECT_KINDS and other.kind != "damaged":
            others[at] = other._replace(kind="unlisted")
    rows = found.with_columns(pl.col("index").cast(pl.Int64), path=paths)
    catalog = _catalog_of(rows, files, root, classes, has_ids=chosen_by.labels is None)
    if len(lists) > 1:
        catalog = catalog.with_lists([name.removesuffix(".lst") for name in names], rows["list"])
    numbers = missing["list"] if lists else repeat(0)
    return catalog, [
        *(
            Finding(kind, path, f"{names[number]}:{line}")
            for path, line, number in zip(missing["path"], missing["line"], numbers, strict=False)
        ),
        *undecoded.values(),
        *repeated,
        *(Finding("unlisted", path) for path in unlisted.to_list()),
        *(Finding("unlisted", path + "/", detail) for path in files.passed_by),
        *others,
    ]


def _as_stored(rows: pl.DataFrame, files: pl.Series, paths: str) -> pl.DataFrame:
    """Return rows with the names that files have, where accents are characters of their own."""
    odd = rows["file"].filter(rows["file"].str.contains(NOT_ASCII)).unique(maintain_order=True)
    if odd.is_empty():
        return rows
    found = match(odd, files, ())
    changed = ~found.are_paths & found.paths.is_not_null()
    if not changed.any():
        return rows
    written, stored = odd.filter(changed), found.paths.filter(changed)
    name = pl.col("file").replace(written, stored)
    path = pl.when(name != pl.col("file")).then(name).otherwise(paths)
    return rows.with_columns(name.alias("file"), path.alias(paths))


def _join(rows: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """Add size and mtime of the file of each row, and its ``place`` among the files."""
    places = _places(rows["file"], files["path"])
    facts = files.select(pl.exclude("path").gather(places)).rename({"file": _FILE}, strict=False)
    return rows.hstack([places.alias("place"), *facts])


def _places(names: pl.Series, paths: pl.Series) -> pl.Series:
    """Return the position among some paths, all different, of each name; null without one."""
    # A join takes 150 bytes a name, so it is made of some hundred thousand names at a time.
    count = 1 + len(paths) // _JOINED
    part_of = (pl.col("text").hash() % count).cast(pl.UInt16)
    of_names, of_paths = (
        texts.to_frame("text").lazy().select(part_of).collect(engine="streaming").to_series()
        for texts in (names, paths)
    )
    places = pl.repeat(None, len(names), dtype=pl.UInt32, eager=True)
    for part in range(count):
        own, there = ((parts == part).arg_true() for parts in (of_names, of_paths))
        known = pl.DataFrame([paths.gather(there).alias("name"), there.alias("place")])
        wanted = names.gather(own).alias("name").to_frame()
        joined = wanted.join(known, on="name", how="left", maintain_order="left")
        places = places.scatter(own, joined["place"])
    return places


def _catalog_of(
    rows: pl.DataFrame, files: Files, root: str, classes: tuple[str, ...] | None, has_ids: bool
) -> Catalog:
    """Make the catalog of rows that were found, in their order, with their ids and labels."""
    # A list has ids, a table none. Whole samples keep their own labels if these are the same, with
    # the same class names; or if no sample has a label, and a list without class names has only
    # zeros, as lists of samples without labels have.
    labels = [rows[name] for name in LABEL_COLUMNS if name in rows.columns]
    if files.samples is None:
        places = [pl.col(_FILE).alias("file"), pl.col("offset"), pl.col("stored")]
        table = rows.select(
            *("index", "path", "size", "mtime"), *(places if _FILE in rows.columns else []), *labels
        )
        return Catalog(table, root, classes, files.reader or FileReader(root))
    own = files.samples
    if own.settled.schema.objects is not None and _are_boxes(labels):
        labels = []  # annotations have the same boxes as the list, with more details
    table = own.table[rows["place"]]
    changed = {"id": has_ids and not (table["index"] == rows["index"]).all(), "label": False}
    if labels and (classes != own.classes or _differ(own, table, labels[0], has_ids)):
        changed["label"] = True
        table = table.select(pl.exclude(list(LABEL_COLUMNS)), labels[0])
        own = own.with_settled(with_label(own.settled, labels[0], classes))
    return replace(
        own,
        table=table.with_columns(rows["index"]),
        classes=classes,
        overridden=own.overridden.union(name for name in changed if changed[name]),
    )


def _are_boxes(labels: Sequence[pl.Series]) -> bool:
    """Return whether the labels of a list are boxes, as MXNet's lists for detection have them."""
    columns = [each for each in labels if each.name == "label"]
    return any(is_detection(tuple(each[0])) for each in columns if len(each))


def _differ(own: Catalog, table: pl.DataFrame, labels: pl.Series, has_ids: bool) -> bool:
    """Return whether labels differ from those of samples with the same classes."""

    def lists(column: pl.Series) -> pl.Series:
        if column.name == "label":
            return column
        return column.to_frame().select(pl.concat_list(pl.col("cls").cast(pl.Float64))).to_series()

    new = lists(labels)
    if own.label_column is not None:
        return not new.eq(lists(table[own.label_column])).all()
    are_placeholders = has_ids and not own.is_labeled
    return not (are_placeholders and new.eq(pl.Series([[0.0]], dtype=new.dtype)).all())


def find_samples(rows: pl.DataFrame, files: Files, samples: Catalog, source: str) -> pl.Series:
    """Find the samples of a list: by name, by shard and key, or by key alone."""

    def spellings() -> Iterator[Spelling]:
        if samples.has_places and samples.reader.sources():  # not members of one archive
            yield Spelling(NAME, plain_paths(samples.long_names()))
        yield Spelling(key_expr("name"), samples.keys())

    names = rows["file"]
    meant = match(names, files.table["path"], spellings())
    meant.refuse_several(source, lines=rows["line"])
    return meant.paths.fill_null(names)


def settle_duplicates(
    rows: pl.DataFrame,
    by: str,
    source: str,
    duplicates: str | None,
    advice: str = "",
    lists: Sequence[str] = (),
) -> tuple[pl.DataFrame, list[Finding]]:
    """Keep, drop or refuse rows that name a file again; ``lists`` are those of their rows."""
    if rows[by].n_unique() == rows.height:
        return rows, []
    at, word = ("line", "line ") if "line" in rows.columns else ("index", "the row of id ")
    start = f"{source}:" if at == "line" else f"{source}: "
    name = f"{os.path.basename(source)}:"
    if len(lists) > 1:
        names = pl.Series(list(map(os.path.basename, lists)), dtype=pl.String)
        where = names.gather(rows["list"]) + ":" + rows["line"].cast(pl.String)
        rows, at, word, start, name = rows.with_columns(where=where), "where", "", f"{source}: ", ""
    labels = [name for name in LABEL_COLUMNS if name in rows.columns]
    firsts = pl.col(at, *labels).first().over(by).name.prefix("first ")
    is_again = ~rows[by].is_first_distinct()
    again = rows.with_columns(firsts).filter(is_again)
    if duplicates in ("first", "keep"):
        kind = "repeated" if duplicates == "first" else "duplicate"
        findings = [
            Finding(kind, path, f"{name}{row}, and in {word}{first} already")
            for path, row, first in again.select("path", at, f"first {at}").iter_rows()
        ]
        return (rows.filter(~is_again) if duplicates == "first" else rows), findings
    example = again.row(0, named=True)
    differs = any(example[name] != example[f"first {name}"] for name in labels)
    rest = format_some([str(row) for row in again[at][1:]])
    more = f", the next in {word}{rest}" if rest else ""
    raise SourceError(
        f"{start}{'' if at == 'index' else f'{example[at]}: '}{quoted(example['path'])} stands in "
        f"{word}{example[f'first {at}']} already{', with another label' if differs else ''} "
        f"({format_count(again.height, 'row')} like this{more}): give --duplicates first to use "
        "only the first row of each image, or --duplicates keep to make a sample of each row"
        + advice
    )
