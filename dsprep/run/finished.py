"""The finished data set at a target: its record, and whether its files are still there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dsprep.dataset.manifest import Manifest, parse_manifest, parse_rejects
from dsprep.errors import DestinationError, SourceError
from dsprep.findings import Reject
from dsprep.formats import writes_tree
from dsprep.formats.listing import LISTING
from dsprep.run.folder import sizes_in_folder
from dsprep.run.notes import Target
from dsprep.units import format_count

T = TypeVar("T")


def finished_manifest(target: Target, advice: str = "") -> Manifest | None:
    """Return the manifest of the data set that is at a target; None if there is none."""
    if not target.stamps([target.manifest]):
        return None
    return _read(target, target.manifest, parse_manifest, advice or target.remedy)


def rejects_of(
    target: Target, finished: Manifest, advice: str = "give --overwrite to pack again"
) -> list[Reject]:
    """Return the rejects of a finished run, from its report."""
    name = target.destination.companion("rejects.jsonl").name
    return _read(target, name, parse_rejects, advice) if finished.rejected else []


def _read(target: Target, name: str, parse: Callable[[bytes, str], T], advice: str) -> T:
    url = target.destination.url(name)
    try:
        if (data := target.find(name)) is None:
            raise SourceError(f"{url}: does not exist")
        return parse(data, url)
    except (SourceError, DestinationError) as error:
        raise DestinationError(f"{error}; {advice}") from None


def is_bare(target: Target, finished: Manifest) -> bool:
    """Return whether only the record of a data set is there: no shard, and no file of a folder.

    A command then writes the data set as if for the first time.
    """
    if holds_folder(finished):
        try:
            found = [size for _, _, size in sizes_in_folder(target)]
            # samples that are texts alone have no files
            return found != [] and set(found) == {None}
        except (OSError, ValueError):  # nothing tells which files are of the folder
            return not target.folder_files()
    return bool(finished.shards) and not target.stamps([each.name for each in finished.shards])


def require_whole(target: Target, finished: Manifest, advice: str) -> None:
    """Refuse a finished data set with a file that is missing or has another size."""
    if wrong := damages(target, finished):
        name, why = wrong[0]
        others = f", and {format_count(len(wrong) - 1, 'other file')} too" if wrong[1:] else ""
        raise DestinationError(f"{target.destination.url(name)}: {why}{others}; {advice}")


def damages(target: Target, finished: Manifest) -> list[tuple[str, str]]:
    """Compare the names and sizes of all files of a data set with its record.

    Returns:
        The name of each file that is missing or has another size, and what is wrong with it.
    """
    sizes = {file.name: file.bytes for file in finished.every_file()}
    there = target.stamps(sizes)
    found = [
        (name, wrong)
        for name, size in sizes.items()
        if (wrong := _damage(size, there[name][0] if name in there else None))
    ]
    if found or not holds_folder(finished):
        return found
    try:
        return [
            (target.destination.in_folder(path), wrong)
            for path, size, own in sizes_in_folder(target)
            if (wrong := _damage(size, own))
        ]
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        return [(target.destination.companion(LISTING).name, f"cannot be read ({why})")]


def holds_folder(finished: Manifest) -> bool:
    """Return whether a data set is a folder of files rather than shards."""
    return writes_tree(finished.format)


def _damage(size: int, found: int | None) -> str:
    """Say what is wrong with a file that should have a size in bytes; empty if nothing is."""
    if found is None:
        return "was written, and is not there any more"
    return "" if found == size else f"has {found:,} bytes, and {size:,} were written"
