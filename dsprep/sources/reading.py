"""Of what kind a source is, and its catalog.

Every kind but a tree of images is tried in the order of the registry. What is none of them is a
tree of images: a directory or an archive. A list or a table chooses from either.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from dsprep.dataset.find import Place, data_set_of, manifest_beside, scratch_beside, unfinished
from dsprep.dataset.manifest import MANIFEST
from dsprep.errors import ApartMembers, DsprepError, OptionError, SourceError, UnknownClass
from dsprep.findings import Finding
from dsprep.formats import CONCATENATIVE, TABLES, format_of_source, is_table_of_copies, shard_stem
from dsprep.formats.augmented import MANIFESTS
from dsprep.formats.stream import ShardStream
from dsprep.formats.webdataset import WebDataset
from dsprep.opening import as_given
from dsprep.options import require_effect
from dsprep.places.archive import first_names, open_archive
from dsprep.places.names import (
    expand,
    files_of_sides,
    is_partition,
    located,
    require_one_split,
    sides_of_files,
)
from dsprep.places.scan import RunAll, importing_polars, scan_below
from dsprep.sample import IMAGE_EXTENSIONS, OTHER_IMAGES, image_kind_of
from dsprep.sources.shards.shardset import ShardSet, find_shards, joined
from dsprep.sources.source import ARRAYS, Source
from dsprep.storage.files import canonical, entries, exists, is_dir, is_file, open_file
from dsprep.storage.objects import asked_once

if TYPE_CHECKING:
    from dsprep.catalog import Catalog, Found

_PIXELS = re.compile(r"cifar|idx[13]-ubyte|_batch|^batches.meta|mnist", re.IGNORECASE)
_CIFAR_100 = frozenset({"meta", "fine_label_names.txt"})  # its batches are called train and test
_MARK = re.compile(r"[*?[{]")
_TABLES = (".csv", ".tsv")
_HEAD = 1 << 16  # bytes of a list whose first line shows its labels
_LOOKED_AT = 64  # samples of a tar, or names in a directory, that show its kind
_STATS = "_stats.json"  # names of img2dataset's reports end with this


def read_source(source: Source, run_all: RunAll = map, *, compact: bool = False) -> Found:
    """Make the catalog of a source; its whole numbers may have 32 bits if it is compact."""
    try:
        with asked_once():
            found = detect(source, run_all)
            catalog, findings = found or _read_images(source, run_all)
            if source.labels is None:  # `read_table` knows whether a table names the classes
                is_parts = source.parts or source.kind == "parts"
                named = catalog.classes and (not found or (is_parts and not source.chooses))
                require_effect("", {"--class-order": source.class_order}, named=bool(named))
            from dsprep.catalog import UNSETTLED  # not before polars is there
            from dsprep.sources.infer import with_schema

            if catalog.settled is UNSETTLED:
                every = source.needs_names or source.keep_classes is not None
                catalog, notes = with_schema(catalog, source.choice, every, run_all)
                findings = [*findings, *notes]
            if source.keep_classes is not None:
                from dsprep.sources.labels.subset import keep_classes

                catalog, notes = keep_classes(_widened(catalog), source)
                findings = [*findings, *notes]
    except UnknownClass as unknown:
        advice = (
            "add a line for each to that file, or leave its images out: --keep-classes takes only "
            "the classes that a file names"
        )
        if source.keep_classes is not None:
            advice = "leave out --classes, as it has to name the classes that are left out, too"
        elif is_file(str(source.classes).removesuffix("classes.txt") + MANIFEST):
            advice = (
                "that file belongs to a data set, whose classes do not change: pack all samples "
                "again with a copy that has a line for each, or leave their images out"
            )
        raise SourceError(f"{unknown} in {source.classes}: {advice}") from None
    if source.pixel_columns:
        from dsprep.sources.pictures.pixel_reader import PixelColumns

        is_table = isinstance(catalog.reader.pixels, PixelColumns)
        require_effect("", {"--pixel-columns": source.pixel_columns}, table=is_table)
    if source.sides_from is not None:  # whatever sides its kind has
        from dsprep.sources.pictures.tree import sides_of

        paths = catalog.table["path"]
        catalog = catalog.with_sides(*sides_of(paths, source.sides_from, source.root)[1:])
    if source.suffixes != frozenset(IMAGE_EXTENSIONS):
        given = {"--extensions": sorted(source.suffixes)}
        reader = catalog.reader
        require_effect("", given, image_files=not (reader.reads_samples or reader.encodes))
    return catalog if compact else _widened(catalog), findings


def _widened(catalog: Catalog) -> Catalog:
    from dsprep.catalog import widened

    return replace(catalog, table=widened(catalog.table))


# What a source is


def detect(source: Source, run_all: RunAll = map) -> Found | None:
    """Make the catalog of a source; None if it is a tree of images."""
    kind = source.kind
    if kind == "images":
        return None
    if kind is None and (source.list_file or source.root).endswith(MANIFESTS):
        kind = "augmented-manifest"
    elif kind != "augmented-manifest" and (source.parts or source.pairs):
        kind = "parts"
    chooses = source.chooses and kind != "augmented-manifest"
    own = source.replace(kind=kind)
    if chooses:  # lists name samples, and have classes of their own
        own = own.replace(classes=None, needs_names=True)
    try:
        if kind not in ("augmented-manifest", "parts"):
            own = _located(own)
        tried = (read for names, read in REGISTRY if not names or kind in (None, *names))
        found = next((found for read in tried if (found := read(own, run_all))), None)
    except OSError as error:
        path = as_given(error.filename) or source.root
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from None
    if found is None:
        _require_alone(source)
        if source.kind is not None:
            raise SourceError(f"{source.root}: is not what --from {source.kind} says")
        return None
    if own.root != source.root:
        found = found[0], [Finding("note", "", f"the samples are those of {own.root}"), *found[1]]
    if not chooses:
        return found
    from dsprep.places.files import Files
    from dsprep.sources.infer import with_schema
    from dsprep.sources.pictures.tree import read_tree

    catalog, notes = with_schema(_widened(found[0]), source.choice, True, run_all)
    if catalog.annotated is None:  # a list makes one set of what it names
        catalog = replace(catalog, table=catalog.table.drop("side", strict=False), sides=())
    files = Files.of(catalog, [*found[1], *notes])
    return read_tree(source, files)


def _located(source: Source) -> Source:
    return source.replace(root=located(source.root), others=tuple(map(located, source.others)))


def _require_alone(source: Source) -> None:
    if source.others:
        for path in (source.root, *source.others):
            if not exists(path):
                raise SourceError(f"{path}: does not exist")
        problem = "several sources must be shards, Parquet, or parts of CIFAR or MNIST"
        raise SourceError(f"{source.others[0]}: {problem}")


def _annotated(source: Source, run_all: RunAll) -> Found | None:
    """Read images with the annotations or masks that a user names."""
    lists_boxes = source.list_file is not None and source.kind is None and _has_boxes(source)
    if not source.annotations and source.masks is None and not lists_boxes:
        return None
    from dsprep.sources.annotated.annotated import catalog_of, list_images
    from dsprep.sources.annotated.recognized import below_top, named_scan, recognized_scan

    _require_alone(source)
    below, files = below_top(source, list_images(source, run_all))
    scan = None
    if source.annotations:
        scan = named_scan(below, files, run_all)
    elif source.kind is None and (lists_boxes or not source.chooses):
        # A list of boxes that was made of this folder chooses from its annotations, which say more.
        scan = recognized_scan(below, files, run_all)
    return None if scan is source.masks is None else catalog_of(source, scan, files, run_all)


def _has_boxes(source: Source) -> bool:
    """Return whether the first line of a list has boxes, for the images of a directory."""
    from dsprep.annotations.mxnet import is_detection_label

    path = source.list_file or ""
    if not (is_dir(source.root) and is_file(path)):
        return False
    with open_file(path) as file:
        cells = file.pread(_HEAD, 0).split(b"\n")[0].split(b"\t")[1:-1]
    try:
        return is_detection_label(tuple(map(float, cells)))
    except ValueError:
        return False


def _manifest(source: Source, run_all: RunAll) -> Found | None:
    """Read SageMaker's augmented manifest, as the source or as the list of a directory."""
    if source.kind is None:
        return None  # the name of the file tells it
    from dsprep.sources.annotated.augmented import read_augmented

    _require_alone(source)
    path = source.list_file or source.root
    if source.parts or source.pairs:
        raise OptionError(f"{path}: is a manifest, which goes with images, not --parts and --pair")
    return read_augmented(source, run_all)


