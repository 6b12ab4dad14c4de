"""Text as it is safe to print: names come from files and users, and addresses may hold secrets.

All messages, reports, logs and pages pass through :func:`visible`: errors when they become text,
the rest where it is written.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

_CUT = "***"

# What stands between `://` and the host, also where an address was taken for a path. A password
# that was not encoded may hold a slash; but what follows the port of a host, or the ARN of an
# access point, is a path. Text may be long and hostile, so each repetition is bounded.
_USER = re.compile(
    r"(?:(?<=://)|(?<=https:/)|(?<=http:/)|(?<=s3:/))(?!/|arn:)"
    r"(?:[^\s/]{1,2000}|[^\s/@:]{0,200}:(?!\d+/)[^\s@]{0,200})@"
)

# The parameters that sign an address on S3, Google Cloud Storage and Azure.
_SIGNED = re.compile(
    r"((?:X-(?:Amz|Goog)-(?:Signature|Credential|Security-Token)"
    r"|(?<=[?&;])(?:Signature|sig|(?:AWS|Google)?Access(?:Key)?Id))=)"
    r"[^\s&;:,)'\"<>]+",
    re.IGNORECASE,
)


def visible(text: str) -> str:
    r"""Return a line without secrets, and with escapes such as ``\n`` of what is not printable.

    That is line breaks, codes that a terminal obeys, and marks that turn text around. A byte of a
    name that is not UTF-8 is shown as ``\xff``.
    """
    return without_secrets(_escaped(text, _escape))


def utf8_text(path: str) -> str:
    r"""Return a path as text that can be written in UTF-8, its other bytes as ``\xff``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _escape(character: str) -> str:
    # surrogate escapes stand for bytes of a name that is not UTF-8
    is_byte = "\udc80" <= character <= "\udcff"
    return ascii(chr(ord(character) - 0xDC00) if is_byte else character)


def json_line(value: Any) -> str:
    """Return a value as a line of JSON in which the same characters are escapes of JSON."""
    import json  # help pages do without

    return _escaped(json.dumps(value, ensure_ascii=False), json.dumps)


def _escaped(text: str, quote: Callable[[str], str]) -> str:
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else quote(each)[1:-1] for each in text)


def without_secrets(text: str) -> str:
    """Cut passwords and signatures out of the addresses in a text."""
    if "@" in text:
        text = _USER.sub(f"{_CUT}@", text)
    return _SIGNED.sub(rf"\g<1>{_CUT}", text) if "=" in text else text


def json_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an object consists of as values of JSON, with secrets cut out of texts."""
    return {str(name): json_value(item) for name, item in values.items()}


def json_value(value: Any) -> Any:
    """Return a value as JSON knows it; objects of dsprep have a method ``to_json``."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, Mapping):
        return json_values(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no NaN or infinity
    if hasattr(value, "_fields"):
        raise TypeError(f"{type(value).__name__} has no to_json")
    return [json_value(item) for item in value] if isinstance(value, list | tuple) else value
