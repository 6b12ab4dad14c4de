"""Arrays of images, as a kind of source."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.errors import OptionError, SourceError
from dsprep.sample import image_kind_of
from dsprep.sources.kind import Claim, SourceKind, SourcePlace, Sure
from dsprep.sources.source import ARRAYS
from dsprep.sources.tables.array_files import may_hold_arrays
from dsprep.sources.unread import unread_alone

if TYPE_CHECKING:
    from dsprep.catalog import SourceScan
    from dsprep.places.scan import RunAll
    from dsprep.sources.source import Source

_LOOKED_AT = 8  # files whose heads show whether there are arrays of images


class StacksKind(SourceKind):
    """Arrays of images with arrays of labels, in files of NumPy, HDF5 or MATLAB."""

    names: ClassVar[tuple[str, ...]] = ("stacks",)
    noun: ClassVar[str] = "arrays of images"
    surest: ClassVar[Sure] = Sure.RECORDED

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.tables.stack_reader import Stack, StackReader

        return {"stack-reader": StackReader, "stack": Stack}

    def claim(self, place: SourcePlace, source: Source) -> Claim | None:
        if source.kind is not None:
            return self.named_claim(source)
        if source.chooses:
            return None
        found = _first_stack(place, source)
        return Claim(Sure.RECORDED, found) if found else None

    def scan(self, source: Source, place: SourcePlace, run_all: RunAll) -> SourceScan | None:
        from dsprep.sources.tables.stacks import read_stacks

        return read_stacks(source, place, run_all)


def _first_stack(place: SourcePlace, source: Source) -> str:
    """Return the first array of images at a place; empty if there is none.

    There is none either if the user speaks of arrays as fields, whose numbers stay then.
    """
    if not _may_hold_arrays(place):
        return ""
    from dsprep.sources.tables import stack_names

    choice = source.choice
    are_fields = {*choice.only, *choice.drop, *choice.rename}
    paths = stack_names.files_at(place)[:_LOOKED_AT]
    if unread_alone(paths):
        return ""
    for path in paths:
        try:
            found, _, others = stack_names.arrays_in(path)
            names = (each.array.name for each in found)
            if are_fields.intersection(names) or any(map(image_kind_of, others)):
                return ""
            of_quickdraw = stack_names.are_of_quickdraw(found)
            for each in found:
                if stack_names.shape_in(each, choice, of_quickdraw):
                    return each.where
        except (SourceError, OptionError):  # it is damaged, or what reads it is not installed
            if not _is_beside_others(place, path):
                return os.path.basename(path)  # `scan` raises the error again
    return ""


def _is_beside_others(place: SourcePlace, path: str) -> bool:
    """Return whether a file that cannot be read may be no part of the samples."""
    return path.lower().endswith(ARRAYS) or any(entry.is_dir() for entry in place.peek)


def _may_hold_arrays(place: SourcePlace) -> bool:
    """Return whether names show files of arrays, and no images."""
    if place.is_dir:
        names = [entry.name for entry in place.peek]
    elif place.path.lower().endswith(".zip"):
        names = [*place.inside]
    else:
        names = [place.path]
    return any(map(may_hold_arrays, names)) and not any(map(image_kind_of, names))
