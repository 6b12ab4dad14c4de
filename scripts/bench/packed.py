"""What data sets are packed into before a contest, in the cache beside them: shards, an archive."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .commands import dsprep
from .data import DataSet

SHARDS = 8

_SUFFIXES = {"zip": "-half.zip", "twice": "-twice.tar"}


@dataclass(frozen=True)
class Packed:
    """A data set as one finds it elsewhere.

    Attributes:
        data: The data set.
        form: `webdataset`, `tfrecord` or `recordio`: shards of that format. `zip`: the first half
            of its classes, deflated. `twice`: one WebDataset shard of two copies of it.
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
    else:
        _pack(packed.data.root, path, "--to", packed.form, "--shards", str(SHARDS))


def _pack(root: Path, path: Path, *options: str) -> None:
    command = dsprep("pack", str(root), str(path), *options, "--check", "none", "--overwrite")
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


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
