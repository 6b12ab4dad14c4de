"""What can be measured: the data sets, the readers, and how each reader gets at the data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from shlex import quote
from typing import Any

from dsprep.benching.images import keywords_of, keywords_of_table
from dsprep.errors import OptionError, SourceError, source_errors
from dsprep.extras import pip_install
from dsprep.formats.listed_shards import read_index
from dsprep.frozen import Frozen
from dsprep.places.names import holds_images
from dsprep.places.scan import scan_below
from dsprep.sources.shards.shardset import find_shards
from dsprep.storage.files import entries, facts, is_dir, results, takes_requests
from dsprep.storage.local import read_whole
from dsprep.storage.store import store_of
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, quoted

IN_PLACE = ("file", "fifo", "cmd")  # how local data is read
REMOTE = ("boto3", "s3fs", "s3torchconnector", "download", "fifo", "cmd")  # how S3 is, best first
_PACKAGES = {"boto3", "s3fs", "s3torchconnector"}  # ways that are packages


class BenchReader(NamedTuple):
    """A library that feeds training loops, or Python alone; of names, several are in a text."""

    formats: str  # what it reads; `folder` is image files in directories
    access: str  # how it gets at the data
    needs: str  # the packages that it needs, by the names of their modules
    workers_need: str = ""  # packages that the reader needs for workers
    differs: str = ""  # what it does that others do not
    # says why it does not read a data set of its formats; nothing if it does
    refuses: Callable[[BenchData], str] = lambda data: ""


def _several_directories(data: BenchData) -> str:
    """Say why a reader cannot take shards that lie in several directories, each with an index."""
    first, *others = dict.fromkeys(map(os.path.dirname, data.files))
    return f"reads the shards of one directory, such as {first}" if others else ""


def _unread_by_litdata(data: BenchData) -> str:
    if data.format == "mds" and not data.files[0].endswith(".zstd"):
        return (
            "reads only MDS that is compressed with zstd: measure what dsprep shard --compression "
            "zstd writes"
        )
    return _several_directories(data)


_THREADS = "workers are threads"
_SHUFFLES = "shuffles the whole data set with --shuffle, not a buffer"
_LOCAL = "file download"
_STREAMS = "file boto3 s3fs download fifo cmd"
_FILES = "file boto3 s3fs s3torchconnector download"

READERS = {
    "webdataset": BenchReader("webdataset", _STREAMS, "webdataset numpy", "torch"),
    "tf": BenchReader("tfrecord", _LOCAL, "tensorflow", "", f"decodes with TensorFlow; {_THREADS}"),
    "mxnet": BenchReader(
        "recordio", _LOCAL, "mxnet", "", f"always decodes, to 224 x 224, with OpenCV; {_THREADS}"
    ),
    "datasets": BenchReader("parquet", "file s3fs download", "datasets numpy", "torch"),
    "torch": BenchReader("folder", _FILES, "torch numpy", "", _SHUFFLES),
    "wids": BenchReader("webdataset", _LOCAL, "wids torch numpy"),
    "mds": BenchReader("mds", _LOCAL, "streaming torch numpy", "", _SHUFFLES, _several_directories),
    "litdata": BenchReader(
        *("litdata mds", _LOCAL, "litdata torch numpy", ""),
        "shuffles the chunks, and the samples in each, with --shuffle",
        _unread_by_litdata,
    ),
    "csv": BenchReader("csv", _LOCAL, "numpy"),
    "protobuf": BenchReader("recordio-protobuf", _LOCAL, "numpy"),
    "raw": BenchReader("folder webdataset", _LOCAL, "numpy", "", _SHUFFLES),
}
"""The readers; of those of a format, the first is its natural one."""


class BenchData(Frozen, eq=False):
    """A data set to read."""

    name: str  # the name that the user gave
    format: str  # the name of its format; `folder` for image files in directories
    files: Sequence[str]  # its shards, or its images
    size: int  # size of the files in bytes
    samples: int | None = None  # how many it has, if something beside it says so
    # what tells a loop where the images are, as keywords of its `main`
    keywords: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_remote(self) -> bool:
        """Whether it is read over a network."""
        return takes_requests(self.name)

    @property
    def is_packed(self) -> bool:
        """Whether readers have to unpack whole files on a disk."""
        return self.files[0].endswith((".mds.gz", ".mds.zstd", ".zstd.bin"))


class Cell(NamedTuple):
    """A combination to measure."""

    data: BenchData
    reader: str
    access: str  # one of the names, or `cmd:` and a command
    workers: int

    @property
    def pair(self) -> str:
        """The reader and the way, in words."""
        return f"{self.reader} x {self.access.partition(':')[0]}"

    def named(self, access: str) -> str:
        """Return how people call it."""
        workers = format_count(self.workers, "worker")
        return f"{self.data.name} with {self.reader} by {access}, {workers}"


def read_data(path: str) -> BenchData:
    """Return the data set that a user named."""
    with source_errors(path):
        if rows := _rows_of_litdata(path):
            return rows
        if shards := find_shards(path):
            counts = [shards.samples.get(file) for file in shards.files]
            known = [count for count in counts if count is not None]
            samples = sum(known) if len(known) == len(counts) else None
            keywords, size = keywords_of(shards), _size(shards.files)
            return BenchData(path, shards.layout.name, shards.files, size, samples, keywords)
        if not is_dir(path):
            raise SourceError(f"{path}: no such directory, and no shards of a known format")
        names = sorted(entry.path for entry in entries(path) if entry.name.endswith(".parquet"))
        if names:
            keywords = keywords_of_table(path, names[0])
            return BenchData(path, "parquet", names, _size(names), keywords=keywords)
        if not holds_images(path, depth=2):
            raise SourceError(f"{path}: has neither shards of a known format nor images")
        files, size = list[str](), 0
        for scanned in scan_below(path, None):
            files += [os.path.join(path, name) for name in scanned.paths.split("\0") if name]
            size += sum(scanned.sizes)
    return BenchData(path, "folder", sorted(files), size, len(files))


def _rows_of_litdata(path: str) -> BenchData | None:
    """Return chunks of litdata that hold rows of Arrow; None for anything else."""
    index = read_index(path)
    if index is None or index.format != "arrow":
        return None
    files = [shard.path for shard in index.shards]
    keywords = keywords_of_table(path, path, "arrow")
    samples = sum(shard.samples for shard in index.shards)
    return BenchData(path, "litdata", files, _size(files), samples, keywords)


def _size(paths: Sequence[str]) -> int:
    return sum(found.size for found in results(paths[0], facts, paths))


def loop_of(reader: str, access: str) -> Path:
    """Return the file of the loop that a reader runs in; some ways have one of their own."""
    package = Path(__file__).parents[1]
    installed = package / "loops"
    place = installed if installed.is_dir() else package.parent / "examples" / "loops"
    special = place / f"{reader}_{access}_loop.py"
    return special if access in _PACKAGES and special.is_file() else place / f"{reader}_loop.py"


def read_loops(names: Sequence[str], readers: Sequence[str], access: Sequence[str]) -> list[str]:
    """Return the code of the loops that data sets are read in."""
    _require_known(readers)
    ways = parse_access(access)
    paths = [
        loop_of(reader, way)
        for name in names
        for reader in readers or _natural(read_data(name))[-1:]
        for way in ways or _natural_access(reader, takes_requests(name))
    ]
    return [read_whole(path).decode() for path in dict.fromkeys(paths)]


def _require_known(readers: Sequence[str]) -> None:
    for name in readers:
        if name not in READERS:
            raise OptionError(f"--reader {name}: choose of {', '.join(READERS)}")


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
    data: Sequence[BenchData], readers: Sequence[str], access: Sequence[str], workers: Sequence[int]
) -> tuple[list[Cell], list[str]]:
    """Return the combinations to measure, and why others are left out.

    Without names of readers or ways, each format has its natural reader, and each reader its way.

    Raises:
        OptionError: If nothing remains, or nothing of a reader or a way that the user named.
    """
    _require_known(readers)
    cells, refused, names, lacking = [], list[str](), dict[str, None](), dict[str, None]()
    for one in data:
        for reader in readers or _natural(one):
            for way, count in product(access or _natural_access(reader, one.is_remote), workers):
                cell = Cell(one, reader, way, count)
                if why := why_not(cell):
                    refused.append(why)
                elif missing := _missing(cell):
                    alone = missing == READERS[reader].workers_need.split()
                    names[f"{cell.pair} with workers" if alone else cell.pair] = None
                    lacking.update(dict.fromkeys(missing))
                else:
                    cells.append(cell)
    refused = list(dict.fromkeys(refused))
    if lacking:
        refused.insert(
            0, f"{', '.join(names)}: not installed: {', '.join(lacking)}; {pip_install(*lacking)}"
        )
    used = {cell.reader for cell in cells} | {cell.access for cell in cells}
    if not cells or not {*readers, *access} <= used:
        raise OptionError("; ".join(refused))
    return cells, refused


def why_not(cell: Cell) -> str:
    """Return why a combination makes no sense; nothing if it does."""
    data, reader, way = cell.data, READERS[cell.reader], cell.access.partition(":")[0]
    if data.format not in reader.formats.split():
        others = reader.formats.replace(" ", " and ")
        return f"{cell.reader} does not read {data.format} ({data.name}), but {others}"
    if refused := reader.refuses(data):
        return f"{data.name}: {cell.reader} {refused}"
    if way not in reader.access.split():
        ways = reader.access.replace(" ", ", ")
        return f"{cell.pair}: not a valid pair; {cell.reader} reads by {ways}"
    if way not in (REMOTE if data.is_remote else IN_PLACE):
        return f"{cell.pair}: {data.name} is on {store_of(data.name)[0].name}"
    return ""


def _missing(cell: Cell) -> list[str]:
    """Return the packages that a combination lacks."""
    reader = READERS[cell.reader]
    needed = [*reader.needs.split(), *({cell.access} & _PACKAGES)]
    needed += reader.workers_need.split() if cell.workers else ()
    return [each for each in needed if not is_installed(each)]


def is_installed(module: str) -> bool:
    """Return whether a module can be imported."""
    return find_spec(module) is not None


def _natural(data: BenchData) -> list[str]:
    """Return the natural reader of a format and, if that is not installed, one that is."""
    found = [name for name, reader in READERS.items() if data.format in reader.formats.split()]
    if not found:
        raise OptionError(
            f"{data.name}: bench has no reader of {data.format}; convert it, such as to webdataset"
        )
    ready = [name for name in found if all(map(is_installed, READERS[name].needs.split()))]
    return list(dict.fromkeys([found[0], *ready[:1]]))


def _natural_access(reader: str, is_remote: bool) -> list[str]:
    if not is_remote:
        return ["file"]
    ways = [way for way in REMOTE if way in READERS[reader].access.split()]
    return [way for way in ways if way not in _PACKAGES or is_installed(way)][:1]


def copy_notes(cells: Sequence[Cell]) -> Iterator[str]:
    """Say which readers copy shards, so that they do not unpack them where they lie."""
    for data, reader in dict.fromkeys((cell.data, cell.reader) for cell in cells):
        if data.is_packed:
            yield f"{data.name}: {reader} unpacks a copy of it in a temporary directory, once a run"


def shard_notes(cells: Sequence[Cell]) -> Iterator[str]:
    """Say where workers get no shard, or some more than others, and what to do."""
    for data, readers in dict.fromkeys(
        (cell.data, cell.workers) for cell in cells if _shares(cell)
    ):
        shards = len(data.files)
        idle, more = readers - shards, shards % readers
        if not more:
            continue
        what = f"{more} read{'s' if more == 1 else ''} a shard more than the others"
        if idle > 0:
            what = f"{idle} get{'s' if idle == 1 else ''} nothing"
        yield (
            f"{data.name}: {format_count(shards, 'shard')} for {readers} readers: {what}; "
            f"dsprep shard {quote(data.name)} DEST --multiple-of {readers}"
        )


def _shares(cell: Cell) -> bool:
    """Return whether several workers share whole shards, and not samples."""
    alone = ("wids", "raw", "mds", "litdata")
    return cell.workers > 1 and cell.data.format != "folder" and cell.reader not in alone
