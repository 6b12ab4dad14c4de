"""Tables of Parquet, as a kind of source."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.dataset.find import data_set_of
from dsprep.errors import SourceError
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
from dsprep.sources.kind import Claim, SourceKind, SourcePlace, Sure, Use
from dsprep.sources.shards.shards_kind import require_finished
from dsprep.storage.files import DirectoryEntry

if TYPE_CHECKING:
    from dsprep.catalog import Found
    from dsprep.places.scan import RunAll
    from dsprep.sources.source import Source

_USES = frozenset((Use.IMAGES, Use.LABELS, Use.ANNOTATIONS, Use.SIDES))


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
            are_own = all(file.endswith(".parquet") for file in place.files)
            return Claim(Sure.MARKED, "files ending in .parquet", _USES) if are_own else None
        for entry in place.entries:
            if entry.name.startswith("."):
                continue
            if is_table(entry) or is_partition(entry):
                return Claim(Sure.MARKED, entry.name, _USES)
        files = files_of_sides(place.path)
        is_own = bool(files) and all(file.endswith(".parquet") for file in files)
        return Claim(Sure.MARKED, "files ending in .parquet", _USES) if is_own else None

    def scan(self, source: Source, place: SourcePlace, run_all: RunAll) -> Found | None:
        root, notes = source.root, list[Finding]()
        if place.is_dir and not source.others:
            found = {entry.name: entry for entry in place.entries if not entry.name.startswith(".")}
            ends = ((name, entry) for name, entry in found.items() if name.endswith(".parquet"))
            tables = [entry for name, entry in ends if not is_table_of_copies(name)]
            files = sorted(entry.path for entry in tables if entry.is_file())
            if not files and any(map(is_partition, found.values())):
                from dsprep.places.files import list_files

                below = list_files(scan_below(root, frozenset({"parquet"}), run_all)).table["path"]
                files = [os.path.join(root, path) for path in below.sort()]
                if files:
                    names = ", ".join(re.findall(r"([^/=]+)=[^/]*/", files[0].removeprefix(root)))
                    detail = f"directories are partitions: their {names} become no fields"
                    notes.append(Finding("note", "", detail))
            if files and source.kind is None:
                formats = CONCATENATIVE.values()
                shards = {shard_stem(name) for name in found if format_of_source(name) in formats}
                if not shards.isdisjoint(map(shard_stem, files)):
                    return None  # img2dataset: tables of what is in the shards of the same names
                others = "shards" if shards else "images" if holds_images(root) else ""
                if others == "images" and source.chooses:
                    return None
                if others:
                    by = "images or --from parquet"
                    if shards:
                        by = "parquet or --from with the format of the shards"
                    raise SourceError(
                        f"{root}: holds {others} and {os.path.basename(files[0])}: say which are "
                        f"the samples, --from {by}"
                    )
            files = files or [*files_of_sides(root)]
        else:
            files = [*place.files]
        if not files or not (source.kind or all(file.endswith(".parquet") for file in files)):
            return None
        from dsprep.places.files import with_sides_of_files
        from dsprep.sources.tables.parquet import read_parquet

        require_finished(source, files)
        sides = tuple[str, ...]()
        if place.is_dir and not source.others:
            recorded = data_set_of(files, single=False)
            known = recorded.manifest.sides_of(files) if recorded else files_of_sides(root)
            sides = sides_of_files(files, known)
            if not (sides or recorded):
                require_one_split(root, files)
        catalog, findings = read_parquet(
            files,
            source.class_names(),
            choice=source.choice,
            versions=source.versions,
            run_all=run_all,
        )
        return with_sides_of_files(catalog, sides), [*notes, *findings]


def is_table(entry: DirectoryEntry) -> bool:
    """Return whether an entry of a directory is a table that may hold samples."""
    is_named = entry.name.endswith(".parquet") and not is_table_of_copies(entry.name)
    return is_named and entry.is_file()
