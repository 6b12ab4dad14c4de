"""Files whose paths match a pattern with ``*``, ``?``, ``[…]`` and ``**``, on a disk or on S3."""

from __future__ import annotations

import glob
import re

from dsprep.stores.objects import as_source, bucket_and_key
from dsprep.stores.urls import is_s3, parse_url

_MARK = re.compile(r"[*?\[]")

_TOKEN = re.compile(r"\*\*/|\*+|\?|\[!?\]?[^\]]+\]|.", re.DOTALL)
_MEANS = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def find_files(pattern: str) -> list[str]:
    """The files that match, in plain sorted order.

    Raises:
        SourceError: If S3 refuses to list them.
    """
    if not is_s3(pattern):
        return sorted(glob.glob(pattern, recursive=True))
    key = parse_url(pattern).key
    mark = _MARK.search(key)
    beginning = key if mark is None else key[: mark.start()]
    matches = _expression(key)
    with as_source(pattern):
        store, _ = bucket_and_key(pattern)
        return [
            store.url(each.key)
            for page in store.list(beginning)
            for each in page
            if matches.fullmatch(each.key)
        ]


def _expression(pattern: str) -> re.Pattern[str]:
    """What the shell means by a pattern: no mark matches a slash, ``**/`` matches directories."""
    parts = []
    for token in _TOKEN.findall(pattern):
        if token in _MEANS:
            parts.append(_MEANS[token])
        elif len(token) > 1:
            inner = token[1:-1].replace("\\", r"\\")
            parts.append(f"[^{inner[1:]}/]" if inner[0] == "!" else f"[{inner}]")
        else:
            parts.append(re.escape(token))
    return re.compile("".join(parts), re.DOTALL)
