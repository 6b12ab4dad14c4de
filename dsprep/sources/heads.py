"""Which files beside images are harmless, which are worth a look, and how they begin.

A few of each directory and extension are read, and a hundred in all, whoever asks for them. Only
what `AnnotatedPlace.heads_of` names is read besides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeAlias

from dsprep.errors import BadImage
from dsprep.images.header import read_header, sniff
from dsprep.patterns import pattern
from dsprep.sample import IMAGE_EXTENSIONS, OTHER_IMAGES
from dsprep.sources.kind import HEAD
from dsprep.sources.unread import MAY_BE, text_of
from dsprep.storage.files import open_file, results
from dsprep.units import extension_in

if TYPE_CHECKING:
    from dsprep.places.files import Files

Groups: TypeAlias = Mapping[tuple[str, str], Sequence[str]]
"""Files by directory and extension."""

HEADS_OF_GROUP, HEADS = 3, 100  # files whose heads are read: of a directory and extension, in all
_FURTHER = 16  # more of them, if the first ones are empty
_LARGEST = 1 << 26  # bytes of a file in an archive, which is read whole

NAMING = frozenset(
    {".caption", ".csv", ".tsv", ".txt", ".lst", ".list", ".dat", ".json", ".jsonl", ".mat"}
    | {".token", ".manifest", ".odgt"}  # of Flickr; of SageMaker; of CrowdHuman
)
"""Extensions of files that may name images."""

_PHOTOGRAPHS = r"jpe?g|png|heic|webp|gif|mp4|mov|tiff?"
_WORDS_OF_TEXTS = r"readme|licen[sc]es?|copying|notices?|authors|citation|changelog|contributing"
# `README.dataset.txt` and `LICENSE-MIT`; what `license_plate_1.txt` and `license-plates.txt` are,
# their content tells
_TEXTS = (
    rf"(?:{_WORDS_OF_TEXTS})(?:\.[^/]*|[^\w./][^/.]*)?"
    r"(?<!\.csv)(?<!\.tsv)(?<!\.lst)(?<!\.json)(?<!\.jsonl)"
)
_HARMLESS_NAMES = (
    _TEXTS,
    r"(?:makefile|dockerfile)[^/]*",
    r"[^/]*\.(?:md|rst|html?|css|js|py|pyc|ipynb|sh|bat|ps1|toml|cfg|ini|log|pdf|docx?|url)",
    r"[^/]*\.(?:md5|sha1|sha256|sha512|sfv|crc32?)(?:sums?)?(?:\.txt)?",
    r"(?:md5|sha\d+)sums?[^/]*",
    # files that cameras and photo editors write beside images
    r"[^/]*\.(?:xmp|aae|thm|mov|cr2|cr3|nef|arw|dng|raf|rw2|orf|pp3|dop)",
    # copies that ExifTool and editors make, and GDAL's smaller versions of a TIFF
    rf"[^/]*\.(?:{_PHOTOGRAPHS})(?:_original|~)|[^/]*\.tiff?\.ovr",
    # what Google Takeout puts beside photographs, and Supervisely into a directory `ann`
    rf"(?<!\bann/)[^/]*\.(?:{_PHOTOGRAPHS})(?:\.supp[a-z-]*)?(?:\(\d+\))?\.json",
    r"(?:metadata|print-subscriptions|shared_album_comments)\.json",
    r"user-generated-memory-titles\.json",
    r"sample_?submission[^/]*\.csv",
    r"(?:@eaDir|__MACOSX|\.ipynb_checkpoints)(?:/.*)?",
    r"Thumbs\.db|desktop\.ini",
    # dsprep's own
    r"(?:[^/]+[.-])?(?:manifest\.json|(?:rejects|skipped|files)\.jsonl|classes\.txt)",
    r"images\.lst|lists/[^/]+\.lst",
)
_LABELS = pattern(
    r'"(?:labels?|class(?:es|_name)?|categor(?:y|ies)|annotations?|objects?|shapes|bbox|boxes|captions?'
    r'|texts?|keypoints|tags|attributes)"\s*:'
)
_PIXELS = pattern(r"(?i)(?:\bpixel_?\d+[\"',]+){3}")
_IN_A_CELL = pattern(r"\bpixels\b")  # of FER2013


def _is_of_takeout(text: str) -> bool:
    return '"title"' in text and _LABELS.search(text) is None


def _has_one_label(text: str) -> bool:
    """Return whether a list has one label for all: no labels are known, or one class is."""
    cells = [line.split("\t")[1:-1] for line in text.split("\n")[:-1]]
    return all(each == cells[0] for each in cells)


_HARMLESS = pattern(rf"(?i)(?:^|/)(?:{'|'.join(_HARMLESS_NAMES)})$")
_TEXT = pattern(rf"(?i)(?:^|/)(?:{_TEXTS})$")


def _named(end: str) -> re.Pattern[str]:
    return pattern(rf"(?i)(?:{end})$")


# Names that somebody else may have given a file with labels, and what tells that the file is what
# its name says.
_TOLD_BY_HEAD: Sequence[tuple[re.Pattern[str], Callable[[str], object]]] = (
    (_named(rf"\.(?:{_PHOTOGRAPHS})\b[^/]*\.json|metadata\.json"), _is_of_takeout),
    (_named(r"manifest\.json"), pattern(r'^\s*\{\s*"dsprep_manifest"').search),
    (_named(r"(?:rejects|skipped|files)\.jsonl"), pattern(r'^(?:\{"(?:path|kind)": |$)').search),
    (_named(r"\.lst"), _has_one_label),
)


# By names


def is_harmless(path: str) -> bool:
    """Return whether nobody would miss a file of this name, such as a license."""
    return _HARMLESS.search(path) is not None


def may_be_of_image(path: str) -> bool:
    """Return whether a file of a harmless name has labels if an image has its stem."""
    return _TEXT.search(path) is not None and extension_in(path) in NAMING | {".xml"}


def needs_a_look(path: str) -> bool:
    """Return whether a file of a harmless name may have labels nevertheless."""
    return any(name.search(path) for name, _ in _TOLD_BY_HEAD)


def is_what_it_says(path: str, head: bytes) -> bool:
    """Return whether a file begins like what its harmless name says."""
    text = text_of(head)
    return all(test(text) for name, test in _TOLD_BY_HEAD if name.search(path))


# By content


def group_of(path: str) -> tuple[str, str]:
    """Return the directory and the extension of a file."""
    return path.rpartition("/")[0], extension_in(path)


def groups_of(paths: Iterable[str]) -> Groups:
    """Return the files that may have annotations by directory and extension.

    The largest groups come first.
    """
    return _grouped(path for path in paths if may_have_annotations(path))


def groups_with_others(paths: Iterable[str]) -> Groups:
    """Return what `groups_of` does, and then the files that only their content tells to be images.

    Files that may have annotations come first, also within a group.
    """
    found = list(paths)
    groups = dict(groups_of(found))
    others = (path for path in found if not may_have_annotations(path))
    others = (path for path in others if not _is_named_as_image(path))
    for group, own in _grouped(others).items():
        groups[group] = [*groups.get(group, ()), *own]
    return groups


def may_have_annotations(path: str) -> bool:
    """Return whether the name of a file says that it may have annotations, or name images."""
    return extension_in(path) in NAMING or MAY_BE.search(path) is not None


def _is_named_as_image(path: str) -> bool:
    extension = extension_in(path)[1:]
    return extension in IMAGE_EXTENSIONS or extension in OTHER_IMAGES


def _grouped(paths: Iterable[str]) -> Groups:
    groups: dict[tuple[str, str], list[str]] = {}
    for path in paths:
        groups.setdefault(group_of(path), []).append(path)
    return dict(sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])))


def begins_like_image(head: bytes) -> bool:
    """Return whether a file begins like an image that dsprep decodes."""
    kind = sniff(head)
    if kind not in ("bmp", "ppm"):
        return kind is not None
    # A text may begin with `BM` or `P1` as well.
    try:
        read_header(head)
    except BadImage:
        return False
    return True


def pixel_columns(path: str, head: bytes) -> str:
    """Return how `--pixel-columns` names those of a table, as Kaggle's MNIST has; else nothing."""
    first = text_of(head).partition("\n")[0] if extension_in(path) == ".csv" else ""
    return "pixel*" if _PIXELS.search(first) else "pixels" if _IN_A_CELL.search(first) else ""


