"""What data sets are packed into before a contest, in the cache beside them: shards, an archive."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from .commands import dsprep
from .data import DataSet

SHARDS = 8

_SUFFIXES = {"zip": "-half.zip", "twice": "-twice.tar", "cifar": "-cifar.tar.gz", "csv": ".csv"}
_BATCH = 10_000  # images of a batch of CIFAR
_COLUMNS = 20  # of the table


@dataclass(frozen=True)
class Packed:
    """A data set as one finds it elsewhere.

    Attributes:
        data: The data set.
        form: `webdataset`, `tfrecord` or `recordio`: shards of that format. `zip`: the first half
            of its classes, deflated. `twice`: one WebDataset shard of two copies of it. `cifar`:
            its images as those of CIFAR's binary version, in its archive. `csv`: a table of
            random numbers, twice as many rows as there are images. `coco`: its folder with its
            annotations in it.
    """

    data: DataSet
    form: str

    @property
    def path(self) -> Path:
        """A directory of shards, or a file."""
        return self.data.cache / (self.data.name + _SUFFIXES.get(self.form, f"-{self.form}"))

    def files(self) -> Iterator[Path]:
        """All the files that it is."""
        return (each for each in (self.path, *self.path.rglob("*")) if each.is_file())


def ensure_packed(packed: Packed) -> None:
    """Pack a data set, unless that was done since it was made."""
    path, stamp = packed.path, packed.data.stamp
    if path.exists() and path.stat().st_mtime >= stamp.stat().st_mtime:
        return
    shutil.rmtree(path, ignore_errors=True)
    path.unlink(missing_ok=True)
    if packed.form == "zip":
        _zip_half(packed.data, path)
    elif packed.form == "twice":
        _pack_twice(packed.data, path)
    elif packed.form == "cifar":
        _archive_pixels(packed.data, path)
    elif packed.form == "csv":
        _write_table(packed.data, path)
    elif packed.form == "coco":
        _link_annotated(packed.data, path)
    else:
        _pack(packed.data.root, path, "--to", packed.form, "--shards", str(SHARDS))


def _pack(root: Path, path: Path, *options: str) -> None:
    command = dsprep("pack", str(root), str(path), *options, "--check", "none", "--overwrite")
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _link_annotated(data: DataSet, path: Path) -> None:
    (path / "annotations").mkdir(parents=True)
    os.link(data.annotations, path / "annotations" / "instances_train.json")
    (path / "train").symlink_to(data.root, target_is_directory=True)


def _zip_half(data: DataSet, path: Path) -> None:
    """What `zip -r` writes, which deflates images, too."""
    classes = sorted(data.root.iterdir())
    unfinished = path.with_suffix(".part")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
        for folder in classes[: (len(classes) + 1) // 2]:
            for file in sorted(folder.iterdir()):
                archive.write(file, file.relative_to(data.root))
    unfinished.rename(path)


def _pack_twice(data: DataSet, path: Path) -> None:
    links = data.cache / f"{data.name}-links"
    shutil.rmtree(links, ignore_errors=True)
    for copy in ("a", "b"):
        shutil.copytree(data.root, links / copy, copy_function=os.link)
    _pack(links, path)
    shutil.rmtree(links)


def _archive_pixels(data: DataSet, path: Path) -> None:
    images = sorted(data.root.rglob("*.jpg"))
    unfinished = path.with_suffix(".part")
    with tarfile.open(unfinished, "w:gz") as archive:

        def add(name: str, content: bytes) -> None:
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))

        add("batches.meta.txt", "".join(f"class {number}\n" for number in range(10)).encode())
        for at in range(0, len(images), _BATCH):
            records = bytearray()
            for number, file in enumerate(images[at : at + _BATCH]):
                with Image.open(file) as image:
                    pixels = np.asarray(image.convert("RGB").resize((32, 32)))
                records += bytes([number % 10]) + pixels.transpose(2, 0, 1).tobytes()
            add(f"data_batch_{at // _BATCH + 1}.bin", bytes(records))
    unfinished.rename(path)


def _write_table(data: DataSet, path: Path) -> None:
    numbers = np.random.default_rng(0).random((2 * data.recipe.files, _COLUMNS))
    names = [f"x{number}" for number in range(_COLUMNS)]
    lines = (
        ",".join([str(row % 10), *(f"{value:.6f}" for value in values)])
        for row, values in enumerate(numbers)
    )
    unfinished = path.with_suffix(".part")
    with unfinished.open("w") as file:
        file.write(",".join(["label", *names]) + "\n")
        file.writelines(f"{line}\n" for line in lines)
    unfinished.rename(path)
