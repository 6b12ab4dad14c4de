"""Refuse files that the user gives to ``--annotations`` and that dsprep cannot read.

`dsprep.sources.unread` has the kinds that are found beside images.
"""

from __future__ import annotations

import re

from dsprep.errors import SourceError

CVAT_ADVICE = "export the task from CVAT as COCO 1.0, and give that JSON with --annotations"
# What it is, how it begins, what to do.
_UNREAD = (("CVAT's XML", re.compile(r"\s*<(?:\?xml[^>]*>\s*<)?annotations\b"), CVAT_ADVICE),)


def refuse_unread(path: str, head: str) -> None:
    """Refuse a file that begins like one that dsprep does not read."""
    for what, begins, advice in _UNREAD:
        if begins.match(head):
            raise SourceError(f"{path}: is {what}, which dsprep does not read: {advice}")
