"""A folder of files as a target: one tree that takes its name by one rename, or keys in a store.

Workers write each file under its final path in a tree beside the target. The path of a sample's
files depends on that sample alone, so two samples of one name are refused, and never numbered. A
unit of work is a run of samples; its listing names its files.

Where several machines write, or the target has no rename, each unit has a tree of its own. Its
files are then moved to the tree of all units, or sent to their keys. Its listing comes first and
its receipt last, both at the target. The listings show whether two units have a file of one path.
"""

from __future__ import annotations

import errno
import os
import shutil
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, groupby, pairwise
from operator import itemgetter
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING

import google_crc32c

from dsprep.dataset.manifest import FileEntry
from dsprep.errors import BadSample, DestinationError, SourceError
from dsprep.formats.base import Format, TreeFormat
from dsprep.formats.listing import LISTING, File, Listed, read_listing, taken_error
from dsprep.formats.values import fits_lst, format_lst
from dsprep.plan.destination import Destination
from dsprep.run.notes import REPLACED_LISTING, Target, digest_of, is_unit
from dsprep.storage.files import results
from dsprep.storage.local import destination_errors, sync_path
from dsprep.storage.stored import crc32c
from dsprep.tuples import NamedTuple

if TYPE_CHECKING:
    from dsprep.run.receipt import Receipt


def folder_of(destination: Destination) -> Path:
    """The folder that a destination names."""
    return destination.directory / (destination.single or "")


def require_free(target: Target, *, overwrite: bool = False) -> None:
    """Refuse a folder that holds anything but what makes way for this run."""
    destination = target.destination
    folder = folder_of(destination)
    if destination.remote is not None:
        is_taken = not target.folder_files().keys() <= _paths(target, [_replaced(target)])
    else:
        is_taken = os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir()))
    if is_taken:
        advice = "remove it if" if overwrite else "give --overwrite if"
        raise DestinationError(
            f"{destination}: is there already; choose another destination, or {advice} dsprep "
            "wrote it"
        )


def require_own_files(target: Target) -> None:
    """Refuse to replace a folder that holds files which dsprep did not write."""
    destination, listing = target.destination, target.destination.companion(LISTING).name
    there = target.folder_files()
    try:
        own = {file.path for file in _files(destination.url(listing))}
    except (OSError, ValueError):
        own = set()
        if there and destination.remote is None:
            raise DestinationError(
                f"{destination.url(listing)}: is missing or damaged, so the files that dsprep "
                f"wrote to {destination} are not known; choose another destination, or remove the "
                "folder if dsprep wrote it all"
            ) from None
    if destination.remote is not None:
        own |= _paths(target, [_replaced(target), *map(destination.url, target.listings())])
    for path in there:
        if path not in own:
            raise _not_own(target, path)


def _not_own(target: Target, path: str) -> DestinationError:
    url = target.destination.url(target.destination.in_folder(path))
    return DestinationError(
        f"{url}: dsprep did not write this file, and it lies in the folder to replace; move it "
        "away, or choose another destination"
    )


def _replaced(target: Target) -> str:
    """Return where the listing of a folder is kept that makes way."""
    return target.destination.url(target.notes + REPLACED_LISTING)


def _paths(target: Target, listings: Iterable[str]) -> set[str]:
    """Return the paths that listings name; those that are not there, or are damaged, name none."""
    found = set[str]()
    for listing in listings:
        with suppress(OSError, ValueError):
            found.update(file.path for file in _files(listing))
    return found


def whole_units(pieces: Target, destination: Destination) -> dict[str, Receipt]:
    """Return the units and pieces on this machine that are as their receipts tell."""
    # Files in the tree of a folder that are in no such unit are removed: they are written again.
    found = dict(pieces.receipts())
    units = list(filter(is_unit, found))
    is_published = not pieces.tree.is_dir()
    tree = folder_of(destination) if is_published else pieces.tree
    sizes = dict(files_below(tree)) if tree.is_dir() and (units or not is_published) else {}
    for name in units:
        listing = pieces.path(name)
        is_whole = FileEntry.of(listing) == found[name].files[-1]
        files = list(_files(listing)) if is_whole else []
        if not is_whole or any(sizes.get(file.path) != file.bytes for file in files):
            del found[name]
            continue
        for file in files:
            del sizes[file.path]
    for path in () if is_published else sizes:
        (tree / path).unlink()
    return found


def receipts_of(target: Target, shards: Iterable[str] | None = None) -> dict[str, Receipt]:
    """Return the receipts at a target, or those of some shards or units, that are true."""
    found = dict(target.receipts(shards))
    units = list(filter(is_unit, found))
    if not units:
        return found
    tree = target.tree
    is_there = target.destination.remote is None and tree.is_dir()
    there = (
        {path: (size, "") for path, size in files_below(tree)}
        if is_there
        else target.folder_files()
    )
    names = [found[unit].files[-1].name for unit in units]
    listings = results(target.destination.url(""), target.find, names)
    for unit, data in zip(units, listings, strict=True):
        if not _is_whole(found[unit], data or b"", there):
            del found[unit]
    return found


