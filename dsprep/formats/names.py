"""Names from outside as names of files and members: safe to create, and readable again."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from dsprep.errors import BadSample

LONGEST_PART = 255  # bytes of a file's or a directory's name in nearly all file systems

LONGEST_PATH = 3072
"""Bytes of a path below a folder; ``PATH_MAX`` is 4096, which leaves a thousand for the folder."""

DEEPEST = 64  # directories that may lie in each other

MAX_NAME = 1 << 16
"""Bytes of a key or an extension; readers take a longer one in a header for an attack."""

_LONGEST_EXTENSION = 16  # characters; what follows the last dot of a longer one is part of the name

_NO_NAME = re.compile("[\x00\ud800-\udfff]")
_UNFIT = re.compile(r"[/\x00-\x1f\x7f\ud800-\udfff]")
_KEPT = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_.-")

# Readers of WebDataset make extensions lower case, and a name may not hold a ``/``. A field whose
# name cannot be an extension is escaped: ``image/object/mask`` is ``KEY.image%2fobject%2fmask``.


@lru_cache(maxsize=4096)
def extension_of(name: str) -> str:
    """Return the extension for a field's name: the name itself where possible."""
    if 3 * len(name.encode()) > MAX_NAME:
        raise BadSample(f"a field whose name has {len(name.encode())} bytes")
    if name == name.lower() and not _UNFIT.search(name) and field_of(name) == name:
        return name
    return "".join(chr(byte) if byte in _KEPT else f"%{byte:02x}" for byte in name.encode())


@lru_cache(maxsize=4096)
def field_of(extension: str) -> str:
    """Return the name of the field that an extension tells: itself if nothing is escaped in it."""
    if "%" not in extension or len(extension.encode()) > MAX_NAME // 3:
        return extension
    try:
        name = unquote_to_bytes(extension).decode()
    except UnicodeDecodeError:
        return extension
    return name if name != extension and extension_of(name) == extension else extension


def harmless_part(name: str) -> str:
    """Make a text the name of one file or directory; ``_`` replaces what a name cannot hold."""
    name = _NO_NAME.sub("_", name.replace("/", "_"))
    return "_" if name in ("", ".", "..") else cut(name, LONGEST_PART)


def harmless_path(path: str) -> str:
    """Make a text a path that leads below the directory that it starts from."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts:
        raise BadSample("has a name that no file can have")
    if len(parts) > DEEPEST:
        raise BadSample(f"has a name of {len(parts)} directories; {DEEPEST} is the limit")
    *directories, name = parts
    name = "_" if name == ".." else _NO_NAME.sub("_", name)
    plain = "/".join([*map(harmless_part, directories), name])
    if len(plain.encode()) > LONGEST_PATH:
        raise BadSample(f"has a name of more than {LONGEST_PATH} bytes")
    return plain


def split_extension(path: str) -> tuple[str, str]:
    """Split a path before the dot of its extension."""
    directory, slash, name = path.rpartition("/")
    stem, dot, extension = name.rpartition(".")
    if not stem or len(extension) > _LONGEST_EXTENSION:
        return path, ""
    return directory + slash + stem, dot + extension


def cut(text: str, size: int) -> str:
    """Return the first characters of a text that take at most ``size`` bytes of UTF-8."""
    data = text.encode()
    return text if len(data) <= size else data[:size].decode(errors="ignore")


def cut_stem(stem: str, room: int) -> str:
    """Shorten the last part of a path so that ``room`` bytes can follow it in a file's name."""
    directory, slash, name = stem.rpartition("/")
    return directory + slash + cut(name, LONGEST_PART - room)
