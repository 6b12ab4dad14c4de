"""``join``: one data set of several, whose shards or files are linked or copied as they are."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from dsprep.dataset.find import (
    DataSet,
    Place,
    data_sets,
    scratch_beside,
    unfinished,
    without_absent,
)
from dsprep.dataset.joined import joined
from dsprep.dataset.manifest import FileEntry, Manifest, parse_rejects, single_of
from dsprep.dataset.names import MANIFEST, UNFINISHED
from dsprep.declared import called_with, words_of
from dsprep.errors import OptionError, SourceError, source_errors
from dsprep.findings import lost
from dsprep.formats import writes_tree
from dsprep.formats.base import Format, ShardFacts
from dsprep.formats.listing import LISTING
from dsprep.formats.values import extension_of
from dsprep.plan.destination import Destination, parse_destination, require_name, take_sources
from dsprep.plan.job import UNIT_BYTES
from dsprep.plan.options import JoinOptions
from dsprep.progress import Progress
from dsprep.run.begin import begin_join, require_same
from dsprep.run.complete import facts_of, publish_beside, publish_manifest
from dsprep.run.finished import finished_manifest, is_bare
from dsprep.run.join_folders import FolderUnion, finish, notes_on, write_units
from dsprep.run.leftovers import remove_leftovers
from dsprep.run.receipt import Receipt
from dsprep.run.state import RunState
from dsprep.run.target import target_of
from dsprep.run.write_report import WriteReport, objects_in
from dsprep.sources.shards.shardset import ShardSet
from dsprep.storage.files import canonical, facts, is_dir, read_bytes, results
from dsprep.storage.location import is_s3
from dsprep.storage.stored import crc32c
from dsprep.units import format_count, format_some
from dsprep.workers.engine import open_executor
from dsprep.workers.executor import Executor

_REPORTS = ("rejects.jsonl", "skipped.jsonl")


@called_with(JoinOptions)
def join(options: JoinOptions) -> WriteReport:
    """Make one data set of several, whose shards or files stay as they are.

    ``sources`` are directories of shards, or of files, with a manifest, and ``dest`` is another
    directory; all of them can be on S3. The files at ``dest`` are hard links or, on another disk or
    on S3, copies. Folders of files may have other classes, whose names are merged.

    Returns:
        What was done. Samples are not counted by class.
    """
    began, dest = time.monotonic(), str(options.dest)
    root, others = take_sources(options.sources, dest)
    found = [one for source in (root, *others) for one in _data_sets(source)]
    if any(writes_tree(each.manifest.format) for each in found):
        return _join_folders(FolderUnion(found), options, began)
    sets = sorted(
        found, key=lambda each: [os.path.basename(shard.name) for shard in each.manifest.shards]
    )
    whole = joined(sets)
    layout = replace(sets[0].recorded.layout, schema=whole.schema)
    destination, _ = parse_destination(dest, whole.format, options.apart)
    if destination.single:
        raise OptionError(f"{dest}: is the name of a file; join writes to a directory")
    if whole.is_divided and destination.apart:
        raise OptionError(f"--apart: {whole.format} has a directory for each side; leave it out")
    whole = _moved(whole, destination)
    beside = _beside(sets, whole, layout, destination)
    receipts = [FileEntry(name, len(data), crc32c(data)) for name, data in beside.items()]
    whole = replace(whole, files=receipts)
    urls = {
        _there(destination, file, whole.is_divided): os.path.join(
            os.path.dirname(one.path), file.name
        )
        for one in sets
        for shard in one.manifest.shards
        for file in (shard, *shard.sidecars)
    }
    state = "planned"
    if options.dry_run or options.overwrite or not _is_there(destination, _identity_of(whole)):
        _require_whole(whole, urls)
        if layout.distinct == "key":
            with open_executor(options.workers) as pool:
                _require_distinct_keys(whole, urls, layout, pool)
        if not options.dry_run:
            state = _carry_out(destination, whole, beside, urls, options)
    else:
        state = "already joined"
    seconds = 0.0 if options.dry_run else time.monotonic() - began
    return replace(_report(destination, whole, layout, beside, state), seconds=seconds)


def _data_sets(source: str) -> list[DataSet]:
    """Find the data sets in a directory: one, or those of single files."""
    place = Place(source)
    with source_errors(source):
        found = without_absent(place, data_sets(place))
    if not found:
        notes = scratch_beside(source)
        is_begun = unfinished(place.names.every) or (notes != "" and is_dir(notes))
        why = UNFINISHED if is_begun else "name what dsprep pack wrote"
        raise SourceError(f"{source}: holds no {MANIFEST}; {why}")
    return found


def _join_folders(union: FolderUnion, options: JoinOptions, began: float) -> WriteReport:
    """Make one folder of several."""
    dest = str(options.dest)
    _require_outside(union.sets, dest)
    if options.apart:
        raise OptionError("--apart: a folder always has its companions beside it; leave it out")
    destination, _ = parse_destination(dest, union.layout.name)
    whole = union.whole = replace(union.whole, name=str(destination.single))
    beside = _beside_folder(union, destination)
    target, identity = target_of(destination), {**_identity_of(whole), "units": UNIT_BYTES}
    del identity["manifest"]  # which is known when the listing is
    state = "planned"
    if options.dry_run or options.overwrite or not _is_there(destination, identity):
        union.require_whole()
        if not options.dry_run:
            names = [destination.companion(name).name for name in (LISTING, "lst", "manifest")]
            names += [destination.companion(name).name for name in _REPORTS]
            run = RunState(target, identity, [*names, *beside], options.progress or Progress())
            state = _carry_out_folders(union, run, beside, options)
    else:
        state = "already joined"
    seconds = 0.0 if options.dry_run else time.monotonic() - began
    report = _report(destination, whole, union.layout, beside, state)
    return replace(report, notes=notes_on(union), seconds=seconds)


def _require_outside(sets: Sequence[DataSet], dest: str) -> None:
    """Refuse to write a folder into another one."""
    for each in sets:
        folder = each.path.removesuffix(f".{MANIFEST}")
        if canonical(dest).startswith(f"{canonical(folder)}/"):
            raise OptionError(f"{dest}: lies in {each.name}, which is joined; choose another place")


def _beside_folder(union: FolderUnion, destination: Destination) -> dict[str, bytes]:
    """Return the files beside the folder that its listing does not tell; an empty one goes."""
    from dsprep.lists.store import format_classes  # not before polars is there

    whole = union.whole
    lists = {"classes.txt": whole.classes or ()}
    for column in whole.schema.others if whole.schema else ():
        if column.names:
            lists[f"{extension_of(column.name)}.classes.txt"] = column.names
    found = {name: format_classes(names).encode() for name, names in lists.items() if names}
    found |= _reports(union.sets)
    return {destination.companion(name).name: data for name, data in found.items()}


def _carry_out_folders(
    union: FolderUnion, state: RunState, beside: Mapping[str, bytes], options: JoinOptions
) -> str:
    """Bring what is missing to the destination; return what was done."""
    progress, destination = options.progress or Progress(), state.target.destination
    names = [destination.companion(LISTING).name, *beside]
    try:
        begin_join(state, names, _words(options), overwrite=options.overwrite, is_tree=True)
        with progress.running("joining", union.whole.samples):
            units = write_units(union, state, progress)
        finish(union, units, state, beside)
    finally:
        state.release()
    return "continued" if state.resumed else "joined"


def _words(options: JoinOptions) -> list[str]:
    """Return the words of the command that was given."""
    first, others = take_sources(options.sources, options.dest)
    own = words_of([JoinOptions], options.given)
    return ["join", first, *others, str(options.dest), *own]


def _there(destination: Destination, file: FileEntry, is_divided: bool) -> str:
    """Return the name that a file of a source has at the destination."""
    return file.name if is_divided else destination.shard(os.path.basename(file.name))


def _moved(whole: Manifest, destination: Destination) -> Manifest:
    """Return the manifest with the names that shards and their indexes have at the destination."""
    shards = [
        replace(
            shard,
            name=_there(destination, shard, whole.is_divided),
            sidecars=tuple(
                replace(it, name=_there(destination, it, whole.is_divided)) for it in shard.sidecars
            ),
        )
        for shard in whole.shards
    ]
    options = {name: value for name, value in whole.options.items() if name != "apart"}
    options |= {"apart": True} if destination.apart else {}
    return replace(whole, shards=shards, options=options)


def _beside(
    sets: Sequence[DataSet], whole: Manifest, layout: Format, destination: Destination
) -> dict[str, bytes]:
    """Return the files beside the shards: class names, indexes of all shards, and reports."""
    classes = {name: data for one in sets for name, data in _companions(one, ("classes.txt",))}
    reports = _reports(sets)
    indexes: dict[str, bytes] = {}
    for side in dict.fromkeys(whole.sides.values()) or [""]:
        of_side = [it for it in whole.shards if whole.sides.get(it.name, "") == side]
        shards = [*map(facts_of, of_side)]
        name = require_name(f"{whole.name}-{side}" if side else whole.name)
        index = layout.dataset_index(name, shards)
        place = f"{side}/" if whole.is_divided else destination.shard("")
        indexes |= {f"{place}{name}": data for name, data in index.items()}
    indexes |= {destination.known_as(name): data for name, data in layout.class_maps().items()}
    classes = {destination.companion(name).name: data for name, data in classes.items()}
    reports = {destination.companion(name).name: reports[name] for name in sorted(reports)}
    return classes | indexes | reports


def _reports(sets: Sequence[DataSet]) -> dict[str, bytes]:
    """Return the reports of all data sets, one after another, by their plain names."""
    reports: dict[str, bytes] = {}
    for one in sets:
        for name, data in _companions(one, _REPORTS):
            reports[name] = reports.get(name, b"") + data
    return reports


def _companions(one: DataSet, endings: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Yield companions of a data set, by the plain names, which have one of these endings."""
    directory, name = os.path.split(one.path)
    own = single_of(name)
    for file in one.manifest.files:
        path, plain = os.path.join(directory, file.name), file.name.removeprefix(f"{own}.")
        if not plain.endswith(endings):
            continue
        with source_errors(path):
            data = read_bytes(path)
        if FileEntry(file.name, len(data), crc32c(data)) != file:
            raise SourceError(f"{path}: is not as it was written; see dsprep verify {one.name}")
        yield plain, data


