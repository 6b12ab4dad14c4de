"""Captions of Flickr8k, Flickr30k and the like, as a kind of annotations: which files they are."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.patterns import pattern
from dsprep.places.names import usual_side
from dsprep.sources.annotation_kind import (
    LOOKED_AT,
    AnnotatedPlace,
    AnnotationKind,
    DirectoryAbove,
    NamedPath,
)
from dsprep.sources.kind import HEAD, Claim, Sure
from dsprep.sources.unread import text_of
from dsprep.storage.files import entries, open_file
from dsprep.tuples import NamedTuple

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

# JSON that is called like COCO's need not be opened.
_FILES = pattern(
    r"\.(?:token|txt|csv|tsv)$|(?:^|/)(?!instances|person_keypoints|captions|_anno)[^/]*\.json$",
    re.IGNORECASE,
)
_SPLITS = pattern(r"(?:^|/)flickr_?8k\.(train|dev|test)images\.txt$", re.IGNORECASE)
_LEMMAS = pattern(r"\.lemma\.token(?:\.txt)?$", re.IGNORECASE)  # the same in basic forms
_TABLE = pattern(r"(?:captions?|results)[^/]*\.(?:txt|csv|tsv)$", re.IGNORECASE)
_NUMBERED = pattern(r"[^\t]*\.\w+#\d+\t.*\S.*")
_RATINGS = pattern(r"(?:^|/)(?:CrowdFlower|Expert)Annotations\.txt$")
_TEXTS_OF_FLICKR = "flickr8k_text"  # the directory of its download, in lower case
_NAMED = pattern(r"\.token(?:\.txt)?$|^captions\.txt$", re.IGNORECASE)
_KARPATHY = (r'"images"\s*:', r'"sentences"\s*:')
_HEADER = pattern(
    r'"?(?:image|image_name|filename|file_name)"?\s*([,|\t])'
    r'\s*(?:"?comment_number"?\s*\1\s*)?"?(?:caption|comment)"?\s*',
    re.IGNORECASE,
)
_ROWS = 5  # lines that have to look alike


class _CaptionFiles(NamedTuple):
    """The files of captions in a place."""

    captions: Mapping[str, str]  # what each is
    lists: Mapping[str, str]  # the side of each list of images
    others: Sequence[str]  # that are not read


class CaptionFilesKind(AnnotationKind):
    """Texts or tables with a row for each caption, several for an image, and Karpathy's JSON."""

    names: ClassVar = ("captions",)
    words: ClassVar = "captions"
    help: ClassVar = "captions of Flickr"
    contents: ClassVar = (
        "captions of Flickr8k and Flickr30k: `.token` files, CSV of `image,caption`, Karpathy's "
        "JSON with its sides; the sides of `Flickr_8k.trainImages.txt`"
    )
    not_read: ClassVar = "tokens and ids of sentences, lemmas, ratings of captions"
    example: ClassVar = "dsprep pack flickr30k shards --to webdataset"
    file_names: ClassVar = ("captions.txt",)
    texts: ClassVar = _FILES
    takes_several: ClassVar = True
    takes_members: ClassVar = True
    directories: ClassVar = ("images", "flickr8k_dataset", "flicker8k_dataset", "flickr30k_images")

    def is_own(self, path: str, head: bytes) -> bool:
        return form_of(path, head) != ""

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        heads = place.heads(_FILES)
        found = min((path for path in heads if self.is_own(path, heads[path])), default="")
        return Claim(Sure.MARKED, found) if found else None

    def read_in_archive(self, place: AnnotatedPlace) -> Sequence[str]:
        found = _files(place.heads(_FILES), place.others)
        return [*found.captions, *found.lists]

    def found_above(self, above: DirectoryAbove) -> str:
        beside = [*above.entries.values(), *above.inside(_TEXTS_OF_FLICKR)]
        return min((each.path for each in beside if _NAMED.search(each.name)), default="")

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.caption_files import scan_captions

        if place.named:
            named = [_files_named(place, path) for path in place.named]
            captions = {path: form for each in named for path, form in each.captions.items()}
            lists = {path: side for each in named for path, side in each.lists.items()}
            return scan_captions(source, place, captions, lists)
        found = _files(place.heads(_FILES), place.others)
        captions, lists = (
            {posixpath.join(source.root, path): own[path] for path in own}
            for own in (found.captions, found.lists)
        )
        scan = scan_captions(source, place, captions, lists)
        said = "is not read: the captions of the images are others"
        findings = [Finding("not-read", path, f"{path} {said}") for path in found.others]
        return scan._replace(findings=[*scan.findings, *findings], used=[*scan.used, *found.others])


