"""Data sets of bare pixels, as downloaded: which files of CIFAR or MNIST a path names.

CIFAR (https://www.cs.toronto.edu/~kriz/cifar.html): in the binary version a record is the label
(CIFAR-100: the coarse one, then the fine one), then 1024 red, 1024 green and 1024 blue bytes; in
the Python version a batch is a pickle.

MNIST (http://yann.lecun.com/exdb/mnist/), like Fashion-MNIST, KMNIST and EMNIST, has idx files, of
images and of labels, mostly in gzip: two zeros, the type of the numbers (8 is an unsigned byte),
the number of dimensions, each dimension as a big-endian u32, then the numbers.
"""

from __future__ import annotations

import os
import re
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from math import isqrt, prod
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import OptionError, SourceError
from dsprep.findings import Finding
from dsprep.formats.stream import compression_of
from dsprep.images.pixels import parse_shape, shape_of
from dsprep.sample import Sample, image_kind_of
from dsprep.schema import IMAGE, Field, Schema
from dsprep.sources.archive import archive_kind, open_archive, split_path
from dsprep.sources.classes import renumbered, unknown_classes
from dsprep.sources.csv_rows import CsvReader
from dsprep.sources.files import with_sides_of_files
from dsprep.sources.pixel_reader import (
    CIFAR,
    Batch,
    BatchFile,
    PixelColumns,
    PixelReader,
    numbers_in,
    read_batch,
    read_members,
    read_pickle,
    text_of,
)
from dsprep.storage.files import entries, facts, is_dir, is_file
from dsprep.storage.location import is_s3
from dsprep.units import format_count, format_some

if TYPE_CHECKING:
    from dsprep.sources.reading import Source

Names: TypeAlias = tuple[str, ...] | None  # the class names, if the data set or the user gives them

_Batch: TypeAlias = tuple[Batch, pl.DataFrame]  # with the rows of its images

PARTS = ("train", "test")
_MOST_FILES = 1000  # files in a directory that may still be a known data set
_LOOKED_AT = 64  # rows of a table that show how many pixels an image has
_FILE_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")


class _Version(NamedTuple):
    """A version of CIFAR."""

    batches: re.Pattern[str]  # names of its batches
    names: str  # the file of class names
    names_key: str = ""  # the key of the class names if that file is a pickle
    labels: int = 0  # bytes of labels before the pixels of an image; 0 in a pickle
    key: str = ""  # the key of the labels in a pickle


_CIFAR = (
    _Version(re.compile(r"(data|test)_batch(_\d+)?\.bin"), "batches.meta.txt", labels=1),
    _Version(re.compile(r"(data|test)_batch(_\d+)?"), "batches.meta", "label_names", key="labels"),
    _Version(re.compile(r"(train|test)\.bin"), "fine_label_names.txt", labels=2),
    _Version(re.compile(r"(train|test)"), "meta", "fine_label_names", key="fine_labels"),
)
_LARGEST = 1 << 30  # bytes of a file of CIFAR; CIFAR-100's training images have 155 million

_IDX = re.compile(
    r"(?:(?P<set>.*)-)?(?P<part>train|test|t10k)-images[-.]idx3-ubyte(?:\.gz)?"
    r"|(?:(?P<single>.*)-)?images[-.]idx3-ubyte(?:\.gz)?"
)
_MOST_IMAGES = 10_000_000
_MOST_PIXELS = 100_000_000


class _Images(NamedTuple):
    """A file of images, as far as its name and those of the files beside it tell."""

    file: BatchFile
    part: str  # `train`, `test`, or empty if its name does not say
    beside: BatchFile | None  # the labels of idx files, the class names of CIFAR
    set: str = ""  # what the name of an idx file begins with, such as `emnist-letters`
    version: _Version | None = None  # None for idx files


