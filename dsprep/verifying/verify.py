"""``verify``: prove what was written, shard by shard, and name what is wrong."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from dsprep.arguments import AnyPath, public
from dsprep.errors import DestinationError, OptionError, RunStopped, SourceError
from dsprep.formats.folder import Folder
from dsprep.loaders import count_samples, require_loader
from dsprep.manifests.manifest import FileReceipt, Manifest, read_rejects
from dsprep.options import given_options, require_effect
from dsprep.planning.fields import recorded_choice
from dsprep.planning.recipe import Recipe
from dsprep.planning.settle import with_chosen_label
from dsprep.progress import Progress
from dsprep.running.place import remove_leftovers
from dsprep.sources.reading import Source, may_be_labeled, read_source, source_of
from dsprep.stores.objects import as_source
from dsprep.stores.urls import is_s3
from dsprep.verifying.folders import look_at_folder
from dsprep.verifying.inspection import Inspected, Problem, ShardTask, inspect_shard
from dsprep.verifying.receipts import UNFINISHED, difference, false_totals
from dsprep.verifying.report import VerifyReport
from dsprep.verifying.shards import Shards, find_shards, strays
from dsprep.workers.pool import Pool, available_cores

_LABELS = {"cls", "label"}


@public
def verify(
    dest: AnyPath,
    *,
    decode: bool = False,
    against: Source | AnyPath | None = None,
    loader: str | None = None,
    max_pixels: int | None = None,
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
        download: Whether to read what is on S3, rather than compare the checksums that it keeps.
        workers: How many processes; by default the cores that this process may use.
        progress: Is told how far it is.

    Returns:
        What was found; problems in the shards are in there, not raised.

    Raises:
        SourceError: If there are no shards to verify.
        OptionError: If the arguments make no sense for these shards.
    """
    given = given_options(locals())
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
    found = find_shards(Path(dest))
    if against is not None and len(found) > 1:
        raise OptionError(f"{dest}: --against goes with one data set; name one of these manifests")
    folders = [shards for shards in found if isinstance(shards.made.layout, Folder)]
    if folders and (against is not None or loader is not None):
        raise OptionError(f"{dest}: is a folder of files; --against and --loader go with shards")
    if loader is not None:
        for shards in found:
            require_loader(loader, shards.made.layout.name)
    for shards in found:
        if shards.manifest is not None:
            with suppress(DestinationError):  # a run is alive, or the directory is only to be read
                remove_leftovers(shards.destination, shards.manifest)
    with Pool(available_cores() if workers is None else workers) as pool:
        reports = [
            _verify(shards, decode, against, loader, max_pixels, pool, progress) for shards in found
        ]
    unnamed = [Problem(name, None, "", message) for name, message in strays(Path(dest), found)]
    return VerifyReport(
        destination=dest,
        format=" and ".join(dict.fromkeys(each.format for each in reports)),
        manifest=all(each.manifest for each in reports),
        shards=sum(each.shards for each in reports),
        samples=sum(each.samples for each in reports),
        bytes=sum(each.bytes for each in reports),
        checked=reports[0].checked,
        problems=[*chain.from_iterable(each.problems for each in reports), *unnamed],
        seconds=time.monotonic() - began,
        notes=list(chain.from_iterable(each.notes for each in reports)),
    )


def _verify(
    shards: Shards,
    decode: bool,
    against: Source | None,
    loader: str | None,
    max_pixels: int | None,
    pool: Pool,
    progress: Progress,
) -> VerifyReport:
    """Verify one data set."""
    if isinstance(shards.made.layout, Folder):
        return _verify_folder(shards, decode, max_pixels, pool, progress)
    began = time.monotonic()
    manifest = shards.manifest
    problems = _compare_files(shards)
    present = [name for name in shards.names if (shards.directory / name).is_file()]
    checked = ["structure"] if manifest is None else ["manifest", "sizes", "checksums", "structure"]
    tasks = [_task(shards, name, decode, max_pixels, against is not None) for name in present]
    progress.begin("verifying", sum(_samples_of(manifest)), 0)
    results = dict(
        pool.run(inspect_shard, tasks, lambda samples, size, _: progress.advance(samples, size))
    )
    progress.end()
    inspected = [(name, results[position]) for position, name in enumerate(present)]
    for name, shard in inspected:
        problems += shard.problems
        problems += _compare_receipt(manifest, name, shard)
    notes: list[str] = []
    if decode:
        checked.append("images")
    if against is not None:
        checked.append("source" if shards.made.layout.tells_labels else "images of the source")
        wrong, notes = _compare_source(shards, inspected, against, pool, progress)
        problems += wrong
    if loader is not None:
        checked.append(loader)
        problems += _load(loader, shards.directory, inspected)
    return VerifyReport(
        destination=str(shards.directory),
        format=shards.made.layout.name,
        manifest=manifest is not None,
        shards=len(present),
        samples=sum(shard.samples for _, shard in inspected),
        bytes=sum(shard.bytes for _, shard in inspected),
        checked=checked,
        problems=problems,
        seconds=time.monotonic() - began,
        notes=notes,
    )


