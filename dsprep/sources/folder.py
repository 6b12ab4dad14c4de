"""A folder that dsprep wrote, by the manifest and the listing beside it.

They tell the fields of a sample that its files and ``metadata.jsonl`` alone do not: JSON and bytes
beside the image, the numbers of classes. A folder with other files than in the listing has been
edited: it is read as any other folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from dsprep.dataset.manifest import read_manifest
from dsprep.dataset.recorded import recorded_options
from dsprep.errors import BadSample, SourceError
from dsprep.findings import Finding
from dsprep.formats.base import Format
from dsprep.formats.folder import LISTING, METADATA, Listed
from dsprep.rows import Reader, Rows
from dsprep.sample import Sample, image_kind_of, key_of
from dsprep.schema import Schema
from dsprep.sources.prefetch import read_spans
from dsprep.sources.scan import RunAll, read_all, read_file, scan_below, size_of
from dsprep.storage.files import exists, is_file, read_bytes
from dsprep.storage.local import LARGEST_TABLE
from dsprep.storage.location import is_s3, parse_url

if TYPE_CHECKING:
    from dsprep.catalog import Catalog


@dataclass(frozen=True)
class FolderReader(Reader):
    """Reads samples by their lines in the listing."""

    whole: ClassVar[bool] = True
    root: str
    listing: str
    layout: Format  # with the schema of the folder

    @property
    def table(self) -> Format:
        """The meaning of fields."""
        return self.layout

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        """Read the samples, in the order of the rows."""
        lines = zip(rows.sizes, read_spans((self.listing,), rows), strict=True)
        calls = ((row[0], partial(self._read, *row)) for row in lines)
        for id, path, found in zip(rows.ids, rows.paths, read_all(self.root, calls), strict=True):
            if isinstance(found, Sample):
                found = replace(found, id=id, key=key_of(path), path=path)
            yield self.typed(found)

    def _read(self, size: int, line: bytes) -> Sample | BadSample:
        try:
            listed = Listed.from_json(line)
            paths = [file.path for file in listed.files]
            sizes = [size_of(os.path.join(self.root, path)) for path in paths]
            if None in sizes or sum(filter(None, sizes)) != size or not all(map(_is_below, paths)):
                raise BadSample(f"has changed: its files had {size} bytes when they were listed")
            files = {
                path: read_file(os.path.join(self.root, path), length or 0)
                for path, length in zip(paths, sizes, strict=True)
            }
            return self.layout.listed_sample(listed, files)
        except BadSample as error:
            return error
        except ValueError:
            return BadSample("has changed: its line in the listing is another one")


def _is_below(path: str) -> bool:
    return not path.startswith("/") and ".." not in path.split("/") and "\0" not in path


def read_written(root: str, run_all: RunAll = map) -> tuple[Catalog, list[Finding]] | None:
    """Make the catalog of a folder that dsprep wrote; None if it is another one, or edited."""
    if is_s3(root) and not parse_url(root).key:
        return None  # nothing is beside a bucket
    manifest_path, listing = (f"{root.rstrip('/')}.{end}" for end in ("manifest.json", LISTING))
    if not exists(manifest_path) or not is_file(listing):
        return None
    try:
        manifest = read_manifest(manifest_path)
        layout = recorded_options(manifest, manifest_path).layout
        data = read_bytes(listing, LARGEST_TABLE)
    except (SourceError, OSError):
        return None
    schema = manifest.schema
    if not layout.is_tree or schema is None:
        return None
    import polars as pl

    from dsprep.catalog import COLUMNS, PLACE_COLUMNS, Catalog
    from dsprep.sources.files import list_files

    there = list_files(scan_below(root, None, run_all))
    files = {path: facts for path, *facts in there.table.iter_rows()}
    left = dict.fromkeys(path for path in files if os.path.basename(path) != METADATA)
    rows, offset = [], 0
    for index, line in enumerate(data.splitlines(keepends=True)):
        try:
            paths = [file.path for file in Listed.from_json(line).files]
            sizes, mtimes = zip(*(files[path] for path in paths), strict=True)
        except (ValueError, KeyError):
            return None
        rows.append((index, paths[0], sum(sizes), max(mtimes), 0, offset, len(line)))
        offset += len(line)
        for path in paths:
            left.pop(path, None)
    if any(map(image_kind_of, left)):
        return None
    table = pl.DataFrame(rows, schema=COLUMNS | PLACE_COLUMNS, orient="row")
    # The values of raw samples have the names of the fields.
    fields = tuple(replace(field, places=((field.name,),)) for field in schema.fields)
    schema = Schema(fields, schema.image, schema.label, layout.name)
    reader = FolderReader(root, listing, replace(layout, schema=schema))
    findings = [*(Finding("not-an-image", path) for path in sorted(left)), *there.findings]
    catalog = Catalog(table, root, manifest.classes, reader, schema, is_told=manifest.enforced)
    return catalog, findings
