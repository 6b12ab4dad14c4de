"""``manifest.json``: what a data set on disk consists of, and how it was made; written last."""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dsprep.dataset.names import MANIFEST
from dsprep.errors import OptionError, OtherVersion, SourceError, source_errors
from dsprep.findings import Reject
from dsprep.formats import FORMATS, divides
from dsprep.frozen import Frozen
from dsprep.images.header import DEFAULT_MAX_PIXELS
from dsprep.patterns import pattern
from dsprep.schema import Choice, Schema
from dsprep.storage.files import open_file, read_bytes
from dsprep.storage.local import LONGEST_NAME, SCRATCH
from dsprep.storage.stored import crc32c as extend

if TYPE_CHECKING:
    from dsprep.dataset.copies import Copies
    from dsprep.formats.base import Format
    from dsprep.images.augment import Augment
    from dsprep.images.transform import Transform

VERSION = 2

NUMBERS = pattern(r"[-_.]*(\d+-of-\d+|\d*)$")  # what the names of shards end in
_SAFE = pattern(r"\w[^/\0]{0,199}")
_CRC32C = pattern("[0-9a-f]{8}")

# The types of values, as users know them.
_JSON: dict[type, str] = {dict: "a JSON object", list: "a list", str: "a text"}
_JSON |= {int: "a whole number", bool: "true or false"}

T = TypeVar("T")

_MOST = (1 << 63) - 1  # largest count in a manifest: larger ones fit no file and no 64-bit column
_MOST_PER_BYTE = 1 << 16  # samples, of a compressed file: rows of Parquet may all be the same


class FileEntry(Frozen):
    """The entry of a file in a manifest: its name, size and checksum."""

    # its path below the directory of the manifest: a name, or one in a directory of shards alone
    name: str
    bytes: int  # its size
    crc32c: int  # checksum of the file's bytes

    @staticmethod
    def of(path: Path | str, name: str | None = None) -> FileEntry:
        """Return the receipt of a file that exists, of any size; it may have another name there."""
        crc = size = 0
        with open_file(str(path)) as file:
            while block := file.read(1 << 20):
                crc = extend(block, crc)
                size += len(block)
        return FileEntry(os.path.basename(path) if name is None else name, size, crc)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "bytes": self.bytes, "crc32c": f"{self.crc32c:08x}"}

    @classmethod
    def from_json(cls, values: Any) -> FileEntry:
        crc32c = _get(str, values, "crc32c")
        if not _CRC32C.fullmatch(crc32c):
            raise ValueError(f"crc32c {crc32c!r:.100} is not 8 hexadecimal digits")
        name = _get(str, values, "name")
        size = _get_count(values, "bytes")
        data = name.encode("utf-8", "replace")  # lone surrogates become question marks
        parts = name.split("/")
        leads_out = len(parts) > 2 or "\0" in name or not {"", ".", ".."}.isdisjoint(parts)
        is_long = any(len(part.encode("utf-8", "replace")) > LONGEST_NAME for part in parts)
        if leads_out or data.decode() != name or is_long:
            raise ValueError(f"{name!r:.100} names no file in its directory")
        return FileEntry(name, size, int(crc32c, 16))


class ShardEntry(FileEntry):
    """The entry of a shard in a manifest."""

    samples: int  # how many samples it holds
    sidecars: tuple[FileEntry, ...] = ()  # the files that belong to it
    raw: int = 0  # its bytes before it was compressed, if an index needs these; 0 otherwise

    def to_json(self) -> dict[str, Any]:
        sidecars = [file.to_json() for file in self.sidecars]
        values = {**super().to_json(), "samples": self.samples, "sidecars": sidecars}
        return values | ({"raw_bytes": self.raw} if self.raw else {})

    @classmethod
    def from_json(cls, values: Any) -> ShardEntry:
        file = FileEntry.from_json(values)
        sidecars = tuple(_each(FileEntry.from_json, values, "sidecars"))
        samples = _get_count(values, "samples")
        raw = _get_count(values, "raw_bytes") if "raw_bytes" in values else 0
        return cls(file.name, file.bytes, file.crc32c, samples, sidecars, raw)


