"""Which shards a user means: by a name, a pattern, a directory or a manifest."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, product
from math import prod

from dsprep.errors import OptionError, SourceError
from dsprep.formats import CONCATENATIVE, Format, format_of_source
from dsprep.manifests.manifest import read_manifest
from dsprep.manifests.recorded import recorded_options
from dsprep.sample import image_kind_of
from dsprep.stores.paths import absent, entries, exists, is_dir, is_file
from dsprep.stores.patterns import find_files

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_MOST_FILES = 1_000_000


@dataclass(frozen=True)
class ShardSet:
    """Shards of one data set, or of several.

    Attributes:
        name: What the user called them.
        files: Their paths, in order.
        layout: Their format.
        classes: Class names, where a file beside the shards tells them.
        known: Whether a manifest or the user says that these are shards.
        samples: How many samples a file holds, by its path, where a manifest tells.
        unused_classes: A file of class names beside a shard that nothing says it belongs to.
    """

    name: str
    files: tuple[str, ...]
    layout: Format
    classes: tuple[str, ...] | None = None
    known: bool = False
    samples: Mapping[str, int] = field(default_factory=dict)
    unused_classes: str = ""


def joined(sets: Sequence[ShardSet]) -> ShardSet:
    """Several sets of shards as one.

    Raises:
        SourceError: If they are of several formats, or number their classes differently.
    """
    first = sets[0]
    for other in sets[1:]:
        if other.layout != first.layout:
            raise SourceError(
                f"{other.name}: is {other.layout.name} of another layout than {first.name}: "
                "features, keys or labels differ"
                if other.layout.name == first.layout.name
                else f"{other.name}: is {other.layout.name}, but {first.name} {first.layout.name}"
            )
        if other.classes != first.classes:
            raise SourceError(
                f"{other.name}: has other classes than {first.name}; bring them to one order first"
            )
    files = tuple(chain.from_iterable(each.files for each in sets))
    samples = {path: count for each in sets for path, count in each.samples.items()}
    return replace(first, files=files, samples=samples)


def expand(pattern: str) -> list[str]:
    """The files that a name with braces or wildcards means: itself, if it has neither.

    ``train-{000000..000146}.tar`` are all of those names, there or not; ``train-*.tar`` are the
    files that are there, in plain sorted order.

    Raises:
        SourceError: If there are none, or no end of them.
    """
    if exists(pattern):
        return [pattern]
    names = _expand_braces(pattern)
    if not any(mark in pattern for mark in "*?["):
        return names
    found = list(chain.from_iterable(find_files(name) for name in names))
    if not found:
        raise SourceError(f"{pattern}: there are no such files")
    return list(dict.fromkeys(found))


def _expand_braces(pattern: str) -> list[str]:
    choices = []
    for inner in _BRACES.findall(pattern):
        bounds = _RANGE.fullmatch(inner)
        if bounds is None:
            choices.append(inner.split(","))
            continue
        first, last = int(bounds[1]), int(bounds[2])
        if not 0 <= last - first < _MOST_FILES:
            raise SourceError(f"{pattern}: {{{inner}}} is not a range of shards")
        choices.append([f"{number:0{len(bounds[1])}d}" for number in range(first, last + 1)])
    if prod(map(len, choices)) > _MOST_FILES:
        raise SourceError(f"{pattern}: is more than {_MOST_FILES:,} shards")
    texts = _BRACES.split(pattern)[::2]
    return [
        "".join(chain.from_iterable(zip(texts, (*chosen, ""), strict=True)))
        for chosen in product(*choices)
    ]


def find_shards(source: str, format_name: str | None = None) -> ShardSet | None:
    """Tell which shards a name means.

    Args:
        source: A shard, a pattern of shards, a directory of them, or a manifest.
        format_name: Their format, if the user says it; else their names tell.

    Returns:
        The shards, or None if this is something else.

    Raises:
        SourceError: If it means shards that are not there, or of several formats.
    """
    if not exists(source):
        files = expand(source)
        if len(files) == 1 and not exists(files[0]):
            return None
        return _of_files(source, files, format_name)
    if is_dir(source):
        return _of_directory(source, format_name)
    if source.endswith("manifest.json"):
        return _of_manifest(source)
    beside = f"{source}.manifest.json"
    is_shard = format_of_source(source) is not None
    if is_shard and exists(beside) and read_manifest(beside).has_shard(os.path.basename(source)):
        return _of_manifest(beside)
    return _of_files(source, [source], format_name, alone=True)


def _of_files(
    name: str, files: Sequence[str], format_name: str | None, *, alone: bool = False
) -> ShardSet | None:
    told = {format_of_source(os.path.basename(path)) for path in files}
    if format_name is None and None in told:
        return None
    missing = absent(files)
    if missing:
        raise SourceError(f"{missing[0]}: there is no such shard ({name})")
    if format_name is None:
        if len(told) > 1:
            names = " and ".join(sorted(each.name for each in told if each))
            raise SourceError(f"{name}: shards of {names}; name those of one format")
        (layout,) = told
        assert layout is not None
    else:
        layout = _known(format_name)
    classes = _classes_beside(files, alone)
    made = layout()
    if made.needs_labels:
        unlabeled = without_labels(files)
        if unlabeled and (others := set(files) - unlabeled):
            raise SourceError(
                f"{name}: the samples of {min(unlabeled)} have no labels, and those of "
                f"{min(others)} have; read them one after the other"
            )
        made = made.with_labels(not unlabeled)
    found = ShardSet(name, tuple(files), made.exact(), classes, known=format_name is not None)
    unused = os.path.join(os.path.dirname(files[0]), "classes.txt")
    is_unused = alone and classes is None and is_file(unused)
    return replace(found, unused_classes=unused) if is_unused else found


def without_labels(files: Sequence[str]) -> set[str]:
    """Find the shards whose labels are placeholders, as manifests beside them say."""
    beside = {f"{path}.manifest.json" for path in files}
    beside |= {os.path.join(os.path.dirname(path), "manifest.json") for path in files}
    found: set[str] = set()
    for path in beside.difference(absent(sorted(beside))):
        with suppress(SourceError):  # another program may have written a file of that name
            manifest = read_manifest(path)
            layout = recorded_options(manifest).layout
            if layout.needs_labels and layout == layout.with_labels(False):
                directory = os.path.dirname(path)
                found.update(os.path.join(directory, shard.name) for shard in manifest.shards)
    return found.intersection(files)


def _known(format_name: str) -> type[Format]:
    if format_name not in CONCATENATIVE:
        choices = ", ".join(CONCATENATIVE)
        raise OptionError(f"--from {format_name}: unknown; choose one of {choices}")
    return CONCATENATIVE[format_name]


def _of_directory(directory: str, format_name: str | None) -> ShardSet | None:
    manifest = os.path.join(directory, "manifest.json")
    if exists(manifest):
        return _of_manifest(manifest)
    names = []
    for entry in entries(directory):
        if entry.name.startswith("."):
            continue
        if image_kind_of(entry.name) or entry.is_dir():
            return None  # a tree of images, however many there are
        if _is_shard(entry.name, format_name):
            names.append(entry.name)
    if not names:
        return None
    files = [os.path.join(directory, name) for name in sorted(names)]
    return _of_files(directory, files, format_name)


def _is_shard(name: str, format_name: str | None) -> bool:
    layout = format_of_source(name)
    return layout is not None and layout.concatenative and format_name in (None, layout.name)


def _of_manifest(path: str) -> ShardSet | None:
    """The shards of a manifest, read as they were made; None if they are Parquet or files."""
    manifest = read_manifest(path)
    try:
        layout = recorded_options(manifest).layout
    except SourceError as error:
        raise SourceError(f"{path}: {error}") from None
    if not layout.concatenative:
        return None  # a folder, or Parquet, which is a source of its own
    directory = os.path.dirname(path)
    files = [os.path.join(directory, shard.name) for shard in manifest.shards]
    found = _of_files(path, files, layout.name)
    if found is None:
        return None
    samples = {file: shard.samples for file, shard in zip(files, manifest.shards, strict=True)}
    return replace(
        found, layout=layout.exact(), classes=manifest.classes, known=True, samples=samples
    )


def _classes_beside(files: Sequence[str], alone: bool) -> tuple[str, ...] | None:
    """Read the class names of ``classes.txt``, or of the one that is named after a single shard.

    Args:
        files: The shards.
        alone: Whether the user named one shard. Then ``classes.txt`` may belong to anything else
            in that directory, such as a list, unless a manifest there names the shard.
    """
    from dsprep.sources.classes import read_classes  # not before polars is there

    directory, first = os.path.split(files[0])
    names = ["classes.txt"]
    if alone:
        names = [f"{first}.classes.txt", *(names if _is_of_set(directory, first) else [])]
    for name in names:
        path = os.path.join(directory, name)
        if is_file(path):
            return read_classes(path)
    return None


def _is_of_set(directory: str, name: str) -> bool:
    """Whether the manifest of a directory names a shard."""
    manifest = os.path.join(directory, "manifest.json")
    with suppress(SourceError):  # another program may have written a file of that name
        return exists(manifest) and read_manifest(manifest).has_shard(name)
    return False
