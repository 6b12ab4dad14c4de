"""``shard index``: write the indexes of shards that are there, and a manifest if there is none."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from dsprep.arguments import AnyPath, public
from dsprep.dataset.manifest import FileReceipt
from dsprep.errors import DestinationError, OptionError
from dsprep.formats import Format
from dsprep.formats.base import ShardFacts
from dsprep.indexes import wids
from dsprep.indexing.files import Settled, settle
from dsprep.indexing.manifests import data_set_name, is_of, mismatches, new_manifest, with_indexes
from dsprep.indexing.place import clash, locked_scratch, require_own_name
from dsprep.indexing.shard import IndexedShard, IndexTask, index_name, make_index
from dsprep.options import given_options, require_effect
from dsprep.progress import Progress
from dsprep.storage.local import sync_directory
from dsprep.storage.urls import is_s3
from dsprep.units import format_count, format_some
from dsprep.verifying.inspection import Problem
from dsprep.verifying.shards import Shards, find_shards, shards_of_others, strays
from dsprep.workers.pool import Pool, available_cores

ALL_KINDS = ("mxnet", "dali", "wids", "manifest")
"""What can be written."""


class IndexFile(NamedTuple):
    """An index, or a manifest."""

    name: str  # its file name
    kind: str  # `mxnet`, `dali`, `wids` or `manifest`
    # `unchanged`; `written`, where there was none; `replaced`, where there was a wrong one;
    # `updated`, a manifest that tells of the new ones, too; if they were only looked at, `missing`
    # or `wrong`
    state: str
    detail: str  # what was wrong, or is new


@dataclass(frozen=True)
class IndexReport:
    """What indexing did or, for a dry run, would do.

    Attributes:
        destination: As it was given.
        format: The format's name.
        state: ``indexed``, ``planned`` or ``checked``.
        shards: How many there are.
        samples: How many they hold.
        bytes: Their size.
        files: The indexes, and the manifest.
        problems: What is wrong; empty if all is well.
        notes: What else there is to say.
        seconds: How long it took.
    """

    destination: str
    format: str
    state: str
    shards: int
    samples: int
    bytes: int
    files: Sequence[IndexFile]
    problems: Sequence[Problem]
    notes: Sequence[str]
    seconds: float


class _Run(NamedTuple):
    """What was asked for, and what does it."""

    kinds: Sequence[str]
    overwrite: bool
    state: str
    pool: Pool
    progress: Progress


@public
def index(
    dest: AnyPath,
    *,
    kinds: Sequence[str] = (),
    check: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> IndexReport:
    """Write the indexes of shards; those that are right already stay as they are.

    Args:
        dest: A directory of shards, one shard, or a manifest.
        kinds: Which to write: ``mxnet``, ``dali``, ``wids``, ``manifest``; by default all that suit
            the format.
        check: Whether to write nothing: what is missing or wrong is then a problem.
        overwrite: Whether to replace a manifest that is not that of these shards, and another file
            that has the name of the wids index.
        dry_run: Whether to write nothing, and say what would be written.
        workers: How many processes; by default the cores that this process may use.
        progress: Is told how far it is.

    Returns:
        What was done; shards that are damaged are in there, not raised.

    Raises:
        SourceError: If there are no shards.
        OptionError: If a kind does not suit the format, or the shards are on S3.
        DestinationError: If something else is where an index would be, or nothing can be written.
    """
    require_effect("shard index", given_options(locals()))
    began = time.monotonic()
    if is_s3(dest):
        raise OptionError(
            f"{dest}: is on S3, and indexes are written on a disk: fetch the shards with dsprep "
            "sync, index them there, and bring the indexes back with dsprep sync"
        )
    state = "checked" if check else "planned" if dry_run else "indexed"
    found = find_shards(Path(dest))
    lost = [Problem(name, None, "", message) for name, message in strays(Path(dest), found)]
    if lost and overwrite and found[0].destination.single is None:
        found, lost = [shards_of_others(found[0])], []
    with Pool(available_cores() if workers is None else workers) as pool:
        run = _Run(kinds, overwrite, state, pool, progress or Progress())
        parts = [_index(shards, run) for shards in found]
    return IndexReport(
        destination=dest,
        format=" and ".join(dict.fromkeys(part.format for part in parts)),
        state=state,
        shards=sum(part.shards for part in parts),
        samples=sum(part.samples for part in parts),
        bytes=sum(part.bytes for part in parts),
        files=list(chain.from_iterable(part.files for part in parts)),
        problems=[*chain.from_iterable(part.problems for part in parts), *lost],
        notes=list(chain.from_iterable(part.notes for part in parts)),
        seconds=time.monotonic() - began,
    )


def _index(shards: Shards, run: _Run) -> IndexReport:
    """Index one data set."""
    layout = shards.made.layout
    kinds = _suitable(run.kinds, layout)
    if run.overwrite and shards.manifest and not is_of(shards.manifest, shards.directory):
        shards = shards_of_others(shards)
    kind = layout.shard_index
    taken = clash(shards) if kind in kinds else ""
    if taken and (kind in run.kinds or kind == "mxnet"):
        raise DestinationError(taken)
    if taken:  # a shard of a format that can do without
        kinds -= {kind}
    require_own_name(shards, kinds, run.overwrite)
    with locked_scratch(shards) if run.state == "indexed" else nullcontext() as scratch:
        made = _index_shards(shards, kinds, scratch, run)
        problems = [shard.problem for _, shard in made if shard.problem]
        settled = [shard.index for _, shard in made if shard.index]
        settled += _index_data_set(shards, made, kinds, scratch)
        if shards.manifest is not None:
            problems += mismatches(shards.manifest, made)
        if not problems:
            settled += _settle_manifest(shards, made, settled, kinds, run.state, scratch)
        if scratch is not None:
            sync_directory(shards.directory)
    files = [_file_of(each, run.state) for each in settled]
    if run.state == "checked":
        problems += [
            Problem(file.name, None, "", file.detail or "is missing")
            for file in files
            if file.state != "unchanged"
        ]
    notes = [f"no index of {kind}: {taken}"] if taken else []
    notes += _notes(made, kinds)
    for name, reason in _unmade(made, kinds):
        if run.kinds:  # it was asked for by its name
            problems.append(Problem(name, None, "", reason))
        else:
            notes.append(f"{name}: {reason}")
    return IndexReport(
        destination=str(shards.directory),
        format=layout.name,
        state=run.state,
        shards=len(made),
        samples=sum(shard.samples for _, shard in made),
        bytes=sum(shard.bytes for _, shard in made),
        files=files,
        problems=problems,
        notes=notes,
        seconds=0,
    )


def _suitable(asked: Sequence[str], layout: Format) -> frozenset[str]:
    """The kinds that are to be written."""
    possible = ["manifest"]
    if layout.dataset_index("", []):
        possible.insert(0, "wids")
    if layout.shard_index:
        possible.insert(0, layout.shard_index)
    for kind in asked:
        if kind not in possible:
            raise OptionError(
                f"--kind {kind}: not for {layout.name} shards; for these: {', '.join(possible)}"
            )
    return frozenset(asked or possible)


def _index_shards(
    shards: Shards, kinds: frozenset[str], scratch: str | None, run: _Run
) -> list[tuple[str, IndexedShard]]:
    """Go through the shards that are there, and settle the index of each."""
    directory, layout = shards.directory, shards.made.layout
    indexed = layout.shard_index in kinds
    names = [name for name in shards.names if (directory / name).is_file()]
    tasks = [
        IndexTask(
            path=str(directory / name),
            layout=layout,
            index_path=str(directory / index_name(name, layout)) if indexed else None,
            scratch=scratch,
            whole="manifest" in kinds and shards.manifest is None and scratch is not None,
        )
        for name in names
    ]
    run.progress.begin("indexing", shards.manifest.samples if shards.manifest else 0, 0)
    try:
        made = dict(
            run.pool.run(
                make_index, tasks, lambda samples, size, _: run.progress.advance(samples, size)
            )
        )
    finally:
        run.progress.end()
    return [(name, made[position]) for position, name in enumerate(names)]


def _index_data_set(
    shards: Shards,
    made: Sequence[tuple[str, IndexedShard]],
    kinds: frozenset[str],
    scratch: str | None,
) -> list[Settled]:
    """Settle the index over all shards, if they can have one."""
    whole = not any(shard.problem or shard.compressed for _, shard in made)
    if "wids" not in kinds or not whole or len(made) < len(shards.names):
        return []
    facts = [ShardFacts(name, shard.samples, shard.bytes) for name, shard in made]
    ((name, data),) = shards.made.layout.dataset_index(data_set_name(shards), facts).items()
    difference = partial(wids.difference, shards=facts)
    return [settle(shards.directory / name, "wids", data, difference, scratch)]


def _settle_manifest(
    shards: Shards,
    made: Sequence[tuple[str, IndexedShard]],
    settled: Sequence[Settled],
    kinds: frozenset[str],
    state: str,
    scratch: str | None,
) -> list[Settled]:
    """Make the manifest, or have the one that is there tell of what was written."""
    manifest = shards.manifest
    if manifest is None:
        path = shards.destination.manifest
        if "manifest" not in kinds:
            return []
        if scratch is None:  # what it would say is not known
            return [Settled(FileReceipt(path.name, 0, 0), "manifest", "missing")]
        manifest = new_manifest(shards, made, [each.receipt for each in settled])
        return [settle(path, "manifest", manifest.to_json().encode(), None, scratch)]
    path = shards.directory / shards.manifest_name
    new = [each.receipt for each in settled if each.state != "unchanged"]
    updated = with_indexes(manifest, made, new)
    if updated == manifest or state == "checked":
        return [Settled(FileReceipt(path.name, 0, 0), "manifest", "unchanged")]
    now = settle(path, "manifest", updated.to_json().encode(), None, scratch)
    names = format_some([receipt.name for receipt in new])
    return [now._replace(state="updated", detail=f"tells of {names} now")]


def _file_of(settled: Settled, state: str) -> IndexFile:
    words = {} if state == "checked" else {"missing": "written", "wrong": "replaced"}
    name, now = settled.receipt.name, words.get(settled.state, settled.state)
    return IndexFile(name, settled.kind, now, settled.detail)


def _unmade(
    made: Sequence[tuple[str, IndexedShard]], kinds: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """The whole shards that cannot have an index, and why."""
    for name, shard in made:
        if shard.without:
            yield name, f"has no index: {shard.without}"
        if shard.compressed and "wids" in kinds:
            yield name, "there is no wids index, as wids does not read gzip"


def _notes(made: Sequence[tuple[str, IndexedShard]], kinds: frozenset[str]) -> Iterator[str]:
    """What else there is to say."""
    long = sum(shard.long_names for _, shard in made)
    if long and "wids" in kinds:
        yield f"{format_count(long, 'name')} of more than 100 bytes, which wids does not read whole"
    for name, shard in made:
        if shard.repeats:
            yield f"{name}: several samples have one id, so the keys in its index are positions"
    if any(shard.problem for _, shard in made):
        yield "what tells of all shards is left as it is, as one of them is damaged"