class Manifest(Frozen):
    """A data set on disk, without a record of when, where or by whom it was made."""

    format: str  # the format's name
    name: str  # the prefix of shard file names
    # the class names, the class number being a position; None if there are none
    classes: tuple[str, ...] | None
    samples: int  # how many there are in all shards
    rejected: int  # how many samples of the source are in no shard
    bytes: int  # the size of all shards
    # the SHA-256 of the source's catalog, in the order in which it was packed; empty for shards
    # that another program wrote
    source: str
    options: Mapping[str, Any]  # the options that the bytes of shards depend on
    shards: Sequence[ShardEntry]  # in order
    files: Sequence[FileEntry] = field(default=())  # the others: classes, indexes, reports
    schema: Schema | None = None  # the fields of the samples; None if nothing tells them
    # whether every sample was checked against the schema; if not, it was observed in some of them
    enforced: bool = False
    # how many objects there are, and how many samples have any; None if they were not counted
    objects: tuple[int, int] | None = None
    # the options that say what the inside of the source is, by table and key, as a layout has them;
    # of a file outside of the source, its crc32c; empty if several sources were read
    layout: Mapping[str, Any] = field(default_factory=dict)

    @property
    def directory(self) -> str | None:
        """The directory, beside the manifest, that holds the shards alone; None without one."""
        if self.is_divided:
            return None
        return next((os.path.dirname(shard.name) or None for shard in self.shards), None)

    def every_file(self) -> Iterable[FileEntry]:
        """Return shards, sidecars and the others, but not the manifest itself."""
        for shard in self.shards:
            yield shard
            yield from shard.sidecars
        yield from self.files

    def names(self) -> set[str]:
        return {file.name for file in self.every_file()}

    @cached_property
    def sides(self) -> Mapping[str, str]:
        """The side of each shard, by its name; empty if there are no sides."""
        counts = self.options.get("sides")
        if not isinstance(counts, dict) or set(map(type, counts.values())) - {int}:
            return {}
        sides = [side for side in counts for _ in self.shards[: counts[side]]]
        names = [shard.name for shard in self.shards]
        return dict(zip(names, sides, strict=True)) if len(sides) == len(names) else {}

    @property
    def is_divided(self) -> bool:
        """Whether the shards of each side lie in a directory of its name, beside the manifest."""
        return bool(self.sides) and divides(self.format) and not self.options.get("single_file")

    def sides_of(self, files: Iterable[str]) -> dict[str, str]:
        """Return the side of each of some shards, by their paths."""
        sides = {os.path.basename(name): side for name, side in self.sides.items()}
        return {path: sides.get(os.path.basename(path), "") for path in files}

    @property
    def digest(self) -> str:
        """The SHA-256 of what :meth:`to_json` returns."""
        from hashlib import sha256  # slow to load

        return sha256(self.to_json().encode()).hexdigest()

    @cached_property
    def added(self) -> Sequence[Mapping[str, Any]]:
        """What ``shard append`` and ``join`` recorded of shards that they added, in order."""
        added = self.options.get("appended")
        found = (
            each
            for each in (added if isinstance(added, list) else ())
            if isinstance(each, dict) and isinstance(each.get("first_shard"), int)
        )
        return sorted(found, key=lambda each: each["first_shard"])

    @cached_property
    def parts(self) -> Mapping[str, int]:
        """What wrote each shard: 0 for the first command, then the number of an addition."""
        firsts = [each["first_shard"] for each in self.added]
        return {shard.name: bisect_right(firsts, at) for at, shard in enumerate(self.shards)}

    def to_json(self) -> str:
        values = {
            "dsprep_manifest": VERSION,
            "format": self.format,
            "name": self.name,
            "classes": self.classes,
            "samples": self.samples,
            "rejected": self.rejected,
            "bytes": self.bytes,
            "source": self.source,
            "options": self.options,
            "shards": [shard.to_json() for shard in self.shards],
            "files": [file.to_json() for file in self.files],
            "schema": self.schema and self.schema.to_json(),
            "enforced": self.enforced,
        }
        if self.objects is not None:
            values["objects"] = {"objects": self.objects[0], "samples": self.objects[1]}
        if self.layout:
            values["layout"] = self.layout
        return json.dumps(values, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, values: Any) -> Manifest:
        """Read the values of a manifest; raises ValueError if they are not those of one."""
        classes = None if values.get("classes", ...) is None else _get(list, values, "classes")
        objects = values.get("objects")
        manifest = cls(
            format=_get(str, values, "format"),
            name=_get(str, values, "name"),
            classes=None if classes is None else tuple(_is(str, x, "a class") for x in classes),
            samples=_get_count(values, "samples"),
            rejected=_get_count(values, "rejected"),
            bytes=_get_count(values, "bytes"),
            source=_get(str, values, "source"),
            options=_get(dict, values, "options"),
            shards=_each(ShardEntry.from_json, values, "shards"),
            files=_each(FileEntry.from_json, values, "files"),
            schema=None if values.get("schema") is None else Schema.from_json(values["schema"]),
            enforced=_get(bool, values, "enforced"),
            objects=None
            if objects is None
            else (_get_count(objects, "objects"), _get_count(objects, "samples")),
            layout=_get(dict, values, "layout") if "layout" in values else {},
        )
        directories = {os.path.dirname(shard.name) for shard in manifest.shards}
        others = {os.path.dirname(name) for name in manifest.names()} - {"", *directories}
        if manifest.is_divided:
            own = {shard.name: os.path.dirname(shard.name) for shard in manifest.shards}
            is_spread = own != manifest.sides
        else:
            is_spread = len(directories) > 1
        if is_spread or others:
            raise ValueError("its files lie in several directories")
        counts = Counter(file.name for file in manifest.every_file())
        for name, count in counts.most_common(1):
            if count > 1:
                raise ValueError(f"it names the file {name!r:.100} {count} times")
        return manifest


