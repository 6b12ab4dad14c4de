"""Files with a line of text for each sample: Hugging Face's ``imagefolder``, and dsprep's folders.

``imagefolder`` has a ``metadata.jsonl`` or ``metadata.csv``. A folder that dsprep wrote has a
listing beside it, which tells the fields that its files and ``metadata.jsonl`` alone do not: JSON
and bytes beside the image, the numbers of classes. If it has other files than the listing, it has
been edited and is read as any other folder.

A row's offset is that of its line, so that a reader is small however many samples there are.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import posixpath
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.annotations import hugging_face
from dsprep.csv_parsers import CsvError, PlacedRecords, first_record, lines_in, records
from dsprep.dataset.find import Place, data_set_beside
from dsprep.dataset.names import MANIFEST, manifest_beside
from dsprep.errors import BadSample, SourceError
from dsprep.findings import Finding
from dsprep.formats.base import Format, TreeFormat
from dsprep.formats.folder import FILE_NAME, METADATA, Folder
from dsprep.formats.listing import LISTING, Listed
from dsprep.numbering import Known, not_given, number_classes
from dsprep.places.names import in_order
from dsprep.places.prefetch import read_at
from dsprep.places.scan import RunAll, scan_below
from dsprep.sample import Sample, image_kind_of, key_of
from dsprep.schema import IMAGE, LABEL_NAMES, Schema
from dsprep.sources.kind import PEEKED, SourcePlace
from dsprep.sources.labels.columns import CONVERT, joined, kind_of
from dsprep.sources.readers import SampleReader, facts_at, read_files
from dsprep.storage.files import entries, is_file, open_file, read_bytes, takes_requests
from dsprep.storage.local import LARGEST_TABLE
from dsprep.storage.stored import Facts
from dsprep.units import quoted

if TYPE_CHECKING:
    from dsprep.catalog import Catalog

METADATA_FILES = ("metadata.jsonl", "metadata.csv")
_DATA = "data"
_HEAD = 1 << 16  # bytes of metadata that show whether it names files
_AT_ONCE = 1000  # rows of CSV whose cells are held
_CONVERT = {**CONVERT, "float64": float}  # NaN is a value


class DescribedColumns(Folder):
    """The meaning of columns: nothing of them is the content of a folder."""

    name: ClassVar[str] = "imagefolder"


# Reading


class DescribedReader(SampleReader):
    """Reads images and their lines."""

    table: ClassVar = DescribedColumns()
    files: tuple[str, ...]  # the files of metadata, below the root; paths in them start there
    # the columns of each that is CSV, with their types; None for lines of JSON
    columns: tuple[tuple[tuple[str, str], ...] | None, ...]
    names: tuple[str, ...] = ()  # of the classes of objects, if lines have these by name

    def described_in(self) -> tuple[str, ...]:
        return tuple(posixpath.join(self.root, name) for name in self.files)

    def sample(self, path: str, size: int, file: int, line: bytes) -> Sample:
        try:
            values = _parse_line(line, self.columns[file])
            named = _references(values, posixpath.dirname(self.files[file]))
        except (ValueError, KeyError, RecursionError, CsvError):
            raise BadSample("has changed: its line in the metadata is another one") from None
        paths = {field: posixpath.join(self.root, below) for field, below in named.items()}
        is_one = len(paths) == 1
        files = {
            field: (name, Facts(size, 0) if is_one else facts_at(name))
            for field, name in paths.items()
        }
        if self.names:
            values = {name: self._with_numbers(value) for name, value in values.items()}
        fields = {name: value for name, value in values.items() if not _is_reference(name)}
        return Sample(key_of(path), fields | read_files(files, size), path=path)

    def _with_numbers(self, value: Any) -> Any:
        """Return objects with numbers of classes instead of names; another value as it is."""
        numbers = {name: number for number, name in enumerate(self.names)}
        if not hugging_face.classes_in(value):
            return value
        return hugging_face.numbered(value, numbers)


class FolderReader(SampleReader):
    """Reads samples of a folder that dsprep wrote, by their lines in its listing."""

    listing: str
    layout: TreeFormat  # with the schema of the folder

    @property
    def table(self) -> Format:
        return self.layout

    def described_in(self) -> tuple[str, ...]:
        return (self.listing,)

    def sample(self, path: str, size: int, file: int, line: bytes) -> Sample:
        try:
            listed = Listed.from_json(line)
            if not all(_is_below(file.path) for file in listed.files):
                raise ValueError("names a file outside the folder")
            paths = {file.path: os.path.join(self.root, file.path) for file in listed.files}
            files = {below: (name, facts_at(name)) for below, name in paths.items()}
            sample = self.layout.listed_sample(listed, read_files(files, size))
        except ValueError:
            raise BadSample("has changed: its line in the listing is another one") from None
        sample.key, sample.path = key_of(path), path
        return sample


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _parse_line(line: bytes, columns: tuple[tuple[str, str], ...] | None) -> dict[str, Any]:
    text = line.decode("utf-8-sig")
    if columns is None:
        values = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError("is not a JSON object")
        return values
    (cells,) = records([text])
    pairs = zip(columns, cells, strict=True)
    return {name: _CONVERT[kind](cell) for (name, kind), cell in pairs if cell != ""}


def _is_reference(column: str) -> bool:
    return column == FILE_NAME or column.endswith(f"_{FILE_NAME}")


def _references(values: Mapping[str, Any], directory: str) -> dict[str, str]:
    """Return the files that a line names, by field."""
    found = {}
    for column, name in values.items():
        if name in (None, "") or not _is_reference(column):
            continue
        path = posixpath.normpath(name) if isinstance(name, str) else ""
        if not _is_below(path):
            raise ValueError(f"{column!r} is {name!r:.80}, which is not a file in its directory")
        field = IMAGE if column == FILE_NAME else column.removesuffix(f"_{FILE_NAME}")
        found[field] = posixpath.join(directory, path)
    return found


def _is_below(path: str) -> bool:
    """Return whether a path is normal, and leads to no place outside its directory."""
    leads_out = path in (".", "..") or path.startswith(("../", "/")) or "\0" in path
    return posixpath.normpath(path) == path and not leads_out


# Scanning


def metadata_below(place: SourcePlace) -> list[str]:
    """Find the files of metadata in a directory, in those that lie in it, or in `data/`."""
    root = place.path
    if not place.is_dir:
        return []
    found = _metadata_in(root, "")
    if found or takes_requests(root):  # where each look takes a request
        return found
    first = [entry.name for entry in place.peek if entry.is_dir()]
    if any(_metadata_in(root, name) for name in first):
        return _metadata_in_all(root, [entry.name for entry in place.entries if entry.is_dir()])
    if _DATA in first:  # as repositories of Hugging Face have it
        inside = entries(posixpath.join(root, _DATA))
        below = [f"{_DATA}/{entry.name}" for entry in islice(inside, PEEKED) if entry.is_dir()]
        return _metadata_in_all(root, below)
    return []


def _metadata_in_all(root: str, directories: Sequence[str]) -> list[str]:
    return [path for name in sorted(directories) for path in _metadata_in(root, name)]


def _metadata_in(root: str, directory: str) -> list[str]:
    paths = [posixpath.join(directory, name) for name in METADATA_FILES]
    there = (path for path in paths if is_file(os.path.join(root, path)))
    return [path for path in there if _names_files(os.path.join(root, path))][:1]


def _names_files(path: str) -> bool:
    """Return whether the first line of metadata has a column of file names."""
    with open_file(path) as file:
        head = read_at(file, _HEAD, 0).partition(b"\n")[0]
    try:
        text = head.decode("utf-8-sig")
        names = first_record(text) if path.endswith(".csv") else list(json.loads(text))
    except (ValueError, TypeError, RecursionError, CsvError):
        return False
    return any(isinstance(name, str) and _is_reference(name.strip()) for name in names)


def read_described(
    root: str, files: list[str], *, known: Known, run_all: RunAll = map
) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of images that metadata describes, in its order."""
    import polars as pl

    from dsprep.catalog import Catalog
    from dsprep.places.files import list_files

    # The files that each line names; that of the sample's image comes first.
    paths: list[list[str]] = []
    places = {name: array("q") for name in ("file", "line", "offset", "stored")}
    columns: list[tuple[tuple[str, str], ...] | None] = []
    digest, of_objects, fields = hashlib.sha256(), set[Any](), set[str]()
    for number, name in enumerate(files):
        data = read_bytes(os.path.join(root, name), LARGEST_TABLE)
        digest.update(data)
        columns.append(_columns(data, name) if name.endswith(".csv") else None)
        for line, offset, size, values in _lines(data, name, columns[-1]):
            try:
                found = _references(values, posixpath.dirname(name))
            except ValueError as error:
                raise SourceError(f"{root}/{name}:{line}: {error}") from None
            if not found:
                raise SourceError(f"{root}/{name}:{line}: names no file: give it a 'file_name'")
            of_objects.update(
                filter(_is_plain, chain(*map(hugging_face.classes_in, values.values())))
            )
            fields.update(values)
            image = [found.pop(IMAGE)] if IMAGE in found else []
            paths.append([*image, *found.values()])
            for column, place in zip(places.values(), (number, line, offset, size), strict=True):
                column.append(place)
    there = list_files(scan_below(root, None, run_all))
    kinds = {"path": pl.List(pl.String)} | dict.fromkeys(places, pl.Int64)
    lines = pl.DataFrame({"path": paths, **places}, schema=kinds).with_row_index("row")
    named = lines.explode("path").join(there.table, on="path", how="left", maintain_order="left")
    is_absent = pl.col("size").is_null()
    table = named.group_by("row", maintain_order=True).agg(
        pl.col("path").first(),
        pl.col("size").sum(),
        pl.col("mtime").max(),
        pl.col("file", "offset", "stored", "line").first(),
        absent=pl.col("path").filter(is_absent).first(),
    )
    findings = []
    lost = table.drop_nulls("absent").select("path", "absent", "file", "line")
    for path, absent, file, line in lost.iter_rows():
        detail = f"{files[file]}:{line}" + (f", for {absent}" if absent != path else "")
        findings.append(Finding("missing", path, detail))
    unlisted = there.table.filter(~pl.col("path").is_in(named["path"].implode()))["path"]
    findings += [
        Finding("unlisted" if image_kind_of(path) else "not-an-image", path)
        for path in unlisted
        if path not in files
    ]
    findings += there.findings
    repeated = table.filter(~pl.col("path").is_first_distinct())
    if not repeated.is_empty():
        first = repeated.row(0, named=True)
        raise SourceError(
            f"{root}/{files[first['file']]}:{first['line']}: names {first['path']!r} again: remove "
            "one of the lines"
        )
    table = table.filter(pl.col("absent").is_null()).drop("row", "line", "absent")
    if table.is_empty():
        some = named["path"][:1].to_list()
        raise SourceError(f"{root}: {files[0]} names no file that is there, such as {some}")
    table = table.select(pl.int_range(pl.len()).alias("index"), pl.all())
    names = _classes_of_objects(root, of_objects, fields, known)
    reader = DescribedReader(root, tuple(files), tuple(columns), names)
    classes = names or known.classes
    catalog = Catalog(table, root, classes, reader, described=digest.hexdigest())
    return catalog, sorted(findings, key=attrgetter("path"))


