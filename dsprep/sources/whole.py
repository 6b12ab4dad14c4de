"""Sources whose samples are whole already: shards, and what data sets are downloaded as.

What a user names is looked at here first. What is none of these is a tree of images: a directory or
an archive. A list, or a table of labels, chooses from the one as from the other.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from dsprep.errors import ApartMembers, DsprepError, OptionError, SourceError
from dsprep.findings import Finding
from dsprep.formats import CONCATENATIVE, format_of_source, shard_stem
from dsprep.formats.augmented import MANIFESTS
from dsprep.formats.stream import ShardStream
from dsprep.formats.webdataset import WebDataset
from dsprep.sample import IMAGE_EXTENSIONS, OTHER_IMAGES, image_kind_of
from dsprep.sources.scan import RunAll
from dsprep.storage.paths import Entry, entries, exists, is_dir

if TYPE_CHECKING:
    from dsprep.catalog import Catalog
    from dsprep.schema import Schema
    from dsprep.sources.reading import Source
    from dsprep.sources.shardset import ShardSet

KINDS = (*CONCATENATIVE, "images", "imagefolder", "parts", "pixels", "parquet", "manifest")
"""What ``--from`` names; without it, what a source is shows."""

_PIXELS = re.compile(r"cifar|idx[13]-ubyte|_batch|^batches.meta|mnist", re.IGNORECASE)
"""What names of CIFAR's and MNIST's files hold."""

_PATTERN = re.compile(r"[*?[{]")

_CIFAR_100 = frozenset({"meta", "fine_label_names.txt"})
"""Names of files of CIFAR-100 that tell it, as its batches are called ``train`` and ``test``."""

_LOOKED_AT = 64
"""Samples of a tar, or names in a directory, that tell what it holds."""

_STATS = "_stats.json"
"""What names of img2dataset's reports end with."""


def read_whole(source: Source, run_all: RunAll = map) -> tuple[Catalog, list[Finding]] | None:
    """Make the catalog of a source whose samples are whole; None if it is a tree of images."""
    if source.kind not in (None, *KINDS):
        raise OptionError(f"--from {source.kind}: choose one of {', '.join(KINDS)}")
    if source.kind == "images":
        return None
    try:
        listed = _manifest(source, run_all)
        if listed is not None:
            return listed
        # A list that was made of it was made of whole samples, and has classes of its own.
        own = replace(source, classes=None, whole=True) if source.chooses else source
        if not source.parts and not source.pairs and source.kind != "parts":
            own = _located(own)
        found = (
            _parts(own, run_all)
            or _described(own, run_all)
            or _parquet(own, run_all)
            or _pixels(own)
            or _shards(own, run_all)
        )
    except OSError as error:
        place = error.filename or source.root
        raise SourceError(f"{place}: cannot be read ({error.strerror})") from None
    if found is None:
        _require_alone(source)
        if source.kind is not None:
            raise SourceError(f"{source.root}: is not what --from {source.kind} says")
        return None
    if own.root != source.root:
        found = found[0], [Finding("note", "", f"the samples are those of {own.root}"), *found[1]]
    return _chosen(source, *found, run_all) if source.chooses else found


def _located(source: Source) -> Source:
    """Return the source with the places where files of samples lie."""
    from dsprep.sources.sides import located

    return replace(source, root=located(source.root), others=tuple(map(located, source.others)))


def _chosen(
    source: Source, catalog: Catalog, findings: list[Finding], run_all: RunAll
) -> tuple[Catalog, list[Finding]]:
    """Take the samples that a list or a table names, with the labels that it tells."""
    from dsprep.sources.archive_files import read_text_beside
    from dsprep.sources.files import Files
    from dsprep.sources.infer import with_schema
    from dsprep.sources.tree import read_tree

    order = source.class_order
    catalog, notes = with_schema(catalog, source.choice, True, order, run_all)
    files = Files.of(catalog, [*findings, *notes])
    return read_tree(source, files=files, text_of=partial(read_text_beside, source.root))


def _require_alone(source: Source) -> None:
    """Refuse several sources where only one can be read."""
    if source.others:
        gone = [each for each in (source.root, *source.others) if not exists(each)]
        what = (
            "does not exist"
            if gone
            else "several sources have to be shards, Parquet, or parts of CIFAR or MNIST"
        )
        raise SourceError(f"{(gone or source.others)[0]}: {what}")


def _classes(source: Source) -> tuple[str, ...] | None:
    from dsprep.lists.store import read_classes

    return read_classes(source.classes) if source.classes else None


