"""Reading samples to learn of their fields and labels, as workers do: nothing here needs polars."""

from __future__ import annotations

from typing import Any, NamedTuple

from dsprep.errors import SourceError
from dsprep.readers.base import Reader
from dsprep.readers.pixels import RawPixels, raw_pixels
from dsprep.rows import Rows
from dsprep.sample import Sample
from dsprep.schema import Choice, Observed, observe


class Look(NamedTuple):
    """Samples to look at."""

    reader: Reader
    rows: Rows
    choice: Choice


def look_at(task: Look) -> Observed:
    """Look at some samples, in a worker."""
    reader, rows, choice = task
    samples = (each for each in reader.read(rows) if isinstance(each, Sample))
    return observe(samples, reader.table, choice)


def find_pixels(task: tuple[Reader, Rows]) -> RawPixels | None:
    """Find where samples have bare pixels, in a worker."""
    reader, rows = task
    return raw_pixels(each for each in reader.read(rows) if isinstance(each, Sample))


class Gathered(NamedTuple):
    """What all samples tell of their labels."""

    keys: list[str]  # the key, or the path of the image, of each
    labels: list[Any]  # the label of each; None if it has none
    names: dict[int, str]  # the names of classes that stand beside their numbers
    unread: dict[int, str]  # the positions of samples that cannot be read, and why


def gather(task: tuple[Reader, Rows, str]) -> Gathered:
    """Read the labels of some samples, in a worker."""
    reader, rows, name = task
    found = Gathered([], [], {}, {})
    for path, sample in zip(rows.paths, reader.read(rows), strict=True):
        if isinstance(sample, Sample):
            label = sample.fields.get(name)
            found.keys.append(sample.path or sample.key)
            found.labels.append(label)
            if sample.class_name is not None and isinstance(label, int):
                add_names(found.names, {label: sample.class_name}, path)
        else:
            found.unread[len(found.keys)] = str(sample)
            found.keys.append(path)
            found.labels.append(None)
    return found


def add_names(names: dict[int, str], more: dict[int, str], source: str) -> None:
    """Add names of classes to those that are known."""
    for number, name in more.items():
        if names.setdefault(number, name) != name:
            raise SourceError(
                f"{source}: the class {number} is called {names[number]!r} and {name!r}: correct "
                "the samples, or give --drop for the names and --classes FILE"
            )
