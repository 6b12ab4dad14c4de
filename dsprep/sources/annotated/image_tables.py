"""Tables of published data sets beside images: their rows are joined by the names of images."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING

import polars as pl

from dsprep.errors import OptionError, SourceError
from dsprep.lists.rows import is_number
from dsprep.sources.annotated.image_values import ImageValues
from dsprep.sources.annotation_kind import LOOKED_AT, AnnotatedPlace, NamedPath
from dsprep.sources.kind import HEAD
from dsprep.sources.labels.arrange import Arranged
from dsprep.sources.labels.cells import parse_cells
from dsprep.sources.labels.table import arranged_among, labels_from_flags
from dsprep.storage.files import entries, full_path, open_file
from dsprep.text import Problem, also, read_data, refuse
from dsprep.tuples import NamedTuple
from dsprep.units import quoted

if TYPE_CHECKING:
    from dsprep.places.files import Files
    from dsprep.sources.source import Source

IMAGE, LINE = " image", " line"  # columns that reading adds


def paths_below(place: AnnotatedPlace) -> Sequence[str]:
    """Return the files that may be tables: those beside the images or, if named, around these.

    A path that the user names is a directory, or one of the tables in it.
    """
    if not place.named:
        return [posixpath.join(place.root, path) for path in place.others]
    found: list[str] = []
    for named in place.named:
        if named.member:
            top = posixpath.dirname(named.member)
            beside = [path for path in place.others if posixpath.dirname(path) == top]
            found += [posixpath.join(place.root, path) for path in beside]
            continue
        directory = named.path if named.is_dir else os.path.dirname(named.path) or "."
        inside = list(islice(entries(directory), LOOKED_AT))
        found += [entry.path for entry in inside if entry.is_file()]
        if named.is_dir:
            below = (islice(entries(each.path), LOOKED_AT) for each in inside if each.is_dir())
            found += [entry.path for some in below for entry in some if entry.is_file()]
    return sorted(dict.fromkeys(found))


def tables_of(source: Source, place: AnnotatedPlace, paths: Sequence[str]) -> list[str]:
    """Return the tables of a kind: those that it claims or, if the user names some, these.

    Of a directory that the user names, these are all tables in it.
    """
    if not place.named:
        return [posixpath.join(place.root, path) for path in paths]
    beside, top = paths_below(place), source.root.rstrip("/")
    named = {f"{top}/{each.member}" if each.member else each.path for each in place.named}
    return [path for path in beside if path in named] or [
        path for path in beside if path.lower().endswith(".csv")
    ]


def columns_at(place: AnnotatedPlace, path: str) -> frozenset[str]:
    """Return the cells of the first line of a table, which mostly names its columns."""
    below = full_path(path).removeprefix(f"{full_path(place.root)}/")
    if below in place.others:
        head = place.head(below)
    else:
        with open_file(path) as file:
            head = file.pread(HEAD, 0)
    first = head.decode("utf-8-sig", "replace").partition("\n")[0]
    return frozenset(cell.strip().strip('"') for cell in re.split(r"[,;\t]", first))


def with_named(place: AnnotatedPlace, paths: Iterable[str]) -> AnnotatedPlace:
    """Return a place as if the user named these files in it."""
    top = f"{full_path(place.root)}/"
    is_archive = place.files.archive is not None
    named = [
        NamedPath(path, full_path(path).removeprefix(top) if is_archive else "", place.head)
        for path in paths
    ]
    return AnnotatedPlace(place.root, place.files, named, place.leave_out)


def by_role(paths: Iterable[str], roles: Mapping[str, re.Pattern[str]]) -> dict[str, str]:
    """Return the one file of each role, by patterns of paths; refuse several files of one."""
    found: dict[str, str] = {}
    for path in paths:
        for role, pattern in roles.items():
            if pattern.search(path) is None:
                continue
            if role in found:
                raise SourceError(
                    f"{path}: says the same as {found[role]}: remove one of them, or give "
                    "--leave-out with one"
                )
            found[role] = path
    return found


def used_below(source: Source, paths: Iterable[str]) -> list[str]:
    """Return the paths of files below the source."""
    top = f"{full_path(source.root)}/"
    return [full_path(path).removeprefix(top) for path in paths]


class ImageTable(NamedTuple):
    """A table with a row for each image.

    Attributes:
        path: Where it lies, for messages.
        cells: Its cells as text, with the name of the image in the column `IMAGE` and the line in
            the column `LINE`.
        digest: The digest of the file.
    """

    path: str
    cells: pl.DataFrame
    digest: str

    @property
    def images(self) -> pl.Series:
        """What it calls its images."""
        return self.cells[IMAGE]

    @property
    def columns(self) -> list[str]:
        """The names of its columns, without those that were added."""
        return [name for name in self.cells.columns if name not in (IMAGE, LINE)]

    def beside(self, source: Source, place: AnnotatedPlace) -> ImageTable:
        """Return the table with names of images below the source or, if they are there, beside it.

        Names may begin with that of the source itself.
        """
        directory = posixpath.dirname(used_below(source, [self.path])[0])
        above, name = f"{posixpath.basename(full_path(source.root))}/", pl.col(IMAGE)
        known = place.files.table["path"].implode()
        if directory and (f"{directory}/" + self.images).is_in(known).any():
            return self._replace(
                cells=self.cells.with_columns((f"{directory}/" + name).alias(IMAGE))
            )
        return self._replace(cells=self.cells.with_columns(name.str.strip_prefix(above)))

    def rows_of(self, images: pl.Series) -> pl.Series:
        """Return the row of each image; null for one that it does not name."""
        numbers = self.cells.select(IMAGE, row=pl.int_range(pl.len(), dtype=pl.UInt32))
        joined = (
            images.alias(IMAGE)
            .to_frame()
            .join(numbers, on=IMAGE, how="left", maintain_order="left")
        )
        return joined["row"]

    def require(self, good: pl.Expr, problem: Problem) -> None:
        """Refuse a row for which an expression is not true."""
        rows = self.cells.drop("line", strict=False).rename({LINE: "line"})
        refuse(self.path, rows, ~good.fill_null(False), problem)

    def numbers(self, columns: Sequence[str]) -> pl.DataFrame:
        """Return columns of numbers; refuse another cell."""
        for name in columns:
            wrong = self.cells.filter(~is_number(self.cells[name]))
            for line, text in wrong.select(LINE, name).head(1).iter_rows():
                raise SourceError(
                    f"{self.path}:{line}: {quoted(text)} in the column {quoted(name)} is no number"
                    f"{also(wrong[LINE])}"
                )
        return self.cells.select(pl.col(*columns).cast(pl.Float64))

    def tags(self, columns: Sequence[str], images: pl.Series, source: Source) -> ImageValues:
        """Return columns of a 0 or a 1 (or of -1 and 1) as labels, for images by name."""
        if not columns:
            raise SourceError(f"{self.path}: has no columns of tags")
        given = self.cells.select(columns), self.cells[LINE], self.path
        label, classes = labels_from_flags(*given, source.known_classes())
        return ImageValues(label.gather(self.rows_of(images)), classes)


def image_table(
    source: Source,
    files: Files,
    path: str,
    columns: Sequence[str] = (),
    image_of: Callable[[Sequence[str]], str] | None = None,
) -> ImageTable:
    """Read a table with a row for each image.

    Args:
        source: What the user named.
        files: The images, and the files beside them.
        path: The table.
        columns: The names of its columns, if its lines are rows.
        image_of: Returns the column that names the images, of all columns; None for the first one.
    """

    def arrange(text: str, columns: Sequence[str]) -> Arranged:
        try:
            return arranged_among(path, files.table, text, columns)
        except OptionError as error:
            raise SourceError(str(error)) from None

    data = data_of(source, files, path)
    cells = parse_cells(data, path, columns, arrange=arrange)
    names = cells.texts.columns
    name = names[0] if image_of is None else image_of(names)
    table = cells.texts.with_columns(cells.texts[name].alias(IMAGE), cells.lines.alias(LINE))
    again = table.filter(~table[IMAGE].is_first_distinct())
    for line, text in again.select(LINE, IMAGE).head(1).iter_rows():
        raise SourceError(f"{path}:{line}: names {quoted(text)} again{also(again[LINE])}")
    return ImageTable(path, table.drop(name), sha256(data).hexdigest())


def data_of(source: Source, files: Files, path: str) -> bytes:
    """Read a file below the source, which may be an archive, or elsewhere."""
    from dsprep.places.files import read_beside

    below = full_path(path).removeprefix(f"{full_path(source.root)}/")
    if files.texts is not None and below in files.texts:
        return files.texts[below]
    return read_data(path) if files.archive is None else read_beside(source.root, path)


def all_images(tables: Iterable[ImageTable]) -> pl.Series:
    """Return the names of the images of several tables, each once, in their order."""
    return pl.concat([table.images for table in tables]).unique(maintain_order=True)


def digest_of(tables: Iterable[ImageTable]) -> str:
    """Return the digest of several tables."""
    return sha256("".join(table.digest for table in tables).encode()).hexdigest()
