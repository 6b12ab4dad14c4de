"""Bare pixels as CIFAR and MNIST come, as a kind of source."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.findings import Finding
from dsprep.patterns import pattern
from dsprep.places.archive import first_names
from dsprep.places.names import raw_directories
from dsprep.sample import image_kind_of
from dsprep.sources.kind import PEEKED, Claim, SourceKind, SourcePlace, Sure
from dsprep.sources.source import ARRAYS
from dsprep.storage.files import entries, exists, is_dir

if TYPE_CHECKING:
    from dsprep.catalog import SourceScan
    from dsprep.places.scan import RunAll
    from dsprep.sources.source import Source

_FILES = pattern(
    r"(data|test)_batch(_\d+)?(\.bin)?|batches\.meta(\.txt)?|(train|test)(\.bin)?|meta"
    r"|(fine|coarse)_label_names\.txt|(.*-)?(images|labels)[-.](idx[13]-ubyte|idx2-int)(\.gz)?"
)
_PIXELS = pattern(r"cifar|idx[13]-ubyte|_batch|^batches.meta|mnist", re.IGNORECASE)
# files of CIFAR-100, whose batches are called `train` and `test`
_CIFAR_100 = frozenset({"meta", "fine_label_names.txt"})
_MARK = pattern(r"[*?[{]")
_OTHERS = (".csv", ".tsv", ".parquet", *ARRAYS)  # tables of pixels: their extension says more


_ROWS_OF_QMNIST = (
    "of QMNIST's labels, the class is read; the writer, NIST's class and the numbers of the image "
    "in other sets are not"
)


class PixelsKind(SourceKind):
    """Data sets of bare pixels: CIFAR, and MNIST with its relatives."""

    names: ClassVar[tuple[str, ...]] = ("pixels",)
    help: ClassVar[str] = "pixels, as CIFAR and MNIST come"
    noun: ClassVar[str] = "files of CIFAR or MNIST"

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.pictures.pixel_reader import (
            Batch,
            BatchFile,
            LabeledPixelReader,
            PixelReader,
        )

        return {
            "pixel-reader": PixelReader,
            "labeled-pixel-reader": LabeledPixelReader,
            "batch": Batch,
            "batch-file": BatchFile,
        }

    def claim(self, place: SourcePlace, source: Source) -> Claim | None:
        if source.kind is not None:
            return self.named_claim(source)
        is_own = all(may_be_pixels(name, place) for name in (source.root, *source.others))
        return Claim(Sure.MARKED, "files of CIFAR or MNIST") if is_own else None

    def scan(self, source: Source, place: SourcePlace, run_all: RunAll) -> SourceScan | None:
        from dsprep.sources.pictures.pixels import read_pixels

        catalog = read_pixels(place.files, source.class_names(), source.choice.label)
        if catalog is None:
            return None
        rows = any("qmnist-" in os.path.basename(file) for file in catalog.reader.sources())
        return catalog, [Finding("note", "", _ROWS_OF_QMNIST)] if rows else []


def may_be_pixels(path: str, place: SourcePlace) -> bool:
    """Return whether names at a path, in it or above it are those of CIFAR's or idx files."""
    if path == place.path and place.is_dir:
        return holds_pixels(place)
    if path.lower().endswith(_OTHERS):
        return False
    names = path.rstrip("/").split("/")[-3:]
    if (start := _MARK.split(path)[0]) != path:  # the path is a pattern
        path = os.path.dirname(start)
    for _ in range(2):  # PATH/train is a part of what lies in PATH
        path = path if exists(path) else os.path.dirname(path) or "."
    if is_dir(path):
        names += [entry.name for entry in islice(entries(path), PEEKED)]
    else:
        inside = place.inside if path == place.path else first_names(path, PEEKED)
        if any(map(image_kind_of, inside)):
            return False  # the first entries are enough to say no
        names += [part for name in inside for part in name.split("/")]
    return any(_PIXELS.search(name) or name in _CIFAR_100 for name in names)


def holds_pixels(place: SourcePlace) -> bool:
    """Return whether files of CIFAR or MNIST lie in a directory, and no tables of Parquet."""
    names = [entry.name for entry in place.entries]
    if any(name.endswith(".parquet") for name in names):
        return False  # tables tell the fields of samples, too
    if any(_FILES.fullmatch(entry.name) and entry.is_file() for entry in place.entries):
        return True
    below = map(place.join, raw_directories(place.path, place.entries))
    inside = (entry.name for each in below for entry in islice(entries(each), PEEKED))
    return any(map(_FILES.fullmatch, inside))
