"""``shard index``: write the indexes of shards that are there, and a manifest if there is none."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from dsprep.dataset.manifest import NUMBERS, FileEntry, Manifest, ShardEntry, common_name
from dsprep.declared import called_with
from dsprep.errors import DestinationError, OptionError
from dsprep.formats import format_of_file, shard_stem
from dsprep.formats.base import NUMBER_IN_NAME, Format, ShardFacts
from dsprep.lists.store import read_classes
from dsprep.options import require_effect
from dsprep.progress import Progress
from dsprep.run.state import remove_leftovers
from dsprep.storage.local import ScratchLock, read_whole, sync_path
from dsprep.storage.store import store_of
from dsprep.units import format_count, format_some
from dsprep.verifying.indexes import (
    IndexTask,
    ShardWithIndex,
    index_name,
    make_index,
    read_wids,
    settle,
    wids_difference,
)
from dsprep.verifying.options import IndexOptions
from dsprep.verifying.report import IndexFile, IndexReport, Problem, joined
from dsprep.verifying.shards import Shards, find_shards, strays, without_manifest
from dsprep.workers.engine import open_executor
from dsprep.workers.executor import Executor

# what was done about an index of this state
_DONE = {"missing": "written", "wrong": "replaced"}


@called_with(IndexOptions)
def index(options: IndexOptions) -> IndexReport:
    """Write the indexes of shards; those that are right already stay as they are.

    ``dest`` is a directory of shards, one shard, or a manifest. ``kinds`` are ``mxnet``, ``dali``,
    ``wids`` and ``manifest``; by default all that suit the format.

    Returns:
        What was done; shards that are damaged are in there, not raised.
    """
    dest = options.dest
    require_effect("shard index", options.given)
    began = time.monotonic()
    store, key = store_of(dest)
    if store.path(key) is None:
        raise OptionError(
            f"{dest}: is on {store.name}, and indexes are written on a disk: fetch the shards with "
            "dsprep sync, index them there, and bring the indexes back with dsprep sync"
        )
    state = "checked" if options.check else "planned" if options.dry_run else "indexed"
    found = find_shards(dest)
    lost = [Problem(*stray) for stray in strays(dest, found)]
    if lost and options.overwrite and found[0].destination.single is None:
        found, lost = [without_manifest(found[0].destination)], []
    progress = options.progress or Progress()
    with open_executor(options.workers) as pool:
        parts = [_index(shards, options, state, pool, progress) for shards in found]
    return joined(dest, parts, lost, began)


def _index(
    shards: Shards, options: IndexOptions, state: str, pool: Executor, progress: Progress
) -> IndexReport:
    asked, layout = options.kinds, shards.made.layout
    kinds = _suitable(asked, layout)
    if options.overwrite and _sizes_differ(shards):
        shards = without_manifest(shards.destination)
    kinds, notes = _without_clash(shards, kinds, asked)
    _require_own_name(shards, kinds, options.overwrite)
    manifest, directory = shards.manifest, shards.directory
    with _locked_scratch(shards) if state == "indexed" else nullcontext() as scratch:
        whole = "manifest" in kinds and manifest is None and scratch is not None
        task = IndexTask("", layout, layout.shard_index in kinds, scratch, whole)
        tasks = [task._replace(path=str(directory / name)) for name in shards.present]
        with progress.running("indexing", manifest.samples if manifest else 0):
            found = [_named(each, shards) for each in pool.map(make_index, tasks, progress.advance)]
        made = dict(zip(shards.present, found, strict=True))
        settled = [shard.index for shard in found if shard.index]
        if "wids" in kinds and _all_readable(shards, made):
            settled += _settle_over_all(shards, made, scratch)
        problems = [shard.problem for shard in found if shard.problem]
        problems += _mismatches(manifest, made)
        if not problems and (manifest or "manifest" in kinds):
            settled.append(_settle_manifest(shards, made, settled, state, scratch))
        if scratch is not None:
            sync_path(shards.destination.place)
            sync_path(directory)
    if state == "checked":
        problems += _unsettled(settled)
    else:
        settled = [file._replace(state=_DONE.get(file.state, file.state)) for file in settled]
    for name, remark in _remarks(made, kinds):
        if name and asked:  # the user asked for this index by name
            problems.append(Problem(name, remark))
        else:
            notes.append(f"{name}: {remark}" if name else remark)
    return IndexReport(
        destination=str(shards.destination.place),
        format=layout.name,
        state=state,
        shards=len(found),
        samples=sum(shard.samples for shard in found),
        bytes=sum(shard.bytes for shard in found),
        files=settled,
        problems=problems,
        notes=notes,
    )


def _sizes_differ(shards: Shards) -> bool:
    """Return whether shards are not, or not as large, as their manifest says."""
    receipts = shards.manifest.shards if shards.manifest else []
    sizes = {shards.directory / shard.name: shard.bytes for shard in receipts}
    return not all(path.is_file() and path.stat().st_size == sizes[path] for path in sizes)


def _without_clash(
    shards: Shards, kinds: frozenset[str], asked: Sequence[str]
) -> tuple[frozenset[str], list[str]]:
    """Leave out an index whose name is taken, if readers do without it; return a note then."""
    kind = shards.made.layout.shard_index
    taken = _clash(shards) if kind in kinds else ""
    if not taken:
        return kinds, []
    if kind in asked or kind == "mxnet":
        raise DestinationError(taken)
    return kinds - {kind}, [f"no index of {kind}: {taken}"]


def _all_readable(shards: Shards, made: Mapping[str, ShardWithIndex]) -> bool:
    """Return whether all shards are there, without damage, and are no gzip."""
    is_readable = not any(shard.problem or shard.compressed for shard in made.values())
    return is_readable and len(made) == len(shards.names)


def _settle_over_all(
    shards: Shards, made: Mapping[str, ShardWithIndex], scratch: Path | None
) -> Iterator[IndexFile]:
    """Write the index of all shards, or of those of each side."""
    for data_set, names in _data_sets(shards):
        facts = [
            ShardFacts(shards.shown(name), made[name].samples, made[name].bytes) for name in names
        ]
        ((name, data),) = shards.made.layout.dataset_index(data_set, facts).items()
        difference = partial(wids_difference, shards=facts)
        over_all = settle(shards.destination.place / name, "wids", data, difference, scratch)
        yield _in_place(over_all, shards)


def _unsettled(files: Sequence[IndexFile]) -> Iterator[Problem]:
    """Yield the indexes that a check found missing or wrong."""
    for file in files:
        if file.state != "unchanged":
            yield Problem(file.name, file.detail or "is missing")


def _in_place(index: IndexFile, shards: Shards) -> IndexFile:
    """Give an index beside shards the name that the manifest has for it."""
    name = shards.destination.shard(index.receipt.name)
    return index._replace(receipt=replace(index.receipt, name=name))


def _named(found: ShardWithIndex, shards: Shards) -> ShardWithIndex:
    return replace(found, index=found.index and _in_place(found.index, shards))


def _suitable(asked: Sequence[str], layout: Format) -> frozenset[str]:
    over_all = "wids" if layout.dataset_index("x", []) else ""
    possible = [kind for kind in (layout.shard_index, over_all, "manifest") if kind]
    for kind in asked:
        if kind not in possible:
            raise OptionError(
                f"--kind {kind}: not for {layout.name} shards; for these: {', '.join(possible)}"
            )
    return frozenset(asked or possible)


def _clash(shards: Shards) -> str:
    """Say which index would have the name of another shard's; empty if none would."""
    directory, layout = shards.destination.place, shards.made.layout
    owners = {index_name(shards.shown(name), layout): name for name in shards.names}
    ours = set(map(shards.shown, shards.manifest.names() if shards.manifest else ()))
    for name in sorted(path.name for path in directory.iterdir()):
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


