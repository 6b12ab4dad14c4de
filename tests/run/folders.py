"""Folders written as a run writes them, without a source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dsprep.dataset.manifest import FileEntry
from dsprep.formats.folder import Folder
from dsprep.plan.destination import Destination
from dsprep.progress import Progress
from dsprep.run.folder import finish_folder
from dsprep.run.receipt import Receipt
from dsprep.run.state import RunState
from dsprep.run.target import target_of
from dsprep.sample import Sample


def begin(root: Path) -> RunState:
    """Begin a run, or go on with it, that writes the folder `back`."""
    state = RunState(target_of(Destination(root, "back")), {}, ["back.files.jsonl"], Progress())
    state.begin(["back.files.jsonl"])
    return state


def write_unit(state: RunState, name: str, layout: Folder, samples: Sequence[Sample]) -> None:
    """Write a unit of samples as a worker does."""
    target = state.pieces
    writer = layout.open_writer(str(target.partial(name)), str(target.tree), 9)
    try:
        for each in samples:
            writer.add(each)
        writer.finish()
    finally:
        writer.close()
    receipt = FileEntry(name, writer.bytes, writer.crc32c)
    target.leave(name, Receipt(len(samples), [receipt]))


def write_units(
    state: RunState, layout: Folder, units: Sequence[Sequence[Sample]]
) -> Sequence[str]:
    """Write the units that are not done; returns the names of all."""
    names = [f"units-{number:06}" for number in range(len(units))]
    for name, samples in zip(names, units, strict=True):
        if name not in state.done:
            write_unit(state, name, layout, samples)
    return names


def finish(state: RunState, layout: Folder, names: Sequence[str]) -> int:
    """Give the files of all units their names; returns their bytes."""
    return finish_folder(layout, names, state.pieces, state.target, None, Counter()).size


def write_folder(root: Path, layout: Folder, *units: Sequence[Sample]) -> int:
    """Write samples to `root/back`, with a listing beside it; returns the bytes of the files."""
    state = begin(root)
    try:
        return finish(state, layout, write_units(state, layout, units))
    finally:
        state.hold.remove()
