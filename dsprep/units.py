"""Numbers as people write them: sizes such as ``200MB``, times, counts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dsprep.errors import OptionError
from dsprep.printable import without_secrets

_SIZE = r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*"
_POWER: dict[str, int] = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}

_DURATION = r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h|d|w)\s*"
_SURROGATE = re.compile("[\ud800-\udfff]")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}


def parse_size(text: str | int) -> int:
    """Read a byte count: ``1500``, ``64KiB`` (1024s), ``200MB`` or ``200M`` (1000s)."""
    match = re.fullmatch(_SIZE, str(text), re.IGNORECASE)
    if match is None:
        raise OptionError(f"{text!r} is not a size: write it like 200MB, 1.5GB or 64MiB")
    number, unit, binary = match.groups()
    base = 1024 if binary else 1000
    size = round(float(number) * int(base ** _POWER[unit.lower()]))
    if size < 1:
        raise OptionError(
            f"{text!r} is not a size that can hold anything: it must be at least 1 byte"
        )
    return size


def parse_duration(text: str) -> float:
    """Read a time: ``90s``, ``30min``, ``12h``, ``7d``."""
    match = re.fullmatch(_DURATION, text, re.IGNORECASE)
    if match is None:
        raise OptionError(f"{text!r} is not a time: write it like 30min, 12h or 7d")
    return float(match[1]) * _SECONDS[match[2].lower()]


def format_size(size: float) -> str:
    """Write a byte count for people, in units of 1000: ``742 B``, ``1.5 KB``, ``200 MB``."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 999.5:
            return _three_digits(size, unit)
        size /= 1000
    return _three_digits(size, "TB")


def _three_digits(size: float, unit: str) -> str:
    digits = 1 if unit != "B" and size < 99.95 else 0
    return f"{size:.{digits}f}".removesuffix(".0") + f" {unit}"


def format_duration(seconds: float) -> str:
    """Write a time for people: ``0.4 s``, ``12 s``, ``3 min 20 s``, ``2 h 05 min``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def format_count(number: int, noun: str) -> str:
    """Count things for people: ``1 sample``, ``1,281,167 samples``, ``2 classes``, ``3 copies``."""
    if number != 1 and noun.endswith(("py", "ry")):
        return f"{number:,} {noun[:-1]}ies"
    ending = "" if number == 1 else "es" if noun.endswith(("s", "x")) else "s"
    return f"{number:,} {noun}{ending}"


NO_EXTENSION = "without extension"
_MOST_EXTENSIONS = 5


def extension_in(path: str) -> str:
    """Return the extension of a file name in lower case, ``.xml``; or that it has none."""
    stem, _, extension = path.rpartition("/")[2].rpartition(".")
    return f".{extension.lower()}" if stem and extension else NO_EXTENSION


def format_extensions(counts: Mapping[str, int]) -> str:
    """Format counts of files by extension: ``120 .xml, 3 .txt, 2 without extension``."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    said = [f"{count:,} {extension:.20}" for extension, count in ordered[:_MOST_EXTENSIONS]]
    others = ordered[_MOST_EXTENSIONS:]
    if others:
        extensions = format_count(len(others), "other extension")
        said.append(f"{sum(count for _, count in others):,} with {extensions}")
    return ", ".join(said)


def format_some(names: Sequence[str]) -> str:
    """Name the first few: ``a.jpg, b.jpg, c.jpg, …``."""
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def quoted(value: object, limit: int = 60) -> str:
    """Quote what a user wrote: ``'cat'``; of a long text, its beginning and its length."""
    text = without_secrets(repr(value))
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def quoted_names(names: Sequence[str], limit: int = 20) -> str:
    """Quote names: ``'id', 'label'``; of many, the first and how many more there are."""
    rest = len(names) - limit
    return ", ".join(map(quoted, names[:limit])) + (f" and {rest:,} more" if rest > 0 else "")


def is_text(value: object) -> bool:
    """Return whether a value is text that UTF-8 has bytes for; JSON also has half characters."""
    return isinstance(value, str) and not _SURROGATE.search(value)


def lines_of(text: str) -> list[str]:
    """Return the lines of a text without their ends, which are a line feed, or one after a return.

    `str.splitlines` also divides at form feeds and at U+2028, which names may have in them.
    """
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")
