"""Which annotations a source has: those that a user names, or that lie in a folder or around it.

A folder of images with annotations must not become classes of its directories without a word. All
kinds are asked for claims (`dsprep.sources.annotation_kinds`). What the listing of the images shows
anyway decides, and at most two directories above are listed.
"""

from __future__ import annotations

import glob
import os
import posixpath
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dsprep.declared import options_in
from dsprep.errors import DamagedFiles, OptionError, SourceError
from dsprep.findings import Finding
from dsprep.options import option_name, require_effect, shown
from dsprep.places.names import is_side_alone
from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind, DirectoryAbove, NamedPath
from dsprep.sources.annotation_kinds import all_annotation_kinds, kind_by_content
from dsprep.sources.kind import HEAD, Claim
from dsprep.sources.kinds import ranked
from dsprep.sources.unread import unread_kind
from dsprep.storage.files import exists, full_path, is_file, open_file
from dsprep.units import format_count, format_some

if TYPE_CHECKING:
    from dsprep.catalog import Inferred
    from dsprep.places.files import Files
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

_OUTSIDE = 16  # files beside the one directory of an archive that are looked into
_MOST_PATTERNS = 3  # damaged files that are named one by one
_MOST_NAMED = 20  # annotations that a layout names one by one
_WHOLE = "."  # what a layout calls annotations that are named by SOURCE itself
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


def _kinds() -> list[AnnotationKind]:
    """Return an object of each kind, in the order of their names."""
    kinds = sorted(all_annotation_kinds().kinds, key=lambda kind: kind.names)
    return [kind() for kind in kinds]


# Annotations that a user names


def named_scan(source: Source, files: Files, run_all: RunAll) -> Scan:
    """Scan the annotations that a user names."""
    if scan := _whole_scan(source, files, run_all):
        return scan
    members = _members(source, files)
    for path in source.annotations:
        if path not in members and not exists(path):
            where = f", neither on the disk nor in {source.root}" if files.archive else ""
            raise SourceError(f"{path}: does not exist{where}")
    head_of = AnnotatedPlace(source.root, files).head
    named = [NamedPath(path, members.get(path, ""), head_of) for path in source.annotations]
    if source.annotation_format is None:
        _require_known(named)
    kind = _named_kind(source, named)
    _require_effect(source, kind)
    _require_taken(source, kind, named)
    place = AnnotatedPlace(source.root, files, named)
    return kind.scan(source, _with_texts(place, kind), run_all)


def _whole_scan(source: Source, files: Files, run_all: RunAll) -> Scan | None:
    """Scan a whole set that a user names by SOURCE itself and a format; None if it is none."""
    root, path = full_path(source.root), full_path(source.annotations[0])
    is_whole = root == path or (files.archive is not None and root.startswith(f"{path}/"))
    by_name = {name: kind for kind in _kinds() for name in kind.names}
    kind = by_name.get(source.annotation_format or "")
    if kind is None or not is_whole or len(source.annotations) > 1:
        return None
    place = AnnotatedPlace(source.root, files, leave_out=source.leave_out)
    if kind.claim(place) is None:
        return None
    _require_effect(source, kind)
    return kind.scan(source, _with_texts(place, kind), run_all)


def _members(source: Source, files: Files) -> Mapping[str, str]:
    """Return the annotations in an archive that a user names, by what the user calls them."""
    if files.archive is None:
        return {}
    found: dict[str, str] = {}
    others = AnnotatedPlace(source.root, files).others
    for path in source.annotations:
        if exists(path):
            continue
        # If all files lie in one directory of the archive, the root is that.
        wanted = _within(source, path).removeprefix(f"{files.archive.path}/")
        own = [each for each in others if f"/{each}".endswith(f"/{wanted}")]
        if len(own) > 1 and wanted not in own:
            raise SourceError(f"{path}: may be {' or '.join(own[:2])} of {source.root}")
        found |= {path: wanted if wanted in own else own[0]} if own else {}
    return found


def _require_known(named: Sequence[NamedPath]) -> None:
    """Refuse files of a tool that dsprep does not read, before another kind is blamed for them."""
    for path in named:
        if path.member:
            continue
        files = [os.path.join(path.path, name) for name in path.names[:1]] or [path.path]
        if not is_file(files[0]):
            continue
        with open_file(files[0]) as file:
            head = file.pread(HEAD, 0)
        unread = unread_kind(files[0], head)
        if unread is not None and not any(kind.is_own(files[0], head) for kind in _kinds()):
            raise SourceError(
                f"{files[0]}: has annotations of {unread.name}, which dsprep does not read: "
                f"{unread.advice}"
            )


def _named_kind(source: Source, named: Sequence[NamedPath]) -> AnnotationKind:
    """Return the one kind of all paths."""
    by_name = {name: kind for kind in _kinds() for name in kind.names}
    asked = source.annotation_format
    if asked is not None and asked not in by_name:
        choices = ", ".join(sorted(by_name))
        raise OptionError(f"--annotation-format {asked}: choose one of {choices}")
    names = {asked or _kind_of(path) for path in named}
    if len(names) > 1:
        words = " and ".join(sorted(by_name[name].words for name in names))
        raise OptionError(f"--annotations: are of {words}: give those of one of them")
    return by_name[names.pop()]


