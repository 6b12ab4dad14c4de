"""The two ends of a run at its target: may it begin or go on there, and what completes it.

`RunState` is an unfinished run, as the notes at its target describe it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from dsprep.dataset.copies import augment_table
from dsprep.dataset.find import Place, data_set_beside
from dsprep.dataset.manifest import FileEntry, Manifest, ShardEntry, parse_manifest, parse_rejects
from dsprep.errors import DestinationError, SourceError
from dsprep.findings import Reject
from dsprep.formats import AUGMENT_FILE, writes_tree
from dsprep.formats.base import ShardFacts
from dsprep.formats.card import CARD, Split
from dsprep.formats.listing import LISTING
from dsprep.images import bilinear
from dsprep.plan.destination import Destination
from dsprep.plan.plan import Plan
from dsprep.printable import json_line
from dsprep.progress import Progress
from dsprep.run.folder import (
    finish_folder,
    forget_units,
    receipts_of,
    remove_folder,
    require_free,
    require_own_files,
    sizes_in_folder,
    whole_units,
)
from dsprep.run.hold import Hold
from dsprep.run.notes import (
    LEASES,
    PLAN,
    RECEIPTS,
    REPLACED,
    REPLACED_LISTING,
    RUN,
    Target,
    is_unit,
)
from dsprep.run.receipt import Receipt
from dsprep.run.target import InPlace, target_of
from dsprep.storage.files import canonical, exists, read_bytes
from dsprep.storage.local import destination_errors
from dsprep.storage.stored import crc32c
from dsprep.units import format_count, format_some

T = TypeVar("T")

_MOST_CLASSES = 10_000_000  # more than any data set has; samples may say anything


class RunState:
    """An unfinished run: it keeps others out, and knows which shards and pieces are done.

    Pieces of shards stay on this machine until they are joined, and so does the tree of a folder
    that one machine writes to its disk. They lie in a directory that is a target of its own, with
    the same notes.
    """

    def __init__(
        self, target: Target, identity: dict[str, Any], files: Sequence[str], progress: Progress
    ) -> None:
        """Take a target for a command that may write these files, and see what is done there."""
        self.target, self.identity, self._files = target, identity, files
        self.done: dict[str, Receipt] = {}
        self.other = ""  # how the command of an unfinished run there differs from this one
        self.hold: Hold = target.hold(files, progress.note)
        pieces = Destination(target.work / "pieces")
        self.pieces = InPlace(pieces, _run=target._run, durable=False)
        self.units: Target = self.pieces  # where the listings of the units of a folder are
        try:
            self.resumed, self.other = self._compare(target)
            # a part reads only the receipts of its own shards
            if self.resumed and target.part is None:
                self.done |= receipts_of(target)
                if any(map(is_unit, self.done)):  # parts, or a cluster, began to write the folder
                    self.units = target
            self._goes_on_here, _ = self._compare(self.pieces)
            if self._goes_on_here:
                found = whole_units(self.pieces, target.destination)
                is_shared = self.units is target
                self.done |= {n: it for n, it in found.items() if not (is_shared and is_unit(n))}
        except BaseException:
            self.release()
            raise

    def _compare(self, target: Target) -> tuple[bool, str]:
        """Return whether an unfinished run there is of this command, and else how it differs."""
        known = target.noted_run()
        other = "" if known is None else differences(known.get("identity"), self.identity)
        return known is not None and not other, other

    def begin(
        self, files: Iterable[str], words: Sequence[str] = (), cuts: Mapping[str, Any] | None = None
    ) -> None:
        """Begin to write, or go on: note the files of this run, and the words of its command.

        ``cuts`` is where the samples are cut into shards, if that takes time to find out.
        """
        with destination_errors(self.target.work):
            for leftover in self.target.work.glob("partial-*"):
                shutil.rmtree(leftover, ignore_errors=True)
            if not self._goes_on_here:
                shutil.rmtree(self.pieces.destination.directory, ignore_errors=True)
            self.pieces.temporary.mkdir(parents=True)
            self.target.temporary.mkdir()
        noted = {"identity": self.identity, "files": sorted(files), "command": words}
        noted |= {"cuts": cuts} if cuts else {}
        run = json.dumps(noted).encode()
        if not self._goes_on_here:
            self.pieces.write(self.pieces.notes + RUN, run)
        if not self.resumed:
            self.target.write(self.target.notes + RUN, run)

    def share_units(self) -> None:
        """Leave the units of a folder at the target, for other machines or because it is remote."""
        if self.units is self.pieces:
            for name in list(filter(is_unit, self.done)):
                del self.done[name]
            self.units = self.target

    def forget(self) -> None:
        """Remove all that an unfinished run has written: nothing is left to go on with."""
        ours = files_of_run(self.target)
        forget_units(self.target)
        if self.target.destination.remote is None:
            remove_folder(self.target, ours)
        self.target.delete(ours)
        self.target.abort_uploads(ours)
        self.target.delete_notes(RECEIPTS, RUN, PLAN)
        shutil.rmtree(self.pieces.destination.directory, ignore_errors=True)
        self.done.clear()
        self.resumed, self._goes_on_here, self.other = False, False, ""

    def take_back(self) -> None:
        """Remove the shards of this run, which goes on to its manifest without them."""
        # The receipts go first: whoever goes on after a kill writes the shards again.
        self.target.delete_notes(RECEIPTS)
        self.target.delete(file.name for done in self.done.values() for file in done.files)
        self.done.clear()

    def release(self) -> None:
        """Stop; keep what a later run needs, or nothing if nothing was written."""
        shutil.rmtree(self.target.temporary, ignore_errors=True)
        shutil.rmtree(self.pieces.temporary, ignore_errors=True)
        work = self.target.destination.scratch
        keep = self.other != "" or (self.pieces.destination.scratch / RECEIPTS).exists()
        if self.target.destination.remote is None:  # the notes lie there as well
            files = map(self.target.destination.directory.joinpath, self._files)
            has_some = any(map(os.path.lexists, files)) or (work / RECEIPTS).exists()
            is_begun = (work / RUN).exists() and has_some
            keep = keep or is_begun or (work / REPLACED).exists()
        self.hold.release(keep)


def identity_of(plan: Plan) -> dict[str, Any]:
    """Return what identifies a command; file times and versions stay in ``run.json``."""
    job = plan.job
    identity = {
        **json.loads(json.dumps(plan.options())),
        "name": job.name,
        "source": plan.catalog.digest(),
        "schema": job.schema and json.loads(json.dumps(job.schema.to_json())),
        "file times": plan.catalog.mtimes_digest(),
    }
    if job.writes_tree:
        identity["units"] = len(plan.shards)
    if job.images.changes:
        identity["Pillow"] = version("pillow")
        if job.images.transform is not None and job.images.transform.filter == "bilinear":
            identity |= bilinear.versions()
    return identity


def finished_manifest(target: Target, advice: str = "") -> Manifest | None:
    """Return the manifest of the data set that is at a target; None if there is none."""
    if not target.stamps([target.manifest]):
        return None
    return _read(target, target.manifest, parse_manifest, advice or target.remedy)


def rejects_of(
    target: Target, finished: Manifest, advice: str = "give --overwrite to pack again"
) -> list[Reject]:
    """Return the rejects of a finished run, from its report."""
    name = target.destination.companion("rejects.jsonl").name
    return _read(target, name, parse_rejects, advice) if finished.rejected else []


def _read(target: Target, name: str, parse: Callable[[bytes, str], T], advice: str) -> T:
    url = target.destination.url(name)
    try:
        if (data := target.find(name)) is None:
            raise SourceError(f"{url}: does not exist")
        return parse(data, url)
    except (SourceError, DestinationError) as error:
        raise DestinationError(f"{error}; {advice}") from None


def is_bare(target: Target, finished: Manifest) -> bool:
    """Return whether only the record of a data set is there: no shard, and no file of a folder.

    A command then writes the data set as if for the first time.
    """
    if holds_folder(finished):
        try:
            found = [size for _, _, size in sizes_in_folder(target)]
            # samples that are texts alone have no files
            return found != [] and set(found) == {None}
        except (OSError, ValueError):  # nothing tells which files are of the folder
            return not target.folder_files()
    return bool(finished.shards) and not target.stamps([each.name for each in finished.shards])


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


def require_whole(target: Target, finished: Manifest, advice: str) -> None:
    """Refuse a finished data set with a file that is missing or has another size."""
    if wrong := damages(target, finished):
        name, why = wrong[0]
        others = f", and {format_count(len(wrong) - 1, 'other file')} too" if wrong[1:] else ""
        raise DestinationError(f"{target.destination.url(name)}: {why}{others}; {advice}")


def damages(target: Target, finished: Manifest) -> list[tuple[str, str]]:
    """Compare the names and sizes of all files of a data set with its record.

    Returns:
        The name of each file that is missing or has another size, and what is wrong with it.
    """
    sizes = {file.name: file.bytes for file in finished.every_file()}
    there = target.stamps(sizes)
    found = [
        (name, wrong)
        for name, size in sizes.items()
        if (wrong := _damage(size, there[name][0] if name in there else None))
    ]
    if found or not holds_folder(finished):
        return found
    try:
        return [
            (target.destination.in_folder(path), wrong)
            for path, size, own in sizes_in_folder(target)
            if (wrong := _damage(size, own))
        ]
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        return [(target.destination.companion(LISTING).name, f"cannot be read ({why})")]


def holds_folder(finished: Manifest) -> bool:
    """Return whether a data set is a folder of files rather than shards."""
    return writes_tree(finished.format)


def _damage(size: int, found: int | None) -> str:
    """Say what is wrong with a file that should have a size in bytes; empty if nothing is."""
    if found is None:
        return "was written, and is not there any more"
    return "" if found == size else f"has {found:,} bytes, and {size:,} were written"


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
        if state.other in _OTHER_IMAGES:
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
        if data := _find(target, target.manifest):
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
        if name.endswith("classes.txt") and target.find(name) == _classes(plan.catalog.class_names):
            continue
        writes_none = plan.catalog.class_names is None and plan.catalog.tells_all
        if writes_none and _is_of_lists(plan, name):
            continue
        raise _file_of_others(target, name, adding=base is not None)


def _is_of_lists(plan: Plan, name: str) -> bool:
    """Return whether a file is the classes beside the lists of the source."""
    from dsprep.lists.store import classes_path  # not before polars is there

    beside = (canonical(classes_path(path)) for path in plan.job.source.lists)
    return canonical(plan.job.destination.url(name)) in beside


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
        read_bytes(source.classes_file) == _classes(plan.catalog.class_names)
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


def commit(plan: Plan, state: RunState, outcome: Receipt, base: Manifest | None) -> Manifest:
    """Write what stands beside the shards, and last of all the manifest."""
    job, target = plan.job, state.target
    rejects = [*plan.lost, *outcome.rejects]
    adds_none = base is not None and any(plan.existing) and not outcome.samples
    if adds_none:
        state.take_back()  # all new samples were rejected: no empty shard is added
    elif not outcome.samples:
        state.forget()
        remove_replaced(target, None)
        target.remove_place()
        first = rejects[0]
        raise SourceError(
            f"{job.source.root}: nothing is left to write, {format_count(len(rejects), 'sample')} "
            f"rejected; the first one is {first.path}: {first.reason}"
        )
    if base is not None:
        advice = "dsprep shard index writes another manifest"
        rejects = [*rejects_of(target, base, advice), *rejects]
    classes = plan.catalog.class_names or _listed_classes(outcome.class_names)
    files: list[FileEntry] = []
    beside: dict[str, bytes] = {}  # the files that are made of the listing of a folder
    if job.writes_tree:
        finished = finish_folder(
            job.layout,
            [unit.name for unit in plan.shards],
            state.units,
            target,
            classes,
            outcome.effects,
        )
        shards, size, beside = [], finished.size, finished.companions
        files.append(finished.listing)
    else:
        shards = [*(base.shards if base else ())]
        for done in (state.done[each.name] for each in plan.shards if not adds_none):
            *sidecars, own = done.files
            facts = own.name, own.bytes, own.crc32c
            shards.append(ShardEntry(*facts, done.samples, tuple(sidecars), done.raw))
        size = sum(shard.bytes for shard in shards)
    beside |= _companions(plan, target, classes, shards, rejects, base)
    files += publish_beside(target, beside)
    if job.layout.writes_card:
        _publish_card(plan, target, shards)
    schema, options = job.schema, plan.options()
    from dsprep.sources.understood import recorded  # not before polars is there

    has_objects = job.layout.schema is not None and job.layout.schema.objects is not None
    if schema is not None and schema.label_field is not None and classes:
        schema = schema.with_names(classes)
    manifest = Manifest(
        format=job.layout.name,
        name=job.name,
        classes=classes,
        samples=outcome.samples,
        rejected=len(rejects),
        bytes=size,
        source=state.identity["source"],
        options=options,
        shards=shards,
        files=files,
        schema=schema,
        enforced=not job.raw,
        objects=(outcome.objects, outcome.with_objects) if has_objects else None,
        layout=recorded(job.source, job.given, plan.catalog.inferred),
    )
    if base is not None:
        changed = {name: each for name, each in options.items() if base.options.get(name) != each}
        added = {"source": manifest.source, "first_shard": job.first_shard, **changed}
        written = {file.name for file in files}
        manifest = replace(
            manifest,
            classes=classes or base.classes,
            samples=base.samples + outcome.samples,
            source=base.source,
            options={**base.options, "appended": [*base.options.get("appended", []), added]},
            files=[*(file for file in base.files if file.name not in written), *files],
            schema=base.schema,
            enforced=base.enforced and not job.raw,
            objects=_sums(base.objects, manifest.objects),
            layout={},  # that of one source is not that of another
        )
    publish_manifest(state, manifest)
    return manifest


def publish_beside(target: Target, companions: Mapping[str, bytes]) -> list[FileEntry]:
    """Write the files beside the shards; an empty one is a report that goes."""
    files: list[FileEntry] = []
    for name, data in companions.items():
        if not data:
            target.delete(target.stamps([name]))  # a report of an earlier run
            continue
        with destination_errors(partial := target.partial(name)):
            partial.write_bytes(data)
        files.append(FileEntry(name, len(data), crc32c(data)))
        target.publish(files[-1:])
    return files


def _publish_card(plan: Plan, target: Target, shards: Sequence[ShardEntry]) -> None:
    """Write the dataset card that is asked for; one that is there stays, as people edit it.

    So the manifest does not have it.
    """
    name = plan.job.destination.shard(CARD)
    if target.stamps([name]):
        return
    own, splits = iter(shards), list[Split]()
    for side, count in plan.sets:
        of_side = [*islice(own, count)]
        names = [os.path.basename(shard.name) for shard in of_side]
        totals = sum(shard.samples for shard in of_side), sum(shard.bytes for shard in of_side)
        splits.append(Split(side, names, *totals))
    data = plan.job.layout.card_of(splits)
    with destination_errors(partial := target.partial(name)):
        partial.write_bytes(data)
    target.publish([FileEntry(name, len(data), crc32c(data))])


def publish_manifest(state: RunState, manifest: Manifest) -> None:
    """Complete a data set: publish its manifest, then let other runs in."""
    state.hold.check()
    state.target.publish_manifest(manifest.to_json().encode())
    tidy_up(state.target, manifest)
    state.hold.remove()


def _sums(one: tuple[int, int] | None, two: tuple[int, int] | None) -> tuple[int, int] | None:
    return None if one is None or two is None else (one[0] + two[0], one[1] + two[1])


def _companions(
    plan: Plan,
    target: Target,
    classes: tuple[str, ...] | None,
    shards: Sequence[ShardEntry],
    rejects: Sequence[Reject],
    base: Manifest | None,
) -> dict[str, bytes]:
    """Return the files beside the shards, by name; an empty one is a report without entries."""
    job, destination = plan.job, plan.job.destination
    found: dict[str, bytes] = {}
    name = destination.companion("classes.txt").name
    if classes and not (_is_of_lists(plan, name) and target.find(name) == _classes(classes)):
        found[name] = _classes(classes)
    found |= {name: _classes(names) for name, names in plan.class_files()}
    if job.images.augment is not None:
        table = augment_table(plan.catalog, job.images.augment, [each.path for each in rejects])
        found[destination.companion(AUGMENT_FILE).name] = table
    found |= {destination.known_as(name): data for name, data in job.layout.class_maps().items()}
    facts = map(facts_of, shards)
    before = len(base.shards) if base else 0
    for side, count in plan.sets:
        of_side = [*islice(facts, before + count)]
        index = job.layout.dataset_index(job.set_name(side), of_side)
        found |= {job.placed(side, name): data for name, data in index.items()}
    reports = {"rejects.jsonl": [each.to_json() for each in rejects]}
    if base is None:
        reports["skipped.jsonl"] = [each.to_json() for each in plan.skipped]
    for name, entries in reports.items():
        lines = (json_line(each) + "\n" for each in entries)
        if entries or base is None:
            found[destination.companion(name).name] = "".join(lines).encode()
    return found


def facts_of(shard: ShardEntry) -> ShardFacts:
    """Return what an index says of a shard."""
    return ShardFacts(os.path.basename(shard.name), shard.samples, shard.bytes, shard.raw)


def _classes(classes: Sequence[str] | None) -> bytes:
    from dsprep.lists.store import format_classes  # not before polars is there

    return format_classes(classes or ()).encode()


def _listed_classes(told: dict[str, str]) -> tuple[str, ...] | None:
    """Return names of classes in the order of their numbers; a number without a name has none."""
    names = {int(number): name for number, name in told.items()}
    if not names or min(names) < 0 or max(names) > _MOST_CLASSES:
        return None
    return tuple(names.get(number, "") for number in range(max(names) + 1))


def files_of_run(target: Target) -> list[str]:
    """Return the names of the files that the unfinished run at a target may have written."""
    files = (target.noted_run() or {}).get("files")
    named = files if isinstance(files, list) else []
    may_hold = target.destination.may_hold
    return [name for name in named if isinstance(name, str) and may_hold(name)]


def remove_replaced(target: Target, finished: Manifest | None) -> None:
    """Remove the files of a data set that has been replaced, without those of the finished one."""
    if (data := _find(target, target.notes + REPLACED)) is None:
        return
    with suppress(SourceError):  # dsprep did not write the manifest, so no other file is removed
        if (replaced := parse_manifest(data, target.manifest)) != finished:
            names = set(filter(target.destination.may_hold, replaced.names()))
            listing = target.destination.companion(LISTING).name
            kept = finished is not None and listing in finished.names()
            remove_folder(target, names, target.destination.url(listing) if kept else "")
            target.delete(names - (finished.names() if finished else set()))
    target.delete_notes(REPLACED)


def _find(target: Target, name: str) -> bytes | None:
    """Read a small file; None also if it is no regular one, which dsprep did not write."""
    with suppress(DestinationError):
        return target.find(name)
    return None


def tidy_up(target: Target, finished: Manifest) -> None:
    """Remove the notes, receipts and open uploads of a run after it has published its manifest."""
    remove_replaced(target, finished)
    target.abort_uploads([*files_of_run(target), *finished.names()])
    if holds_folder(finished):
        target.delete([*target.listings(), target.notes + REPLACED_LISTING])
    target.delete_notes(RECEIPTS, RUN, PLAN, LEASES)


def remove_leftovers(destination: Destination, finished: Manifest) -> None:
    """Remove what a run left that was killed after it had published this manifest."""
    # What belongs to a run that has not published its manifest stays: that run can go on.
    target = target_of(destination)
    if not target.has_notes():
        return
    hold = target.hold((), lambda _: None)
    try:
        if has_published(target.noted_run(), finished):
            tidy_up(target, finished)
            hold.remove()
    finally:
        hold.release(keep=True)


def has_published(run: dict[str, Any] | None, finished: Manifest) -> bool:
    """Whether the run with this note has published this manifest."""
    identity = (run or {}).get("identity")
    if not isinstance(identity, dict):
        return True
    if (base := identity.get("appended to")) is None:
        return not unlike(finished, identity)
    added = (finished.options.get("appended") or [None])[-1]
    shards = [shard.name for shard in finished.shards]
    return (
        isinstance(added, dict)
        and (added.get("source"), added.get("first_shard")) == (identity.get("source"), len(base))
        and shards[: len(base)] == base
    )


def unlike(finished: Manifest, identity: dict[str, Any]) -> str:
    """Say how a command differs from the one that wrote a data set; empty if it does not."""
    # The source is that of paths, sizes and classes: it does not tell labels in fields of samples.
    known = {name: identity[name] for name in _UNTOLD if name in identity}
    known |= {**finished.options, "name": finished.name, "source": finished.source}
    if "manifest" in identity:  # a join knows its manifest before it begins
        known["manifest"] = finished.digest
    own = {name: value for name, value in identity.items() if name != "schema"}
    if finished.schema is not None and (schema := identity.get("schema")) is not None:
        known |= _fields_of(finished.schema.to_json())
        own |= _fields_of(schema)
    return differences(known, own)


_OTHER_IMAGES = ("other source", "other file times", "other source, file times")
"""Differences that a command has from itself, if its images have changed."""

# what an identity has, and no manifest
_UNTOLD = ("file times", "Pillow", "simplejpeg", "OpenCV", "appended to", "units")


def _fields_of(schema: dict[str, Any]) -> dict[str, Any]:
    fields = {each["name"]: each["type"] for each in schema["fields"]}
    return {"label (--label-field)": schema["label"], "fields": fields, "image": schema["image"]}


def differences(known: Any, identity: dict[str, Any]) -> str:
    """Say how another command differs from this one; empty if it does not."""
    if known == identity:
        return ""
    every = {**identity, **known} if isinstance(known, dict) else {}
    keys = [key for key in every if known.get(key) != identity.get(key)]
    if "format" in keys:
        at = keys.index("format")
        keys[at : at + 1] = _options_unlike(known.get("format"), identity.get("format"))
    return "other " + ", ".join(keys) if keys else "another version"


def _options_unlike(known: Any, own: Any) -> list[str]:
    """Return the options in which two records of one format differ; ``format`` if it is another."""
    if not (isinstance(known, dict) and isinstance(own, dict)):
        return ["format"]
    keys = [key for key in {**own, **known} if known.get(key) != own.get(key)]
    return ["format"] if "name" in keys else keys
