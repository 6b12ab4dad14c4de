"""The data sets: made once, into a cache directory, and found there the next time.

Every file is a whole JPEG image of its own bytes, one of a few dozen pictures with a comment that
numbers it, or a hard link to one.
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

    Attributes:
        distinct: How many files of a class have their own bytes, if not all; the others are hard
            links to them. (ext4 allows a file 65,000 links.)
        images: A folder whose JPEG files are used instead of generated pictures.
        boxes: How many boxes each image has in COCO's annotations beside the folder.
    """

    name: str
    files: int
    classes: int
    width: int
    height: int
    size: int
    pictures: int
    grain: float = 18.0
    distinct: int = 0
    images: str = ""
    boxes: int = 0

    @property
    def bytes_on_disk(self) -> int:
        """About how many bytes its files take, each link but the first for nothing."""
        return self.size * min(self.files, self.distinct * self.classes or self.files)


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
    def title(self) -> str:
        """The name, and what a reader of the figures must know about the files."""
        recipe = self.recipe
        whose = ", copies of given images" if recipe.images else ""
        distinct = recipe.distinct * recipe.classes
        linked = f", {distinct:,} distinct" if 0 < distinct < recipe.files else ""
        return f"{self.name}{whose}{linked}"

    @property
    def root(self) -> Path:
        """The folder that holds a folder a class."""
        return self.cache / self.name

    @property
    def lst(self) -> Path:
        """The list of all files."""
        return self.cache / f"{self.name}.lst"

    @property
    def annotations(self) -> Path:
        """COCO's annotations of all files."""
        return self.cache / f"{self.name}.coco.json"

    @property
    def stamp(self) -> Path:
        """A file that tells what the data set was made of, and that it is whole."""
        return self.cache / f"{self.name}.json"


FEW = Recipe("few", 600, 10, 48, 48, 1_500, pictures=64)
SMALL = Recipe("small", 50_000, 100, 48, 48, 1_500, pictures=64)
PHOTOS = Recipe("photos", 10_000, 50, 500, 375, 100_000, pictures=48)
# What each further gigabyte takes is seen beside `photos`.
MORE = replace(PHOTOS, name="more", files=4 * PHOTOS.files, distinct=PHOTOS.files // PHOTOS.classes)
LARGE = Recipe("large", 500, 10, 3264, 2448, 2_000_000, pictures=8, grain=14.0)
LISTED = Recipe("listed", 1_281_167, 1_000, 48, 48, 1_500, pictures=64, distinct=1)
BOXES = replace(SMALL, name="boxes", files=100_000, distinct=SMALL.files // 100, boxes=8)
BIRDS = replace(PHOTOS, name="birds", files=2_000, classes=10)
RECIPES = (FEW, SMALL, PHOTOS, MORE, LARGE, LISTED, BOXES, BIRDS)


def reduced(recipe: Recipe) -> Recipe:
    """The same data set with a few files, to try the benchmark itself."""
    files = max(8, recipe.files // 200)
    return replace(recipe, files=files, classes=min(recipe.classes, files), pictures=2)


def of_size(recipe: Recipe, size: int) -> Recipe:
    """The same data set with files of `size` bytes in all, by hard links where it is larger."""
    distinct = recipe.files // recipe.classes
    return replace(recipe, files=max(recipe.classes, size // recipe.size), distinct=distinct)


def of_images(recipe: Recipe, folder: Path) -> Recipe:
    """The same number of files, made of the JPEG files in a folder.

    Raises:
        ValueError: If there are none.
    """
    sizes = [path.stat().st_size for path in _jpegs(folder)]
    if not sizes:
        raise ValueError(f"{folder}: no .jpg or .jpeg files")
    return replace(recipe, images=str(folder.resolve()), size=sum(sizes) // len(sizes))


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
            files = [folder / f"{folder.name}_{index}.jpg" for index in indices]
            distinct = data.recipe.distinct or len(files)
            for number, (index, file) in enumerate(zip(indices, files, strict=True)):
                if number >= distinct:
                    os.link(files[number % distinct], file)
                else:
                    image = with_comment(bases[index % len(bases)], f"image {index}".encode())
                    file.write_bytes(image)
                total += file.stat().st_size
                lines.write(f"{index}\t{label:.6f}\t{folder.name}/{file.name}\n")
    if data.recipe.boxes:
        _annotate(data)
    return total


def _annotate(data: DataSet) -> None:
    """Write COCO's annotations, in no order of the images."""
    recipe = data.recipe
    side = min(recipe.width, recipe.height)
    rng = np.random.default_rng(1)
    paths = sorted(str(path.relative_to(data.root)) for path in data.root.rglob("*.jpg"))
    images = [
        {"id": id, "file_name": path, "width": recipe.width, "height": recipe.height}
        for id, path in enumerate(paths, 1)
    ]
    owners = rng.permutation(np.repeat(np.arange(1, len(paths) + 1), recipe.boxes))
    edges = rng.uniform(0, side / 2, (len(owners), 4)).round(2)
    annotations = [
        {"segmentation": [], "area": round(box[2] * box[3], 4), "iscrowd": 0, "image_id": owner}
        | {"bbox": box, "category_id": 1 + id % 80, "id": id}
        for id, (owner, box) in enumerate(zip(owners.tolist(), edges.tolist(), strict=True), 1)
    ]
    categories = [{"id": id, "name": f"class {id}"} for id in range(1, 81)]
    values = {"images": images, "annotations": annotations, "categories": categories}
    data.annotations.write_text(json.dumps(values))


def _shares(recipe: Recipe) -> Iterator[range]:
    """The numbers of each class's files."""
    bounds = [recipe.files * label // recipe.classes for label in range(recipe.classes + 1)]
    return (range(low, high) for low, high in pairwise(bounds))


def _bases(recipe: Recipe) -> list[bytes]:
    if recipe.images:
        return [path.read_bytes() for path in _jpegs(Path(recipe.images))]
    rng = np.random.default_rng(0)
    return [
        jpeg_of_size(
            picture(rng, recipe.width, recipe.height, recipe.grain),
            int(recipe.size * rng.uniform(0.6, 1.4)),
        )
        for _ in range(recipe.pictures)
    ]


def _jpegs(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
