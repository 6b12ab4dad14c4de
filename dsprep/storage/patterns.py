"""Files whose paths match a pattern with ``*``, ``?``, ``[…]`` and ``**``, on a disk or on S3."""

from __future__ import annotations

import glob
import re

from dsprep.errors import SourceError
from dsprep.storage.location import is_s3, parse_url
from dsprep.storage.objects import as_source, bucket_and_key

_MARK = re.compile(r"[*?\[]")

_TOKEN = re.compile(r"\*+|\?|\[!?+.[^\]]*\]|.", re.DOTALL)
_SPECIAL = re.compile(r"[\\\[\]^&~|]")
_DIRECTORIES = r"(?:[^/.][^/]*/)*"


def find_files(pattern: str) -> list[str]:
    """The files that match, in plain sorted order."""
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

    Marks match neither slashes nor dots that names begin with; ``**/`` is any directories, and
    ``**`` at the end all that lies below.
    """
    *directories, name = pattern.split("/")
    parts = [_DIRECTORIES if each == "**" else f"{_name(each)}/" for each in directories]
    parts.append(_DIRECTORIES + _name("*") if name == "**" else _name(name))
    try:
        return re.compile("".join(parts), re.DOTALL)
    except re.error:
        raise SourceError(f"{pattern}: is no pattern of files") from None


def _name(pattern: str) -> str:
    """The expression for the name of a file or directory."""
    tokens = _TOKEN.findall(pattern)
    begins_with_mark = tokens and (tokens[0][0] in "*?" or len(tokens[0]) > 1)
    return (r"(?!\.)" if begins_with_mark else "") + "".join(map(_part, tokens))


def _part(token: str) -> str:
    if token[0] == "*":
        return "[^/]*"
    if token == "?":
        return "[^/]"
    if len(token) == 1:
        return re.escape(token)
    is_not = token[1] == "!"
    inner = _SPECIAL.sub(r"\\\g<0>", token[1 + is_not : -1])
    return f"[^{inner}/]" if is_not else f"[{inner}]"
