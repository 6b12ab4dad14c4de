"""``shard index``: write the indexes of shards that are there, and a manifest if there is none."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from dsprep.dataset.find import Place, data_sets
from dsprep.dataset.manifest import (
    NUMBERS,
    FileEntry,
    Manifest,
    ShardEntry,
    common_name,
    parse_manifest,
)
from dsprep.declared import called_with
from dsprep.errors import DestinationError, OptionError, SourceError
from dsprep.formats import format_of_file, format_of_source, shard_stem, suffixes
from dsprep.formats.base import NUMBER_IN_NAME, Format, ShardFacts
from dsprep.lists.store import read_classes
from dsprep.options import require_effect
from dsprep.places.names import side_name
from dsprep.plan.destination import DEFAULT_NAME, Destination
from dsprep.progress import Progress
from dsprep.run.leftovers import remove_leftovers
from dsprep.storage.files import facts, is_dir, is_file, is_taken, read_bytes, system_path
from dsprep.storage.local import ScratchLock, sync_path
from dsprep.storage.store import publish_manifest, store_below, store_of
from dsprep.storage.stored import crc32c
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some
from dsprep.verifying import energon
from dsprep.verifying.indexes import (
    IndexTask,
    ShardWithIndex,
    compared,
    index_name,
    make_index,
    present,
    read_wids,
    settle,
    wids_difference,
)
from dsprep.verifying.options import IndexOptions
from dsprep.verifying.report import IndexFile, IndexReport, Problem, joined
from dsprep.verifying.shards import (
    Shards,
    find_shards,
    left_over,
    of_data_set,
    strays,
    without_manifest,
)
from dsprep.workers.engine import open_executor
from dsprep.workers.executor import Executor

# what was done about an index of this state
_DONE = {"missing": "written", "wrong": "replaced"}
_KEPT = "is kept as somebody wrote it, and not checked; --overwrite replaces it"


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
    state = "checked" if options.check else "planned" if options.dry_run else "indexed"
    found, lost = _find(dest)
    if options.energon and not is_dir(dest):
        raise OptionError(f"{dest}: --energon goes with a directory of shards; name that")
    if lost and options.overwrite and found[0].destination.single is None:
        found, lost = [_without_manifest(found[0].destination)], []
    progress = options.progress or Progress()
    with open_executor(options.workers) as pool:
        parts = [_index(shards, options, state, pool, progress) for shards in found]
    reports = [part.report for part in parts]
    if options.energon:
        reports[-1] = _with_energon(parts, options, state)
    return joined(dest, reports, lost, began)


def _find(dest: str) -> tuple[list[Shards], list[Problem]]:
    """Find the shards at a place, and what no manifest there names."""
    if system_path(dest) is not None:
        found = find_shards(dest)
        return found, [Problem(*stray) for stray in strays(dest, found)]
    if not is_dir(dest):
        raise OptionError(f"{dest}: on S3, indexes are those of a prefix; name one with shards")
    place = Place(dest)
    found = [of_data_set(each) for each in data_sets(place)]
    if not found:
        store, prefix = store_below(dest)
        return [_without_manifest(Destination(Path(), remote=store.url(prefix)))], []
    lost = left_over(place.names.files, (), found)
    return found, [Problem(*stray) for stray in lost]


def _without_manifest(where: Destination) -> Shards:
    """Return the shards that are at a place, as if they had no manifest."""
    if where.remote is None or where.single:
        return without_manifest(where)
    names = sorted(name for name in Place(where.url("")).names.files if format_of_source(name))
    if not names:
        raise SourceError(f"{where}: holds no shards ({suffixes()})")
    return without_manifest(where, names)


class _Indexed(NamedTuple):
    """A data set whose shards have been indexed."""

    report: IndexReport
    shards: Shards
    made: Mapping[str, ShardWithIndex]  # its shards that are there, by name


def _index(
    shards: Shards, options: IndexOptions, state: str, pool: Executor, progress: Progress
) -> _Indexed:
    layout = shards.made.layout
    asked = [*options.kinds, *(["energon"] if options.energon else [])]
    kinds = _suitable(asked, layout)
    if options.overwrite and _sizes_differ(shards):
        shards = _without_manifest(shards.destination)
    kinds, notes = _without_clash(shards, kinds, asked)
    _require_own_name(shards, kinds, options.overwrite)
    manifest = shards.manifest
    with _locked_scratch(shards) if state == "indexed" else nullcontext() as scratch:
        whole = "manifest" in kinds and manifest is None and scratch is not None
        of_shards = tuple(kind for kind in layout.shard_indexes if kind in kinds)
        task = IndexTask("", layout, of_shards, scratch, whole)
        there = shards.present
        tasks = [task._replace(path=shards.destination.url(name)) for name in there]
        with progress.running("indexing", manifest.samples if manifest else 0):
            found = [_named(each, shards) for each in pool.map(make_index, tasks, progress.advance)]
        made = dict(zip(there, found, strict=True))
        settled = [index for shard in found for index in shard.indexes]
        if "wids" in kinds and _all_readable(shards, made):
            settled += _settle_over_all(shards, made, scratch)
        problems = [shard.problem for shard in found if shard.problem]
        problems += _mismatches(manifest, made)
        if not problems and (manifest or "manifest" in kinds):
            settled.append(_settle_manifest(shards, made, settled, state, scratch))
        if scratch is not None and shards.destination.remote is None:
            sync_path(shards.destination.place)
            sync_path(shards.directory)
    if state == "checked":
        problems += _unsettled(settled)
    settled = _as_done(settled, state)
    for name, remark in _remarks(made, kinds):
        if name and asked:  # the user asked for this index by name
            problems.append(Problem(name, remark))
        else:
            notes.append(f"{name}: {remark}" if name else remark)
    report = IndexReport(
        destination=shards.place.path,
        format=layout.name,
        state=state,
        shards=len(found),
        samples=sum(shard.samples for shard in found),
        bytes=sum(shard.bytes for shard in found),
        files=settled,
        problems=problems,
        notes=notes,
    )
    return _Indexed(report, shards, made)


def _with_energon(parts: Sequence[_Indexed], options: IndexOptions, state: str) -> IndexReport:
    """Write the files of Energon that are of all shards of a directory, and report them."""
    report, place = parts[-1].report, parts[-1].shards.place
    every = {part.shards.shown(name): it for part in parts for name, it in part.made.items()}
    have_index = [any(each.kind == "energon" for each in it.indexes) for it in every.values()]
    if not all(have_index) or len(every) < sum(len(part.shards.names) for part in parts):
        note = "Megatron-Energon needs an index of each shard: .nv-meta is left as it is"
        return replace(report, notes=[*report.notes, note])
    sides = dict(chain(*(_sides_of(part.shards).items() for part in parts)))
    sides, unclear = energon.parts_of(sides)
    shapes = {shape for shard in every.values() for shape in shard.shapes}
    wanted, notes = energon.files({name: it.samples for name, it in every.items()}, sides, shapes)
    notes += unclear
    own = _written_before(place, sides)
    files = list[IndexFile]()
    for name, data in wanted.items():
        path = place.join(name)
        file = compared(path, "energon", data, None)
        if file.state == "wrong" and not options.overwrite:
            have = present(path) or b""
            if have != own.get(name, b""):
                notes.append(f"{path}: {_KEPT}")
                receipt = FileEntry(name, len(have), crc32c(have))
                file = file._replace(receipt=receipt, state="kept")
        if file.state in _DONE and state == "indexed":
            store, key = store_of(path)
            store.put(key, data)
        files.append(file._replace(receipt=replace(file.receipt, name=name)))
    problems = list(_unsettled(files)) if state == "checked" else []
    return replace(
        report,
        files=[*report.files, *_as_done(files, state)],
        notes=[*report.notes, *notes],
        problems=[*report.problems, *problems],
    )


def _written_before(place: Place, sides: Mapping[str, str]) -> dict[str, bytes | None]:
    """Return the files of Energon that are there and that no person wrote.

    That is the list of shards, and the sides if they are those that dsprep gives these shards.
    """
    info, split = present(place.join(energon.INFO)), present(place.join(energon.SPLIT))
    # A run that was killed has written the sides and not the list of shards.
    names = [*energon.shards_in(info or b""), *energon.shards_listed(split or b"")]
    known = {name: sides.get(name) or _side_in(name) for name in names}
    return {energon.INFO: info, energon.SPLIT: energon.split(known)}


def _sides_of(shards: Shards) -> dict[str, str]:
    """Return the side of each shard: that of the manifest, or the one that its name has."""
    sides = shards.manifest.sides if shards.manifest else {}
    return {shards.shown(name): sides.get(name) or _side_in(name) for name in shards.names}


def _side_in(name: str) -> str:
    """Return the side that the name of a shard has; any other is for training."""
    found = side_name(NUMBERS.sub("", shard_stem(name)))
    return found.side if found else DEFAULT_NAME


def _as_done(files: Iterable[IndexFile], state: str) -> list[IndexFile]:
    """Return indexes with what was, or would be, done about them; a check does nothing."""
    if state == "checked":
        return [*files]
    return [file._replace(state=_DONE.get(file.state, file.state)) for file in files]


def _sizes_differ(shards: Shards) -> bool:
    """Return whether shards are not, or not as large, as their manifest says."""
    receipts = shards.manifest.shards if shards.manifest else []
    sizes = {shards.destination.url(shard.name): shard.bytes for shard in receipts}
    return not all(is_file(path) and facts(path).size == sizes[path] for path in sizes)


def _without_clash(
    shards: Shards, kinds: frozenset[str], asked: Sequence[str]
) -> tuple[frozenset[str], list[str]]:
    """Leave out an index whose name is taken, if readers do without it; return a note then."""
    kind = next(iter(shards.made.layout.shard_indexes), "")
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
        told = [
            ShardFacts(shards.shown(name), made[name].samples, made[name].bytes) for name in names
        ]
        ((name, data),) = shards.made.layout.dataset_index(data_set, told).items()
        difference = partial(wids_difference, shards=told)
        over_all = settle(shards.place.join(name), "wids", data, difference, scratch)
        yield _in_place(over_all, shards)


def _unsettled(files: Sequence[IndexFile]) -> Iterator[Problem]:
    """Yield the indexes that a check found missing or wrong."""
    for file in files:
        if file.state in _DONE:
            yield Problem(file.name, file.detail or "is missing")


def _in_place(index: IndexFile, shards: Shards) -> IndexFile:
    """Give an index beside shards the name that the manifest has for it."""
    name = shards.destination.shard(index.receipt.name)
    return index._replace(receipt=replace(index.receipt, name=name))


def _named(found: ShardWithIndex, shards: Shards) -> ShardWithIndex:
    return replace(found, indexes=[_in_place(index, shards) for index in found.indexes])


def _suitable(asked: Sequence[str], layout: Format) -> frozenset[str]:
    over_all = "wids" if layout.dataset_index("x", []) else ""
    possible = [*layout.shard_indexes[:1], *([over_all] if over_all else []), "manifest"]
    for kind in asked:
        if kind not in (*possible, *layout.shard_indexes):
            option = "--energon" if kind == "energon" else f"--kind {kind}"
            raise OptionError(
                f"{option}: not for {layout.name} shards; for these: {', '.join(possible)}"
            )
    return frozenset(asked or possible)


def _clash(shards: Shards) -> str:
    """Say which index would have the name of another shard's; empty if none would."""
    place, layout = shards.place, shards.made.layout
    owners = {index_name(shards.shown(name), layout): name for name in shards.names}
    ours = set(map(shards.shown, shards.manifest.names() if shards.manifest else ()))
    for name in sorted(place.names.every):
        other = format_of_file(name)
        if other is None or other is type(layout) or not other.shard_indexes:
            continue
        index = index_name(name, other())
        if index in owners and index not in ours:
            return (
                f"{place.join(index)}: would be the index of {owners[index]} and of {name}; move "
                "one of them to another directory"
            )
    return ""


