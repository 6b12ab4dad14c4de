"""Where a data set goes, and what its files are called there."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsprep.errors import OptionError
from dsprep.formats import Format, format_of_file
from dsprep.formats.tfrecord import TFRecord
from dsprep.storage.local import scratch_name, stage_for
from dsprep.storage.urls import Location, is_s3, parse_url, require_disk

DEFAULT_NAME = "train"
"""What names of shards begin with, unless the user says it."""

_FOLDERS = ("folder", "manifest")
"""The formats that are a folder of files, with their companions beside it."""

_ADDRESS = re.compile("[a-z][a-z0-9+.-]*://", re.IGNORECASE)

_LONGEST_NAME = 200
"""Bytes that a name may have, so that there is room for numbers in a file name of 255."""


@dataclass(frozen=True)
class Destination:
    """A directory of shards, or one file with its companions.

    A directory holds one data set: shards, ``manifest.json``, ``classes.txt``, … . The companions
    of a single file carry its whole name, ``train.rec.manifest.json``, so that ``val.rec`` and
    ``train.tar`` can stand beside it.

    On S3, the directory is a stage on this machine: what is written there goes to the bucket, and
    then away.
    """

    directory: Path  # where all files are written
    # the name of the one shard, or of the folder; None for numbered shards
    single: str | None = None
    # what is before the names of the files on S3; None if they stay in the directory
    remote: Location | None = None

    def companion(self, name: str) -> Path:
        """The path of ``manifest.json`` and the like."""
        return self.directory / (f"{self.single}.{name}" if self.single else name)

    @property
    def stem(self) -> str:
        """The name of the one shard without what tells its format; empty for numbered shards."""
        told = format_of_file(self.single or "")
        return _stem(self.single, told) if self.single and told else self.single or ""

    @property
    def manifest(self) -> Path:
        """The path of the manifest."""
        return self.companion("manifest.json")

    @property
    def scratch(self) -> Path:
        """The directory for an unfinished run's state; there is none when it is done."""
        return self.directory / scratch_name(self.single or "")

    @property
    def is_gzip(self) -> bool:
        """Whether its name says that the one shard is compressed."""
        return (self.single or "").endswith(".gz")

    def facts(self) -> dict[str, Any]:
        """What decides which options take effect; see :mod:`dsprep.options`."""
        return {
            "single": self.single and str(self),
            "gzip": self.is_gzip,
            "remote": self.remote is not None,
            "stream": False,
            "stdout": False,
        }

    def prefixes_below(self, root: str) -> tuple[str, ...]:
        """What paths of this data set begin with below a directory; nothing, if it is not there."""
        where = os.path.relpath(os.path.realpath(self.directory), os.path.realpath(root))
        if where.split("/")[0] == "..":
            return ()
        below = "" if where == "." else where + "/"
        return (f"{below}{self.stem}.", f"{below}{self.scratch.name}/") if self.stem else (below,)

    def url(self, name: str) -> str:
        """What users call one of the files: its path, or its address on S3."""
        if self.remote is None:
            return str(self.directory / name)
        return f"{self.remote}{name}"

    def __str__(self) -> str:
        """The path, or the address, that the user gave."""
        return self.url(self.single or "")


def require_name(name: str) -> str:
    """Accept what shard names are to begin with."""
    if not name or not name.isprintable() or "/" in name or name.startswith("."):
        raise OptionError(f"--name {name!r}: cannot be the beginning of a file name")
    if name == "manifest":
        raise OptionError("--name manifest: is the name of another file; choose another")
    if len(name.encode()) > _LONGEST_NAME:
        raise OptionError(f"--name {name!r}: is longer than {_LONGEST_NAME} bytes")
    return name


def require_local(path: str) -> None:
    """Refuse an address, rather than take it for a directory called ``https:``."""
    if _ADDRESS.match(path):
        raise OptionError(
            f"{path}: is an address, and dsprep works on files and s3://; copy what is there, or "
            "pipe one shard through dsprep convert - -"
        )


def require_apart(path: str, source: str) -> None:
    """Refuse to write shards among the images that they are made of."""
    if _real_place(path) == _real_place(source):
        raise OptionError(f"{path}: is the source, too; choose another directory for the shards")


def take_sources(sources: str | Sequence[str], dest: str) -> tuple[str, tuple[str, ...]]:
    """The first of the sources that a command reads, and the others."""
    all_of_them = (sources,) if isinstance(sources, str) else tuple(sources)
    if not all(all_of_them) or not all_of_them:
        raise OptionError("the source is empty; name a directory, an archive or shards")
    first, *others = all_of_them
    for each in all_of_them:
        require_apart(dest, each)
    return first, tuple(others)


def _real_place(path: str) -> str:
    """A path or a URL in one spelling."""
    if is_s3(path):
        return str(parse_url(path)).rstrip("/")
    require_local(path)
    return os.path.realpath(path)


def parse_destination(path: str, format_name: str | None) -> tuple[Destination, str]:
    """Tell a single file from a directory, by the end of its name."""
    if not path:
        raise OptionError("the destination is empty")
    if is_s3(path):
        return _parse_remote(path, format_name)
    require_local(path)
    where = Path(path)
    if format_name in _FOLDERS:
        if where.name in ("", ".."):  # a folder has a name, after which its companions are called
            where = Path(os.path.abspath(path))
        return Destination(where.parent, where.name), format_name
    told = None if os.path.isdir(path) else _format_told(path, format_name)
    if told is None:
        return Destination(where), _required(path, format_name)
    return Destination(where.parent, where.name), told.name


def _parse_remote(path: str, format_name: str | None) -> tuple[Destination, str]:
    if format_name in _FOLDERS:
        require_disk(path)
    bucket, key = parse_url(path)
    told = _format_told(key, format_name)
    if told is None:
        remote = Location(bucket, key if not key or key.endswith("/") else key + "/")
        return Destination(stage_for(str(remote)), remote=remote), _required(path, format_name)
    above, slash, name = key.rpartition("/")
    remote, stage = Location(bucket, above + slash), stage_for(str(Location(bucket, key)))
    return Destination(stage, name, remote), told.name


def _format_told(path: str, format_name: str | None) -> type[Format] | None:
    """The format that the name of a file tells; None if it is the name of a directory."""
    told = None if path.endswith("/") else format_of_file(path)
    if told is not None and path.endswith(".gz") and told is not TFRecord:
        raise OptionError(
            f"{path}: only TFRecord shards can be compressed; name it {path.removesuffix('.gz')}"
        )
    if told is not None and format_name not in (None, told.name):
        raise OptionError(
            f"{path}: is a name for {told.name}, but {format_name} is to be written; "
            "choose another name"
        )
    return told


def _required(path: str, format_name: str | None) -> str:
    if format_name is None:
        raise OptionError(f"{path}: its name has no format; give --to FORMAT")
    return format_name


def _stem(name: str, told: type[Format]) -> str:
    """A file's name without what tells its format, if there is anything else."""
    return name.removesuffix(".gz").removesuffix(told.suffix) or name
