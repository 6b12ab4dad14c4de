"""``verify``: check shards one by one and with their source, and report what is wrong."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from math import ceil
from typing import TYPE_CHECKING, Any

from dsprep.dataset.manifest import FileEntry
from dsprep.dataset.names import UNFINISHED
from dsprep.declared import called_with
from dsprep.errors import DestinationError, OptionError, RunStopped, SourceError
from dsprep.findings import notes_of
from dsprep.formats.listed_shards import INDEX, differences, read_index
from dsprep.formats.listing import LISTING, read_listing
from dsprep.options import require_effect
from dsprep.progress import Progress
from dsprep.run.leftovers import remove_leftovers
from dsprep.schema import IMAGE, LABEL, Choice, Schema
from dsprep.sources.look import with_sizes
from dsprep.sources.reading import read_source
from dsprep.sources.source import Source, make_source, source_of
from dsprep.storage.files import is_file, system_path
from dsprep.storage.objects import as_source
from dsprep.units import format_count
from dsprep.verifying.annotated import ObjectsSeen, counts_of, notes_of_objects
from dsprep.verifying.inspection import Inspected, Task, Understood, inspect, merged
from dsprep.verifying.lines import is_manifest_of_lines, verify_lines
from dsprep.verifying.loaders import count_samples, require_loader
from dsprep.verifying.options import VerifyOptions
from dsprep.verifying.report import FieldFound, Problem, VerifyReport, joined, problem_of
from dsprep.verifying.shards import Shards, difference, false_totals, find_sources, strays
from dsprep.workers.engine import open_executor
from dsprep.workers.executor import Executor

if TYPE_CHECKING:
    from dsprep.verifying.comparison import Comparison

_FILES_AT_ONCE = 256  # samples of a tree of files that a worker reads in one task


@called_with(VerifyOptions)
def verify(options: VerifyOptions) -> VerifyReport:
    """Verify shards: those of a manifest, or, where there is none, those that are there.

    ``dest`` is a directory of shards, one shard, a manifest, or an augmented manifest; on S3, what
    a manifest names.
    ``against`` is what :func:`dsprep.pack` takes or, with its labels, what
    :func:`dsprep.make_source` makes of it.

    Returns:
        What was found; problems in the shards are in there, not raised.
    """
    dest, against, loader = options.dest, options.against, options.loader
    choice, given = options.choice or Choice(), options.given
    given.pop("--choice", None)
    if isinstance(against, Source):
        given["--against"] = against.root
    require_effect("verify", given, remote=system_path(dest) is None)
    began = time.monotonic()
    progress = options.progress or Progress()
    against = None if against is None else source_of(against)
    if is_manifest_of_lines(dest):
        # an augmented manifest sage.manifest is a file of the data set `sage`
        if is_file(f"{dest}.json"):
            dest = f"{dest}.json"
        elif against is not None or loader is not None:
            option = "--loader" if against is None else "--against"
            raise OptionError(f"{dest}: is a manifest of lines; {option} goes with shards")
        else:
            with open_executor(options.workers) as pool:
                report = verify_lines(options, pool, progress)
            return replace(report, seconds=time.monotonic() - began)
    if system_path(dest) is None:
        # imports S3, which data sets on a disk do not need
        from dsprep.verifying.stored import verify_stored

        with as_source(dest):
            return verify_stored(dest, options.download, progress)
    found = find_sources(dest)
    if against is not None and len(found) > 1:
        raise OptionError(f"{dest}: --against goes with one data set; name one of them")
    if loader is not None:
        _require_loadable(found, loader, dest)
    if choice != Choice():
        _require_unknown_fields(found, dest)
    _remove_leftovers(found)
    with open_executor(options.workers, options.engine, options.ray_address) as pool:
        reports = [_verify(shards, options, against, pool, progress) for shards in found]
    stray = [Problem(*each) for each in strays(dest, found)]
    return joined(str(options.dest), reports, stray, began)


def _require_loadable(found: Sequence[Shards], loader: str, dest: str) -> None:
    """Refuse a framework that does not read the format of the shards."""
    for shards in found:
        if shards.hold_tree:
            raise OptionError(f"{dest}: is a folder of files; --loader goes with shards")
        require_loader(loader, shards.made.layout.name)


def _require_unknown_fields(found: Sequence[Shards], dest: str) -> None:
    """Refuse a choice of fields for shards whose manifest has the schema."""
    if any(shards.manifest and shards.manifest.schema for shards in found):
        raise OptionError(
            f"{dest}: the manifest tells the fields; leave out --image-field, --label-field, "
            "--label-type, --schema, --look, --no-image and --raw-image, or give --against "
            "SOURCE, whose fields they then describe"
        )


def _remove_leftovers(found: Sequence[Shards]) -> None:
    """Remove what finished runs have left behind."""
    for shards in found:
        if shards.manifest is not None:
            with suppress(DestinationError):  # a run is alive, or the directory is read-only
                remove_leftovers(shards.destination, shards.manifest)


def _verify(
    shards: Shards,
    options: VerifyOptions,
    against: Source | None,
    pool: Executor,
    progress: Progress,
) -> VerifyReport:
    problems = list(_compare_files(shards))
    understood = understand(shards, options.choice or Choice(), pool)
    notes = [*dict.fromkeys((*shards.notes, *understood.notes)), *_objects_unchecked(shards)]
    comparison = None
    if against is not None:
        comparison, understood, wrong, left = _prepare(shards, understood, against, options, pool)
        problems += wrong
        notes += left
    task = _task_of(shards, understood, comparison, options)
    if shards.hold_tree:
        tasks = _tree_tasks(shards, task, problems)
    else:
        tasks = [task._replace(path=str(shards.directory / name)) for name in shards.present]
    with progress.running("verifying", shards.manifest.samples if shards.manifest else 0):
        found = _inspect_all(tasks, pool, progress)
    problems += _compare_shards(shards, tasks, found)
    if shards.manifest is None and shards.destination.single is None and not shards.is_part:
        problems += _compare_index(shards, tasks, found)
    notes += _misfits(found, understood)
    if options.decode and understood.schema is None:
        problems.append(Problem("", f"images not decoded: {understood.notes[-1]}"))
    if comparison is not None:
        wrong, remarks = _compare_samples(comparison, found, pool, progress)
        problems += wrong
        notes += remarks
    if options.loader is not None:
        problems += _load(options.loader, tasks, found)
    checked = [*_checks(shards, understood, options, comparison)]
    return _report(shards, understood, found, checked, problems, notes)


def _prepare(
    shards: Shards, understood: Understood, against: Source, options: VerifyOptions, pool: Executor
) -> tuple[Comparison, Understood, list[Problem], list[str]]:
    """Read the source to compare with, and what it says of the fields of shards."""
    from dsprep.verifying.comparison import prepare  # nothing else needs polars

    table = options.filter_table
    comparison, by_source, wrong, notes = prepare(shards, understood, against, pool, table)
    comparison = replace(comparison, every_copy=options.decode)
    return comparison, understood if shards.hold_tree else by_source, wrong, notes


def _task_of(
    shards: Shards, understood: Understood, comparison: Comparison | None, options: VerifyOptions
) -> Task:
    """Return what is done with each shard; the one returned has the path of the data set."""
    made, layout, columns = shards.made, shards.made.layout, None
    if not shards.hold_tree:
        known = understood.schema
        known = known and with_sizes(known, understood.pixels, layout)
        layout = replace(layout, schema=known)
    if comparison is not None:
        columns = tuple((each.name, comparison.kind_of(each), False) for each in comparison.fields)
    return Task(
        path=str(shards.destination),
        layout=layout,
        understood=understood,
        decode=options.decode,
        max_pixels=made.max_pixels if options.max_pixels is None else options.max_pixels,
        columns=columns,
    )


def _inspect_all(tasks: Sequence[Task], pool: Executor, progress: Progress) -> list[Inspected]:
    """Inspect shards in workers, several at one shard where its images are decoded."""
    decodes = any(task.decode and not task.layout.is_tree for task in tasks)
    shares = _shares(len(tasks), pool.size) if decodes else 1
    shared = [one._replace(share=(share, shares)) for one in tasks for share in range(shares)]
    inspected = pool.map(inspect, shared, progress.advance)
    starts = range(0, len(inspected), shares)
    return [merged(inspected[start : start + shares]) for start in starts]


def _compare_samples(
    comparison: Comparison, found: Sequence[Inspected], pool: Executor, progress: Progress
) -> tuple[list[Problem], list[str]]:
    """Compare the samples of shards with those of the source; return problems and notes."""
    from dsprep.verifying.comparison import compare  # nothing else needs polars

    with progress.running("reading the source", len(comparison.catalog)):
        digested = [sample for one in found for sample in one.digested]
        return compare(comparison, digested, pool, progress.advance)


def _checks(
    shards: Shards, understood: Understood, options: VerifyOptions, comparison: Comparison | None
) -> Iterator[str]:
    """Yield the names of what was checked."""
    if shards.manifest is not None:
        yield from ("manifest", "sizes", "checksums")
    if not shards.hold_tree:
        yield "structure"
    if options.decode and understood.schema is not None:
        yield "images"
    if comparison is not None:
        yield "source"
    if options.loader is not None:
        yield options.loader


def _objects_unchecked(shards: Shards) -> Iterator[str]:
    """Note that nothing but annotations tells the objects of a folder."""
    layout = shards.made.layout
    objects = layout.schema.objects if layout.schema else None
    if shards.hold_tree and objects is not None and not layout.is_listed(objects):
        yield "objects not checked: only the annotations tell them, and no listing"


def _misfits(found: Sequence[Inspected], understood: Understood) -> Iterator[str]:
    """Note how many samples do not fit a schema that was only observed."""
    misfits = sum(one.misfits for one in found)
    if misfits and not understood.enforced:
        _, first = next(one.misfit for one in found if one.misfits)
        yield f"{format_count(misfits, 'sample')} not of this schema; {first}"


def _report(
    shards: Shards,
    understood: Understood,
    found: Sequence[Inspected],
    checked: list[str],
    problems: list[Problem],
    notes: list[str],
) -> VerifyReport:
    layout, whole = shards.made.layout, understood.schema or Schema(())
    samples = sum(one.samples for one in found)
    seen = sum((one.objects for one in found), ObjectsSeen())
    counts = Counter[str]()
    for names, having in chain(*(one.shapes.items() for one in found)):
        counts.update(dict.fromkeys(names, having))
    schema = Schema(()) if shards.hold_tree else whole
    roles = {schema.image: IMAGE, schema.label: LABEL}
    return VerifyReport(
        destination=str(shards.destination.place),
        format=layout.name,
        manifest=shards.manifest is not None,
        shards=len(shards.present),
        samples=samples,
        objects=counts_of(whole, seen),
        bytes=sum(one.bytes for one in found),
        checked=checked,
        problems=problems,
        notes=[*notes, *notes_of_objects(whole, seen, counts, samples)],
        fields=[
            FieldFound(
                field.name,
                field.type,
                len(field.names),
                roles.get(field.name, ""),
                field.told_by,
                counts[field.name],
            )
            for field in schema.fields
            if field.places
        ],
    )


def understand(shards: Shards, choice: Choice, pool: Executor) -> Understood:
    """Find the schema of shards: in the manifest, or by a look at samples as ``convert`` does."""
    manifest, layout = shards.manifest, shards.made.layout
    if shards.hold_tree:  # raw samples have their values under the names of the fields
        schema = layout.schema or Schema(())
        fields = tuple(
            replace(field, places=((field.name,),))
            for field in schema.fields
            if layout.is_listed(field)
        )
        enforced = manifest is not None and manifest.enforced
        return Understood(replace(schema, fields=fields), enforced=enforced)
    if manifest is not None and manifest.schema is not None:
        schema, label = manifest.schema, manifest.schema.label_field
        if label is not None and label.type == "class" and not label.names and manifest.classes:
            schema = schema.with_names(manifest.classes)
        return Understood(schema, layout.placeholders(schema), manifest.enforced)
    files = [str(shards.directory / name) for name in shards.present]
    why = "there are none"

    def run_all(function: Callable[[Any], Any], tasks: Iterable[object]) -> list[Any]:
        return pool.map(_call, [(function, task) for task in tasks])

    # A directory has files that describe all shards in it; these may be sides of a split, though.
    is_whole = shards.destination.single is None and not shards.is_part
    whole = [[str(shards.destination.place)]] if is_whole else []
    for first, *others in [*whole, files] if files else []:
        source = make_source(first, others=others, kind=layout.name, choice=choice)
        try:
            catalog, findings = read_source(source, run_all)
        except SourceError as error:
            why = str(error)
            continue
        if catalog.reader.reads_format(layout.name):
            settled, pixels = catalog.settled, catalog.reader.pixels
            notes = tuple(notes_of(findings))
            return Understood(settled.schema, settled.ignored, False, notes, pixels)
        why = f"{first}: is not read as {layout.name}"
    return Understood(None, notes=(f"nothing tells the fields: {why}",))


def _call(task: tuple[Callable[[Any], Any], Any]) -> Any:
    """Call a function in a worker; a disk that cannot be read says nothing of the fields."""
    function, argument = task
    try:
        return function(argument)
    except OSError as error:
        raise SourceError(f"it cannot be read ({error.strerror})") from None


def _shares(shards: int, workers: int) -> int:
    """Return the number of tasks of a shard with which its images are decoded soonest."""
    # Each of them reads the whole shard, which takes up to a tenth of the time of decoding.
    return min(range(1, workers + 1), key=lambda n: ceil(shards * n / workers) * (0.1 + 1 / n))


def _tree_tasks(shards: Shards, task: Task, problems: list[Problem]) -> list[Task]:
    """Return a task for some samples of a tree of files at a time."""
    listing = shards.destination.companion(LISTING)
    try:
        listed = list(read_listing(listing))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        problems.append(Problem(listing.name, f"cannot be read: {why}"))
        return []
    named = {file.path for sample in listed for file in sample.files}
    for above, directories, names in os.walk(task.path):
        directories.sort()
        below = "" if above == task.path else os.path.relpath(above, task.path) + "/"
        paths = (below + name for name in sorted(names))
        problems += [
            Problem(path, "is there, but not in the listing") for path in paths if path not in named
        ]
    starts = range(0, len(listed), _FILES_AT_ONCE)
    return [task._replace(listed=listed[at : at + _FILES_AT_ONCE]) for at in starts]


def _compare_files(shards: Shards) -> Iterator[Problem]:
    """Find files that are missing or left over, and small ones that have changed."""
    scratch, manifest = shards.destination.scratch, shards.manifest
    if scratch.exists():
        yield Problem(scratch.name, UNFINISHED)
    if manifest is None:
        return
    if not shards.hold_tree:
        for wrong in false_totals(manifest):
            yield Problem(shards.destination.manifest.name, wrong)
    large = set(shards.names)
    for name, file in {file.name: file for file in manifest.every_file()}.items():
        path, shown = shards.directory / name, shards.shown(name)
        if not path.is_file():
            yield Problem(shown, "is in the manifest, but not there")
        elif name not in large:
            try:
                if path.stat().st_size != file.bytes or FileEntry.of(path, name) != file:
                    yield Problem(shown, "is not as it was written")
            except OSError as error:
                yield problem_of(error, path)


def _compare_shards(
    shards: Shards, tasks: Sequence[Task], inspected: Sequence[Inspected]
) -> Iterator[Problem]:
    known = shards.manifest.shards if shards.manifest else ()
    receipts = {os.path.basename(it.name): it for it in known}
    for task, found in zip(tasks, inspected, strict=True):
        name = os.path.basename(task.path)
        receipt = receipts.get(name)
        yield from (*found.problems, *found.others)
        if found.crc32c is None:
            continue
        if receipt is not None:
            if wrong := difference(receipt, found.bytes, found.crc32c):
                yield Problem(name, wrong)
            if found.samples != receipt.samples:
                yield Problem(name, f"holds {found.samples:,} samples, not {receipt.samples:,}")
        # A shard of which all samples were rejected is as it was written.
        is_told = receipt is not None and receipt.samples == 0
        if not (found.samples or found.problems or found.others or is_told):
            yield Problem(name, "holds no samples")


def _compare_index(
    shards: Shards, tasks: Sequence[Task], inspected: Sequence[Inspected]
) -> Iterator[Problem]:
    """Compare shards that another program wrote with the index beside them."""
    counts = {task.path: found.samples for task, found in zip(tasks, inspected, strict=True)}
    indexed = read_index(str(shards.destination.place))
    for each in indexed.shards if indexed else ():
        name = os.path.relpath(each.path, shards.directory)
        if each.path not in counts:
            yield Problem(name, f"is in {INDEX}, but not there")
            continue
        if counts[each.path] != each.samples:
            yield Problem(name, f"holds {counts[each.path]:,} samples, not {each.samples:,}")
        yield from (Problem(name, wrong) for wrong in differences(each))


def _load(loader: str, tasks: Sequence[Task], inspected: Sequence[Inspected]) -> Iterator[Problem]:
    """Read each shard with a framework, in a process that may die of it."""
    left, name = zip(tasks, inspected, strict=True), ""
    while True:
        try:
            with open_executor(1) as pool:
                for task, found in left:
                    name = os.path.basename(task.path)
                    (count,) = pool.map(count_samples, [(loader, task.path)])
                    if isinstance(count, str):
                        yield Problem(name, f"{loader} cannot read it: {count}")
                    elif count != found.samples:
                        what = f"{loader} reads {count:,} of {found.samples:,} samples"
                        yield Problem(name, what)
            return
        except RunStopped:  # each shard gets a process of its own
            yield Problem(name, f"{loader} dies of it")
