"""What makes a folder complete: one tree of all units' files, and what stands beside it."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import google_crc32c

from dsprep.errors import BadSample, DestinationError, SourceError
from dsprep.formats.base import Format
from dsprep.formats.folder import LISTING, File, read_listing
from dsprep.plan.destination import Destination
from dsprep.plan.plan import Plan
from dsprep.run.names import format_list
from dsprep.run.state import RunState
from dsprep.run.tree import Joined, join_tree, publish_tree
from dsprep.storage.local import destination_errors, publish

COMPANIONS = (LISTING, "lst", "manifest")
"""What may stand beside a folder, besides what stands beside every data set."""


def folder_of(destination: Destination) -> Path:
    """The folder that a destination names."""
    return destination.directory / (destination.single or "")


def require_free(destination: Destination) -> None:
    """Refuse a folder that holds anything."""
    folder = folder_of(destination)
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise DestinationError(
            f"{folder}: is there already; choose another destination, or give --overwrite if "
            "dsprep wrote it"
        )


def require_own_files(destination: Destination) -> None:
    """Refuse to replace a folder that holds files which dsprep did not write."""
    folder, listing = folder_of(destination), destination.companion(LISTING)
    if not (folder.is_dir() and listing.exists()):
        return
    own = {file.path for sample in read_listing(listing) for file in sample.files}
    for directory, _, names in os.walk(folder):
        for name in names:
            path = os.path.relpath(os.path.join(directory, name), folder)
            if path not in own:
                raise DestinationError(
                    f"{folder / path}: lies in the folder that is to be replaced, and dsprep did "
                    "not write it; move it away, or choose another destination"
                )


def join_units(plan: Plan, state: RunState) -> Joined:
    """Make the folder of its units, and the listing beside it."""
    destination = plan.packing.destination
    listing = destination.companion(LISTING)
    state.announce(listing.name)
    units = [(state.path_of(unit.name), state.done[unit.name].crc32c) for unit in plan.shards]
    joined = join_tree(units, state.tree, listing)
    if state.tree.is_dir():
        add_metadata(plan.packing.layout, state.tree, listing, joined)
    publish_tree(state.tree, folder_of(destination))
    return joined


def add_metadata(layout: Format, tree: Path, listing: Path, joined: Joined) -> None:
    """Write the files ``metadata.jsonl`` into a tree that needs them.

    The listing names them among the files of the last sample. Doing this again changes nothing.
    """
    found: dict[str, tuple[int, int]] = {}
    with destination_errors(tree):
        for path, lines in groupby(
            layout.metadata_lines(lambda: read_listing(listing)), itemgetter(0)
        ):
            size, checksum = found.get(path, (0, 0))
            with (tree / path).open("ab" if path in found else "wb") as file:
                for _, line in lines:
                    # What is no Unicode becomes the escape that JSON has for it.
                    data = line.encode("utf-8", "backslashreplace")
                    file.write(data)
                    size, checksum = size + len(data), google_crc32c.extend(checksum, data)
            found[path] = size, checksum
    if not found:
        return
    metadata = [File(path, *facts) for path, facts in found.items()]
    partial = listing.with_name(listing.name + ".partial")
    with destination_errors(listing), partial.open("wb") as file:
        for number, sample in enumerate(read_listing(listing), 1):
            files = [each for each in sample.files if each.path not in found]
            is_new = len(files) == len(sample.files)
            files += metadata * (number == joined.samples)
            file.write(sample._replace(files=tuple(files)).to_json())
    publish(partial, listing)
    if is_new:
        joined.files += len(metadata)
        joined.bytes += sum(each.bytes for each in metadata)


def write_companions(
    plan: Plan, classes: tuple[str, ...] | None, write: Callable[[str, bytes], None]
) -> None:
    """Write the list of a folder, and its augmented manifest if it is to have one."""
    packing = plan.packing
    listing = packing.destination.companion(LISTING)
    text, _ = format_list(read_listing(listing))
    if text:
        write(packing.destination.companion("lst").name, text.encode())
    try:
        lines = packing.layout.references(read_listing(listing), classes)
    except BadSample as error:
        raise SourceError(f"{error}; --to folder needs no such labels") from None
    if lines is not None:
        write(packing.destination.companion("manifest").name, lines.encode())