def _classes_of_objects(
    root: str, found: Collection[Any], fields: Collection[str], known: Known
) -> tuple[str, ...]:
    """Number the classes that objects have by name; nothing if some have numbers."""
    named = [each for each in found if isinstance(each, str)]
    if not named or len(named) < len(found):
        return ()
    if label := next((name for name in LABEL_NAMES if name in fields), ""):
        raise SourceError(
            f"{root}: its metadata has names of the classes of objects, and {quoted(label)} "
            "besides: write the numbers of the classes into the objects"
        )
    return number_classes(named, known, root, not_given)


def _lines(
    data: bytes, name: str, columns: tuple[tuple[str, str], ...] | None
) -> Iterator[tuple[int, int, int, dict[str, Any]]]:
    """Return number, offset, size and values of each line; the values of CSV are text."""
    if columns is not None:
        names = [column for column, _ in columns]
        for number, offset, size, cells in islice(_records(data, name), 1, None):
            yield number, offset, size, dict(zip(names, cells, strict=True))
        return
    offset = 0
    for number, line in enumerate(io.BytesIO(data), 1):
        if line.strip(b"\xef\xbb\xbf \t\r\n"):
            try:
                yield number, offset, len(line), _parse_line(line, None)
            except (ValueError, RecursionError):
                message = f"{name}:{number}: is not a JSON object, as every line must be"
                raise SourceError(message) from None
        offset += len(line)


