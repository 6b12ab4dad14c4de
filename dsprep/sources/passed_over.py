"""Refuse a source with files that would be passed over, and say which option reads them.

The error is a `SourceError`, so the command exits with code 4. `dsprep.sources.leftover` finds the
files, and `dsprep.sources.unread` has the kinds of annotations that are recognized.
"""

from __future__ import annotations

import glob
import os
import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from dsprep.errors import BadSample, DsprepError, SourceError, UnclearLabels
from dsprep.findings import Finding
from dsprep.places.names import is_left_out
from dsprep.sources.leftover import HOLDS, LEAVES_OUT, NAMES, PIXELS, SOME, UNNAMED, lacks_labels
from dsprep.sources.likely_masks import (
    MAPS,
    MASKS,
    PARTS,
    image_of,
    option_for_masks,
    without_common_end,
)
from dsprep.sources.mask_names import endings_of_masks
from dsprep.sources.parallel import pairs_for
from dsprep.sources.reading import read_source
from dsprep.sources.unread import UNREAD
from dsprep.storage.files import is_dir
from dsprep.units import NO_EXTENSION, extension_in, format_count, format_extensions

if TYPE_CHECKING:
    from dsprep.catalog import Catalog, SourceScan
    from dsprep.sources.source import Source

_SHOWN = 5  # kinds of files that a message names
_MOST_BYTES = 64 << 20  # of samples that are read to try an option
_OF_IMAGES = (MASKS, PARTS, MAPS)  # how details begin that name an image
_ADVICE = {f"{HOLDS} {kind.name}": kind.advice for kind in reversed(UNREAD)}


def require_nothing_left(source: Source, found: SourceScan, written: tuple[str, ...] = ()) -> None:
    """Refuse to go on if files that are left over tell something that samples would lack.

    Args:
        source: What was read.
        found: The samples, and what reading them noticed.
        written: How paths begin of files that the command itself writes there.
    """
    stopping = what_stops(source, found, written)
    if not stopping:
        return
    lines = [f"{'    ' if at else '  '}{line}" for each in stopping for at, line in enumerate(each)]
    lines += [each.detail for each in found[1] if each.detail.startswith(LEAVES_OUT)]
    raise SourceError(
        f"{source.root}: some files tell more of the images than would be packed, so nothing was "
        "written:",
        *lines,
        "--leave-out '*' leaves out all files that are left over",
    )


def what_stops(
    source: Source, found: SourceScan, written: tuple[str, ...] = ()
) -> Sequence[Sequence[str]]:
    """Return what files that stop a command tell, and for each kind what a user can do."""
    if source.kind == "images":  # the user wants the images alone
        return []
    catalog, findings = found
    left = [
        each for each in findings if each.kind == "left-over" and not each.path.startswith(written)
    ]
    left.sort(key=_is_of_test)  # a table for tests, which has no labels, stands for no others
    telling: dict[tuple[str, str, str], Finding] = {}
    for each in left:
        if each.detail:
            where = _where(each), extension_in(each.path)
            is_part = each.detail.startswith(_OF_IMAGES)
            what = _ending(each) if is_part else each.detail.partition(" in ")[0]
            telling.setdefault((*where, what), each)
    shown = list(telling.values())[:_SHOWN]
    lines = [[*_lines(source, each, left, len(catalog))] for each in shown]
    if len(telling) > _SHOWN:
        lines.append([f"and {len(telling) - _SHOWN:,} more kinds of files"])
    lines += [[each] for each in _all_parts(source, shown, len(catalog))]
    return lines


def _is_of_test(finding: Finding) -> bool:
    return "test" in posixpath.basename(finding.path).lower()


def _all_parts(source: Source, shown: Sequence[Finding], images: int) -> Iterator[str]:
    """Yield the options that take several parts of each sample at once, after they were tried."""
    pairs: dict[str, str] = {}
    for each in shown:
        if each.detail.startswith((PARTS, MAPS)) and is_dir(source.root):
            more = pairs_for(image_of(each.detail), each.path)
            if more["image"] != pairs.get("image", more["image"]):
                return  # the images lie in several directories
            pairs |= more
    if len(pairs) < 3:  # one other part, whose line has its option
        return
    try:
        catalog, _ = read_source(source.replace(pairs=pairs))
    except DsprepError:
        return
    if not _makes_samples(catalog, are_whole=True):
        return
    options = " ".join(f"--pair {shlex.quote(f'{name}={own}')}" for name, own in pairs.items())
    yield f"to take all of these in{_for_some(catalog, images)}: {options}"


def _for_some(catalog: Catalog, images: int) -> str:
    """Say how many of the images an option takes, if these are not all."""
    return "" if len(catalog) >= images else f", for {len(catalog):,} of {images:,} images"