def _require_own_name(shards: Shards, kinds: frozenset[str], overwrite: bool) -> None:
    """Refuse to write an index of all shards in the place of something else."""
    path = shards.place.join(f"{data_set_name(shards)}.json")
    if "wids" in kinds and not overwrite and is_taken(path):
        with suppress(OSError):
            if read_wids(read_bytes(path)) is not None:
                return
        raise DestinationError(
            f"{path}: has the name of the wids index, but is none; give --overwrite to replace it, "
            "or --kind to write others"
        )


@contextmanager
def _locked_scratch(shards: Shards) -> Iterator[Path]:
    """Keep others from writing there, and make a directory for unfinished files."""
    scratch = shards.destination.scratch
    if shards.destination.remote is not None:
        _require_no_run(shards, is_dir(shards.destination.url(f"{scratch.name}/")))
        yield scratch  # which is not made: objects appear as wholes
        return
    if shards.manifest is not None:
        remove_leftovers(shards.destination, shards.manifest)
    lock = ScratchLock(scratch, shards.directory)
    with ExitStack() as stack:
        stack.callback(lock.release)
        is_begun = any((scratch / name).exists() for name in ("run.json", "replaced.json"))
        _require_no_run(shards, is_begun)
        stack.callback(lock.remove)
        yield scratch


