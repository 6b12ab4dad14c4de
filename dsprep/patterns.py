"""Regular expressions that are compiled when they are first used.

Kinds of sources and annotations tell by about two hundred what files are called. A command uses a
third of them, and compiling the others would take 15 ms of its start. A call of such a pattern
takes a little longer: what runs many times for each sample is compiled by `re.compile`.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _LatePattern:
    """Has the attributes of a compiled expression, once they are asked for."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self.pattern, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # `pickle` asks an object without attributes
            raise AttributeError(name)
        found = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, found)
        return found


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a regular expression as `re.compile` does, compiled when it is first used."""
    return cast("re.Pattern[AnyStr]", _LatePattern(text, flags))