def notes_on_left(findings: Sequence[Finding], recorded: Sequence[str]) -> Iterator[str]:
    """Say which files of a source shards do not hold, as they were left over or left out.

    Args:
        findings: What reading the source noticed.
        recorded: The patterns of ``--leave-out`` in the manifest.
    """
    left = [each for each in findings if each.kind in ("left-over", "left-out")]
    out = {each.path for each in left if is_left_out(each.path, recorded)}
    other = [each for each in left if each.kind == "left-over" and each.path not in out]
    if other:
        first = min(other, key=lambda each: (not each.detail, each.path))
        counts = format_extensions(Counter(extension_in(each.path) for each in other))
        why = f", which {first.detail}" if first.detail else ""
        yield f"the shards do not hold all of the source: {counts}, such as {first.path}{why}"
    if out:
        patterns = " ".join(f"--leave-out {shlex.quote(each)}" for each in recorded)
        count = format_count(len(out), "file")
        yield f"the manifest records {count} of the source as left out: {patterns}"


def _lines(source: Source, finding: Finding, left: Sequence[Finding], images: int) -> Iterator[str]:
    """Yield what a file tells, which option takes it in, and which one leaves it out."""
    directory, extension = _where(finding), extension_in(finding.path)
    count = _count_alike(finding, left)
    told, what = finding.detail, finding.path
    if count > 1:
        files = format_count(count, f"{extension} file")
        if extension == NO_EXTENSION:
            files = f"{format_count(count, 'file')} {extension}"
        what = f"{files} in {directory or 'SOURCE'}, such as {finding.path}"
        told = re.sub("^has", "have", re.sub("^(name|belong)s", r"\1", told))
        told = told.replace(UNNAMED, "are images without an extension of images")
    yield f"{what}: {told}"
    from dsprep.sources.pictures.described import METADATA_FILES  # loads its reader

    advice = _ADVICE.get(finding.detail, "")
    if advice:
        yield f"dsprep does not read these yet: {advice}"
    elif finding.detail.startswith((PARTS, MAPS)) and not is_dir(source.root):
        yield "to take it in, unpack the archive: --pair reads directories"
    else:
        alike = [each.path for each in left if extension_in(each.path) == extension]
        yield from _working(source, finding, alike, images)
    if posixpath.basename(finding.path) in METADATA_FILES and not is_dir(source.root):
        yield "to take all of it in, unpack the archive: imagefolder is read from a directory"
    if finding.detail.startswith(PARTS):
        yield "to take directories for classes: --from images"
    if finding.detail == PIXELS:
        path = shlex.quote(_as_given(source, finding.path))
        yield f"to take it in: SOURCE {path} and --pixel-columns 'pixel*'"
    if finding.detail == UNNAMED:
        yield "to take it in: add the extension of its kind, such as .jpg"
    yield f"to go on without: --leave-out {shlex.quote(_pattern(finding, left, count))}"


def _pattern(finding: Finding, left: Sequence[Finding], count: int) -> str:
    """Return the pattern that leaves out a file and those that are alike, and no others.

    It is the path alone if files without an extension lie beside others that are left over.
    """
    directory, extension = _where(finding), extension_in(finding.path)
    ending = "" if extension == NO_EXTENSION else f"{glob.escape(_ending(finding))}{extension}"
    pattern = posixpath.join(glob.escape(directory), f"*{ending}")
    if extension == NO_EXTENSION:
        meant = [each for each in left if is_left_out(each.path, (pattern,))]
        count = count if len(meant) == count else 1
    return pattern if count > 1 else finding.path


def _count_alike(finding: Finding, left: Sequence[Finding]) -> int:
    """Return how many files of an extension lie in the directory of one, or also below it."""
    directory, extension = _where(finding), extension_in(finding.path)
    own = [each.path for each in left if extension_in(each.path) == extension]
    own = [path for path in own if posixpath.splitext(path)[0].endswith(_ending(finding))]
    if directory != posixpath.dirname(finding.path):
        return sum(path.startswith(f"{directory}/" if directory else "") for path in own)
    return sum(posixpath.dirname(path) == directory for path in own)


def _ending(finding: Finding) -> str:
    """Return what the names of masks go on with after those of their images; else nothing."""
    if not finding.detail.startswith(MASKS):
        return ""
    return "".join(endings_of_masks([finding.path], [image_of(finding.detail)]))


def _where(finding: Finding) -> str:
    """Return the directory of files that are alike.

    That of masks is the highest that is parallel to that of their images.
    """
    directory = posixpath.dirname(finding.path)
    if not finding.detail.startswith(_OF_IMAGES):
        return directory
    above = posixpath.dirname(image_of(finding.detail))
    if finding.detail.startswith(MAPS) and above == directory:
        return ""  # each directory has maps beside its images
    return without_common_end(directory, above)[0]