def read_heads(
    root: str, files: Files, groups: Groups, only: re.Pattern[str] | None = None, limit: int = HEADS
) -> dict[str, bytes]:
    """Read how the files worth a look begin; those that cannot be read are left out.

    What was read once is kept in `Files.heads`.

    Args:
        root: What the paths are below.
        files: All files there, as they were listed.
        groups: Those that may be looked into.
        only: Names of the files to read now; the others stay to be read later.
        limit: How many heads may be read of all files there, in all.
    """
    if not groups:
        return {}
    if files.archive is not None:  # each look into a compressed archive may unpack all of it
        only = None
    some = islice(_chosen(groups, _known(root, files)), limit)
    chosen = [path for path in some if only is None or only.search(path)]
    heads = _heads(root, files, chosen, limit)
    # An empty file tells nothing: it may be that of an image without objects.
    telling = {group_of(path) for path, head in heads.items() if head.strip()}
    silent = [group for group in dict.fromkeys(map(group_of, heads)) if group not in telling]
    own = (groups[group] for group in silent if group in groups)
    further = (paths[:: len(paths) // _FURTHER + 1] for paths in own)
    return heads | _heads(root, files, list(chain.from_iterable(further)), limit)


def _chosen(groups: Groups, known: Collection[str]) -> Iterator[str]:
    """Yield files whose heads show what those of their directory and extension are.

    These are the first of each group, the largest first; then the last, and one between them.
    Files whose heads are known count.
    """
    seen: dict[tuple[str, str], set[str]] = {group: set() for group in groups}
    for path in known:
        if path in groups.get(group_of(path), ()):
            seen[group_of(path)].add(path)
            yield path
    for share in (0, 1, 0.5):
        for group, own in groups.items():
            path = own[int(share * (len(own) - 1))]
            if len(seen[group]) < HEADS_OF_GROUP and path not in seen[group]:
                seen[group].add(path)
                yield path


def _known(root: str, files: Files) -> list[str]:
    """Return the files below a directory whose heads were read before."""
    known = files.heads or {}
    if files.archive is None:
        top = f"{root.rstrip('/')}/"
        return [path.removeprefix(top) for path in known if path.startswith(top)]
    assert files.others is not None
    offsets = files.others["offset"].cast(str)
    return files.others.filter(offsets.is_in(list(known)))["path"].to_list()


def _heads(root: str, files: Files, paths: Sequence[str], limit: int) -> dict[str, bytes]:
    """Return how files begin, as far as heads may be read."""
    known = {} if files.heads is None else files.heads
    read = _of_archive if files.archive is not None else _of_directory
    return read(root, files, list(dict.fromkeys(paths)), known, limit)


def _of_directory(
    root: str, files: Files, paths: Sequence[str], known: dict[str, bytes], limit: int
) -> dict[str, bytes]:
    there = {path: f"{root.rstrip('/')}/{path}" for path in paths}
    new = [full for full in there.values() if full not in known]
    new = new[: max(0, limit - len(known))]
    read = zip(new, results(root, head_of, new), strict=True)
    known |= {full: head for full, head in read if head is not None}
    return {path: known[full] for path, full in there.items() if full in known}


def _of_archive(
    root: str, files: Files, paths: Sequence[str], known: dict[str, bytes], limit: int
) -> dict[str, bytes]:
    assert files.archive is not None
    assert files.others is not None
    top = f"{files.top}/" if files.top else ""
    tried = [name for path in paths for name in (top + path, path)]
    small = (files.others["size"] <= _LARGEST) & files.others["path"].is_in(tried)
    rows = files.others.filter(small).select("path", "offset", "stored", "size")
    places = {name: place for name, *place in rows.iter_rows()}
    found = {path: places.get(top + path) or places.get(path) for path in paths}
    wanted = sorted(place for place in found.values() if place is not None)
    new = [tuple(place) for place in wanted if str(place[0]) not in known]
    new = new[: max(0, limit - len(known))]
    # Also for no members, an archive would be opened.
    contents = zip(new, files.archive.reader.members(new), strict=True) if new else ()
    known |= {str(at): data[:HEAD] for (at, *_), data in contents if isinstance(data, bytes)}
    own = ((path, known.get(str(place[0]))) for path, place in found.items() if place is not None)
    return {path: head for path, head in own if head is not None}


def head_of(path: str) -> bytes | None:
    """Read how a file begins; None if it cannot be read."""
    try:
        with open_file(path) as file:
            return file.pread(HEAD, 0)
    except OSError:
        return None