def read_pixels(paths: Sequence[str], classes: Names) -> Catalog | None:
    """Make the catalog of data sets whose images are bare pixels; None if a path is of none."""
    # Each path is that of a directory or an archive of CIFAR or of idx files, or of something in
    # it: a directory of the archive, one batch, one file of images, or one part (`PATH/train` or
    # `PATH/test`). Where there are several sets of idx files, such as EMNIST's, a path takes the
    # name of one: `PATH/emnist-letters/train`.
    # A path of both parts has them as sides; `{PATH/train,PATH/test}` mixes them.
    found: list[_Batch] = []
    names: dict[Names, str] = {}
    sides: list[str] = []
    has_sides = False
    for path in paths:
        images = _find(path)
        if images is None:
            return None
        read, named = _read_cifar(images) if images[0].version else (_read_idx(images), None)
        parts = [each.part for each in images]
        has_sides |= {*parts}.issuperset(PARTS)
        sides += parts
        found += read
        names.setdefault(named, path)
    if len(names) > 1:
        first, other, *_ = names.values()
        raise SourceError(f"{other}: has other class names than {first}; pack them one by one")
    files = [batch.file for batch, _ in found]
    for at, file in enumerate(files):
        if file in files[:at]:
            raise SourceError(f"{file}: is named twice")
        if has_sides and not sides[at]:
            raise SourceError(f"{file}: has neither training nor test images, where others have")
    catalog = _catalog(found, paths[0], next(iter(names)), classes)
    return with_sides_of_files(catalog, sides) if has_sides else catalog


# Files


def _find(path: str) -> list[_Images] | None:
    """Find the files of images that a path names; None if it is something else."""
    (place, inner), is_batch = split_path(path), False
    if is_dir(place):
        files = _files_in(place)
    elif not is_file(place):
        return None
    elif archive_kind(place) is not None:
        files = _members_in(place)
    elif inner:
        return None
    else:
        is_batch = True
        place, inner = os.path.split(place)
        files = _files_in(place or ".")
    directory, name = os.path.split(inner)
    images = _images_in([file for file in files if file.directory == directory], name)
    if images or is_batch:
        return images or None
    names = inner.split("/") if inner else []
    for cut in range(len(names), max(len(names) - 3, -1), -1):
        if together := _together(files, "/".join(names[:cut])):
            *sets, part = names[cut:] or [""]
            if part not in PARTS:
                sets, part = names[cut:], ""
            images = next(iter(together.values()))
            known = sorted({each.set for each in images})
            several = list(together) if len(together) > 1 or sets else known
            if len(several) > 1:
                raise SourceError(
                    f"{place}: has several data sets; name one of them, such as "
                    f"{place}/{several[-1]}"
                )
            images = [each for each in images if [each.set] == (sets or known)]
            images = [each for each in images if part in ("", each.part)]
            if not images:
                raise SourceError(f"{path}: there is no such part of {place}")
            return images
    return None


def _is_part(name: str) -> bool:
    """Return whether a file may be one of a known data set, by its name."""
    images = "images".join(name.rsplit("labels", 1)).replace("idx1", "idx3")
    return _IDX.fullmatch(images) is not None or any(
        name == version.names or version.batches.fullmatch(name) for version in _CIFAR
    )


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
    """Return the files of data sets in an archive; none if it holds images."""
    archive = open_archive(path)
    for damage in archive.damage:
        raise SourceError(f"{path}: {damage.detail}; download it again")
    for kind, name, reason in archive.odd:
        is_wanted = _is_part(os.path.basename(name)) or image_kind_of(name)
        if kind == "unreadable" and is_wanted:
            raise SourceError(f"{path}: {name} cannot be read ({reason})")
    if any(map(image_kind_of, archive.names)):
        return []
    found: dict[tuple[str, str], BatchFile] = {}
    for at, full_name in enumerate(archive.names):
        directory, name = os.path.split(os.path.normpath(full_name))
        if (directory, name) in found:
            raise SourceError(f"{path}: has two files called {name}")
        if _is_part(name):
            facts = archive.sizes[at], archive.reader.mtime or 0
            file = BatchFile(name, directory, path, *facts, archive.reader, archive.place(at))
            found[directory, name] = file
    return sorted(found.values(), key=attrgetter("directory", "name"))