def _records(data: bytes, name: str) -> Iterator[tuple[int, int, int, list[str]]]:
    """Return line, offset, size and cells of each record of a CSV file."""
    placed, width = PlacedRecords(lines_in(data)), 0
    try:
        for cells in placed:
            width = width or len(cells)
            if cells and len(cells) != width:
                raise SourceError(
                    f"{name}:{placed.last}: has {len(cells)} cells, the first row {width}"
                )
            if cells:
                yield placed.last, placed.offset, placed.size, cells
    except (CsvError, UnicodeDecodeError) as error:
        raise SourceError(f"{name}:{placed.lines_read}: is not CSV in UTF-8 ({error})") from None


def _columns(data: bytes, name: str) -> tuple[tuple[str, str], ...]:
    """Return the columns of a CSV file, and the type that all cells of each have."""
    records = (cells for *_, cells in _records(data, name))
    names = next(records, [])
    kinds = [""] * len(names)
    while some := list(islice(records, _AT_ONCE)):
        kinds = list(map(joined, kinds, map(_kind, zip(*some, strict=True))))
    pairs = zip(names, kinds, strict=True)
    return tuple((each, "text" if _is_reference(each) else kind or "text") for each, kind in pairs)


def _kind(cells: Sequence[str]) -> str:
    """Return the type of cells; among them, NaN is a number."""
    given = [cell for cell in cells if cell]
    numbers = [cell for cell in given if cell.lower() != "nan"]
    kind = kind_of(numbers)
    return kind if len(numbers) == len(given) else joined("float64", kind)


