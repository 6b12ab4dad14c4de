"""Data sets of bare pixels: CIFAR-10 and CIFAR-100 as downloaded, and MNIST-style idx files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeAlias

from dsprep.catalog import Catalog
from dsprep.errors import SourceError
from dsprep.sample import image_kind_of
from dsprep.sources import cifar, idx
from dsprep.sources.archive import archive_kind, split_path
from dsprep.sources.batches import PARTS, Batch, catalog_of
from dsprep.sources.held import Held, files_in, members_in
from dsprep.storage.paths import exists, is_dir, is_file

Batches: TypeAlias = tuple[list[Batch], tuple[str, ...] | None]
"""Batches, and the class names if the data set has them."""


def read_pixels(
    paths: Sequence[str], classes: tuple[str, ...] | None, *, may_mix: bool = False
) -> Catalog | None:
    """Make the catalog of data sets whose images are bare pixels.

    Each path is that of a directory or an archive of CIFAR or of idx files, or of something in it:
    a directory of the archive, one batch, one file of images, or one part (``PATH/train`` or
    ``PATH/test``). Where there are several sets of idx files, such as EMNIST's, a path takes the
    name of one: ``PATH/emnist-letters/train``.
    """
    batches: list[Batch] = []
    names: dict[tuple[str, ...] | None, str] = {}
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
        raise SourceError(f"{other}: has other class names than {first}: pack each by itself")
    again = [each.name for at, each in enumerate(batches) if each in batches[:at]]
    if again:
        raise SourceError(f"{again[0]}: is named twice")
    return catalog_of(batches, paths[0], next(iter(names)), classes)


def _require_one_part(path: str, batches: Sequence[Batch]) -> None:
    counts = {
        part: sum(each.images for each in batches if each.directory.split("/")[0] == part)
        for part in PARTS
    }
    if all(counts.values()):
        path = path.rstrip("/")
        raise SourceError(
            f"{path}: holds {counts['train']:,} training and {counts['test']:,} test images, which "
            f"would be mixed in one data set: give {path}/train or {path}/test, each with a "
            f"destination of its own; '{path}/{{train,test}}' mixes them"
        )


def _read(path: str) -> Batches | None:
    """Read what a path names; None if it is something else."""
    whole, inner = _split(path.rstrip("/") or path)
    if is_dir(whole):
        held = files_in(whole, _is_part)
    elif not is_file(whole):
        return None
    elif archive_kind(whole) is None:
        directory, name = os.path.split(whole)
        directory = directory or "."
        beside = files_in(directory, _is_part) or files_in(directory, name.__eq__)
        return None if inner else _of_file(beside, name)
    else:
        held = members_in(whole, lambda name: _is_part(name) or image_kind_of(name) is not None)
        if any(image_kind_of(each.name) for each in held):
            return None  # images, whatever lies beside them
    directory, name = os.path.split(inner)
    found = _of_file([each for each in held if each.directory == directory], name)
    if found is not None:
        return found
    names = inner.split("/") if inner else []
    for cut in range(len(names), max(len(names) - 3, -1), -1):
        together = _together(whole, held, "/".join(names[:cut]))
        if together:
            found = _of_part(whole, together, names[cut:])
            if not found[0]:
                raise SourceError(f"{path}: there is no such part of {whole}")
            return found
    return None


def _split(path: str) -> tuple[str, str]:
    """Tell the directory, the archive or the file in a path from what is named in it."""
    if exists(path):
        return path, ""
    in_file = split_path(path)
    if in_file is not None:
        return in_file
    directory, name = os.path.split(path)
    above, set_name = os.path.split(directory)
    return (directory, name) if exists(directory) else (above, f"{set_name}/{name}")


def _is_part(name: str) -> bool:
    return cifar.is_part(name) or idx.is_part(name)


def _of_file(beside: Sequence[Held], name: str) -> Batches | None:
    """Read one batch, or one file of images, with what lies beside it."""
    for images in idx.images_files(beside, name):
        return [idx.read_batch(images)], None
    version = cifar.version_of(beside, name)
    return None if version is None else cifar.read_batches(beside, version, name)


def _together(whole: str, held: Sequence[Held], directory: str) -> list[Held]:
    """Return the files of the data set in a directory of an archive, or below."""
    found: dict[str, list[Held]] = {}
    for each in held:
        if not directory or f"{each.directory}/".startswith(f"{directory}/"):
            found.setdefault(each.directory, []).append(each)
    found = {
        path: files
        for path, files in found.items()
        if idx.images_files(files) or cifar.version_of(files)
    }
    depths = {path: path.count("/") + bool(path) for path in found}
    first = [path for path in sorted(found) if depths[path] == min(depths.values())]
    if len(first) > 1:
        raise _several(whole, first)
    return found[first[0]] if first else []


def _of_part(whole: str, together: Sequence[Held], names: Sequence[str]) -> Batches:
    """Read the part of a data set, of one of its sets of idx files, or all of it."""
    part = names[-1] if names and names[-1] in PARTS else None
    sets = names if part is None else names[:-1]
    images = idx.images_files(together)
    if len(sets) > 1 or (sets and not images):
        return [], None
    if not images:
        version = cifar.version_of(together)
        assert version is not None
        return cifar.read_batches(together, version, part)
    there = sorted({each.set for each in images})
    if not sets and len(there) > 1:
        raise _several(whole, there)
    chosen = [each for each in images if each.set in (sets or there)]
    chosen = [each for each in chosen if part in (None, each.part)]
    chosen.sort(key=lambda each: (each.part == "test", each.held.path, each.held.name))
    return [idx.read_batch(each) for each in chosen], None


def _several(whole: str, names: Sequence[str]) -> SourceError:
    return SourceError(
        f"{whole}: holds several data sets: name one of them, such as {whole}/{names[-1]}"
    )
