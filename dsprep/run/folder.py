"""A folder of files as a target: one tree, which takes its name by one rename.

Workers write each file under its final path in a tree beside the target. The path of a sample's
files depends on that sample alone, so two samples of one name are refused, and never numbered. A
unit of work is a run of samples; its listing names its files.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from itertools import chain, groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import google_crc32c

from dsprep.dataset.manifest import FileReceipt
from dsprep.errors import BadSample, DestinationError, SourceError
from dsprep.formats.base import TreeFormat
from dsprep.formats.listing import LISTING, File, Listed, read_listing
from dsprep.formats.values import fits_lst, format_lst
from dsprep.plan.destination import Destination
from dsprep.plan.plan import Plan
from dsprep.storage.local import destination_errors, publish, sync_path

if TYPE_CHECKING:
    from dsprep.run.notes import Target
    from dsprep.run.written import Written


def folder_of(destination: Destination) -> Path:
    """The folder that a destination names."""
    return destination.directory / (destination.single or "")


def require_free(destination: Destination) -> None:
    """Refuse a folder that holds anything."""
    folder = folder_of(destination)
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise DestinationError(
            f"{folder}: is there already; choose another destination, or give --overwrite if "
            "dsprep wrote it"
        )


def require_own_files(destination: Destination) -> None:
    """Refuse to replace a folder that holds files which dsprep did not write."""
    folder, listing = folder_of(destination), destination.companion(LISTING)
    try:
        own = {file.path for file in _files(listing)}
    except (OSError, ValueError):
        own = set()
        if any(files_below(folder)):
            raise DestinationError(
                f"{listing}: is missing or damaged, so the files that dsprep wrote to {folder} are "
                "not known; choose another destination, or remove the folder if dsprep wrote it all"
            ) from None
    for path, _ in files_below(folder):
        if path not in own:
            raise DestinationError(
                f"{folder / path}: dsprep did not write this file, and it lies in the folder to "
                "replace; move it away, or choose another destination"
            )


def whole_units(pieces: Target, destination: Destination) -> dict[str, Written]:
    """Return the units and pieces on this machine that are as their receipts tell."""
    # Files in the tree of a folder that are in no such unit are removed: they are written again.
    found = dict(pieces.receipts())
    units = [name for name in found if name.startswith("units-")]
    is_published = not pieces.tree.is_dir()
    tree = folder_of(destination) if is_published else pieces.tree
    sizes = dict(files_below(tree)) if tree.is_dir() and (units or not is_published) else {}
    for name in units:
        listing = pieces.path(name)
        is_whole = FileReceipt.of(listing) == found[name].files[-1]
        files = list(_files(listing)) if is_whole else []
        if not is_whole or any(sizes.get(file.path) != file.bytes for file in files):
            del found[name]
            continue
        for file in files:
            del sizes[file.path]
    for path in () if is_published else sizes:
        (tree / path).unlink()
    return found


def finish_folder(plan: Plan, pieces: Target, target: Target, counts: Counter[str]) -> int:
    """Give the tree its name, and write the listing beside it; returns the bytes of its files.

    What happens to samples on the way is counted.
    """
    destination, tree = plan.job.destination, pieces.tree
    layout, listing = plan.job.layout, destination.companion(LISTING)
    assert isinstance(layout, TreeFormat)
    units = [pieces.path(unit.name) for unit in plan.shards]
    if tree.is_dir() or not listing.exists():
        with destination_errors(tree):
            tree.mkdir(exist_ok=True)

        def samples() -> Iterator[Listed]:
            return chain.from_iterable(map(read_listing, units))

        metadata = _write_metadata(layout.metadata_lines(samples, counts), tree)
        partial = target.partial(listing.name)
        with destination_errors(partial), partial.open("wb") as file:
            for sample, following in pairwise(chain(samples(), [None])):
                assert sample is not None
                if following is None:  # the files of all samples are listed with the last one
                    sample = sample._replace(files=(*sample.files, *metadata))
                file.write(sample.to_json())
        publish(partial, listing)
        final = folder_of(destination)
        with destination_errors(final):
            _flush(tree)
            try:
                os.rename(tree, final)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise
                what = "holds files already" if final.is_dir() else "is there and is no directory"
                what = "is a link" if final.is_symlink() else what
                raise DestinationError(f"{final}: {what}; choose another destination") from None
            sync_path(final.parent)
    return sum(each.size for each in read_listing(listing))


def sizes_in_folder(destination: Destination) -> Iterator[tuple[str, int, int | None]]:
    """Yield the path of each file of a folder, its size by the listing, and its size there.

    Sizes are in bytes; that of a file that is not there is None.

    Raises:
        OSError: The listing cannot be read.
        ValueError: The listing is damaged.
    """
    folder = folder_of(destination)
    for path, size, _ in _files(destination.companion(LISTING)):
        try:
            yield path, size, os.lstat(folder / path).st_size
        except (FileNotFoundError, NotADirectoryError):
            yield path, size, None


def _write_metadata(lines: Iterable[tuple[str, str]], tree: Path) -> list[File]:
    """Write the files ``metadata.jsonl`` into a tree that needs them."""
    found: dict[str, tuple[int, int]] = {}
    with destination_errors(tree):
        for path, group in groupby(lines, itemgetter(0)):
            size, checksum = found.get(path, (0, 0))
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            with (tree / path).open("ab" if path in found else "wb") as file:
                for _, line in group:
                    # What is no Unicode becomes the escape that JSON has for it.
                    data = line.encode("utf-8", "backslashreplace")
                    file.write(data)
                    size, checksum = size + len(data), google_crc32c.extend(checksum, data)
            found[path] = size, checksum
    return [File(path, *facts) for path, facts in found.items()]


def companions_of(plan: Plan, classes: tuple[str, ...] | None) -> dict[str, bytes]:
    """Return the list of a folder, and its augmented manifest if that is the format."""
    job, layout, found = plan.job, plan.job.layout, dict[str, bytes]()
    assert isinstance(layout, TreeFormat)
    listing = job.destination.companion(LISTING)
    if text := _format_list(read_listing(listing)):
        found[job.destination.companion("lst").name] = text.encode()
    try:
        lines = layout.references(read_listing(listing), classes)
    except BadSample as error:
        raise SourceError(f"{error}; --to folder needs no such labels") from None
    if lines is not None:
        found[job.destination.companion("manifest").name] = lines.encode()
    return found


def _format_list(samples: Iterable[Listed]) -> str:
    """Return the ``.lst`` of a folder; nothing if no sample has a label."""
    rows = [
        (each.id, (each.label,) if isinstance(each.label, int) else each.label, path)
        for each in samples
        if each.label is not None and each.files and fits_lst(path := each.files[0].path)
    ]
    ids, labels, paths = zip(*rows, strict=True) if rows else ((), (), ())
    return format_lst(ids if len(set(ids)) == len(ids) else range(len(ids)), labels, paths)


def _flush(tree: Path) -> None:
    """Flush the file system of a directory to the disk."""
    # It is one flush for all: asking for each of a million files takes a disk that others write to
    # milliseconds every time. Linux reports what it could not write since (from 5.8 on).
    descriptor = os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:
            os.sync()
        elif syncfs(descriptor):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(tree))
    finally:
        os.close(descriptor)


def remove_folder(destination: Destination, names: Collection[str]) -> None:
    """Remove the files of a folder whose listing has one of these names."""
    # Nothing else that lies there is removed, and no link is followed. Directories that are then
    # empty go as well.
    final, listing = folder_of(destination), destination.companion(LISTING)
    if listing.name not in names:
        return
    are_real = {"": True}  # directories that exist, no part of their paths being a link

    def is_real(directory: str) -> bool:
        if directory not in are_real:
            path, above = final / directory, directory.rpartition("/")[0]
            are_real[directory] = is_real(above) and path.is_dir() and not path.is_symlink()
        return are_real[directory]

    with destination_errors(final):
        try:
            for path, *_ in _files(listing) if listing.exists() and not final.is_symlink() else ():
                if ".." in path.split("/") or path[:1] == "/":
                    raise ValueError("names a file elsewhere")
                if is_real(path.rpartition("/")[0]):
                    (final / path).unlink(missing_ok=True)
        except ValueError as error:
            raise DestinationError(f"{listing}: {error}; remove the folder yourself") from None
        for directory in sorted(filter(is_real, list(are_real)), key=len, reverse=True):
            with suppress(OSError):
                os.rmdir(final / directory)


def _files(listing: Path) -> Iterator[File]:
    return chain.from_iterable(sample.files for sample in read_listing(listing))


def files_below(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the files below a folder, links not followed, with their sizes."""
    for directory, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(directory, name)
            yield os.path.relpath(path, folder), os.lstat(path).st_size