def _files(heads: Mapping[str, bytes], paths: Iterable[str]) -> _CaptionFiles:
    """Return the files to read, and others that Flickr has beside them.

    Args:
        heads: How some files begin; they may have captions.
        paths: All files there.
    """
    forms = {path: form_of(path, head) for path, head in heads.items()}
    own = {path: form for path, form in forms.items() if form}
    # Karpathy's JSON has the captions of the others, and the sides.
    best = [path for path in own if own[path] == "json"]
    best = best or [path for path in own if not _LEMMAS.search(path)] or [*own]
    beside = {posixpath.dirname(path) for path in own}
    near = [path for path in paths if posixpath.dirname(path) in beside]
    sides, is_told = _lists_among(near), any(own[path] == "json" for path in best)
    lists = {} if is_told else sides
    others = sorted({*own, *filter(_RATINGS.search, near), *sides}.difference(best, lists))
    return _CaptionFiles({path: own[path] for path in best}, lists, others)


def _lists_among(paths: Iterable[str]) -> Mapping[str, str]:
    """Return the lists of the images of a side among some files, with the side."""
    found = ((path, _SPLITS.search(path)) for path in paths)
    return {path: usual_side(list[1].lower()) for path, list in found if list is not None}


def _files_named(place: AnnotatedPlace, named: NamedPath) -> _CaptionFiles:
    """Return the files that the user names by one path, with the lists of sides beside them."""
    if named.is_dir:
        paths = [entry.path for entry in islice(entries(named.path), LOOKED_AT)]
        found = _files(_read_heads(filter(_FILES.search, paths)), paths)
        if not found.captions:
            raise SourceError(f"{named.path}: has no file with captions that dsprep knows")
        return found
    path, form = named.path, form_of(named.path, named.head.encode())
    if named.member:
        path, top = posixpath.join(place.root, named.member), posixpath.dirname(named.member)
        near = (each for each in place.others if posixpath.dirname(each) == top)
        beside = [posixpath.join(place.root, each) for each in near]
        if not named.head:  # a large file in an archive, whose name has to tell
            form = "json" if named.extension == ".json" else "numbered"
    else:
        inside = islice(entries(posixpath.dirname(path) or "."), LOOKED_AT)
        beside = [entry.path for entry in inside]
    if not form:
        raise SourceError(f"{path}: has no captions that dsprep knows")
    return _CaptionFiles({path: form}, {} if form == "json" else _lists_among(beside), ())


def _read_heads(paths: Iterable[str]) -> Mapping[str, bytes]:
    found = dict[str, bytes]()
    for path in sorted(paths):
        with open_file(path) as file:
            found[path] = file.pread(HEAD, 0)
    return found


def form_of(path: str, head: bytes) -> str:
    """Return what a file of captions is: ``numbered``, ``table`` or ``json``; empty for others."""
    text = text_of(head)
    if path.lower().endswith(".json"):
        is_own = text.lstrip().startswith("{") and all(re.search(each, text) for each in _KARPATHY)
        return "json" if is_own else ""
    lines = [line.rstrip("\r") for line in text.split("\n")]
    lines = lines[:-1] if len(lines) > 1 else lines
    if lines and _TABLE.search(path) and _HEADER.fullmatch(lines[0]):
        return "table"
    rows = [line for line in lines if line.strip()][:_ROWS]
    return "numbered" if rows and all(map(_NUMBERED.fullmatch, rows)) else ""
