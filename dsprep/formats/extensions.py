"""The name of a field as a member's extension, and back.

Readers of WebDataset make extensions lower case, and a name may not hold a ``/``. A field whose
name cannot be an extension as it is has it escaped: ``image/object/mask`` stands in a member
``KEY.image%2fobject%2fmask``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from dsprep.errors import BadSample

_UNFIT = re.compile(r"[/\x00-\x1f\x7f\ud800-\udfff]")
_KEPT = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_.-")

MAX_NAME = 1 << 16
"""Bytes of a key or an extension; readers take more in a header for an attack."""


@lru_cache(maxsize=4096)
def extension_of(name: str) -> str:
    """The extension that tells a field's name: the name itself where that can be one."""
    if 3 * len(name.encode()) > MAX_NAME:
        raise BadSample(f"a field whose name has {len(name.encode())} bytes")
    if name == name.lower() and not _UNFIT.search(name) and field_of(name) == name:
        return name
    return "".join(chr(byte) if byte in _KEPT else f"%{byte:02x}" for byte in name.encode())


@lru_cache(maxsize=4096)
def field_of(extension: str) -> str:
    """The name of the field that an extension tells; itself if nothing is escaped in it."""
    if "%" not in extension or len(extension.encode()) > MAX_NAME // 3:
        return extension
    try:
        name = unquote_to_bytes(extension).decode()
    except UnicodeDecodeError:
        return extension
    return name if name != extension and extension_of(name) == extension else extension
