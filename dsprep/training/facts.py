"""What a data set consists of, as far as its manifest, a list or a listing tells."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from dataclasses import field, replace
from itertools import chain
from typing import Any

from dsprep.dataset.find import DataSet, Place, data_set_at, data_set_beside, data_set_inside
from dsprep.dataset.manifest import Manifest, read_manifest, recorded_options
from dsprep.dataset.names import MANIFEST
from dsprep.errors import OptionError, SourceError, source_errors
from dsprep.formats import writes_tree
from dsprep.formats.augmented import (
    MANIFESTS,
    AugmentedLine,
    colors_of,
    parse_augmented,
    refers_to_files,
)
from dsprep.frozen import Frozen
from dsprep.images.transform import Transform
from dsprep.places.names import expand
from dsprep.places.scan import scan_below
from dsprep.printable import json_values
from dsprep.sample import IMAGE_EXTENSIONS
from dsprep.schema import Schema
from dsprep.sources.shards.shardset import ShardSet, find_shards
from dsprep.storage.files import (
    absent,
    common_path,
    entries,
    facts,
    is_dir,
    is_file,
    open_file,
    read_bytes,
    takes_requests,
)
from dsprep.text import read_text
from dsprep.tuples import NamedTuple
from dsprep.units import quoted_names

TEXTS = ("csv", "tsv", "txt", "libsvm", "jsonl")
"""The extensions of text whose lines are samples, for readers of such lines."""

_HEAD = 1 << 20  # bytes that show whether lines of JSON refer to files


class DataFacts(Frozen):
    """Counts and sizes of a data set, or of one of its sides, as far as they are known."""

    place: str  # the place that the user gave
    directory: str  # where its files are
    # name of the format; `files`, `list`, `augmented-manifest`, or an extension of `TEXTS`
    format: str
    samples: int | None = None  # how many there are; None if nothing tells
    classes: int | None = None  # how many the label, or the objects, have; None if nothing tells
    bytes: int | None = None  # the size of the shards, or of all files; None if nothing tells
    side: str = ""  # the side that it is; empty if the data set has none
    # the files that hold the samples, by their names below the directory, with their sizes
    files: Sequence[tuple[str, int]] = field(default=(), repr=False)
    beside: Sequence[str] = ()  # names of the other files at that place
    shape: tuple[int, int] | None = None  # width and height that a transform gave all images
    attributes: Sequence[str] = ()  # attributes in the first line of an augmented manifest
    label_width: int | None = None  # numbers of the longest detection label, with its header
    lists_classes: bool = False  # whether labels are lists of the numbers of classes
    schema: Schema | None = None  # that every sample was checked against; None if none was

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "place": self.place,
                "format": self.format,
                "samples": self.samples,
                "classes": self.classes,
                "bytes": self.bytes,
                "side": self.side,
                "files": self.files,
            }
        )


def is_augmented(place: str, attributes: Sequence[str] = ()) -> bool:
    """Return whether a file is an augmented manifest, also by the attributes that a user names.

    Other lines of JSON are text: only those that refer to files need to be read line by line.
    """
    if not place.endswith(".jsonl") or attributes:
        return place.endswith(MANIFESTS)
    if not is_file(place):
        return False
    with source_errors(place), open_file(place) as file:
        return refers_to_files(file.pread(_HEAD, 0).decode("utf-8-sig", errors="replace"))


def facts_of(place: str, attributes: Sequence[str] = ()) -> list[DataFacts]:
    """Return the facts of a data set, or those of each of its sides."""
    if place.endswith(".lst"):
        return [_of_list(place)]
    if is_augmented(place, attributes):
        return [_of_lines(place)]
    if (found := _data_set(place)) is not None:
        return _of_data_set(place, found)
    if (shards := find_shards(place)) is not None:
        return [_of_shards(place, shards)]
    return [_of_files(place)]


def _data_set(place: str) -> DataSet | None:
    """Return the data set of a manifest, a directory or a file; None without a manifest."""
    if place.endswith(MANIFEST) and is_file(place):
        return data_set_at(place)
    here = Place(place)
    return data_set_inside(here) or data_set_beside(here)


def side_of(place: str, name: str | None, attributes: Sequence[str] = ()) -> list[DataFacts]:
    """Return the facts of the side of this name, or of all sides without one."""
    sides = facts_of(place, attributes)
    found = [each for each in sides if name is None or each.side in ("", name)]
    if not found:
        raise OptionError(
            f"{place}: has no side {name}, but {quoted_names([each.side for each in sides])}: "
            "leave out the name of the channel, or name the shards of one side"
        )
    if not all(each.files for each in found):
        raise SourceError(f"{place}: the data set has no samples")
    return found


def _of_data_set(place: str, data_set: DataSet) -> list[DataFacts]:
    manifest, directory = data_set.manifest, os.path.dirname(data_set.path)
    if manifest.directory:
        directory = os.path.join(directory, manifest.directory)
        place = directory if place.endswith(MANIFEST) else place
    transform, schema = recorded_options(manifest, place).transform, manifest.schema
    classed = schema and (schema.objects or schema.label_field)
    classes = len(classed.names) if classed and classed.names else len(manifest.classes or ())
    if writes_tree(manifest.format):
        tree = place.removesuffix(f".{MANIFEST}").removesuffix(f"/{MANIFEST}")
        made = replace(_of_files(tree), samples=manifest.samples, bytes=manifest.bytes)
        return [replace(made, classes=classes or None, shape=_shape(transform))]
    whole = DataFacts(
        place,
        directory,
        manifest.format,
        classes=classes or None,
        shape=_shape(transform),
        schema=schema if manifest.enforced else None,
    )
    found: list[DataFacts] = []
    for side in dict.fromkeys(manifest.sides.values()) or [""]:
        own = [each for each in manifest.shards if manifest.sides.get(each.name, "") == side]
        found.append(
            replace(
                whole,
                side=side,
                directory=os.path.join(directory, side) if manifest.is_divided else directory,
                samples=sum(each.samples for each in own),
                bytes=sum(each.bytes for each in own),
                files=[(os.path.basename(each.name), each.bytes) for each in own],
                beside=_others(manifest, {each.name for each in own}),
            )
        )
    return found


def _others(manifest: Manifest, own: Collection[str]) -> list[str]:
    """Return the names of the other files where these shards of a data set lie."""
    others = sorted(manifest.names().difference(own))
    if manifest.directory is None:
        return [MANIFEST, *others]
    return [os.path.basename(name) for name in others if os.path.dirname(name)]


def _shape(transform: Transform | None) -> tuple[int, int] | None:
    """Return the size that a transform gave all images; None if it may differ."""
    # without --enlarge, small images keep their size
    if transform is None or not transform.enlarge:
        return None
    resize, crop = transform.resize, transform.crop
    if isinstance(resize, tuple):
        return resize if crop is None else (min(resize[0], crop[0]), min(resize[1], crop[1]))
    return crop if crop and resize and max(crop) <= resize else None


def _of_shards(place: str, shards: ShardSet) -> DataFacts:
    """Return what files of shards tell without a manifest."""
    files = [(os.path.basename(path), facts(path).size) for path in shards.files]
    counts = [shards.samples.get(path) for path in shards.files]
    names = shards.known_classes
    return DataFacts(
        place,
        os.path.dirname(shards.files[0]),
        shards.layout.name,
        samples=None if None in counts else sum(filter(None, counts)),
        classes=len(names) if names else None,
        bytes=sum(size for _, size in files),
        files=files,
        beside=sorted({each.name for each in entries(place)}.difference(dict(files)))
        if is_dir(place)
        else (),
    )


def _of_files(place: str) -> DataFacts:
    """Return what a directory of images, masks or annotations, or a file of one, holds."""
    directory, scans = place, list(scan_below(place, None)) if is_dir(place) else []
    names = chain.from_iterable(filter(None, scan.paths.split("\0")) for scan in scans)
    sizes = chain.from_iterable(scan.sizes for scan in scans)
    files = sorted(zip(names, sizes, strict=True))
    if not scans:
        paths = [place]
        if any(mark in place for mark in "*?[{"):
            paths = sorted(expand(place))
        if missing := absent(paths):
            raise SourceError(f"{missing[0]}: does not exist")
        directory = common_path(paths) if len(paths) > 1 else os.path.dirname(place)
        files = [(os.path.relpath(path, directory or "."), facts(path).size) for path in paths]
    if not files:
        raise SourceError(f"{place}: holds no files")
    beside = [finding.path for scan in scans for finding in scan.findings]
    size = sum(size for _, size in files)
    extensions = {text_extension(name) for name, _ in files}
    if len(extensions) == 1 and (text := extensions.pop()):
        return DataFacts(place, directory, text, bytes=size, files=files, beside=beside)
    documents = [name for name, _ in files if name.endswith(".json")]
    images = sum(name.rpartition(".")[2].lower() in IMAGE_EXTENSIONS for name, _ in files)
    about = _Objects() if images else _objects_of(directory, documents)
    return DataFacts(
        place,
        directory,
        "files",
        samples=images or len(documents) or None,
        classes=about.classes,
        label_width=about.width,
        bytes=size,
        files=files,
        beside=beside,
    )


def text_extension(name: str) -> str:
    """Return the extension of text of lines, without that of gzip; empty for other files."""
    extension = name.removesuffix(".gz").rpartition(".")[2]
    return extension if extension in TEXTS else ""


class _Objects(NamedTuple):
    """What annotations tell of the objects of all images."""

    classes: int | None = None
    width: int | None = None


def _objects_of(place: str, documents: Sequence[str]) -> _Objects:
    """Return what annotations of object detection, or a label map, tell."""
    found, most = set[int](), 0
    for name in documents:
        path = os.path.join(place, name)
        with source_errors(path):
            data = read_bytes(path)
        try:
            values = json.loads(data)
            if "map" in values:  # a label map of semantic segmentation, which ignores 255
                found.update({int(each) for each in values["map"].values()} - {255})
                continue
            found.update(int(each["class_id"]) for each in values["annotations"])
            found.update(int(each["class_id"]) for each in values.get("categories", ()))
            most = max(most, len(values["annotations"]))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise SourceError(
                f"{path}: is neither an annotation of SageMaker's object detection nor a label map"
            ) from None
    return _Objects(max(found, default=-1) + 1 or None, _label_width(most))


def _label_width(objects: int) -> int | None:
    """Return how many numbers the label of some objects has: five for each, and a header of two."""
    return 2 + 5 * objects if objects else None


def _of_list(path: str) -> DataFacts:
    from dsprep.lists.rows import ROWS, parse_rows  # polars is slow to import
    from dsprep.lists.stats import count_list
    from dsprep.lists.store import classes_of

    rows = parse_rows(read_text(path), path, None).select(*ROWS)
    counts = count_list(rows, None if takes_requests(path) else classes_of(path), path)
    (directory, name), size = os.path.split(path), facts(path).size
    used = counts.classes[-1].number + 1 if counts.classes else None
    width = max(counts.widths) if counts.kind == "detection" else None
    return DataFacts(
        path, directory, "list", counts.rows, used, size, files=[(name, size)], label_width=width
    )


def _of_lines(path: str) -> DataFacts:
    """Return what an augmented manifest tells, and the manifest that dsprep wrote beside it."""
    text = read_text(path)
    lines = list(parse_augmented(text, path))
    if not lines:
        raise SourceError(f"{path}: names no files")
    lists_classes = _lists_classes(lines)
    rows = text.split("\n")
    painted = [
        int(key)
        for line in lines
        for name in (line.others if line.has_masks else ())
        for key in colors_of(json.loads(rows[line.line - 1]), name)
        if key.isascii() and key.isdecimal() and len(key) < 4  # a mask has 8 bits
    ]
    beside = f"{path}.json"  # sage.manifest has sage.manifest.json
    made = read_manifest(beside) if beside.endswith(MANIFEST) and is_file(beside) else None
    return DataFacts(
        path,
        os.path.dirname(path),
        "augmented-manifest",
        samples=len(lines),
        classes=len((made and made.classes) or ())
        or _class_count(lines, lists_classes)
        or max(painted, default=-1) + 1
        or None,
        bytes=None if made is None else made.bytes,
        files=[(line.ref, 0) for line in lines],
        attributes=list(json.loads(rows[lines[0].line - 1])),
        label_width=_label_width(
            max(len(line.label or ()) // 5 if line.kind == "boxes" else 0 for line in lines)
        ),
        lists_classes=lists_classes,
    )


def _lists_classes(lines: Sequence[AugmentedLine]) -> bool:
    """Return whether labels are lists of the numbers of classes, and not a flag for each class."""
    labels = [line.label or () for line in lines if line.kind == "list"]
    is_flags = len({len(each) for each in labels}) == 1 and {0, 1} >= set(chain(*labels))
    return bool(labels) and (any(line.lists_classes for line in lines) or not is_flags)


def _class_count(lines: Sequence[AugmentedLine], lists_classes: bool) -> int | None:
    """Return how many classes labels have whose numbers or names are in the lines."""
    numbers: set[float] = set(chain.from_iterable(line.names for line in lines))
    for line in lines:
        label = line.label or ()
        if line.kind == "list" and not lists_classes:
            label = (len(label) - 1,)
        numbers.update(label[2::5] if line.kind == "boxes" else label)
    if not all(float(each).is_integer() and each >= 0 for each in numbers):
        return None  # the labels are not classes
    return int(max(numbers, default=-1)) + 1 or None
