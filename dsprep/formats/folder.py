"""A folder of files again: ``CLASS/NAME.EXT``.

A unit of work is a directory of its own. The files in it are named by number, and a listing says
what each is to be called in the folder: only when all units are there is it known which names are
taken, and then the files get theirs by being renamed (:mod:`dsprep.running.tree`). So no name that
comes from outside is used before all of them have been looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import google_crc32c

from dsprep.errors import BadImage, BadSample
from dsprep.formats.base import Entry, Format
from dsprep.formats.extensions import extension_of
from dsprep.formats.filenames import cut_stem, harmless_part, harmless_path, split_extension
from dsprep.formats.label_text import label_text
from dsprep.formats.listing import LISTING, File, Listed
from dsprep.formats.typed_json import Typed, encode_typed
from dsprep.images.header import read_header
from dsprep.sample import IMAGE_EXTENSIONS, Blobs, Floats, Ints, Sample, is_label

if TYPE_CHECKING:
    import polars as pl

    from dsprep.formats.stream import ShardStream

_LONGEST_ENDING = 200
_SIZED = 4
"""Numbers at the head of a detection label; the last two are the image's size."""

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Layout(NamedTuple):
    """What a sample becomes.

    Attributes:
        stem: What the paths of its files begin with.
        files: How each path ends, and the file's bytes; the image first.
        wanted: The name that it should have had, where that could not be; or None.
    """

    stem: str
    files: list[tuple[str, bytes]]
    wanted: str | None


