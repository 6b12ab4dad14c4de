"""Data sets of bare pixels: CIFAR-10 and CIFAR-100 as downloaded, and MNIST-style idx files."""

from __future__ import annotations

import os

from dsprep.catalog import Catalog
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.sources import cifar, idx
from dsprep.sources.batches import PARTS, Batch, catalog_of
from dsprep.stores.paths import entries, exists, is_dir, is_file

_MOST_FILES = 1000
"""Files in a directory that may still be such a data set."""


def read_pixels(path: str, classes: tuple[str, ...] | None) -> tuple[Catalog, list[Finding]] | None:
    """Make the catalog of a data set whose images are bare pixels.

    That is an archive of CIFAR or what it unpacks to, or a directory of idx files; one batch or one
    file of images of these; or one part, as ``PATH/train`` or ``PATH/test``. A directory of several
    sets of idx files, such as EMNIST's, takes the name of one: ``PATH/emnist-letters/train``.

    Args:
        path: What the user named.
        classes: The classes and their order, if they are fixed already.

    Returns:
        The catalog, the training images first, and what was noticed; None if it is something else.

    Raises:
        SourceError: If it is damaged, has no such part, or a label is not that of a class.
    """
    whole, part, prefix = path.rstrip("/") or path, None, None
    found = _batches(whole, part, prefix)
    if found is None and not exists(whole):
        whole, part = _without(whole, PARTS)
        found = _batches(whole, part, prefix)
        if found is None and not exists(whole):
            whole, prefix = os.path.split(whole)
            found = _batches(whole, part, prefix)
    if found is None:
        return None
    batches, names = found
    if not batches:
        raise SourceError(f"{path}: there is no such part of {whole}")
    return catalog_of(batches, path, names, classes), []


def _without(path: str, parts: tuple[str, ...]) -> tuple[str, str | None]:
    directory, name = os.path.split(path)
    return (directory, name) if name in parts else (path, None)


def _batches(
    path: str, part: str | None, prefix: str | None
) -> tuple[list[Batch], tuple[str, ...] | None] | None:
    """The batches at a path that exists, and the class names; None if it is something else.

    Args:
        path: A file or a directory.
        part: The part that was named, if one was.
        prefix: The set of idx files that was named, if one was.
    """
    if is_dir(path):
        return _of_directory(path, part, prefix)
    if not is_file(path) or prefix is not None:
        return None
    images = idx.images_file(path)
    if images is not None:
        return None if part else ([idx.read_batch(images)], None)
    if cifar.is_archive(path):
        held = cifar.in_archive(path)
        version = cifar.version_of(held)
        if version is None:
            raise SourceError(f"{path}: holds none of CIFAR's batches")
        return cifar.read_batches(held, version, part)
    if part:
        return None
    directory, name = os.path.split(path)
    if not cifar.in_directory(directory, [name]):
        return None
    held = cifar.in_directory(directory, _files(directory or ".") or [name])
    version = cifar.version_of(held, name)
    return None if version is None else cifar.read_batches(held, version, name)


def _of_directory(
    path: str, part: str | None, prefix: str | None
) -> tuple[list[Batch], tuple[str, ...] | None] | None:
    names = _files(path)
    images = idx.images_files(path, names)
    if images:
        return _of_idx(path, images, part, prefix), None
    held = cifar.in_directory(path, names)
    version = None if prefix is not None else cifar.version_of(held)
    return None if version is None else cifar.read_batches(held, version, part)


def _files(directory: str) -> list[str]:
    """The names of the files in a directory, or none if they are too many."""
    found: list[str] = []
    try:
        for number, entry in enumerate(entries(directory)):
            if number >= _MOST_FILES:
                return []
            if entry.is_file():
                found.append(entry.name)
    except OSError:
        return []  # whoever reads it next will say so
    return found


def _of_idx(
    path: str, images: list[idx.ImagesFile], part: str | None, prefix: str | None
) -> list[Batch]:
    sets = sorted({each.set for each in images})
    if prefix is None and len(sets) > 1:
        raise SourceError(
            f"{path}: holds several data sets: name one of them, such as {path}/{sets[-1]}"
        )
    chosen = [each for each in images if prefix in (None, each.set) and part in (None, each.part)]
    chosen.sort(key=lambda each: (each.part == "test", each.path))
    return [idx.read_batch(each) for each in chosen]