def _together(files: Sequence[BatchFile], directory: str) -> dict[str, list[_Images]]:
    """Find the images in a directory of an archive, or in the highest ones below."""
    found: dict[str, list[BatchFile]] = {}
    for file in files:
        if not directory or f"{file.directory}/".startswith(f"{directory}/"):
            found.setdefault(file.directory, []).append(file)
    sets = {path: images for path, beside in found.items() if (images := _images_in(beside))}
    depths = {path: path.count("/") + bool(path) for path in sorted(sets)}
    return {path: sets[path] for path in depths if depths[path] == min(depths.values())}


def _images_in(files: Sequence[BatchFile], name: str | None = None) -> list[_Images]:
    """Find the files of images, or the one of a name, among those of one directory."""
    known = {file.name: file for file in files}
    found = []
    for file in files:
        match, bare = _IDX.fullmatch(file.name), file.name.removesuffix(".gz")
        is_again = bare != file.name and bare in known
        if match is None or (is_again if name is None else file.name != name):
            continue
        beside = "labels".join(bare.rsplit("images", 1)).replace("idx3", "idx1")
        labels = known.get(beside) or known.get(beside + ".gz")
        part = (match["part"] or "").replace("t10k", "test")
        found.append(_Images(file, part, labels, match["set"] or match["single"] or ""))
    for version in _CIFAR:
        batches = [file for file in files if version.batches.fullmatch(file.name)]
        batches = [file for file in batches if name in (None, file.name)]
        if not found and any(
            version.names in known or "batch" in file.name or (name and _looks_like(file, version))
            for file in batches
        ):
            names = known.get(version.names)
            for file in batches:
                part = "test" if file.name.startswith("test") else "train"
                found.append(_Images(file, part, names, version=version))

    def order(images: _Images) -> tuple[bool, int, str]:
        number = re.search(r"_(\d+)(\.bin)?$", images.file.name)
        return images.part == "test", int(number[1]) if number else 0, images.file.name

    return sorted(found, key=order)


def _looks_like(file: BatchFile, version: _Version) -> bool:
    """Return whether a file is such a batch, where its name may be that of anything."""
    if version.labels:
        return file.size > 0 and file.size % (version.labels + CIFAR.bytes) == 0
    return next(file.blocks(raw=True), b"")[:1] == b"\x80"


# CIFAR


def _read_cifar(images: Sequence[_Images]) -> tuple[list[_Batch], Names]:
    """Read the batches of one directory, and the class names beside them."""
    version, named = images[0].version, images[0].beside
    assert version is not None
    names: Names = None
    found: dict[str, _Batch] = {}
    parts = {each.file.name: each.part for each in images}
    for file, data in _contents([each.file for each in images] + ([named] if named else [])):
        if file == named:
            names = _class_names(file, data, version)
            continue
        stem = file.name.removesuffix(".bin")
        directory = stem if stem in PARTS else f"{parts[file.name]}/{stem}"
        step, originals = version.labels + CIFAR.bytes, None
        if version.key:
            _, labels, originals = read_batch(data, str(file), version.key)
        elif not data or len(data) % step:
            raise SourceError(
                f"{file}: has {len(data)} bytes, not a multiple of {step}; download it again"
            )
        else:
            labels = list(data[version.labels - 1 :: step])
        places = version.labels, version.labels, version.key
        batch = Batch(file, len(labels), CIFAR.width, CIFAR.height, 3, *places)
        found[file.name] = batch, _table(batch, directory, labels, originals)
    return [found[each.file.name] for each in images], names


def _contents(files: Sequence[BatchFile]) -> Iterator[tuple[BatchFile, bytes]]:
    """Read files whole; those of an archive in one pass, in the order of the archive."""
    for file in files:
        if file.size > _LARGEST:
            raise SourceError(f"{file}: has {file.size} bytes, far more than a file of CIFAR")
    if files[0].archive is None:
        yield from ((file, b"".join(file.blocks())) for file in files)
    else:
        files = sorted(files, key=attrgetter("place"))
        yield from zip(files, read_members(files), strict=True)