def common_name(names: Collection[str]) -> str:
    """Return the prefix of all of some names, without the numbers that they end in."""
    name = os.path.commonprefix(sorted(names))
    name = name if len(names) == 1 else NUMBERS.sub("", name)
    return name if _SAFE.fullmatch(name) and name != "manifest" else "shards"


def single_of(manifest: str) -> str | None:
    """Return the single file that a manifest is named after; None if it is of a directory."""
    return manifest.removesuffix(MANIFEST).removesuffix(".") or None


def scratch_of(own_name: str | None) -> str:
    """Return the name of the directory for the state of an unfinished run."""
    # That of a data set whose companions are named after its file, or its directory, is as well.
    return f".{own_name}{SCRATCH}" if own_name else SCRATCH


def read_manifest(path: str | Path) -> Manifest:
    """Read a manifest, which may come from anywhere."""
    with source_errors(path):
        return parse_manifest(read_bytes(str(path)), str(path))


def parse_manifest(data: bytes, name: str) -> Manifest:
    """Read the bytes of a manifest, which may come from anywhere."""
    try:
        try:
            values = json.loads(data)
        except (ValueError, RecursionError):
            raise ValueError("it is not JSON") from None
        if not isinstance(values, dict) or "dsprep_manifest" not in values:
            raise ValueError("it lacks dsprep_manifest")
        if (version := values["dsprep_manifest"]) == VERSION:
            manifest = Manifest.from_json(values)
            if manifest.directory not in (None, single_of(os.path.basename(name))):
                raise ValueError(f"its shards lie in {manifest.directory!r:.100}, not beside it")
            return manifest
    except ValueError as error:
        raise SourceError(f"{name}: is not a manifest that dsprep wrote: {error!s:.200}") from None
    raise OtherVersion(f"{name}: version {version!s:.20}; this dsprep reads version {VERSION}")


def parse_rejects(data: bytes, name: str) -> list[Reject]:
    """Read the bytes of ``rejects.jsonl``, which may come from anywhere."""
    try:
        # Not by splitlines, as paths may hold what that takes for the end of a line.
        lines = data.decode().removesuffix("\n").split("\n")
        entries = map(json.loads, lines)
        rejects = [Reject(_get(str, it, "path"), _get(str, it, "reason")) for it in entries]
        # a lone surrogate would be an error here
        "".join(text for reject in rejects for text in reject).encode()
        return rejects
    except (ValueError, RecursionError):
        raise SourceError(f"{name}: is not the list of rejects that dsprep wrote") from None


