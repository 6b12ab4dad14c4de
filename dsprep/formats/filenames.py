"""Names from outside made into names of files: none leads elsewhere, and each can be created.

Pure functions on text. What cannot be part of a file's name becomes ``_``.
"""

from __future__ import annotations

import re

from dsprep.errors import BadSample

LONGEST_PART = 255
"""Bytes of a file's or a directory's name, as nearly all file systems have it."""

LONGEST_PATH = 3072
"""Bytes of a path below the folder: with a thousand more for the folder's own, it can be opened
(``PATH_MAX`` is 4096)."""

DEEPEST = 64
"""Directories that may lie in each other."""

_LONGEST_EXTENSION = 16
"""Characters; what follows the last dot of a longer one is part of the name."""

_NO_NAME = re.compile("[\x00\ud800-\udfff]")


def harmless_part(name: str) -> str:
    """Make a text the name of one file or directory.

    Slashes, NULs and what is not Unicode become ``_``, and so do the names that mean another
    directory, and no name at all.
    """
    name = _NO_NAME.sub("_", name.replace("/", "_"))
    return "_" if name in ("", ".", "..") else cut(name, LONGEST_PART)


def harmless_path(path: str) -> str:
    """Make a text a path that leads below the directory that it starts from."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts:
        raise BadSample("has a name that is no file's")
    if len(parts) > DEEPEST:
        raise BadSample(f"has a name of {len(parts)} directories; {DEEPEST} is the limit")
    *directories, name = parts
    name = "_" if name == ".." else _NO_NAME.sub("_", name)
    plain = "/".join([*map(harmless_part, directories), name])
    if len(plain.encode()) > LONGEST_PATH:
        raise BadSample(f"has a name of more than {LONGEST_PATH} bytes")
    return plain


def split_extension(path: str) -> tuple[str, str]:
    """Take a path apart into what comes before its extension, and that with its dot."""
    directory, slash, name = path.rpartition("/")
    stem, dot, extension = name.rpartition(".")
    if not stem or len(extension) > _LONGEST_EXTENSION:
        return path, ""
    return directory + slash + stem, dot + extension


def cut(text: str, size: int) -> str:
    """The first characters of a text that are no more than some bytes of UTF-8."""
    data = text.encode()
    return text if len(data) <= size else data[:size].decode(errors="ignore")


def cut_stem(stem: str, room: int) -> str:
    """Shorten the last part of a path so that ``room`` bytes can follow it in a file's name."""
    directory, slash, name = stem.rpartition("/")
    return directory + slash + cut(name, LONGEST_PART - room)
