"""A folder of files again: ``CLASS/NAME.EXT``.

The paths of a sample's files depend on that sample alone. A worker writes them into a tree beside
the target (:mod:`dsprep.run.folder`), and never replaces a file there: two samples of one path are
an error.

Fields that files and paths cannot hold go to ``metadata.jsonl``, in the form that ``imagefolder``
of Hugging Face's ``datasets`` reads.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from stat import S_ISDIR
from typing import TYPE_CHECKING, ClassVar, Self

import google_crc32c

from dsprep.annotations import mxnet
from dsprep.annotations.objects import FLAGS, PARTS
from dsprep.errors import BadImage, BadSample, OptionError
from dsprep.formats.augmented import Row, format_augmented, format_texts
from dsprep.formats.base import TreeFormat, refuse_lists_of_bytes
from dsprep.formats.listing import SIDE, File, Listed, Samples, side_directory, taken_error
from dsprep.formats.values import extension_of, json_writer, quote
from dsprep.formats.webdataset import WebDataset
from dsprep.images.header import read_header, sniff
from dsprep.patterns import pattern
from dsprep.sample import IMAGE_EXTENSIONS, UNKNOWN_IMAGE, Sample, Value
from dsprep.schema import FACTS, IMAGE, LABEL, Field, Meaning, Schema
from dsprep.units import format_some

if TYPE_CHECKING:
    import polars as pl


METADATA = "metadata.jsonl"  # the file in a folder that tells what neither names nor images tell
FILE_NAME = "file_name"  # its column that names the image; `mask_file_name` names another file
_LONGEST_ENDING = 200
_LONGEST_PART = 255  # bytes of a file's or a directory's name in nearly all file systems
_LONGEST_PATH = 3072  # bytes of a path below a folder, of `PATH_MAX`: 1,024 are for the folder
_DEEPEST = 64  # directories that may lie in each other
_NO_NAME = pattern("[\x00\ud800-\udfff]")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Folder(TreeFormat):
    """Files in directories of classes.

    A folder comes back byte for byte from shards that tell file names. From those that do not,
    files are named by key and kind: a record ``12`` comes back as ``12.jpg``.
    """

    name: ClassVar[str] = "folder"
    suffix: ClassVar[str] = ""
    meanings: ClassVar[Mapping[str, Meaning]] = {
        IMAGE: Meaning(IMAGE, "image", IMAGE),
        LABEL: Meaning(LABEL, None, LABEL),
    }
    concatenative: ClassVar[bool] = False
    in_spans: ClassVar[bool] = False
    distinct: ClassVar[str] = "path"
    class_names_in: ClassVar[str] = "sample"
    # whether images may be of another kind than their file names say, because they were encoded
    # again: those get the extension of their kind. Else a name is kept as it is.
    reencoded: bool = False
    object_parts: ClassVar[frozenset[str]] = frozenset((*FLAGS, *PARTS))

    def arranged(self, schema: Schema) -> tuple[Self, list[str]]:
        refuse_lists_of_bytes(schema, "a folder")
        for each in schema.fields:
            is_value = not each.kind.is_bytes and each.name not in FACTS
            is_taken = each.name.endswith(FILE_NAME) or each.name == IMAGE
            if is_value and is_taken:
                raise OptionError(
                    f"readers of {METADATA} take the field {each.name!r} for a file: give "
                    f"--rename {each.name}=NAME or --drop {each.name}"
                )
        kept = [each for each in schema.fields if each.name not in FACTS]
        told = [each.name for each in schema.fields if each.name in FACTS]
        note = f"left out, because the images tell them: {format_some(told)}"
        return self.laid_out(schema, kept), [note] if told else []

    def open_writer(self, path: str, tree: str, samples: int) -> FolderWriter:
        return FolderWriter(path, tree, self)

    def weights(self, rows: pl.DataFrame) -> pl.Series:
        return rows["image"]

    def lay_out(self, sample: Sample) -> tuple[Listed, list[bytes]]:
        """Return what the listing says of a sample, and the bytes of its files."""
        label, name = self.written.label_field, self.class_of(sample)
        value = sample.fields.get(label.name) if label else None
        told: int | tuple[float, ...] | None = None
        if label is not None and value is not None:
            if label.kind.is_integer:
                told = int(value)
            elif label.kind.is_number:
                told = value if isinstance(value, tuple) else (value,)
                if self.reencoded and told[:2] == (4, 5) and len(told) >= 4:
                    with suppress(BadImage):  # a detection label holds the size of its image
                        header = read_header(sample.fields.get(self.written.image or "", b""))
                        size = float(header.width), float(header.height)
                        told = (*told[:2], *size, *told[4:])
        objects = None if label is not None else self.written.objects
        if objects is not None and (boxes := sample.fields.get(objects.name)):
            told = mxnet.write(boxes)
        texts = (
            f"{key}:{write(sample.fields[field])}"
            for field, key, write in self._columns
            if field in sample.fields
        )
        stem, parts, wanted, references = self._paths(sample, name)
        listed = Listed(
            sample.id,
            sample.key,
            told,
            name if name != str(told) else sample.class_name,
            stem,
            tuple(File(stem + end, len(data), google_crc32c.value(data)) for end, data in parts),
            wanted,
            ",".join(texts),
            references,
        )
        return listed, [data for _, data in parts]

    def _paths(
        self, sample: Sample, own: str | None
    ) -> tuple[str, list[tuple[str, bytes]], str | None, tuple[tuple[str, str], ...]]:
        """Choose the files of a sample of a class, as :class:`Listed` has them."""
        # The image has the sample's file name, or its key and the extension of its kind, in the
        # directory of its class. Everything else has that name, with the name of its field for an
        # extension.
        data: bytes | None = sample.fields.get(self.written.image or "")
        kind = "" if data is None else sniff(data) or UNKNOWN_IMAGE
        files: list[tuple[str, bytes]] = []
        references: list[tuple[str, str]] = []
        for name, ending, is_image in self._files:
            if (value := sample.fields.get(name)) is None:
                continue
            if is_image:
                ending = f"{ending}.{sniff(value) or UNKNOWN_IMAGE}"
                references.append((name, ending))
            files.append((ending, value))
        wanted = sample.path or sample.key
        stem = harmless_path(wanted)
        changed, ending = stem != wanted, f".{kind}"
        if sample.path:
            plain = stem
            stem, ending = _split_extension(plain)
            promised = IMAGE_EXTENSIONS.get(ending[1:].lower())
            if data is not None and (self.reencoded or not ending) and promised != kind:
                stem, ending = (stem if promised else plain), f".{kind}"
        if data is not None:
            if ending in {other for other, _ in files}:
                ending, changed = f".{kind}", True
            files.insert(0, (ending, data))
        elif sample.path:
            files = [(ending if each[0] == ending.lower() else each[0], each[1]) for each in files]
        _require_files(stem, [ending for ending, _ in files])
        if own is not None and not self._leads_to(own, stem.rpartition("/")[0], sample):
            directory, top = _harmless_part(own), side_directory(stem)
            stem, changed = f"{top}{directory}/{stem[len(top) :]}", changed or directory != own
        side = SIDE.search(stem.rpartition("/")[2])
        has_metadata = self._columns or any(is_image for _, _, is_image in self._files)
        if side and has_metadata and not side_directory(stem):
            # Of files that are called train, datasets reads metadata in directories alone.
            stem = f"{side[1]}/{stem}"
        directory, slash, last = stem.rpartition("/")
        room = _LONGEST_PART - max(len(ending.encode()) for ending, _ in files)
        fitting = directory + slash + _cut(last, room)
        is_told = changed or fitting != stem
        return fitting, files, wanted if is_told else None, tuple(references)

    def _leads_to(self, name: str, directory: str, sample: Sample) -> bool:
        """Whether a directory leads through that of a class, or may not need to."""
        # A class without a name says nothing against directories that there are.
        label = self.written.label_field
        is_named = sample.class_name is not None or bool(label and label.names)
        is_last = name != "" and f"/{directory}".endswith(f"/{name}")
        return is_last or directory.startswith(f"{name}/") or (directory != "" and not is_named)

    def class_of(self, sample: Sample) -> str | None:
        label = self.written.label_field
        number = sample.fields.get(label.name) if label else None
        if label is None or not label.kind.is_integer or number is None:
            return None
        name = label.class_name(number) if sample.class_name is None else sample.class_name
        return str(int(number)) if name is None else name

    def listed_sample(self, listed: Listed, files: Mapping[str, bytes]) -> Sample:
        """Return the sample that was written, its values as the metadata and files have them."""
        references, label = dict(listed.references), self.written.label
        fields: dict[str, Value] = {}
        told = json.loads(f"{{{listed.fields}}}")
        for name, key, _ in self._columns:
            if (column := json.loads(key.removesuffix(":"))) in told:
                fields[name] = told[column]
        if label is not None and listed.label is not None:
            fields[label] = listed.label
        paths = {listed.stem + references.get(name, end): name for name, end, _ in self._files}
        for path, data in files.items():
            if (name := paths.get(path, self.written.image or "")) and path != METADATA:
                fields.setdefault(name, data)
        return Sample(listed.key, fields, listed.id, class_name=listed.class_name)

    def metadata_lines(self, samples: Samples, counts: Counter[str]) -> Iterator[tuple[str, str]]:
        label = self.written.label_field
        is_class = label is not None and label.kind.is_integer
        is_named = is_needed = False
        has_label: set[bool] = set()
        for each in samples():
            is_named |= each.class_name is not None
            has_label.add(each.label is not None)
            own = each.class_name if each.class_name is not None else str(each.label)
            lies_apart = each.label is not None and each.stem.split("/")[-2:-1] != [own]
            is_needed |= bool(each.fields or each.references) or (is_class and lies_apart)
        is_needed |= is_class and len(has_label) > 1
        for each in samples() if is_needed else ():
            top = side_directory(each.files[0].path)
            texts = [f"{quote(FILE_NAME)}:{quote(each.files[0].path[len(top) :])}"]
            value: Value = each.label
            if value is not None and label is not None:
                if is_named:
                    text = quote(str(value) if each.class_name is None else each.class_name)
                else:
                    is_single = isinstance(value, tuple) and not label.kind.is_list
                    text = json_writer(label.kind)(value[0] if is_single else value)
                texts.append(f"{quote(self._label_column)}:{text}")
            for name, ending in each.references:
                path = (each.stem + ending)[len(top) :]
                texts.append(f"{quote(f'{name}_{FILE_NAME}')}:{quote(path)}")
            texts += [each.fields] * bool(each.fields)
            yield top + METADATA, f"{{{','.join(texts)}}}\n"

    @cached_property
    def _label_column(self) -> str:
        """The column of the label: what readers call it, unless the user chose its name."""
        label = self.written.label_field
        is_taken = any(each.name == LABEL for each in self.written.others)
        return label.name if label and (label.given or is_taken) else LABEL

    @cached_property
    def _files(self) -> list[tuple[str, str, bool]]:
        """The fields that are files: name, ending of the path, whether it is an image."""
        found = []
        for each in self.written.fields:
            if not each.kind.is_bytes or each.name == self.written.image:
                continue
            name = extension_of(each.name)
            ending = f".{name}"
            if each.type == "json" and name != "json":
                ending += ".json"
            # Readers go by the extension: bytes that are called after text would be taken for text.
            kind = WebDataset.meaning(WebDataset.place_of(name)).type
            if each.type == "bytes" and kind not in (None, "bytes"):
                ending += ".bin"
            found.append((each.name, ending, each.kind.is_image))
        return found

    @cached_property
    def _columns(self) -> list[tuple[str, str, Callable[[Value], str]]]:
        """The fields that lie in the metadata: name, key as JSON, and what writes their values."""
        found: list[tuple[str, str, Callable[[Value], str]]] = []
        for each in self.written.fields:
            is_label = each.name == self.written.label
            # Numbers of a label are in the list of a folder, or in the names of its directories.
            if each.kind.is_bytes or (is_label and each.kind.is_number):
                continue
            is_named = each.names and each.kind.is_integer
            write = partial(_class_text, each) if is_named else json_writer(each.kind)
            column = self._label_column if is_label else each.name
            found.append((each.name, f"{quote(column)}", write))
        return found


class AugmentedFolder(Folder):
    """Files in directories of classes, and an augmented manifest beside them.

    Samples without an image are lines of the manifest, each with a text; the folder stays empty.
    """

    name: ClassVar[str] = "augmented-manifest"
    object_parts: ClassVar[frozenset[str]] = frozenset()
    prefix: str = ""  # what the references of the manifest begin with: `s3://bucket/path/`

    def arranged(self, schema: Schema) -> tuple[Self, list[str]]:
        made, notes = super().arranged(schema)
        if schema.image is not None:
            return made, notes
        self._require_text(schema)
        return made, ["texts are in the manifest beside the folder, which stays empty"]

    def _require_text(self, schema: Schema) -> None:
        """Refuse samples without an image that are more, or less, than a text and its label."""
        label = schema.label_field
        texts = [each.name for each in schema.fields if each.type == "text" and each != label]
        if not texts:
            raise OptionError(
                f"format {self.name}: its lines have an image or a text, and the samples have "
                f"neither; fields are {format_some(list(schema.by_name))}"
            )
        others = [each.name for each in schema.fields if each.name != texts[0] and each != label]
        if others:
            raise OptionError(
                f"format {self.name}: a line holds a text and its label; leave out what else there "
                f"is, such as --drop {','.join(others)}"
            )
        if label is not None and not label.kind.is_number:
            raise OptionError(
                f"format {self.name}: the label of a text is a number or a list of numbers, and "
                f"{label.name!r} is {label.kind.what}: give --label-type class"
            )
        if self.prefix:
            raise OptionError("--prefix: lines of texts refer to no files; leave it out")

    @cached_property
    def _text(self) -> str | None:
        """The field that is the text of a line; None if lines refer to images."""
        texts = (each.name for each in self.written.fields if each.type == "text")
        return next(texts, None) if self.written.image is None else None

    def _paths(
        self, sample: Sample, own: str | None
    ) -> tuple[str, list[tuple[str, bytes]], str | None, tuple[tuple[str, str], ...]]:
        if self._text is None:
            return super()._paths(sample, own)
        if self._text not in sample.fields:
            raise BadSample(f"has no {self._text!r}, the text of its line")
        return sample.key, [], None, ()

    def metadata_lines(self, samples: Samples, counts: Counter[str]) -> Iterator[tuple[str, str]]:
        return iter(()) if self._text is not None else super().metadata_lines(samples, counts)

    def references(self, samples: Iterable[Listed], classes: Sequence[str] | None) -> str:
        if self._text is not None:
            told = ((json.loads(f"{{{each.fields}}}"), each) for each in samples)
            texts = ((values[self._text], each.label, each.class_name) for values, each in told)
            return format_texts(texts, classes)
        rows: list[Row] = []
        for each in samples:
            image, *files = (file.path for file in each.files)
            start = len(each.stem) + 1
            others = {path[start:]: path for path in files if path.startswith(each.stem)}
            rows.append((image, each.label, each.class_name, others))
        objects = self.written.objects
        kind = "boxes" if objects else None
        names = objects.names if objects else classes
        fields = [each for each in self.written.fields if each.type == "mask"]
        masks = {extension_of(each.name): each.names for each in fields}
        return format_augmented(rows, self.prefix, names, kind, masks)

    def is_listed(self, field: Field) -> bool:
        return field.type != "objects"  # the manifest has the types of objects

    @cached_property
    def _columns(self) -> list[tuple[str, str, Callable[[Value], str]]]:
        objects = self.written.objects
        return [each for each in super()._columns if not (objects and each[0] == objects.name)]


class FolderWriter:
    """Writes the files of a unit into a tree, and its listing to a file."""

    def __init__(self, listing: str, tree: str, folder: Folder) -> None:
        os.makedirs(tree, exist_ok=True)
        self._folder, self._tree = folder, os.open(tree, _DIRECTORY)
        self._listing, self._lines = listing, list[bytes]()
        self._directories = {""}
        self.raw = 0
        self.bytes = self.crc32c = 0  # size and checksum of the listing

    def add(self, sample: Sample) -> int:
        listed, parts = self._folder.lay_out(sample)
        line = listed.to_json()
        for file, data in zip(listed.files, parts, strict=True):
            self._make(file.path.rpartition("/")[0], sample)
            try:
                descriptor = os.open(file.path, _FLAGS, 0o666, dir_fd=self._tree)
            except FileExistsError:
                holder = self._holder_of(file.path)
                raise taken_error(sample.path or sample.key, file.path, holder) from None
            with open(descriptor, "wb", buffering=0) as opened:
                left = memoryview(data)
                while left:
                    left = left[opened.write(left) :]
        self._lines.append(line)
        self.bytes += len(line)
        self.crc32c = google_crc32c.extend(self.crc32c, line)
        return sum(map(len, parts))

    def finish(self) -> None:
        with open(self._listing, "wb") as file:
            file.writelines(self._lines)

    def close(self) -> None:
        os.close(self._tree)

    def _holder_of(self, path: str) -> str:
        """Return the key of the sample of this unit that has a file; empty if none has it."""
        units = map(Listed.from_json, self._lines)
        return next((u.key for u in units if path in (file.path for file in u.files)), "")

    def _make(self, directory: str, sample: Sample) -> None:
        if directory in self._directories:
            return
        self._make(directory.rpartition("/")[0], sample)
        with suppress(FileExistsError):
            os.mkdir(directory, dir_fd=self._tree)
        if not S_ISDIR(os.stat(directory, dir_fd=self._tree, follow_symlinks=False).st_mode):
            raise taken_error(sample.path or sample.key, directory)
        self._directories.add(directory)


def _class_text(field: Field, number: int) -> str:
    name = field.class_name(number)
    return quote(str(number) if name is None else name)


def _require_files(stem: str, endings: list[str]) -> None:
    name = stem.rpartition("/")[2]
    if not endings:
        raise BadSample("has nothing that could be a file")
    if len(set(endings)) < len(endings):
        raise BadSample("has two parts whose files would have one name")
    if any(name + ending == METADATA for ending in endings):
        raise BadSample(f"has the name of {METADATA}, which a folder may hold itself")
    if any(name + ending == ".." for ending in endings):
        raise BadSample("has a part with a name that is no file's")
    if any(len(ending.encode()) > _LONGEST_ENDING for ending in endings):
        raise BadSample(f"has a part whose name is longer than {_LONGEST_ENDING} bytes")


# Names from outside as names of files: safe to create, and readable again.


def _harmless_part(name: str) -> str:
    """Make a text the name of one file or directory; ``_`` replaces what a name cannot hold."""
    name = _NO_NAME.sub("_", name.replace("/", "_"))
    return "_" if name in ("", ".", "..") else _cut(name, _LONGEST_PART)


def harmless_path(path: str) -> str:
    """Make a text a path that leads below the directory that it starts from."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts:
        raise BadSample("has a name that no file can have")
    if len(parts) > _DEEPEST:
        raise BadSample(f"has a name of {len(parts)} directories; {_DEEPEST} is the limit")
    *directories, name = parts
    name = "_" if name == ".." else _NO_NAME.sub("_", name)
    plain = "/".join([*map(_harmless_part, directories), name])
    if len(plain.encode()) > _LONGEST_PATH:
        raise BadSample(f"has a name of more than {_LONGEST_PATH} bytes")
    return plain


def _split_extension(path: str) -> tuple[str, str]:
    directory, slash, name = path.rpartition("/")
    stem, dot, extension = name.rpartition(".")
    if not stem or len(extension) > 16:  # what follows the dot is part of the name
        return path, ""
    return directory + slash + stem, dot + extension


def _cut(text: str, size: int) -> str:
    """Return the first characters of a text that take at most ``size`` bytes of UTF-8."""
    data = text.encode()
    return text if len(data) <= size else data[:size].decode(errors="ignore")
