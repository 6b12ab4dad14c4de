"""The listing of a folder that was written: a line of JSON for each sample, with its files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dsprep.storage.local import open_regular

LISTING = "files.jsonl"
"""The listing in the directory of a unit; all other files there have numbers for names."""

_ENCODER = json.JSONEncoder(ensure_ascii=False)


class File(NamedTuple):
    """A file of a folder."""

    path: str  # below the folder
    bytes: int  # its size
    crc32c: int  # of its bytes


class Listed(NamedTuple):
    """A sample as a listing has it, on one line of JSON."""

    id: int  # its id
    key: str  # its key where it comes from
    label: int | tuple[float, ...] | None  # A class number or several numbers; None if it has none
    class_name: str | None  # the name of its class; None if it has none
    stem: str  # what the paths of all its files begin with
    files: tuple[File, ...]  # its files, the image first
    wanted: str | None  # the name that it should have had, where that could not be; or None
    fields: str = ""  # what its metadata says besides, as the inside of an object of JSON
    # the fields that are further images, and how their paths end
    references: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> bytes:
        """The line, its line break included."""
        values = {
            "id": self.id,
            "key": self.key,
            "label": self.label,
            "class": self.class_name,
            "stem": self.stem,
            "files": [each._asdict() for each in self.files],
            "wanted": self.wanted,
            "fields": self.fields or None,
            "references": dict(self.references) or None,
        }
        told = {name: value for name, value in values.items() if value is not None}
        # What is no Unicode in a key becomes the escape that JSON has for it.
        return _ENCODER.encode(told).encode("utf-8", "backslashreplace") + b"\n"

    @classmethod
    def from_json(cls, line: bytes) -> Listed:
        """Read a line."""
        try:
            values = json.loads(line.decode())
            label = values.get("label")
            return cls(
                values["id"],
                values["key"],
                tuple(label) if isinstance(label, list) else label,
                values.get("class"),
                values["stem"],
                tuple(File(**each) for each in values["files"]),
                values.get("wanted"),
                values.get("fields", ""),
                tuple(values.get("references", {}).items()),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no line of a listing: {error}") from None


_LONGEST_LINE = 1 << 24
"""Bytes; what dsprep writes for a sample is far shorter."""


def read_listing(listing: Path) -> Iterator[Listed]:
    """Read a listing line by line."""
    with open(listing, "rb", opener=open_regular) as file:
        while line := file.readline(_LONGEST_LINE):
            yield Listed.from_json(line)
