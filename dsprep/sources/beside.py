"""What lies beside the directory of images that a user names: tables, lists and masks, as notes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.places.names import is_side_alone, is_word_for_files, side_above, usual_side
from dsprep.sources.annotation_kind import DirectoryAbove
from dsprep.sources.annotation_kinds import kind_by_content
from dsprep.sources.heads import HEADS_OF_GROUP, NAMING, groups_of, head_of, is_harmless
from dsprep.sources.leftover import (
    GUESSED,
    NAMES,
    SOME,
    lacks_labels,
    names_of,
    not_read,
    share_of,
    way_to_take,
)
from dsprep.sources.mask_names import is_for_masks
from dsprep.sources.unread import text_of
from dsprep.storage.files import DirectoryEntry, first_entries, full_path, is_dir
from dsprep.units import extension_in

if TYPE_CHECKING:
    import polars as pl

    from dsprep.catalog import Catalog, SourceScan
    from dsprep.places.files import Files
    from dsprep.sources.source import Source

_LOSSLESS = frozenset((".png", ".gif", ".bmp", ".tif", ".tiff"))  # others change numbers
_OF_LISTS = ("meta", "lists", "splits", "imagesets")  # directories that may hold lists of sides


def notes_beside(source: Source, catalog: Catalog) -> list[Finding]:
    """Note what beside the directory of images may be for these, if nothing tells as much of them.

    `images/`, `masks/` and `train.csv` are one data set. What lies beside a directory of another
    name may be anybody's.
    """
    above, _, name = full_path(source.root).rpartition("/")
    if source.others or not above or not is_word_for_files(name):
        return []
    try:
        return [*_notes(source, catalog, DirectoryAbove(above, name))]
    except (OSError, SourceError):
        return []  # a directory that may not be read has nothing to note


def _notes(source: Source, catalog: Catalog, above: DirectoryAbove) -> Iterator[Finding]:
    images = catalog.table["path"]
    if not source.chooses:
        is_bare = lacks_labels(catalog)
        lists = [] if catalog.sides else _lists(above, images, is_bare)
        if lists:
            takes = f"to take such lists, give {shlex.quote(above.path)} as SOURCE"
            yield not_read(f"{lists[0]} {NAMES} the images of a side", takes)
        if is_bare:
            yield from _tables(above, images, lists)
    if catalog.annotated is None:
        yield from _masks(above, full_path(source.root).rpartition("/")[2], images)


def notes_on_unlisted(source: Source, files: Files, found: SourceScan) -> list[Finding]:
    """Note masks that a list, or a table of labels, does not name: they stop a command without it.

    Args:
        source: What was read.
        files: The images there: all those of an archive, or those that the list names.
        found: The samples, and findings with the files that are not listed.
    """
    catalog, findings = found
    unlisted = [each.path for each in findings if each.kind == "unlisted"]
    if not source.chooses or not unlisted:
        return []
    root = source.root.rstrip("/")
    places = [path.rstrip("/") for path in unlisted if path.endswith("/")]
    places = [path for path in places if is_for_masks(path.rpartition("/")[2])]
    notes = [*_masks_in([f"{root}/{path}" for path in places], catalog.table["path"])]
    return [*notes, *_unlisted_masks(root, files, catalog, unlisted)]


def _unlisted_masks(
    root: str, files: Files, catalog: Catalog, unlisted: Sequence[str]
) -> Iterator[Finding]:
    """Note the first likely mask among files that are not listed, and the option for these."""
    import polars as pl

    from dsprep.sources.likely_masks import image_of, likely_masks, option_for_masks

    if files.archive is None:
        listed = catalog.table.select("path", "size")
        table = pl.concat([listed, pl.DataFrame({"path": unlisted})], how="diagonal")
        files = files._replace(table=table)
    else:
        files = files.fitting(catalog.table["path"])
    masks = likely_masks(root, files)
    own = [path for path in unlisted if path in masks]
    first = min(filter(masks.get, own), default=None)
    if first is None:
        return
    takes = shlex.quote(option_for_masks(root, first, image_of(masks[first]), own))
    more = f" ({len(own) - 1:,} more like this)" if len(own) > 1 else ""
    yield not_read(f"{first} {masks[first]}{more}", f"--masks {takes} takes masks")


def _lists(above: DirectoryAbove, images: pl.Series, is_bare: bool) -> Sequence[str]:
    """Return the lists that tell the sides of images, or their classes if nothing else does."""
    from dsprep.sources.side_lists import begun_list, side_of_list  # imported late: loads polars

    inside = (each for name in _OF_LISTS for each in above.inside(name))
    texts = [each for each in (*above.entries.values(), *inside) if side_of_list(each.name)]
    sides, found, has_numbers = set[str](), list[str](), False
    for each in texts[:SOME]:
        begun = begun_list(each.name, head_of(each.path) or b"") if each.is_file() else None
        if begun is not None and share_of(begun.names, images) >= 0.5:
            found.append(each.path)
            sides.add(side_of_list(each.name))
            has_numbers |= begun.has_numbers
    return sorted(found) if len(sides) > 1 or (has_numbers and is_bare) else ()


def _tables(above: DirectoryAbove, images: pl.Series, lists: Sequence[str]) -> Iterator[Finding]:
    """Note which other files name the images."""
    texts = (path for path in sorted(above.entries) if extension_in(path) in NAMING)
    own = (path for path in texts if not is_harmless(path) and above.entries[path].is_file())
    for some in groups_of(path for path in own if above.entries[path].path not in lists).values():
        for path in some[:HEADS_OF_GROUP]:
            full = above.entries[path].path
            head = head_of(full) or b""
            if named := "" if GUESSED.search(path) else names_of(path, head, images):
                yield not_read(f"{full} {NAMES} {named}", _option_for(full, head))


def _option_for(path: str, head: bytes) -> str:
    """Say which option takes a file that names images."""
    from dsprep.sources.annotated.boxes import columns_of, holds_boxes

    kind = kind_by_content(path, head)
    if kind is None and holds_boxes(columns_of(text_of(head))):
        return f"--annotations {shlex.quote(path)} takes boxes of a table"
    if kind is None:
        return way_to_take(path, shlex.quote(path))
    return kind.advice or f"--annotations {shlex.quote(path)} takes annotations of {kind.name}"


def _masks(above: DirectoryAbove, name: str, images: pl.Series) -> Iterator[Finding]:
    """Note which directories are called like masks and have images of the same names.

    ``name`` is that of the directory of the images. Beside `images/train`, these may be
    `masks/train`.
    """
    places = [each.path for each in above.entries.values() if _may_have_masks(each, name)]
    if is_side_alone(name):
        parent, _, own = above.path.rpartition("/")
        beside = DirectoryAbove(parent, own).entries.values() if parent else ()
        places += [f"{each.path}/{name}" for each in beside if _may_have_masks(each, own)]
    yield from _masks_in(sorted(places), images)


def _masks_in(places: Sequence[str], images: pl.Series) -> Iterator[Finding]:
    """Note which directories have images of the same names."""
    for path in filter(is_dir, places):
        names = [each.name for each in islice(_images_in(path), SOME)]
        if names and share_of(names, images) >= 0.5:
            takes = f"--masks {shlex.quote(path)} takes masks"
            yield not_read(f"{path} has images of the same names", takes)


def _may_have_masks(entry: DirectoryEntry, name: str) -> bool:
    """Return whether an entry beside a directory is called like masks, and not of another side."""
    side = side_above(f"{entry.name}/")
    is_other = entry.name == name or (side and is_side_alone(name) and side != usual_side(name))
    return not is_other and is_for_masks(entry.name) and entry.is_dir()


def _images_in(path: str, depth: int = 1) -> Iterator[DirectoryEntry]:
    """Yield what may be masks in a directory or, if it has none, in the first directory in it."""
    try:
        inside = first_entries(path, SOME)
    except OSError:
        return  # a directory that may not be read has no masks to offer
    images = [each for each in inside if extension_in(each.name) in _LOSSLESS]
    below = min((each.path for each in inside if depth and each.is_dir()), default="")
    if not images and below:
        images = [*_images_in(below, depth - 1)]
    yield from images