def _kind_of(path: NamedPath) -> str:
    """Return the name of the kind that a path is, by how it begins, its extension, or a guess."""
    kinds = _kinds()
    heads = path.heads.items()
    found = [kind for kind in kinds if any(kind.is_own(*head) for head in heads)]
    is_file = path.member or not path.is_dir
    found = found or [kind for kind in kinds if is_file and path.extension in kind.extensions]
    found = found or [kind for kind in kinds if kind.looks_like(path)]
    if len(found) == 1:
        return found[0].names[0]
    if path.path.lower().endswith(_COMPRESSED):
        raise OptionError(f"--annotations {path.path}: is compressed: decompress it first")
    choices = " or ".join(sorted(name for kind in kinds for name in kind.names))
    raise OptionError(
        f"--annotations {path.path}: its format is unclear: give --annotation-format {choices}"
    )


def _require_taken(source: Source, kind: AnnotationKind, named: Sequence[NamedPath]) -> None:
    """Refuse several paths, and paths in an archive, of a kind that does not take them."""
    members = [each for each in named if each.member]
    if members and not kind.takes_members:
        found_there = f"leave this out if {source.root} has a whole set, or unpack it"
        advice = f"unpack {source.root}" if kind.texts is None else found_there
        raise SourceError(
            f"--annotations {named[0].path}: those of {kind.words} cannot be named in an archive: "
            f"{advice}"
        )
    if len(named) > 1 and not kind.takes_several:
        raise OptionError(f"--annotations {named[1].path}: give one path for {kind.words}")
    if members and (others := [each for each in named if not each.member]):
        raise OptionError(
            f"--annotations {others[0].path}: lies on the disk, and others in {source.root}: give "
            "those of one place"
        )


def _require_effect(source: Source, kind: AnnotationKind) -> None:
    """Refuse options that have no effect with a kind, as others have them."""
    options: type = kind.options
    own = {option_name(name) for name in options_in(options)}
    require_effect("", source.given, annotations=kind.words, reads={*kind.reads, *own})
    for _, declared in all_annotation_kinds().options():
        option = option_name(declared.name)
        if option in source.given and option not in own:
            raise OptionError(
                f"{shown(option, source.given[option])} has no effect: these are annotations of "
                f"{kind.words}; leave it out"
            )


def _with_texts(place: AnnotatedPlace, kind: AnnotationKind) -> AnnotatedPlace:
    """Return a place with the texts that a kind reads in an archive, which are held in memory."""
    files, members = place.files, [each.member for each in place.named if each.member]
    if files.archive is None or kind.texts is None or (place.named and not members):
        return place
    wanted = members or kind.read_in_archive(place)
    files = files._replace(texts=files.contents(wanted))
    return AnnotatedPlace(place.root, files, place.named, place.leave_out)


# Annotations that lie among the images


def recognized_scan(source: Source, files: Files, run_all: RunAll) -> Scan | None:
    """Scan the annotations that a folder has; None if it has none. Refuse what is not plain."""
    kinds = [kind for kind in _kinds() if source.masks is None or not kind.gives_masks]
    place = AnnotatedPlace(source.root, files, leave_out=source.leave_out)

    def refuse(equal: Sequence[tuple[AnnotationKind, Claim]]) -> SourceError:
        known = sorted((kind.names[0], f"{kind.words} ({claim.why})") for kind, claim in equal)
        return SourceError(
            f"{source.root}: has annotations of {' and of '.join(said for _, said in known)}: name "
            "those to take with --annotations PATH, leave others out with --leave-out PATTERN, or "
            "give --from images to pack the images alone"
        )

    claims = ranked(kinds, lambda kind: kind.claim(place), refuse)
    if first := next(claims, None):
        return _claimed_scan(source, place, *first, run_all)
    _require_whole(place, kinds)
    if source.masks is None:
        for kind in kinds:
            if problem := kind.unclear(place):
                raise SourceError(f"{source.root}: {problem}")
        _require_none_above(place, kinds)
    return None


def _claimed_scan(
    source: Source, place: AnnotatedPlace, kind: AnnotationKind, claim: Claim, run_all: RunAll
) -> Scan:
    """Scan the annotations of the kind that claims a folder."""
    _require_whole(place, [kind])
    try:
        _require_effect(source, kind)
        scan = kind.scan(source, _with_texts(place, kind), run_all)
    except SourceError as error:
        patterns = " ".join(f"--leave-out {shlex.quote(each)}" for each in _patterns(claim, error))
        raise SourceError(
            *error.args,
            f"{claim.why} shows annotations of {kind.words}: to go on without, {patterns}; --from "
            "images packs the images without any",
        ) from None
    seen = f"images with annotations of {kind.words}, because of {claim.why}"
    inferred = [*_inferred(kind, claim, scan)]
    found = Finding("source", "", seen)
    return scan._replace(findings=[*scan.findings, found], inferred=inferred)