def _parts(source: Source, run_all: RunAll) -> Found | None:
    is_downloaded = source.kind is None and not source.chooses and _is_downloaded(source.root)
    if source.kind is None and not is_downloaded:
        return None
    from dsprep.sources.pictures.parts import read_parts

    _require_alone(source)
    return read_parts(source, run_all, is_downloaded)


def _is_downloaded(directory: str) -> bool:
    """Return whether img2dataset wrote files: in directories, with a table beside each."""
    if not is_dir(directory):
        return False
    found = {entry.name: entry for entry in islice(entries(directory), _LOOKED_AT)}
    return any(
        name + _STATS in found and f"{name}.parquet" in found and entry.is_dir()
        for name, entry in found.items()
    )


def _described(source: Source, run_all: RunAll) -> Found | None:
    """Read images with metadata: a folder that dsprep wrote, or Hugging Face's ``imagefolder``."""
    if source.chooses or source.others or not is_dir(source.root):
        return None
    from dsprep.sources.pictures.described import metadata_below, read_described, read_written

    as_written = not (source.kind or source.classes)
    if as_written and (found := read_written(source.root, run_all)):
        return found
    if files := metadata_below(source.root):
        from dsprep.sources.pictures.tree import in_sides, sides_of

        classes = source.class_names()
        catalog, findings = read_described(source.root, files, classes=classes, run_all=run_all)
        if in_sides(paths := catalog.table["path"]):
            catalog = catalog.with_sides(*sides_of(paths, 1, source.root)[1:])
        return catalog, findings
    return None