def _class_names(file: BatchFile, data: bytes, version: _Version) -> tuple[str, ...]:
    if version.names_key:
        listed = read_pickle(data, str(file)).get(version.names_key)
    else:
        listed = [line for line in data.splitlines() if line.strip()]
    names = tuple(text_of(name) for name in listed) if isinstance(listed, list) else ()
    if not all(names) or len(set(names)) < len(names) or any("\n" in name for name in names):
        raise SourceError(f"{file}: does not name each class once")
    if not names:
        raise SourceError(f"{file}: names no classes")
    return names


# Idx files


def _read_idx(images: Sequence[_Images]) -> list[_Batch]:
    """Read the heads of files of images, and all of their labels."""
    found = []
    for each in images:
        file = each.file
        (count, height, width), compressed = _read_head(file, 3)
        if not height or not width or height * width > _MOST_PIXELS:
            raise SourceError(
                f"{file}: its images have {width} by {height} pixels, which dsprep does not read"
            )
        labels = None
        if each.beside is not None:
            (listed,), _ = _read_head(each.beside, 1)
            if listed != count:
                raise SourceError(
                    f"{each.beside}: has {listed} labels, but there are {count} images"
                )
            labels = list(b"".join(each.beside.blocks())[8:])
        in_place = not (compressed or file.archive or is_s3(file.path))
        batch = Batch(file, count, width, height, start=16, in_place=in_place)  # after the head
        found.append((batch, _table(batch, each.part, labels)))
    return found


def _read_head(file: BatchFile, dimensions: int) -> tuple[tuple[int, ...], bool]:
    """Return the dimensions in the head, which the size has to match, and if it is compressed."""
    blocks = file.blocks()
    first = next(blocks, b"")
    length = 4 + 4 * dimensions
    while len(first) < length and (block := next(blocks, b"")):
        first += block
    head = first[:length]
    if head[:4] != bytes((0, 0, 8, dimensions)):
        raise SourceError(
            f"{file}: is not an idx file of bytes in {dimensions} dimensions: it begins with "
            f"{head[:4].hex(' ')}"
        )
    if len(head) < length:
        raise SourceError(f"{file}: ends within its head; download it again")
    shape: tuple[int, ...] = struct.unpack(f">{dimensions}I", head[4:])
    if shape[0] > _MOST_IMAGES:
        raise SourceError(f"{file}: says it has {shape[0]} images; the maximum is {_MOST_IMAGES}")
    compressed = compression_of(next(file.blocks(raw=True))) is not None
    wanted, size = len(head) + prod(shape), len(first) if compressed else file.size
    while compressed and size <= wanted and (block := next(blocks, b"")):
        size += len(block)
    if size != wanted:
        raise SourceError(
            f"{file}: says it has {' x '.join(map(str, shape))} bytes, so {wanted} with its head, "
            f"but {'there are more' if size > wanted else f'ends after {size}'}; download it again"
        )
    return shape, compressed


# The catalog


def _catalog(found: Sequence[_Batch], root: str, names: Names, classes: Names) -> Catalog:
    batches = tuple(batch for batch, _ in found)
    labeled = ["cls" in table.columns for _, table in found]
    if any(labeled) and not all(labeled):
        bare = batches[labeled.index(False)].file
        raise SourceError(f"{bare}: has no labels beside it, where others have")
    if classes is not None and not any(labeled):
        raise SourceError(f"{root}: has no labels, but a list of {len(classes)} classes was given")
    tables = [rows.with_columns(file=pl.lit(at, pl.Int64)) for at, (_, rows) in enumerate(found)]
    table = pl.concat(tables)
    if table.is_empty():
        raise SourceError(f"{root}: holds no images")
    table = table.select(pl.int_range(pl.len()).alias("index"), pl.all())
    reader = PixelReader(batches)
    known = names or classes
    if not any(labeled) or known is None:
        return Catalog(table, root, None, reader)
    outside = table.filter(~pl.col("cls").is_between(0, len(known) - 1))
    for number, offset, label in outside.select("file", "offset", "cls").head(1).iter_rows():
        batch = batches[number]
        raise SourceError(
            f"{batch.file}: image {offset // batch.size} has the label {label}, which is none "
            f"of the {len(known)} classes"
        )
    catalog = Catalog(table, root, known, reader)
    if classes is None:
        return catalog
    if unknown := [name for name in known if name not in classes]:
        raise unknown_classes(str(batches[0].file), unknown, classes)
    return renumbered(catalog, classes)