def _patterns(claim: Claim, error: SourceError) -> Sequence[str]:
    """Return the patterns of files to go on without: a few that are damaged, or all of a claim."""
    if isinstance(error, DamagedFiles) and len(error.paths) <= _MOST_PATTERNS:
        return [*map(glob.escape, error.paths)]
    directory, name = posixpath.split(claim.why)
    return [posixpath.join(glob.escape(directory), f"*{posixpath.splitext(name)[1]}")]


def _require_whole(place: AnnotatedPlace, kinds: Sequence[AnnotationKind]) -> None:
    """Refuse files that are called like those of a tool, and are empty or begin otherwise."""
    for kind in kinds:
        for path, head in place.heads_of(place.called(kind.file_names)).items():
            if head.strip() and (kind_by_content(path, head) or _may_be_any(path, head)):
                continue
            state = "does not begin like one" if head.strip() else "is empty"
            raise SourceError(
                f"{place.root}: {path} is called like a file of {kind.words}, and {state}: correct "
                f"it, or go on without, --leave-out {shlex.quote(glob.escape(path))}"
            )


def _may_be_any(path: str, head: bytes) -> bool:
    """Return whether a file may be that of anybody: a text, which many things are."""
    return path.lower().endswith(".txt") and b"\0" not in head


def _inferred(kind: AnnotationKind, claim: Claim, scan: Scan) -> Iterator[Inferred]:
    """Yield which annotations a folder has, for a layout."""
    from dsprep.catalog import Inferred  # not before polars is there

    why = f"{kind.words}, because of {claim.why}"
    not_read = {found.path for found in scan.findings if found.kind == "not-read"}
    files = sorted(set(scan.used).difference(not_read))
    are_few = kind.takes_several and 0 < len(files) <= _MOST_NAMED
    yield Inferred("annotations", files if are_few else [_WHOLE], why)
    yield Inferred("annotation_format", kind.names[0], why)
    for classes, what in ((scan.classes, "objects"), (scan.values.classes, "images")):
        if classes:
            count = format_count(len(classes), "class")
            yield Inferred("classes", None, f"{count} of {what}: {format_some(classes)}")
    if scan.sides:
        names = format_some(sorted({side for side in scan.sides if side}))
        yield Inferred("sides_from", None, f"the annotations tell the sides: {names}")


def below_top(source: Source, files: Files) -> tuple[Source, Files]:
    """Return the one directory of an archive and its files, unless annotations lie beside it."""
    if not files.top:
        return source, files
    place = AnnotatedPlace(source.root, files, leave_out=source.leave_out)
    outside = [path for path in place.others if not path.startswith(f"{files.top}/")]
    ends = tuple(f"/{_within(source, path)}" for path in source.annotations)
    if _are_annotations(place, outside) or any(f"/{path}".endswith(ends) for path in outside):
        return source, files
    return source.replace(root=f"{source.root.rstrip('/')}/{files.top}"), files.below_top()


def _are_annotations(place: AnnotatedPlace, paths: Sequence[str]) -> bool:
    """Return whether some files of an archive are annotations, by their names or their content."""
    kinds = _kinds()
    own = [kind.files for kind in kinds if kind.files is not None]
    if any(pattern.search(path) for pattern in own for path in paths):
        return True
    heads = place.heads_of(paths[:_OUTSIDE]) if paths else {}
    return any(kind.is_own(path, head) for kind in kinds for path, head in heads.items())


def _within(source: Source, path: str) -> str:
    """Return what a user calls a path in an archive, with or without that of the archive."""
    return posixpath.normpath(path.removeprefix(f"{source.root.rstrip('/')}/"))


# Annotations around a folder


def _require_none_above(place: AnnotatedPlace, kinds: Sequence[AnnotationKind]) -> None:
    """Refuse a folder of images that annotations above it may be for."""
    if place.files.archive is not None:
        return
    full = full_path(place.root)
    name = posixpath.basename(full).lower()
    is_flat = not place.files.table["path"].str.contains("/", literal=True).any()
    above = posixpath.dirname(full)
    directories = {name for kind in kinds for name in kind.directories}
    found = ""
    if name in directories or is_flat:
        found = _found_above(DirectoryAbove(above, name), kinds)
    if not found and (is_flat or is_side_alone(name)):
        name = posixpath.basename(above).lower()
        if name in directories:
            found = _found_above(DirectoryAbove(posixpath.dirname(above), name), kinds)
    if found:
        raise SourceError(
            f"{place.root}: {found} may be its annotations: give --annotations "
            f"{shlex.quote(found)} to take them, or --from images to pack the images alone"
        )


def _found_above(above: DirectoryAbove, kinds: Sequence[AnnotationKind]) -> str:
    """Return annotations in a directory that are for one of its directories; empty if none are."""
    try:
        found = (kind.found_above(above) for kind in kinds)
        return next(filter(None, found), "")
    except (OSError, SourceError):
        return ""  # what cannot be listed is nobody's annotations