def _parquet(source: Source, run_all: RunAll) -> Found | None:
    root, notes = source.root, list[Finding]()
    if is_dir(root) and not source.others:
        found = {entry.name: entry for entry in entries(root) if not entry.name.startswith(".")}
        ends = ((name, entry) for name, entry in found.items() if name.endswith(".parquet"))
        tables = [entry for name, entry in ends if not is_table_of_copies(name)]
        files = sorted(entry.path for entry in tables if entry.is_file())
        if not files and any(map(is_partition, found.values())):
            from dsprep.places.files import list_files

            below = list_files(scan_below(root, frozenset({"parquet"}), run_all)).table["path"]
            files = [os.path.join(root, path) for path in below.sort()]
            if files:
                names = ", ".join(re.findall(r"([^/=]+)=[^/]*/", files[0].removeprefix(root)))
                detail = f"directories are partitions: their {names} become no fields"
                notes.append(Finding("note", "", detail))
        if files and source.kind is None:
            formats = CONCATENATIVE.values()
            shards = {shard_stem(name) for name in found if format_of_source(name) in formats}
            if not shards.isdisjoint(map(shard_stem, files)):
                return None  # img2dataset: tables of what is in the shards of the same names
            others = "shards" if shards else "images" if holds_images(root) else ""
            if others == "images" and source.chooses:
                return None
            if others:
                by = "images or --from parquet"
                if shards:
                    by = "parquet or --from with the format of the shards"
                raise SourceError(
                    f"{root}: holds {others} and {os.path.basename(files[0])}: say which are the "
                    f"samples, --from {by}"
                )
        files = files or [*files_of_sides(root)]
    else:
        files = [file for name in (root, *source.others) for file in expand(name)]
    if not files or not (source.kind or all(file.endswith(".parquet") for file in files)):
        return None
    from dsprep.places.files import with_sides_of_files
    from dsprep.sources.tables.parquet import read_parquet

    _require_finished(source, files)
    sides = tuple[str, ...]()
    if is_dir(root) and not source.others:
        recorded = data_set_of(files, single=False)
        known = recorded.manifest.sides_of(files) if recorded else files_of_sides(root)
        sides = sides_of_files(files, known)
        if not (sides or recorded):
            require_one_split(root, files)
    catalog, findings = read_parquet(
        files, source.class_names(), choice=source.choice, versions=source.versions, run_all=run_all
    )
    return with_sides_of_files(catalog, sides), [*notes, *findings]