@dataclass(frozen=True)
class Folder(Format):
    """Files in directories of classes.

    A folder comes back byte for byte from shards that tell file names: TFRecord's feature
    ``image/filename``, the ``.lst`` beside RecordIO, a WebDataset's ``.json``. From those that do
    not, a WebDataset without metadata, files are named by key and kind: ``a.JPEG`` comes back as
    ``a.jpg``.

    Attributes:
        reencoded: Whether images may be of another kind than their file names say, because they
            were encoded again: those get the extension of their kind. Else a name is kept as it is.
    """

    name: ClassVar[str] = "folder"
    suffix: ClassVar[str] = ""
    concatenative: ClassVar[bool] = False
    known_by: ClassVar[str] = "path"
    reencoded: bool = False

    @property
    def wants(self) -> frozenset[str]:
        """The name of the class, and that of the file."""
        return frozenset({"class", "filename"})

    def encode(self, sample: Sample) -> list[bytes]:
        """The files of a sample, one after another."""
        return [data for _, data in lay_out(sample, self.reencoded).files]

    def open_writer(self, path: str) -> FolderWriter:
        """Make the directory of a unit.

        Raises:
            OSError: If it cannot be made, or is there already.
        """
        return FolderWriter(path, self.reencoded)

    def weights(self, rows: pl.DataFrame) -> pl.Series:
        """The images themselves."""
        return rows["image"]

    def read(self, stream: ShardStream) -> Iterator[Entry]:
        """A folder is not read as a shard, but as a source.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("a folder is a source, not a shard")


@dataclass(frozen=True)
class AugmentedFolder(Folder):
    """Files in directories of classes, and an augmented manifest beside them.

    Attributes:
        prefix: What the references of the manifest begin with: ``s3://bucket/path/``.
    """

    name: ClassVar[str] = "manifest"
    prefix: str = ""

    def manifest(self, samples: Iterable[Listed], classes: Sequence[str] | None) -> str:
        """The lines of the manifest, which refer to every file of the folder.

        Args:
            samples: What the listing of the folder says.
            classes: The names of the classes.
        """
        from dsprep.formats.augment import format_augmented

        rows = (
            (
                each.files[0].path,
                each.label,
                each.class_name,
                {file.path[len(each.stem) + 1 :]: file.path for file in each.files[1:]},
            )
            for each in samples
        )
        return format_augmented(rows, self.prefix, classes=classes)


class FolderWriter:
    """Writes the files of a unit into its directory.

    Attributes:
        bytes: The size of all files, without the listing.
        crc32c: Of the listing, which has the checksums of the files.
    """

    def __init__(self, path: str, reencoded: bool = False) -> None:
        os.mkdir(path)
        self._reencoded = reencoded
        self._directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._lines: list[bytes] = []
        self._count = 0
        self.bytes = self.crc32c = 0

    def add(self, sample: Sample) -> int:
        """Write the files of a sample; returns their size.

        Raises:
            BadSample: If no files can be made of it; nothing of it is written.
        """
        stem, parts, wanted = lay_out(sample, self._reencoded)
        files = tuple(
            File(stem + ending, len(data), google_crc32c.value(data)) for ending, data in parts
        )
        line = Listed(*_known(sample, self._reencoded), stem, files, wanted).to_json()
        for _, data in parts:
            self._write(str(self._count), data)
            self._count += 1
        self._lines.append(line)
        size = sum(file.bytes for file in files)
        self.bytes += size
        return size

    def finish(self) -> None:
        """Write the listing."""
        data = b"".join(self._lines)
        self._write(LISTING, data)
        self.crc32c = google_crc32c.value(data)

    def close(self) -> None:
        """Close the directory; it is whole only if :meth:`finish` was called."""
        if self._directory >= 0:
            os.close(self._directory)
            self._directory = -1

    def _write(self, name: str, data: bytes) -> None:
        descriptor = os.open(name, _FLAGS, 0o666, dir_fd=self._directory)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
        finally:
            os.close(descriptor)


def lay_out(sample: Sample, reencoded: bool = False) -> Layout:
    """Choose the files of a sample.

    The image has the sample's file name, or its key and the extension of its kind; if that name
    has no directory, then the name of its class, or else the class number, is one. Everything else
    has that name, with the name of its field for an extension.

    Args:
        sample: The sample.
        reencoded: Whether its image may be of another kind than its file name says.

    Raises:
        BadSample: If there is nothing to write, or no file can have its name.
    """
    image = sample.image()
    files = list(_others(sample, image[0] if image else None))
    named = sample.fields.get("filename")
    wanted = named if isinstance(named, str) and named else None
    if wanted is None:
        # The name of a shard's member: its extension follows the key.
        stem, ending = harmless_path(sample.key), f".{image[0]}" if image else None
        changed = stem != sample.key
        wanted = sample.key
    else:
        plain = harmless_path(wanted)
        changed = plain != wanted
        stem, ending = split_extension(plain)
        if image and reencoded and IMAGE_EXTENSIONS.get(ending[1:].lower()) != image[0]:
            stem = stem if ending[1:].lower() in IMAGE_EXTENSIONS else plain
            ending = f".{image[0]}"
    if image:
        assert ending is not None
        if ending in {other for other, _ in files}:
            ending, changed = f".{image[0]}", True
        files.insert(0, (ending, image[1]))
    elif ending is not None:
        files = [(ending if each[0] == ending.lower() else each[0], each[1]) for each in files]
    _require_files(stem, [ending for ending, _ in files])
    directory = _directory(sample) if "/" not in stem else None
    if directory is not None:
        stem = f"{directory}/{stem}"
        changed = changed or directory != str(sample.fields.get("class", directory))
    fitting = cut_stem(stem, max(len(ending.encode()) for ending, _ in files))
    return Layout(fitting, files, wanted if changed or fitting != stem else None)


def _directory(sample: Sample) -> str | None:
    name, number = sample.fields.get("class"), sample.fields.get("cls")
    if isinstance(name, str):
        return harmless_part(name)
    return str(number) if isinstance(number, int) else None


def _require_files(stem: str, endings: list[str]) -> None:
    name = stem.rpartition("/")[2]
    if not endings:
        raise BadSample("has nothing that could be a file")
    if len(set(endings)) < len(endings):
        raise BadSample("has two parts whose files would have one name")
    if any(name + ending == ".." for ending in endings):
        raise BadSample("has a part with a name that is no file's")
    if any(len(ending.encode()) > _LONGEST_ENDING for ending in endings):
        raise BadSample(f"has a part whose name is longer than {_LONGEST_ENDING} bytes")


def _others(sample: Sample, image: str | None) -> Iterator[tuple[str, bytes]]:
    """The files beside the image, as a WebDataset's members: how each name ends, and the bytes."""
    fields = sample.fields
    typed: dict[str, Typed] = {}
    for name, value in fields.items():
        if name == image or _is_told(name, sample):
            continue
        if isinstance(value, bytes | str):
            data = value if isinstance(value, bytes) else value.encode()
            yield f".{extension_of(name)}", data
        elif isinstance(value, Ints | Floats | Blobs):
            typed[name] = value
        elif isinstance(value, int):
            typed[name] = Ints((value,))
        else:
            yield ".label.json", label_text(value)
    if typed:
        yield ".features.json", encode_typed(typed)


def _is_told(name: str, sample: Sample) -> bool:
    """Whether a field needs no file, as the folder, its list or the image tells it."""
    value = sample.fields[name]
    if name in ("class", "filename"):
        return isinstance(value, str)
    if name == "label":  # a list has one label
        return is_label(value) and not isinstance(sample.fields.get("cls"), int)
    if name in ("width", "height"):
        return _size(sample).get(name) == value
    return name in ("cls", "id") and isinstance(value, int)


def _size(sample: Sample) -> dict[str, int]:
    """Width and height of the image, if they can be read from it."""
    image = sample.image()
    try:
        header = read_header(image[1] if image else b"")
    except BadImage:
        return {}
    return {"width": header.width, "height": header.height}


def _known(
    sample: Sample, reencoded: bool
) -> tuple[int, str, int | tuple[float, ...] | None, str | None]:
    """What the listing says of a sample: id, key, label and the name of its class.

    The size at the head of a detection label is that of the image, if that has another one now.
    """
    number, label, name = (sample.fields.get(each) for each in ("cls", "label", "class"))
    if reencoded and is_label(label) and label[:2] == (4, 5) and len(label) >= _SIZED:
        size = _size(sample)
        label = (*label[:2], *map(float, size.values() or label[2:4]), *label[4:])
    told = number if isinstance(number, int) else label if is_label(label) else None
    return sample.id, sample.key, told, name if isinstance(name, str) else None
