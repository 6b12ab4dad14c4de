"""Oxford Flowers-102 and Stanford Cars, whose labels are in files of MATLAB.

https://www.robots.ox.ac.uk/~vgg/data/flowers/102: `imagelabels.mat` has the number of the class of
``image_00001.jpg`` and so on, from 1, and `setid.mat` the numbers of the images of each side.

https://ai.stanford.edu/~jkrause/cars/car_dataset.html: a struct for each image, with its class from
1 and a box. `cars_annos.mat` names all images below ``car_ims``; the devkit has
`cars_train_annos.mat` and `cars_test_annos_withlabels.mat`, and the names of the classes in
`cars_meta.mat`.
"""

from __future__ import annotations

import os
import re
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import polars as pl

from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.numbering import not_given, numbers_of, require_lines
from dsprep.places.names import side_name
from dsprep.sources.annotated.annotated import Scan
from dsprep.sources.annotated.boxes import TableBoxes
from dsprep.sources.annotated.image_tables import data_of, paths_below, used_below
from dsprep.sources.annotated.image_values import ImageValues
from dsprep.sources.mat_file import Values, flat, value_of, variables
from dsprep.tuples import NamedTuple
from dsprep.units import format_count

if TYPE_CHECKING:
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source

FLOWERS = re.compile(r"(?:^|/)(?:imagelabels|setid)\.mat$")
CARS = re.compile(r"(?:^|/)cars_(?:annos|meta|train_annos|test_annos(?:_withlabels)?)\.mat$")

_SIDES_OF_FLOWERS = {"trnid": "train", "valid": "val", "tstid": "test"}
_EDGES = "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2"
_MOST_CLASSES = 1_000_000
_BYTES_OF_BOX = 64  # that JSON takes for it


class _MatFiles:
    """Files of MATLAB beside images, by their names."""

    def __init__(self, source: Source, place: AnnotatedPlace, names: re.Pattern[str]) -> None:
        self._source, self._place = source, place
        found = [path for path in paths_below(place) if names.search(path)]
        self.paths = {os.path.basename(path): path for path in sorted(found)}
        if again := [n for n, count in Counter(map(os.path.basename, found)).items() if count > 1]:
            raise SourceError(f"{place.root}: has {again[0]} twice: pack each set by itself")
        self._digests: list[str] = []

    def read(self, name: str) -> Mapping[str, Values]:
        """Read the variables of a file whole."""
        path = self.paths[name]
        data = data_of(self._source, self._place.files, path)
        self._digests.append(sha256(data).hexdigest())

        def read(offset: int, count: int) -> bytes:
            return data[offset : offset + count]

        return {each.name: value_of(read, each, path) for each in variables(read, len(data), path)}

    @property
    def digest(self) -> str:
        return sha256("".join(self._digests).encode()).hexdigest()

    @property
    def where(self) -> str:
        return os.path.dirname(next(iter(self.paths.values()))) or "."


def scan_flowers(source: Source, place: AnnotatedPlace) -> Scan:
    """Return the class and the side of each flower."""
    files = _MatFiles(source, place, FLOWERS)
    if "imagelabels.mat" not in files.paths:
        raise SourceError(f"{place.root}: has no imagelabels.mat, which tells the classes")
    path = files.paths["imagelabels.mat"]
    numbers = _whole(files.read("imagelabels.mat"), "labels", path)
    sides, notes = [""] * len(numbers), list[Finding]()
    if "setid.mat" in files.paths:
        sides = _sides_of_flowers(files, len(numbers))
    else:
        notes.append(Finding("note", "", "there is no setid.mat, which tells the sides"))
    return Scan(
        None,
        [f"image_{at:05}.jpg" for at in range(1, len(numbers) + 1)],
        (),
        (),
        (),
        (),
        files.digest,
        files.where,
        notes,
        sides=sides if any(sides) else (),
        used=used_below(source, files.paths.values()),
        values=_class_numbers(source, numbers, None, path),
    )


def _sides_of_flowers(files: _MatFiles, count: int) -> list[str]:
    path, found = files.paths["setid.mat"], [""] * count
    told = files.read("setid.mat")
    for name, side in _SIDES_OF_FLOWERS.items():
        for number in _whole(told, name, path):
            if not 1 <= number <= count or found[number - 1]:
                raise SourceError(f"{path}: {name} has {number}, which is no image, or is twice")
            found[number - 1] = side
    return found


def _whole(told: Mapping[str, Values], name: str, path: str) -> list[int]:
    """Return a variable of whole numbers."""
    values = told[name].items if name in told else ()
    if not isinstance(values, array) or any(value % 1 for value in values):
        raise SourceError(f"{path}: has no whole numbers called {name}")
    return [int(value) for value in values]


def _class_numbers(
    source: Source, numbers: Sequence[int | None], own: Sequence[str] | None, path: str
) -> ImageValues:
    """Return labels of classes that are counted from 1, in the order of the set."""
    given, names = source.class_names(), tuple(own or ())
    if len({*names}) < len(names):
        raise SourceError(f"{path}: has two classes of one name")
    require_lines(names, path)
    if unknown := [name for name in names if given and name not in given]:
        raise not_given(path, unknown, given or ())
    classes = given or names or None
    most = len(names or classes or ()) or _MOST_CLASSES
    for number in numbers:
        if number is not None and not 1 <= number <= most:
            count = format_count(most, "class")
            raise SourceError(f"{path}: the label {number} is none of {count}")
    of_names = numbers_of(classes or ())
    places = [of_names[name] for name in names]  # by the numbers of the set, from 0
    found = [
        None if number is None else places[number - 1] if places else number - 1
        for number in numbers
    ]
    return ImageValues(pl.Series("cls", found, dtype=pl.Int64), classes)