def _csv(source: Source, run_all: RunAll) -> Found | None:
    """Read tables whose rows are samples; with a folder, a table of labels is an option.

    Those that dsprep wrote have a manifest, and are shards.
    """
    files = [file for name in (source.root, *source.others) for file in expand(name)]
    if source.kind is None and not all(file.lower().endswith(_TABLES) for file in files):
        return None
    if not all(map(is_file, files)) or shards_of(source) is not None:
        return None
    from dsprep.sources.tables.tabular import read_csv

    catalog, findings = read_csv(source, files, run_all)
    if source.pixel_columns:
        from dsprep.sources.pictures.pixels import with_pixel_columns

        catalog, note = with_pixel_columns(source, catalog)
        findings = [*findings, note]
    return catalog, findings


def _arrays(source: Source, run_all: RunAll) -> Found | None:
    """Read arrays whose rows are samples."""
    if source.kind is None and not source.root.endswith(ARRAYS):
        if source.labels is not None and source.labels.endswith(ARRAYS):
            raise OptionError(f"--labels {source.labels}: an array labels the rows of an array")
        return None
    from dsprep.sources.tables.tabular import read_arrays

    _require_alone(source)
    if source.labels is not None and not source.labels.endswith(ARRAYS):
        raise OptionError(f"--labels {source.labels}: labels of arrays are an array, NAME.npy")
    return read_arrays(source, source.root, run_all) if is_file(source.root) else None


def _require_finished(source: Source, files: Sequence[str]) -> None:
    """Refuse directories of shards in which an unfinished run, or transfer, has left its state."""
    # The manifest comes last: if there is one, all files that it names are there.
    for root in (source.root, *source.others):
        if not is_dir(root) or is_file(os.path.join(root, "manifest.json")):
            continue
        inside = Place(root)
        places = [inside.join(name) for name in unfinished(inside.names.directories)]
        beside = "" if is_file(manifest_beside(root)) else scratch_beside(root)
        if beside and is_dir(beside):
            places.append(beside)
        for place in places:
            own = canonical(source.own_state) == canonical(place)
            notes = [note.name for note in entries(place)]
            if not own and any(note == "run.json" or note.endswith(".partial") for note in notes):
                some = os.path.join(root, "*" + os.path.splitext(files[0])[1])
                where = f"{os.path.basename(place)} {'beside it' if place == beside else 'there'}"
                raise SourceError(
                    f"{root}: is incomplete: an unfinished run has left {where}; run "
                    "its command again to finish it, or name the shards by a pattern "
                    f"to take those that are there: '{some}'"
                )


def _pixels(source: Source, run_all: RunAll) -> Found | None:
    named = (source.root, *source.others)
    if source.kind is None and not all(map(_may_be_pixels, named)):
        return None  # known without importing what is slow to import
    from dsprep.sources.pictures.pixels import read_pixels

    paths = [path for name in named for path in expand(name)]
    catalog = read_pixels(paths, source.class_names(), source.choice.label)
    return None if catalog is None else (catalog, [])


def _may_be_pixels(path: str) -> bool:
    """Return whether names at a path, in it or above it are those of CIFAR's or idx files."""
    names = path.rstrip("/").split("/")[-3:]
    if (start := _MARK.split(path)[0]) != path:  # a pattern
        path = os.path.dirname(start)
    for _ in range(2):  # PATH/train is a part of what lies in PATH
        path = path if exists(path) else os.path.dirname(path) or "."
    if is_dir(path):
        names += [entry.name for entry in islice(entries(path), _LOOKED_AT)]
    else:
        inside = first_names(path, _LOOKED_AT)
        if any(map(image_kind_of, inside)):
            return False  # known without listing all of it
        names += [part for name in inside for part in name.split("/")]
    return any(_PIXELS.search(name) or name in _CIFAR_100 for name in names)