def _shards(source: Source, run_all: RunAll) -> tuple[Catalog, list[Finding]] | None:
    shards = shards_of(source)
    if shards is None:
        return None
    from dsprep.sources.shards import read_shards
    from dsprep.sources.unfinished import require_finished

    require_finished(source, shards.files)
    return read_shards(shards, classes=_classes(source), run_all=run_all)


def shards_of(source: Source) -> ShardSet | None:
    """The shards that a source names; None if it is something else."""
    if source.kind not in (None, *CONCATENATIVE):
        return None
    from dsprep.sources.shardset import find_shards, joined

    source = _located(source)
    sets = []
    for name in (source.root, *source.others):
        shards = find_shards(name, source.kind)
        if shards is not None and not shards.layout.concatenative:
            shards = None
        if shards is None or (source.kind is None and _is_tree(shards, source.chooses)):
            return None
        sets.append(shards)
    found = joined(sets)
    return replace(found, layout=found.layout.with_options(preset=source.features))


def _is_tree(shards: ShardSet, is_chosen_from: bool) -> bool:
    """Whether a tar that nothing says more of is a tree of images rather than a shard.

    It is if none of its first samples has more than one part, and images, or tars of them, are
    among these; these may come later if a list names them.
    """
    if len(shards.files) > 1 or shards.known or shards.layout.name != WebDataset.name:
        return False
    fields: list[tuple[str, ...]] = []
    try:
        with ShardStream.of_headers(shards.files[0]) as stream:
            for sample in islice(shards.layout.spans(stream), _LOOKED_AT):
                fields.append(sample.fields or ())
    except ApartMembers:
        if is_dir(shards.name):
            raise
    except DsprepError:
        pass  # of a damaged one, what comes before the damage tells it
    firsts = [names[0].lower() for names in fields if names]
    has_images = any(name in {"tar", *IMAGE_EXTENSIONS, *OTHER_IMAGES} for name in firsts)
    return (has_images or is_chosen_from) and all(len(names) == 1 for names in fields)


def _parts(source: Source, run_all: RunAll) -> tuple[Catalog, list[Finding]] | None:
    is_downloaded = source.kind is None and not source.chooses and _is_downloaded(source.root)
    if not (source.parts or source.pairs or source.kind == "parts" or is_downloaded):
        return None
    from dsprep.sources.archive import is_archive
    from dsprep.sources.parts import read_parts

    _require_alone(source)
    if not is_dir(source.root) and (source.pairs or not is_archive(source.root)):
        raise SourceError(
            f"{source.root}: is not a directory, which --pair goes with, as --from parts does with "
            "a directory or an archive"
        )
    catalog, findings = read_parts(
        source.root,
        pairs=source.pairs or None,
        classes=_classes(source),
        downloaded=is_downloaded,
        run_all=run_all,
    )
    if is_downloaded:
        note = (
            "files that share a name are one sample, as img2dataset writes them: its tables are "
            "passed over; --from images takes the images alone"
        )
        findings = [Finding("note", "", note), *findings]
    return catalog, findings


def _is_downloaded(directory: str) -> bool:
    """Return whether img2dataset wrote files: in directories, with a table beside each."""
    if not is_dir(directory):
        return False
    found = {entry.name: entry for entry in islice(entries(directory), _LOOKED_AT)}
    stems = [name.removesuffix(_STATS) for name in found if name.endswith(_STATS)]
    return any(
        stem in found and found[stem].is_dir() and f"{stem}.parquet" in found for stem in stems
    )


def _described(source: Source, run_all: RunAll) -> tuple[Catalog, list[Finding]] | None:
    """Images with a file of metadata, as Hugging Face's ``imagefolder`` has them."""
    if source.kind not in (None, "imagefolder") or source.chooses or source.others:
        return None
    from dsprep.sources.described import metadata_below, read_described

    files = metadata_below(source.root)
    if not files:
        return None
    return read_described(source.root, files, classes=_classes(source), run_all=run_all)


def _manifest(source: Source, run_all: RunAll) -> tuple[Catalog, list[Finding]] | None:
    """An augmented manifest, as the source or as the list that goes with a directory of images."""
    path = source.list or source.root
    if source.kind != "manifest" and not path.endswith(MANIFESTS):
        return None
    from dsprep.sources.augmented import read_augmented

    _require_alone(source)
    if source.parts or source.pairs:
        raise OptionError(f"{path}: is a manifest, which goes with images, not --parts and --pair")
    root = source.root if source.list else None
    return read_augmented(
        path,
        root,
        classes=_classes(source),
        extensions=source.extensions,
        duplicates=source.duplicates,
        run_all=run_all,
    )


