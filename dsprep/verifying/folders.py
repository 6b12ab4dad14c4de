"""Looking through the files of a folder that was written, against the listing beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import google_crc32c

from dsprep.errors import BadSample
from dsprep.formats.base import Format
from dsprep.formats.folder import LISTING, Listed, read_listing
from dsprep.images.check import make_check
from dsprep.run.shard import Report
from dsprep.sample import IMAGE_EXTENSIONS
from dsprep.schema import Reading, Schema
from dsprep.storage.local import LARGEST, read_whole
from dsprep.verifying.digests import Digester
from dsprep.verifying.inspection import Inspected, Problem
from dsprep.verifying.shards import Shards
from dsprep.workers.pool import Pool

_SAMPLES = 256
"""Samples that a worker looks at in one go."""

_LINKS = "is a link, and no file of its own"


class FolderTask(NamedTuple):
    """Some samples of a folder to look at."""

    folder: str  # the folder
    samples: Sequence[Listed]  # what its listing says of them
    decode: bool  # whether to decode the images
    max_pixels: int  # the most pixels that an image may have
    layout: Format  # the format, with the schema of the samples
    # says what every sample holds, for a comparison; None if that is not wanted
    digester: Digester | None


def look_at_folder(
    shards: Shards,
    digester: Digester | None,
    decode: bool,
    max_pixels: int | None,
    pool: Pool,
    report: Report,
) -> Inspected:
    """Compare every file with the listing, and find those that it does not name."""
    listing = shards.destination.companion(LISTING)
    folder = shards.directory / (shards.destination.single or "")
    whole = Inspected()
    layout = shards.made.layout
    named: set[str] = set()
    try:
        tasks = [
            FolderTask(
                str(folder),
                samples,
                decode,
                shards.made.max_pixels if max_pixels is None else max_pixels,
                layout,
                digester,
            )
            for samples in _batches(read_listing(listing))
        ]
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        whole.problems.append(Problem(listing.name, None, "", f"cannot be read: {why}"))
        return whole
    for task in tasks:
        named.update(file.path for sample in task.samples for file in sample.files)
    found = dict(pool.run(look_at_samples, tasks, report))
    for number in range(len(tasks)):
        whole.add(found[number])
    for path in _paths(folder):
        if path not in named:
            whole.problems.append(Problem(path, None, "", "is there, but not in the listing"))
    return whole


def look_at_samples(task: FolderTask, report: Report) -> Inspected:
    """Compare the files of some samples with what the listing says of them."""
    check = make_check("decode", readable=None, max_pixels=task.max_pixels)
    found = Inspected()
    reading = Reading(folder_schema(task.layout), task.layout)
    for sample in task.samples:
        problems: list[Problem] = []
        files: dict[str, bytes] = {}
        for file in sample.files:
            path = Path(task.folder, file.path)
            try:
                if path.is_symlink():
                    problems.append(Problem(file.path, None, sample.key, _LINKS))
                    continue
                data = read_whole(path, max(file.bytes, LARGEST))
            except OSError as error:
                message = f"cannot be read ({error.strerror})"
                problems.append(Problem(file.path, None, sample.key, message))
                continue
            found.bytes += len(data)
            files[file.path] = data
            if (len(data), google_crc32c.value(data)) != (file.bytes, file.crc32c):
                problems.append(Problem(file.path, None, sample.key, "is not as it was written"))
            elif task.decode and file.path.rpartition(".")[2].lower() in IMAGE_EXTENSIONS:
                try:
                    check(data)
                except BadSample as error:
                    problems.append(Problem(file.path, None, sample.key, str(error)))
        found.samples += not problems
        found.problems += problems
        if task.digester is not None:
            _note(found, task, sample, files, reading)
        report(1, 0, [])
    return found


def folder_schema(layout: Format) -> Schema:
    """Return the schema of a folder's raw samples, whose values lie under the fields' names."""
    schema = layout.schema or Schema(())
    fields = tuple(replace(each, places=((each.name,),)) for each in schema.fields)
    return replace(schema, fields=fields)


def _note(
    found: Inspected, task: FolderTask, listed: Listed, files: dict[str, bytes], reading: Reading
) -> None:
    """Note what a sample holds."""
    assert task.digester is not None
    digest = None
    try:
        digest = task.digester(reading(task.layout.listed_sample(listed, files)))
    except (BadSample, ValueError) as error:
        found.reasons[len(found.digests)] = str(error)
    found.names.append(listed.key)
    found.keys.append(listed.key)
    found.files.append(listed.files[0].path)
    found.offsets.append(None)
    found.digests.append(digest)


def _batches(samples: Iterator[Listed]) -> Iterator[list[Listed]]:
    while batch := list(islice(samples, _SAMPLES)):
        yield batch


def _paths(folder: Path) -> Iterator[str]:
    for above, directories, names in os.walk(folder):
        directories.sort()
        below = os.path.relpath(above, folder)
        for name in sorted(names):
            yield name if below == "." else f"{below}/{name}"
