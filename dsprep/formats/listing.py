"""The listing of a folder that was written: a line of JSON for each sample, with its files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dsprep.stores.local import open_regular

LISTING = "files.jsonl"
"""The listing in the directory of a unit; all other files there have numbers for names."""

_ENCODER = json.JSONEncoder(ensure_ascii=False)


class File(NamedTuple):
    """A file of a folder.

    Attributes:
        path: Below the folder.
        bytes: Its size.
        crc32c: Of its bytes.
    """

    path: str
    bytes: int
    crc32c: int


class Listed(NamedTuple):
    """A sample as a listing has it, on one line of JSON.

    Attributes:
        id: Its id.
        key: Its key where it comes from.
        label: A class number or several numbers; None if it has none.
        class_name: The name of its class; None if it has none.
        stem: What the paths of all its files begin with.
        files: Its files, the image first.
        wanted: The name that it should have had, where that could not be; or None.
        fields: What its metadata says besides, as the inside of an object of JSON.
        references: The fields that are further images, and how their paths end.
    """

    id: int
    key: str
    label: int | tuple[float, ...] | None
    class_name: str | None
    stem: str
    files: tuple[File, ...]
    wanted: str | None
    fields: str = ""
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
        """Read a line.

        Raises:
            ValueError: If it is none.
        """
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
    """Read a listing line by line.

    Raises:
        ValueError: If a line is none of a listing.
    """
    with open(listing, "rb", opener=open_regular) as file:
        while line := file.readline(_LONGEST_LINE):
            yield Listed.from_json(line)