def _verify_folder(
    shards: Shards, decode: bool, max_pixels: int | None, pool: Pool, progress: Progress
) -> VerifyReport:
    """Verify a folder of files."""
    began = time.monotonic()
    manifest = shards.manifest
    assert manifest is not None
    progress.begin("verifying", manifest.samples, 0)
    try:
        found = look_at_folder(
            shards, decode, max_pixels, pool, lambda samples, *_: progress.advance(samples, 0)
        )
    finally:
        progress.end()
    return VerifyReport(
        destination=str(shards.directory),
        format=shards.made.layout.name,
        manifest=True,
        shards=0,
        samples=found.samples,
        bytes=found.bytes,
        checked=["manifest", "sizes", "checksums", *(["images"] if decode else [])],
        problems=[*_compare_files(shards), *found.problems],
        seconds=time.monotonic() - began,
    )


def _samples_of(manifest: Manifest | None) -> Iterable[int]:
    return (shard.samples for shard in manifest.shards) if manifest else ()


def _task(
    shards: Shards, name: str, decode: bool, max_pixels: int | None, digests: bool
) -> ShardTask:
    path, layout = shards.directory / name, shards.made.layout
    index = path.with_suffix(".idx")
    return ShardTask(
        path=str(path),
        layout=layout,
        decode=decode,
        max_pixels=shards.made.max_pixels if max_pixels is None else max_pixels,
        readable=layout.readable_images,
        idx=str(index) if layout.has_sidecars and index.exists() else None,
        digests=digests,
    )


def _compare_files(shards: Shards) -> list[Problem]:
    """Which files are missing or too many, and which of the small ones are not as written."""
    problems = []
    scratch = shards.destination.scratch
    if scratch.exists():
        problems.append(Problem(scratch.name, None, "", UNFINISHED))
    if shards.manifest is None:
        return problems
    if not isinstance(shards.made.layout, Folder):
        name = shards.manifest_name
        problems += [Problem(name, None, "", wrong) for wrong in false_totals(shards.manifest)]
    known = {file.name: file for file in shards.manifest.every_file()}
    for name, file in known.items():
        path = shards.directory / name
        if not path.is_file():
            problems.append(Problem(name, None, "", "is in the manifest, but not there"))
        elif name not in shards.names:
            try:
                same = path.stat().st_size == file.bytes and FileReceipt.of(path) == file
                wrong = "" if same else "is not as it was written"
            except OSError as error:
                wrong = f"cannot be read ({error.strerror})"
            problems += [Problem(name, None, "", wrong)] if wrong else []
    return problems


def _compare_receipt(manifest: Manifest | None, name: str, shard: Inspected) -> Iterable[Problem]:
    """Whether a shard is the one in the manifest."""
    for receipt in manifest.shards if manifest else ():
        if receipt.name != name or not shard.is_read:
            continue
        if wrong := difference(receipt, shard.bytes, shard.crc32c):
            yield Problem(name, None, "", wrong)
        if shard.samples != receipt.samples:
            yield Problem(
                name, None, "", f"holds {shard.samples:,} samples, not {receipt.samples:,}"
            )


def _compare_source(
    shards: Shards,
    inspected: Sequence[tuple[str, Inspected]],
    against: Source,
    pool: Pool,
    progress: Progress,
) -> tuple[list[Problem], list[str]]:
    # Here, as nothing else of verify needs polars.
    from dsprep.sources.classes import has_flags, renumbered
    from dsprep.verifying.comparison import compare

    made = shards.made
    part_of = _parts(shards.manifest)
    catalog, _ = read_source(against, pool.map)
    require_effect("", {"--classes": against.classes}, labeled=may_be_labeled(catalog))
    known, named = catalog.classes, shards.manifest.classes if shards.manifest else None
    told = against.classes is not None or against.class_order is not None
    are_numbers = catalog.label_column == "cls" or has_flags(catalog)
    if known and named and set(known) <= set(named) and are_numbers and not told:
        catalog = renumbered(catalog, named)  # an option, or an append, has numbered them
    fields = recorded_choice(made.fields)
    catalog = with_chosen_label(fields, catalog)
    recipe = Recipe(
        reader=catalog.reader,
        layout=made.layout,
        transform=made.transform,
        check="none",
        readable=None,
        max_pixels=made.max_pixels,
        classes=catalog.classes,
        key=made.key,
        fields=fields,
        keep_fields=None,
    )
    progress.begin("reading the source", len(catalog), 0)
    try:
        return compare(
            inspected,
            catalog,
            recipe,
            made.known and made.layout.tells_labels and not _LABELS & fields.renamed.keys(),
            _rejected_paths(shards),
            pool,
            lambda samples, size, _: progress.advance(samples, size),
            part_of,
        )
    finally:
        progress.end()


def _parts(manifest: Manifest | None) -> dict[str, int]:
    """Which command wrote each shard: 0 for the first, then the one that appended it."""
    added = manifest.options.get("appended") if manifest else None
    firsts = [
        each["first_shard"]
        for each in (added if isinstance(added, list) else ())
        if isinstance(each, dict) and isinstance(each.get("first_shard"), int)
    ]
    shards = manifest.shards if manifest else []
    return {shard.name: bisect_right(sorted(firsts), at) for at, shard in enumerate(shards)}


def _rejected_paths(shards: Shards) -> frozenset[str]:
    """The samples of the source that are known not to be in the shards."""
    for file in shards.manifest.files if shards.manifest else ():
        path = shards.directory / file.name
        if file.name.endswith("rejects.jsonl") and path.exists():
            try:
                return frozenset(reject.path for reject in read_rejects(path))
            except SourceError:  # it has changed, which is a problem that was found already
                break
    return frozenset()


def _load(
    loader: str, directory: Path, inspected: Sequence[tuple[str, Inspected]]
) -> Iterable[Problem]:
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