def _require_no_run(shards: Shards, is_begun: bool) -> None:
    if is_begun:
        where = shards.destination.remote or shards.directory
        raise DestinationError(
            f"{where}: an unfinished run is there: give its command again, first"
        )


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
    manifest, name = shards.manifest, shards.destination.manifest.name
    unknown = IndexFile(FileEntry(name, 0, 0), "manifest", "missing")
    if manifest is None and scratch is None:
        return unknown
    new = [index.receipt for index in settled if index.state != "unchanged" or not manifest]
    updated = _with_indexes(manifest or _new_manifest(shards, made), made, new)
    if updated == manifest or (manifest and state == "checked"):
        return unknown._replace(state="unchanged")
    path, data = shards.destination.url(name), updated.to_json().encode()
    store, key = store_of(path)
    if store.has_rename or scratch is None:
        now = settle(path, "manifest", data, None, scratch)
    else:  # no lock keeps other runs out
        etag = ""
        if manifest is not None:
            before, stored = store.read(key)
            etag = stored.etag if parse_manifest(before, path) == manifest else "another"
        publish_manifest(store, key, data, etag)
        now = IndexFile(FileEntry(name, len(data), crc32c(data)), "manifest", "missing")
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
    layout, url = shards.made.layout, shards.destination.url
    receipts = []
    for name, shard in made.items():
        index, stem = index_name(name, layout), name.removesuffix(layout.suffix)
        beside = (f"{stem}{suffix}" for suffix in layout.sidecar_suffixes)
        others = [
            FileEntry.of(url(file), file) for file in beside if file != index and is_file(url(file))
        ]
        sidecars = (*(each.receipt for each in shard.indexes), *others)
        receipts.append(ShardEntry(name, shard.bytes, shard.crc32c, shard.samples, sidecars))
    classes = url(shards.destination.companion("classes.txt").name)
    has_classes = is_file(classes)
    return Manifest(
        format=layout.name,
        name=data_set_name(shards),
        classes=read_classes(classes) if has_classes else None,
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
        files=[FileEntry.of(classes)] if has_classes else [],
    )


def _with_indexes(
    manifest: Manifest, made: Mapping[str, ShardWithIndex], indexes: Sequence[FileEntry]
) -> Manifest:
    new = {receipt.name: receipt for receipt in indexes}

    def updated(files: Sequence[FileEntry], own: Sequence[str]) -> list[FileEntry]:
        known = {file.name: file for file in files}
        added = {name: new[name] for name in (*known, *own) if name in new}
        return list((known | added).values())

    own = {name: [each.receipt.name for each in shard.indexes] for name, shard in made.items()}
    shards = [
        replace(shard, sidecars=tuple(updated(shard.sidecars, own.get(shard.name, ()))))
        for shard in manifest.shards
    ]
    of_set = [name for name in new if name not in set(chain(*own.values()))]
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
        for why in dict.fromkeys(shard.without.values()):
            yield name, f"has no index: {why}"
        if shard.compressed and "wids" in kinds:
            yield name, "there is no wids index, as wids does not read gzip"