# Stanford Cars


class _Car(NamedTuple):
    """An image of a car, as a file of MATLAB tells it."""

    name: str
    side: str
    number: int | None  # of its class, from 1; None if the file does not tell it
    box: tuple[float, ...]


def scan_cars(source: Source, place: AnnotatedPlace) -> Scan:
    """Return the class, the box and the side of each car."""
    files, findings = _MatFiles(source, place, CARS), list[Finding]()
    cars: list[_Car] = []
    for name in _annotations_of_cars(files):
        own = _cars_in(files, name, place)
        if own is None:
            said = f"{name} is not kept: there is no directory of its images"
            findings.append(Finding("note", "", said))
        cars += own or []
    if not cars:
        raise SourceError(f"{place.root}: has no file that tells the classes of cars")
    names = _names_of_cars(files)
    values = _class_numbers(source, [car.number for car in cars], names, files.where)
    kept = [car.number is not None for car in cars]
    if lost := kept.count(False):
        said = f"{format_count(lost, 'box')} without a class are not kept"
        findings.append(Finding("note", "", f"{said}: cars_test_annos_withlabels.mat has them"))
    assert values.label is not None
    own_numbers = values.label.drop_nulls().to_list()
    starts = array("q", [0])
    for is_kept in kept:
        starts.append(starts[-1] + is_kept)
    edges = array("d", [edge for car, is_kept in zip(cars, kept, strict=True) if is_kept
                        for edge in car.box])  # fmt: skip
    classes = values.classes or tuple(str(at + 1) for at in range(max(own_numbers, default=0) + 1))
    boxes = TableBoxes(starts, edges, array("i", own_numbers), (), (None,) * len(cars))
    sides = [car.side for car in cars]
    return Scan(
        boxes,
        [car.name for car in cars],
        list(map(int, kept)),
        [_BYTES_OF_BOX * is_kept for is_kept in kept],
        classes,
        (),
        files.digest,
        files.where,
        findings,
        flags=False,
        sides=sides if all(sides) else (),
        used=used_below(source, files.paths.values()),
        boxes_alone=True,
        values=values,
    )


def _annotations_of_cars(files: _MatFiles) -> list[str]:
    """Return the files that tell the images of each side; one with classes instead of another."""
    names = [name for name in files.paths if name != "cars_meta.mat"]
    sides = [name for name in names if name != "cars_annos.mat"]
    if "cars_test_annos_withlabels.mat" in sides and "cars_test_annos.mat" in sides:
        sides.remove("cars_test_annos.mat")
    return ["cars_annos.mat"] if "cars_annos.mat" in names else sides


def _cars_in(files: _MatFiles, name: str, place: AnnotatedPlace) -> list[_Car] | None:
    """Return the cars of a file; None if there is no directory of images of its side."""
    path, side = files.paths[name], ""
    directory = ""
    if name != "cars_annos.mat":
        side = "train" if "train" in name else "test"
        found = _directory_of(place, side)
        if found is None:
            return None
        directory = f"{found}/".removeprefix("/")
    told = files.read(name)
    rows = flat(told["annotations"]) if "annotations" in told else []
    try:
        return [_car(row, side, directory) for row in rows]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise SourceError(f"{path}: has no annotations as Stanford Cars has them") from None


def _car(row: Mapping[str, Any], side: str, directory: str) -> _Car:
    name = row["fname"] if "fname" in row else row["relative_im_path"]
    number = int(row["class"]) if "class" in row else None
    side = side or ("test" if row["test"] else "train")
    box = tuple(float(row[edge]) for edge in _EDGES)
    if not isinstance(name, str) or not name:
        raise ValueError
    return _Car(directory + name, side, number, box)


def _directory_of(place: AnnotatedPlace, side: str) -> str | None:
    """Return the directory of the images of a side: `cars_train`, maybe in another of its name."""
    paths = place.files.table["path"]
    directories = paths.str.extract(r"^(.*)/[^/]*$").fill_null("").unique().sort().to_list()
    sides = {directory: _sides_in(directory) for directory in directories}
    if not any(sides.values()):  # the user has given the directory of one side
        sides = {"": _sides_in(os.path.basename(os.path.normpath(place.root)))}
    return next((directory for directory, found in sides.items() if side in found), None)


def _sides_in(directory: str) -> set[str]:
    found = map(side_name, directory.split("/"))
    return {each.side for each in found if each is not None}


def _names_of_cars(files: _MatFiles) -> Sequence[str] | None:
    """Return the names of the classes, in the order of their numbers; None if no file has them."""
    for name in ("cars_meta.mat", "cars_annos.mat"):
        if name in files.paths and "class_names" in (told := files.read(name)):
            names = flat(told["class_names"])
            if all(isinstance(each, str) and each for each in names):
                return [str(each) for each in names]
    return None
