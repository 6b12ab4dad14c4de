"""Tables of Parquet, as a kind of source."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.dataset.find import data_set_of
from dsprep.findings import Finding
from dsprep.formats import CONCATENATIVE, format_of_source, is_table_of_copies, shard_stem
from dsprep.places.names import (
    files_of_sides,
    holds_images,
    is_partition,
    require_one_split,
    sides_of_files,
)
from dsprep.places.scan import scan_below
from dsprep.sources.kind import Claim, SourceKind, SourcePlace, Sure
from dsprep.storage.files import DirectoryEntry

if TYPE_CHECKING:
    from dsprep.catalog import SourceScan
    from dsprep.places.scan import RunAll
    from dsprep.sources.source import Source


class ParquetKind(SourceKind):
    """Tables of Parquet whose rows are samples."""

    names: ClassVar[tuple[str, ...]] = ("parquet",)
    help: ClassVar[str] = "Parquet"
    noun: ClassVar[str] = "Parquet"

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.formats.arrow import ParquetColumns
        from dsprep.sources.tables.parquet_rows import ParquetFile, ParquetReader

        return {
            "parquet-reader": ParquetReader,
            "parquet-file": ParquetFile,
            "parquet-columns": ParquetColumns,
        }

    def claim(self, place: SourcePlace, source: Source) -> Claim | None:
        if source.kind is not None:
            return self.named_claim(source)
        if not place.is_dir or source.others:
            return _by_extension(place.files)
        if tables := tables_in(place):
            return _beside_others(place, tables, source.chooses)
        for entry in place.entries:
            if not entry.name.startswith(".") and is_partition(entry):
                return Claim(Sure.MARKED, entry.name)
        return _by_extension(files_of_sides(place.path))

    def scan(self, source: Source, place: SourcePlace, run_all: RunAll) -> SourceScan | None:
        in_directory, notes = place.is_dir and not source.others, list[Finding]()
        files: Sequence[str] = [*place.files]
        if in_directory:
            files, notes = _files_in(place, run_all)
        if not files or not (source.kind or all(file.endswith(".parquet") for file in files)):
            return None
        from dsprep.places.files import with_sides_of_files
        from dsprep.sources.tables.parquet import read_parquet

        place.require_finished(source.own_state, files)
        sides = _sides_of(files, place.path) if in_directory else ()
        catalog, findings = read_parquet(
            files,
            source.class_names(),
            choice=source.choice,
            versions=source.versions,
            run_all=run_all,
        )
        return with_sides_of_files(catalog, sides), [*notes, *findings]


def tables_in(place: SourcePlace) -> list[DirectoryEntry]:
    """Return the tables in a directory that may hold samples, by their names."""
    found = (entry for entry in place.entries if entry.name.endswith(".parquet"))
    tables = (entry for entry in found if not entry.name.startswith("."))
    samples = [each for each in tables if not is_table_of_copies(each.name) and each.is_file()]
    return sorted(samples, key=attrgetter("path"))


def _by_extension(files: Collection[str]) -> Claim | None:
    if not files or not all(file.endswith(".parquet") for file in files):
        return None
    return Claim(Sure.MARKED, "files ending in .parquet")


def _beside_others(
    place: SourcePlace, tables: Sequence[DirectoryEntry], is_chosen_from: bool
) -> Claim | None:
    """Return the claim on tables: no surer than that of shards or images that lie there as well."""
    names = [entry.name for entry in place.entries if not entry.name.startswith(".")]
    formats = CONCATENATIVE.values()
    shards = {shard_stem(name) for name in names if format_of_source(name) in formats}
    if not shards.isdisjoint(shard_stem(each.name) for each in tables):
        return None  # img2dataset: tables of what is in the shards of the same names
    first = tables[0].name
    if shards:
        return Claim(Sure.SHAPED, first)
    if holds_images(place.path):
        return None if is_chosen_from else Claim(Sure.ANYTHING, first)
    return Claim(Sure.MARKED, first)


def _files_in(place: SourcePlace, run_all: RunAll) -> tuple[Sequence[str], list[Finding]]:
    """Return the tables in a directory, in its partitions or below its sides, and a note."""
    if tables := tables_in(place):
        return [each.path for each in tables], []
    visible = (entry for entry in place.entries if not entry.name.startswith("."))
    if any(map(is_partition, visible)):
        from dsprep.places.files import list_files

        below = list_files(scan_below(place.path, frozenset({"parquet"}), run_all)).table["path"]
        if files := [os.path.join(place.path, path) for path in below.sort()]:
            names = ", ".join(re.findall(r"([^/=]+)=[^/]*/", files[0].removeprefix(place.path)))
            detail = f"directories are partitions: their {names} become no fields"
            return files, [Finding("note", "", detail)]
    return [*files_of_sides(place.path)], []


def _sides_of(files: Sequence[str], root: str) -> tuple[str, ...]:
    """Return the side of each file; refuse files of several splits that nothing tells apart."""
    recorded = data_set_of(files, single=False)
    known = recorded.manifest.sides_of(files) if recorded else files_of_sides(root)
    sides = sides_of_files(files, known)
    if not (sides or recorded):
        require_one_split(root, files)
    return sides
