"""Which files may hold arrays of images, by their names: what a claim asks of all files."""

from __future__ import annotations

import os

from dsprep.patterns import pattern
from dsprep.sources.source import ARRAYS

HDF5 = (".h5", ".hdf5")
PACKED_HDF5 = tuple(f"{name}.gz" for name in HDF5)  # as PCam is downloaded
MATLAB = ".mat"

STL10 = pattern(r"(train|test|unlabeled)_([Xy])\.bin")
"""The names of STL-10's files."""


def may_hold_arrays(name: str) -> bool:
    """Return whether a file may hold arrays of images, by its name."""
    is_stl10 = STL10.fullmatch(os.path.basename(name)) is not None
    return is_stl10 or name.lower().endswith((*ARRAYS, *HDF5, *PACKED_HDF5, MATLAB))
