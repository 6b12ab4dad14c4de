"""``verify``: check shards one by one and with their source, and report what is wrong."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from dsprep.arguments import AnyPath, public
from dsprep.dataset.manifest import UNFINISHED, FileReceipt
from dsprep.errors import DestinationError, OptionError, RunStopped, SourceError
from dsprep.findings import notes_of
from dsprep.formats.folder import LISTING, read_listing
from dsprep.options import given_options, require_effect
from dsprep.progress import Progress
from dsprep.rows import Pixels
from dsprep.run.state import remove_leftovers
from dsprep.schema import IMAGE, LABEL, Choice, Reading, Schema
from dsprep.sources.reading import Source, make_source, read_source, source_of
from dsprep.storage.location import is_s3
from dsprep.storage.s3.read import as_source
from dsprep.units import format_count
from dsprep.verifying.digests import Digester
from dsprep.verifying.inspection import Inspected, Task, inspect
from dsprep.verifying.loaders import count_samples, require_loader
from dsprep.verifying.report import FieldFound, Problem, VerifyReport, joined
from dsprep.verifying.shards import Shards, difference, false_totals, find_sources, strays
from dsprep.workers.pool import Pool, available_cores

T = TypeVar("T")
R = TypeVar("R")

_FILES_AT_ONCE = 256
"""Samples of a tree of files that a worker reads in one task."""


@dataclass(frozen=True)
class _Asked:
    """What to check, and with what."""

    decode: bool  # whether to decode every image
    against: Source | None  # the source to compare with; None for none
    loader: str | None  # the framework to read with; None for none
    # the maximum number of pixels of an image; None for that of the manifest
    max_pixels: int | None
    choice: Choice  # what the user says of the fields of shards without a manifest
    pool: Pool
    progress: Progress


class Understood(NamedTuple):
    """What is known of the fields of shards."""

    schema: Schema | None  # the fields; None if they are unknown
    ignored: frozenset[str] = frozenset()  # raw names that are not fields
    # whether every sample was checked against the schema when it was written
    enforced: bool = False
    notes: tuple[str, ...] = ()  # remarks, a line each
    # where samples have their image as bare pixels; None if nowhere
    pixels: Pixels | None = None


@public
def verify(
    dest: AnyPath,
    *,
    decode: bool = False,
    against: Source | AnyPath | None = None,
    loader: str | None = None,
    max_pixels: int | None = None,
    choice: Choice | None = None,
    download: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> VerifyReport:
    """Verify shards: those of a manifest, or, where there is none, those that are there.

    Args:
        dest: A directory of shards, one shard, or a manifest; on S3, what a manifest names.
        decode: Whether to decode every image.
        against: The source that the shards must hold the samples of: what :func:`dsprep.pack`
            takes, or, with its labels, what :func:`dsprep.make_source` makes of it.
        loader: A framework to read the shards with: ``mxnet``, ``tensorflow`` or ``webdataset``.
        max_pixels: The most pixels that an image may have; by default what the manifest says.
        choice: What the fields of shards without a manifest are, as
            :func:`dsprep.sources.reading.choice_of` has it.
        download: Whether to read what is on S3, rather than compare the checksums that it keeps.
        workers: How many processes; by default the cores that this process may use.
        progress: Receives the progress.

    Returns:
        What was found; problems in the shards are in there, not raised.

    Raises:
        SourceError: If there are no shards to verify.
        OptionError: If the arguments make no sense for these shards.
    """
    given = given_options({name: value for name, value in locals().items() if name != "choice"})
    if isinstance(against, Source):
        given["--against"] = against.root
    require_effect("verify", given, remote=is_s3(dest))
    began = time.monotonic()
    progress = progress or Progress()
    against = None if against is None else source_of(against)
    if is_s3(dest):
        from dsprep.verifying.stored import verify_stored  # local runs do without S3

        with as_source(dest):
            return verify_stored(dest, download, progress)
    found = find_sources(dest)
    _require_sense(dest, found, against, loader, choice or Choice())
    for shards in found:
        if shards.manifest is not None:
            with suppress(DestinationError):  # a run is alive, or the directory is read-only
                remove_leftovers(shards.destination, shards.manifest)
    with Pool(available_cores() if workers is None else workers) as pool:
        asked = _Asked(decode, against, loader, max_pixels, choice or Choice(), pool, progress)
        reports = [_verify(shards, asked) for shards in found]
    unnamed = [Problem(name, None, "", message) for name, message in strays(Path(dest), found)]
    return joined(dest, reports, unnamed, time.monotonic() - began)


def _require_sense(
    dest: str, found: Sequence[Shards], against: Source | None, loader: str | None, choice: Choice
) -> None:
    """Refuse options that make no sense for the shards that were found."""
    if against is not None and len(found) > 1:
        raise OptionError(f"{dest}: --against goes with one data set; name one of them")
    if loader is not None and any(shards.made.layout.is_tree for shards in found):
        raise OptionError(f"{dest}: is a folder of files; --loader goes with shards")
    if choice != Choice() and any(shards.manifest and shards.manifest.schema for shards in found):
        raise OptionError(
            f"{dest}: the manifest tells the fields; leave out --image-field, --label-field, "
            "--label-type, --schema, --look and --no-image, or give --against SOURCE, whose "
            "fields they then describe"
        )
    if loader is not None:
        for shards in found:
            require_loader(loader, shards.made.layout.name)


def _verify(shards: Shards, asked: _Asked) -> VerifyReport:
    """Verify one data set."""
    manifest, progress, is_tree = shards.manifest, asked.progress, shards.made.layout.is_tree
    problems = _compare_files(shards)
    checked = [] if manifest is None else ["manifest", "sizes", "checksums"]
    checked += [] if is_tree else ["structure"]
    understood = understand(shards, asked.choice, asked.pool)
    notes = list(dict.fromkeys((*shards.notes, *understood.notes)))
    origin, digester = None, None
    if asked.against is not None:
        from dsprep.verifying.comparison import compare, find_origin  # nothing else needs polars

        origin, found_out, wrong = find_origin(shards, understood, asked.against, asked.pool)
        understood = understood if is_tree else found_out
        problems += wrong
        digester = Digester(origin.matched.fields)
    tasks = _tasks(shards, understood, digester, asked, problems)
    progress.begin("verifying", manifest.samples if manifest else 0, 0)
    try:
        done = dict(asked.pool.run(inspect, tasks, _advance(progress)))
    finally:
        progress.end()
    inspected = [
        (shards.manifest_name if is_tree else Path(task.path).name, done[position])
        for position, task in enumerate(tasks)
    ]
    receipts = {receipt.name: receipt for receipt in manifest.shards} if manifest else {}
    for name, found in inspected:
        problems += found.problems
        if found.is_read and (receipt := receipts.get(name)):
            wrongs = [difference(receipt, found.bytes, found.crc32c)]
            if found.samples != receipt.samples:
                wrongs.append(f"holds {found.samples:,} samples, not {receipt.samples:,}")
            problems += [Problem(name, None, "", wrong) for wrong in wrongs if wrong]
        if found.is_read and not found.samples and not found.problems:
            notes.append(f"{name}: holds no samples")
    misfits = sum(found.misfits for _, found in inspected)
    if misfits and not understood.enforced:
        first = next(found.misfit for _, found in inspected if found.misfit)
        notes.append(f"{format_count(misfits, 'sample')} not of this schema; {first}")
    if asked.decode and understood.schema is not None:
        checked.append("images")
    elif asked.decode:
        problems.append(Problem("", None, "", f"images not decoded: {understood.notes[-1]}"))
    if origin is not None:
        checked.append("source")
        progress.begin("reading the source", len(origin.catalog), 0)
        try:
            digested = [(name, found.digested) for name, found in inspected]
            wrong, remarks = compare(digested, origin, asked.pool, _advance(progress))
        finally:
            progress.end()
        problems += wrong
        notes += remarks
    if asked.loader is not None:
        checked.append(asked.loader)
        problems += _load(asked.loader, shards.directory, inspected)
    counts = sum((found.counts for _, found in inspected), Counter[str]())
    return VerifyReport(
        destination=str(shards.directory),
        format=shards.made.layout.name,
        manifest=manifest is not None,
        shards=len(shards.present),
        samples=sum(found.samples for _, found in inspected),
        bytes=sum(found.bytes for _, found in inspected),
        checked=checked,
        problems=problems,
        notes=notes,
        fields=[] if is_tree else _fields_found(understood.schema or Schema(()), counts),
    )


def _advance(progress: Progress) -> Callable[..., None]:
    return lambda samples, size, _: progress.advance(samples, size)


def _fields_found(schema: Schema, counts: Mapping[str, int]) -> list[FieldFound]:
    roles = {schema.image: IMAGE, schema.label: LABEL}
    return [
        FieldFound(
            field.name,
            field.type,
            len(field.names),
            roles.get(field.name, ""),
            field.told or "the manifest",
            counts.get(field.name, 0),
        )
        for field in schema.fields
        if field.places
    ]


def understand(shards: Shards, choice: Choice, pool: Pool) -> Understood:
    """Find the schema of shards: in the manifest, or by a look at samples as ``convert`` does."""
    manifest, layout = shards.manifest, shards.made.layout
    if layout.is_tree:  # raw samples have their values under the names of the fields
        schema = layout.schema or Schema(())
        fields = tuple(replace(field, places=((field.name,),)) for field in schema.fields)
        enforced = manifest is not None and manifest.enforced
        return Understood(replace(schema, fields=fields), enforced=enforced)
    if manifest is not None and manifest.schema is not None:
        schema, label = manifest.schema, manifest.schema.label_field
        if label is not None and label.type == "class" and not label.names and manifest.classes:
            schema = schema.with_names(manifest.classes)
        return Understood(schema, layout.placeholders(schema), manifest.enforced)
    files = [str(shards.directory / name) for name in shards.present]
    why = "there are none"
    # A directory has files that describe all shards in it; these may be sides of a split, though.
    is_whole = shards.destination.single is None and not shards.is_part
    whole = [[str(shards.directory)]] if is_whole else []
    for first, *others in [*whole, files] if files else []:
        source = make_source(first, others=others, kind=layout.name, choice=choice)
        try:
            catalog, findings = read_source(source, partial(_run_all, pool))
        except SourceError as error:
            why = str(error)
            continue
        assert catalog.settled is not None
        if catalog.reader.whole and catalog.reader.table.name == layout.name:
            settled, pixels = catalog.settled, catalog.reader.pixels
            notes = tuple(notes_of(findings))
            return Understood(settled.schema, settled.ignored, False, notes, pixels)
        why = f"{first}: is not read as {layout.name}"
    return Understood(None, notes=(f"nothing tells the fields: {why}",))


def _run_all(pool: Pool, function: Callable[[T], R], tasks: Iterable[T]) -> list[R]:
    return pool.map(_call, [(function, task) for task in tasks])


def _call(task: tuple[Callable[[T], R], T]) -> R:
    """Call a function in a worker; a disk that cannot be read says nothing of the fields."""
    function, argument = task
    try:
        return function(argument)
    except OSError as error:
        raise SourceError(f"it cannot be read ({error.strerror})") from None


def _tasks(
    shards: Shards,
    understood: Understood,
    digester: Digester | None,
    asked: _Asked,
    problems: list[Problem],
) -> list[Task]:
    """Return a task for each shard, or for some samples of a tree of files."""
    made, schema = shards.made, understood.schema
    layout = made.layout if made.layout.is_tree else replace(made.layout, schema=schema)
    task = Task(
        path=str(shards.directory / (shards.destination.single or "")),
        layout=layout,
        reading=None if schema is None else Reading(schema, layout, understood.ignored),
        pixels=understood.pixels,
        enforced=understood.enforced,
        decode=asked.decode,
        max_pixels=made.max_pixels if asked.max_pixels is None else asked.max_pixels,
        digester=digester,
    )
    if layout.is_tree:
        listing = shards.destination.companion(LISTING)
        try:
            listed = list(read_listing(listing))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            problems.append(Problem(listing.name, None, "", f"cannot be read: {why}"))
            return []
        named = {file.path for sample in listed for file in sample.files}
        for above, directories, names in os.walk(task.path):
            directories.sort()
            below = os.path.relpath(above, task.path)
            for name in sorted(names):
                path = name if below == "." else f"{below}/{name}"
                if path not in named:
                    problems.append(Problem(path, None, "", "is there, but not in the listing"))
        starts = range(0, len(listed), _FILES_AT_ONCE)
        return [task._replace(listed=listed[at : at + _FILES_AT_ONCE]) for at in starts]
    tasks = []
    for shard in (shards.directory / name for name in shards.present):
        idx = shard.with_suffix(".idx")
        has_idx = ".idx" in layout.sidecar_suffixes and idx.exists()
        tasks.append(task._replace(path=str(shard), idx=str(idx) if has_idx else None))
    return tasks


def _compare_files(shards: Shards) -> list[Problem]:
    """Find files that are missing or left over, and small ones that have changed."""
    problems = []
    scratch = shards.destination.scratch
    if scratch.exists():
        problems.append(Problem(scratch.name, None, "", UNFINISHED))
    if shards.manifest is None:
        return problems
    if not shards.made.layout.is_tree:
        name = shards.manifest_name
        problems += [Problem(name, None, "", wrong) for wrong in false_totals(shards.manifest)]
    large = set(shards.names)
    for name, file in {file.name: file for file in shards.manifest.every_file()}.items():
        path, wrong = shards.directory / name, ""
        if not path.is_file():
            wrong = "is in the manifest, but not there"
        elif name not in large:
            try:
                if path.stat().st_size != file.bytes or FileReceipt.of(path) != file:
                    wrong = "is not as it was written"
            except OSError as error:
                wrong = f"cannot be read ({error.strerror})"
        if wrong:
            problems.append(Problem(name, None, "", wrong))
    return problems


def _load(
    loader: str, directory: Path, inspected: Sequence[tuple[str, Inspected]]
) -> Iterator[Problem]:
    """Read each shard with a framework, in a process that may die of it."""
    pool: Pool | None = None
    try:
        for name, shard in inspected:
            pool = pool or Pool(1)
            try:
                (count,) = pool.map(count_samples, [(loader, str(directory / name))])
            except RunStopped:
                yield Problem(name, None, "", f"{loader} dies of it")
                pool.close()
                pool = None
                continue
            if isinstance(count, str):
                yield Problem(name, None, "", f"{loader} cannot read it: {count}")
            elif count != shard.samples:
                yield Problem(
                    name, None, "", f"{loader} reads {count:,} of {shard.samples:,} samples"
                )
    finally:
        if pool is not None:
            pool.close()
