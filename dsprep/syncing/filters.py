"""``--include`` and ``--exclude``, as AWS's command line has them: the last that matches wins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property
from typing import NamedTuple


class Rule(NamedTuple):
    """One ``--include`` or ``--exclude``.

    Attributes:
        include: Which of the two.
        pattern: ``*`` is anything, slashes included; ``?`` one character; ``[ab]`` one of these.
    """

    include: bool
    pattern: str


@dataclass(frozen=True)
class Filters:
    """Which files take part."""

    rules: Sequence[Rule] = ()  # in the order in which they were given

    @cached_property
    def _compiled(self) -> list[tuple[bool, re.Pattern[str]]]:
        return [(rule.include, re.compile(translate(rule.pattern))) for rule in self.rules][::-1]

    def admit(self, path: str) -> bool:
        """Whether a path, relative to what is synced, takes part; all do that no rule matches."""
        for include, pattern in self._compiled:
            if pattern.match(path):
                return include
        return True

    def may_admit(self, unseen: str) -> bool:
        """Whether something may take part that begins with a path which cannot be looked into.

        Only a pattern that ends with ``*``, such as ``tmp/*``, leaves all of it out.
        """
        for rule, (include, pattern) in zip(reversed(self.rules), self._compiled, strict=True):
            if include:
                return True
            if rule.pattern.endswith("*") and pattern.match(unseen):
                return False
        return True