def _require_own_name(shards: Shards, kinds: frozenset[str], overwrite: bool) -> None:
    """Refuse to write an index of all shards in the place of something else."""
    path = shards.destination.place / f"{data_set_name(shards)}.json"
    if "wids" in kinds and path.exists() and not overwrite:
        with suppress(OSError):
            if read_wids(read_whole(path)) is not None:
                return
        raise DestinationError(
            f"{path}: has the name of the wids index, but is none; give --overwrite to replace it, "
            "or --kind to write others"
        )


@contextmanager
def _locked_scratch(shards: Shards) -> Iterator[Path]:
    """Keep others from writing there, and make a directory for unfinished files."""
    scratch = shards.destination.scratch
    if shards.manifest is not None:
        remove_leftovers(shards.destination, shards.manifest)
    lock = ScratchLock(scratch, shards.directory)
    with ExitStack() as stack:
        stack.callback(lock.release)
        if any((scratch / name).exists() for name in ("run.json", "replaced.json")):
            raise DestinationError(
                f"{shards.directory}: an unfinished run is there: give its command again, first"
            )
        stack.callback(lock.remove)
        yield scratch


def _mismatches(manifest: Manifest | None, made: Mapping[str, ShardWithIndex]) -> Iterator[Problem]:
    for receipt in manifest.shards if manifest else ():
        shard = made.get(receipt.name)
        if shard is None:
            yield Problem(receipt.name, "is in the manifest, but not there")
        elif shard.problem is None:
            for what in ("bytes", "samples"):
                has, says = getattr(shard, what), getattr(receipt, what)
                if has != says:
                    wrong = f"has {has:,} {what}, but the manifest says {says:,}"
                    yield Problem(receipt.name, wrong)


