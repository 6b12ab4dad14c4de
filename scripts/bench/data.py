"""The data sets: made once, into a cache directory, and found there the next time.

Every file is a whole JPEG image of its own bytes: one of a few dozen pictures, and a comment that
numbers it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from .images import jpeg_of_size, picture, with_comment


@dataclass(frozen=True)
class Recipe:
    """What a data set is made of: `files` JPEG images of about `size` bytes in class folders.

    A linked data set has one file a class, under many names: enough where only names and sizes are
    read. (ext4 allows a file 65,000 names.)
    """

    name: str
    files: int
    classes: int
    width: int
    height: int
    size: int
    pictures: int
    grain: float = 18.0
    linked: bool = False


@dataclass(frozen=True)
class DataSet:
    """A data set in the cache: a folder, and beside it a `.lst` of all its files."""

    recipe: Recipe
    cache: Path

    @property
    def name(self) -> str:
        """The name of the data set and of its folder."""
        return self.recipe.name

    @property
    def root(self) -> Path:
        """The folder that holds a folder a class."""
        return self.cache / self.name

    @property
    def lst(self) -> Path:
        """The list of all files."""
        return self.cache / f"{self.name}.lst"

    @property
    def stamp(self) -> Path:
        """A file that tells what the data set was made of, and that it is whole."""
        return self.cache / f"{self.name}.json"


FEW = Recipe("few", 600, 10, 48, 48, 1_500, pictures=64)
SMALL = Recipe("small", 50_000, 100, 48, 48, 1_500, pictures=64)
PHOTOS = Recipe("photos", 10_000, 50, 500, 375, 100_000, pictures=48)
LARGE = Recipe("large", 500, 10, 3264, 2448, 2_000_000, pictures=8, grain=14.0)
LISTED = Recipe("listed", 1_281_167, 1_000, 48, 48, 1_500, pictures=64, linked=True)


def reduced(recipe: Recipe) -> Recipe:
    """The same data set with a few files, to try the benchmark itself."""
    files = max(8, recipe.files // 200)
    return replace(recipe, files=files, classes=min(recipe.classes, files), pictures=2)


def ensure(data: DataSet) -> int:
    """Find a data set in the cache, or make it.

    Returns:
        The bytes of all its files.
    """
    stamp = data.stamp
    made = json.loads(stamp.read_text()) if stamp.exists() else {}
    if made.get("recipe") != asdict(data.recipe):
        stamp.unlink(missing_ok=True)
        shutil.rmtree(data.root, ignore_errors=True)
        made = {"recipe": asdict(data.recipe), "bytes": _make(data)}
        stamp.write_text(json.dumps(made))
    return int(made["bytes"])


def _make(data: DataSet) -> int:
    bases = _bases(data.recipe)
    total = 0
    data.root.mkdir(parents=True)
    with data.lst.open("w") as lines:
        for label, indices in enumerate(_shares(data.recipe)):
            folder = data.root / f"class-{label:04d}"
            folder.mkdir()
            for index in indices:
                file = folder / f"{folder.name}_{index}.jpg"
                if data.recipe.linked and index != indices[0]:
                    os.link(folder / f"{folder.name}_{indices[0]}.jpg", file)
                else:
                    image = with_comment(bases[index % len(bases)], f"image {index}".encode())
                    file.write_bytes(image)
                total += len(image)
                lines.write(f"{index}\t{label:.6f}\t{folder.name}/{file.name}\n")
    return total


def _shares(recipe: Recipe) -> Iterator[range]:
    """The numbers of each class's files."""
    bounds = [recipe.files * label // recipe.classes for label in range(recipe.classes + 1)]
    return (range(low, high) for low, high in pairwise(bounds))


def _bases(recipe: Recipe) -> list[bytes]:
    rng = np.random.default_rng(0)
    return [
        jpeg_of_size(
            picture(rng, recipe.width, recipe.height, recipe.grain),
            int(recipe.size * rng.uniform(0.6, 1.4)),
        )
        for _ in range(recipe.pictures)
    ]
