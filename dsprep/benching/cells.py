"""What can be measured: the data sets, the readers, and how each reader gets at the data."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from dsprep.errors import OptionError, SourceError, source_errors
from dsprep.sources.reading import holds_images
from dsprep.sources.scan import scan_below
from dsprep.sources.shardset import find_shards
from dsprep.storage.files import entries, facts, is_dir, results
from dsprep.storage.local import read_whole
from dsprep.storage.location import is_s3
from dsprep.units import format_count, quoted

IN_PLACE = ("file", "fifo", "cmd")  # how local data is read
REMOTE = ("boto3", "s3fs", "s3torchconnector", "download", "fifo", "cmd")  # how S3 is, best first


class Reader(NamedTuple):
    """A library that feeds training loops, or Python alone."""

    formats: Sequence[str]  # what it reads; `folder` is image files in directories
    access: Sequence[str]  # how it gets at the data
    needs: Sequence[str] = ()  # the packages that it needs, by the names of their modules
    workers_need: Sequence[str] = ()  # those that it needs for workers
    differs: str = ""  # what it does that others do not


_CONNECTIONS = {"boto3": "boto3", "s3fs": "s3fs", "s3torchconnector": "s3torchconnector"}

READERS = {
    "webdataset": Reader(
        ("webdataset",),
        ("file", "boto3", "s3fs", "download", "fifo", "cmd"),
        ("webdataset", "PIL", "numpy"),
        ("torch",),
    ),
    "tf": Reader(
        ("tfrecord",),
        ("file", "download"),
        ("tensorflow",),
        differs="decodes with TensorFlow; workers are threads",
    ),
    "mxnet": Reader(
        ("recordio",),
        ("file", "download"),
        ("mxnet",),
        differs="always decodes, to 224 x 224, with OpenCV; workers are threads",
    ),
    "datasets": Reader(
        ("parquet",), ("file", "s3fs", "download"), ("datasets", "PIL", "numpy"), ("torch",)
    ),
    "torch": Reader(
        ("folder",),
        ("file", "boto3", "s3fs", "s3torchconnector", "download"),
        ("torch", "PIL", "numpy"),
        differs="shuffles all of the data set",
    ),
    "wids": Reader(("webdataset",), ("file", "download"), ("wids", "torch", "PIL", "numpy")),
    "raw": Reader(
        ("folder", "webdataset"),
        ("file", "download"),
        ("PIL", "numpy"),
        differs="Python alone; shuffles all of the data set",
    ),
}
"""The readers; of those of a format, the first that is installed is its natural one."""


@dataclass(frozen=True, eq=False)
class DataSet:
    """A data set to read."""

    name: str  # as it was given
    format: str  # the name of its format; `folder` for image files in directories
    files: Sequence[str]  # its shards, or its images
    size: int  # bytes of these
    samples: int | None = None  # how many it has, if something beside it says so

    @property
    def is_remote(self) -> bool:
        """Whether it is on S3."""
        return is_s3(self.name)


class Cell(NamedTuple):
    """A combination to measure."""

    data: DataSet
    reader: str
    access: str  # one of the names, or `cmd:` and a command
    workers: int

    def named(self, access: str) -> str:
        """Return how people call it."""
        workers = format_count(self.workers, "worker")
        return f"{self.data.name} with {self.reader} by {access}, {workers}"


def read_data(path: str) -> DataSet:
    """Return the data set that a user named."""
    with source_errors(path):
        if shards := find_shards(path):
            counts = [shards.samples.get(file) for file in shards.files]
            known = [count for count in counts if count is not None]
            samples = sum(known) if len(known) == len(counts) else None
            return DataSet(path, shards.layout.name, shards.files, _size(shards.files), samples)
        if not is_dir(path):
            raise SourceError(f"{path}: no such directory, and no shards of a known format")
        names = sorted(entry.path for entry in entries(path) if entry.name.endswith(".parquet"))
        if names:
            return DataSet(path, "parquet", names, _size(names))
        if not holds_images(path, depth=2):
            raise SourceError(f"{path}: has neither shards of a known format nor images")
        files, size = list[str](), 0
        for scanned in scan_below(path, None):
            files += [os.path.join(path, name) for name in scanned.paths.split("\0") if name]
            size += sum(scanned.sizes)
    return DataSet(path, "folder", sorted(files), size, len(files))


def _size(paths: Sequence[str]) -> int:
    calls = ((0, partial(facts, path)) for path in paths)  # several at once on S3
    return sum(found.size for found in results(paths[0], calls))


def loop_of(reader: str) -> Path:
    """Return the file of the loop that a reader runs in."""
    package = Path(__file__).parents[1]
    installed = package / "loops"
    place = installed if installed.is_dir() else package.parent / "examples" / "loops"
    return place / f"{reader}_loop.py"


def read_loop(reader: str) -> str:
    """Return the code of the loop that a reader runs in."""
    if reader not in READERS:
        raise OptionError(f"--reader {reader}: choose of {', '.join(READERS)}")
    return read_whole(loop_of(reader)).decode()


def readers_of(data: Sequence[DataSet]) -> list[str]:
    """Return the natural readers of data sets."""
    return list(dict.fromkeys(reader for one in data for reader in _natural(one)))


def parse_access(values: Sequence[str]) -> list[str]:
    """Read ``--access``: names separated by commas, or ``cmd:`` and a command."""
    found = []
    for value in values:
        found += [value] if value.startswith("cmd:") else value.split(",")
    for each in found:
        if each.startswith("cmd:"):
            if "{url}" not in each:
                raise OptionError(f"--access {quoted(each)}: say where the address goes: {{url}}")
        elif each not in {"file", *REMOTE} - {"cmd"}:
            names = ", ".join(["file", *REMOTE[:-1], "'cmd:COMMAND {url}'"])
            raise OptionError(f"--access {each}: choose of {names}")
    return list(dict.fromkeys(found))


def cells_of(
    data: Sequence[DataSet], readers: Sequence[str], access: Sequence[str], workers: Sequence[int]
) -> tuple[list[Cell], list[str]]:
    """Return the combinations to measure, and why others are left out.

    Without names of readers or ways, each format has its natural reader, and each reader its way.

    Raises:
        OptionError: If nothing remains, or nothing of a reader or a way that the user named.
    """
    for name in readers:
        if name not in READERS:
            raise OptionError(f"--reader {name}: choose of {', '.join(READERS)}")
    cells, refused = [], list[str]()
    for one in data:
        for reader in readers or _natural(one):
            if one.format not in READERS[reader].formats:
                refused.append(
                    f"{reader} does not read {one.format} ({one.name}), "
                    f"but {' and '.join(READERS[reader].formats)}"
                )
                continue
            for way, count in product(access or _natural_access(reader, one), workers):
                cell = Cell(one, reader, way, count)
                if why := why_not(cell):
                    refused.append(why)
                else:
                    cells.append(cell)
    refused = list(dict.fromkeys(refused))
    used = {cell.reader for cell in cells} | {cell.access for cell in cells}
    if not cells or not {*readers, *access} <= used:
        raise OptionError("; ".join(refused))
    return cells, refused


def why_not(cell: Cell) -> str:
    """Return why a combination cannot be measured; nothing if it can."""
    reader, way = READERS[cell.reader], cell.access.partition(":")[0]
    name = f"{cell.reader} x {way}"
    if way not in reader.access:
        return f"{name}: not a valid pair; {cell.reader} reads by {', '.join(reader.access)}"
    if way not in (REMOTE if cell.data.is_remote else IN_PLACE):
        where = "is on S3" if cell.data.is_remote else "is on a disk"
        return f"{name}: {cell.data.name} {where}"
    needed = [*reader.needs, *filter(None, [_CONNECTIONS.get(way)])]
    needed += reader.workers_need if cell.workers else ()
    if missing := [each for each in needed if not is_installed(each)]:
        workers = f" with {format_count(cell.workers, 'worker')}" if cell.workers else ""
        return f"{name}{workers}: not installed: {', '.join(missing)}"
    return ""


def is_installed(module: str) -> bool:
    """Return whether a module can be imported."""
    return find_spec(module) is not None


def _natural(data: DataSet) -> list[str]:
    """Return the natural reader of a format."""
    found = [name for name, reader in READERS.items() if data.format in reader.formats]
    if not found:
        raise OptionError(
            f"{data.name}: no reader of bench reads {data.format}; convert it, such as to "
            "webdataset"
        )
    installed = [name for name in found if all(map(is_installed, READERS[name].needs))]
    return (installed or found)[:1]


def _natural_access(reader: str, data: DataSet) -> list[str]:
    if not data.is_remote:
        return ["file"]
    ways = [way for way in REMOTE if way in READERS[reader].access]
    installed = [way for way in ways if is_installed(_CONNECTIONS.get(way, "boto3"))]
    return installed[:1]


def shard_notes(cells: Sequence[Cell]) -> Iterator[str]:
    """Say where workers get no shard, or some more than others, and what to do."""
    seen = set()
    for cell in cells:
        shards, readers = len(cell.data.files), cell.workers
        whole = {"folder"} | ({"webdataset"} if cell.reader in ("wids", "raw") else set())
        if cell.data.format in whole or readers < 2 or not shards % readers:
            continue
        if (cell.data.name, readers) in seen:
            continue
        seen.add((cell.data.name, readers))
        idle = readers - shards
        what = f"{idle} get nothing" if idle > 1 else "1 gets nothing"
        if idle < 0:
            more = shards % readers
            what = f"{more} read{'s' if more == 1 else ''} a shard more than the others"
        yield (
            f"{cell.data.name}: {format_count(shards, 'shard')} for {readers} readers: {what}; "
            f"dsprep shard {quote(cell.data.name)} DEST --multiple-of {readers}"
        )