# Tables


_LAST_NUMBER = re.compile(r"[0-9]+$")


def with_pixel_columns(source: Source, catalog: Catalog) -> tuple[Catalog, Finding]:
    """Return the catalog of a table some of whose columns are the pixels of images, and a note."""
    reader, schema = catalog.reader, catalog.schema or Schema(())
    assert isinstance(reader, CsvReader)
    all_names = [name for name, _ in reader.columns]
    names: dict[str, None] = {}
    for pattern in source.pixel_columns:
        found = [name for name in all_names if name == pattern or fnmatchcase(name, pattern)]
        if not found:
            raise OptionError(
                f"--pixel-columns {pattern}: no column of {catalog.root} is called so; its columns "
                f"are {format_some(all_names)}"
            )
        names |= dict.fromkeys(found)
    ends = [_LAST_NUMBER.search(name) for name in names]
    if all(ends) and len({each[0] for each in ends if each}) == len(names):
        # A table whose columns were sorted as text has pixel10 before pixel2.
        names = dict(sorted(names.items(), key=lambda each: int(_LAST_NUMBER.findall(each[0])[0])))
    others = tuple(each for each in schema.fields if each.name not in names)
    taken = {each.name for each in others}
    count = len(names)
    if count == 1:
        rows = catalog.slice(0, _LOOKED_AT).rows()
        cells = (each.fields for each in reader.read(rows) if isinstance(each, Sample))
        counts = Counter(len(numbers_in(fields.get(*names))) for fields in cells)
        count = counts.most_common(1)[0][0] if counts else 0
    shape = shape_of(isqrt(count), isqrt(count), 1)
    if source.choice.raw_image:
        shape = parse_shape(source.choice.raw_image)
    if shape is None or shape.bytes != count:
        given = source.choice.raw_image and f", and not the {shape} of --raw-image"
        raise OptionError(
            f"--pixel-columns {','.join(source.pixel_columns)}: a row of {catalog.root} has "
            f"{format_count(count, 'pixel')}{given or ', which are no square of gray ones'}: give "
            f"{'other columns, or ' * bool(given)}the shape with --raw-image, such as 32x32x3"
        )
    image = IMAGE if IMAGE not in taken else next(iter(names))
    fields = (Field(image, "image", places=((image,),), told="--pixel-columns"), *others)
    pixels = PixelColumns(tuple(names), shape, image)
    made = replace(schema, fields=fields, image=image)
    what = f"{format_count(len(names), 'column')} of {catalog.root}"
    note = Finding("note", "", f"{what} became images of {shape} (height, width, channels)")
    return replace(catalog, reader=replace(reader, pixels=pixels), schema=made), note


def _table(
    batch: Batch, directory: str, labels: list[int] | None, file_names: list[str] | None = None
) -> pl.DataFrame:
    """Return the rows of a batch in a directory, without the numbers of images and of the batch."""
    count = batch.images
    numbers = pl.int_range(count, dtype=pl.Int64, eager=True)
    digits = numbers.cast(pl.String).str.zfill(max(5, len(str(count - 1))))
    stems = pl.Series([f"{directory}/".removeprefix("/")]) + digits
    if file_names is not None:
        originals = (name.rpartition(".")[0] or name for name in file_names)
        suffixes = [f"_{name}" if _FILE_NAME.fullmatch(name) else "" for name in originals]
        stems += pl.Series(suffixes, dtype=pl.String)
    table = pl.DataFrame({"path": stems + ".png"}).with_columns(
        size=pl.lit(batch.size, pl.Int64),
        mtime=pl.lit(batch.file.mtime, pl.Int64),
        file=pl.lit(0, pl.Int64),
        offset=numbers * batch.size,
        stored=pl.lit(batch.size, pl.Int64),
    )
    return table if labels is None else table.with_columns(cls=pl.Series(labels, dtype=pl.Int64))
