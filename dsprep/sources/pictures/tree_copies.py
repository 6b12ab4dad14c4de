"""Directories that lie there twice, as in some of Kaggle's archives: ``x/cat`` and ``x/x/cat``."""

from __future__ import annotations

import posixpath
import shlex
from typing import TYPE_CHECKING

from dsprep.errors import SourceError
from dsprep.sources.mask_pixels import Pictures

if TYPE_CHECKING:
    import polars as pl

    from dsprep.places.files import Files


def require_one_tree(root: str, files: Files) -> None:
    """Refuse images that lie there twice, in a directory and in one of its name further below."""
    table = files.table.select("path", "size").sort("path")
    if table.is_empty():
        return
    first, size = table.row(0)
    ending = f"/{posixpath.basename(first)}"
    is_alike = table["path"].str.ends_with(ending) & (table["size"] == size)
    for other in table["path"].filter(is_alike):
        high, deep = _directories(*sorted((first, other), key=lambda path: path.count("/")))
        if high and _are_copies(root, files, table, high, deep):
            named = f"name one of them as the source, dsprep pack {shlex.quote(f'{root}/{deep}')}"
            if files.archive is not None:
                named = "unpack one of them, and name it as the source"
            raise SourceError(f"{root}: {high}/ and {deep}/ hold the same images: {named}")


def _directories(high: str, deep: str) -> tuple[str, str]:
    """Return directories of one name below which two paths are the same; empty without any.

    The second one lies below the directory that holds the first one.
    """
    left, right = high.split("/"), deep.split("/")
    alike = 0
    while alike < len(left) and left[-1 - alike] == right[-1 - alike]:
        alike += 1
    above, further = left[: len(left) - alike], right[: len(right) - alike]
    if alike < 2 or len(above) == len(further) or above != further[: len(above)]:  # noqa: PLR2004
        return "", ""
    return "/".join([*above, left[len(above)]]), "/".join([*further, left[len(above)]])


def _are_copies(root: str, files: Files, table: pl.DataFrame, high: str, deep: str) -> bool:
    """Return whether two directories hold images of the same paths, sizes and beginnings."""
    is_deep = table["path"].str.starts_with(f"{deep}/")
    is_high = table["path"].str.starts_with(f"{high}/") & ~is_deep
    own, copies = (
        table.filter(which).with_columns(table["path"].filter(which).str.slice(len(name) + 1))
        for which, name in ((is_high, high), (is_deep, deep))
    )
    if not own.equals(copies):
        return False
    some = [own["path"][at] for at in (0, -1)]
    heads = Pictures(root, files).heads([f"{top}/{name}" for top in (high, deep) for name in some])
    return all(heads.get(f"{high}/{name}") == heads.get(f"{deep}/{name}") for name in some)
