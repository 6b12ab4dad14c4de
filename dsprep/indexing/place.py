"""Where indexes go: nothing else stands or is being written there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dsprep.errors import DestinationError
from dsprep.formats import format_of_file
from dsprep.indexes import wids
from dsprep.indexing.manifests import data_set_name
from dsprep.indexing.shard import index_name
from dsprep.run.state import remove_leftovers
from dsprep.storage.local import ScratchLock, read_whole
from dsprep.verifying.shards import Shards


def clash(shards: Shards) -> str:
    """Say which index of a shard would have the name of another shard's; nothing if none would."""
    directory, layout = shards.directory, shards.made.layout
    owners = {index_name(name, layout): name for name in shards.names}
    ours = {file.name for file in shards.manifest.every_file()} if shards.manifest else set()
    for name in sorted(each.name for each in directory.iterdir()):
        other = format_of_file(name)
        if other is None or other is type(layout) or not other.shard_index:
            continue
        path = directory / index_name(name, other())
        if path.name in owners and path.name not in ours:
            return (
                f"{path}: would be the index of {owners[path.name]} and of {name}; move one of "
                "them to another directory"
            )
    return ""


def require_own_name(shards: Shards, kinds: frozenset[str], overwrite: bool) -> None:
    """Refuse to write an index of all shards in the place of something else."""
    path = shards.directory / f"{data_set_name(shards)}.json"
    if "wids" in kinds and path.exists() and not overwrite:
        try:
            is_index = wids.read_index(read_whole(path)) is not None
        except OSError:
            is_index = False
        if not is_index:
            raise DestinationError(
                f"{path}: has the name of the wids index, but is none; give --overwrite to replace "
                "it, or --kind to write others"
            )


@contextmanager
def locked_scratch(shards: Shards) -> Iterator[str]:
    """Keep others from writing there, with a directory for files that are not whole yet."""
    scratch = shards.destination.scratch
    if shards.manifest is not None:
        remove_leftovers(shards.destination, shards.manifest)
    lock = ScratchLock(scratch, shards.directory)
    try:
        if any((scratch / name).exists() for name in ("run.json", "replaced.json")):
            raise DestinationError(
                f"{shards.directory}: an unfinished run is there: give its command again, first"
            )
        try:
            yield str(scratch)
        finally:
            lock.remove()
    finally:
        lock.release()