class Recorded(Frozen):
    """How shards were made, as far as reading them depends on it."""

    layout: Format  # the format
    transform: Transform | None = None  # what was done to images; None if their bytes were copied
    max_pixels: int = DEFAULT_MAX_PIXELS  # the most pixels that an image could have
    key: str = "path"  # `path` or `index`: where keys came from
    # the fields that do not depend on the geometry of images
    keep_fields: frozenset[str] = frozenset()
    # `--annotation-size` and `--boxes-frame`: which picture of images was annotated
    frame: tuple[str | None, str | None] = (None, None)
    # which fields were kept: `only`, `drop`, `rename`, `cast`; empty if all were
    fields: Choice = Choice()
    # the columns of records and of their times, if only the newest versions were read; then the
    # time after which versions did not count, if there was one
    versions: tuple[str, ...] | None = None
    augment: Augment | None = None  # what was done to copies
    copies: Copies | None = None  # how many there are; None without any
    known: bool = True  # whether the manifest records the layout; if not, it is the likeliest one


def recorded_options(manifest: Manifest, path: str) -> Recorded:
    """Read the options of the manifest at a path, which may come from anywhere."""
    from dsprep.dataset.copies import copies_of
    from dsprep.images.transform import Transform  # sync reads manifests, and no options

    if manifest.format not in FORMATS:
        raise SourceError(
            f"{path}: the format {manifest.format!r:.40} is not one that dsprep knows"
        )
    try:
        options = manifest.options
        if options.get("indexed") is True:
            return Recorded(FORMATS[manifest.format](), known=False)
        fields = options.get("fields", {})
        only, drop = (tuple(map(str, fields.get(name, ()))) for name in ("only", "drop"))
        rename, cast = (dict(fields.get(name, {})) for name in ("rename", "cast"))
        versions = options.get("versions")
        layout = {name: value for name, value in options["format"].items() if name != "name"}
        made = Recorded(
            FORMATS[manifest.format](**layout),
            None if options["transform"] is None else Transform.from_json(options["transform"]),
            int(options["max_pixels"]),
            str(options["key"]),
            frozenset(map(str, options.get("keep_fields", ()))),
            (options.get("annotation_size"), options.get("boxes_frame")),
            Choice(only=only, drop=drop, rename=rename, cast=cast),
            versions and tuple(map(str, versions)),
            *copies_of(options),
        )
        # What was converted to the right type, or left out, is not what was recorded.
        told = json.loads(json.dumps({"name": made.layout.name, **made.layout.options()}))
        _require_possible(manifest, made.layout)
        if (told, made.max_pixels) == (options["format"], options["max_pixels"]):
            return replace(made, layout=replace(made.layout, schema=manifest.schema))
    except SourceError as error:
        raise SourceError(f"{path}: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, OptionError):
        pass
    raise SourceError(f"{path}: its options are not those of this version of dsprep")


def _require_possible(manifest: Manifest, layout: Format) -> None:
    """Refuse shards with more samples than their bytes can hold."""
    # Whoever believes such a number reports each sample that is missing.
    is_plain = layout.in_spans and not layout.compressed
    for shard in manifest.shards:
        most = shard.bytes // layout.least if is_plain else shard.bytes * _MOST_PER_BYTE
        if shard.samples > most:
            raise SourceError(
                f"is not a manifest that dsprep wrote: {shard.name!r:.100} has {shard.bytes:,} "
                f"bytes, which do not hold {shard.samples:,} samples"
            )


def _get(kind: type[T], values: Any, name: str) -> T:
    if name not in _is(dict, values, "an entry"):
        raise ValueError(f"it lacks {name}")
    return _is(kind, values[name], name)


def _each(read: Callable[[Any], T], values: Any, name: str) -> list[T]:
    """Read each entry of a list, and say which one is wrong."""
    found = []
    for at, value in enumerate(_get(list, values, name)):
        try:
            found.append(read(value))
        except ValueError as error:
            raise ValueError(f"{name}[{at}]: {error}") from None
    return found


def _get_count(values: Any, name: str) -> int:
    count = _get(int, values, name)
    if not 0 <= count <= _MOST:
        raise ValueError(f"{name} is not a number from 0 to {_MOST:,}")
    return count


def _is(kind: type[T], value: Any, what: str) -> T:
    if type(value) is not kind:
        raise ValueError(f"{what} is not {_JSON[kind]}")
    return value
