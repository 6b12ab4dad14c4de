"""Shards as a source: which files are meant, and the catalog of their samples."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import OptionError, SourceError
from dsprep.findings import Finding
from dsprep.formats import FORMATS, Format, format_of_file
from dsprep.lists.rows import parse_rows
from dsprep.readers.shards import ShardReader
from dsprep.sources.classes import read_classes
from dsprep.sources.scan import RunAll
from dsprep.sources.spans import IndexedShard, IndexTask, index_shard
from dsprep.text import read_text

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_MOST_FILES = 1_000_000
_LARGEST_ID = 2**63 - 1


@dataclass(frozen=True)
class ShardSet:
    """Shards of one data set, or of several.

    Attributes:
        name: What the user called them.
        files: Their paths, in order.
        layout: Their format.
        classes: Class names, where a file beside the shards tells them.
    """

    name: str
    files: tuple[str, ...]
    layout: Format
    classes: tuple[str, ...] | None = None


def expand(pattern: str) -> list[str]:
    """The files that a name with braces or wildcards means: itself, if it has neither.

    ``train-{000000..000146}.tar`` are all of those names, there or not; ``train-*.tar`` are the
    files that are there, in plain sorted order.

    Raises:
        SourceError: If there are none, or no end of them.
    """
    if os.path.lexists(pattern):
        return [pattern]
    names = _expand_braces(pattern)
    if not any(mark in pattern for mark in "*?["):
        return names
    found = list(chain.from_iterable(sorted(glob.glob(name, recursive=True)) for name in names))
    if not found:
        raise SourceError(f"{pattern}: there are no such files")
    return list(dict.fromkeys(found))


def _expand_braces(pattern: str) -> list[str]:
    choices = []
    for inner in _BRACES.findall(pattern):
        bounds = _RANGE.fullmatch(inner)
        if bounds is None:
            choices.append(inner.split(","))
            continue
        first, last = int(bounds[1]), int(bounds[2])
        if not 0 <= last - first < _MOST_FILES:
            raise SourceError(f"{pattern}: {{{inner}}} is not a range of shards")
        choices.append([f"{number:0{len(bounds[1])}d}" for number in range(first, last + 1)])
    texts = _BRACES.split(pattern)[::2]
    return [
        "".join(chain.from_iterable(zip(texts, (*chosen, ""), strict=True)))
        for chosen in product(*choices)
    ]


def read_shards(
    shards: ShardSet,
    *,
    classes: tuple[str, ...] | None = None,
    whole: bool = False,
    run_all: RunAll = map,
) -> tuple[Catalog, list[Finding], Counter[tuple[str, str]]]:
    """Make the catalog of shards.

    The samples are in the order of the shards. Their paths are their keys, or those that a ``.lst``
    beside a RecordIO shard tells; where neither is known without reading all, the name of the shard
    and the number in it.

    Args:
        shards: The shards.
        classes: The classes and their order, if they are fixed already.
        whole: Whether to read the samples whole, for what their headers do not tell: keys, labels.
        run_all: Runs calls, here or in workers.

    Returns:
        The catalog, what was noticed (where shards are damaged), and how many samples have each
        field, with the kind of its values where that is known.

    Raises:
        SourceError: If a shard cannot be opened, or they hold no samples.
    """
    tasks = [IndexTask(path, shards.layout, whole) for path in shards.files]
    indexed = list(run_all(index_shard, tasks))
    findings = [
        Finding("damaged", os.path.basename(path), f"at byte {shard.damage[0]}: {shard.damage[1]}")
        for path, shard in zip(shards.files, indexed, strict=True)
        if shard.damage is not None
    ]
    table = pl.concat(
        [_rows(number, path, shard) for number, (path, shard) in _numbered(shards, indexed)]
    )
    if table.is_empty():
        why = f": {findings[0].path} {findings[0].detail}" if findings else ""
        raise SourceError(f"{shards.name}: holds no samples{why}")
    table, named = _name(table, shards)
    table = _number(table)
    labels = _labels(indexed)
    if labels is not None:
        table = table.with_columns(labels)
    classes = shards.classes if classes is None else classes
    if classes is not None and labels is not None and labels.name == "cls":
        _require_known(labels, classes, shards.name)
    unpacked = tuple(
        (number, shard.offsets[-1] + shard.sizes[-1])
        for number, shard in enumerate(indexed)
        if shard.compressed and shard.offsets
    )
    reader = ShardReader(shards.files, shards.layout, named, unpacked)
    fields: Counter[tuple[str, str]] = Counter()
    for shard in indexed:
        fields.update(shard.fields)
    return Catalog(table, shards.name, classes, reader), findings, fields


def _numbered(
    shards: ShardSet, indexed: Sequence[IndexedShard]
) -> Iterator[tuple[int, tuple[str, IndexedShard]]]:
    return enumerate(zip(shards.files, indexed, strict=True))


def _rows(number: int, path: str, shard: IndexedShard) -> pl.DataFrame:
    """The samples of a shard, with their ids and without labels."""
    count = len(shard.offsets)
    keys = pl.Series("path", [shard.keys] if count else [], dtype=pl.String)
    keys = keys.str.split("\x00").explode()
    if count and not shard.keys.strip("\x00"):
        place = pl.lit(os.path.basename(path) + "/") + pl.int_range(count).cast(str)
        keys = pl.select(path=place).to_series()
    return pl.DataFrame(
        {
            "id": pl.Series(shard.ids, dtype=pl.UInt64),
            "path": keys,
            "size": pl.Series(shard.sizes, dtype=pl.Int64),
            "mtime": pl.repeat(shard.mtime, count, dtype=pl.Int64, eager=True),
            "file": pl.repeat(number, count, dtype=pl.Int64, eager=True),
            "offset": pl.Series(shard.offsets, dtype=pl.Int64),
            "stored": pl.Series(shard.sizes, dtype=pl.Int64),
        }
    )


def _name(table: pl.DataFrame, shards: ShardSet) -> tuple[pl.DataFrame, bool]:
    """Name samples by the lists that stand beside RecordIO shards, if these name all of them."""
    if shards.layout.known_by != "id":
        return table, False
    beside = [Path(path).with_suffix(".lst") for path in shards.files]
    if not all(path.is_file() for path in beside):
        return table, False
    lists = [
        parse_rows(read_text(str(path)), str(path)).select(
            pl.lit(number, dtype=pl.Int64).alias("file"),
            pl.col("index").cast(pl.UInt64, strict=False).alias("id"),
            pl.col("path").alias("name"),
        )
        for number, path in enumerate(beside)
    ]
    joined = table.join(pl.concat(lists), on=["file", "id"], how="left", maintain_order="left")
    if joined.height != table.height or joined["name"].null_count() or _leads_out(joined["name"]):
        return table, False
    return table.with_columns(path=joined["name"]), True


def _leads_out(names: pl.Series) -> bool:
    return bool((names.str.starts_with("/") | names.str.contains(r"(^|/)\.\.?(/|$)")).any())


def _number(table: pl.DataFrame) -> pl.DataFrame:
    """Give the samples the ids that they have, if these tell all of them apart, or numbers."""
    ids = table["id"]
    own = ids.is_unique().all() and (ids.max() or 0) <= _LARGEST_ID  # type: ignore[operator]
    index = ids.cast(pl.Int64) if own else pl.int_range(table.height, eager=True)
    return table.select(index.alias("index"), pl.exclude("id"))


def _labels(indexed: Sequence[IndexedShard]) -> pl.Series | None:
    """The labels as the column of a catalog; None if they are not known, or not for all."""
    labels = list(chain.from_iterable(shard.labels for shard in indexed))
    if len(labels) < sum(len(shard.offsets) for shard in indexed) or None in labels:
        return None
    if all(isinstance(label, int) for label in labels):
        return pl.Series("cls", labels, dtype=pl.Int64)
    lists = [[float(label)] if isinstance(label, int) else list(label or ()) for label in labels]
    return pl.Series("label", lists, dtype=pl.List(pl.Float64))


def _require_known(labels: pl.Series, classes: tuple[str, ...], name: str) -> None:
    unknown = labels.filter(~labels.is_between(0, len(classes) - 1))
    if len(unknown):
        raise SourceError(
            f"{name}: holds the class {unknown[0]}, which is none of its {len(classes)} classes"
        )


def find_shards(source: str, format_name: str | None = None) -> ShardSet | None:
    """Tell which shards a name means.

    Args:
        source: A shard, a pattern of shards, a directory of them, or a manifest.
        format_name: Their format, if the user says it; else their names tell.

    Returns:
        The shards, or None if this is something else.

    Raises:
        SourceError: If it means shards that are not there, or of several formats.
    """
    if not os.path.lexists(source):
        files = expand(source)
        if len(files) == 1 and not os.path.exists(files[0]):
            return None
        return _of_files(source, files, format_name)
    if os.path.isdir(source):
        return _of_directory(source, format_name)
    if source.endswith("manifest.json"):
        return _of_manifest(Path(source))
    stem = source.removesuffix(".gz")
    beside = Path(stem).with_suffix(".manifest.json")
    if format_of_file(source) is not None and beside.is_file():
        return _of_manifest(beside)
    return _of_files(source, [source], format_name)


def _of_files(name: str, files: Sequence[str], format_name: str | None) -> ShardSet | None:
    missing = [path for path in files if not os.path.isfile(path)]
    if missing:
        raise SourceError(f"{missing[0]}: there is no such shard ({name})")
    if format_name is None:
        told = {format_of_file(os.path.basename(path)) for path in files}
        if None in told:
            return None
        if len(told) > 1:
            names = " and ".join(sorted(each.name for each in told if each))
            raise SourceError(f"{name}: shards of {names}; name those of one format")
        (layout,) = told
        assert layout is not None
    else:
        layout = _known(format_name)
    return ShardSet(name, tuple(files), layout(), _classes_beside(files))


def _known(format_name: str) -> type[Format]:
    if format_name not in FORMATS:
        raise OptionError(f"--from {format_name}: unknown; choose one of {', '.join(FORMATS)}")
    return FORMATS[format_name]


def _of_directory(directory: str, format_name: str | None) -> ShardSet | None:
    manifest = Path(directory) / "manifest.json"
    if manifest.is_file():
        return _of_manifest(manifest)
    with os.scandir(directory) as entries:
        seen = [entry for entry in entries if not entry.name.startswith(".")]
    if any(entry.is_dir() for entry in seen):
        return None
    names = sorted(each.name for each in seen if _is_shard(each.name, format_name))
    if not names:
        return None
    return _of_files(directory, [os.path.join(directory, name) for name in names], format_name)


def _is_shard(name: str, format_name: str | None) -> bool:
    layout = format_of_file(name)
    return layout is not None and format_name in (None, layout.name)


def _of_manifest(path: Path) -> ShardSet | None:

    raise NotImplementedError


def _classes_beside(files: Sequence[str]) -> tuple[str, ...] | None:
    """The class names of ``classes.txt``, or of the one that is named after a single shard."""
    directory = os.path.dirname(files[0])
    names = ["classes.txt"]
    if len(files) == 1:
        stem = Path(files[0].removesuffix(".gz")).stem
        names.insert(0, f"{stem}.classes.txt")
    for name in names:
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            return read_classes(path)
    return None