def _settle_manifest(
    shards: Shards,
    made: Mapping[str, ShardWithIndex],
    settled: Sequence[IndexFile],
    state: str,
    scratch: Path | None,
) -> IndexFile:
    """Write a manifest, or add to the one that is there what was written."""
    manifest, path = shards.manifest, shards.destination.manifest
    unknown = IndexFile(FileEntry(path.name, 0, 0), "manifest", "missing")
    if manifest is None and scratch is None:
        return unknown
    new = [index.receipt for index in settled if index.state != "unchanged" or not manifest]
    updated = _with_indexes(manifest or _new_manifest(shards, made), made, new)
    if updated == manifest or (manifest and state == "checked"):
        return unknown._replace(state="unchanged")
    now = settle(path, "manifest", updated.to_json().encode(), None, scratch)
    if manifest is not None:
        names = format_some([receipt.name for receipt in new])
        now = now._replace(state="updated", detail=f"tells of {names} now")
    return now


def _data_sets(shards: Shards) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the data sets that have an index, each side one: the name, and those of its shards."""
    manifest = shards.manifest
    if manifest is None or not manifest.sides:
        yield data_set_name(shards), shards.names
        return
    for side in dict.fromkeys(manifest.sides.values()):
        named = f"{manifest.name}-{side}"  # the name of a side if --name was given
        own = [name for name in shards.names if manifest.sides[name] == side]
        (index,) = shards.made.layout.dataset_index(named, [])
        yield named if shards.destination.shard(index) in manifest.names() else side, own


def data_set_name(shards: Shards) -> str:
    """Return what the names of the shards begin with, without their numbers."""
    name = shards.manifest.name if shards.manifest else shards.destination.stem
    if name and NUMBER_IN_NAME.search(name):
        return name
    return common_name(
        {name}
        if name
        else {NUMBERS.sub("", shard_stem(shards.shown(shard))) for shard in shards.names}
    )


def _new_manifest(shards: Shards, made: Mapping[str, ShardWithIndex]) -> Manifest:
    layout, directory = shards.made.layout, shards.directory
    receipts = []
    for name, shard in made.items():
        index, stem = index_name(name, layout), name.removesuffix(layout.suffix)
        beside = (f"{stem}{suffix}" for suffix in layout.sidecar_suffixes)
        others = [
            FileEntry.of(directory / file, file)
            for file in beside
            if file != index and (directory / file).is_file()
        ]
        sidecars = (*((shard.index.receipt,) if shard.index else ()), *others)
        receipts.append(ShardEntry(name, shard.bytes, shard.crc32c, shard.samples, sidecars))
    classes = shards.destination.companion("classes.txt")
    return Manifest(
        format=layout.name,
        name=data_set_name(shards),
        classes=read_classes(str(classes)) if classes.is_file() else None,
        samples=sum(shard.samples for shard in made.values()),
        rejected=0,
        bytes=sum(shard.bytes for shard in made.values()),
        source="",
        # Nothing tells those of the program that wrote the shards.
        options={
            "format": {"name": layout.name},
            "indexed": True,
            "single_file": shards.destination.single is not None,
            **({"apart": True} if shards.destination.apart else {}),
        },
        shards=receipts,
        files=[FileEntry.of(classes)] if classes.is_file() else [],
    )


def _with_indexes(
    manifest: Manifest, made: Mapping[str, ShardWithIndex], indexes: Sequence[FileEntry]
) -> Manifest:
    new = {receipt.name: receipt for receipt in indexes}

    def updated(files: Sequence[FileEntry], own: Sequence[str]) -> list[FileEntry]:
        known = {file.name: file for file in files}
        added = {name: new[name] for name in (*known, *own) if name in new}
        return list((known | added).values())

    own = {name: [shard.index.receipt.name] for name, shard in made.items() if shard.index}
    shards = [
        replace(shard, sidecars=tuple(updated(shard.sidecars, own.get(shard.name, ()))))
        for shard in manifest.shards
    ]
    of_set = [name for name in new if [name] not in own.values()]
    return replace(manifest, shards=shards, files=updated(manifest.files, of_set))


def _remarks(
    made: Mapping[str, ShardWithIndex], kinds: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """Yield remarks; those on a shard, with its name, say why it has no index."""
    long = sum(shard.long_names for shard in made.values())
    if long and "wids" in kinds:
        count = format_count(long, "name")
        yield "", f"{count} of more than 100 bytes, which wids does not read whole"
    for name, shard in made.items():
        if shard.repeats:
            yield "", f"{name}: several samples have one id, so the keys in its index are positions"
    if any(shard.problem for shard in made.values()):
        yield "", "indexes of all shards are left as they are, because a shard is damaged"
    for name, shard in made.items():
        if shard.without:
            yield name, f"has no index: {shard.without}"
        if shard.compressed and "wids" in kinds:
            yield name, "there is no wids index, as wids does not read gzip"