def _shards(source: Source, run_all: RunAll) -> Found | None:
    shards = shards_of(source)
    if shards is None:
        return None
    from dsprep.sources.shards.shards import read_shards

    _require_finished(source, shards.files)
    return read_shards(shards, classes=source.class_names(), run_all=run_all)


def shards_of(source: Source) -> ShardSet | None:
    """Return the shards that a source names; None if it is something else."""
    if source.kind not in (None, *CONCATENATIVE, *TABLES):
        return None
    source = _located(source)
    kind = None if source.kind in TABLES else source.kind
    sets = []
    for name in (source.root, *source.others):
        shards = find_shards(name, kind)
        if shards is None or not shards.layout.concatenative:
            return None
        if source.kind is None and _is_tree(shards, source.chooses):
            return None
        sets.append(shards)
    found = joined(sets)
    return replace(found, layout=found.layout.with_options(preset=source.features))


def _is_tree(shards: ShardSet, is_chosen_from: bool) -> bool:
    """Return whether a tar without a manifest is a tree of images rather than a shard."""
    # It is a tree if each of its first samples has one part, and some are images or tars of images.
    # If a list names the images, they may come later.
    if len(shards.files) > 1 or shards.known or shards.layout.name != WebDataset.name:
        return False
    fields: list[tuple[str, ...]] = []
    try:
        with ShardStream(shards.files[0], headers=True) as stream:
            for sample in islice(shards.layout.spans(stream), _LOOKED_AT):
                fields.append(sample.fields or ())
    except ApartMembers:
        if is_dir(shards.name):
            raise
    except DsprepError:
        pass  # the samples before the damage decide
    firsts = [names[0].lower() for names in fields if names]
    has_images = any(name in {"tar", *IMAGE_EXTENSIONS, *OTHER_IMAGES} for name in firsts)
    return (has_images or is_chosen_from) and all(len(names) == 1 for names in fields)


def _read_images(source: Source, run_all: RunAll) -> Found:
    """Make the catalog of a tree of images, in a directory or in an archive."""
    archive, scans = None, None
    with importing_polars():
        if not is_dir(source.root):
            archive = open_archive(source.root)
        elif not source.chooses:
            scans = list(scan_below(source.root, source.suffixes, run_all))
    from dsprep.places.files import images_of, list_files
    from dsprep.sources.pictures.tree import read_tree

    files = None
    if archive is not None:
        are_meant = bool(source.kind) or source.chooses
        files = images_of(archive, source.suffixes, source.root, are_meant=are_meant)
    if scans is not None:
        files = list_files(scans)
    labels_files = source.chooses or source.label_regex is not None
    if files is not None and source.kind is None and not labels_files:
        from dsprep.sources.annotated.annotated import catalog_of
        from dsprep.sources.annotated.recognized import below_top, recognized_scan

        below, own = below_top(source, files)
        if scan := recognized_scan(below, own, run_all):
            return catalog_of(source, scan, own, run_all)
    return read_tree(source, files, run_all)


def holds_images(directory: str, depth: int = 1) -> bool:
    """Return whether images lie in a directory or right below, judged by the first names there."""
    return any(
        image_kind_of(entry.name)
        or (depth > 0 and entry.is_dir() and holds_images(entry.path, depth - 1))
        for entry in islice(entries(directory), _LOOKED_AT)
        if not entry.name.startswith(".")
    )


# What `--from` calls each kind, in the order in which they are tried, and what returns its catalog,
# or None if a source is not of the kind. The names of one that is only detected are empty.
REGISTRY: tuple[tuple[Sequence[str], Callable[[Source, RunAll], Found | None]], ...] = (
    ((), _annotated),
    (("augmented-manifest",), _manifest),
    (("parts",), _parts),
    (("imagefolder",), _described),
    (("csv",), _csv),
    (("numpy",), _arrays),
    (("parquet",), _parquet),
    (("pixels",), _pixels),
    ((*CONCATENATIVE, *TABLES), _shards),
)
