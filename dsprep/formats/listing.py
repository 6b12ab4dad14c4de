"""The listing of a folder: a line for each sample that it holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import TypeAlias

from dsprep.errors import SourceError
from dsprep.patterns import pattern
from dsprep.storage.files import open_file
from dsprep.tuples import NamedTuple

# What `datasets` takes for the name of a side of a split (its data_files.py).
SIDE = pattern(
    r"(?:^|[-._ 0-9])(train|training|validation|valid|dev|val|test|testing|eval|evaluation)"
    r"(?:[-._ 0-9]|$)"
)
LISTING = "files.jsonl"  # in the directory of a unit, where all other files have numbers for names
_ENCODER = json.JSONEncoder(ensure_ascii=False)
_READ_AT_ONCE = 1 << 20  # size of the read buffer, in bytes
_LONGEST_LINE = 1 << 24  # bytes of a line of a listing that are read; dsprep's are far shorter


class File(NamedTuple):
    """A file of a folder."""

    path: str  # below the folder
    bytes: int  # its size
    crc32c: int  # checksum of the file's bytes


class Listed(NamedTuple):
    """A sample as a listing has it, on one line of JSON."""

    id: int
    key: str  # its key where it comes from
    label: int | tuple[float, ...] | None  # A class number or several numbers; None if it has none
    class_name: str | None  # the name of its class; None if it has none
    stem: str  # what the paths of all its files begin with
    files: tuple[File, ...]  # its files, the image first
    wanted: str | None  # the name that it should have had, where that could not be; or None
    fields: str = ""  # what its metadata says besides, as the inside of an object of JSON
    # the fields that are further images, and how their paths end
    references: tuple[tuple[str, str], ...] = ()
    side: str = ""  # the side of the sample, if its key does not show it

    @property
    def size(self) -> int:
        """The bytes of its files; without any, that of the values that it has instead."""
        return sum(file.bytes for file in self.files) if self.files else len(self.fields.encode())

    @property
    def own_side(self) -> str:
        """The side that it is told to be, or that a directory in its key is called like."""
        return self.side or side_directory(self.key).rstrip("/").rpartition("/")[2]

    def to_json(self) -> bytes:
        """Return the line, its line break included."""
        values = {
            "id": self.id,
            "key": self.key,
            "label": self.label,
            "class": self.class_name,
            "stem": self.stem,
            "files": [{"path": f.path, "bytes": f.bytes, "crc32c": f.crc32c} for f in self.files],
            "wanted": self.wanted,
            "fields": self.fields or None,
            "references": dict(self.references) or None,
            "side": self.side or None,
        }
        present = {name: value for name, value in values.items() if value is not None}
        # What is no Unicode in a key becomes the escape that JSON has for it.
        return _ENCODER.encode(present).encode("utf-8", "backslashreplace") + b"\n"

    @classmethod
    def from_json(cls, line: bytes) -> Listed:
        try:
            values = json.loads(line.decode())
            label = values.get("label")
            files = tuple(File(**file) for file in values["files"])
            for file in files:
                if [type(value) for value in file] != [str, int, int]:
                    raise ValueError(f"{file!r:.100} tells no file")
            return cls(
                values["id"],
                values["key"],
                tuple(label) if isinstance(label, list) else label,
                values.get("class"),
                values["stem"],
                files,
                values.get("wanted"),
                values.get("fields", ""),
                tuple(values.get("references", {}).items()),
                values.get("side", ""),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no line of a listing: {error}") from None


Samples: TypeAlias = Callable[[], Iterable[Listed]]
"""Reads the samples of a tree, again and again."""


def read_listing(listing: Path | str) -> Iterator[Listed]:
    """Read a listing, which may lie in a store, line by line."""
    with BufferedReader(open_file(str(listing)), _READ_AT_ONCE) as file:
        while line := file.readline(_LONGEST_LINE):
            yield Listed.from_json(line)


def taken_error(sample: str, path: str, holder: str = "") -> SourceError:
    """Return the error for a sample whose file has the path of another one's, or of a directory.

    ``holder`` is the key of the other sample, if it is known.
    """
    other = f"the sample {holder}" if holder else "another sample"
    return SourceError(
        f"{sample}: {other} has the file {path} already, and a folder holds one of a name; rename "
        "one of them, or give --key index to name files by number"
    )


def side_directory(path: str) -> str:
    """Return the directory in a path that is called like a side, with a slash; empty if none is."""
    parts = path.split("/")[:-1]
    depth = next((depth for depth, part in enumerate(parts, 1) if SIDE.search(part)), 0)
    return "".join(f"{part}/" for part in parts[:depth])
