"""Data sets of bare pixels: which files of CIFAR or MNIST a path names, as a catalog."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TypeAlias

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import SourceError
from dsprep.sample import image_kind_of
from dsprep.sources import cifar, mnist
from dsprep.sources.archive import archive_kind, open_archive, split_path
from dsprep.sources.archive_reader import ArchiveMember
from dsprep.sources.classes import unknown_classes
from dsprep.sources.pixel_reader import BatchFile, LabeledBatch, PixelReader
from dsprep.storage.files import entries, exists, facts, is_dir, is_file

Names: TypeAlias = tuple[str, ...] | None
"""The class names, if the data set or the user gives them."""

PARTS = ("train", "test")

_MOST_FILES = 1000
"""Files in a directory that may still be a known data set."""

_FILE_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")


def read_pixels(paths: Sequence[str], classes: Names, *, may_mix: bool = False) -> Catalog | None:
    """Make the catalog of data sets whose images are bare pixels; None if a path is of none.

    Each path is that of a directory or an archive of CIFAR or of idx files, or of something in it:
    a directory of the archive, one batch, one file of images, or one part (``PATH/train`` or
    ``PATH/test``). Where there are several sets of idx files, such as EMNIST's, a path takes the
    name of one: ``PATH/emnist-letters/train``.
    """
    batches: list[LabeledBatch] = []
    names: dict[Names, str] = {}
    for path in paths:
        found = _read(path)
        if found is None:
            return None
        if not may_mix:
            _require_one_part(path, found[0])
        batches += found[0]
        names.setdefault(found[1], path)
    if len(names) > 1:
        first, other, *_ = names.values()
        raise SourceError(f"{other}: has other class names than {first}; pack them one by one")
    again = [each.batch.file for at, each in enumerate(batches) if each in batches[:at]]
    if again:
        raise SourceError(f"{again[0]}: is named twice")
    return _catalog(batches, paths[0], next(iter(names)), classes)


def _require_one_part(path: str, batches: Sequence[LabeledBatch]) -> None:
    counts = {
        part: sum(each.batch.images for each in batches if each.directory.split("/")[0] == part)
        for part in PARTS
    }
    if all(counts.values()):
        path = path.rstrip("/")
        raise SourceError(
            f"{path}: holds {counts['train']:,} training and {counts['test']:,} test images, which "
            f"would be mixed in one data set: give {path}/train or {path}/test, each with a "
            f"destination of its own; '{path}/{{train,test}}' mixes them"
        )


# Files


def _read(path: str) -> tuple[list[LabeledBatch], Names] | None:
    """Read what a path names; None if it is something else."""
    place, inner = _split(path.rstrip("/") or path)
    is_batch = False
    if is_dir(place):
        files = _files_in(place)
    elif not is_file(place):
        return None
    elif archive_kind(place) is not None:
        files = _members_in(place)
        if any(image_kind_of(file.name) for file in files):
            return None  # images, whatever lies beside them
    elif inner:
        return None
    else:
        is_batch = True
        place, inner = os.path.split(place)
        files = _files_in(place or ".")
    directory, name = os.path.split(inner)
    beside = [file for file in files if file.directory == directory]
    for images in mnist.images_files(beside, name):
        return [mnist.read_batch(images)], None
    version = cifar.version_of(beside, name)
    if version is not None:
        return cifar.read_batches(beside, version, name)
    if is_batch:
        return None
    names = inner.split("/") if inner else []
    for cut in range(len(names), max(len(names) - 3, -1), -1):
        together = _together(place, files, "/".join(names[:cut]))
        if together:
            found = _of_part(place, together, names[cut:])
            if not found[0]:
                raise SourceError(f"{path}: there is no such part of {place}")
            return found
    return None


def _split(path: str) -> tuple[str, str]:
    """Split a path into a directory, an archive or a file, and the path in it."""
    if exists(path):
        return path, ""
    in_file = split_path(path)
    if in_file is not None:
        return in_file
    directory, name = os.path.split(path)
    above, set_name = os.path.split(directory)
    return (directory, name) if exists(directory) else (above, f"{set_name}/{name}")


def _is_part(name: str) -> bool:
    return cifar.is_part(name) or mnist.is_part(name)


def _files_in(directory: str) -> list[BatchFile]:
    """Return the files of data sets in a directory; none if it has too many files for one."""
    found: list[BatchFile] = []
    try:
        for number, entry in enumerate(entries(directory)):
            if number >= _MOST_FILES:
                return []
            if _is_part(entry.name) and entry.is_file():
                path = os.path.join(directory, entry.name)
                found.append(BatchFile(entry.name, "", path, *facts(path)))
    except OSError:
        return []  # the error comes again when it is read as something else
    return sorted(found)


def _members_in(path: str) -> list[BatchFile]:
    """Return the files of data sets, and images, in an archive."""
    _, _, listing, reader = open_archive(path)

    def is_wanted(name: str) -> bool:
        return _is_part(name) or image_kind_of(name) is not None

    for damage in listing.damage:
        raise SourceError(f"{path}: {damage.detail}; download it again")
    for name, reason in listing.unreadable:
        if is_wanted(os.path.basename(name)):
            raise SourceError(f"{path}: {name} cannot be read ({reason})")
    found: dict[tuple[str, str], BatchFile] = {}
    for at, full_name in enumerate(listing.names):
        directory, name = os.path.split(os.path.normpath(full_name))
        if not is_wanted(name):
            continue
        if (directory, name) in found:
            raise SourceError(f"{path}: has two files called {name}")
        size = listing.sizes[at]
        member = ArchiveMember(reader, listing.offsets[at], listing.stored[at], size)
        found[directory, name] = BatchFile(name, directory, path, size, reader.mtime or 0, member)
    return sorted(found.values(), key=lambda file: (file.directory, file.name))


def _together(place: str, files: Sequence[BatchFile], directory: str) -> list[BatchFile]:
    """Return the files of the data set in a directory of an archive, or below."""
    found: dict[str, list[BatchFile]] = {}
    for file in files:
        if not directory or f"{file.directory}/".startswith(f"{directory}/"):
            found.setdefault(file.directory, []).append(file)
    found = {
        path: files
        for path, files in found.items()
        if mnist.images_files(files) or cifar.version_of(files)
    }
    depths = {path: path.count("/") + bool(path) for path in found}
    first = [path for path in sorted(found) if depths[path] == min(depths.values())]
    if len(first) > 1:
        raise _several(place, first)
    return found[first[0]] if first else []


def _of_part(
    place: str, together: Sequence[BatchFile], names: Sequence[str]
) -> tuple[list[LabeledBatch], Names]:
    """Read the part of a data set, of one of its sets of idx files, or all of it."""
    part = names[-1] if names and names[-1] in PARTS else None
    sets = names if part is None else names[:-1]
    images = mnist.images_files(together)
    if len(sets) > 1 or (sets and not images):
        return [], None
    if not images:
        version = cifar.version_of(together)
        assert version is not None
        return cifar.read_batches(together, version, part)
    known = sorted({each.set for each in images})
    if not sets and len(known) > 1:
        raise _several(place, known)
    chosen = [each for each in images if each.set in (sets or known)]
    chosen = [each for each in chosen if part in (None, each.part)]
    chosen.sort(key=lambda each: (each.part == "test", each.file.path, each.file.name))
    return [mnist.read_batch(each) for each in chosen], None


def _several(place: str, names: Sequence[str]) -> SourceError:
    return SourceError(
        f"{place}: has several data sets; name one of them, such as {place}/{names[-1]}"
    )


# The catalog


def _catalog(batches: Sequence[LabeledBatch], root: str, names: Names, classes: Names) -> Catalog:
    labeled = [each.labels is not None for each in batches]
    if any(labeled) and not all(labeled):
        bare = batches[labeled.index(False)].batch.file
        raise SourceError(f"{bare}: has no labels beside it, where others have")
    if classes is not None and not any(labeled):
        raise SourceError(f"{root}: has no labels, but a list of {len(classes)} classes was given")
    tables = [_table(each, number, names, classes) for number, each in enumerate(batches)]
    table = pl.concat(tables) if tables else pl.DataFrame()
    if table.is_empty():
        raise SourceError(f"{root}: holds no images")
    index = pl.int_range(table.height, dtype=pl.Int64, eager=True).alias("index")
    table = table.select(index, pl.all())
    known = classes if classes is not None else names
    reader = PixelReader(tuple(each.batch for each in batches))
    return Catalog(table, root, known if any(labeled) else None, reader)


def _table(labeled: LabeledBatch, number: int, names: Names, classes: Names) -> pl.DataFrame:
    batch, directory, labels, file_names = labeled
    count, size = batch.images, batch.size
    numbers = pl.int_range(count, dtype=pl.Int64, eager=True)
    digits = numbers.cast(pl.String).str.zfill(max(5, len(str(count - 1))))
    stems = pl.Series([f"{directory}/".removeprefix("/")]) + digits
    if file_names is not None:
        originals = (name.rpartition(".")[0] or name for name in file_names)
        suffixes = [f"_{name}" if _FILE_NAME.fullmatch(name) else "" for name in originals]
        stems += pl.Series(suffixes, dtype=pl.String)

    def same(value: int) -> pl.Series:
        return pl.repeat(value, count, dtype=pl.Int64, eager=True)

    columns = {
        "path": stems + ".png",
        "size": same(size),
        "mtime": same(batch.file.mtime),
        "file": same(number),
        "offset": numbers * size,
        "stored": same(size),
    }
    if labels is not None:
        series = pl.Series("cls", labels, dtype=pl.Int64)
        columns["cls"] = _classes(batch.file, series, names, classes)
    return pl.DataFrame(columns)


def _classes(file: BatchFile, labels: pl.Series, names: Names, classes: Names) -> pl.Series:
    known = names if names is not None else classes
    if known is None:
        return labels
    outside = (~labels.is_between(0, len(known) - 1)).arg_true()
    if len(outside):
        raise SourceError(
            f"{file}: image {outside[0]} has the label {labels[outside[0]]}, which is none "
            f"of the {len(known)} classes"
        )
    if names is None or classes is None or names == classes:
        return labels
    unknown = [name for name in names if name not in classes]
    if unknown:
        raise unknown_classes(str(file), unknown, classes)
    renumbered = [classes.index(name) for name in names]
    return labels.replace_strict(range(len(names)), renumbered, return_dtype=pl.Int64)