def _parquet(source: Source, run_all: RunAll) -> tuple[Catalog, list[Finding]] | None:
    from dsprep.sources.shardset import expand, recorded_schema
    from dsprep.sources.sides import require_one_side

    if source.kind not in (None, "parquet"):
        return None
    if is_dir(source.root) and not source.others:
        found = list(entries(source.root))
        files = sorted(entry.path for entry in found if _is_parquet(entry.name, entry))
        shards = {shard_stem(entry.name) for entry in found if _is_shard(entry)}
        if files and source.kind is None and shards:
            if not shards.isdisjoint(map(shard_stem, files)):
                return None  # img2dataset: tables of what is in the shards of the same names
            raise SourceError(
                f"{source.root}: holds shards and {os.path.basename(files[0])}: say which are the "
                "samples, --from parquet or --from with the format of the shards"
            )
        if not exists(os.path.join(source.root, "manifest.json")):
            require_one_side(source.root, files)
        if files and source.kind is None and holds_images(source.root):
            if source.chooses:
                return None
            raise SourceError(
                f"{source.root}: holds images and {os.path.basename(files[0])}: say which are the "
                "samples, --from images or --from parquet"
            )
    else:
        files = [file for name in (source.root, *source.others) for file in expand(name)]
    if not files or not (source.kind or all(file.endswith(".parquet") for file in files)):
        return None
    from dsprep.sources.parquet import read_parquet
    from dsprep.sources.unfinished import require_finished

    require_finished(source, files)
    catalog, findings = read_parquet(
        files,
        _classes(source),
        choice=source.choice,
        order=source.class_order,
        run_all=run_all,
    )
    return _with_json(catalog, recorded_schema(files)), findings


def _with_json(catalog: Catalog, recorded: Schema | None) -> Catalog:
    """Take texts for JSON where a manifest says so: columns of Parquet have no such type."""
    if recorded is None or catalog.schema is None:
        return catalog
    json_fields = {each.places for each in recorded.fields if each.type == "json"}
    fields = tuple(
        replace(each, type="json") if each.places in json_fields and each.type == "text" else each
        for each in catalog.schema.fields
    )
    return replace(catalog, schema=replace(catalog.schema, fields=fields))


def _is_shard(entry: Entry) -> bool:
    layout = format_of_source(entry.name)
    return layout is not None and layout.concatenative and not entry.name.startswith(".")


def _is_parquet(name: str, entry: Entry) -> bool:
    return name.endswith(".parquet") and not name.startswith(".") and entry.is_file()


def holds_images(directory: str, depth: int = 1) -> bool:
    """Whether images lie in a directory or right below, as far as the first names there show."""
    return any(
        image_kind_of(entry.name)
        or (depth > 0 and entry.is_dir() and holds_images(entry.path, depth - 1))
        for entry in islice(entries(directory), _LOOKED_AT)
        if not entry.name.startswith(".")
    )


def _may_be_pixels(path: str) -> bool:
    """Whether CIFAR's or idx files are at a path, by names; or the path is that of one of them."""
    above = path.rstrip("/")
    names = [os.path.basename(above)]
    for _ in range(2):
        above = os.path.dirname(above)
        names.append(os.path.basename(above))
    pattern = _PATTERN.search(path)
    if pattern is not None:
        path = os.path.dirname(path[: pattern.start()])
    for _ in range(2):  # PATH/train is a part of what lies in PATH
        path = path if exists(path) else os.path.dirname(path) or "."
    if is_dir(path):
        names += [entry.name for entry in islice(entries(path), _LOOKED_AT)]
    else:
        from dsprep.sources.archive import first_names

        inside = first_names(path, _LOOKED_AT)
        if any(map(image_kind_of, inside)):
            return False  # known without listing all of it
        names += [part for name in inside for part in name.split("/")]
    return any(_PIXELS.search(name) or name in _CIFAR_100 for name in names)


def _pixels(source: Source) -> tuple[Catalog, list[Finding]] | None:
    if source.kind not in (None, "pixels"):
        return None
    named = (source.root, *source.others)
    if source.kind is None and not all(map(_may_be_pixels, named)):
        return None  # known without importing what is slow to import
    from dsprep.sources.pixels import read_pixels
    from dsprep.sources.shardset import expand

    paths = [path for name in named for path in expand(name)]
    catalog = read_pixels(paths, _classes(source), may_mix=source.chooses)
    return None if catalog is None else (catalog, [])
