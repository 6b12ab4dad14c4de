"""Whether a run may begin at its target, or go on there: refuses what would end badly."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dsprep.dataset.find import Place, data_set_beside
from dsprep.dataset.manifest import Manifest, parse_manifest
from dsprep.errors import DestinationError, SourceError
from dsprep.plan.destination import Destination
from dsprep.plan.plan import Plan
from dsprep.run.complete import classes_bytes, is_of_lists
from dsprep.run.finished import finished_manifest, holds_folder, is_bare, require_whole
from dsprep.run.folder import remove_folder, require_free, require_own_files
from dsprep.run.identity import OTHER_IMAGES, unlike
from dsprep.run.leftovers import files_of_run, remove_replaced, small_file
from dsprep.run.notes import REPLACED, Target
from dsprep.run.state import RunState
from dsprep.storage.files import exists, read_bytes
from dsprep.units import format_some


def begin(
    plan: Plan, state: RunState, *, overwrite: bool = False, base: Manifest | None = None
) -> None:
    """Begin a run, or go on with it: refuse what would end badly before the first byte."""
    # `base` is the data set to which shards are added.
    target, is_tree = state.target, plan.job.writes_tree
    is_finished = require_vacant(state, overwrite=overwrite, adding=base is not None)
    replaced = None
    if overwrite or is_finished:
        # a manifest that dsprep did not write is not trusted to name files
        with suppress(DestinationError):
            replaced = finished_manifest(target)
    if base is None:
        _spare_inputs(plan, replaced)
    if not plan.estimated:
        shards = target.part.share(plan.shards) if target.part and state.resumed else plan.shards
        sizes = [shard.bytes for shard in shards if shard.name not in state.done]
        freed = sum(file.bytes for file in replaced.every_file()) if overwrite and replaced else 0
        target.require_room(sizes, freed)
    names = list(plan.files())
    _require_alone(target, names, base or replaced)
    if base is None:
        if overwrite and is_tree:
            require_own_files(target)
        make_way(state, names, overwrite, is_finished)
    there = [] if state.resumed else sorted(target.stamps(names))
    if not overwrite:
        _refuse_files_of_others(plan, target, there, base)
        names = [name for name in names if name not in there]
    if is_tree and not state.resumed:
        require_free(target, overwrite=overwrite)
    state.begin(names, plan.job.words(), plan.cuts())


def begin_join(
    state: RunState,
    names: Sequence[str],
    words: Sequence[str],
    *,
    overwrite: bool,
    is_tree: bool = False,
) -> None:
    """Begin to write these files, which are in other data sets already, or go on with it."""
    is_finished, replaced = require_vacant(state, overwrite=overwrite), None
    with suppress(DestinationError):
        replaced = finished_manifest(state.target)
    _require_alone(state.target, names, replaced)
    if overwrite and is_tree:
        require_own_files(state.target)
    make_way(state, names, overwrite, is_finished)
    if is_tree and not state.resumed:
        require_free(state.target, overwrite=overwrite)
    there = [] if state.resumed or overwrite else sorted(state.target.stamps(names))
    for name in there[:1]:
        raise _file_of_others(state.target, name)
    state.begin(names, words)


def require_same(target: Target, finished: Manifest, identity: dict[str, Any]) -> None:
    """Accept a destination that holds what this command would write, with all of its files."""
    destination = target.destination
    _require_own(destination, finished)
    if other := unlike(finished, identity):
        raise DestinationError(
            f"{destination}: holds a data set that another command wrote ({other}); "
            f"{target.remedy}, or choose another destination"
        )
    require_whole(target, finished, target.remedy_of_damage)


def _require_alone(target: Target, names: Collection[str], known: Manifest | None) -> None:
    """Refuse a directory whose companions would not be where those of its data set are.

    ``names`` are the files that a run may write, ``known`` is the data set that is there.
    """
    destination = target.destination
    if destination.apart is None:
        _require_nothing_beside(destination)
        return
    own = {*names, *files_of_run(target), *(known.names() if known else ())}
    for name in target.inside():
        if name not in own:
            raise DestinationError(
                f"{destination.url(name)}: is not of this data set, and a directory of shards "
                "alone (--apart) holds nothing else; move it away, or choose another destination"
            )
    if destination.remote is None and os.path.ismount(destination.place):
        raise DestinationError(
            f"{destination}: is a file system of its own, so that nothing lies beside it, as "
            "--apart needs; choose a directory in it"
        )


def _require_nothing_beside(destination: Destination) -> None:
    """Refuse a directory of a data set that has its companions beside it."""
    if destination.single is None and (found := data_set_beside(Place(destination.url("")))):
        if found.error is not None:
            raise found.error
        raise DestinationError(
            f"{found.path}: is the manifest of {destination}, which holds shards alone; give "
            "--apart as well, or choose another destination"
        )


def _has_bare_record(target: Target) -> bool:
    finished = finished_manifest(target)
    return finished is not None and is_bare(target, finished)


def require_vacant(state: RunState, *, overwrite: bool, adding: bool = False) -> bool:
    """Refuse a target where another command has begun; return whether a manifest makes way."""
    destination, target = state.target.destination, state.target
    if state.other and not overwrite:
        starts_over = not (adding or target.part)
        if state.other in OTHER_IMAGES:
            way = "give --overwrite to start over" if starts_over else "choose another destination"
            raise DestinationError(
                f"{destination}: an unfinished run of other images is there ({state.other}). If "
                f"these have changed since, it cannot go on: {way}"
            )
        advice = ", or --overwrite to start over" if starts_over else ""
        raise DestinationError(
            f"{destination}: an unfinished run of another command is there ({state.other}); "
            f"give that command again to finish it{advice}"
        )
    is_finished = not adding and bool(target.stamps([target.manifest]))
    if is_finished and not overwrite and not _has_bare_record(target):
        raise DestinationError(
            f"{destination}: another run has just finished a data set there; give the same command "
            "again to compare it with that"
        )
    return is_finished


def make_way(state: RunState, names: Iterable[str], overwrite: bool, is_finished: bool) -> None:
    """Let a finished data set make way, its manifest first; or end what a killed run began.

    ``names`` are the files that the run may write.
    """
    target = state.target
    if is_finished and not overwrite:
        _remove_bare_record(target, names)
    if overwrite and target.stamps([target.manifest]):
        if data := small_file(target, target.manifest):
            with suppress(SourceError):
                finished = parse_manifest(data, target.manifest)
                remove_replaced(target, finished)  # what a killed run has left of an earlier one
                if holds_folder(finished):
                    target.keep_listing()
            target.write(target.notes + REPLACED, data)
        target.delete([target.manifest])
        if target.stamps([target.manifest]):
            url = target.destination.url(target.manifest)
            raise DestinationError(
                f"{url}: is a directory; remove it, or choose another destination"
            )
    # on S3, the old data set stays until the new manifest is there
    if target.destination.remote is None:
        remove_replaced(target, None)
    if overwrite and (state.other or is_finished):
        state.forget()


def _remove_bare_record(target: Target, names: Iterable[str]) -> None:
    """Remove the manifest of data that is gone, and those of these files that it names."""
    if (finished := finished_manifest(target)) is None:
        return
    own = filter(target.destination.may_hold, names)
    sizes = {file.name: file.bytes for file in finished.every_file()}
    stamps = target.stamps(sizes.keys() & set(own))
    # A file that has changed since is not dsprep's any more. The manifest goes last: a run that is
    # killed here does the same again.
    same = [name for name, (size, _) in stamps.items() if size == sizes[name]]
    remove_folder(target, same)  # only empty directories are left in the folder
    target.delete(same)
    target.delete([target.manifest])


def _refuse_files_of_others(
    plan: Plan, target: Target, there: Sequence[str], base: Manifest | None
) -> None:
    """Refuse to write over a file that is not known to be this command's."""
    shards = {shard.name for shard in plan.shards}
    for name in there:
        if base is not None and name not in shards:
            continue
        if name.endswith("classes.txt") and target.find(name) == classes_bytes(
            plan.catalog.class_names
        ):
            continue
        writes_none = plan.catalog.class_names is None and plan.catalog.tells_all
        if writes_none and is_of_lists(plan, name):
            continue
        raise _file_of_others(target, name, adding=base is not None)


