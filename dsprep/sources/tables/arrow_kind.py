"""Files of Arrow as Hugging Face `datasets` and litdata write them, as a kind of source."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.formats import ARROW
from dsprep.formats.listed_shards import INDEX, ListedShard, read_index
from dsprep.places.names import (
    SPLITS,
    files_of_sides,
    holds_images,
    require_one_split,
    sides_of_files,
)
from dsprep.sources.kind import Claim, SourceKind, SourcePlace, Sure
from dsprep.sources.tables.parquet_kind import ParquetKind
from dsprep.storage.files import absent, entries, is_file, read_bytes
from dsprep.units import format_count

if TYPE_CHECKING:
    from dsprep.catalog import SourceScan
    from dsprep.places.scan import RunAll
    from dsprep.sources.source import Source

# `Dataset.save_to_disk` and `DatasetDict.save_to_disk` (datasets, config.py)
_STATE, _SPLITS = "state.json", "dataset_dict.json"
_CACHES = ("cache-", "tmp")  # begin the names of files that `datasets` keeps for itself
_LARGEST = 16 << 20  # bytes of a JSON file


class ArrowKind(SourceKind):
    """Files of Arrow whose rows are samples: of ``save_to_disk``, its cache, or litdata."""

    names: ClassVar[tuple[str, ...]] = ("arrow",)
    noun: ClassVar[str] = "Arrow"
    surest: ClassVar[Sure] = Sure.RECORDED

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        return ParquetKind.saved()

    def claim(self, place: SourcePlace, source: Source) -> Claim | None:
        if source.kind is not None:
            return self.named_claim(source)
        if not place.is_dir or source.others:
            is_own = place.files and all(each.endswith(ARROW) for each in place.files)
            return Claim(Sure.MARKED, "files ending in .arrow") if is_own else None
        return _claim_in(place)

    def scan(self, source: Source, place: SourcePlace, run_all: RunAll) -> SourceScan | None:
        files, sides, notes = [*place.files], tuple[str, ...](), list[Finding]()
        chunks: Mapping[str, Sequence[ListedShard]] = {}
        if place.is_dir and not source.others:
            chunks = chunks_in(place)
            by_side = _saved_in(place) or _paths(chunks) or {"": _tables_in(place)}
            files = [path for paths in by_side.values() for path in paths]
            sides = tuple(side for side, paths in by_side.items() for _ in paths)
            if not any(sides):
                sides = sides_of_files(files)
                if not sides:
                    require_one_split(place.path, files)
            notes = [*_unused(place.path, files)]
        from dsprep.formats.arrow_file import is_arrow

        if not files or not all(map(is_arrow, files)):
            return None
        from dsprep.places.files import with_sides_of_files
        from dsprep.sources.tables.parquet import read_parquet

        catalog, findings = read_parquet(
            files,
            source.class_names(),
            choice=source.choice,
            versions=source.versions,
            counts={each.path: each.samples for shards in chunks.values() for each in shards},
            run_all=run_all,
        )
        return with_sides_of_files(catalog, sides), [*notes, *findings]


def _claim_in(place: SourcePlace) -> Claim | None:
    """Return the claim on a directory: no surer than that of images that lie there as well."""
    names = {entry.name for entry in place.peek}
    tables = sorted(name for name in names if name.endswith(ARROW))
    if _SPLITS in names or (_STATE in names and tables):
        return Claim(Sure.RECORDED, min({_SPLITS, _STATE} & names))
    if chunks_in(place):
        return Claim(Sure.RECORDED, INDEX)
    return Claim(Sure.MARKED, tables[0]) if tables and not holds_images(place.path) else None


def _tables_in(place: SourcePlace) -> list[str]:
    """Return the files of Arrow in a directory, but for those of `map` and `filter`."""
    found = (entry for entry in place.entries if entry.name.endswith(ARROW))
    return sorted(each.path for each in found if not each.name.startswith((*_CACHES, ".")))


def _unused(root: str, files: Sequence[str]) -> Iterator[Finding]:
    """Yield a note of the files of Arrow beside those that are read."""
    beside = {os.path.dirname(path) for path in files}
    known = {*files}
    others = sorted(
        entry.path
        for directory in sorted(beside)
        for entry in entries(directory)
        if entry.name.endswith(ARROW) and entry.path not in known
    )
    if others:
        count = format_count(len(others), "file")
        name = os.path.relpath(others[0], root)
        detail = (
            f"{count} of Arrow, such as {name}, not read: no part of the data set, as caches of map"
        )
        yield Finding("note", "", detail)


# What litdata writes


def chunks_in(place: SourcePlace) -> Mapping[str, Sequence[ListedShard]]:
    """Return the chunks of litdata in a directory that have rows of Arrow, by side."""
    if any(entry.name == INDEX for entry in place.entries):
        directories = {place.path: ""}
    elif any(entry.name.lower() in SPLITS for entry in place.peek):
        sides = files_of_sides(place.path)
        directories = {os.path.dirname(path): side for path, side in sides.items()}
    else:
        return {}
    indexes = {side: read_index(directory) for directory, side in directories.items()}
    found = {side: each.shards for side, each in indexes.items() if each and each.format == "arrow"}
    return found if len(found) == len(indexes) else {}


def _paths(chunks: Mapping[str, Sequence[ListedShard]]) -> dict[str, list[str]]:
    return {side: [each.path for each in shards] for side, shards in chunks.items()}


# What save_to_disk writes


def _saved_in(place: SourcePlace) -> dict[str, list[str]]:
    """Return the files that were saved in a directory, by side; none if nothing says which."""
    if not is_file(place.join(_SPLITS)):
        return {"": _saved_files(place.path)} if is_file(place.join(_STATE)) else {}
    path = place.join(_SPLITS)
    splits = _read_json(path).get("splits")
    if not isinstance(splits, list) or not splits or not all(map(_is_name, splits)):
        raise SourceError(f"{path}: names no splits; save the data set again")
    return {split: _saved_files(place.join(split)) for split in splits}


def _saved_files(directory: str) -> list[str]:
    """Return the files of a saved data set, in its order."""
    path = os.path.join(directory, _STATE)
    if not is_file(path):
        raise SourceError(f"{directory}: is no saved data set: {_STATE} is missing; save it again")
    state = _read_json(path)
    if state.get("_indices_data_files"):
        raise SourceError(
            f"{path}: its rows are chosen by a table of indices, as old versions of datasets saved "
            "them: load it with such a version, call flatten_indices(), and save it again"
        )
    files = state.get("_data_files")
    named = [each.get("filename") for each in files or () if isinstance(each, dict)]
    if not named or not all(map(_is_name, named)):
        raise SourceError(f"{path}: names no files of the data set; save it again")
    found = [os.path.join(directory, str(name)) for name in named]
    if missing := absent(found):
        raise SourceError(f"{missing[0]}: is missing, and {path} names it: copy or save it again")
    return found


def _is_name(name: object) -> bool:
    """Return whether a text is the name of a file or a directory, and leads nowhere else."""
    return isinstance(name, str) and name not in ("", ".", "..") and not {"/", "\0"} & {*name}


def _read_json(path: str) -> Mapping[str, Any]:
    try:
        found = json.loads(read_bytes(path, _LARGEST))
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path}: is not JSON ({error!s:.200})") from None
    if not isinstance(found, dict):
        raise SourceError(f"{path}: is not an object of JSON")
    return found
