"""``manifest.json``: what a data set on disk consists of; written last, when all is there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dsprep.errors import SourceError

VERSION = 1


@dataclass(frozen=True)
class FileReceipt:
    """A file as it was written.

    Attributes:
        name: Its name in the directory of the manifest.
        bytes: Its size.
        crc32c: Of its bytes.
    """

    name: str
    bytes: int
    crc32c: int


@dataclass(frozen=True)
class ShardReceipt(FileReceipt):
    """A shard as it was written.

    Attributes:
        samples: How many samples it holds.
        sidecars: The files that belong to it.
    """

    samples: int
    sidecars: tuple[FileReceipt, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """A data set on disk. Nothing in it tells when, where or by whom it was made.

    Attributes:
        format: The format's name.
        name: What shard names begin with.
        classes: The class names, the class number being a position; None if there are none.
        samples: How many there are in all shards.
        rejected: How many of the source's samples are not in them.
        bytes: The size of all shards.
        source: The SHA-256 of the source's catalog, in the order in which it was packed.
        options: Those that the bytes depend on.
        shards: In order.
        files: The others: classes, indexes, reports.
    """

    format: str
    name: str
    classes: tuple[str, ...] | None
    samples: int
    rejected: int
    bytes: int
    source: str
    options: Mapping[str, Any]
    shards: Sequence[ShardReceipt]
    files: Sequence[FileReceipt] = field(default=())

    def every_file(self) -> Iterable[FileReceipt]:
        """Shards, sidecars and the others, but not the manifest itself."""
        for shard in self.shards:
            yield shard
            yield from shard.sidecars
        yield from self.files

    def to_json(self) -> str:
        """The text of ``manifest.json``."""
        values = {"dsprep_manifest": VERSION, **asdict(self)}
        values["shards"] = [_with_hex(asdict(shard)) for shard in self.shards]
        values["files"] = [_with_hex(asdict(file)) for file in self.files]
        return json.dumps(values, indent=1, ensure_ascii=False) + "\n"


def _with_hex(values: dict[str, Any]) -> dict[str, Any]:
    values["crc32c"] = f"{values['crc32c']:08x}"
    if "sidecars" in values:
        values["sidecars"] = [_with_hex(each) for each in values["sidecars"]]
    return values


def read_manifest(path: Path) -> Manifest:
    """Read a manifest, which may come from anywhere.

    Raises:
        SourceError: If it is not a manifest that this version reads, or names a file outside its
            directory.
    """
    try:
        values = json.loads(path.read_bytes())
        version = values.pop("dsprep_manifest")
        if version != VERSION:
            raise SourceError(f"{path}: version {version}; this dsprep reads version {VERSION}")
        values["classes"] = (
            None if values["classes"] is None else tuple(map(str, values["classes"]))
        )
        values["shards"] = [_shard(each) for each in values["shards"]]
        values["files"] = [_file(each) for each in values["files"]]
        manifest = Manifest(**values)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(f"{path}: is not a manifest that dsprep wrote ({error})") from None
    for file in manifest.every_file():
        if file.name in ("", ".", "..") or "/" in file.name:
            raise SourceError(f"{path}: names a file outside its directory: {file.name!r}")
    return manifest


def _file(values: dict[str, Any]) -> FileReceipt:
    return FileReceipt(str(values["name"]), int(values["bytes"]), int(values["crc32c"], 16))


def _shard(values: dict[str, Any]) -> ShardReceipt:
    sidecars = tuple(_file(each) for each in values["sidecars"])
    file = _file(values)
    return ShardReceipt(file.name, file.bytes, file.crc32c, int(values["samples"]), sidecars)