def _working(source: Source, finding: Finding, alike: Sequence[str], images: int) -> Iterator[str]:
    """Yield the option that takes a file in, after it was tried; else why that one does not."""
    path = _as_given(source, finding.path)
    why = ""
    tries = [*_tries(source, finding, path, alike)]
    for option, changed, value in tries:
        try:
            catalog, findings = read_source(changed)
            is_whole = changed.masks is not None and "*" not in str(changed.masks)
            if is_whole and any(map(_is_likely_mask, findings)):
                continue  # it takes some of them, and others would stop the command
            if _makes_samples(catalog, are_whole=bool(changed.pairs)):
                some = _for_some(catalog, images)
                if changed.pairs and why:
                    yield why.partition("\n")[0]
                yield f"to take it in{some}: {option} {shlex.quote(value)}"
                return
        except DsprepError as error:
            given = f"{option} {shlex.quote(value)}"
            why = why or f"{given} does not take it in: {error}"
            for column in error.columns if isinstance(error, UnclearLabels) else ():
                asked = changed.replace(label_columns=(column,))
                tries.append((f"{given} --label-column", asked, column))
    if why and finding.detail.startswith((NAMES, *_OF_IMAGES)):
        yield why.partition("\n")[0]


def _is_likely_mask(finding: Finding) -> bool:
    return finding.kind in ("left-over", "not-read") and finding.detail.startswith(MASKS)


def _tries(
    source: Source, finding: Finding, path: str, alike: Sequence[str]
) -> Iterator[tuple[str, Source, str]]:
    """Yield options that may take a file in, each with the source that it makes."""
    if finding.detail.startswith(MASKS):
        from dsprep.sources.annotated.mask_files import further_masks  # few sources have masks

        pair = map(posixpath.dirname, (finding.path, image_of(finding.detail)))
        masks, images = (f"{source.root}/{each}".rstrip("/") for each in without_common_end(*pair))
        named = f"{masks}/*{_ending(finding)}{extension_in(finding.path)}"
        ways = [("--masks", source, each) for each in dict.fromkeys((masks, source.root))]
        if further_masks(alike):  # a directory would take the first mask of an image alone
            root, image = source.root.rstrip("/"), image_of(finding.detail)
            ways.insert(0, ("--masks", source, option_for_masks(root, finding.path, image, alike)))
        if ending := _ending(finding):  # others of an image, or of other directories
            anywhere = f"{source.root}/*{ending}{extension_in(finding.path)}"
            ways.append(("--masks", source, anywhere))
        if masks != images:
            option = f"SOURCE {shlex.quote(images)} and --masks"
            ways.append((option, source.replace(root=images), masks))
        for option, asked, each in (*ways, ("--masks", source, named)):
            yield option, asked.replace(masks=each), each
        yield from _pairs_of(source, finding.path, image_of(finding.detail))
    elif finding.detail.startswith((PARTS, MAPS)):
        yield from _pairs_of(source, finding.path, image_of(finding.detail))
    elif finding.detail.startswith(HOLDS):
        for each in dict.fromkeys((path, os.path.dirname(path) or ".")):
            yield "--annotations", source.replace(annotations=(each,)), each
    elif finding.detail.startswith(NAMES) and extension_in(path) in (".lst", ".manifest"):
        yield "--list", source.replace(list_file=path), path
    elif finding.detail.startswith(NAMES):
        yield "--labels", source.replace(labels=path), path


def _pairs_of(source: Source, path: str, image: str) -> Iterator[tuple[str, Source, str]]:
    """Yield the options that take an image and another part of its sample together."""
    pairs = pairs_for(image, path)
    first, second = (f"{name}={pattern}" for name, pattern in pairs.items())
    yield f"--pair {shlex.quote(first)} --pair", source.replace(pairs=pairs), second


def _as_given(source: Source, path: str) -> str:
    """Return what a user calls a file of the source."""
    return os.path.join(source.root, path) if is_dir(source.root) else path


def _makes_samples(catalog: Catalog, are_whole: bool) -> bool:
    """Return whether most of the first samples can be made, and something is known of them.

    ``are_whole`` says that they have further parts.
    """
    if not len(catalog) or (lacks_labels(catalog) and not are_whole):
        return False
    some = _few(catalog)
    made = bad = 0
    for each in catalog.reader.read(some.rows()):
        if isinstance(each, BadSample):
            bad += 1
        else:
            made += 1
        if 2 * max(made, bad) > len(some):
            break
    return made > bad


def _few(catalog: Catalog) -> Catalog:
    """Return the first samples, fewer if they are large."""
    some = catalog.slice(0, SOME)
    totals = accumulate(some.table["size"].fill_null(0))
    return some.slice(0, max(1, sum(total <= _MOST_BYTES for total in totals)))
