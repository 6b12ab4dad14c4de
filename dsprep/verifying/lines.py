"""Checks of an augmented manifest that other tools wrote: its lines, and its images."""

from __future__ import annotations

from collections.abc import Callable

from dsprep.errors import BadSample, SourceError
from dsprep.findings import lost, notes_of
from dsprep.formats.augmented import MANIFESTS
from dsprep.images.header import DEFAULT_MAX_PIXELS, ImageHeader
from dsprep.images.transform import make_check
from dsprep.progress import Progress
from dsprep.rows import Reader, Rows
from dsprep.schema import IMAGE, LABEL, Schema
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from dsprep.storage.files import facts, is_file
from dsprep.tuples import NamedTuple
from dsprep.verifying.options import VerifyOptions
from dsprep.verifying.report import FieldFound, Problem, VerifyReport
from dsprep.workers.executor import Executor
from dsprep.workers.worker import Report, counted

_NAME = "augmented-manifest"
_AT_ONCE = 256  # samples that a worker reads in one task


def is_manifest_of_lines(place: str) -> bool:
    """Return whether a place is an augmented manifest."""
    return place.endswith(MANIFESTS) and is_file(place)


class _Lines(NamedTuple):
    """Some lines for a worker."""

    reader: Reader
    rows: Rows
    image: str | None  # the field of the image in samples that are read whole
    decode: bool
    max_pixels: int


def verify_lines(options: VerifyOptions, pool: Executor, progress: Progress) -> VerifyReport:
    """Read all lines, and the images that they refer to; ``--decode`` decodes these."""
    place = str(options.dest)
    try:
        source = make_source(place, kind=_NAME, choice=options.choice, needs_names=True)
        catalog, findings = read_source(source, pool.map)
    except SourceError as error:
        said = str(error).removeprefix(f"{place}:").lstrip()
        wrong = Problem(place, f"line {said}" if said[:1].isdecimal() else said)
        return VerifyReport(
            destination=place, format=_NAME, manifest=False, checked=["lines"], problems=[wrong]
        )
    problems = [Problem(*reject) for reject in lost(findings)]
    schema = catalog.settled.schema
    most = DEFAULT_MAX_PIXELS if options.max_pixels is None else options.max_pixels
    tasks = [
        _Lines(catalog.reader, part.rows(), schema.image, options.decode, most)
        for start in range(0, len(catalog), _AT_ONCE)
        for part in [catalog.slice(start, _AT_ONCE)]
    ]
    with progress.running("verifying", len(catalog)):
        found = pool.map(_check_lines, tasks, progress.advance)
    for each in found:
        problems += each
    has_images = schema.image is not None
    labeled = len(catalog) if catalog.label_column else 0
    return VerifyReport(
        destination=place,
        format=_NAME,
        manifest=False,
        samples=len(catalog),
        bytes=facts(place).size if not has_images else int(catalog.table["size"].sum()),
        checked=["lines", "images decoded" if options.decode else "images"][: 1 + has_images],
        problems=problems,
        notes=notes_of(findings),
        fields=_fields(schema, len(catalog), labeled),
    )


def _fields(schema: Schema, count: int, labeled: int) -> list[FieldFound]:
    roles = {schema.image: IMAGE, schema.label: LABEL}
    return [
        FieldFound(
            each.name,
            each.type,
            len(each.names),
            roles.get(each.name, ""),
            "the manifest",
            labeled if each.name == schema.label else count,
        )
        for each in schema.fields
    ]


def _check_lines(task: _Lines, report: Report) -> list[Problem]:
    check: Callable[[bytes], ImageHeader] = make_check(
        "decode" if task.decode else "header", max_pixels=task.max_pixels
    )
    problems = []
    found = zip(task.rows.paths, task.reader.read(task.rows), strict=True)
    for path, sample in counted(found, report):
        try:
            if isinstance(sample, BadSample):
                raise sample
            data = sample if isinstance(sample, bytes) else sample.fields.get(task.image or "")
            if isinstance(data, bytes):
                check(data)
        except BadSample as error:
            problems.append(Problem(path, str(error)))
    return problems
