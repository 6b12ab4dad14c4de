"""Files whose paths match a pattern with ``*``, ``?``, ``[…]`` and ``**``, on a disk or on S3."""

from __future__ import annotations

import glob
import re

from dsprep.errors import SourceError
from dsprep.stores.objects import as_source, bucket_and_key
from dsprep.stores.urls import is_s3, parse_url

_MARK = re.compile(r"[*?\[]")

_TOKEN = re.compile(r"\*\*/|\*+|\?|\[!?\]?[^\]/]*\]|.", re.DOTALL)
_SPECIAL = re.compile(r"[\\\[\]^&~|]")


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
    matches = expression(key)
    with as_source(pattern):
        store, _ = bucket_and_key(pattern)
        return [
            store.url(each.key)
            for page in store.list(beginning)
            for each in page
            if matches.fullmatch(each.key)
        ]


def expression(pattern: str) -> re.Pattern[str]:
    """What the shell means by a pattern.

    Marks match neither slashes nor dots that names begin with; ``**/`` is any directories.

    Raises:
        SourceError: If it cannot mean anything.
    """
    parts = []
    is_begin = True
    for token in _TOKEN.findall(pattern):
        is_mark = token[0] in "*?" or len(token) > 1
        if is_mark and is_begin and token != "**/":
            parts.append(r"(?!\.)")
        if token == "**/":
            parts.append(r"(?:[^/.][^/]*/)*" if is_begin else "[^/]*/")
        elif token[0] in "*?":
            parts.append("[^/]" if token == "?" else "[^/]*")
        elif is_mark:
            is_not = token[1] == "!"
            inner = _SPECIAL.sub(r"\\\g<0>", token[1 + is_not : -1])
            parts.append(f"[^{inner}/]" if is_not else f"[{inner}]")
        else:
            parts.append(re.escape(token))
        is_begin = token[-1] == "/"
    try:
        return re.compile("".join(parts), re.DOTALL)
    except re.error:
        raise SourceError(f"{pattern}: is no pattern of files") from None