# A folder that dsprep wrote


def listing_beside(root: str) -> str:
    """Return the listing beside a folder, as dsprep writes it; empty if there is none."""
    beside = manifest_beside(root)
    listing = beside.removesuffix(MANIFEST) + LISTING
    return listing if beside and is_file(listing) else ""


def read_written(root: str, run_all: RunAll = map) -> tuple[Catalog, list[Finding]] | None:
    """Make the catalog of a folder that dsprep wrote; None if it is another one, or edited."""
    listing = listing_beside(root)
    if not listing or (found := data_set_beside(Place(root))) is None:
        return None
    try:
        manifest, layout = found.manifest, found.recorded.layout
        data = read_bytes(listing, LARGEST_TABLE)
    except (SourceError, OSError):
        return None
    schema, recorded = manifest.schema, manifest.options.get("sides")
    recorded = recorded if isinstance(recorded, dict) else {}
    if not isinstance(layout, TreeFormat) or schema is None:
        return None
    import polars as pl

    from dsprep.catalog import COLUMNS, PLACE_COLUMNS, Catalog
    from dsprep.places.files import list_files

    there = list_files(scan_below(root, None, run_all))
    files = {path: facts for path, *facts in there.table.iter_rows()}
    left = {path for path in files if os.path.basename(path) != METADATA}
    rows, offset, own = [], 0, list[str]()
    for index, line in enumerate(data.splitlines(keepends=True)):
        try:
            listed = Listed.from_json(line)
            paths = [file.path for file in listed.files]
            above = listed.key.split("/")[:-1]
            by_path = next((part for part in above if part in recorded), listed.own_side)
            own.append(listed.side or by_path)
            sizes, mtimes = zip(*(files[path] for path in paths), strict=True)
        except (ValueError, KeyError):
            return None
        rows.append((index, paths[0], sum(sizes), max(mtimes), 0, offset, len(line)))
        offset += len(line)
        left.difference_update(paths)
    if any(map(image_kind_of, left)):
        return None
    table = pl.DataFrame(rows, schema=COLUMNS | PLACE_COLUMNS, orient="row")
    sides = in_order(set(own)) if (layout.divides or recorded) and all(own) else ()
    if sides:
        table = table.with_columns(side=pl.Series([*map(sides.index, own)], dtype=pl.Int64))
    # The values of raw samples have the names of the fields.
    fields = tuple(replace(field, places=((field.name,),)) for field in schema.fields)
    schema = Schema(fields, schema.image, schema.label, layout.name)
    reader = FolderReader(root, listing, replace(layout, schema=schema))
    findings = [*(Finding("not-an-image", path) for path in sorted(left)), *there.findings]
    known = manifest.enforced
    told = (table, root, manifest.classes, reader, schema)
    digest = hashlib.sha256(data).hexdigest()
    return Catalog(*told, schema_known=known, sides=sides, described=digest), findings