def size_of_shard(target: Target, name: str, written: Receipt) -> int:
    """Return the size of a shard, or of the files of a unit, in bytes."""
    own = written.files[-1]
    if not is_unit(name):
        return own.bytes
    return sum(each.size for each in read_listing(target.destination.url(own.name)))


def _is_whole(unit: Receipt, listing: bytes, there: Mapping[str, tuple[int, str]]) -> bool:
    """Return whether the files of a unit are there, as its listing and its receipt tell."""
    receipt = unit.files[-1]
    if (len(listing), crc32c(listing)) != (receipt.bytes, receipt.crc32c):
        return False
    lines = map(Listed.from_json, listing.splitlines(keepends=True))
    files = [file for sample in lines for file in sample.files]
    found = [there.get(file.path, (-1, "")) for file in files]
    if [size for size, _ in found] != [file.bytes for file in files]:
        return False
    return digest_of([etag for _, etag in found]) == unit.etags


def forget_units(target: Target) -> None:
    """Remove the units of an unfinished run: their files, then their listings."""
    listings = target.listings()
    if target.destination.remote is None:
        shutil.rmtree(target.tree, ignore_errors=True)
    elif listings:
        paths = _paths(target, map(target.destination.url, listings))
        target.delete_files(sorted(paths))
        target.abort_uploads(map(target.destination.in_folder, paths))
    target.delete(listings)


class Finished(NamedTuple):
    """A complete folder: what the files of all units are together."""

    size: int  # of its files, in bytes
    listing: FileEntry
    companions: dict[str, bytes]  # what lies beside it, by name


def finish_folder(
    layout: Format,
    names: Iterable[str],
    units: Target,
    target: Target,
    classes: tuple[str, ...] | None,
    counts: Counter[str],
) -> Finished:
    """Give the files their names, where they have them not yet, and write the listing beside them.

    ``units`` is where the listings of the units with these names are. What happens to samples on
    the way is counted.
    """
    destination = target.destination
    listing = destination.companion(LISTING)
    assert isinstance(layout, TreeFormat)
    if destination.remote is None and not units.tree.is_dir() and listing.exists():
        return _finished(layout, destination, listing, classes)
    listings = [units.destination.url(units.listing(name)) for name in names]

    def samples() -> Iterator[Listed]:
        return chain.from_iterable(map(read_listing, listings))

    if units is target:
        _require_one_each(samples)
    own = target.temporary / "metadata"
    with destination_errors(own):
        own.mkdir(exist_ok=True)
    metadata = _write_metadata(layout.metadata_lines(samples, counts), own)
    units.publish_tree(own, metadata)
    made = target.partial(listing.name)
    with destination_errors(made), made.open("wb") as file:
        for sample, following in pairwise(chain(samples(), [None])):
            assert sample is not None
            if following is None:  # the files of all samples are listed with the last one
                sample = sample._replace(files=(*sample.files, *metadata))
            file.write(sample.to_json())
    finished = _finished(layout, destination, made, classes)
    if destination.remote is not None:
        _require_listed(target, made)
    target.publish([finished.listing])
    if destination.remote is None:
        _name_tree(units.tree, folder_of(destination))
    return finished


def _finished(
    layout: TreeFormat, destination: Destination, listing: Path, classes: tuple[str, ...] | None
) -> Finished:
    receipt = FileEntry.of(listing, destination.companion(LISTING).name)
    size = sum(each.size for each in read_listing(listing))
    return Finished(size, receipt, _companions_of(layout, destination, listing, classes))


def _require_one_each(samples: Callable[[], Iterable[Listed]]) -> None:
    """Refuse two samples whose files have one path, or one the path of a directory of the other."""
    # Within a unit, the worker sees it.
    twice, above = hashes_twice(samples())
    holders: dict[str, str] = {}
    for sample in samples() if twice else ():
        for path in (file.path for file in sample.files if hash(file.path) in twice):
            if path in above or path in holders:
                raise taken_error(sample.key, path, holders.get(path, ""))
            holders[path] = sample.key


def hashes_twice(samples: Iterable[Listed]) -> tuple[set[int], set[str]]:
    """Return hashes of paths that may be those of two files, and all directories above files."""
    # There may be millions: what is compared first are hashes.
    import polars as pl

    hashes, above = array("q"), set[str]()
    for sample in samples:
        for file in sample.files:
            hashes.append(hash(file.path))
            directory = file.path.rpartition("/")[0]
            while directory and directory not in above:
                above.add(directory)
                directory = directory.rpartition("/")[0]
    column = pl.Series(hashes, dtype=pl.Int64)
    twice = set(column.filter(column.is_duplicated()))
    twice |= set(column.filter(column.is_in(list(map(hash, above)))))
    return twice, above