def _require_whole(whole: Manifest, urls: Mapping[str, str]) -> None:
    """Refuse files that are missing, or have other sizes than their manifests say."""
    files = [file for file in whole.every_file() if file.name in urls]
    found = results(_on_s3(*urls.values()), facts, (urls[file.name] for file in files))
    for file in files:
        url = urls[file.name]
        with source_errors(url):
            size = next(found).size
        if size != file.bytes:
            raise SourceError(
                f"{url}: has {size:,} bytes, not the {file.bytes:,} that its manifest says"
            )


def _require_distinct_keys(
    whole: Manifest, urls: Mapping[str, str], layout: Format, pool: Executor
) -> None:
    """Refuse samples of one key, which readers of the format would take for one sample."""
    from dsprep.sources.shards.shards import read_shards  # not before polars is there

    counts = {urls[shard.name]: shard.samples for shard in whole.shards}
    shards = ShardSet(whole.name, tuple(counts), replace(layout, schema=None), samples=counts)
    catalog, findings = read_shards(shards, run_all=pool.map)
    if damaged := lost(findings):
        raise SourceError(f"{damaged[0].path}: {damaged[0].reason}; check it with dsprep verify")
    if collisions := catalog.collisions():
        names = format_some([f"{key} ({', '.join(paths)})" for key, paths in collisions])
        raise SourceError(
            f"{format_count(len(collisions), 'key')} would be that of several samples: {names}; "
            "rename the files, and pack them again"
        )