def _file_of_others(target: Target, name: str, *, adding: bool = False) -> DestinationError:
    why = f"by this command; {target.remedy}, or choose another destination"
    why = "in the manifest; move it away first" if adding else why
    return DestinationError(f"{target.destination.url(name)}: is there already, and not {why}")


def _spare_inputs(plan: Plan, replaced: Manifest | None) -> None:
    """Refuse to replace what is being read, or what belongs to another single file."""
    destination, source = plan.job.destination, plan.job.source
    names = set(plan.files())
    if replaced is not None:
        _require_own(destination, replaced)
        names |= replaced.names()
    elif exists(source.classes_file or "") and (  # it may lie in the archive of the source
        read_bytes(source.classes_file) == classes_bytes(plan.catalog.class_names)
    ):
        names.discard(destination.companion("classes.txt").name)
    for path in filter(Path.exists, (destination.directory / name for name in sorted(names))):
        if any(path.samefile(read) for read in source.files()):
            raise DestinationError(
                f"{path}: is read by this command, which would replace it; copy it to another "
                "place and name it there, or choose another destination"
            )


def _require_own(destination: Destination, finished: Manifest) -> None:
    """Refuse a manifest that belongs to another file, and was copied or renamed."""
    names = [shard.name for shard in finished.shards] or [finished.name]
    is_single = bool(destination.single)
    is_other = is_single and not {destination.single, destination.stem}.intersection(names)
    if is_other or finished.directory != destination.apart:
        raise DestinationError(
            f"{destination.url(destination.manifest.name)}: belongs to {format_some(names)}; move "
            f"it away, or choose another name than {os.path.basename(str(destination))}"
        )