def _require_listed(target: Target, listing: Path) -> None:
    """Refuse a folder in a store that lacks a file of its listing, or has others."""
    there = target.folder_files()
    for file in _files(listing):
        if there.pop(file.path, (-1, ""))[0] != file.bytes:
            url = target.destination.url(target.destination.in_folder(file.path))
            raise DestinationError(
                f"{url}: was written, and is not there any more; give the same command again to "
                "write it again"
            )
    for path in there.keys() - (_paths(target, [_replaced(target)]) if there else set()):
        raise _not_own(target, path)


def _name_tree(tree: Path, final: Path) -> None:
    """Give a tree its name, when it is on the disk."""
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


def sizes_in_folder(target: Target) -> Iterator[tuple[str, int, int | None]]:
    """Yield the path of each file of a folder, its size by the listing, and its size there.

    Sizes are in bytes; that of a file that is not there is None.

    Raises:
        OSError: The listing cannot be read.
        ValueError: The listing is damaged.
    """
    destination = target.destination
    listing = destination.url(destination.companion(LISTING).name)
    if destination.remote is not None:
        there = target.folder_files()
        for path, size, _ in _files(listing):
            yield path, size, there[path][0] if path in there else None
        return
    folder = folder_of(destination)
    for path, size, _ in _files(listing):
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


def _companions_of(
    layout: TreeFormat, destination: Destination, listing: Path, classes: tuple[str, ...] | None
) -> dict[str, bytes]:
    """Return the list of a folder, and its augmented manifest if that is the format."""
    found = dict[str, bytes]()
    if text := _format_list(read_listing(listing)):
        found[destination.companion("lst").name] = text.encode()
    try:
        lines = layout.references(read_listing(listing), classes)
    except BadSample as error:
        raise SourceError(f"{error}; --to folder needs no such labels") from None
    if lines is not None:
        found[destination.companion("manifest").name] = lines.encode()
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
    import ctypes  # slow to load

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


def remove_folder(target: Target, names: Collection[str], kept: str = "") -> None:
    """Remove the files of a folder whose listing has one of these names.

    In a store, those stay that another listing, which is ``kept``, names as well.
    """
    destination, name = target.destination, target.destination.companion(LISTING).name
    if name not in names:
        return
    listing = destination.url(name)
    try:
        if destination.remote is None:
            if destination.companion(LISTING).exists():
                target.delete_files(path for path, *_ in _files(listing))
            return
        replaced = _paths(target, [_replaced(target)]) or _paths(target, [listing])
        target.delete_files(sorted(replaced - (_paths(target, [kept]) if kept else set())))
    except ValueError as error:
        raise DestinationError(f"{listing}: {error}; remove the folder yourself") from None


def delete_files(folder: Path, paths: Iterable[str]) -> None:
    """Delete files in a folder on a disk, and the directories that are then empty."""
    # Nothing else that lies there is removed, and no link is followed.
    are_real = {"": True}  # directories that exist, no part of their paths being a link

    def is_real(directory: str) -> bool:
        if directory not in are_real:
            path, above = folder / directory, directory.rpartition("/")[0]
            are_real[directory] = is_real(above) and path.is_dir() and not path.is_symlink()
        return are_real[directory]

    with destination_errors(folder):
        for path in paths if not folder.is_symlink() else ():
            if ".." in path.split("/") or path[:1] == "/":
                raise ValueError("names a file elsewhere")
            if is_real(path.rpartition("/")[0]):
                (folder / path).unlink(missing_ok=True)
        for directory in sorted(filter(is_real, list(are_real)), key=len, reverse=True):
            with suppress(OSError):
                os.rmdir(folder / directory)


def move_files(source: Path, tree: Path, paths: Iterable[str]) -> None:
    """Move files from one tree to another on the same disk; no link is followed."""
    made = {""}

    def make(directory: str) -> None:
        if directory in made:
            return
        make(directory.rpartition("/")[0])
        with suppress(FileExistsError):
            (tree / directory).mkdir()
        if not S_ISDIR((tree / directory).lstat().st_mode):
            raise taken_error(directory, directory)
        made.add(directory)

    for path in paths:
        make(path.rpartition("/")[0])
        try:
            os.replace(source / path, tree / path)
        except IsADirectoryError:
            raise taken_error(path, path) from None
    shutil.rmtree(source, ignore_errors=True)


def files_below(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the files below a folder, links not followed, with their sizes."""
    for directory, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(directory, name)
            yield os.path.relpath(path, folder), os.lstat(path).st_size


def _files(listing: Path | str) -> Iterator[File]:
    return chain.from_iterable(sample.files for sample in read_listing(listing))