def _is_there(destination: Destination, identity: dict[str, Any]) -> bool:
    """Whether the destination holds this data set; refuse another one."""
    finished = finished_manifest(target := target_of(destination))
    if finished is None or is_bare(target, finished):
        return False
    remove_leftovers(destination, finished)
    require_same(target, finished, identity)
    return True


def _identity_of(whole: Manifest) -> dict[str, Any]:
    return {**whole.options, "name": whole.name, "source": whole.source, "manifest": whole.digest}


def _carry_out(
    destination: Destination,
    whole: Manifest,
    beside: Mapping[str, bytes],
    urls: Mapping[str, str],
    options: JoinOptions,
) -> str:
    """Bring what is missing to the destination; return what was done."""
    target, names = target_of(destination), [*urls, *beside]
    progress = options.progress or Progress()
    state = RunState(target, _identity_of(whole), names, progress)
    try:
        begin_join(state, names, _words(options), overwrite=options.overwrite)
        missing = [shard for shard in whole.shards if shard.name not in state.done]
        leave = partial(target.leave, urls=urls)
        written = (Receipt(each.samples, (*each.sidecars, each)) for each in missing)
        place = _on_s3(destination.url(""), *urls.values())
        with progress.running("joining", sum(shard.samples for shard in missing)):
            left = results(place, leave, (each.name for each in missing), written)
            for shard, _ in zip(missing, left, strict=True):
                progress.advance(shard.samples, shard.bytes)
        publish_beside(target, beside)
        publish_manifest(state, whole)
    finally:
        state.release()
    return "continued" if state.resumed else "joined"


def _on_s3(*places: str) -> str:
    """Return the first of some places that is on S3; an empty text if none is."""
    return next(filter(is_s3, places), "")


def _report(
    destination: Destination,
    whole: Manifest,
    layout: Format,
    beside: Mapping[str, bytes],
    state: str,
) -> WriteReport:
    name = destination.companion("rejects.jsonl").name
    url, data = destination.url(name), beside.get(name)
    rejects = parse_rejects(data, url) if data else []
    sides = dict.fromkeys(whole.sides.values(), 0)
    for shard in whole.shards if sides else ():
        sides[whole.sides[shard.name]] += shard.samples
    unchecked = f"{layout.name}: samples that several data sets hold are not looked for"
    return WriteReport(
        destination=str(destination),
        format=whole.format,
        state=state,
        shards=[ShardFacts(each.name, each.samples, each.bytes) for each in whole.shards],
        samples=whole.samples,
        bytes=whole.bytes,
        classes=whole.classes,
        per_class={},
        rejects=rejects,
        rejects_file=url if rejects and state != "planned" else None,
        skipped_counts={},
        sides=sides,
        notes=[] if layout.distinct == "key" else [unchecked],
        schema=None if whole.schema is None else whole.schema.to_json(),
        objects=objects_in(whole),
    )
