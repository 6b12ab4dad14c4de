"""``manifest.json``: what a data set on disk consists of; written last, when all is there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from dsprep.errors import OtherVersion, SourceError
from dsprep.findings import Reject
from dsprep.schema import Schema
from dsprep.storage.crc import crc32c as extend
from dsprep.storage.local import LONGEST_NAME, open_regular, read_whole
from dsprep.storage.paths import read_bytes

VERSION = 2

UNFINISHED = "a run is writing there, or was stopped: wait for it, or give its command again"
"""What to say of a directory that a run keeps its notes in."""

_CRC32C = re.compile("[0-9a-f]{8}")

_JSON = {
    dict: "a JSON object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    bool: "true or false",
}
"""The types of values, as users know them."""

T = TypeVar("T")


@dataclass(frozen=True)
class FileReceipt:
    """A file as it was written."""

    name: str  # its name in the directory of the manifest
    bytes: int  # its size
    crc32c: int  # of its bytes

    @staticmethod
    def of(path: Path) -> FileReceipt:
        """The receipt of a file that is there, of any size."""
        crc = size = 0
        with open(path, "rb", buffering=0, opener=open_regular) as file:
            while block := file.read(1 << 20):
                crc = extend(block, crc)
                size += len(block)
        return FileReceipt(path.name, size, crc)


@dataclass(frozen=True)
class ShardReceipt(FileReceipt):
    """A shard as it was written."""

    samples: int  # how many samples it holds
    sidecars: tuple[FileReceipt, ...] = ()  # the files that belong to it


@dataclass(frozen=True)
class Manifest:
    """A data set on disk. Nothing in it tells when, where or by whom it was made."""

    format: str  # the format's name
    name: str  # what shard names begin with
    # the class names, the class number being a position; None if there are none
    classes: tuple[str, ...] | None
    samples: int  # how many there are in all shards
    rejected: int  # how many of the source's samples are not in them
    bytes: int  # the size of all shards
    # the SHA-256 of the source's catalog, in the order in which it was packed; empty for shards
    # that something else wrote
    source: str
    options: Mapping[str, Any]  # those that the bytes depend on
    shards: Sequence[ShardReceipt]  # in order
    files: Sequence[FileReceipt] = field(default=())  # the others: classes, indexes, reports
    schema: Schema | None = None  # the fields of the samples; None if nothing tells them
    # whether every sample was checked against the schema; if not, it was observed in some of them
    enforced: bool = False

    def every_file(self) -> Iterable[FileReceipt]:
        """Shards, sidecars and the others, but not the manifest itself."""
        for shard in self.shards:
            yield shard
            yield from shard.sidecars
        yield from self.files

    def has_shard(self, name: str) -> bool:
        """Whether a file is one of the shards, rather than one that only has the same stem."""
        return any(shard.name == name for shard in self.shards)

    def to_json(self) -> str:
        """The text of ``manifest.json``."""
        values = {"dsprep_manifest": VERSION, **asdict(self)}
        values["shards"] = [_with_hex(asdict(shard)) for shard in self.shards]
        values["files"] = [_with_hex(asdict(file)) for file in self.files]
        values["schema"] = self.schema and self.schema.to_json()
        return json.dumps(values, indent=1, ensure_ascii=False) + "\n"


def _with_hex(values: dict[str, Any]) -> dict[str, Any]:
    values["crc32c"] = f"{values['crc32c']:08x}"
    if "sidecars" in values:
        values["sidecars"] = [_with_hex(each) for each in values["sidecars"]]
    return values


def read_manifest(path: str | Path) -> Manifest:
    """Read a manifest, which may come from anywhere."""
    try:
        data = read_bytes(str(path))
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from None
    return parse_manifest(data, str(path))


def parse_manifest(data: bytes, name: str) -> Manifest:
    """Read the bytes of a manifest, which may come from anywhere."""
    try:
        version, values = _version(data)
        if version == VERSION:
            return _manifest(values)
    except ValueError as error:
        raise SourceError(f"{name}: is not a manifest that dsprep wrote: {error!s:.200}") from None
    raise OtherVersion(f"{name}: version {version!s:.20}; this dsprep reads version {VERSION}")


def _version(data: bytes) -> tuple[Any, dict[str, Any]]:
    """The version of a manifest, and all that is in it."""
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(values, dict) or "dsprep_manifest" not in values:
        raise ValueError("it lacks dsprep_manifest")
    return values["dsprep_manifest"], values


def read_rejects(path: Path) -> list[Reject]:
    """Read ``rejects.jsonl``, which may come from anywhere, too."""
    try:
        data = read_whole(path)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from None
    return parse_rejects(data, str(path))


def parse_rejects(data: bytes, name: str) -> list[Reject]:
    """Read the bytes of ``rejects.jsonl``, which may come from anywhere."""
    try:
        # Not by splitlines, as paths may hold what that takes for the end of a line.
        lines = data.decode().removesuffix("\n").split("\n")
        entries = [json.loads(line) for line in lines]
        rejects = [
            Reject(_get(str, entry, "path"), _get(str, entry, "reason")) for entry in entries
        ]
        "".join(text for reject in rejects for text in reject).encode()  # no half characters
        return rejects
    except (ValueError, RecursionError):
        raise SourceError(f"{name}: is not the list of rejects that dsprep wrote") from None


def _manifest(values: dict[str, Any]) -> Manifest:
    classes = None if values.get("classes", ...) is None else _get(list, values, "classes")
    return Manifest(
        format=_get(str, values, "format"),
        name=_get(str, values, "name"),
        classes=None if classes is None else tuple(_is(str, each, "a class") for each in classes),
        samples=_get(int, values, "samples"),
        rejected=_get(int, values, "rejected"),
        bytes=_get(int, values, "bytes"),
        source=_get(str, values, "source"),
        options=_get(dict, values, "options"),
        shards=[_shard(each) for each in _get(list, values, "shards")],
        files=[_file(each) for each in _get(list, values, "files")],
        schema=None if values.get("schema") is None else Schema.from_json(values["schema"]),
        enforced=_get(bool, values, "enforced"),
    )


def _file(values: Any) -> FileReceipt:
    crc32c = _get(str, values, "crc32c")
    if not _CRC32C.fullmatch(crc32c):
        raise ValueError(f"crc32c {crc32c!r:.100} is not 8 hexadecimal digits")
    name = _file_name(_get(str, values, "name"))
    return FileReceipt(name, _get(int, values, "bytes"), int(crc32c, 16))


def _shard(values: Any) -> ShardReceipt:
    file = _file(values)
    sidecars = tuple(_file(each) for each in _get(list, values, "sidecars"))
    samples = _get(int, values, "samples")
    return ShardReceipt(file.name, file.bytes, file.crc32c, samples, sidecars)


def _file_name(name: str) -> str:
    """Accept the name of a file that can only lie in the directory of the manifest."""
    data = name.encode("utf-8", "replace")
    has_halves = data.decode() != name  # of characters
    leads_out = name in ("", ".", "..") or "/" in name or "\0" in name
    if has_halves or leads_out or len(data) > LONGEST_NAME:
        raise ValueError(f"{name!r:.100} names no file in its directory")
    return name


def _get(kind: type[T], values: Any, name: str) -> T:
    """A member of a JSON object."""
    if name not in _is(dict, values, "an entry"):
        raise ValueError(f"it lacks {name}")
    return _is(kind, values[name], name)


def _is(kind: type[T], value: Any, what: str) -> T:
    if type(value) is not kind:
        raise ValueError(f"{what} is not {_JSON[kind]}")
    return value
