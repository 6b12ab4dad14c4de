"""``verify``: prove what was written, shard by shard, and name what is wrong."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from dsprep.arguments import AnyPath, public
from dsprep.dataset.manifest import FileReceipt, Manifest, read_rejects
from dsprep.errors import DestinationError, OptionError, RunStopped, SourceError
from dsprep.loaders import count_samples, require_loader
from dsprep.options import given_options, require_effect
from dsprep.progress import Progress
from dsprep.run.state import remove_leftovers
from dsprep.schema import Choice
from dsprep.sources.reading import Source, source_of
from dsprep.storage.objects import as_source
from dsprep.storage.urls import is_s3
from dsprep.units import format_count
from dsprep.verifying.digests import Digester
from dsprep.verifying.folders import folder_schema, look_at_folder
from dsprep.verifying.inspection import Inspected, Problem, ShardTask, inspect_shard
from dsprep.verifying.receipts import UNFINISHED, difference, false_totals
from dsprep.verifying.report import VerifyReport
from dsprep.verifying.shards import Shards, find_shards, strays
from dsprep.verifying.understanding import Understood, fields_found, understand
from dsprep.workers.pool import Pool, available_cores

if TYPE_CHECKING:
    from dsprep.verifying.comparison import Origin


@dataclass(frozen=True)
class _Asked:
    """What to look for, and what does it."""

    decode: bool  # whether to decode every image
    against: Source | None  # the source to compare with; None for none
    loader: str | None  # the framework to read with; None for none
    # the most pixels that an image may have; None for what the manifest says
    max_pixels: int | None
    choice: Choice  # what the user says of the fields of shards without a manifest
    pool: Pool  # looks through the shards
    progress: Progress  # is told how far it is


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
            :func:`dsprep.sources.reading.make_choice` has it.
        download: Whether to read what is on S3, rather than compare the checksums that it keeps.
        workers: How many processes; by default the cores that this process may use.
        progress: Is told how far it is.

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
    found = find_shards(Path(dest))
    _require_sense(dest, found, against, loader, choice or Choice())
    for shards in found:
        if shards.manifest is not None:
            with suppress(DestinationError):  # a run is alive, or the directory is only to be read
                remove_leftovers(shards.destination, shards.manifest)
    with Pool(available_cores() if workers is None else workers) as pool:
        asked = _Asked(decode, against, loader, max_pixels, choice or Choice(), pool, progress)
        reports = [_verify(shards, asked) for shards in found]
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
        fields=reports[0].fields if len(reports) == 1 else (),
    )


def _require_sense(
    dest: str, found: Sequence[Shards], against: Source | None, loader: str | None, choice: Choice
) -> None:
    """Refuse what makes no sense for the shards that were found."""
    if against is not None and len(found) > 1:
        raise OptionError(f"{dest}: --against goes with one data set; name one of these manifests")
    if loader is not None and any(each.made.layout.is_tree for each in found):
        raise OptionError(f"{dest}: is a folder of files; --loader goes with shards")
    if choice != Choice() and any(each.manifest and each.manifest.schema for each in found):
        raise OptionError(
            f"{dest}: the manifest tells the fields; leave out --image-field, --label-field, "
            "--label-type, --schema, --look and --no-image, or give --against SOURCE, which they "
            "are of then"
        )
    if loader is not None:
        for shards in found:
            require_loader(loader, shards.made.layout.name)


def _verify(shards: Shards, asked: _Asked) -> VerifyReport:
    """Verify one data set."""
    if shards.made.layout.is_tree:
        return _verify_folder(shards, asked)
    began = time.monotonic()
    manifest, pool, progress = shards.manifest, asked.pool, asked.progress
    problems = _compare_files(shards)
    present = shards.present
    checked = ["structure"] if manifest is None else ["manifest", "sizes", "checksums", "structure"]
    understood = understand(shards, asked.choice, pool)
    notes = list(dict.fromkeys((*shards.notes, *understood.notes)))
    origin, understood, wrong = _origin(shards, understood, asked)
    problems += wrong
    digester = None if origin is None else Digester(origin.matched.fields)
    tasks = [_task(shards, name, understood, digester, asked) for name in present]
    progress.begin("verifying", sum(_samples_of(manifest)), 0)
    results = dict(
        pool.run(inspect_shard, tasks, lambda samples, size, _: progress.advance(samples, size))
    )
    progress.end()
    inspected = [(name, results[position]) for position, name in enumerate(present)]
    for name, shard in inspected:
        problems += shard.problems
        problems += _compare_receipt(manifest, name, shard)
    notes += _notes(inspected, understood)
    if asked.decode and understood.schema is not None:
        checked.append("images")
    elif asked.decode:
        problems.append(Problem("", None, "", f"images not decoded: {understood.notes[-1]}"))
    if origin is not None:
        checked.append("source")
        wrong, said = _compare(inspected, origin, asked)
        problems += wrong
        notes += said
    if asked.loader is not None:
        checked.append(asked.loader)
        problems += _load(asked.loader, shards.directory, inspected)
    counts = sum((shard.counts for _, shard in inspected), Counter[str]())
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
        fields=list(fields_found(understood.schema, counts)) if understood.schema else (),
    )


def _origin(
    shards: Shards, understood: Understood, asked: _Asked
) -> tuple[Origin | None, Understood, list[Problem]]:
    """Find what shards are compared with, if they are; see :func:`find_origin`."""
    if asked.against is None:
        return None, understood, []
    from dsprep.verifying.origins import find_origin  # nothing else of verify needs polars

    rejected, part_of = _rejected_paths(shards), _parts(shards.manifest)
    return find_origin(shards, understood, asked.against, rejected, part_of, asked.pool)


def _compare(
    inspected: Sequence[tuple[str, Inspected]], origin: Origin, asked: _Asked
) -> tuple[list[Problem], list[str]]:
    """Compare samples with those of the source; see :func:`compare`."""
    from dsprep.verifying.comparison import compare

    progress = asked.progress
    progress.begin("reading the source", len(origin.catalog), 0)
    try:
        return compare(
            *(inspected, origin, asked.pool),
            lambda samples, size, _: progress.advance(samples, size),
        )
    finally:
        progress.end()


def _notes(inspected: Sequence[tuple[str, Inspected]], understood: Understood) -> Iterable[str]:
    """Say what else is to be known of the samples."""
    for name, shard in inspected:
        if shard.is_read and not shard.samples and not shard.problems:
            yield f"{name}: holds no samples"
    count = sum(shard.misfits for _, shard in inspected)
    if count and not understood.enforced:
        first = next(shard.misfit for _, shard in inspected if shard.misfit)
        yield f"{format_count(count, 'sample')} not of this schema; {first}"


def _verify_folder(shards: Shards, asked: _Asked) -> VerifyReport:
    """Verify a folder of files."""
    began = time.monotonic()
    manifest, progress = shards.manifest, asked.progress
    assert manifest is not None
    understood = Understood(folder_schema(shards.made.layout), enforced=manifest.enforced)
    origin, _, problems = _origin(shards, understood, asked)
    digester = None if origin is None else Digester(origin.matched.fields)
    checked = ["manifest", "sizes", "checksums", *(["images"] if asked.decode else [])]
    progress.begin("verifying", manifest.samples, 0)
    try:
        found = look_at_folder(
            *(shards, digester, asked.decode, asked.max_pixels, asked.pool),
            lambda samples, *_: progress.advance(samples, 0),
        )
    finally:
        progress.end()
    problems = [*_compare_files(shards), *found.problems, *problems]
    notes: list[str] = []
    if origin is not None:
        checked.append("source")
        wrong, notes = _compare([(shards.manifest_name, found)], origin, asked)
        problems += wrong
    return VerifyReport(
        destination=str(shards.directory),
        format=shards.made.layout.name,
        manifest=True,
        shards=0,
        samples=found.samples,
        bytes=found.bytes,
        checked=checked,
        problems=problems,
        seconds=time.monotonic() - began,
        notes=notes,
    )


def _samples_of(manifest: Manifest | None) -> Iterable[int]:
    return (shard.samples for shard in manifest.shards) if manifest else ()


def _task(
    shards: Shards, name: str, understood: Understood, digester: Digester | None, asked: _Asked
) -> ShardTask:
    path = shards.directory / name
    layout = replace(shards.made.layout, schema=understood.schema)
    index = path.with_suffix(".idx")
    return ShardTask(
        path=str(path),
        layout=layout,
        reading=understood.reading(layout),
        pixels=understood.pixels,
        enforced=understood.enforced,
        decode=asked.decode,
        max_pixels=shards.made.max_pixels if asked.max_pixels is None else asked.max_pixels,
        readable=layout.readable_images,
        idx=str(index) if ".idx" in layout.sidecar_suffixes and index.exists() else None,
        digester=digester,
    )


def _compare_files(shards: Shards) -> list[Problem]:
    """Which files are missing or too many, and which of the small ones are not as written."""
    problems = []
    scratch = shards.destination.scratch
    if scratch.exists():
        problems.append(Problem(scratch.name, None, "", UNFINISHED))
    if shards.manifest is None:
        return problems
    if not shards.made.layout.is_tree:
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
